"""`hwperf fleet`: the gate of one build on several machines of several kinds, as one report and one exit code."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic

from pytest_hwperf import __version__
from pytest_hwperf.cli import arguments as arg
from pytest_hwperf.cli.output import INCONCLUSIVE, USAGE, complain, progress_line
from pytest_hwperf.cli.report import OUTPUT, check_output, show_report
from pytest_hwperf.fleet.dispatch import Dispatch, Outcome
from pytest_hwperf.fleet.hosts import LOCAL, HostEntry, read_hosts
from pytest_hwperf.fleet.project import arguments_of, installed_by, project_of
from pytest_hwperf.fleet.reaching import check_tools, clustered
from pytest_hwperf.host.workdirs import workdir
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.report import ENDED, MOST_KINDS, MOST_SHARDS, Host, Order, Task, last_lines
from pytest_hwperf.records.run import replace
from pytest_hwperf.records.text import visible
from pytest_hwperf.stats.merging import merge_kinds

_TOLD = ("starting", "ending", "ended", "lost", "has not")  # what is worth a line where nothing can be written over


class HostLines:
    """A block of lines that is written over; without a terminal, a line whenever a host begins or ends something."""

    def __init__(self) -> None:
        self._line, self._told = progress_line(), dict[str, str]()

    def show(self, states: Mapping[str, str]) -> None:
        """Replace the block by what each host does now."""
        lines = {name: f"{name}: {text}" for name, text in states.items()}
        if self._line.screen.is_live:
            self._line.rewrite(*lines.values())
            return
        for name, line in lines.items():
            said = states[name].partition(": ")[2]
            if said.startswith(_TOLD) and self._told.get(name) != line:
                self._told[name] = line
                self._line.say(line)

    def close(self) -> None:
        """Remove the block; what stands without a terminal stays."""
        self._line.clear()


_MOST_S = 24 * 3600
_LEAST_SILENCE_S = 5  # hosts give a sign of life each second, and may be busy


def run(options: argparse.Namespace) -> int:
    """Run the gates, show what they have found, and return the exit code."""
    _check(options)
    here = HostEntry(host=Host(name=LOCAL, kind=LOCAL, machine=LOCAL), address=LOCAL)
    entries = read_hosts(options.hosts) if options.hosts else [here]
    check_tools(ssh=not entries[0].is_local)
    with workdir() as place:
        project = project_of(Path.cwd(), options.handed_on, place)
        install = installed_by(project.root, options.install, none=options.no_install)
        encrypted, silence_s = not options.unencrypted, options.silence
        with clustered(entries, options.scheduler, place, encrypted=encrypted, silence_s=silence_s) as cluster:
            kinds = cluster.kinds
            if len(kinds) > MOST_KINDS:
                raise UsageProblem(f"{len(kinds)} kinds of machine; {MOST_KINDS} are the most of one build")
            share = f"/{len(kinds)}" if options.split_alpha and len(kinds) > 1 else ""
            numbers = range(1, options.shards + 1)
            tasks = [Task(kind=kind, number=number, of=options.shards) for kind in kinds for number in numbers]

            def order_for(job: str, task: Task) -> Order:
                return Order(
                    version=__version__,
                    job=job,
                    arguments=arguments_of(project, task, share),
                    folder=project.folder,
                    candidate=project.candidate,
                    snapshot=project.snapshot,
                    install=install,
                    limit_s=options.longest,
                )

            cluster.load(project.parcel, order_for)
            with closing(HostLines()) as lines:
                outcomes = Dispatch(cluster, tasks, silence_s=silence_s, now=monotonic, show=lines.show).run()
            code = _shown(outcomes, cluster.unreached, options)
        for line in cluster.left:
            complain(line)
        return code


def _check(options: argparse.Namespace) -> None:
    if options.hosts and options.scheduler:
        raise UsageProblem("--hosts starts what it needs, and --scheduler is there already: give one of them")
    if options.install and options.no_install:
        raise UsageProblem("--install is for the environment that --no-install does without: give one of them")
    if not 1 <= options.shards <= MOST_SHARDS:
        raise UsageProblem(f"--shards={options.shards}: a whole number from 1 to {MOST_SHARDS}")
    for name, seconds, least in (("silence", options.silence, _LEAST_SILENCE_S), ("longest", options.longest, 1)):
        if not least <= seconds <= _MOST_S:
            raise UsageProblem(f"--{name}={seconds:g}: a number of seconds from {least} to {_MOST_S}")
    check_output(options.output)


def _shown(outcomes: Sequence[Outcome], unreached: Sequence[str], options: argparse.Namespace) -> int:
    """Show what hosts have answered, and return the exit code."""
    troubles = [*unreached]
    for one in outcomes:  # which hosts were lost, and what became of their tasks
        then = f"run again on {one.host}" if one.answer else "not run"
        troubles += [f"{one.task} was {then}: {'; '.join(map(visible, one.trouble))}"] if one.trouble else []
        if one.answer and one.answer.exit_code not in ENDED:
            said = last_lines(one.answer.log)
            troubles.append(f"{one.task} on {one.host}: pytest's exit code was {one.answer.exit_code}: {said}")
    answered = {f"{one.task} on {one.host}": one.answer.read() for one in outcomes if one.answer}
    reports = {name: report for name, report in answered.items() if report is not None}
    if not reports:
        for line in troubles:
            complain(line)
        complain("no host has sent a report")
        return USAGE if any(one.answer for one in outcomes) else INCONCLUSIVE
    names = tuple(dict.fromkeys(one.task.kind for one in outcomes))
    merged = merge_kinds(reports, names, len(names))
    return show_report(replace(merged, warnings=(*merged.warnings, *troubles)), options)


_ARGUMENTS = (
    arg.option("--hosts", "FILE.toml", "read hosts and their kinds; default: this machine alone"),
    arg.option("--scheduler", "ADDRESS", "use the workers of this dask scheduler as hosts"),
    arg.option("--silence", "SECONDS", "drop a host after this many silent seconds", type=float, default=120.0),
    arg.flag("--unencrypted", "reach hosts over a network without the TLS of dask"),
    arg.option("--shards", "N", "divide the tests of each kind among this many gates", type=int, default=1),
    arg.flag("--split-alpha", "divide the rate of false alarms among the kinds"),
    arg.option(
        "--install", "ARGUMENT", "pass this to pip on each host, e.g. '-e .[test]'; repeatable", action="append"
    ),
    arg.flag("--no-install", "use the Python of each host as it is"),
    arg.option(
        "--longest", "SECONDS", "stop a gate after this time, installation included", type=float, default=7200.0
    ),
    *OUTPUT,
)
COMMAND = arg.Subcommand(
    "fleet",
    run,
    "run a gate on several machines of several kinds",
    _ARGUMENTS,
    "Run one whole gate, or its shards, on hosts of each kind of machine, and make one report. Needs the extra fleet "
    "here and on the hosts.",
    "%(prog)s [option ...] -- [PYTEST_ARGUMENT ...]",
    answers={
        0: "all kinds are complete, and all tests passed",
        1: "a test failed",
        3: "a kind is missing or was cut short, or every answer is inconclusive",
        4: "usage, here or of pytest",
    },
)
