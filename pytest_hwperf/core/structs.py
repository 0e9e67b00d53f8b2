"""The base of all records."""

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A frozen struct that refuses unknown fields: the form in which parts exchange data and files keep them."""
