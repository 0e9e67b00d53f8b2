"""Exit codes of the command: those of an answer are given by an answer only."""

import argparse
import io
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from fakes.commands import Told

from pytest_hwperf.cli import INTERNAL, UNREAD, USAGE, _parser, compare, doctor, main, report, selfcheck
from pytest_hwperf.cli.inputs import read_data
from pytest_hwperf.cli.output import width
from pytest_hwperf.records.errors import UsageProblem

ANSWERS = {0, 1, 3}
X = np.random.default_rng(0).normal(size=(50, 4))


def mistaken(*_: Any) -> int:
    raise RuntimeError("nobody foresaw \x1b[2J this")


def test_an_unforeseen_error_is_no_answer(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """Python itself would end with 1, which means that something regressed."""
    modules: Sequence[tuple[Any, Sequence[str]]] = (
        (report, ["report", "report.json"]),
        (compare, ["compare", "a:f", "b:f", "--data=rows.npy"]),
        (selfcheck, ["selfcheck"]),
        (doctor, ["doctor"]),
    )
    assert INTERNAL not in ANSWERS
    for module, arguments in modules:
        monkeypatch.setattr(module, "COMMAND", module.COMMAND._replace(run=mistaken))
        error = told(INTERNAL, *arguments).err
        assert r"RuntimeError: nobody foresaw \x1b[2J this" in error
        assert "this is a mistake of pytest-hwperf and no answer" in error


LONG = "x" * 300
REFUSED: Sequence[tuple[Sequence[str], str]] = (
    # An unknown command or option names the nearest.
    (["comapre", "a", "b"], "hwperf: unknown command 'comapre'. Did you mean 'compare'?; see hwperf --help\n"),
    (["baseline", "lst"], "unknown command 'lst'. Did you mean 'list'? Allowed: list, show, remove, accept, "),
    (["zzz"], "unknown command 'zzz'. Allowed: compare, doctor, "),
    (
        ["compare", "a", "b", "--data=c", "--makrdown=a"],
        "arguments: --makrdown=a. Did you mean '--markdown'?; see hwperf compare ",
    ),
    (["baseline", "list", "--zzz"], "unrecognized arguments: --zzz; see hwperf baseline list --help\n"),
    (["--no-such"], "--help"),
    (["compare"], "--help"),
    (["compare", "a", "b", "--data=x", "--threads=many"], "--help"),
    (["annotate", "r"], "unknown command 'annotate'. Use hwperf history note; see hwperf --help\n"),
    (["calibrate"], "unknown command 'calibrate'. Use the ini key hwperf_watts; see hwperf --help\n"),
    (["export"], "unknown command 'export'. Use hwperf report --as, or hwperf history --as; see hwperf --help\n"),
    (["merge", "a", "b"], "unknown command 'merge'. Use hwperf report FILE FILE; see hwperf --help\n"),
    (["recompute", "r"], "unknown command 'recompute'. Use hwperf report --verify; see hwperf --help\n"),
    # A name that no file can have.
    (["baseline", "list", f"--store={LONG}"], "hwperf: "),
    (["baseline", "accept", "*", f"--store={LONG}"], "hwperf: "),
    (["baseline", "list", f"--baseline={LONG}"], "hwperf: "),
    (["compare", LONG, LONG, "--data=rows.npy"], "hwperf: "),
    (["compare", "m:f", "m:f", f"--data={LONG}"], "hwperf: "),
    (["report", LONG], "hwperf: "),
    # An endless device or a pipe that nobody writes to would keep a command for ever.
    (["report", "device"], "not a regular file"),
    (["report", "--from=onnxruntime:device"], "not a regular file"),
    (["report", "device", "device.csv"], "not a regular file"),
    (["tradeoffs", "device"], "not a regular file"),
    (["tradeoffs", "device.csv"], "not a regular file"),
    (["tradeoffs", "table.csv", "--requirements=device"], "not a regular file"),
    (["fleet", "--hosts=device", "--", "tests"], "not a regular file"),
    (["load", "http://127.0.0.1:1", "--qps=10", "--body=@device"], "not a regular file"),
    (["compare", "a:f", "b:f", "--data=device.csv"], "not a regular file"),
    # What would be lost.
    (["report", "r", "--output=a.md", "--output=./a.md"], "--output=./a.md name one file: give each its own"),
    (
        ["compare", "a:f", "b:f", "--data=c", "--markdown=a", "--json=b/../a"],
        "--markdown=a and --json=b/../a name one file",
    ),
    (["baseline", "list", "--store=sql:sqlite:///:memory:"], "would be gone with this process"),
)


def test_what_cannot_be_meant_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("name,latency_p50_ms\na,1\nb,2\n", encoding="utf-8")
    for name in ("device", "device.csv"):
        Path(name).symlink_to("/dev/null")
    errors = [told(USAGE, *arguments).err for arguments, _ in REFUSED]
    assert [] == [one for one, error in zip(REFUSED, errors, strict=True) if one[1] not in error]
    assert [] == [
        error for error in errors if not error.startswith(("hwperf: ", "usage: hwperf ")) or "Traceback" in error
    ]


# What is typed → the file beside it that is named.
MISSING: Sequence[tuple[Sequence[str], str]] = (
    (["report", "reprot.json"], "FILE.json. Did you mean 'report.json'?\n"),
    (["tradeoffs", "tabel.csv"], "(No such file or directory). Did you mean 'table.csv'?\n"),
    (["compare", "a:f", "b:f", "--data=rows.csv"], "an .npy, or a .csv\n"),
    (["compare", "modle.onnx", "b:f", "--data=table.csv"], "/infer). Did you mean 'model.onnx'?\n"),
    (["report", "no such folder/report.json"], "FILE.json\n"),
)


def test_a_misspelt_file_is_named_by_its_neighbour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("report.json", "table.csv", "model.onnx"):
        Path(name).touch()
    assert [] == [one for one in MISSING if not told(USAGE, *one[0]).err.endswith(one[1])]


def test_the_help_lists_twelve_commands_with_the_daily_ones_first() -> None:
    listed = re.findall(r"^    ([a-z]+)", _parser().format_help(), re.MULTILINE)
    assert {"doctor", "history note"} == {*_parser("doctor").commands}  # the others are not even imported
    assert listed == [
        "compare", "doctor", "selfcheck", "report", "history", "baseline", "bisect", "load", "sweep", "tradeoffs",
        "capacity", "fleet",
    ]  # fmt: skip


def test_what_a_command_reads_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r").write_text("precious", encoding="utf-8")
    Path("r.json").symlink_to("r")
    Path("link").symlink_to("r")
    for arguments in (
        ["report", "a", "r.json", "--output=a.md", "--output=r.json"],
        ["report", "--from=onnxruntime:r", "--as=bencher", "--output=./r"],
        ["tradeoffs", "--hosts=r", "--json=r", "--", "test_a.py"],
        ["bisect", "A", "B", "--json=r", "--", "r::test_a"],
        ["history", "*", "--store=sql:sqlite:///r", "--as=otava", "--output=r"],
        ["load", "http://localhost", "--body=@r", "--json=r"],
        ["sweep", "a.onnx", "--data=link", "--plot=r"],
        ["compare", "r", "b.onnx", "--data=a.npz", "--record=r"],
    ):
        assert " is a file that this command reads: give another place" in told(USAGE, *arguments).err
        assert Path("r").read_text(encoding="utf-8") == "precious"


def files() -> dict[str, bytes]:
    """Data files that are damaged, or hold what cannot be measured."""
    plain, packed, array, text = (io.BytesIO() for _ in range(4))
    np.savez(plain, X=X)
    np.savez_compressed(packed, X=X)
    np.save(array, X)
    np.save(text, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    crc, zlib, npy = bytearray(plain.getvalue()), bytearray(packed.getvalue()), array.getvalue()
    crc[400:420] = b"\xff" * 20
    zlib[120:160] = bytes(40)
    huge = b"{'descr': '<f8', 'fortran_order': False, 'shape': (9999999999999, 9999), }"
    no_array = io.BytesIO()
    with zipfile.ZipFile(no_array, "w") as archive:
        archive.writestr("X", b"hello")
    return {
        "no_zip.npz": b"PK\x03\x04" + b"x" * 100,
        "cut.npz": plain.getvalue()[:200],
        "sum.npz": bytes(crc),
        "packed.npz": bytes(zlib),
        "empty.npz": b"",
        "empty.npy": b"",
        "cut.npy": npy[:100],
        "header.npy": npy[:10] + b"(" * 108 + npy[118:],
        "huge.npy": npy[:8] + len(huge).to_bytes(2, "little") + huge,
        "pickled.npy": text.getvalue(),
        "bytes.npz": no_array.getvalue(),
        "none.npz": saved(other=X),
        "one_number.npz": saved(X=np.float64(3)),
        "no_rows.npz": saved(X=np.zeros((0, 4))),
        "fields.npz": saved(X=np.zeros(3, dtype=[("a", "f8")])),
        "few_labels.npz": saved(X=X, y=np.zeros(3)),
        "empty.csv": b"",
        "bytes.csv": b"\x00\x01\xff\xfe",
        "ragged.csv": b"a,b\n1,2\n1,2,3,4\n",
        "quote.csv": b'a,b\n"1,2\n3,4',
        "heading.csv": b"a,b\n",
        "words.csv": b"a,b\nx,1\n",
    }


def saved(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def test_damaged_data_is_a_usage_error(tmp_path: Path, told: Told) -> None:
    """And is refused before any process is started; what is pickled is never loaded."""
    for name, content in files().items():
        path = tmp_path / name
        path.write_bytes(content)
        error = told(USAGE, "compare", "models:f", "models:f", f"--data={path}").err
        assert f"hwperf: --data={path}" in error
        assert ("allow_pickle=False" in error) == (name == "pickled.npy"), name


def test_data_without_a_bound_is_not_read(tmp_path: Path) -> None:
    """Nor an archive that says 3 GB of an entry, of which it holds some bytes."""
    for name in ("rows.csv", "rows.npy", "rows.npz"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(3_000_000_000)  # of which the disk holds nothing
    with ZipFile(tmp_path / "packed.npz", "w", compression=ZIP_DEFLATED) as packed:
        packed.writestr("X.npy", b"")
        packed.infolist()[0].file_size = 3_000_000_000
    for name in ("rows.csv", "rows.npy", "rows.npz", "packed.npz"):
        with pytest.raises(UsageProblem, match=r"larger than 2000 MB"):
            read_data(str(tmp_path / name), None)


def test_whole_data_is_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "rows.npz", X=X, y=np.arange(50))
    rows, labels = read_data(str(tmp_path / "rows.npz"), None)
    assert X.tolist() == rows.tolist()
    assert labels is not None
    assert list(range(50)) == labels.tolist()


def printing(_: argparse.Namespace) -> int:
    from pytest_hwperf.cli.output import say

    for _line in range(100_000):
        say("a line of the answer: ×")
    return 0


CODE = """
import sys
sys.path[:0] = [{here!r}, {here!r} + "/.."]
from test_exit_codes import printing
from pytest_hwperf.cli import main, report
report.COMMAND = report.COMMAND._replace(run=printing)
sys.exit(main(["report", "report.json"]))
"""


@pytest.mark.live
def test_an_output_that_is_read_no_further_ends_in_silence() -> None:
    """As after `| head -1`."""
    with subprocess.Popen(
        [sys.executable, "-c", CODE.format(here=str(Path(__file__).parent))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"a line of the answer: \\xd7\n" == process.stdout.readline()
        process.stdout.close()
        error = process.stderr.read()
    assert (UNREAD, b"") == (process.returncode, error)


@pytest.mark.live
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_an_output_on_a_full_disk_is_no_answer() -> None:
    with Path("/dev/full").open("wb") as full:
        command = [sys.executable, "-c", CODE.format(here=str(Path(__file__).parent))]
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert USAGE == ended.returncode
    assert ended.stderr == b"hwperf: the standard output cannot be written (No space left on device)\n"


class Terminal(io.StringIO):
    """Standard error that is shown to someone."""

    def isatty(self) -> bool:
        return True


def pressed(*_: Any) -> Any:
    raise KeyboardInterrupt


def test_ctrl_c_ends_a_command_with_one_line(monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    """By 130, as in shells, and without a traceback."""
    monkeypatch.setattr(report, "read_report", pressed)
    monkeypatch.setattr(doctor, "collect_findings", pressed)
    for arguments in (["report", "report.json"], ["doctor"]):
        assert ("", "hwperf: interrupted\n") == told(130, *arguments)


def test_a_line_of_progress_is_written_over(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(doctor, "collect_findings", pressed)
    monkeypatch.setattr(sys, "stderr", terminal)
    main(["doctor"])
    assert ["", "", "hwperf: interrupted\n"] == [text.lstrip() for text in terminal.getvalue().split("\r")]


def test_tables_are_as_wide_as_the_terminal_or_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """An output that is no terminal has 100 columns."""
    monkeypatch.setattr("os.get_terminal_size", lambda _: (_ for _ in ()).throw(OSError))
    for columns, expected in (("80", 80), ("120", 120), ("", 100)):
        monkeypatch.setenv("COLUMNS", columns)
        assert expected == width()
