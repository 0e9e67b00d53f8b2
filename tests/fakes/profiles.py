"""Profiles that nothing has taken: of functions, as milliseconds of stacks with a little spread, and of operators."""

from collections.abc import Collection, Mapping, Sequence

from pytest_hwperf.records.profiles import ProfiledCalls, ProfiledOperator, SampledCalls, SampledFunction

_SPREAD = (0.99, 1.0, 1.01)  # of a part, from repeat to repeat


def sampled(
    milliseconds: Mapping[str, float],
    calls: Mapping[str, float | None] | None = None,
    *,
    file: str = "model.py",
    plain_ms: float | None = None,
    version: str = "",
    changed: Collection[str] = (),
) -> SampledCalls:
    """Write a profile; stacks are functions joined by `>`, all of one file unless they name another one.

    They are under the profiler, and a call takes `plain_ms` without it: else half as long. What is `changed` has the
    code of this `version`, and all else the same code in each.
    """
    stacks = {";".join(_frame(name, file) for name in one.split(">")): ms * 1e-3 for one, ms in milliseconds.items()}
    frames = dict.fromkeys(frame for stack in stacks for frame in stack.split(";"))
    counts = {_frame(name, file): count for name, count in (calls or {}).items()}
    return SampledCalls(
        source="fake, 1 ms interval",
        stacks=stacks,
        functions={
            one: SampledFunction(
                line=7,
                own="lib/" not in one,
                calls=counts.get(one),
            )
            for one in {**frames, **counts}
        },
        codes={one: version if one.partition(" ")[0] in changed else "same" for one in {**frames, **counts}},
        call_s=sum(stacks.values()),
        plain_s=sum(stacks.values()) / 2 if plain_ms is None else plain_ms * 1e-3,
        samples=1000,
    )


def repeats(
    milliseconds: Mapping[str, float],
    calls: Mapping[str, float | None] | None = None,
    *,
    file: str = "model.py",
    plain_ms: float | None = None,
    version: str = "",
    changed: Collection[str] = (),
) -> Sequence[SampledCalls]:
    """Write three profiles that differ by 1 % in each part, each part in another way."""
    return [
        sampled(
            {one: ms * _SPREAD[(place + repeat) % 3] for place, (one, ms) in enumerate(milliseconds.items())},
            calls,
            file=file,
            plain_ms=None if plain_ms is None else plain_ms * _SPREAD[repeat],
            version=version,
            changed=changed,
        )
        for repeat in range(3)
    ]


def _frame(name: str, file: str) -> str:
    return name if name.endswith(")") else f"{name} ({file})"


def profiled(**microseconds: float) -> ProfiledCalls:
    """Write a profile of operators, one of each kind."""
    return ProfiledCalls(
        source="fake profile",
        operators=tuple(
            ProfiledOperator(name=f"{kind}_0", kind=kind, calls=1, seconds=us * 1e-6)
            for kind, us in microseconds.items()
        ),
        call_s=sum(microseconds.values()) * 1e-6,
        calls=50,
        rows=256,
    )
