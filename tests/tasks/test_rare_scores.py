"""The comparison of methods: parts at a rate, and scores of bootstrap samples that agree with scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError, RowErrors
from maskwright.experiments.rare.config import RareLabConfig
from maskwright.tasks.evaluation.rare import (
    METRICS,
    RARE,
    REST,
    MinorityClassSampler,
    SeedPredictions,
    draw_counts,
    mean_curve,
    method_scores,
    rare_metrics,
    sample_scores,
)
from tasks.standins import row


def rows_of(rare: int, rest: int):
    return [row(f"rare {n}", "hate", line=n) for n in range(rare)] + [
        row(f"rest {n}", ("fine", "rude")[n % 2], line=rare + n) for n in range(rest)
    ]


# -- parts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rare", "rest", "rate"), [(100, 900, 0.05), (100, 900, 0.1), (100, 900, 0.25)])
def test_every_part_has_the_rate_and_no_row_is_in_two(rare, rest, rate):
    parts = MinorityClassSampler(rows_of(rare, rest), "hate", rate).parts(0)
    texts = [one.text for part in (parts.train, parts.dev, parts.test) for one in part]
    assert len(set(texts)) == len(texts)
    for part in (parts.train, parts.dev, parts.test):
        share = sum(one.label == RARE for one in part) / len(part)
        assert share == pytest.approx(rate, abs=1 / len(part))
        assert all((one.label == RARE) == one.text.startswith("rare") for one in part)
    assert {one.label for one in parts.train} == {RARE, REST}
    assert set(parts.test_classes) == {"hate", "fine", "rude"}
    assert len(texts) > 0.9 * min(rare / rate, rest / (1 - rate))


def test_test_rows_are_the_same_for_all_seeds_and_the_others_are_drawn():
    pool = MinorityClassSampler(rows_of(60, 600), "hate", 0.1, max_train_rows=100)
    first, again, second = pool.parts(0), pool.parts(0), pool.parts(1)
    assert first == again and first.test == second.test
    assert {one.text for one in first.train} != {one.text for one in second.train}
    assert [len(part) for part in (first.train, first.dev, first.test)] == [100, 100, 120]
    other = MinorityClassSampler(rows_of(60, 600), "hate", 0.1, max_train_rows=100, seed=5)
    assert {one.text for one in other.parts(0).test} != {one.text for one in first.test}


def test_repeated_texts_count_once():
    pool = MinorityClassSampler(rows_of(60, 600) * 2, "hate", 0.1)
    assert pool.num_repeated == 660
    assert pool.parts(0) == MinorityClassSampler(rows_of(60, 600), "hate", 0.1).parts(0)


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="Did you mean 'hate'"):
        MinorityClassSampler(rows_of(20, 80), "hat", 0.1)
    with pytest.raises(InputError, match="All rows are of the class 'hate'"):
        MinorityClassSampler(rows_of(20, 0), "hate", 0.1)
    with pytest.raises(InputError, match="too few"):
        MinorityClassSampler(rows_of(20, 80), "hate", 0.01)
    with pytest.raises(RowErrors, match="is missing"):
        MinorityClassSampler([*rows_of(20, 80), row("a", None)], "hate", 0.1)


@pytest.mark.parametrize(
    ("setting", "value"), [("rate", 0.0), ("rate", 0.5), ("seeds", 0), ("focal", -1), ("max_train_rows", 3), ("lr", 0)]
)
def test_a_setting_out_of_range_is_named(tmp_path, setting, value):
    good = {"data": tmp_path / "rows.tsv", "model": "m", "rare_class": "x", "output": tmp_path / "run"}
    with pytest.raises(ConfigError, match=setting):
        RareLabConfig(**good, **{setting: value})


# -- scores --------------------------------------------------------------------------------------------------------

PREDICTED = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.booleans()), min_size=3, max_size=30).filter(
    lambda rows: any(gold for gold, _, _ in rows)
)


@given(PREDICTED, st.integers(0, 9))
def test_a_sample_scores_what_its_rows_would(rows, seed):
    gold, values, given_class = (np.array(column) for column in zip(*rows, strict=True))
    drawn = np.random.default_rng(seed).integers(len(gold), size=len(gold))
    counts = np.stack([np.ones(len(gold), dtype=int), np.bincount(drawn, minlength=len(gold))])
    found = sample_scores(gold, SeedPredictions(values.astype(float), given_class), counts)
    for line, chosen in zip(found, (np.arange(len(gold)), drawn), strict=True):
        expected = rare_metrics(gold[chosen], values[chosen].astype(float), given_class[chosen])
        assert line == pytest.approx([expected[metric] for metric in METRICS])


def noisy(gold, spread, seed):
    values = gold + np.random.default_rng(seed).normal(0, spread, len(gold))
    return SeedPredictions(values, values > 0.5)


def test_intervals_hold_the_mean_and_a_clear_difference_is_beyond_noise():
    gold = np.arange(600) % 10 == 0
    counts = draw_counts(len(gold), 2, samples=300)
    good, bad, same = (
        method_scores(gold, [noisy(gold, spread, seed), noisy(gold, spread, seed + 1)], *counts)
        for spread, seed in ((0.3, 1), (1.5, 3), (0.3, 5))
    )
    for metric in METRICS:
        found = good.interval(metric)
        assert found.low <= found.mean <= found.high
        assert good.minus(good, metric).mean == 0 and not good.minus(good, metric).is_beyond_noise
    assert good.minus(bad, "pr_auc").low > 0 and bad.minus(good, "pr_auc").is_beyond_noise
    assert not good.minus(same, "f1").is_beyond_noise
    assert good.interval("pr_auc").mean == pytest.approx(good.observed[:, 0].mean())


def test_samples_depend_on_their_number_alone():
    some, more = draw_counts(20, 3, samples=5), draw_counts(20, 3, samples=9)
    assert (some[0] == more[0][:5]).all() and (some[1] == more[1][:5]).all()
    assert (more[0].sum(axis=1) == 20).all() and (more[1].sum(axis=1) == 3).all()


def test_methods_with_other_rows_are_not_compared():
    gold = np.array([True, False])
    with pytest.raises(InputError, match="same test rows"):
        method_scores(gold, [SeedPredictions(np.zeros(3), np.zeros(3, dtype=bool))], *draw_counts(2, 1, samples=2))


def test_the_curve_is_the_best_precision_at_a_recall_or_beyond():
    gold = np.array([1, 0, 1, 0], dtype=bool)
    counts = draw_counts(len(gold), 1, samples=50)
    curve = mean_curve(gold, [SeedPredictions(np.array([4.0, 3, 2, 1]), gold)], *counts, points=5)
    assert curve.recall.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert curve.precision == pytest.approx([1, 1, 1, 2 / 3, 2 / 3])


def test_the_curve_equals_the_one_of_scikit_learn_and_its_interval_narrows_with_rows():
    from sklearn.metrics import precision_recall_curve

    widths = []
    for rows in (200, 3200):
        gold = np.arange(rows) % 10 == 0
        seeds = [noisy(gold, 0.5, seed) for seed in (1, 2)]
        curve = mean_curve(gold, seeds, *draw_counts(rows, 2, samples=200), points=11)
        for point, recall in enumerate(curve.recall):
            best = []
            for predictions in seeds:
                precisions, recalls, _ = precision_recall_curve(gold, predictions.values)
                best.append(precisions[:-1][recalls[:-1] >= recall - 1e-9].max())  # without the point at recall 0
            assert curve.precision[point] == pytest.approx(np.mean(best))
        assert (curve.low <= curve.high).all() and curve.low[5] < curve.precision[5] < curve.high[5]
        widths.append(curve.high[5] - curve.low[5])
    assert widths[1] < 0.75 * widths[0]
