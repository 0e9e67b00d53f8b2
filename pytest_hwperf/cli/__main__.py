"""`python -m pytest_hwperf.cli`: the command without its script."""

import sys

from pytest_hwperf.cli import main

sys.exit(main())
