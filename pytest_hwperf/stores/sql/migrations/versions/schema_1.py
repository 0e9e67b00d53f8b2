"""The tables of schema 1, which was released and never changes: the next schema is a file of its own."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1", None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # which SQLite takes for the number of the row
_TEXT, _COUNT = sa.Text(), sa.BigInteger()
_FLOAT: sa.Double[float] = sa.Double()


def _id() -> sa.Column[int]:
    return sa.Column("id", _ID, primary_key=True, autoincrement=False)


def _key() -> sa.Column[str]:
    return sa.Column("key", _TEXT, nullable=False, unique=True)


def _of(table: str) -> sa.Column[int]:
    """Return a reference; what belongs to a baseline or a run goes with it."""
    kept = sa.ForeignKey(f"{table}.id", ondelete="CASCADE" if table in ("baseline", "run") else None)
    return sa.Column(f"{table}_id", _ID, kept, nullable=False)


def _part_of_run(name: str, *columns: sa.Column[Any], key: tuple[str, ...] = ("run_id", "place")) -> None:
    """Make a table whose rows lie beside each other for each run."""
    place = sa.Column("place", _COUNT, nullable=False)
    op.create_table(name, _of("run"), place, *columns, sa.PrimaryKeyConstraint(*key), sqlite_with_rowid=False)


def _columns(names: str, kind: "sa.types.TypeEngine[Any]", *, nullable: bool = False) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name in names.split()]


def upgrade() -> None:
    """Make every table."""
    _make_keys()
    op.create_table(
        "run", _id(), _of("baseline"), *_columns("state started_at revision", _TEXT),
        sa.Column("changed", sa.Boolean(), nullable=False), *_columns("digest record", sa.LargeBinary()),
        sa.UniqueConstraint("digest", "baseline_id"),
    )  # fmt: skip
    op.create_index("run_of_baseline", "run", ["baseline_id", "state", "id"])
    interval = _columns("value low high", _FLOAT, nullable=True)
    _part_of_run("estimate", _of("metric"), *interval, *_columns("n", _COUNT), *_columns("warnings", _TEXT))
    _make_answers()
    op.create_table("annotation", _id(), _key(), *_columns("revision text noted_at", _TEXT))


def _make_keys() -> None:
    """Make the tables of what many rows name."""
    facts, counts = "cpu_model architecture system python record", "cores memory_gb"
    op.create_table("machine", _id(), _key(), *_columns(facts, _TEXT), *_columns(counts, _COUNT))
    op.create_table("test", _id(), _key(), *_columns("name_key name label", _TEXT))
    op.create_index("test_by_name", "test", ["name_key"])
    op.create_table(
        "metric", _id(), _key(), *_columns("name statistic better source per method", _TEXT),
        sa.Column("estimated", sa.Boolean(), nullable=False), *_columns("confidence", _FLOAT, nullable=True),
    )  # fmt: skip
    op.create_table("baseline", _id(), _key(), *_columns("name", _TEXT), _of("test"), _of("machine"))
    op.create_index("baseline_by_name", "baseline", ["name"])
    op.create_index("baseline_of_test", "baseline", ["test_id", "name"])
    op.create_index("baseline_of_machine", "baseline", ["machine_id"])


def _make_answers() -> None:
    """Make the tables of what was compared and judged."""
    interval = _columns("value low high p_value baseline margin", _FLOAT, nullable=True)
    _part_of_run(
        "comparison", _of("metric"), *interval, *_columns("n", _COUNT), *_columns("warnings", _TEXT),
        *_columns("outcome scale against revision", _TEXT), sa.Column("anchored", sa.Boolean(), nullable=False),
    )  # fmt: skip
    _part_of_run(
        "pair", *_columns("number", _COUNT), *_columns("stage", _TEXT),
        *_columns("change baseline candidate preempted", _FLOAT, nullable=True), key=("run_id", "place", "number"),
    )  # fmt: skip
    _part_of_run("verdict", *_columns("outcome reason record", _TEXT), sa.Column("fails", sa.Boolean(), nullable=False))
