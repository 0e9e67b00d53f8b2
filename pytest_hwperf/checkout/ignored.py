"""Files that one side has loaded, that git ignores and that the other side lacks."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from pytest_hwperf.checkout.git import ignored_files, tracked_files
from pytest_hwperf.checkout.trees import Trees, sharing
from pytest_hwperf.host.files import is_file
from pytest_hwperf.host.source_files import is_compiled
from pytest_hwperf.records.errors import UsageProblem
from pytest_hwperf.records.evidence import Side
from pytest_hwperf.records.text import named, shell_word

_MOST = 1000  # files that git is asked about: a command line has an end


def check_ignored(trees: Trees, loaded: Mapping[Side, Sequence[str]]) -> None:
    """Refuse sides of which one has loaded code that the other lacks and git does not keep."""
    for side, files in loaded.items():
        other = trees.baseline if side == "candidate" else trees.candidate
        own = (one for one in trees.tree(side).own(files) if "__pycache__" not in PurePath(one).parts)
        missing = [one for one in own if not (other / one).exists()][:_MOST]
        tracked = tracked_files(trees.root(side), missing)
        ignored = ignored_files(trees.candidate, [file for file in missing if file not in (tracked or ())])
        others = [file for file in missing if is_compiled(file) and file not in ignored]
        if tracked is None:  # without git, what the other side has the source of was compiled
            built = [one for one in others if (other / one).with_name(f"{module_of(one)}.py").exists()]
        else:
            built = [one for one in others if one not in tracked]
        compiled = [file for file in ignored if is_compiled(file)] + built
        if found := compiled or ignored:
            has_setup = is_file(trees.candidate / "setup.py")
            build = shell_word("python setup.py build_ext --inplace" if has_setup else "COMMAND")
            problem = _MISSING[side, bool(compiled)].format(build=build, share=sharing(ignored))
            raise UsageProblem(f"{named(found)}: {problem}")


# Side that has the files, whether they are compiled → what is wrong, and what to do.
_MISSING: Mapping[tuple[Side, bool], str] = {
    ("candidate", True): (
        "compiled in place, which git does not have, so that the baseline would run other code: have both trees built "
        "with --hwperf-build={build}, or the baseline's project with -o hwperf_base_env=build, or give the Python of "
        "an environment in which it is, --hwperf-base-python=PATH"
    ),
    ("candidate", False): (
        "loaded by the tests and ignored by git, so that the baseline does not have it: have it made in both trees "
        "with --hwperf-build=COMMAND, or in the baseline with -o hwperf_base_env=build, or give the baseline the "
        "present one with {share}"
    ),
    ("baseline", True): (
        "compiled in the baseline only, so that the present tree would run other code: build it here in the same way, "
        "as by `pip install -e .` or `python setup.py build_ext --inplace`"
    ),
    ("baseline", False): (
        "loaded by the tests of the baseline and ignored by git, and the present tree does not have it: generate it "
        "here as it was there, as by `pip install -e .`"
    ),
}


def module_of(file: str) -> str:
    return PurePath(file).name.partition(".")[0]
