"""`experiment rare`: samples at a rate, bootstrap scores that agree with scikit-learn's, and the comparison, tiny."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import InputError, RowErrors, RunError
from maskwright.experiments import rare as module
from maskwright.experiments.config import RareLabConfig
from maskwright.experiments.rare import (
    METHODS,
    METRICS,
    RARE,
    REST,
    MinorityClassSampler,
    Predictions,
    draw_counts,
    method_scores,
    rare_lab,
    sample_scores,
)
from maskwright.tasks.evaluation.rare import rare_metrics
from tasks.standins import row
from train.rare_rows import encoder, rare_file

NONE = np.zeros(0)


def rows_of(rare: int, rest: int):
    return [row(f"rare {n}", "hate", line=n) for n in range(rare)] + [
        row(f"rest {n}", ("fine", "rude")[n % 2], line=rare + n) for n in range(rest)
    ]


@pytest.mark.parametrize(("rare", "rest", "rate"), [(100, 900, 0.05), (100, 900, 0.1), (100, 900, 0.25)])
def test_every_part_has_the_rate_and_no_row_is_in_two(rare, rest, rate):
    parts = MinorityClassSampler(rows_of(rare, rest), "hate", rate).splits(0)
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
    first, again, second = pool.splits(0), pool.splits(0), pool.splits(1)
    assert first == again and first.test == second.test
    assert {one.text for one in first.train} != {one.text for one in second.train}
    assert [len(part) for part in (first.train, first.dev, first.test)] == [100, 100, 120]
    other = MinorityClassSampler(rows_of(60, 600), "hate", 0.1, max_train_rows=100, seed=5)
    assert {one.text for one in other.splits(0).test} != {one.text for one in first.test}


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InputError, match="Did you mean 'hate'"):
        MinorityClassSampler(rows_of(20, 80), "hat", 0.1)
    with pytest.raises(InputError, match="All rows are of the class 'hate'"):
        MinorityClassSampler(rows_of(20, 0), "hate", 0.1)
    with pytest.raises(InputError, match="too few"):
        MinorityClassSampler(rows_of(20, 80), "hate", 0.01)
    with pytest.raises(RowErrors, match="is missing"):
        MinorityClassSampler([*rows_of(20, 80), row("a", None)], "hate", 0.1)


PREDICTED = st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.booleans()), min_size=3, max_size=30).filter(
    lambda rows: any(gold for gold, _, _ in rows)
)


@given(PREDICTED, st.integers(0, 9))
def test_a_sample_scores_what_its_rows_would(rows, seed):
    gold, values, given_class = (np.array(column) for column in zip(*rows, strict=True))
    drawn = np.random.default_rng(seed).integers(len(gold), size=len(gold))
    counts = np.stack([np.ones(len(gold), dtype=int), np.bincount(drawn, minlength=len(gold))])
    found = sample_scores(gold, Predictions(values.astype(float), given_class, NONE), counts)
    for line, chosen in zip(found, (np.arange(len(gold)), drawn), strict=True):
        expected = rare_metrics(gold[chosen], values[chosen].astype(float), given_class[chosen])
        assert line == pytest.approx([expected[metric] for metric in METRICS])


def noisy(gold, spread, seed):
    values = gold + np.random.default_rng(seed).normal(0, spread, len(gold))
    return Predictions(values, values > 0.5, NONE)


def test_intervals_hold_the_mean_and_a_clear_difference_is_beyond_noise():
    gold = np.arange(600) % 10 == 0
    counts = draw_counts(len(gold), 2, samples=300)
    good, bad, same = (
        method_scores(gold, [noisy(gold, spread, seed), noisy(gold, spread, seed + 1)], *counts)
        for spread, seed in ((0.3, 1), (1.5, 3), (0.3, 5))
    )
    for metric in METRICS:
        found = good.interval(metric)
        assert found["low"] <= found["mean"] <= found["high"]
        assert good.minus(good, metric)["mean"] == 0 and not good.minus(good, metric)["beyond_noise"]
    assert good.minus(bad, "pr_auc")["low"] > 0 and bad.minus(good, "pr_auc")["beyond_noise"]
    assert not good.minus(same, "f1")["beyond_noise"]
    assert good.interval("pr_auc")["mean"] == pytest.approx(good.observed[:, 0].mean())


QUICK = {"epochs": 1, "lr": 3e-3, "batch_size": 16, "max_length": 16, "precision": "fp32"}


def recipe(folder: Path, **changes) -> RareLabConfig:
    data = folder / "rows.tsv"
    if not data.exists():
        rare_file(data, 30, 170)
    settings = {"data": data, "model": str(encoder(folder)), "rare_class": "spam", "output": folder / "lab", **QUICK}
    return RareLabConfig(**{**settings, "rate": 0.1, "seeds": 2, "max_train_rows": 60, **changes})


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    return folder, rare_lab(recipe(folder))


def test_every_method_has_its_scores_with_intervals(done):
    result = done[1]
    assert [row["method"] for row in result.rows] == list(METHODS)
    for own in result.rows:
        for metric in METRICS:
            assert 0 <= own[metric]["low"] <= own[metric]["mean"] <= own[metric]["high"] <= 1
        assert ("minus_plain" in own) == (own["method"] != "plain")
    by_name = {row["method"]: row for row in result.rows}
    assert by_name["threshold"]["pr_auc"] == by_name["plain"]["pr_auc"]
    assert by_name["tfidf"]["pr_auc"]["mean"] > 0.9  # one word tells the class
    assert result.facts["parts"]["test"] == {"rows": 37, "rare": 3}
    assert list(result.facts["curves"]) == [name for name in METHODS if name != "threshold"]
    assert {name: len(own) for name, own in result.facts["errors"].items()} == {"ham": 18, "news": 16, "spam": 3}
    assert result.facts["errors_by_length"]["correlation"] is None  # all texts are equally long
    page = result.report.read_text(encoding="utf-8")
    assert all(
        words in page
        for words in ("Minus plain fine-tuning", "Precision over recall", "TF-IDF", "Reconstruction errors: spam")
    )


def test_finished_parts_are_kept_and_other_rows_are_noticed(done, monkeypatch):
    folder, result = done
    runs: list[str] = []
    judge = module.MethodRunner.judge
    monkeypatch.setattr(module.MethodRunner, "judge", lambda runner, name: runs.append(name) or judge(runner, name))
    assert rare_lab(recipe(folder)).already_finished and not runs
    (folder / "lab" / "result.json").unlink()
    (folder / "lab" / "parts" / "tfidf-1.json").unlink()
    again = rare_lab(recipe(folder))
    assert runs == ["tfidf"] and again.rows == result.rows
    (folder / "lab" / "result.json").unlink()
    text = (folder / "rows.tsv").read_text(encoding="utf-8")
    rare_file(folder / "rows.tsv", 30, 170, seed=9)
    with pytest.raises(RunError, match="has changed"):
        rare_lab(recipe(folder))
    (folder / "rows.tsv").write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"rare_class": "spa"}, "Did you mean 'spam'"), ({"rate": 0.005}, "too few"), ({"max_length": 99}, "positions")],
)
def test_bad_input_is_refused_and_leaves_no_folder(tmp_path, changes, words):
    with pytest.raises(InputError, match=words):
        rare_lab(recipe(tmp_path, **changes))
    assert not (tmp_path / "lab").exists()


def test_the_command_prints_json(done, maskwright):
    folder, _ = done
    config = recipe(folder)
    words = ["--data", config.data, "--model", config.model, "--rate", "0.1", "--seeds", "2", "--max-train-rows", "60"]
    words += ["--epochs", "1", "--lr", "0.003", "--batch-size", "16", "--max-length", "16", "--precision", "fp32"]
    words += ["--rare-class", "spam", "-o", config.output, "--json", "--quiet"]
    code, out, _ = maskwright("experiment", "rare", *words)
    assert code == 0 and [row["method"] for row in json.loads(out)["rows"]] == list(METHODS)
