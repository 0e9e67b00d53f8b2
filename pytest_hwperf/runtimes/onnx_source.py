"""ONNX models as users give them: files, which may come from anyone, with weights beside them; or models in memory."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_hwperf.host.files import is_file
from pytest_hwperf.records.errors import MeasurementError, UsageProblem
from pytest_hwperf.runtimes.estimators import check_batch_size
from pytest_hwperf.runtimes.number_types import converted, first_changed

_TEXT = "tensor(string)"
_KEEPING_COLUMNS = ("Cast", "Identity", "Normalizer", "Sigmoid", "Softmax")  # operators
_TYPES: Mapping[str, str] = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    **{f"tensor({name})": name for name in ("int8", "int16", "int32", "int64", "bool")},
    **{f"tensor(u{name})": f"u{name}" for name in ("int8", "int16", "int32", "int64")},
    _TEXT: "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxSource:
    """An ONNX model that was read once and checked."""

    model: Path | bytes  # what a session is opened on
    name: str  # for sentences
    sha256: str  # of the file and of the weights beside it
    bytes: int  # of both
    weights: tuple[str, ...]  # types of the tensors in the graph, such as ("FLOAT", "INT64")
    classes: tuple[int | str, ...]  # labels of the columns of the first output; () where the graph does not name them


def read_source(model: Any) -> OnnxSource:
    """Read an ONNX file, or a model in memory, without its external weights."""
    import onnx
    from google.protobuf.message import DecodeError

    path = Path(model) if isinstance(model, str | os.PathLike) else None
    if path is not None and not is_file(path):
        raise UsageProblem(f"{path} is no file: give an ONNX file")
    try:
        proto = model if path is None else onnx.load(str(path), load_external_data=False)
    except DecodeError as error:
        raise UsageProblem(f"{path} is no ONNX model: {error}") from error
    if path is not None and not proto.HasField("graph"):
        raise UsageProblem(f"{path} is no ONNX model: it has no graph")
    tensors = [*_tensors(proto)]
    # Of several locations of one tensor each runtime takes another one: all of them are looked at.
    entries = [[*one.external_data] for one in tensors if one.data_location == one.EXTERNAL]
    named = ([entry.value for entry in one if entry.key == "location"] or [""] for one in entries)
    locations = sorted({location for one in named for location in one})
    weights = tuple(sorted({onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in tensors}))
    known: dict[str, Any] = {"weights": weights, "classes": _classes_of(proto.graph)}
    if path is None:
        if locations:
            raise UsageProblem(
                f"the ONNX model in memory names weights in files ({locations[0]}): give the Path of its file instead"
            )
        content = proto.SerializeToString(deterministic=True)
        sha256 = hashlib.sha256(content).hexdigest()
        return OnnxSource(model=content, name="the ONNX model", sha256=sha256, bytes=len(content), **known)
    files, digest = [path, *(_beside(path, location) for location in locations)], hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            while block := content.read(1 << 20):
                digest.update(block)
    size = sum(file.stat().st_size for file in files)
    return OnnxSource(model=path, name=str(path), sha256=digest.hexdigest(), bytes=size, **known)


def _classes_of(graph: Any) -> tuple[int | str, ...]:
    """Return the labels of the columns of the first output, as a classifier of ai.onnx.ml or a ZipMap names them.

    Only operators that leave the columns where they are may stand between the two.
    """
    makers = {name: node for node in graph.node for name in node.output}
    columns = graph.output[0].name if graph.output else ""
    on_the_way = {columns}
    while (maker := makers.get(columns)) is not None:
        if found := _named_classes(maker):
            return found
        if maker.op_type not in _KEEPING_COLUMNS:
            break
        columns = maker.input[0]
        on_the_way.add(columns)
    beside = (_named_classes(node) for node in graph.node if node.op_type == "ZipMap" and node.input[0] in on_the_way)
    return next(beside, ())


def _named_classes(node: Any) -> tuple[int | str, ...]:
    for attribute in node.attribute:
        if attribute.name.startswith("classlabels_"):
            return (*attribute.ints, *(text.decode() for text in attribute.strings))
    return ()


def _tensors(message: Any) -> Iterator[Any]:
    """Yield every tensor in a message of protobuf: weights stand in graphs, in nodes of graphs, in graphs of nodes."""
    for field, value in message.ListFields():
        if field.message_type is not None:
            for part in [value] if hasattr(value, "ListFields") else value:
                if part.DESCRIPTOR.name == "TensorProto":
                    yield part
                else:
                    yield from _tensors(part)


def _beside(path: Path, location: str) -> Path:
    """Return a file of weights beside a model.

    A file of a stranger may name any file of this account: only those in the model's own folder are read.
    """
    folder = path.parent.resolve()
    file = folder / location
    if Path(location).is_absolute() or not file.resolve().is_relative_to(folder):
        raise UsageProblem(
            f"{path} has weights outside of its folder ({location}): only files in {folder} and below are read"
        )
    if not is_file(file):
        raise UsageProblem(f"{path} has its weights in {location}, and there is no such file in {folder}")
    return file


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelInputs:
    """The inputs of a model; rows are the first axis of each."""

    model: str  # its name, for sentences
    inputs: Sequence[Any]  # as ONNX Runtime describes them
    only_rows: int | None = None  # the only batch size with which it was seen to run, where its inputs declare none

    @property
    def fixed_rows(self) -> int | None:
        """The only number of rows that the model takes at a time; None where it takes any."""
        first = [one.shape[0] for one in self.inputs if one.shape]
        return next((rows for rows in first if isinstance(rows, int)), self.only_rows)

    def batches(self, X: Any, batch_size: int) -> list[dict[str, Any]]:
        """Cut the rows of `X` into what a session takes: name → C-contiguous array of the input's type."""
        names = [one.name for one in self.inputs]
        shown = f"{self.model} has the inputs {', '.join(names)}"
        bare = not isinstance(X, Mapping)
        if bare:
            if len(names) != 1:
                raise UsageProblem(f"{shown}: give X as a mapping of them to arrays")
            X = {names[0]: X}
        if set(X) != set(names):
            raise UsageProblem(f"{shown}, and X holds {', '.join(map(str, X)) or 'none'}")
        arrays = {one.name: self._array(one, X[one.name], "X" if bare else f"X[{one.name!r}]") for one in self.inputs}
        rows = {name: len(values) for name, values in arrays.items()}
        if len(set(rows.values())) > 1:
            given = ", ".join(f"{name} {count}" for name, count in rows.items())
            raise UsageProblem(f"the inputs in X differ in their number of rows ({given}): give one row of each")
        n, fixed = min(rows.values()), self.fixed_rows
        if n == 0:
            raise MeasurementError("X has no rows: nothing can be measured on empty data")
        check_batch_size(batch_size)
        if fixed is not None:
            self._check_rows(fixed, batch_size, n)
        return [
            {name: values[start : start + batch_size] for name, values in arrays.items()}
            for start in range(0, n, batch_size)
        ]

    def _check_rows(self, fixed: int, batch_size: int, n: int) -> None:
        """Refuse other batches than those of the one size that the model takes."""
        size = "1 row" if fixed == 1 else f"{fixed} rows"
        if fixed != batch_size:
            raise UsageProblem(
                f"{self.model} takes batches of {size} and no others: give batch_size={fixed} "
                f"(hwperf compare: --batch-size={fixed}), or export it for any number of rows"
            )
        if n % fixed:
            raise UsageProblem(f"{self.model} takes batches of {size}, and X has {n}: give a multiple of it")

    def _array(self, one: Any, values: Any, called: str) -> Any:
        """Return the values of an input in its type; all axes but the first, which are the rows, must fit."""
        import numpy as np

        kind, given = _TYPES.get(one.type), np.asarray(values)
        if kind is None:
            raise UsageProblem(
                f"{self.model} takes {one.type} as {one.name}: arrays of numbers and text are fed; measure a callable "
                "that feeds it"
            )
        array = np.ascontiguousarray(given.astype(str), dtype=kind) if one.type == _TEXT else converted(given, kind)
        if array is None:
            raise UsageProblem(
                f"{self.model} takes {kind} as {one.name}, and X holds {given.dtype} that is no such number: convert it"
            )
        wanted = list(one.shape)
        sizes = zip(wanted[1:], array.shape[1:], strict=False)
        if len(wanted) != array.ndim or not wanted or any(isinstance(size, int) and size != had for size, had in sizes):
            shown = ", ".join(["rows", *(str(size) if size else "any" for size in wanted[1:])])
            raise UsageProblem(f"{self.model} takes {one.name} of the shape ({shown}), and X holds {array.shape}")
        if array.dtype.kind != "O" and (place := first_changed(given, array)) is not None:
            where = f"{called}[{', '.join(map(str, place))}]"
            raise UsageProblem(
                f"{self.model} takes {kind} as {one.name}, and X holds {given.dtype} that is no such number: {where} = "
                f"{given[place]} would become {array[place]}; give other rows, or convert them yourself if that is "
                f"meant: X.astype({kind!r})"
            )
        return array
