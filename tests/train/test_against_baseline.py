"""Every training says in one line whether it beats its trivial baseline."""

from __future__ import annotations

import json

import pytest

from maskwright.core import registry
from maskwright.train.against_baseline import Compared, health_line, worst_level
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.health import PARTS, compare_pretraining
from train.runs import finetuning

FLAT = {"mlm_accuracy": 0.05, "mlm_loss": 6.0, "nsp_accuracy": 0.5}


@pytest.mark.parametrize(
    ("score", "baseline", "level"),
    [(0.5, 0.2, "good"), (0.205, 0.2, "bad"), (0.0, 0.0, "bad"), (1.0, 0.995, "watch"), (0.1, 0.4, "bad")],
)
def test_a_score_is_good_only_above_its_baseline(score, baseline, level):
    one = Compared("entity_f1", score, baseline, "each word's most common tag")
    assert one.level == level
    line = health_line([one])
    assert line.startswith(f"health: {level} (entity_f1 {score:.4f}, ") and f"{baseline:.4f}" in line
    assert "\n" not in line and ("--lr" in line) == (level == "bad")
    assert Compared.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_several_tasks_are_as_bad_as_the_worst():
    good, bad = Compared("f1", 0.9, 0.1, "x"), Compared("f1", 0.1, 0.1, "y")
    assert worst_level([good, bad]) == "bad" and worst_level([good, good]) == "good"
    assert health_line({"a": good, "b": bad}).startswith("health: bad (a: f1 0.9000, better than x: 0.1000; b: f1 0.1")


@pytest.mark.parametrize("objective", registry.names("objective"))
def test_every_part_of_every_objective_has_a_baseline(objective):
    parts = set(registry.resolve("objective", objective).parts)
    compared = {one.metric for one in compare_pretraining({f"{part}_accuracy": 0.3 for part in parts}, FLAT)}
    assert compared == {f"{part}_accuracy" for part in parts & PARTS.keys()}
    assert parts - PARTS.keys() <= {"backward"}, "which is scored as clm is, from the other end"


@pytest.fixture(scope="module")
def entities(tmp_path_factory):
    """Names that their words give away, and a model that has had no time to learn them."""
    folder = tmp_path_factory.mktemp("entities")
    finetuning(folder)
    lines = [f"{name}\tB-PER\nsat\tO\nhere\tO\n" for name in ("john", "mary", "anna", "paul") * 10]
    (folder / "rows.conll").write_text("\n".join(lines))
    return folder


def run_of(folder, name, **changes):
    settings = {
        "task": "tagging", "preset": "bert-tiny", "tokenizer": folder / "tok", "train": folder / "rows.conll",
        "dev": folder / "rows.conll", "epochs": 1, "max_length": 16, "precision": "fp32", "lr": 1e-9,
    }  # fmt: skip
    return FinetuneConfig(**{**settings, **changes, "output": folder / name})


def test_a_tagger_that_finds_nothing_is_bad(entities):
    result = finetune(run_of(entities, "run"))
    assert result.baseline is not None
    assert (result.baseline.metric, result.baseline.baseline) == ("entity_f1", 1.0)
    assert result.baseline.score == result.mean["entity_f1"] < 0.99
    assert result.baseline.level == "bad"
    assert "no better than each word" in (entities / "run" / "report.html").read_text()
