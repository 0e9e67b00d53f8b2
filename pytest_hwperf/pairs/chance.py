"""The random choices of one pair: its coins, the seeds of its processes, the processors on which it takes turns."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

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
