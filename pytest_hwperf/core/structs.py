"""The base of all records."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Named values that never change: what the parts of the program give each other and what files keep."""
