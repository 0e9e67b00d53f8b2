"""What Alembic runs to migrate: it is given the connection, in whose transaction everything happens."""

from alembic import context

from pytest_hwperf.stores.sql.tables import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"], version_table=VERSION_TABLE, transactional_ddl=True
)
with context.begin_transaction():
    context.run_migrations()
