"""ONNX Runtime sessions with everything fixed that decides their speed."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pytest_hwperf.records.errors import MeasurementError
from pytest_hwperf.records.profiles import Graph, GraphNode, Tensor, Work
from pytest_hwperf.runtimes.own_call import ESTIMATOR_ERRORS
from pytest_hwperf.stats.causes.roofline import count_work

PROVIDER = "CPUExecutionProvider"
_DISTRIBUTIONS = ("onnxruntime-gpu", "onnxruntime")  # the former is often installed over the latter
_ERRORS_ONLY = 3  # ONNX Runtime's log severity; its warnings go to the file descriptor of standard error
_FATAL_ONLY = 4


def open_session(model: Path | bytes, threads: int, profile: Path | None = None) -> Any:
    """Load a model with `threads` intra-op threads that do not spin, one inter-op thread and all optimisations."""
    import onnxruntime

    options = session_options(threads)
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    source = model if isinstance(model, bytes) else str(model)
    session = onnxruntime.InferenceSession(source, options, providers=[PROVIDER])
    check_providers(session.get_providers())
    return session


def session_options(threads: int) -> Any:
    """Return options with `threads` intra-op threads that do not spin, one inter-op thread and all optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # A spinning pool burns twenty times the processor time of the calls themselves.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = _ERRORS_ONLY
    return options


def installed(distributions: Iterable[str]) -> Iterator[str]:
    """Yield those distributions that are here, with their versions; nothing is imported for it."""
    for name in distributions:
        with suppress(PackageNotFoundError):
            yield f"{name} {version(name)}"


def runtime_version() -> str:
    """Return the version of ONNX Runtime, whichever distribution has installed it."""
    return next(installed(_DISTRIBUTIONS), "unknown")


def check_providers(effective: list[str]) -> None:
    """Refuse a session on another provider: a missing one falls back with a warning."""
    if effective != [PROVIDER]:
        raise MeasurementError(
            f"ONNX Runtime runs on {', '.join(effective) or 'no provider'} where {PROVIDER} was asked for: "
            "install the plain onnxruntime package"
        )


def session_conditions(threads: int) -> dict[str, str]:
    """Return what `open_session` fixes, as conditions of a run."""
    return {"threads": str(threads), "inter_op_threads": "1", "spinning": "off", "graph_optimisation": "all"}


def quiet_run(session: Any) -> Callable[[Any], Any]:
    """Return what computes the first output of a session; what it cannot compute raises, and prints nothing."""
    import onnxruntime

    options, outputs = onnxruntime.RunOptions(), [session.get_outputs()[0].name]
    options.log_severity_level = _FATAL_ONLY
    return lambda batch: session.run(outputs, batch, options)[0]


def run_all(session: Any, rows: Any, batch_size: int = 256) -> Any:
    """Return the first output of `session` for all rows, `batch_size` at a time."""
    import numpy as np

    name, output = session.get_inputs()[0].name, session.get_outputs()[0].name
    starts = range(0, len(rows), batch_size)
    return np.concatenate([session.run([output], {name: rows[s : s + batch_size]})[0] for s in starts])


def rejection_errors() -> tuple[type[Exception], ...]:
    """Return the errors by which converters, onnx and ONNX Runtime reject a model; they have no common root."""
    import onnx
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented", "RuntimeException")
    return (
        *ESTIMATOR_ERRORS,
        onnx.checker.ValidationError,
        onnx.shape_inference.InferenceError,
        *(getattr(state, name) for name in names),
    )


_KEEPING = ("Binarizer", "Imputer", "Normalizer", "Scaler")  # operators of `ai.onnx.ml` that keep shape and type
_HALF_BYTES = ("INT4", "UINT4", "FLOAT4E2M1")  # two elements in a byte


def count_work_of(model: Path | bytes, rows: int) -> Work:
    """Count the work of a call of `rows` rows by an ONNX file, or by its content."""
    import onnx

    try:
        # Shapes are enough: weights that lie in files of their own are not read.
        graph = onnx.load(model, load_external_data=False) if isinstance(model, Path) else onnx.load_from_string(model)
        return count_work(read_graph(graph, rows))
    except rejection_errors() as error:
        raise MeasurementError(f"the work of this model cannot be counted: {error}") from error


def read_graph(model: Any, rows: int) -> Graph:
    """Infer the shapes of every value, the batch being `rows`; what stays unknown is kept as unknown."""
    import onnx

    sized = onnx.ModelProto()
    sized.CopyFrom(model)
    weights = {one.name: _constant(one) for one in sized.graph.initializer}
    inputs = [one for one in sized.graph.input if one.name not in weights]
    for value in inputs:
        _set_rows(value, rows)
    for value in sized.graph.output:  # as converters declare them, they may hide what follows from the inputs
        value.type.tensor_type.ClearField("shape")
    inferred = _inferred(sized)
    known = {**_values([*inferred.input, *inferred.value_info, *inferred.output]), **weights}
    used = {name for node in inferred.node for name in node.input}
    ends = [one.name for one in (*inputs, *inferred.output)]
    return Graph(
        nodes=tuple(_node(node, known) for node in inferred.node),
        moved=(
            *(tensor for name, tensor in weights.items() if name in used),
            *(tensor for name in ends if (tensor := known.get(name)) is not None),
        ),
        unknown=tuple(name for name in ends if name not in known),
    )


def _inferred(sized: Any) -> Any:
    """Infer shapes; where inference stops at an operator that keeps its input's, say so and go on behind it."""
    import onnx

    while True:
        graph = onnx.shape_inference.infer_shapes(sized, data_prop=True).graph
        shapes = {one.name: one for one in (*graph.input, *graph.value_info, *graph.output) if _values([one])}
        stopped = next(
            (
                node
                for node in graph.node
                if node.op_type in _KEEPING and node.input[0] in shapes and node.output[0] not in shapes
            ),
            None,
        )
        if stopped is None or stopped.output[0] in {one.name for one in sized.graph.value_info}:
            return graph
        made = sized.graph.value_info.add()
        made.CopyFrom(shapes[stopped.input[0]])
        made.name = stopped.output[0]


def _set_rows(value: Any, rows: int) -> None:
    """Fix the first dimension of an input, unless the model fixes it itself."""
    dimensions = value.type.tensor_type.shape.dim
    if dimensions and not dimensions[0].dim_value:
        dimensions[0].dim_value = rows


def _values(infos: Iterable[Any]) -> dict[str, Tensor]:
    """Return the values whose shape and type are known."""
    found = {}
    for info in infos:
        kind = info.type.tensor_type
        dimensions = [one.dim_value if one.HasField("dim_value") else None for one in kind.shape.dim]
        if kind.HasField("shape") and None not in dimensions and (width := _width(kind.elem_type)):
            found[info.name] = Tensor(shape=tuple(size for size in dimensions if size is not None), width=width)
    return found


def _constant(initializer: Any) -> Tensor:
    return Tensor(shape=tuple(initializer.dims), width=_width(initializer.data_type))


def _width(kind: int) -> float:
    """Return the bytes of an element, 0 where elements differ in length, as texts do."""
    import onnx

    name = onnx.TensorProto.DataType.Name(kind)
    if name in _HALF_BYTES:
        return 0.5
    if name in ("UNDEFINED", "STRING"):
        return 0.0
    return float(onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize)


def _node(node: Any, known: Mapping[str, Tensor]) -> GraphNode:
    return GraphNode(
        kind=node.op_type,
        inputs=tuple(known.get(name) for name in node.input),
        outputs=tuple(known.get(name) for name in node.output),
        numbers={one.name: numbers for one in node.attribute if (numbers := _numbers(one))},
    )


def _numbers(attribute: Any) -> tuple[float, ...]:
    """Return the numbers of an attribute, () of any other kind."""
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(map(float, values)) if all(isinstance(one, int | float) for one in values) else ()
