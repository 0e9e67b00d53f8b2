"""What the trial of an ONNX file shows: in which types it computes, and which batches alone it takes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pytest_hwperf.runtimes.estimators import digest_rows
from pytest_hwperf.runtimes.ort import rejection_errors
from pytest_hwperf.runtimes.profiles import OPERATORS_WITH_WEIGHTS, Kernel

TRIAL_ROWS = 32
# Types of tensors that say in which precision a model computes; the others are shapes, indices and text.
_PRECISIONS: Mapping[str, str] = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    **{name: name.lower() for name in ("INT8", "UINT8", "INT4", "UINT4", "INT2", "UINT2", "FLOAT4E2M1")},
    **{name: name.lower() for name in ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ")},
}
_FLOATS = frozenset({"float32", "float64", "float16", "bfloat16"})
_TENSORS: Mapping[str, str] = {"float": "float32", "double": "float64"}  # as profiles of ONNX Runtime write them
_BATCHES = (*range(1, TRIAL_ROWS + 1), 64, 128, 256)  # sizes that are tried where a model does not take `TRIAL_ROWS`


def precisions(weights: Iterable[str]) -> frozenset[str]:
    """Return the types of weights of a model; operators of ai.onnx.ml keep theirs in float32."""
    return frozenset(_PRECISIONS[kind] for kind in weights if kind in _PRECISIONS) or frozenset({"float32"})


def precision_at_work(weights: Iterable[str], kernels: Sequence[Kernel]) -> str:
    """Name the types in which a model computes, and those that only its weights have.

    A runtime computes in another type than the file has where it has no operator for that one: it then converts the
    weights once, and the rows in each call. What operators with weights compute in decides; without any, all others.
    """
    stored = precisions(weights)
    others = [one for one in kernels if one.operator != "Cast"]
    held = [one for one in others if one.operator in OPERATORS_WITH_WEIGHTS] or others
    at_work, anywhere = (_types_of(of) for of in (held, others))
    ran = (at_work & _FLOATS or anywhere & _FLOATS) | (at_work & stored - _FLOATS)
    if not ran:
        return ", ".join(sorted(stored))
    only_stored = stored - ran - {"float32"}  # scales of integers are float32, whatever computes
    shown = f" (weights {', '.join(sorted(only_stored))})" if only_stored else ""
    return f"{', '.join(sorted(ran))}{shown}"


def _types_of(kernels: Iterable[Kernel]) -> frozenset[str]:
    return frozenset(_TENSORS.get(kind, kind) for one in kernels for kind in one.types)


def run_in_other_batches(
    run: Callable[[Any], Any], batches: Sequence[Mapping[str, Any]]
) -> tuple[Any, int | None] | None:
    """Return the outputs of the rows in the smallest batches that a model takes, and their size if it takes no others.

    None where it takes none: then the rows are at fault, and not how many of them there are.
    """
    import numpy as np

    largest = max(_BATCHES) // TRIAL_ROWS
    head = {name: np.concatenate([one[name] for one in batches[:largest]]) for name in batches[0]}
    found: list[tuple[Any, int]] = []
    count = len(next(iter(head.values())))
    for size in (one for one in _BATCHES if one <= count):
        end = max(size, min(count, TRIAL_ROWS))
        starts = [*range(0, end - size, size), end - size]  # the last of them may overlap, so that no row is left out
        try:
            outputs = [run({name: values[start : start + size] for name, values in head.items()}) for start in starts]
        except rejection_errors():
            continue
        if all(isinstance(one, np.ndarray) and one.ndim and len(one) == size for one in outputs):
            found.append((np.concatenate(outputs), size))
    if not found:
        return None
    outputs, size = found[0]
    return outputs, size if len(found) == 1 else None


def first_rows(X: Any) -> Any:
    """Return the rows that a trial may look at."""
    if isinstance(X, Mapping):
        return {name: values[: max(_BATCHES)] for name, values in X.items()}
    return X[: max(_BATCHES)]


def sampled_rows(X: Any, most: int, block: int) -> Any:
    """Return at most so many rows, in whole blocks that a seed chooses: the first ones may be of one kind."""
    import numpy as np

    arrays = {name: np.asarray(values) for name, values in (X.items() if isinstance(X, Mapping) else [("", X)])}
    blocks = min(len(values) for values in arrays.values()) // block
    chosen = np.random.default_rng(0).choice(blocks, min(blocks, max(1, most // block)), replace=False)
    places = (np.sort(chosen)[:, None] * block + np.arange(block)).ravel()
    found = {name: values[places] for name, values in arrays.items()}
    return found if isinstance(X, Mapping) else found[""]


def digest_named(X: Any) -> str:
    """Return rows, or several arrays of them by name, as hexadecimal digits; an array of text holds pointers."""
    import numpy as np

    named = X if isinstance(X, Mapping) else {"": X}
    parts = [(name, np.asarray(values)) for name, values in named.items()]
    return repr([(name, repr(rows.tolist()) if rows.dtype == object else digest_rows(rows)) for name, rows in parts])
