"""What `--hwperf-store` and `hwperf baseline accept --store` take."""

from itertools import product
from pathlib import Path

import pytest

from pytest_hwperf.stores.location import locate

ROOT = Path("/project")


LOCATED = [
    ("json:.hwperf", ("json", "/project/.hwperf")),
    (".hwperf", ("json", "/project/.hwperf")),
    ("json:/shared/runs", ("json", "/shared/runs")),
    ("/shared/runs", ("json", "/shared/runs")),
    ("/shared/a:b", ("json", "/shared/a:b")),
    ("C:runs", ("json", "/project/C:runs")),
    ("shelf:runs", ("shelf", "runs")),
    ("sql:sqlite:///team.db", ("sql", "sqlite:////project/team.db")),
    ("sql:sqlite:////shared/team.db", ("sql", "sqlite:////shared/team.db")),
    ("sql:postgresql://host/runs", ("sql", "postgresql+psycopg://host/runs")),
    ("sql:postgresql+psycopg:///?service=team", ("sql", "postgresql+psycopg:///?service=team")),
    (
        "sql:postgresql+psycopg://me@host:5433/runs?sslmode=verify-full&sslrootcert=/ca.pem",
        ("sql", "postgresql+psycopg://me@host:5433/runs?sslmode=verify-full&sslrootcert=/ca.pem"),
    ),
    ("postgresql+psycopg://host/runs", ("postgresql+psycopg", "//host/runs")),
]


def test_a_scheme_or_a_folder_is_read() -> None:
    assert LOCATED == [(url, locate(url, ROOT)) for url, _ in LOCATED]


NO_PLACES = [
    (["", "json:", "shelf:"], "names no place. Give a folder, such as json:.hwperf"),
    (["sql:sqlite:///:memory:", "sql:sqlite:////:memory:", ":memory:", "json::memory:"], "would be gone with this"),
    (["sql:", "sql:team.db", "sql:sqlite://", "sql:sqlite:///"], "Give a file, as sql:sqlite:///team"),
    (["sql:sqlite://team.db", "sql:mysql://me:secret@host/runs"], "Give a file, as sql:sqlite:///team"),
]
PASSWORDS = [
        "me:secret@host/runs", "me:sec@ret@host/runs", ":secret@host", "me:@host/runs", "me:sec/ret@host/runs",
        "me:sec#ret@host/runs", "host/runs?password=secret", "host/runs?PASSWORD=secret", "host/runs?%70assword=secret",
        "host/runs?sslpassword=secret", "me:secret@[::1/runs",
    ]  # fmt: skip
NO_URLS = ["host:port/runs", "me:sec?ret@host/runs", "[::1/runs", "host:0/runs", "host/runs#x"]


def test_what_is_no_place_or_no_database_is_refused() -> None:
    for url, said in ((url, said) for urls, said in NO_PLACES for url in urls):
        with pytest.raises(ValueError, match=said) as raised:
            locate(url, ROOT)
        assert "secret" not in str(raised.value)


def test_a_password_is_refused_and_not_repeated() -> None:
    """The command line stands in the list of processes, and messages in logs."""
    for kind, rest in product(("postgresql", "postgresql+psycopg"), PASSWORDS):
        with pytest.raises(ValueError, match=r"give it in PGPASSWORD, in ~/\.pgpass or in a service file") as raised:
            locate(f"sql:{kind}://{rest}", ROOT)
        assert not {"sec", "ret", "secret"} & {*str(raised.value).replace(".", " ").split()}
        assert "me:" not in str(raised.value)


def test_what_is_no_url_is_refused_and_not_repeated() -> None:
    told = r"it is no URL\. Give sql:postgresql\+psycopg://user@host:5432/name"
    for rest in NO_URLS:
        with pytest.raises(ValueError, match=told) as raised:
            locate(f"sql:postgresql://{rest}", ROOT)
        assert rest not in str(raised.value)
