"""What tests of commands share."""

import pytest
from _pytest.capture import CaptureResult
from fakes.commands import Told

from pytest_hwperf.cli import main


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Run a command and return what it has written; what was written before is left out."""

    def run(code: int, *arguments: str) -> CaptureResult[str]:
        capsys.readouterr()
        ended: object
        try:
            ended = main([*arguments])
        except SystemExit as left:  # of argparse
            ended = left.code
        assert (code, arguments) == (ended, arguments)
        return capsys.readouterr()

    return run
