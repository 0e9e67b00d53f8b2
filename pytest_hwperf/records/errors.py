"""Exceptions that this package raises on purpose, under one root."""

from pytest_hwperf.records.text import visible, visible_lines


def install(extra: str) -> str:
    """Return what installs the packages that an extra of this project names."""
    return f"pip install 'pytest-hwperf[{extra}]'"


class HwperfError(Exception):
    """Base of all errors of hwperf: one sentence for the user, and sometimes a log below it.

    Both may quote what came from outside; whoever shows them shows nothing that a terminal obeys.
    """

    def __init__(self, sentence: str = "", *, log: str = "") -> None:
        sentence, log = visible_lines(sentence), visible_lines(log)
        super().__init__(f"{sentence}\n{log}" if log else sentence)
        self.sentence = sentence.partition("\n")[0]  # problems of several markers are a line each
        self.log = log  # the last lines of a process, or commands to be copied


class UsageProblem(HwperfError):  # noqa: N818 - it is the user's problem to fix, not an internal error
    """An invalid marker, option or argument, with the allowed ones."""


class MeasurementError(HwperfError):
    """A measurement that cannot be trusted: empty data, NaN outputs, wrong length, a raising callable."""


class ScenarioUnavailable(HwperfError):  # noqa: N818 - an honest "no such form", not a failure
    """The model has no form in this runtime or precision; the cause is the reason of the skip.

    Args:
        cause: a sentence, or a `Statement` whose kind others can ask for.
    """

    def __init__(self, cause: object = "", *, log: str = "") -> None:
        super().__init__(str(cause), log=log)
        self.cause = cause


class MeterUnavailable(HwperfError):  # noqa: N818 - an honest "cannot be read here", not a failure
    """A counter that is missing or locked on this machine; the text has the reason and the remedy."""


class StoreError(HwperfError):
    """A baseline folder or file that cannot be used; names the file and the remedy, in one line."""

    def __init__(self, sentence: str = "", *, log: str = "") -> None:
        super().__init__(visible(sentence), log=log)  # names in a folder may be anyone's: none begins a line here


class WorkerError(HwperfError):
    """A fresh process that crashed, hung or gave no result; names its log."""


class SerialisationError(HwperfError):
    """A record that cannot be written, or data that are not the record they should be; names the path to the value."""
