"""What a store of baselines does, whether it keeps runs as files or in a database."""

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Protocol

from pytest_hwperf.records.errors import StoreError
from pytest_hwperf.records.report import Report
from pytest_hwperf.records.run import Machine, StoredRun
from pytest_hwperf.stats.stored.history import Annotation, Series
from pytest_hwperf.stores.location import why_no_name

KEEP = 20  # newest accepted runs of a test on a machine that are compared with


class Store(Protocol):
    """The place of baselines, and the memory of a team: each method may raise `StoreError`.

    The error names the file or the database, what is wrong with it and what to do. A *pattern* is a glob over ids of
    tests: `*` and `?` are wildcards, and brackets are not, since ids of parametrised tests hold them. A pattern that is
    itself the id of a test means that test alone.
    """

    def check(self, baseline: str, *, writing: bool) -> None:
        """Refuse a location or a file that cannot be used, before anything is measured."""

    def load(self, baseline: str, machine: Machine, test: str, label: str) -> tuple[StoredRun, ...]:
        """Return the newest accepted runs of a test on a machine, oldest first; () where there are none."""

    def machines(self, baseline: str, test: str, label: str) -> tuple[Machine, ...]:
        """Return the machines that have accepted runs of a test."""

    def newest(self, baseline: str) -> tuple[StoredRun, ...]:
        """Return the newest accepted run of each test and label on each machine."""

    def baselines(self) -> tuple[str, ...]:
        """Return the names of all baselines, those that have only held runs too."""

    def histories(self, baseline: str, pattern: str = "*", *, held: bool) -> Iterable[tuple[StoredRun, ...]]:
        """Return the accepted or the held runs of each test, label and machine, oldest first."""

    def remove(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Remove all runs of some tests; return the ids."""

    def save(self, baseline: str, runs: Sequence[StoredRun]) -> Sequence[str | StoreError]:
        """Add accepted runs; return the place of each, or why it was not stored: the others are.

        A run that is there already, equal in everything, changes nothing. One that was held is held no more.
        """

    def hold(self, baseline: str, runs: Sequence[StoredRun]) -> Sequence[str | StoreError]:
        """Keep failed runs apart until `accept`; what the baseline has already changes nothing. Returns as `save`."""

    def accept(self, baseline: str, pattern: str) -> tuple[str, ...]:
        """Make held runs of some tests the baseline; return the ids. Where one is damaged, none is accepted.

        The test's earlier runs are *replaced*: accepting says that a new normal began, and a mixture of both would
        describe neither. For the same reason held runs of other revisions than the newest held one are dropped.
        """

    def prune(self, baseline: str, machine: Machine) -> tuple[str, ...]:
        """Remove runs that this machine saved with other versions or settings and has saved again; return their ids."""

    def history(self, baseline: str, pattern: str = "*", *, newest: int = 1000) -> Sequence[Series]:
        """Return the values of each series of some tests: of each test, label and machine those of its newest runs."""

    def history_of(self, baseline: str, measured: Iterable[tuple[str, str]], *, newest: int) -> Sequence[Series]:
        """Return the same series of some tests with their labels, without a look at others."""

    def tests(self, baseline: str, pattern: str = "*") -> Sequence[str]:
        """Return the ids of all tests that have a history and match the pattern."""

    def annotate(self, note: Annotation) -> None:
        """Keep a note; the same text at the same revision changes nothing."""

    def annotations(self) -> Sequence[Annotation]:
        """Return all notes, oldest first."""

    def keep(self, baseline: str, report: Report) -> None:
        """Keep the verdicts of a report with its runs, where a store can; a second time changes nothing."""


def check_baseline(name: str) -> None:
    """Refuse a name that no baseline can have."""
    if why := why_no_name(name):
        raise StoreError(f"baseline name {why}")


def chosen_by(pattern: str, tests: Iterable[str]) -> frozenset[str]:
    """Return the id that a pattern spells, or else the ids that it matches: an id may hold wildcards itself."""
    known = frozenset(tests)
    return known & {pattern} or frozenset(test for test in known if matches(test, pattern))


def matches(test: str, pattern: str) -> bool:
    """Whether the id of a test matches a pattern."""
    return fnmatch.fnmatchcase(test, pattern.replace("[", "[[]"))
