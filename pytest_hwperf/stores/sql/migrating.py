"""The schema of a database: which one it has, and how it gets the newest."""

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_hwperf.core.errors import StoreError
from pytest_hwperf.core.foreign_text import shortened
from pytest_hwperf.stores.sql.tables import VERSION, VERSION_TABLE, Damaged, tables

if TYPE_CHECKING:
    from sqlalchemy import Connection


def version_of(connection: "Connection", name: str) -> str | None:
    """Return the schema of a database that this version can read, None of an empty one.

    Raises:
        StoreError: an earlier or a newer schema, or tables of another program.
    """
    version = _stored_version(connection, name)
    if version is not None and version != VERSION:
        if int(version) < int(VERSION):
            raise StoreError(
                f"{name} has an earlier schema ({shortened(version)}, this version reads {VERSION}): let whoever may "
                "change it type hwperf baseline upgrade"
            )
        raise _newer(version, name)
    return version


def migrate(connection: "Connection", name: str) -> None:
    """Give a database the newest schema, in the transaction of `connection`, which must be the only writer.

    Raises:
        StoreError: as `version_of`, but for earlier schemas.
    """
    version = _stored_version(connection, name)
    if version == VERSION:
        return
    if version is not None and int(version) > int(VERSION):
        raise _newer(version, name)
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    config = Config(stdout=io.StringIO())
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise Damaged(f"no version has made this schema: {error}") from error


def _newer(version: str, name: str) -> StoreError:
    return StoreError(
        f"{name} was written by a newer pytest-hwperf (schema {version}, this one reads {VERSION}): upgrade "
        "pytest-hwperf"
    )


def _stored_version(connection: "Connection", name: str) -> str | None:
    from sqlalchemy import inspect, select

    found = set(inspect(connection).get_table_names())
    if VERSION_TABLE not in found:
        if clash := found & {"run", "machine", "test", "metric", "baseline", "estimate", "annotation"}:
            raise StoreError(
                f"{name} holds a table {min(clash)} of another program: give a database of its own, or with PostgreSQL "
                "a schema (?options=-csearch_path%3DNAME)"
            )
        return None
    versions = connection.scalars(select(tables().version.c.version_num)).all()
    if len(versions) != 1 or not re.fullmatch(r"[0-9]{1,9}", versions[0]):
        raise Damaged(f"{VERSION_TABLE} has {shortened(str([*versions]))} in the place of one version")
    return str(versions[0])
