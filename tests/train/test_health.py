"""The verdict on a run."""

from __future__ import annotations

import numpy as np
import pytest

from maskwright.train.pretraining.health import Baseline, judge

BASELINE = Baseline(mlm_accuracy=0.06, mlm_loss=6.5)


@pytest.mark.parametrize(("loss", "accuracy", "level"), [(6.48, 0.06, "bad"), (6.0, 0.08, "watch"), (3.5, 0.4, "good")])
def test_levels(loss: float, accuracy: float, level: str):
    scores = {"mlm_scored_loss": loss, "mlm_accuracy": accuracy, "nsp_accuracy": 0.8}
    assert judge(scores, BASELINE, [8.0, 7.0, loss]).level == level


def test_a_loss_that_rises_at_the_end_is_watched():
    losses = [*np.linspace(8, 3, 40), *np.linspace(3, 6, 10)]
    verdict = judge({"mlm_scored_loss": 4.0, "mlm_accuracy": 0.3}, BASELINE, losses)
    assert verdict.level == "watch"
    assert "increased toward the end" in " ".join(verdict.reasons)


def test_pairs_at_the_level_of_a_coin_are_watched():
    verdict = judge({"mlm_scored_loss": 4.0, "mlm_accuracy": 0.3, "nsp_accuracy": 0.51}, BASELINE, [5.0])
    assert verdict.level == "watch"
