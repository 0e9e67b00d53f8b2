"""A client of dask that takes plain data only: nothing that a scheduler or a host sends is unpickled in this process.

dask unpickles results, exceptions and whatever a message marks as pickled, wherever it comes from. Hosts run what this
process sends them; the reverse must not hold. Progress and answers are events, which are plain msgpack.
"""

from typing import Any

_REFUSED = "(pickled by a host, and not read)"


class _Refusing:
    """Stands where dask's own module finds Python's: it writes as ever, and reads nothing."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def loads(self, *_: object, **__: object) -> str:
        """Return a text in place of what was sent."""
        return _REFUSED


def refuse_pickles() -> None:
    """Let dask unpickle nothing in this process from now on: all its ways lead through one module."""
    from distributed.protocol import pickle as module

    if not isinstance(module.pickle, _Refusing):
        module.pickle = _Refusing(module.pickle)
