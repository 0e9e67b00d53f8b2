"""Inputs of an ONNX model: what it takes by name, type and shape, and rows cut into batches of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_hwperf.core.errors import MeasurementError, UsageProblem

_TEXT = "tensor(string)"
_TYPES: Mapping[str, str] = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "bool")},
    **{f"tensor(u{name})": f"u{name}" for name in ("int8", "int16", "int32", "int64")},
    _TEXT: "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The inputs of a model; rows are the first axis of each."""

    model: str  # its name, for sentences
    inputs: Sequence[Any]  # as ONNX Runtime describes them

    def batches(self, X: Any, batch_size: int) -> list[dict[str, Any]]:
        """Cut the rows of `X` into what a session takes: name → C-contiguous array of the input's type."""
        arrays = {one.name: self._array(one, values) for one, values in self._by_name(X)}
        rows = {name: len(values) for name, values in arrays.items()}
        if len(set(rows.values())) > 1:
            shown = ", ".join(f"{name} {count}" for name, count in rows.items())
            raise UsageProblem(f"the inputs in X differ in their number of rows ({shown}): give one row of each")
        n = min(rows.values())
        if n == 0:
            raise MeasurementError("X has no rows: nothing can be measured on empty data")
        self._check_size(n, batch_size)
        return [
            {name: values[start : start + batch_size] for name, values in arrays.items()}
            for start in range(0, n, batch_size)
        ]

    @property
    def fixed_rows(self) -> int | None:
        """The only number of rows that the model takes at a time; None where it takes any."""
        first = [one.shape[0] for one in self.inputs if one.shape]
        return next((rows for rows in first if isinstance(rows, int)), None)

    def _by_name(self, X: Any) -> list[tuple[Any, Any]]:
        names = [one.name for one in self.inputs]
        if not isinstance(X, Mapping):
            if len(names) == 1:
                return [(self.inputs[0], X)]
            raise UsageProblem(f"{self.model} has the inputs {', '.join(names)}: give X as a mapping of them to arrays")
        if set(X) != set(names):
            given = ", ".join(map(str, X)) or "none"
            raise UsageProblem(f"{self.model} has the inputs {', '.join(names)}, and X holds {given}")
        return [(one, X[one.name]) for one in self.inputs]

    def _array(self, one: Any, values: Any) -> Any:
        import numpy as np

        kind = _TYPES.get(one.type)
        if kind is None:
            raise UsageProblem(
                f"{self.model} takes {one.type} as {one.name}: arrays of numbers and text are fed; measure a callable "
                "that feeds it"
            )
        given = np.asarray(values)
        array = _as_text(given) if one.type == _TEXT else self._as_numbers(one, given, kind)
        self._check_shape(one, array)
        return array

    def _as_numbers(self, one: Any, given: Any, kind: str) -> Any:
        import numpy as np

        try:
            array = np.ascontiguousarray(given, dtype=kind)
        except (TypeError, ValueError):
            array = None
        # Every number may become a float; anything else must stay what it is.
        if array is None or (array.dtype.kind != "f" and not np.array_equal(array, given)):
            raise UsageProblem(
                f"{self.model} takes {kind} as {one.name}, and X holds {given.dtype} that is no such number: convert it"
            )
        return array

    def _check_shape(self, one: Any, array: Any) -> None:
        """Compare all axes but the first, which are the rows."""
        wanted = list(one.shape)
        fits = len(wanted) == array.ndim > 0 and all(
            not isinstance(size, int) or size == actual
            for size, actual in zip(wanted[1:], array.shape[1:], strict=True)
        )
        if not fits:
            shown = ", ".join(["rows", *(str(size) if size else "any" for size in wanted[1:])])
            raise UsageProblem(f"{self.model} takes {one.name} of the shape ({shown}), and X holds {array.shape}")

    def _check_size(self, rows: int, batch_size: object) -> None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise MeasurementError(f"batch_size={batch_size!r}: a batch size is a whole number of rows from 1 on")
        fixed = self.fixed_rows
        if fixed is None:
            return
        if fixed != batch_size:
            raise UsageProblem(
                f"{self.model} takes batches of {fixed} rows and no others: give batch_size={fixed} "
                f"(hwperf compare: --batch-size={fixed}), or export it with a dynamic first axis"
            )
        if rows % fixed:
            raise UsageProblem(f"{self.model} takes batches of {fixed} rows, and X has {rows}: give a multiple of it")


def _as_text(given: Any) -> Any:
    """Return text as ONNX Runtime takes it: an array of objects."""
    import numpy as np

    return np.ascontiguousarray(given.astype(str).astype(object))
