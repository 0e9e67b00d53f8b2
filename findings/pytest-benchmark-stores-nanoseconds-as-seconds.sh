#!/usr/bin/env bash
# A timer of nanoseconds makes pytest-benchmark store nanoseconds where seconds stand.
#
# Versions: pytest-benchmark 5.3.1, pytest 9.2.0; Python 3.11.
# The usual guess: the option --benchmark-timer takes any clock of `time`, and figures in its JSON are seconds.
# What happens: values of time.perf_counter_ns are stored as they are, a thousand million times too large.
# Source: https://pytest-benchmark.readthedocs.io/en/latest/usage.html (option --benchmark-timer).
# Seen on 2026-11-29: a sleep of 1 ms has the median 1.1e+06.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check pytest-benchmark==5.3.1 pytest==9.2.0
cat > "$folder/test_sleep.py" <<'PY'
import time


def test_sleep(benchmark):
    benchmark.pedantic(time.sleep, (0.001,), rounds=20)
PY
cd "$folder"
env/bin/python -m pytest -q --benchmark-timer=time.perf_counter_ns --benchmark-json=out.json test_sleep.py >/dev/null
env/bin/python - <<'PY'
import json

with open("out.json", encoding="utf-8") as file:
    median = json.load(file)["benchmarks"][0]["stats"]["median"]
print(f"median of a sleep of 1 ms: {median:.1e}")
assert 1e6 <= median < 1e8
PY
