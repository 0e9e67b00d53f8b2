"""The hosts of a fleet: `hosts.toml`, read strictly; it holds no password."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from pytest_hwperf.host.files import read_given
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.markers import nearest
from pytest_hwperf.records.report import Host, parse_kind
from pytest_hwperf.records.text import shortened

LOCAL = "local"  # address of this machine, without SSH
_MOST = 1000  # hosts
_LARGEST = 1 << 20  # bytes of the file
_MOST_DOTS = 50  # in one line: the time to read a key grows with the square of its parts
SSH_PORT = 22
_PORTS = 65535
_HIGHEST_PRICE = 1e6
_TEXTS = ("address", "kind", "user", "key", "known_hosts", "python")
_NO_OPTIONS = ("user", "python")  # which stand in a command line by themselves
_KEYS = (*_TEXTS, "port", "price_per_hour")
_EXAMPLE = '[[host]]\\naddress = "10.0.0.7"\\nkind = "arm64"'


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEntry:
    """One host as its user describes it."""

    host: Host
    address: str
    user: str = ""
    port: int = SSH_PORT
    key: str = ""  # file of the private key; "": what SSH takes by itself
    known_hosts: str = ""  # file of the keys of hosts; "": the user's own
    python: str = "python3"  # which has pytest-hwperf[fleet]
    price_per_hour: float | None = None  # in whatever currency

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, and needs no SSH."""
        return self.address == LOCAL

    @property
    def is_loopback(self) -> bool:
        """Whether nothing that is sent to it leaves this machine."""
        return machine_of(self.address) == LOCAL


def read_hosts(file: str) -> list[HostEntry]:
    """Read a file of hosts; refuse a machine twice, and this machine by two ways."""
    path = Path(file)
    try:
        text = read_given(file, _LARGEST, f"give a TOML file with {_EXAMPLE}").decode("utf-8")
        if any(line.count(".") > _MOST_DOTS for line in text.splitlines()):
            raise ValueError(f"over {_MOST_DOTS} dots in a line")  # noqa: TRY301 - as any other text that is no TOML
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageProblem(f"{file} is no TOML ({error}): write, for each host, {_EXAMPLE}") from error
    tables = content.get("host")
    if unknown := [key for key in content if key != "host"]:
        hint = nearest(unknown[0], ["host"])
        raise UsageProblem(f"{file}: unknown key {shortened(unknown[0])}.{hint} Allowed: [[host]]")
    tables = tables if isinstance(tables, list) and all(isinstance(one, dict) for one in tables) else []
    if not 1 <= len(tables) <= _MOST:
        raise UsageProblem(f"{file} names no host, or more than {_MOST}: write, for each of them, {_EXAMPLE}")
    found, prices = list[HostEntry](), dict[str, float | None]()
    for number, table in enumerate(tables, 1):
        one = _entry(table, f"{file}, host {number}", [one.host.name for one in found], path.parent)
        if found and one.is_local != found[0].is_local:
            raise UsageProblem(
                f'{file}: address = "local" and hosts of SSH: give all of them by SSH, or all of them local'
            )
        if not one.is_loopback and "#" in one.host.name:
            raise UsageProblem(
                f"{file}: {one.address} stands there twice: a host runs one gate at a time, give it once"
            )
        if prices.setdefault(one.host.kind, one.price_per_hour) != one.price_per_hour:
            raise UsageProblem(
                f"{file}: hosts of kind {one.host.kind} have different prices: give all of them the same"
            )
        found.append(one)
    return found


def prices_of(entries: Sequence[HostEntry]) -> dict[str, float]:
    """Return the price of an hour of each kind of machine, where it is known."""
    return {one.host.kind: one.price_per_hour for one in entries if one.price_per_hour is not None}


def machine_of(address: str) -> str:
    """Return what tells machines apart: every address of loopback is this one."""
    try:
        return LOCAL if ip_address(address).is_loopback else address
    except ValueError:
        return LOCAL if address in (LOCAL, "localhost") else address.lower()


def _entry(table: Mapping[str, Any], where: str, taken: Sequence[str], folder: Path) -> HostEntry:
    _check_keys(table, where)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._:%-]{0,252}|::1", address := table["address"]):
        raise UsageProblem(f"{where}: {shortened(address)} is no address: a name or a number of a machine, or local")
    try:
        kind = (parse_kind(table["kind"]) or ("", 1))[0]
    except UsageProblem as problem:
        raise UsageProblem(f"{where}: {problem}") from problem
    if "/" in table["kind"]:
        raise UsageProblem(f"{where}: kind is a name without /N; divide the rate with hwperf fleet --split-alpha")
    price, port = table.get("price_per_hour"), table.get("port", SSH_PORT)
    if price is not None and (type(price) not in (int, float) or not 0 < price <= _HIGHEST_PRICE):
        raise UsageProblem(f"{where}: price_per_hour is a number above 0, such as 0.35")
    if type(port) is not int or not 1 <= port <= _PORTS:
        raise UsageProblem(f"{where}: port is a whole number from 1 to {_PORTS}, such as 22")
    name = address if port == SSH_PORT else f"{address}:{port}"
    again = sum(one == name or one.startswith(f"{name} #") for one in taken)
    files = {key: str(folder / Path(table[key]).expanduser()) for key in ("key", "known_hosts") if key in table}
    texts = {key: table[key] for key in ("user", "python") if key in table}
    host = Host(name=f"{name} #{again + 1}" if again else name, kind=kind, machine=machine_of(address))
    return HostEntry(host=host, address=address, port=port, price_per_hour=price, **files, **texts)


def _check_keys(table: Mapping[str, Any], where: str) -> None:
    """Refuse a key that is unknown, missing or of another type."""
    for key in table:
        if key not in _KEYS:
            secret = " Passwords are for no file: SSH takes keys, or an agent." if "pass" in key.lower() else ""
            hint = f"{nearest(key, _KEYS)}{secret} Allowed: {', '.join(_KEYS)}"
            raise UsageProblem(f"{where}: unknown key {shortened(key)}.{hint}")
    for key in ("address", "kind"):
        if key not in table:
            raise UsageProblem(f"{where}: {key} is missing: write {_EXAMPLE}")
    for key in _TEXTS:
        value = table.get(key, "…")
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise UsageProblem(f'{where}: {key} is a text without control characters, such as {key} = "…"')
        if key in _NO_OPTIONS and value.startswith("-"):
            raise UsageProblem(f"{where}: {key} {shortened(value)} begins with -, as an option of a program does")
