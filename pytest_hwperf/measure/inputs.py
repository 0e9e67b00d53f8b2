"""What calls are given, and whether they change it: later calls would have another input than the first one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CellType, FunctionType
from typing import Any

from pytest_hwperf.measure.contents import HeldContent, is_counted, is_data, is_made_of_fields, look
from pytest_hwperf.records.errors import MeasurementError


class BodyCall(partial[Any]):
    """The body of a test with its fixtures, which is the call that is measured."""


class InputChangedError(MeasurementError):
    """A call has changed what the next one gets."""

    def __init__(self, when: str, name: str) -> None:
        """`why` is the reason alone; as a text, the error says what to do too."""
        self.why = (
            f"its {when} call has changed its {name}, which setup= makes anew for each call: "
            "hwperf(call, setup=lambda: ([new_rows()], {}))"
        )
        super().__init__(
            f"the {when} call has changed its {name}, so that later calls get another input: let setup= make it anew "
            "for each call, such as hwperf(call, setup=lambda: ([new_rows()], {}))"
        )


@dataclass(slots=True)
class Inputs:
    """What calls get: what they are given, and what they reach by their object or from around them."""

    given: Mapping[str, object] = field(default_factory=dict)  # as messages name it → what is given for these calls
    reached: Mapping[str, object] = field(default_factory=dict)  # what may be kept from call to call
    _looks: list[Mapping[str, HeldContent]] = field(default_factory=list)

    def begin(self) -> None:
        """Look at all of it, before the first call."""
        self._looks = [self._look()]

    def check_first(self) -> None:
        """Look again after the first call.

        Raises:
            InputChangedError: what was given is another one now.
        """
        self._looks.append(self._look())
        for name, before, now in self._pairs(0):
            if any(before.changes(now, is_given=name in self.given).values()):
                raise InputChangedError("first", name)

    def check_later(self) -> None:
        """Look a last time after later calls, and forget everything.

        A field that only the first call has changed is used up: sorted rows stay sorted. One that changes again is a
        state that each call goes on with, such as the weights of a model that is trained.

        Raises:
            InputChangedError: what was given is another one now, or a field was used up by the first call.
        """
        self._looks.append(self._look())
        try:
            for name, before, now in self._pairs(1):
                later = before.changes(now, is_given=name in self.given)
                if any(later.values()):
                    raise InputChangedError("second", name)
                first = self._looks[0][name].changes(before, is_given=name in self.given)
                if first.keys() - later.keys():
                    raise InputChangedError("first", name)
        finally:
            self._looks = []

    @property
    def is_awaited(self) -> bool:
        """Whether a look is left to be taken."""
        return bool(self._looks)

    def _look(self) -> Mapping[str, HeldContent]:
        return look({**self.given, **self.reached})

    def _pairs(self, number: int) -> Iterator[tuple[str, HeldContent, HeldContent]]:
        before, now = self._looks[number], self._looks[number + 1]
        for name in before:
            yield name, before[name], now[name]


def inputs_of(
    function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Inputs:
    """Return what calls of `function(*args, **kwargs)` get."""
    if isinstance(function, partial):
        args = (*function.args, *args)
        kwargs = {**function.keywords, **(kwargs or {})}
        kind = "fixture" if isinstance(function, BodyCall) else "argument"
        function = function.func
    else:
        kind = "argument"
    given = {f"{kind} {name!r}": value for name, value in (*enumerate(args, 1), *(kwargs or {}).items())}
    reached = dict[str, object]()
    owner = getattr(function, "__self__", None)
    if owner is not None:
        reached["own object"] = owner
    plain = getattr(function, "__func__", function)
    if isinstance(plain, FunctionType):
        for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
            reached[f"variable {name!r}"] = _content_of(cell)
        reached |= _shared_data(plain, owner)
    directly = {name: value for name, value in given.items() if not is_made_of_fields(value)}
    return Inputs(directly, {name: value for name, value in given.items() if name not in directly} | reached)


def sizes_of(inputs: Inputs) -> dict[str, str]:
    """Return how many items each of the inputs has that holds some: what they are made from may be drawn by chance."""
    every: dict[str, Any] = {**inputs.given, **inputs.reached}
    return {name: f"{len(value):,} items" for name, value in every.items() if is_counted(value)}


def _content_of(cell: CellType) -> object:
    """Return what a variable around a function holds; None where it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _shared_data(function: FunctionType, owner: object) -> dict[str, object]:
    """Return the data of its module and of the class of its object that the code of a function names."""
    own = getattr(owner, "__dict__", {})
    of_class = (
        {}
        if isinstance(owner, type)
        else {name: one for kind in reversed(type(owner).__mro__) for name, one in vars(kind).items()}
    )
    found = dict[str, object]()
    for name in function.__code__.co_names:
        if name in function.__globals__ and is_data(function.__globals__[name]):
            found[f"global variable {name!r}"] = function.__globals__[name]
        if name not in own and is_data(of_class.get(name)):
            found[f"class attribute {name!r}"] = of_class[name]
    return found
