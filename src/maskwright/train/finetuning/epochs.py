"""How long fine-tuning lasts on small data sets.

Three epochs of a few hundred examples are a few dozen steps, too few to learn a task (Mosbach et al. 2021; Zhang et al.
2021): without a number of epochs, training lasts at least `MIN_STEPS` steps, but no more than `MOST_EPOCHS` epochs.
"""

from __future__ import annotations

MIN_STEPS = 100
MOST_EPOCHS = 10


def epochs_for(epochs: int, min_steps: int, steps_per_epoch: int) -> int:
    """The number of epochs: `epochs`, or more, up to `MOST_EPOCHS`, until there are `min_steps` steps."""
    return max(epochs, min(-(-min_steps // max(steps_per_epoch, 1)), MOST_EPOCHS))
