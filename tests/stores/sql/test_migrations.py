"""The schema of each database is as agreed, and one step makes it."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("alembic", reason="SQLAlchemy and Alembic are not installed")

from alembic.script import ScriptDirectory

from pytest_hwperf.stores.sql import tables


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_schema_is_written_as_agreed(golden: Callable[[str, bytes], None], kind: str) -> None:
    """By the statements that the migration sends."""
    from sqlalchemy import create_mock_engine, make_url

    sent, dialect = list[str](), make_url(f"{kind}://").get_dialect()()
    engine = create_mock_engine(f"{kind}://", lambda one, *_, **__: sent.append(str(one.compile(dialect=dialect))))
    tables.metadata().create_all(engine, checkfirst=False)

    lines = [line.rstrip() for one in sorted(sent) for line in f"{one.strip()};".splitlines()]
    golden(f"sql/{kind}.sql", "".join(f"{line}\n" for line in lines).encode())


def test_the_schema_is_the_only_step() -> None:
    script = ScriptDirectory(str(Path(tables.__file__).parent / "migrations"))
    assert [step.revision for step in script.walk_revisions()] == [tables.VERSION]
