"""The hooks of a session that measures; a session without a measured test never loads them."""

import os
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from pytest_hwperf.host.fakes import RealClock, fakes_aside, fakes_in_place
from pytest_hwperf.host.interruption import interruptible
from pytest_hwperf.host.worker_protocol import ENVIRONMENT
from pytest_hwperf.plugin.judging.failure import note_failure
from pytest_hwperf.plugin.reporting.collector import Collector
from pytest_hwperf.plugin.session.command import TIMER
from pytest_hwperf.plugin.session.settings import read_settings
from pytest_hwperf.plugin.session.state import (
    SUBTEST,
    SessionState,
    begin_session,
    begin_try,
    is_measured,
    session_of,
    test_of,
)
from pytest_hwperf.records.text import visible, visible_lines
from pytest_hwperf.reports.document import wrapped

if TYPE_CHECKING:
    from pytest_hwperf.measure.subjects import Subject
    from pytest_hwperf.records.run import Run

_LONG_S = 1.0  # of a fixture that trains: less is not worth a word


@fakes_aside()
def pytest_configure(config: pytest.Config) -> None:
    """Choose what this process does with a measurement, check what the settings name, and collect results."""
    settings, root = read_settings(config), str(config.rootpath)
    if ENVIRONMENT in os.environ:
        from pytest_hwperf.plugin.worker.roles import PairWorker, worker_of

        worker = worker_of(os.environ)
        config.pluginmanager.register(worker, "hwperf-worker")
        pairs = isinstance(worker, PairWorker)
        state = SessionState(settings=settings, root=root, measure=worker.measure, judges=False, takes_turns=pairs)
    else:
        state = SessionState(settings=settings, root=root, measure=_measured_here, judges=not settings.disable)
    begin_session(config, state)
    config.add_cleanup(state.close)
    if ENVIRONMENT in os.environ:
        return
    collects = not hasattr(config, "workerinput")  # under xdist the controller collects, saves and reports
    if not settings.cache and collects:  # else it is that of the controller
        _use_own_cache(config)
    if settings.needs_preflight:
        from pytest_hwperf.plugin.preflight import check_energy, check_resources

        check_resources(config)
        if _is_distributed(config):  # no test is collected here, and the usage error of an xdist worker loses its text
            check_energy(config)
    if collects:
        config.pluginmanager.register(Collector(config, settings), "hwperf-collector")
    if settings.shard:
        from pytest_hwperf.plugin.session.shards import Shards

        config.pluginmanager.register(Shards(config, settings.shard), "hwperf-shards")


def _measured_here(item: pytest.Item, subject: "Subject", label: str) -> "Run":
    """Measure in a process without a task: in full, or with --hwperf-disable by a single call."""
    from pytest_hwperf.plugin.measuring.run import call_once, measure

    return (measure if session_of(item.config).judges else call_once)(item, subject, label)


def _use_own_cache(config: pytest.Config) -> None:
    """Let this session and the processes that it starts keep converted models in a folder that goes with it."""
    from pytest_hwperf.host.files import CACHE_VARIABLE
    from pytest_hwperf.host.workdirs import workdir

    stack = ExitStack()
    config.add_cleanup(stack.close)
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setenv(CACHE_VARIABLE, str(stack.enter_context(workdir())))


@fakes_aside()
def pytest_report_header(config: pytest.Config) -> str | list[str] | None:
    """Say what is compared with what; nothing in a run that neither compares nor saves."""
    state = session_of(config)
    if state.settings.disable:
        return "hwperf: disabled, so that nothing is measured, judged or saved"
    if not state.judges or not (state.settings.save or state.settings.compares):
        return None
    from pytest_hwperf.plugin.preflight import header

    return header(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Name the nearest file where one of the command line is missing, below what pytest says of it."""
    try:
        return (yield)
    except pytest.UsageError as error:
        from pytest_hwperf.host.files import is_file, is_folder, neighbours
        from pytest_hwperf.records.markers import nearest

        files = [session.config.invocation_params.dir / one.partition("::")[0] for one in session.config.args]
        hints = [nearest(one.name, neighbours(one)) for one in files if not (is_file(one) or is_folder(one))]
        raise pytest.UsageError(*error.args, *(hint.strip() for hint in hints if hint)) from error


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail the collection of a file with a bad marker, in an xdist worker only.

    The usage error that ends other sessions would lose its text there, and the run would end as an internal error.
    """
    known = session_of(collector.config).problems
    before = len(known)
    report = yield
    if not hasattr(collector.config, "workerinput"):
        return report
    _read_markers(item for item in report.result or () if isinstance(item, pytest.Item))
    if problems := known[before:]:
        report.outcome = "failed"
        report.longrepr = _told(collector.config, problems)
        report.result = []
        report.hwperf_usage = True  # type: ignore[attr-defined] # crosses to the controller, which exits with 4
    return report


def check_items(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Read the markers of all collected tests, and deselect those that were not asked for."""
    _read_markers(items)
    settings, problems = session_of(config).settings, session_of(config).problems
    if problems and not hasattr(config, "workerinput"):
        raise pytest.UsageError(_told(config, problems))
    metered = any(is_measured(item) or "energy_meter" in getattr(item, "fixturenames", ()) for item in items)
    if settings.needs_preflight and metered and not _is_distributed(config):
        from pytest_hwperf.plugin.preflight import check_energy

        check_energy(config)
    if settings.only or settings.skip:
        config.hook.pytest_deselected(items=[item for item in items if is_measured(item) != settings.only])
        items[:] = [item for item in items if is_measured(item) == settings.only]


def _read_markers(items: Iterable[pytest.Item]) -> None:
    """Put the parsed markers on each marked test, and every new problem with the others."""
    from pytest_hwperf.plugin.session.markers import read_markers

    for item in items:
        known = session_of(item.config).problems
        known.extend(problem for problem in read_markers(item) if problem not in known)


def _told(config: pytest.Config, problems: Iterable[str]) -> str:
    """Write each problem of a marker, wrapped to the terminal: what was given, then what is allowed."""
    width = config.get_terminal_writer().fullwidth - len("ERROR: ")  # which pytest puts before the first
    return "\n".join(line for problem in problems for line in wrapped(visible(problem), width))


def _is_distributed(config: pytest.Config) -> bool:
    """Whether pytest-xdist is at work, in this process or in those that it starts."""
    return hasattr(config, "workerinput") or bool(getattr(config.option, "tx", None))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Rerun the baseline in pairs with the candidate before the first test, where that was asked of this process.

    An unforeseen error there ends the session, since pytest would call it an internal error of its own.
    """
    config, option, state = session.config, session.config.option, session_of(session.config)
    failed = session.testsfailed and not option.continue_on_collection_errors  # then pytest runs nothing either
    if option.collectonly or failed or not (state.judges and state.settings.compares) or hasattr(config, "workerinput"):
        return (yield)
    with fakes_aside():
        from pytest_hwperf.plugin.judging.gate import rerun

    with interruptible():  # SIGTERM too ends this session as Ctrl-C does: what was decided is shown
        try:
            with fakes_aside():
                rerun(session)
        except (pytest.UsageError, pytest.exit.Exception):
            raise
        except Exception as error:
            text = f"nothing was compared, by a mistake of pytest-hwperf itself: {type(error).__name__}: {error}. "
            lines = f"Please report it with these lines:\n{traceback.format_exc()}"
            raise pytest.UsageError(visible(f"hwperf: {text}") + visible_lines(lines)) from error
        return (yield)


@pytest.hookimpl(tryfirst=True)
@fakes_aside()
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin every try of a test empty: plugins that rerun a test keep the item."""
    begin_try(item)
    item.user_properties[:] = [pair for pair in item.user_properties if not pair[0].startswith("hwperf.")]
    if test_of(item).markers.point:
        from pytest_hwperf.plugin.judging.judge import skip_beyond

        skip_beyond(item)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object], request: pytest.FixtureRequest
) -> Generator[None, object, object]:
    """Note which fixtures train for long: fresh processes train again."""
    began = RealClock.perf_counter()
    value = yield
    if (took_s := RealClock.perf_counter() - began) >= _LONG_S:
        from pytest_hwperf.plugin.session.training import trains

        if trains(fixturedef.func):
            session_of(request.config).trained[fixturedef.argname] = took_s
    return value


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Judge a measured test when its body has passed; all its verdicts fail it together.

    The body of a test that has a budget and no fixture measures itself: it is the call. An async one is put in its
    place before a plugin makes a plain function of it, a method before unittest calls it. One that is refused runs as
    it is, where nothing is measured.
    """
    with fakes_aside():
        stand_in = _begin_call(item)
        body: Any = None
        if stand_in is not None and isinstance(item, pytest.Function):
            body, item.obj = item.obj, stand_in
        test_of(item).body = "running"
        try:
            with fakes_in_place():
                result = yield  # a body that fails by itself is not judged
        finally:
            test_of(item).body = "ended"
            if body is not None and isinstance(item, pytest.Function):
                item.obj = body
        _judge(item)
        return result


def _begin_call(item: pytest.Item) -> Callable[..., Any] | None:
    """Refuse a test that cannot be measured; return what measures the body of one that has no fixture for it."""
    test, state = test_of(item), session_of(item.config)
    if test.markers.refusal and not state.settings.disable:
        path, line, _ = item.location
        pytest.fail(f"{path}:{(line or 0) + 1}: {test.markers.refusal}", pytrace=False)
    asks = is_measured(item) and not test.markers.refusal and "hwperf" not in getattr(item, "fixturenames", ())
    if not (isinstance(item, pytest.Function) and asks):
        return None
    from pytest_hwperf.plugin.fixture.bodies import stand_in

    return stand_in(item)


def _judge(item: pytest.Item) -> None:
    """Fail a measured test by its verdicts."""
    test, state = test_of(item), session_of(item.config)
    failed = test.has_failed or test.failed_subtest
    if state.judges and (is_measured(item) or test.markers.left_out) and not failed:
        from pytest_hwperf.plugin.judging.judge import judge_test

        test.failure = judge_test(item)
        if test.failure:
            pytest.fail(test.failure, pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Let the fixture refuse to measure from now on: nothing would judge it."""
    test_of(item).is_over = True


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    """Note the timer of pytest-timeout, to stop it during waits for fresh processes."""
    item.stash[TIMER] = (settings, RealClock.perf_counter())


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    if TIMER in item.stash:
        del item.stash[TIMER]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Put the result of a test on its report as plain data, which xdist sends from worker to controller.

    A report that is made before the body has ended is that of a subtest, also of one in a fixture.
    """
    report = yield
    with fakes_aside():
        _note_on(report, item, call.when)
    return report


def _note_on(report: pytest.TestReport, item: pytest.Item, when: str) -> None:
    noted: Any = report  # pytest lets plugins add to a report
    test, in_pairs = test_of(item), session_of(item.config).gate is not None
    if when == "call" and report.failed and test.body != "ended":
        test.failed_subtest = True
    if test.body == "running":
        setattr(noted, SUBTEST, True)
        return
    if report.when == "call":
        if test.failure:
            note_failure(report, test.failure)
        if report.skipped and not test.result and in_pairs:
            from pytest_hwperf.plugin.judging.judge import keep_comparisons

            keep_comparisons(item)
        if test.result:
            noted.hwperf = test.result
        if in_pairs and test.failure and hasattr(report, "wasxfail"):
            from pytest_hwperf.plugin.judging.unjudged import note_xfail

            note_xfail(item, report)
    if report.skipped and not hasattr(report, "hwperf") and (test.skips or test.skipped_point):
        from pytest_hwperf.plugin.judging.judge import plain_result

        noted.hwperf = plain_result(item, [])
    if report.when == "teardown" and report.passed and test.counted:
        noted.hwperf_counted = test.counted


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
    """Let pytest's last line count what is to be known of a test beside its outcome."""
    counted = getattr(report, "hwperf_counted", "")
    return (counted, "", "") if counted else None
