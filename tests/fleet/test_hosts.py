"""hosts.toml is read strictly, says what is wrong and what to type, and holds no password."""

from pathlib import Path

import pytest

from pytest_hwperf.fleet.hosts import machine_of, read_hosts
from pytest_hwperf.records.errors import UsageProblem

WHOLE = """
[[host]]
address = "10.0.0.7"
kind = "arm64"
user = "ci"
port = 2222
key = "keys/ci"
known_hosts = "known_hosts"
python = "/opt/env/bin/python"
price_per_hour = 0.35

[[host]]
address = "jetson.example"
kind = "jetson"
"""


def write(tmp_path: Path, text: str) -> str:
    file = tmp_path / "hosts.toml"
    file.write_text(text, encoding="utf-8")
    return str(file)


def test_hosts_are_read_with_their_files_beside_the_list(tmp_path: Path) -> None:
    first, second = read_hosts(write(tmp_path, WHOLE))
    assert ("10.0.0.7:2222", "arm64", "10.0.0.7") == (first.host.name, first.host.kind, first.host.machine)
    assert (str(tmp_path / "keys" / "ci"), str(tmp_path / "known_hosts")) == (first.key, first.known_hosts)
    assert ("ci", 2222, "/opt/env/bin/python", 0.35) == (first.user, first.port, first.python, first.price_per_hour)
    found = (second.host.name, second.port, second.key, second.python, second.price_per_hour)
    assert ("jetson.example", 22, "", "python3", None) == found
    assert not first.is_local
    assert not first.is_loopback


def test_local_hosts_are_numbered_and_share_this_machine(tmp_path: Path) -> None:
    entries = read_hosts(write(tmp_path, '[[host]]\naddress = "local"\nkind = "a"\n' * 3))
    assert ["local", "local #2", "local #3"] == [one.host.name for one in entries]
    assert {"local"} == {one.host.machine for one in entries}
    assert all(one.is_local and one.is_loopback for one in entries)


def test_all_addresses_of_loopback_are_this_machine() -> None:
    machines = {"127.0.0.3": "local", "::1": "local", "localhost": "local", "10.0.0.7": "10.0.0.7", "Box": "box"}
    assert machines == {address: machine_of(address) for address in machines}


HOST = '[[host]]\naddress = "a"\nkind = "k"\n'


WRONG = [
    ("host = 1", "names no host, or more than 1000: write, for each of them, [[host]]"),
    ("", "names no host"),
    ("a = [", "is no TOML"),
    (f"a = {'[' * 9000}", "is no TOML"),
    (f"a = {'9' * 9000}", "is no TOML"),
    (f"{'a.' * 60}a = 1", "is no TOML (over 50 dots in a line)"),
    ("[[hosts]]\n", "unknown key 'hosts'. Did you mean 'host'?"),
    ('[[host]]\naddress = "a"\n', "host 1: kind is missing"),
    ('[[host]]\nkind = "a"\n', "host 1: address is missing"),
    (HOST + 'adress = "b"\n', "unknown key 'adress'. Did you mean 'address'? Allowed: address, kind, user"),
    (HOST + 'password = "b"\n', "Passwords are for no file: SSH takes keys, or an agent."),
    (HOST + "user = 3\n", 'user is a text without control characters, such as user = "…"'),
    (HOST + 'user = "\\u0007"\n', "user is a text"),
    (HOST + 'user = "-oProxyCommand=id"\n', "user '-oProxyCommand=id' begins with -, as an option of a program does"),
    (HOST + 'python = "-oProxyCommand=id"\n', "python '-oProxyCommand=id' begins with -"),
    ('[[host]]\naddress = "a@b"\nkind = "k"\n', "'a@b' is no address"),
    ('[[host]]\naddress = "a\'b"\nkind = "k"\n', "is no address"),
    ('[[host]]\naddress = "-a"\nkind = "k"\n', "'-a' is no address"),
    ('[[host]]\naddress = "a"\nkind = "3"\n', "'3' is no kind of machine"),
    ('[[host]]\naddress = "a"\nkind = "k/2"\n', "divide the rate with hwperf fleet --split-alpha"),
    (HOST + "port = 0\n", "port is a whole number from 1 to 65535"),
    (HOST + "port = true\n", "port is a whole number"),
    (HOST + "price_per_hour = 0\n", "price_per_hour is a number above 0"),
    (HOST + "price_per_hour = nan\n", "price_per_hour is a number above 0"),
    (HOST + HOST, "a stands there twice: a host runs one gate at a time, give it once"),
    (HOST + '[[host]]\naddress = "local"\nkind = "k"\n', "give all of them by SSH, or all of them local"),
    (
        HOST + 'price_per_hour = 1\n[[host]]\naddress = "b"\nkind = "k"\n',
        "hosts of kind k have different prices: give all of them the same",
    ),
    ("#" * (1 << 20) + "\n", "larger than 1"),
]


def refusal(file: str) -> str:
    with pytest.raises(UsageProblem) as caught:
        read_hosts(file)
    return str(caught.value)


def test_what_is_wrong_is_named(tmp_path: Path) -> None:
    refusals = [(refusal(write(tmp_path, text)), said) for text, said in WRONG]
    assert [] == [(found, said) for found, said in refusals if said not in found or "hosts.toml" not in found]
    assert "cannot be read" in refusal(str(tmp_path / "none.toml"))
