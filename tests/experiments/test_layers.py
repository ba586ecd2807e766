"""`experiment layers`: features that are the layers, probes that leave the encoder alone, one table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import InputError, RowErrors
from maskwright.experiments import layers as module
from maskwright.experiments.config import LayerLabConfig
from maskwright.experiments.layers import MIX, layer_lab
from maskwright.hub.folders import load_model
from maskwright.inference.embed import NAMED_LAYERS, choose_layers
from maskwright.inference.probing import feature_blocks, make_features
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.tasks.tagging.task import Tagging
from maskwright.text.tokenizers.tokenizer import Tokenizer
from train.test_tagging import tagged


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of four layers with random weights, large enough that words matter."""
    return save(tmp_path_factory.mktemp("encoder") / "model", num_hidden_layers=4)


def save(folder: Path, **sizes: int) -> Path:
    texts = ["Anna Bob Karl is in Rome New York Paris now and then here ."] * 3
    tokenizer = Tokenizer.train_from_iterator(iter(texts), kind="wordpiece", vocab_size=90)
    own = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32}
    encoder = build(ModelConfig(vocab_size=len(tokenizer), initializer_range=0.1, **own, **sizes), "mlm", seed=3)
    encoder.tokenizer = tokenizer
    encoder.save(folder)
    return folder


def lab(folder: Path, model: Path, **changes: Any) -> LayerLabConfig:
    rows = {"train": tagged(folder / "train.conll", 32, 1), "dev": tagged(folder / "dev.conll", 12, 2)}
    fast = {"seeds": 2, "epochs": 3, "lr": 0.02, "probe_size": 8, "batch_size": 8, "max_length": 16}
    settings = {"model": str(model), **rows, "output": folder / "layers", **fast, "precision": "fp32"}
    return LayerLabConfig(**{**settings, **changes})


def opened(folder: Path, model: Path, max_length: int = 16) -> tuple[Model, Any]:
    """The encoder, and tagged examples of it."""
    encoder = load_model(model)[0].eval()
    rows = Tagging.read(tagged(folder / "rows.conll", 10, 5)).rows
    return encoder, Tagging.from_rows(rows).examples(rows, encoder.tokenizer, max_length)


def test_features_are_the_layers_at_the_first_piece_of_each_word(tmp_path: Path, model: Path):
    encoder, examples = opened(tmp_path, model)
    features = make_features(encoder, [examples], tmp_path / "none", "fp32", 1e9)
    rows = torch.arange(examples.num_words)
    for layers in (*NAMED_LAYERS, 1):
        embedder = mw.Embedder(encoder, layers=layers, precision="fp32")
        words = embedder.word_vectors([row.text for row in examples.rows], subwords="first")
        found = features.chosen(rows, choose_layers(layers, 4))
        np.testing.assert_allclose(found.numpy(), np.concatenate([one.vectors for one in words]), atol=1e-5)


def test_a_sentence_of_several_windows_has_each_word_once_whatever_the_blocks(tmp_path: Path, model: Path):
    encoder, examples = opened(tmp_path, model, max_length=6)
    assert len(examples) > examples.num_rows
    found, again = torch.cat(list(feature_blocks(encoder, [examples] * 2, block_words=4)), 1).chunk(2, dim=1)
    assert found.shape[1] == examples.num_words and torch.equal(found, again)
    for window, (places, words) in enumerate(zip(examples.places, examples.words, strict=True)):
        states = encoder.encode(examples.batch([window]), hidden_states=True).hidden_states
        for number, state in enumerate(states):
            torch.testing.assert_close(found[number, words], state[places].detach(), atol=1e-5, rtol=1e-4)


def test_mapped_features_are_those_in_memory(tmp_path: Path, model: Path):
    encoder, examples = opened(tmp_path, model)
    memory = make_features(encoder, [examples], tmp_path / "features", "bf16", 1e9)
    assert not (tmp_path / "features").exists()
    mapped = make_features(encoder, [examples], tmp_path / "features", "bf16", 100)
    assert len(list((tmp_path / "features").glob("*.bin"))) == 5
    assert all(torch.equal(one, other) for one, other in zip(memory.layers, mapped.layers, strict=True))


@pytest.mark.parametrize(("probe", "crf"), [("linear", False), pytest.param("bilstm", True, marks=pytest.mark.slow)])
def test_it_compares_all_choices_and_leaves_the_encoder_as_it_was(tmp_path: Path, model: Path, capsys, probe, crf):
    before = storage.sha256(model / "model.safetensors")
    result = layer_lab(lab(tmp_path, model, probe=probe, crf=crf, each_layer=not crf))
    names = [*NAMED_LAYERS, MIX, *(["layer-1", "layer-2"] if not crf else [])]
    rows = {row["name"]: row for row in result.rows}
    assert list(rows) == names and result.facts["main_metric"] == "entity_f1"
    for row in rows.values():
        assert row["mean"]["entity_f1"] == pytest.approx(np.mean(row["runs"])) and len(row["runs"]) == 2
        assert row["deviation"]["entity_f1"] == pytest.approx(np.std(row["runs"], ddof=1))
    assert max(row["mean"]["entity_f1"] for row in rows.values()) > 0.8 and rows["concat-last-4"]["size"] == 128
    shares = rows[MIX]["mix"]["shares"]
    assert len(shares) == 5 and sum(shares) == pytest.approx(1.0, abs=1e-5) and max(shares) > 0.21, "the mix learns"
    assert result.facts["published"]["concat-last-4"] == pytest.approx(0.961)
    assert "in memory" in capsys.readouterr().err
    assert storage.sha256(model / "model.safetensors") == before
    page = result.report.read_text(encoding="utf-8")
    for part in ("Scalar mix weights by layer", "published order", "Devlin et al. 2019"):
        assert part in page, part


class Stopped(Exception):
    """The test's own interruption."""


@pytest.mark.slow
def test_an_interrupted_run_goes_on_and_ends_with_the_same_table(tmp_path: Path, model: Path, monkeypatch):
    first = lab(tmp_path, model, epochs=1, feature_memory=0.0)
    whole = layer_lab(first)
    other = lab(tmp_path, model, epochs=1, feature_memory=0.0, output=tmp_path / "cut")
    train, trained = module.train, []

    def stop_at_the_sixth(job, settings, **names):
        if len(trained) == 5:
            trained.append("stopped")
            raise Stopped
        trained.append(names["name"])
        return train(job, settings, **names)

    monkeypatch.setattr(module, "train", stop_at_the_sixth)
    with pytest.raises(Stopped):
        layer_lab(other)
    assert len(list((tmp_path / "cut" / "parts").glob("*.json"))) == 5
    assert (tmp_path / "cut" / "features").exists()
    again = layer_lab(other)
    assert len(trained) == 15, "every probe is trained once"
    assert again.rows == whole.rows and not again.already_finished
    assert not (tmp_path / "cut" / "features").exists(), "features go when the run is finished"
    once_more = layer_lab(other)
    assert once_more.already_finished and once_more.rows == whole.rows


@pytest.mark.slow
def test_the_fine_tuned_model_stands_beside_the_frozen_one(tmp_path: Path, model: Path):
    result = layer_lab(lab(tmp_path, model, seeds=1, epochs=1, also_finetune=True, finetune_epochs=4, finetune_lr=3e-3))
    assert result.facts["finetuned"]["parameters"] > 10 * result.rows[0]["parameters"]
    assert (tmp_path / "layers" / "finetuned" / "model" / "model.safetensors").is_file()
    assert "fine-tuned" in result.report.read_text(encoding="utf-8")


def test_tags_that_are_no_entities_are_scored_by_accuracy_without_published_rows(tmp_path: Path):
    shallow = save(tmp_path / "model", num_hidden_layers=1)
    for name, rows in (("train", 12), ("dev", 6)):
        lines = "Anna\tNOUN\nis\tVERB\nin\tADP\nRome\tNOUN\n\nBob\tNOUN\nis\tVERB\nhere\tADV\n\n"
        (tmp_path / f"{name}.pos").write_text(lines * rows, encoding="utf-8")
    files = {"train": tmp_path / "train.pos", "dev": tmp_path / "dev.pos"}
    result = layer_lab(lab(tmp_path, shallow, seeds=1, epochs=4, lr=0.05, **files))
    assert result.facts["main_metric"] == "accuracy" and result.facts["published"] == {}
    assert result.facts["left_out"] == ["sum-last-4", "concat-last-4"]
    assert result.rows[0]["mean"]["accuracy"] > 0.9


def test_the_command_prints_the_table_and_what_is_next_or_json_alone(maskwright, refused, tmp_path: Path, model: Path):
    train, dev = tagged(tmp_path / "train.conll", 16, 1), tagged(tmp_path / "dev.conll", 8, 2)
    fast = ("--epochs", 1, "--max-length", 16, "--precision", "fp32", "--columns", "token=0,tag=2", "--seeds", 2)
    words = ("experiment", "layers", model, "--train", train, "--dev", dev, *fast, "-o", tmp_path / "layers")
    code, out, err = maskwright(*words)
    assert code == 0, err
    for part in ("concat-last-4", "learned-mix", "The published order", "maskwright embed", " ± "):
        assert part in out, part
    assert "Part 14 of 14: learned-mix, seed 1" in err
    code, out, _ = maskwright(*words)
    assert code == 0 and out.startswith("This run is finished")
    code, out, _ = maskwright(*words, "--json")
    assert code == 0 and len(out.splitlines()) == 1 and len(json.loads(out)["rows"]) == 7
    code, out, err = maskwright(*words, "--columns", "token=0,tag=9")
    assert (code, out) == (2, "") and "Traceback" not in err
    refused("train", "experiment", "layers", model, "-o", tmp_path / "x")


def test_bad_input_is_refused_and_leaves_no_folder(tmp_path: Path, model: Path):
    strange = tmp_path / "strange.conll"
    strange.write_text("Anna\tB-PER\nin\tO\nRome\tB-RIVER\n", encoding="utf-8")
    with pytest.raises(RowErrors, match=r"strange.conll:3: column 'tag'.*B-RIVER"):
        layer_lab(lab(tmp_path, model, dev=strange))
    for changes, word in (({"columns": {"tag": "7"}}, "column 7"), ({"max_length": 99}, "max_length")):
        with pytest.raises(InputError, match=word):
            layer_lab(lab(tmp_path, model, **changes))
    assert not (tmp_path / "layers").exists()
