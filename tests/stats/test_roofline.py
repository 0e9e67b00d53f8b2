"""Work counted from a graph by hand, and the verdict on what limits a call."""

from collections.abc import Mapping

import pytest

from pytest_hwperf.records.messages import state
from pytest_hwperf.records.profiles import Graph, GraphNode, PeakRate, Peaks, Tensor, Work
from pytest_hwperf.stats.causes.roofline import count_work, roofline_of

PEAK = PeakRate(threads=1, flops_per_s=100e9, bytes_per_s=10e9)


def tensor(*shape: int, width: float = 4) -> Tensor:
    return Tensor(shape=shape, width=width)


def node(kind: str, inputs: list[Tensor | None], *outputs: Tensor | None, **numbers: tuple[float, ...]) -> GraphNode:
    return GraphNode(kind=kind, inputs=tuple(inputs), outputs=outputs, numbers=numbers)


def counted(*nodes: GraphNode) -> Work:
    return count_work(Graph(nodes=nodes, moved=()))


ROWS, WEIGHTS, MADE = tensor(8, 50), tensor(50, 64), tensor(8, 64)
IMAGE, KERNEL, MAP = tensor(8, 3, 16, 16), tensor(6, 3, 5, 5), tensor(8, 6, 12, 12)


def test_operations_are_counted_by_hand() -> None:
    table: list[tuple[GraphNode, float]] = [
        (node("MatMul", [ROWS, WEIGHTS], MADE), 2 * 8 * 50 * 64),
        (node("MatMul", [tensor(2, 8, 50), WEIGHTS], tensor(2, 8, 64)), 2 * 2 * 8 * 50 * 64),
        (node("MatMul", [tensor(8, 50), tensor(50)], tensor(8)), 2 * 8 * 50),
        (node("Gemm", [ROWS, WEIGHTS, tensor(64)], MADE), 2 * 8 * 50 * 64 + 8 * 64),
        (node("Gemm", [ROWS, WEIGHTS], MADE), 2 * 8 * 50 * 64),
        (node("Gemm", [tensor(50, 8), WEIGHTS], MADE, transA=(1,)), 2 * 8 * 50 * 64),
        (node("Conv", [IMAGE, KERNEL], MAP), 2 * 8 * 6 * 12 * 12 * 3 * 5 * 5),
        (node("Conv", [IMAGE, KERNEL, tensor(6)], MAP), 2 * 8 * 6 * 12 * 12 * 3 * 5 * 5 + 8 * 6 * 12 * 12),
        (node("Conv", [IMAGE, tensor(6, 1, 5, 5)], MAP, group=(3,)), 2 * 8 * 6 * 12 * 12 * 5 * 5),
        (node("MaxPool", [MAP], tensor(8, 6, 6, 6), kernel_shape=(2, 2)), 8 * 6 * 6 * 6 * 4),
        (node("Add", [MADE, tensor(64)], MADE), 8 * 64),
        (node("Softmax", [MADE], MADE), 5 * 8 * 64),
        (node("ReduceSum", [MADE], tensor(8)), 8 * 64),
        (node("LayerNormalization", [MADE], MADE), 8 * 8 * 64),
        (node("LinearClassifier", [ROWS], tensor(8, 3), coefficients=(0.5,) * 150), 2 * 8 * 150),
        (node("Scaler", [ROWS], ROWS), 2 * 8 * 50),
        (node("Reshape", [MADE, tensor(2)], tensor(512)), 0),
    ]
    for one, flops in table:
        work = counted(one)
        assert (flops, 0.0, {}) == (work.flops, work.integer_ops, work.uncounted)


def test_products_in_integers_are_counted_apart() -> None:
    table: list[GraphNode] = [
        node("MatMulInteger", [ROWS, WEIGHTS, None, None], MADE),
        node("QLinearMatMul", [ROWS, tensor(1), tensor(1), WEIGHTS, tensor(1)], MADE),
    ]
    for one in table:
        work = counted(one)
        assert (0.0, 2 * 8 * 50 * 64) == (work.flops, work.integer_ops), one


def test_a_quantised_graph_computes_its_products_in_integers() -> None:
    """As QDQ writes it: float products between steps that quantise. Three operations an element quantise."""
    product, last = node("MatMul", [ROWS, WEIGHTS], MADE), node("Relu", [MADE], MADE)
    work = counted(node("QuantizeLinear", [ROWS], ROWS), product, last)
    assert (3 * 8 * 50 + 8 * 64, 2 * 8 * 50 * 64) == (work.flops, work.integer_ops)


def test_what_cannot_be_counted_is_named() -> None:
    table: list[GraphNode] = [
        node("TreeEnsembleClassifier", [ROWS], MADE),
        node("MatMul", [None, WEIGHTS], MADE),
        node("MatMul", [tensor(), WEIGHTS], MADE),
        node("MatMul", [ROWS], MADE),
        node("Gemm", [ROWS, WEIGHTS], None),
        node("Conv", [IMAGE, None], MAP),
        node("AveragePool", [MAP], MAP),
        node("LinearRegressor", [ROWS], MADE),
        node("Add", [MADE, MADE]),
    ]
    for one in table:
        work = counted(one, node("Relu", [MADE], MADE))
        assert ({one.kind: 1}, 8 * 64, 2) == (work.uncounted, work.flops, work.nodes)


def test_bytes_are_moved_once() -> None:
    """50 × 64 weights of one byte, 8 × 50 inputs and 8 × 64 outputs of four."""
    moved = (tensor(50, 64, width=1), ROWS, MADE)
    work = count_work(Graph(nodes=(), moved=moved, unknown=("mask",)))
    assert 50 * 64 + 4 * 8 * 50 + 4 * 8 * 64 == work.moved_bytes
    assert {"mask": 1} == work.uncounted


def work_of(flops: float, moved: float, uncounted: Mapping[str, int] | None = None, integer_ops: float = 0) -> Work:
    return Work(flops=flops, moved_bytes=moved, nodes=10, uncounted=uncounted or {}, integer_ops=integer_ops)


def test_the_longer_of_the_times_that_numpy_takes_limits_a_call() -> None:
    """1 GFLOP takes 10 ms at 100 GFLOP/s, and 100 MB as long at 10 GB/s: a third of a call has to be explained.

    Where 200 MB take less than numpy's 20 ms, they come from caches, and memory is no limit.
    """
    table = [
        (1e9, 1e6, 15e-3, "compute", 10 / 15),
        (1e9, 1e6, 40e-3, "overhead", 0.25),
        (1e9, 1e6, 29.9e-3, "compute", 10 / 29.9),
        (1e6, 1e8, 15e-3, "memory", 10 / 15),
        (1e9, 1e6, 5e-3, "compute", 2.0),
        (1e9, 2e8, 15e-3, "compute", 10 / 15),
        (1e9, 1e8, 15e-3, "compute", 10 / 15),
    ]
    for flops, moved, latency_s, bound, explained in table:
        found = roofline_of(work_of(flops, moved), latency_s, PEAK, 1)
        assert bound == found.bound
        assert pytest.approx(explained) == found.explained
        assert pytest.approx([flops / moved, flops / latency_s, moved / latency_s]) == [
            found.intensity,
            found.flops_per_s,
            found.bytes_per_s,
        ]


def test_a_verdict_that_would_guess_is_withheld() -> None:
    table: list[tuple[Work, PeakRate | None, object]] = [
        (work_of(1e9, 1e6), None, state("no peaks", threads=2)),
        (work_of(1e9, 1e6, integer_ops=2e9), PEAK, state("integer work")),
        (work_of(1e6, 3e8), PEAK, state("from caches", times=2.0)),
        (
            work_of(1e9, 1e6, {"TreeEnsembleClassifier": 2, "ZipMap": 1}),
            PEAK,
            state("work uncounted", kinds="TreeEnsembleClassifier (2), ZipMap (1)", nodes=3, share=0.3),
        ),
    ]
    for work, peak, why in table:
        found = roofline_of(work, 15e-3, peak, 2)
        assert (None, None, why) == (found.bound, found.explained, found.withheld)


def test_few_kinds_are_named() -> None:
    found = roofline_of(work_of(0, 1, {f"Kind{n}": 1 for n in range(7)}), 1.0, PEAK, 1)
    assert "Kind4 (1), 2 further kinds, 70 % of the operators" in str(found.withheld)


def test_a_call_that_does_nothing_has_no_intensity() -> None:
    found = roofline_of(work_of(0, 0), 0.0, PEAK, 1)
    assert (None, None, None, None) == (found.intensity, found.flops_per_s, found.bytes_per_s, found.bound)
    overhead = roofline_of(work_of(0, 0), 1.0, PEAK, 1)
    assert ("overhead", 0.0, None) == (overhead.bound, overhead.explained, overhead.withheld)


def test_nothing_counted_is_no_zero() -> None:
    unknown = Graph(nodes=(GraphNode(kind="TreeEnsembleClassifier", inputs=(), outputs=()),), moved=(), unknown=("X",))
    tree, empty = count_work(unknown), count_work(Graph(nodes=(), moved=()))
    assert (None, None, None) == (tree.flops, tree.moved_bytes, tree.operations)
    assert (0.0, 0.0, None) == (empty.flops, empty.moved_bytes, empty.operations)


def test_peaks_are_of_a_number_of_threads() -> None:
    assert (PEAK, None) == (Peaks(rates=(PEAK,)).of(1), Peaks(rates=(PEAK,)).of(2))
