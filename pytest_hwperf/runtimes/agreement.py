"""How far the answers of a form are from those of the model itself, row by row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_hwperf.records.contracts import Predictions
from pytest_hwperf.records.errors import ScenarioUnavailable
from pytest_hwperf.records.messages import Statement, state
from pytest_hwperf.runtimes.estimators import CheckedRows, FittedModel, Output

_MOST_OTHERS = 0.01  # share of the rows: rounding to float32 moves fewer across a boundary
_TIE = 1e-5  # by which the two largest probabilities of a row differ: rounding decides between them
_SAME_PROBABILITY = 0.01  # rounding to float32 moves a probability by 1e-6, if the model is not ill-conditioned
_SAME_VALUE = 1e-3  # of the span of the values
_SHOWN = 3  # numbers of a row
_SYMBOLS = {"probabilities": "|Δp|", "scores": "|Δscore|", "values": "|Δ|"}


class Answering(Protocol):
    """A fitted model, or a file, whose outputs are turned into answers."""

    @property
    def kind(self) -> str: ...

    @property
    def output(self) -> Output: ...

    def labels(self, outputs: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Distance of outputs from the model's own answers on the same rows."""

    text: str
    others: int  # rows that are answered otherwise
    gross: bool  # whether these are more than rounding explains


def agreement(fitted: Answering, outputs: Any, own: Predictions, positions: Any | None = None) -> Agreement:
    """Compare outputs with the model's own answers; `positions` are those of the rows in the user's data."""
    import numpy as np

    answers = fitted.labels(outputs)
    expected = np.asarray(own.labels)
    if np.shape(answers) != expected.shape:
        shapes = f"{np.shape(answers)} instead of {expected.shape}"
        raise ScenarioUnavailable(f"{fitted.kind} converts, but gives answers of shape {shapes}")
    n = len(expected)
    places = np.arange(n) if positions is None else positions
    told = list[str]()
    far = np.zeros(n, dtype=bool)
    if (symbol := _SYMBOLS.get(fitted.output)) and (compared := _numbers(fitted, outputs, own)):
        distances, bound = compared
        told.append(f"max {symbol} {distances.max():.2g}")
        far = ~(distances <= bound)  # so that NaN is far
    if fitted.output == "values":
        others, what = far, "values"
    else:
        others, what = answers != expected, "labels"
        far |= others & ~_ties(own, n)
    count = int(others.sum())
    told.append(f"{count} of {n} {what} differ")
    if count:
        first = int(others.argmax())
        told.append(f"such as row {places[first]}: {_shown(answers[first])} instead of {_shown(expected[first])}")
    elif far.any() and own.probabilities is not None:
        first = int(far.argmax())
        ours, theirs = (_listed(numbers[first]) for numbers in (outputs, own.probabilities))
        told.append(
            f"and {int(far.sum())} rows of {fitted.output}, such as row {places[first]}: {ours} instead of {theirs}"
        )
    off = int((far | others).sum())
    return Agreement(text=", ".join(told), others=off, gross=int(far.sum()) > _MOST_OTHERS * n)


def parity(
    fitted: FittedModel, outputs: Any, checked: CheckedRows, form: str, *, exact: bool = True
) -> Mapping[str, str] | Statement:
    """Return how far outputs are from the model's own answers; of a form that is exact, why it must not be used.

    A `warning` among the notes says that an exact form answers some rows otherwise.
    """
    found = agreement(fitted, outputs, checked.own(), checked.positions())
    rounded = checked.rounded() if exact and found.others else ""
    told = f"{found.text}{rounded}"
    if exact and found.gross:
        return state("other answers", form=form, call=fitted.call, told=told)
    notes = {"parity": f"{told} from {fitted.call}"}
    if exact and found.others:
        notes["warning"] = f"the {form} answers some rows otherwise than {fitted.call}: {told}"
    return notes


def _numbers(fitted: Answering, outputs: Any, own: Predictions) -> tuple[Any, float] | None:
    """Return the largest distance within each row, and the one up to which rows agree; None where one has no numbers.

    The scores of a module are its own outputs, and stand where probabilities stand.
    """
    import numpy as np

    reference = own.labels if fitted.output == "values" else own.probabilities
    if reference is None:
        return None
    found = fitted.labels(outputs) if fitted.output == "values" else np.asarray(outputs)
    if np.shape(found) != np.shape(reference):
        raise ScenarioUnavailable(
            f"{fitted.kind} converts, but gives outputs of shape {np.shape(found)} instead of {np.shape(reference)}"
        )
    wide = np.asarray(reference, dtype=np.float64)
    distances = np.abs(np.asarray(found, dtype=np.float64) - wide)
    rows = distances.reshape(len(distances), -1).max(axis=1)
    if fitted.output == "probabilities":
        return rows, _SAME_PROBABILITY
    span = float(wide.max() - wide.min()) or float(np.abs(wide).max())
    return rows, _SAME_VALUE * span


def _ties(own: Predictions, n: int) -> Any:
    """Return which rows have two largest probabilities that rounding may exchange."""
    import numpy as np

    if own.probabilities is None or np.shape(own.probabilities)[1] < 2:  # noqa: PLR2004 - two are compared
        return np.zeros(n, dtype=bool)
    largest = np.sort(np.asarray(own.probabilities), axis=1)[:, -2:]
    return largest[:, 1] - largest[:, 0] <= _TIE


def _listed(numbers: Any) -> str:
    shown = [f"{number:.3g}" for number in numbers[:_SHOWN]]
    return ", ".join([*shown, *(["…"] if len(numbers) > _SHOWN else [])])


def _shown(answer: Any) -> str:
    """Write a label or a value."""
    return f"{answer:.6g}" if isinstance(answer, float) else str(answer)
