"""What samples of resident memory come to: the benchmarks of long runs share it."""

from __future__ import annotations

from typing import Any

import numpy as np

WARM_UP = 0.1  # share of the time that is ignored: weights are packed and buffers grow


def memory_growth(samples: list[tuple[float, float]]) -> dict[str, Any]:
    """Fit a line to the samples after the warm-up.

    Args:
        samples: Seconds since the start and resident MB.

    Returns:
        minutes; first_mb, last_mb and most_mb after the warm-up; growth_mb_an_hour, the slope; and the samples.
    """
    end = samples[-1][0]
    seconds, memory = np.array([one for one in samples if one[0] >= WARM_UP * end]).T
    return {
        "minutes": float(seconds[-1] / 60),
        "first_mb": float(memory[0]),
        "last_mb": float(memory[-1]),
        "most_mb": float(memory.max()),
        "growth_mb_an_hour": float(np.polyfit(seconds / 3600, memory, 1)[0]),
        "samples": samples,
    }
