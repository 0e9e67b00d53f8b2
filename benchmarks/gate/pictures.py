"""Make the pictures of the README anew: a gate runs on a small project, of which one function was edited.

    python -m benchmarks pictures

`docs/pictures/gate.svg` is what the terminal shows, `report.html` the HTML report, `report.png` its head. Needs the
package rich and a chromium.
"""

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.projects import ROOT, commit, write
from pytest_hwperf import __version__

COLUMNS = 92
FEATURES = """import numpy as np

VOCABULARY = {f"word{number}": number for number in range(5_000)}


def tokens(text):
    return [VOCABULARY.get(word, 0) for word in text.lower().split()]


def histogram(texts):
    counts = np.zeros((len(texts), len(VOCABULARY)), dtype=np.int32)
    for row, text in enumerate(texts):
        np.add.at(counts[row], tokens(text), 1)
    return counts


def scaled(counts):
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
"""
EDITED = {
    "import numpy": "import re\n\nimport numpy",
    "text.lower().split()": 're.findall(r"\\w+", text.lower())',
}
TESTS = """import features

TEXTS = [" ".join(f"Word{(row * 31 + number) % 6_000}" for number in range(200)) for row in range(20)]
COUNTS = features.histogram(TEXTS)


def test_histogram():
    assert features.histogram(TEXTS).sum() == 20 * 200


def test_scaled():
    assert features.scaled(COUNTS).sum().round() == 20
"""
COMMAND = ["--hwperf-all", "--hwperf-against=main"]


def made(folder: Path) -> None:
    """Commit the project as main, and edit one function."""
    commit(folder, {"features.py": FEATURES, "test_features.py": TESTS, ".gitignore": "__pycache__/\n.hwperf/\n"})
    edited = FEATURES
    for old, new in EDITED.items():
        edited = edited.replace(old, new)
    write(folder, {"features.py": edited})


def ran(folder: Path, report: Path) -> str:
    """Run the gate and return what the terminal showed, with its colours."""
    words = [*COMMAND, f"--hwperf-report={report}"]
    # What is typed stands in the command that the output suggests: these are no part of it.
    env = os.environ | {"COLUMNS": str(COLUMNS), "FORCE_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=folder, env=env, check=False, capture_output=True, text=True
    )
    if done.returncode != 1:
        raise SystemExit(f"the gate ended with {done.returncode}, where 1 was due:\n{done.stdout}{done.stderr}")
    return done.stdout


def drawn(output: str, picture: Path) -> None:
    """Draw the output from its failures to its last line."""
    from rich.console import Console
    from rich.text import Text

    lines = [line for line in output.splitlines() if "hwperf: wrote" not in line]
    first = next(number for number, line in enumerate(lines) if "FAILURES" in line)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(f"$ pytest {' '.join(COMMAND)}", markup=False, highlight=False)
    for line in lines[first:]:
        console.print(Text.from_ansi(line), overflow="fold")
    picture.write_text(console.export_svg(title=f"pytest-hwperf {__version__}"), encoding="utf-8")


def photographed(report: Path, picture: Path) -> None:
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        raise SystemExit("install chromium: report.png stays as it was")
    words = ["--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=10000", "--window-size=1100,700"]
    subprocess.run([browser, *words, f"--screenshot={picture}", report.as_uri()], check=True, capture_output=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs" / "pictures", help="e.g. /tmp")
    folder = parser.parse_args().folder
    with TemporaryDirectory() as name:
        project, report = Path(name) / "words", folder / "report.html"
        project.mkdir()
        made(project)
        output = ran(project, report)
        print(re.sub(r"\x1b\[[\d;]*m", "", output))
        drawn(output, folder / "gate.svg")
        photographed(report, folder / "report.png")


if __name__ == "__main__":
    main()
