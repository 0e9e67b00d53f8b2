"""Where the time of a call goes within its runtime, and what limits it: asked when everything else is measured."""

from pytest_hwperf.core.errors import MeasurementError
from pytest_hwperf.core.operators import OperatorProfile, profile_of
from pytest_hwperf.core.roofline import Peaks, Roofline, roofline_of
from pytest_hwperf.core.statements import Statement, said, state
from pytest_hwperf.measure.subjects import Subject


def operator_profile(subject: Subject, latency_s: float) -> OperatorProfile:
    """Take where the time of a call goes, or say why that is not known; its median without a profiler is given."""
    reason = state("no profiler", scenario=subject.scenario)
    if subject.profile is not None:
        try:
            return profile_of(subject.profile(), latency_s)
        except MeasurementError as error:
            reason = said(error)
    return withheld_profile(reason, latency_s)


def withheld_profile(why: Statement, latency_s: float) -> OperatorProfile:
    """Return a profile that says why nothing is known."""
    return OperatorProfile(source="", calls=0, latency_s=latency_s, coverage=0.0, withheld=why)


def roofline(subject: Subject, latency_s: float, peaks: Peaks | None) -> Roofline | None:
    """Relate the counted work of a call to its median time; None where the work cannot be counted."""
    if subject.work is None:
        return None
    try:
        work = subject.work()
    except MeasurementError:
        return None
    threads = int(subject.conditions.get("threads", "1"))
    return roofline_of(work, latency_s, peaks.of(threads) if peaks else None, threads)
