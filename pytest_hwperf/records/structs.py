"""The base of all records, and the ranges of their numbers, which hold wherever a record is read."""

from typing import Annotated

import msgspec

LARGEST = 1e100  # of every number: far beyond anything measured, and products and ratios of such ones stay finite

Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Size = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
ErrorRate = Annotated[float, msgspec.Meta(ge=1e-18, le=0.5)]  # so many pairs that no build takes them, to a coin
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class ForeignRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a record of another program; fields that are not named here are skipped."""


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A frozen struct that refuses unknown fields: the form in which parts exchange data and files keep them."""
