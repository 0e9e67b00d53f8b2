"""Work of a call, counted from the graph of its model, and what limits it: arithmetic, memory or neither.

It is held against what numpy reaches on this machine, which is no ceiling: a runtime may be faster.

References:
    Williams, Waterman & Patterson, Roofline: an insightful visual performance model, CACM 52 (2009).
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Literal

from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.records.profiles import Bound, Graph, GraphNode, PeakRate, Roofline, Tensor, Work

_EXPLAINED = 1 / 3  # of a call: where numpy would do its work in less, something else limits it
_NAMED = 5  # kinds of operators in a sentence


def count_work(graph: Graph) -> Work:
    """Count the operations and bytes of a call; what cannot be counted is named, never taken as nothing."""
    flops = integer_ops = 0.0
    uncounted: dict[str, int] = {}
    integer = _INTEGER | (_QUANTISED if any(node.kind == "QuantizeLinear" for node in graph.nodes) else frozenset())
    for node in graph.nodes:
        counter = _COUNTERS.get(node.kind)
        found = counter(node) if counter else None
        if found is None:
            uncounted[node.kind] = uncounted.get(node.kind, 0) + 1
        elif node.kind in integer:
            integer_ops += found
        else:
            flops += found
    for name in graph.unknown:
        uncounted[name] = uncounted.get(name, 0) + 1
    moved = sum(tensor.size for tensor in graph.moved)
    return Work(
        flops=None if uncounted and not flops else flops,
        integer_ops=integer_ops,
        moved_bytes=None if graph.unknown and not moved else moved,
        nodes=len(graph.nodes),
        uncounted=uncounted,
    )


def roofline_of(work: Work, latency_s: float, peak: PeakRate | None, threads: int) -> Roofline:
    """Relate the work of a call to its time, and judge what limits it by what numpy reaches on this machine."""
    operations, moved = work.operations, work.moved_bytes
    explained, bound = None, None
    withheld = _why_withheld(work, peak, threads)
    if peak and not withheld and latency_s:
        memory = (moved or 0.0) / peak.bytes_per_s / latency_s
        bound, explained = _bound((operations or 0.0) / peak.flops_per_s / latency_s, memory)
        withheld = None if bound else state("from caches", times=memory)
    return Roofline(
        work=work,
        latency_s=latency_s,
        intensity=operations / moved if operations and moved else None,
        flops_per_s=operations / latency_s if operations and latency_s else None,
        bytes_per_s=moved / latency_s if moved and latency_s else None,
        peak=peak,
        explained=explained,
        bound=bound,
        withheld=withheld,
    )


def _bound(compute: float, memory: float) -> tuple[Bound | None, float | None]:
    """Return what limits a call, with the share of it that this takes; what is faster than memory does not read it."""
    if max(compute, memory) < _EXPLAINED:
        return "overhead", max(compute, memory)
    if compute >= (memory if memory <= 1 else _EXPLAINED):
        return "compute", compute
    return ("memory", memory) if memory <= 1 else (None, None)


def _why_withheld(work: Work, peak: PeakRate | None, threads: int) -> Statement | None:
    if work.uncounted:
        kinds = [f"{kind} ({count})" for kind, count in work.uncounted.items()]
        more = [f"{len(kinds) - _NAMED} further kinds"] if len(kinds) > _NAMED else []
        nodes = sum(work.uncounted.values())
        shown = ", ".join([*kinds[:_NAMED], *more])
        return state("work uncounted", kinds=shown, nodes=nodes, share=nodes / max(work.nodes, nodes))
    if work.integer_ops > (work.flops or 0.0):
        return state("integer work")
    return None if peak else state("no peaks", threads=threads)


def _first(tensors: Sequence[Tensor | None], index: int = 0) -> Tensor | None:
    return tensors[index] if index < len(tensors) else None


def _product(a: int, b: int) -> Callable[[GraphNode], float | None]:
    """Return the counter of a matrix product of the inputs at these positions."""

    def count(node: GraphNode) -> float | None:
        left, right, made = _first(node.inputs, a), _first(node.inputs, b), _first(node.outputs)
        return None if not (left and left.shape and right and made) else 2.0 * made.elements * left.shape[-1]

    return count


def _gemm(node: GraphNode) -> float | None:
    """A·B, scaled and added to C where there is one."""
    left, made = _first(node.inputs), _first(node.outputs)
    if not (left and made and left.shape):
        return None
    inner = left.shape[0] if node.numbers.get("transA") == (1,) else left.shape[-1]
    added = made.elements if _first(node.inputs, 2) else 0
    return 2.0 * made.elements * inner + added


def _convolution(weights: int, bias: int) -> Callable[[GraphNode], float | None]:
    """Return the counter of a convolution whose weights have the shape (out, in / groups, kernel…)."""

    def count(node: GraphNode) -> float | None:
        kernel, made = _first(node.inputs, weights), _first(node.outputs)
        if not (kernel and made):
            return None
        added = made.elements if _first(node.inputs, bias) else 0
        return 2.0 * made.elements * prod(kernel.shape[1:]) + added

    return count


def _pool(node: GraphNode) -> float | None:
    made, kernel = _first(node.outputs), node.numbers.get("kernel_shape")
    return made.elements * prod(kernel) if made and kernel else None


def _linear(node: GraphNode) -> float | None:
    """A linear model of `ai.onnx.ml`: its coefficients, times the rows."""
    rows, coefficients = _first(node.inputs), node.numbers.get("coefficients")
    return 2.0 * rows.shape[0] * len(coefficients) if rows and rows.shape and coefficients else None


def _each(tensors: Literal["inputs", "outputs"], operations: float) -> Callable[[GraphNode], float | None]:
    """Return the counter of so many operations for each element of the first input or output."""

    def count(node: GraphNode) -> float | None:
        tensor = _first(getattr(node, tensors))
        return tensor.elements * operations if tensor else None

    return count


_INTEGER = frozenset({"ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"})
_QUANTISED = frozenset({"Conv", "Gemm", "MatMul"})  # computed in integers where what they take is quantised
_ONE = """Abs Add And BitShift Ceil Clip Cos Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid
HardSwish IsNaN LeakyRelu Less LessOrEqual Log Max Min Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu Sigmoid
Sign Sin Softplus Softsign Sqrt Sub Sum Tan Tanh ThresholdedRelu Where Xor"""
_MOVED = """ArrayFeatureExtractor Cast CastLike Concat Constant ConstantOfShape Dropout Expand Flatten Gather
GatherElements GatherND Identity Pad Reshape Shape Slice Split Squeeze Tile Transpose Unsqueeze"""
_REDUCED = "ArgMax ArgMin GlobalAveragePool GlobalMaxPool ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
# Of an element: one operation, whether an addition or an exponential; softmax: maximum, difference, exponential, sum,
# quotient; a normalisation by stored moments: difference, product, scale, shift; one by its own moments twice that.
_COUNTERS: Mapping[str, Callable[[GraphNode], float | None]] = {
    **dict.fromkeys(("MatMul", "MatMulInteger"), _product(0, 1)),
    "QLinearMatMul": _product(0, 3),
    "Gemm": _gemm,
    "Conv": _convolution(1, 2),
    "ConvInteger": _convolution(1, 9),
    "QLinearConv": _convolution(3, 8),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("LinearClassifier", "LinearRegressor"), _linear),
    **dict.fromkeys(_ONE.split(), _each("outputs", 1)),
    **dict.fromkeys(_REDUCED.split(), _each("inputs", 1)),
    **dict.fromkeys(("ReduceL2", "ReduceSumSquare", "ReduceL1", "DequantizeLinear", "Scaler"), _each("inputs", 2)),
    **dict.fromkeys(("QuantizeLinear", "Normalizer"), _each("inputs", 3)),
    **dict.fromkeys(("Binarizer", "Imputer"), _each("inputs", 1)),
    "DynamicQuantizeLinear": _each("inputs", 5),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _each("outputs", 5)),
    "BatchNormalization": _each("outputs", 4),
    **dict.fromkeys(("InstanceNormalization", "LayerNormalization"), _each("outputs", 8)),
    **dict.fromkeys(_MOVED.split(), lambda _: 0.0),  # it computes no number
}
