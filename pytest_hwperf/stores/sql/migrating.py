"""The schema of a database: whether it has one that can be read, and how it gets the newest."""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hwperf.core.errors import StoreError
from pytest_hwperf.core.foreign_text import shortened
from pytest_hwperf.stores.sql.tables import VERSION, VERSION_TABLE, Damaged, metadata

if TYPE_CHECKING:
    from sqlalchemy import Connection


def is_made(connection: "Connection", name: str) -> bool:
    """Whether a database has the schema that this version reads; False of an empty one."""
    from sqlalchemy import inspect

    found = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in found:
        if clash := found & {*metadata().tables}:
            raise StoreError(
                f"{name} holds a table {min(clash)} of another program: give a database of its own, or with PostgreSQL "
                "a schema (?options=-csearch_path%3DNAME)"
            )
        return False
    versions = connection.exec_driver_sql("SELECT version_num FROM hwperf_schema").scalars().all()
    if len(versions) != 1 or not re.fullmatch(r"[1-9][0-9]{0,8}", str(versions[0])):
        raise Damaged(f"{VERSION_TABLE} has {shortened(str([*versions]))} in the place of one version")
    if versions[0] != VERSION:
        raise StoreError(
            f"{name} was written by a newer pytest-hwperf (schema {versions[0]}, this one reads {VERSION}): upgrade "
            "pytest-hwperf"
        )
    return True


def migrate(connection: "Connection", name: str) -> None:
    """Give a database the newest schema, in the transaction of `connection`, which must be the only writer."""
    if is_made(connection, name):
        return
    from alembic import command
    from alembic.config import Config

    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
