"""The state of a bisection that was interrupted: a file in the repository's own folder, one for each question."""

import hashlib
from pathlib import Path

from pytest_hwperf.core.bisection import Bisection, BisectionQuestion
from pytest_hwperf.core.culprits import History
from pytest_hwperf.core.errors import SerialisationError, UsageProblem
from pytest_hwperf.core.records import replace
from pytest_hwperf.core.serialisation import from_file, to_json
from pytest_hwperf.host.files import read_file, replace_file

_LARGEST = 64 * 2**20  # bytes
_AGAIN = "start again with --restart"
_DIGITS = 16


class BisectionState:
    """The file of one question; the same command finds it again."""

    def __init__(self, git_folder: Path, question: BisectionQuestion) -> None:
        """Choose the file, in the folder that git keeps for this work tree."""
        digest = hashlib.sha256(to_json(question)).hexdigest()[:_DIGITS]
        self.question, self.path = question, git_folder / "hwperf-bisect" / f"{digest}.json"

    def read(self, history: History) -> Bisection | None:
        """Return what is known so far; None: nothing."""
        try:
            found = from_file(Bisection, read_file(self.path, _LARGEST), other=_AGAIN, older=_AGAIN)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UsageProblem(f"{self.path} cannot be read ({error.strerror}): {_AGAIN}") from error
        except SerialisationError as error:
            raise UsageProblem(f"{self.path} {error}") from error
        if found.question != self.question and replace(found.question, laid=self.question.laid) == self.question:
            raise UsageProblem(f"{self.path} is of a search with other content of your test files: {_AGAIN}")
        if found.question != self.question or any(step.commit not in history.reach for step in found.steps):
            raise UsageProblem(f"{self.path} is about other commits: {_AGAIN}")
        return found

    def keep(self, bisection: Bisection) -> None:
        """Replace the file atomically."""
        try:
            replace_file(self.path, to_json(bisection) + b"\n")
        except OSError as error:
            raise UsageProblem(f"{self.path} cannot be written ({error.strerror}): free it, then go on") from error

    def forget(self) -> None:
        """Remove the file: what it led to is known."""
        self.path.unlink(missing_ok=True)
