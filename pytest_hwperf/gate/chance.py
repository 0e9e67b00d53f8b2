"""The random choices of one pair: its coins, the seeds of its processes, the processors on which it takes turns."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from random import Random
from threading import Event
from typing import TypeVar

from pytest_hwperf.host.interruption import uninterrupted

_HASH_SEEDS = 2**32 - 1  # the largest PYTHONHASHSEED


def random_of(seed: int, pair: int) -> Random:
    """Return the generator of one pair of a build, which nothing else draws from."""
    return Random(f"{seed}:{pair}")  # noqa: S311 - fair coins whose throws can be repeated, no secret


@dataclass(frozen=True, slots=True)
class Chance:
    """What is drawn for one pair."""

    random: Random
    processors: Sequence[int] = ()  # one is drawn for each measurement; none: the scheduler chooses

    def toss(self) -> bool:
        """Toss a fair coin."""
        return self.random.random() < 0.5  # noqa: PLR2004 - a fair coin

    def processor(self) -> int | None:
        """Draw a processor for one measurement."""
        return self.random.choice(self.processors) if self.processors else None

    def hash_seed(self) -> int:
        """Draw a PYTHONHASHSEED."""
        return self.random.randrange(_HASH_SEEDS)


T = TypeVar("T")


def shared_out(processors: Sequence[int], pairs: int) -> list[Sequence[int]]:
    """Return the processors of each of so many pairs: none is in two of them."""
    return [processors[pair::pairs] for pair in range(pairs)]


def run_side_by_side(jobs: Sequence[Callable[[], T]], stop: Event) -> list[T]:
    """Run jobs at the same time, the first of them in this thread; return what they return, in their order.

    Signals reach the main thread only, and the first job as if it was alone. Where it, or one of the others, is ended
    by an error, `stop` is set: the other jobs end themselves then, and are waited for.
    """
    first, *others = jobs
    if not others:
        return [first()]
    with ThreadPoolExecutor(len(others)) as pool:
        try:
            with uninterrupted():
                beside = [pool.submit(job) for job in others]
            return [first(), *(job.result() for job in beside)]
        except BaseException:
            stop.set()
            with uninterrupted():
                pool.shutdown()
            raise
