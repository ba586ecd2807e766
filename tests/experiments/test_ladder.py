"""The model comparison: every model on the same rows, its cost, resuming, and one table."""

from __future__ import annotations

from pathlib import Path

import pytest

from looked_at import translator
from maskwright.core.errors import ConfigError, InputError, MaskwrightError, MissingExtraError, RunError
from maskwright.experiments import ladder as module
from maskwright.experiments.config import LADDER_MODELS, LadderConfig
from maskwright.experiments.ladder import headline, ladder, ladder_models, measured_apart
from train.runs import labeled


def recipe(folder: Path, **changes) -> LadderConfig:
    settings = {"data": labeled(folder / "train.tsv", 48, 1), "dev": labeled(folder / "dev.tsv", 24, 2)}
    settings |= {"output": folder / "run", "epochs": 2, "seeds": 2, "pretrain_steps": 3, "pretrain_tokens": 128}
    settings |= {"max_length": 16, "hidden_size": 32, "num_layers": 1, "vocab_size": 60, "precision": "fp32"}
    return LadderConfig(**{**settings, **changes})


FAKE = {"latency_ms": 1.0, "texts_per_second": 9.0, "memory_mb": 5.0}


@pytest.fixture(autouse=True)
def no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measured_apart", lambda *others: FAKE)


def without_vectors(*others, **more):
    raise MissingExtraError("Training word embeddings", "vectors")


@pytest.mark.slow
def test_every_model_is_scored_on_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "train_static_vectors", without_vectors)
    result = ladder(recipe(tmp_path))
    assert [row["name"] for row in result.rows] == [name for name in LADDER_MODELS if name != "static"]
    assert "vectors" in result.facts["left_out"]["static embeddings"]
    for row in result.rows:
        assert 0 <= row["score"] <= 1 and row["deviation"] >= 0 and row["parameters"] > 0 and row["disk_mb"] > 0
        assert (row["pretrain_seconds"] > 0) == (row["name"] in ("elmo", "gpt", "bert"))
    words = result.rows[0]
    assert words["score"] == 1.0  # its class can be read off one word
    page = result.report.read_text()
    assert all(rung.title in page for rung in ladder_models(recipe(tmp_path)))
    again = ladder(recipe(tmp_path))
    assert again.already_finished and again.rows == result.rows


def test_it_goes_on_where_it_was_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    changes = {"only": ("words", "lstm", "bilstm"), "seeds": 1}
    original, done = module.finetune, []

    def cut(config):
        done.append(config.output.name)
        if len(done) == 2:
            raise KeyboardInterrupt
        return original(config)

    monkeypatch.setattr(module, "finetune", cut)
    with pytest.raises(KeyboardInterrupt):
        ladder(recipe(tmp_path, **changes))
    result = ladder(recipe(tmp_path, **changes))
    assert done == ["lstm", "bilstm", "bilstm"]
    assert [row["name"] for row in result.rows] == ["words", "lstm", "bilstm"]
    with pytest.raises(RunError, match="epochs"):
        ladder(recipe(tmp_path, **changes, epochs=3))


def test_a_given_model_is_a_separate_model_of_the_comparison(tmp_path: Path):
    first = ladder(recipe(tmp_path, only=("lstm",), seeds=1))
    model = str(first.output / "finetuned" / "lstm" / "model")
    result = ladder(recipe(tmp_path, only=("words",), models=(model,), seeds=1, output=tmp_path / "other"))
    assert [row["title"] for row in result.rows] == ["bag of words", "lstm"]
    assert result.rows[1]["about"] == f"{model}, fine-tuned"
    with pytest.raises(MaskwrightError):
        ladder(recipe(tmp_path, models=("nowhere-to-be-found",), output=tmp_path / "third"))


def test_a_translation_model_is_rejected_before_the_comparison(tmp_path: Path):
    translator().save(tmp_path / "translator")
    with pytest.raises(InputError, match="cannot classify texts"):
        ladder(recipe(tmp_path, models=(str(tmp_path / "translator"),)))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_model_is_measured_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "measured_apart", measured_apart)
    row = ladder(recipe(tmp_path, only=("bilstm",), seeds=1)).rows[0]
    assert row["latency_ms"] > 0 and row["texts_per_second"] > 0 and row["memory_mb"] > 0


def test_the_headline_names_the_simplest_model_that_is_as_good():
    rows = [
        {"title": "low", "score": 0.80, "deviation": 0.01},
        {"title": "middle", "score": 0.89, "deviation": 0.02},
        {"title": "high", "score": 0.90, "deviation": 0.01},
    ]
    assert "middle" in headline(rows, "accuracy") and "low," not in headline(rows, "accuracy")
    rows[1]["deviation"] = rows[2]["deviation"] = 0.001
    assert "No simpler model" in headline(rows, "accuracy")


@pytest.mark.parametrize(
    ("changes", "said"),
    [({"only": ("bret",)}, "bert"), ({"hidden_size": 33}, "even"), ({"pretrain_tokens": 8}, "must fit")],
)
def test_wrong_settings_are_named(tmp_path: Path, changes, said: str):
    with pytest.raises(ConfigError, match=said):
        recipe(tmp_path, **changes)
