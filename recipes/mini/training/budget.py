"""How long a stage of training lasts, and the log of a run."""

import time
from dataclasses import dataclass, field

_START = time.time()


def log(*words: object) -> None:
    """Print words after the seconds since the start."""
    print(f"[{time.time() - _START:7.1f}]", *words, flush=True)


@dataclass
class Budget:
    """How long a stage lasts: steps, or else seconds after the steps that compile functions.

    Rates rise over the first `rising` steps.
    """

    seconds: float
    rising: int
    steps: int | None = None
    compile_steps: int = 8
    _clock: float | None = field(default=None, init=False)

    def spent(self, step: int) -> float:
        """Return the share that is spent after a step, counted from one."""
        if self.steps is not None:
            return step / self.steps
        if self._clock is None:
            if step < self.compile_steps:
                return 0.0
            self._clock = time.time()
        return (time.time() - self._clock) / self.seconds

    def rate(self, step: int, spent: float, flat: float, floor: float) -> float:
        """Return the factor of all rates: rising, one until `flat` is spent, falling to `floor`."""
        rising = min(1, (step + 1) / self.rising)
        return rising * (1.0 if spent < flat else max(floor, (1 - spent) / (1 - flat)))
