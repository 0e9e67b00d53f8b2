"""The rate of false alarms that a user accepts, as options give it."""

import re

from pytest_hwperf.records.errors import UsageProblem

_MOST_ALARMS = 0.2  # one false alarm in five builds is noise, not a gate


def parse_rate(option: str, text: str) -> float:
    """Turn `1%` or `0.01`, the accepted rate of false alarms, into 0.01."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    rate = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < rate <= _MOST_ALARMS:
        raise UsageProblem(f"{option}={text!r}: a rate above 0 up to 20 %, such as 1% or 0.01")
    return rate
