"""ONNX models as users give them: files, which may come from anyone, with weights beside them; or models in memory."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_hwperf.host.files import is_file
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.scenarios.rows import check_batch_size

LITERT_IDENTIFIER = b"TFL3"
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxSource:
    """An ONNX model that was read once and checked."""

    model: Path | bytes  # what a session is opened on
    name: str  # for sentences
    sha256: str  # of the file and of the weights beside it
    bytes: int  # of both
    weights: tuple[str, ...]  # types of the tensors in the graph, such as ("FLOAT", "INT64")


def is_onnx(model: object) -> bool:
    """Whether a model is an ONNX file or an ONNX model in memory, as far as its name or type tells."""
    if isinstance(model, str | os.PathLike):
        return Path(model).suffix == ".onnx"
    kind = type(model)
    return kind.__name__ == "ModelProto" and kind.__module__.partition(".")[0] == "onnx"


def is_litert(model: object) -> bool:
    """Whether a model is a LiteRT file or the content of one, as far as its name or its beginning tells."""
    if isinstance(model, bytes):
        return model[4:8] == LITERT_IDENTIFIER
    return isinstance(model, str | os.PathLike) and Path(model).suffix == ".tflite"


def read_source(model: Any) -> OnnxSource:
    """Read an ONNX file, or a model in memory, without its external weights."""
    if not isinstance(model, str | os.PathLike):
        return _in_memory(model)
    path = Path(model)
    if not is_file(path):
        raise UsageProblem(f"{path} is no file: give an ONNX file")
    proto = _parsed(path)
    beside = _external_files(proto, path)
    digest = hashlib.sha256()
    for file in (path, *beside):
        with file.open("rb") as content:
            while block := content.read(_BLOCK):
                digest.update(block)
    return OnnxSource(
        model=path,
        name=str(path),
        sha256=digest.hexdigest(),
        bytes=sum(file.stat().st_size for file in (path, *beside)),
        weights=_types(proto),
    )


def _in_memory(proto: Any) -> OnnxSource:
    outside = [_location(tensor) for tensor in _tensors(proto) if _location(tensor) is not None]
    if outside:
        raise UsageProblem(
            f"the ONNX model in memory names weights in files ({outside[0]}): give the Path of its file instead"
        )
    content = proto.SerializeToString(deterministic=True)
    return OnnxSource(
        model=content,
        name="the ONNX model",
        sha256=hashlib.sha256(content).hexdigest(),
        bytes=len(content),
        weights=_types(proto),
    )


def _parsed(path: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load(str(path), load_external_data=False)
    except DecodeError as error:
        raise UsageProblem(f"{path} is no ONNX model: {error}") from error
    if not proto.HasField("graph"):
        raise UsageProblem(f"{path} is no ONNX model: it has no graph")
    return proto


def _external_files(proto: Any, path: Path) -> tuple[Path, ...]:
    """Return the files of weights beside a model, each once.

    A file of a stranger may name any file of this account: only those in the model's own folder are read.
    """
    folder = path.parent.resolve()
    locations = sorted({location for tensor in _tensors(proto) if (location := _location(tensor)) is not None})
    found = []
    for location in locations:
        file = folder / location
        if Path(location).is_absolute() or not file.resolve().is_relative_to(folder):
            raise UsageProblem(
                f"{path} has weights outside of its folder ({location}): only files in {folder} and below are read"
            )
        if not is_file(file):
            raise UsageProblem(f"{path} has its weights in {location}, and there is no such file in {folder}")
        found.append(file)
    return tuple(found)


def _location(tensor: Any) -> str | None:
    """Return the file that an external tensor is in, None for one that is in the model."""
    if tensor.data_location != tensor.EXTERNAL:
        return None
    return next((str(entry.value) for entry in tensor.external_data if entry.key == "location"), "")


def _types(proto: Any) -> tuple[str, ...]:
    import onnx

    return tuple(sorted({onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in _tensors(proto)}))


def _tensors(proto: Any) -> Iterator[Any]:
    for graph in _graphs(proto):
        yield from graph.initializer
        yield from _parts(graph.sparse_initializer)
    nodes = [*(node for graph in _graphs(proto) for node in graph.node), *_of_functions(proto)]
    for attribute in (one for node in nodes for one in node.attribute):
        yield from ([attribute.t] if attribute.HasField("t") else [])
        yield from attribute.tensors
        yield from _parts([attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else [])
        yield from _parts(attribute.sparse_tensors)


def _parts(sparse: Sequence[Any]) -> Iterator[Any]:
    for one in sparse:
        yield from (one.values, one.indices)


def _graphs(proto: Any) -> Iterator[Any]:
    """Yield the graph of a model and every graph inside it."""
    pending = [proto.graph, *(part for one in proto.training_info for part in (one.initialization, one.algorithm))]
    pending.extend(_inner(_of_functions(proto)))
    while pending:
        graph = pending.pop()
        yield graph
        pending.extend(_inner(graph.node))


def _inner(nodes: Any) -> Iterator[Any]:
    for attribute in (one for node in nodes for one in node.attribute):
        yield from ([attribute.g] if attribute.HasField("g") else [])
        yield from attribute.graphs


def _of_functions(proto: Any) -> list[Any]:
    return [node for function in proto.functions for node in function.node]


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
        check_batch_size(batch_size)
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
