"""Shards: parts of a suite that are run apart, on any machines; each test belongs to exactly one of them.

Which one follows from the name of the test alone, so that no shard has to know what the others have collected. The
false-alarm rate is divided among all shards in equal parts, whatever each of them turns out to hold.
Why the rate holds: docs/statistics.md.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping

from pytest_hwperf.core.errors import UsageProblem
from pytest_hwperf.core.structs import Count, ErrorRate, Record

MOST_SHARDS = 256


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

    def __post_init__(self) -> None:
        """Refuse a number that no shard has."""
        if not 1 <= self.number <= self.of <= MOST_SHARDS:
            raise ValueError(f"no shard has the number {self.number} of {self.of}")


def parse_shard(text: str) -> tuple[int, int] | None:
    """Turn `2/4`, the second of four shards, into (2, 4); "" into None.

    Raises:
        UsageProblem: no such shard.
    """
    if not text:
        return None
    match = re.fullmatch(r"\s*(\d{1,6})\s*/\s*(\d{1,6})\s*", text, re.ASCII)
    number, of = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= of <= MOST_SHARDS:
        raise UsageProblem(f"{text!r} is no shard: K/N, with K from 1 to N and N up to {MOST_SHARDS}, such as 2/4")
    return number, of


def shard_of(name: str, of: int) -> int:
    """Return the number of the shard that a test belongs to, from 1.

    Args:
        name: of the test, or of those that stay together.
        of: number of shards.
    """
    return int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8]) % of + 1


def selection_of(tests: Iterable[str]) -> str:
    """Return the digest of the node ids of a selection, whatever their order."""
    lines = "\n".join(sorted(tests))
    return hashlib.sha256(lines.encode(errors="surrogatepass")).hexdigest()
