"""Shards: parts of a suite that are run apart, on any machines; each test belongs to exactly one of them.

Which one follows from the name of the test alone, so that no shard has to know what the others have collected. The
false-alarm rate is divided among all shards in equal parts, whatever each of them turns out to hold.
Why the rate holds: docs/statistics.md.

A build may also be run whole on several kinds of machine. Each kind then has shards of its own, at least one, and the
rate holds on each of them, or is divided among them too.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.structs import Count, ErrorRate, Record

MOST_SHARDS = 256
MOST_KINDS = 100
_KIND = r"[A-Za-z][A-Za-z0-9._-]{0,39}"  # no number, which is a number of kinds; nothing that has a meaning elsewhere


class Shard(Record, frozen=True, kw_only=True):
    """One shard of a build: what it was given, and how it ended."""

    number: Count  # from 1
    of: Count  # shards of the build
    alpha: ErrorRate  # false-alarm rate of all shards together
    selected: Count  # tests that were selected, of all shards
    selection: str  # SHA-256 of their node ids; "" where it is not known
    settings: Mapping[str, str]  # option → value, of those on which verdicts depend: alike in all shards
    exit_code: Count  # of this session of pytest
    failed: tuple[str, ...] = ()  # node ids of tests that failed, by a verdict or by themselves
    kind: str = ""  # of the machine, as its user calls it; "" where the build is for one kind
    kinds: Count = 1  # of machines that the false-alarm rate is divided among

    def __post_init__(self) -> None:
        """Refuse a number that no shard has, and what is no name of a kind."""
        if not 1 <= self.number <= self.of <= MOST_SHARDS:
            raise ValueError(f"no shard has the number {self.number} of {self.of}")
        if not 1 <= self.kinds <= MOST_KINDS or (self.kind and not re.fullmatch(_KIND, self.kind)):
            raise ValueError(f"no kind of machine is called {self.kind[:100]!r}, of {self.kinds}")

    @property
    def own_alpha(self) -> float:
        """The part of the false-alarm rate that this shard may spend."""
        return self.alpha / self.of / self.kinds


def parse_shard(text: str) -> tuple[int, int] | None:
    """Turn `2/4`, the second of four shards, into (2, 4); "" into None."""
    if not text:
        return None
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text, re.ASCII)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of <= MOST_SHARDS:
        raise UsageProblem(f"{text!r} is no shard: K/N, with K from 1 to N and N up to {MOST_SHARDS}, such as 2/4")
    return number, of


def parse_kind(text: str) -> tuple[str, int] | None:
    """Turn `arm` into ("arm", 1), `arm/3`, one of three kinds that share the rate, into ("arm", 3); "" into None."""
    if not text:
        return None
    match = re.fullmatch(rf"({_KIND})(?:/(\d{{1,6}}))?", text, re.ASCII)
    kinds = int(match[2] or 1) if match else 0
    if match is None or not 1 <= kinds <= MOST_KINDS:
        raise UsageProblem(
            f"{text!r} is no kind of machine: a letter, then up to 39 letters, digits, '.', '_' or '-', such as arm64; "
            f"with /N, up to {MOST_KINDS}, where N kinds share the false-alarm rate"
        )
    return match[1], kinds


def parse_kinds(text: str) -> tuple[tuple[str, ...], int]:
    """Turn `arm,x86`, the kinds that a build is for, into (("arm", "x86"), 2), and `2` into ((), 2)."""
    if text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_KINDS:
        return (), int(text)
    names = tuple(name.strip() for name in text.split(","))
    wrong = [name for name in names if not re.fullmatch(_KIND, name)]
    if wrong or len(set(names)) < len(names) or len(names) > MOST_KINDS:
        raise UsageProblem(f"{text!r}: the names of different kinds of machine, such as arm64,x86, or their number")
    return names, len(names)


def shard_of(name: str, of: int) -> int:
    """Return the number of the shard that a test belongs to, from 1."""
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8]) % of + 1


def selection_of(tests: Iterable[str]) -> str:
    """Return the digest of the node ids of a selection, whatever their order."""
    lines = "\n".join(sorted(tests))
    return hashlib.sha256(lines.encode(errors="surrogatepass")).hexdigest()
