"""Colours of the command line, and completion in a shell."""

import io
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from fakes.commands import Told

from pytest_hwperf.cli import USAGE
from pytest_hwperf.cli.output import COLOR, complain, say, show_document
from pytest_hwperf.reports.document import Paragraph, Title

RED, BOLD_RED = "\x1b[31m", "\x1b[1;31m"


class Screen(io.StringIO):
    """A terminal, or a file."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


# --color, whether it is a terminal, its environment → whether it is coloured
CASES: Sequence[tuple[str, bool, dict[str, str], bool]] = (
    ("auto", True, {}, True),
    ("auto", True, {"NO_COLOR": ""}, True),  # as no-color.org says: only a text counts
    ("auto", True, {"NO_COLOR": "1"}, False),
    ("auto", True, {"TERM": "dumb"}, False),
    ("auto", False, {}, False),
    ("always", False, {"NO_COLOR": "1"}, True),
    ("never", True, {}, False),
)


@pytest.mark.skipif(sys.platform == "win32", reason="consoles may show codes as text")
@pytest.mark.parametrize(("choice", "is_terminal", "environment", "is_coloured"), CASES)
def test_a_terminal_has_colours_unless_the_user_wants_none(
    choice: str, is_terminal: bool, environment: dict[str, str], is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is foreign in a coloured line is no more obeyed than elsewhere."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    out, error = Screen(is_terminal=is_terminal), Screen(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", error)
    chosen = COLOR.set(choice)
    show_document([Title(f"no-go{RED}", tone="bad"), Paragraph("text")])
    say("slow", {"red": True})
    complain("wrong")
    COLOR.reset(chosen)

    on, red, off = (BOLD_RED, RED, "\x1b[0m") if is_coloured else ("", "", "")
    assert f"{on}no-go\\x1b[31m{off}\ntext\n{red}slow{off}\n" == out.getvalue()
    assert f"{on}hwperf:{off} wrong\n" == error.getvalue()


def test_the_option_may_stand_before_and_behind_the_command(told: Told) -> None:
    for words in (["--color=always", "baseline", "list"], ["baseline", "list", "--color", "always"]):
        assert f"{BOLD_RED}hwperf:\x1b[0m" in told(USAGE, *words, "--store=sql:sqlite:///:memory:").err
    assert told(USAGE, "baseline", "list", "--store=sql:sqlite:///:memory:").err.startswith("hwperf: ")


# What is typed before the tabulator key → all that may follow.
COMPLETED: Sequence[tuple[list[str], list[str]]] = (
    (["tr"], ["tradeoffs"]),
    (["baseline", "co"], ["copy"]),
    (["report", "--as", "be"], ["bencher"]),
    (["report", "--ver"], ["--verify"]),
    (["report", "report.j"], ["report.json"]),
    (["compare", "--data", "report.j"], ["report.json"]),
)


def test_bash_completes_commands_options_choices_and_files(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    monkeypatch.chdir(tmp_path)
    Path("report.json").touch()
    script = told(0, "--completion=bash").out
    for words, found in COMPLETED:
        typed = " ".join(["hwperf", *words])
        asked = f'COMP_WORDS=({typed}); COMP_CWORD={len(words)}; _shtab_hwperf; printf "%s\\n" "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash"], input=f"{script}\n{asked}\n", capture_output=True, text=True, check=True)
        assert (words, found) == (words, done.stdout.split())


def test_each_shell_has_a_script_that_it_can_read(told: Told) -> None:
    """A shell that is here reads it, without running it."""
    pytest.importorskip("shtab", reason="the extra completion is not installed")
    for shell in ("bash", "zsh", "fish"):
        script = told(0, f"--completion={shell}").out
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=True)
        assert [] == [name for name in ("compare", "fleet", "--verify", "--color") if name.strip("-") not in script]
    assert "invalid choice: 'csh' (choose from " in told(USAGE, "--completion=csh").err


def test_a_missing_library_is_named(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_hwperf.host.extras.find_spec", lambda _: None)
    assert (
        "hwperf: --completion needs shtab: pip install 'pytest-hwperf[completion]'\n"
        == told(USAGE, "--completion=bash").err
    )
