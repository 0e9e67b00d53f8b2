"""What `--hwperf-store` and `hwperf baseline accept --store` take."""

from pathlib import Path

import pytest

from pytest_hwperf.stores.location import locate

ROOT = Path("/project")


@pytest.mark.parametrize(
    ("url", "located"),
    [
        ("json:.hwperf", ("json", "/project/.hwperf")),
        (".hwperf", ("json", "/project/.hwperf")),
        ("json:/shared/runs", ("json", "/shared/runs")),
        ("/shared/runs", ("json", "/shared/runs")),
        ("/shared/a:b", ("json", "/shared/a:b")),
        ("C:runs", ("json", "/project/C:runs")),
        ("sql:runs.db", ("sql", "runs.db")),
        ("postgresql+psycopg://host/runs", ("postgresql+psycopg", "//host/runs")),
    ],
)
def test_a_scheme_or_a_folder_is_read(url: str, located: tuple[str, str]) -> None:
    assert located == locate(url, ROOT)


@pytest.mark.parametrize("url", ["", "json:", "sql:"])
def test_no_place_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=f"'{url}' names no place. Give a folder, such as json:.hwperf"):
        locate(url, ROOT)
