"""How much less the change from a release varies, measured in pairs, than the raw figure of each run.

    python -m benchmarks anchored

Of the recording in tests/data, whose rounds have five
processes alive together for seven seconds: a raw figure is the median of the calls that a process made alone, an
anchored one the median over blocks of turns of its log ratio to the process of the release. Equal code on both sides.
"""

import argparse

import numpy as np

from benchmarks import tables
from benchmarks.gate.replay import WORKLOADS, block_ratios, recorded

_MAD = 1.4826


def spreads(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> tuple[float, float, float]:
    """Return standard deviation and 1.4826 times the median absolute deviation in %, and the lag-1 autocorrelation."""
    residuals = values - values.mean()
    lag = float((residuals[1:] * residuals[:-1]).sum() / (residuals**2).sum())
    return 100 * float(values.std(ddof=1)), 100 * _MAD * float(np.median(abs(values - np.median(values)))), lag


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    raw, ratios, rows = recorded("solo")["A_prime"], block_ratios("duet", "A_prime"), []
    for place, workload in enumerate(WORKLOADS):
        figures = {
            "raw median": np.log(np.median(raw[:, place], axis=-1)),
            "change from the release": np.median(ratios[:, place], axis=-1),
        }
        for name, values in figures.items():
            sd, robust, lag = spreads(values)
            rows.append((f"`{workload}`", name, len(values), f"{sd:.2f}", f"{robust:.2f}", f"{lag:+.2f}"))
    print(tables.markdown(("workload", "figure", "runs", "sd, %", "robust sd, %", "autocorrelation"), rows))
