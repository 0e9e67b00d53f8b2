"""Schema 1: every table as it is declared. Before a second schema is declared, this one is written out here."""

from alembic import op

from pytest_hwperf.stores.sql.tables import metadata

revision, down_revision = "1", None


def upgrade() -> None:
    """Make every table."""
    metadata().create_all(op.get_bind(), checkfirst=False)
