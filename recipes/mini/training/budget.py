"""How long a stage of training lasts, and the log of a run."""

import time
from dataclasses import dataclass, field

_START = time.time()


def log(*words: object) -> None:
    """Print words after the seconds since the start."""
    print(f"[{time.time() - _START:7.1f}]", *words, flush=True)


@dataclass
class Budget:
    """Steps, or else seconds after the first `warm_up` steps, in which functions are compiled."""

    seconds: float
    steps: int | None = None
    warm_up: int = 8
    _clock: float | None = field(default=None, init=False)

    def spent(self, step: int) -> float:
        """Return the share that is spent after a step, counted from one."""
        if self.steps is not None:
            return step / self.steps
        if self._clock is None:
            if step < self.warm_up:
                return 0.0
            self._clock = time.time()
        return (time.time() - self._clock) / self.seconds


def schedule(step: int, spent: float, warm_up: int, flat: float, floor: float) -> float:
    """Return the factor of all rates: rising, then one up to `flat`, then falling to `floor`."""
    rising = min(1, (step + 1) / warm_up)
    return rising * (1.0 if spent < flat else max(floor, (1 - spent) / (1 - flat)))
