"""Steps of workflows, run in a shell as a runner of GitHub or GitLab would, with stand-ins for what they call.

What an expression stands for comes from the test. `python`, `gh` and `curl` are stand-ins that note how they were
called; git, jq and unzip are the real ones.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pytest_hwperf.records.errors import HwperfError

ROOT = Path(__file__).parents[2]
_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")

# Notes its arguments; measures nothing, but leaves the report that the test has prepared and prints what a test might.
_PYTHON = r"""#!/bin/bash
printf 'python\t%s\n' "$(IFS=$'\t'; echo "$*")" >> "$STUBS/calls"
case "$*" in
  *secrets.token_hex*) echo drawn-word ;;
  "-I -c "*) exec "$STUB_PYTHON" "$@" ;;
  *"-m pytest "*)
    echo "::error::printed by a test"
    for one in "$@"; do
      case "$one" in
        --hwperf-report=*.json) if [ -f "$STUBS/report.json" ]; then cp "$STUBS/report.json" "${one#*=}"; fi ;;
        --hwperf-report=*.md) if [ -f "$STUBS/summary.md" ]; then cp "$STUBS/summary.md" "${one#*=}"; fi ;;
      esac
    done
    exit "${STUB_CODE:-0}" ;;
  *"pytest_hwperf.cli report"*)
    case "$*" in *--annotations*) echo "::error title=Performance::annotated" ;; esac
    for one in "$@"; do
      case "$one" in --output=*.md) cp "$STUBS/summary.md" "${one#*=}" ;; esac
    done
    exit "${STUB_SHOWN:-0}" ;;
esac
"""
_GH = r"""#!/bin/bash
printf 'gh\t%s\n' "$(IFS=$'\t'; echo "$*")" >> "$STUBS/calls"
method=GET filter=
while [ $# -gt 0 ]; do
  case "$1" in
    --jq) filter=$2; shift ;;
    --method) method=$2; shift ;;
    --field) case "$2" in body=@*) body=${2#body=@} ;; esac; shift ;;
    --raw-field) shift ;;
    -*|api) ;;
    *) path=$1 ;;
  esac
  shift
done
if [ "$method" != GET ]; then
  echo "$method $path" >> "$STUBS/sent"
  cp "$body" "$STUBS/body"
  exit "${STUB_WRITTEN:-0}"
fi
answer="$STUBS/$(echo "${path%%\?*}" | tr / _)"
if [ ! -f "$answer" ]; then exit 1; fi
if [ -n "$filter" ]; then jq -r "$filter" "$answer"; else cat "$answer"; fi
"""
_CURL = r"""#!/bin/bash
printf 'curl\t%s\n' "$(IFS=$'\t'; echo "$*")" >> "$STUBS/calls"
case "$*" in
  *"--request"*) echo "$*" >> "$STUBS/sent" ;;
  */user) echo '{"id": 7}' ;;
  *) cat "$STUBS/notes" ;;
esac
"""


class UnknownExpressionError(HwperfError):
    """A step names something that the test does not give."""


def load(name: str) -> dict[str, Any]:
    """Read a YAML file of the repository; the key `on`, which YAML takes for true, is `on`."""
    found = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


class Runner:
    """Runs steps one after the other in a folder."""

    def __init__(self, folder: Path, stubs: Path, context: Mapping[str, str], **variables: str) -> None:
        """Make the stand-ins and the files that steps write to."""
        self.stubs, self._folder, self._context = stubs, folder, dict(context)
        (stubs / "bin").mkdir(parents=True)
        for name, script in (("python", _PYTHON), ("gh", _GH), ("curl", _CURL)):
            (stubs / "bin" / name).write_text(script, encoding="utf-8")
            (stubs / "bin" / name).chmod(0o755)
        files = {name: stubs / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY", "calls", "sent")}
        for file in files.values():
            file.touch()
        self._variables = {
            "PATH": f"{stubs / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "STUBS": str(stubs),
            "STUB_PYTHON": sys.executable,
            "RUNNER_TEMP": str(stubs),
            "GITHUB_REPOSITORY": "o/r",
            "HOME": str(stubs),
            **{name: str(path) for name, path in files.items()},
            **variables,
        }

    def run(self, step: Mapping[str, Any], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run one step; what it writes to its outputs is known to those behind it."""
        given = {name: self._worth(str(value)) for name, value in step.get("env", {}).items()}
        done = self.shell(step["run"], **{**given, **variables})
        outputs = self.stubs / "GITHUB_OUTPUT"
        for line in outputs.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            self._context[f"steps.{step.get('id', '')}.outputs.{name}"] = value
        outputs.write_text("", encoding="utf-8")
        return done

    def shell(self, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script as the runner does: it ends with the first command that fails."""
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        environment = {**self._variables, **variables}
        return subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def lines(self, name: str) -> list[str]:
        """Return the lines of a file of the stand-ins."""
        return (self.stubs / name).read_text(encoding="utf-8").splitlines()

    def _worth(self, text: str) -> str:
        def known(found: re.Match[str]) -> str:
            if found[1] not in self._context:
                raise UnknownExpressionError(found[1])
            return self._context[found[1]]

        return _EXPRESSION.sub(known, text)
