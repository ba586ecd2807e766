"""Pre-training runs of every objective and kind of network: files, scores, exact resume, what follows."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import maskwright as mw
from inference.samples import tiny
from maskwright.core import storage
from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.inference.fill_mask import MaskFiller
from maskwright.inference.held_out_text import score_text
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.job import pretrain_small
from maskwright.train.pretraining.pretrain import pretrain, pretraining_plan
from train.runs import TINY, continues_exactly, corpus, finetuning, pretraining

FAMILY = {"mlm+sop": "albert-base", "rtd": "electra-small"}
SMALL = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "embedding_size": 16,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
WEIGHTS = {"mlm+sop": ["model"], "rtd": ["model", "model/generator"]}


def configured(folder, objective, **changes):  # type: ignore[no-untyped-def]
    return pretraining(folder, objective=objective, preset=FAMILY[objective], model=SMALL, **changes)


@pytest.mark.parametrize("objective", ["mlm+sop", "rtd", "clm"])
def test_an_interrupted_run_ends_with_the_same_bits(objective, tmp_path, monkeypatch):
    files = [f"{name}/model.safetensors" for name in WEIGHTS.get(objective, ["model"])]
    config = pretraining(tmp_path, objective="clm") if objective == "clm" else configured(tmp_path, objective)
    continues_exactly(pretrain, config, monkeypatch, files=files)


def test_a_run_with_sentence_order_leaves_a_model_that_judges_it(tmp_path):
    result = pretrain(configured(tmp_path, "mlm+sop"))
    assert set(result.scores) == {
        *("loss", "mlm_loss", "mlm_scored_loss", "mlm_baseline_loss", "mlm_accuracy", "mlm_baseline"),
        *("sop_loss", "sop_accuracy", "sop_baseline"),
    }
    model = mw.load(result.model)
    assert (model.head_name, model.config.pair_objective, model.config.family) == ("pretraining", "sop", "albert")
    found = score_text(model, corpus(tmp_path), max_length=32).metrics
    assert set(found) == {"mlm_accuracy", "mlm_baseline", "perplexity", "sop_accuracy", "sop_baseline"}
    assert "Sentence orders" in result.report.read_text(encoding="utf-8")


def test_a_run_with_replaced_tokens_leaves_the_discriminator_and_its_generator(tmp_path):
    result = pretrain(configured(tmp_path, "rtd"))
    assert set(result.scores) >= {"mlm_accuracy", "rtd_accuracy", "rtd_baseline", "rtd_loss"}
    assert result.scores["loss"] == pytest.approx(result.scores["mlm_loss"] + 50 * result.scores["rtd_loss"])
    model, generator = mw.load(result.model), mw.load(result.model / "generator")
    assert (model.head_name, generator.head_name) == ("rtd", "mlm")
    assert generator.config.hidden_size == 8
    assert torch.equal(model.word_embeddings, generator.word_embeddings)
    storage.verify_folder(result.model)
    storage.verify_folder(result.model / "generator")
    with pytest.raises(InputError, match="generator"):
        score_text(model, corpus(tmp_path))
    found = score_text(model, corpus(tmp_path), generator=generator, max_length=32).metrics
    assert set(found) == {"mlm_accuracy", "mlm_baseline", "perplexity", "rtd_accuracy", "rtd_baseline"}
    assert mw.FillMask(result.model / "generator").fill(["the [MASK] was here"])
    page = result.report.read_text(encoding="utf-8")
    assert "Tokens classified correctly" in page and "model/generator" in page


def test_the_plan_counts_both_networks_and_shared_tables_once(tmp_path):
    config = configured(tmp_path, "rtd")
    planned = pretraining_plan(config)["parameters"]
    pretrain(config)
    model, generator = mw.load(tmp_path / "run" / "model"), mw.load(tmp_path / "run" / "model" / "generator")
    tables = [name for name, _ in model.encoder.embeddings.named_parameters() if not name.startswith("project")]
    shared = sum(model.encoder.embeddings.get_parameter(name).numel() for name in tables)
    assert model.config.vocab_size == config.vocab_size
    assert model.num_parameters + generator.num_parameters - shared == planned


# -- Runs of networks that are not BERT's ----------------------------------------------------------------------------

SPARSE = {"attention": "big_bird", "block_size": 4, "random_blocks": 1, "positions": "relative_key_value"}
RUNS: dict[str, dict[str, Any]] = {
    "mlm": SPARSE,
    "mlm+nsp": {"positions": "sinusoidal"},
    "mlm+sop": {"positions": "none", "attention": "window", "window_size": 8},
    "rtd": {"positions": "rotary", "norm": "pre", "gated": True},
}


def built(folder, objective, **changes):
    return pretraining(folder, objective=objective, steps=4, model=TINY | RUNS[objective], **changes)


@pytest.mark.parametrize("objective", RUNS)
def test_the_folder_keeps_the_network(objective, tmp_path):
    result = pretrain(built(tmp_path, objective))
    config = mw.load(result.model).config
    assert {name: getattr(config, name) for name in RUNS[objective]} == RUNS[objective]
    page = result.report.read_text(encoding="utf-8")
    assert ("Attention pattern" in page) == ("attention" in RUNS[objective])
    assert all(f"{name}={str(value).lower()}" in page for name, value in RUNS[objective].items())


def test_random_blocks_are_draws_of_the_run_and_an_interruption_changes_no_bit(tmp_path, monkeypatch):
    config = built(tmp_path, "mlm", seed=5)
    continues_exactly(pretrain, config, monkeypatch)
    assert mw.load(config.output / "model").config.attention_seed == 5
    given = built(tmp_path, "mlm", output=tmp_path / "given")
    given.model["attention_seed"] = 9
    assert mw.load(pretrain(given).model).config.attention_seed == 9


# -- A left-to-right run from text to a classifier -------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return pretrain(
        pretraining(tmp_path_factory.mktemp("clm"), objective="clm", steps=60, lr=3e-3, checkpoint_every=20)
    )


def test_its_folder_is_a_decoder_whose_perplexity_is_evaluated(run):
    assert storage.read_json(run.model / "config.json")["architectures"] == ["BertLMHeadModel"]
    model, report = load_model(run.model)
    assert model.config.pools_last_token and not report.new and not report.unused
    found = score_text(model, run.output.parent / "corpus.txt", max_length=32).metrics
    assert set(found) == {"clm_accuracy", "clm_baseline", "perplexity"}
    assert math.log(found["perplexity"]) == pytest.approx(run.scores["clm_loss"], abs=0.5)


def test_a_classifier_on_it_learns_what_only_the_last_words_tell(run, tmp_path):
    start = {"preset": None, "tokenizer": None, "model": str(run.model)}
    tuned = finetune(finetuning(tmp_path, epochs=8, lr=5e-3, **start))
    assert tuned.mean["accuracy"] > 0.9
    again = mw.TextClassifier.load(tuned.model)
    assert again.predict(["the red cat was here", "the old river was here"]).tolist() == ["animal", "place"]
    model = mw.load(tuned.model)
    assert (
        model.config.pools_last_token and storage.read_json(tuned.model / "config.json")["model_type"] == "maskwright"
    )
    one = Batch.from_sequences([[5, 6, 7]])
    assert torch.equal(model.first(model.encode(one).hidden, one), model.pool(model.encode(one).hidden, one))


# -- A denoising run from text to a translation model ----------------------------------------------------------------

NETWORK = {"hidden_size": 32, "num_hidden_layers": 1, "num_decoder_layers": 1, "num_attention_heads": 2}
WRITES = {"objective": "denoise", "preset": "transformer-mini", "model": NETWORK | {"intermediate_size": 48}}


@pytest.fixture(scope="module")
def denoised(tmp_path_factory):
    return pretrain(pretraining(tmp_path_factory.mktemp("denoise"), steps=60, lr=5e-3, checkpoint_every=20, **WRITES))


def test_what_it_learns_is_compared_with_its_baseline_and_shown(denoised):
    names = ("loss", "scored_loss", "baseline_loss", "accuracy", "baseline")
    assert set(denoised.scores) == {"loss", *(f"denoise_{name}" for name in names)}
    # It has learned where marks stand, and no word of the text: the loss over both must not make it healthy.
    assert denoised.scores["denoise_loss"] < denoised.scores["denoise_baseline_loss"] == denoised.baseline.mlm_loss
    assert denoised.scores["denoise_scored_loss"] > denoised.baseline.mlm_loss and denoised.verdict.level == "bad"
    assert "of the hidden tokens correct" in " ".join(denoised.verdict.reasons)
    report = denoised.report.read_text()
    assert "Hidden tokens correct" in report and "finetune translation" in report
    assert "One masked word per sequence of " in report


def test_its_folder_is_a_marian_that_a_translator_begins_with(denoised, tmp_path):
    assert storage.read_json(denoised.model / "config.json")["architectures"] == ["MarianMTModel"]
    model, report = load_model(denoised.model)
    assert isinstance(model, EncoderDecoder) and not report.new and not report.unused
    for name in ("a", "b"):
        (tmp_path / name).write_text("the red cat was here\nthe old river was here\n" * 10, encoding="utf-8")
    paths = {
        "train": tmp_path / "a",
        "train_target": tmp_path / "b",
        "dev": tmp_path / "a",
        "dev_target": tmp_path / "b",
    }
    recipe = FinetuneConfig(
        task="translation", model=denoised.model, output=tmp_path / "t", epochs=1, max_length=16, device="cpu", **paths
    )
    assert "bleu" in finetune(recipe).final


def test_networks_of_another_kind_are_refused_in_words(tmp_path):
    with pytest.raises(InputError, match=r"Objective denoise needs an encoder-decoder .*, which bert-mini is not"):
        pretrain(pretraining(tmp_path, **(WRITES | {"preset": "bert-mini", "model": {}})))
    with pytest.raises(InputError, match="which transformer-mini is not: use --objective denoise, or train it on"):
        pretrain(pretraining(tmp_path, **(WRITES | {"objective": "mlm"})))


# -- Recurrent runs from text to samples -----------------------------------------------------------------------------

MEMORY = {"hidden_size": 32, "num_hidden_layers": 2, "hidden_dropout": 0.1}


def recurrent(folder, **changes):
    settings = {"preset": "lstm-small", "objective": "clm", "model": MEMORY, "steps": 60, "lr": 2e-2, "max_length": 16}
    return pretraining(folder, **{**settings, "checkpoint_every": 30, **changes})


@pytest.fixture(scope="module")
def lstm(tmp_path_factory):
    return pretrain(recurrent(tmp_path_factory.mktemp("lstm")))


def test_a_run_that_was_cut_off_ends_with_the_bits_of_one_that_was_not(tmp_path, lstm, monkeypatch):
    continues_exactly(pretrain, recurrent(tmp_path), monkeypatch, step=33, whole=lstm.output)


def test_its_folder_writes_and_is_scored(lstm, tmp_path):
    writer = mw.Generator(lstm.model, max_new_tokens=8, top_k=1)
    one, other = writer.predict(["the cat"]), writer.predict(["the cat"])
    assert one == other and one[0]
    drawn = mw.Generator(lstm.model, max_new_tokens=20, top_k=5, random_state=3).predict(["the cat", "a dog"])
    assert drawn == mw.Generator(lstm.model, max_new_tokens=20, top_k=5, random_state=3).predict(["the cat", "a dog"])
    text = corpus(tmp_path, 6)
    model = load_model(lstm.model)[0]
    remembered, anew = score_text(model, text), score_text(model, text, max_length=8, carries=False)
    assert set(remembered.metrics) == {"clm_accuracy", "clm_baseline", "perplexity"}
    assert remembered.metrics["perplexity"] < anew.metrics["perplexity"]


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("elmo")
    return pretrain(recurrent(folder, preset="elmo-small", objective="bilm", max_length=32))


def test_both_directions_learn_and_are_scored(both, tmp_path):
    assert both.scores["clm_scored_loss"] < both.baseline.mlm_loss > both.scores["backward_scored_loss"]
    found = score_text(load_model(both.model)[0], corpus(tmp_path, 6))
    assert set(found.metrics) == {
        *("clm_accuracy", "clm_baseline", "perplexity", "backward_accuracy", "backward_baseline")
    }
    assert found.tokens > found.examples


def test_a_pair_of_language_models_is_fine_tuned(both, tmp_path):
    result = finetune(finetuning(tmp_path, model=both.model, preset=None, tokenizer=None, epochs=16, lr=1e-2))
    assert result.mean["accuracy"] > 0.9


# -- Continued pre-training of a model on other text -----------------------------------------------------------------


def recipe(folder, head="mlm", **changes):
    tiny(head).save(folder / "base", replace=True)
    own = {"start": str(folder / "base"), "preset": None, "model": {}, "vocab_size": 8000, "objective": "mlm"}
    return pretraining(folder, **{**own, "compile": "off", **changes})


def test_it_continues_from_the_weights_with_network_and_tokenizer(tmp_path):
    result = pretrain(recipe(tmp_path, lr=1e-12))
    start, model = (load_model(folder)[0] for folder in (tmp_path / "base", result.model))
    assert model.config == start.config and model.tokenizer.files() == start.tokenizer.files()
    for name, tensor in model.state_dict().items():
        assert torch.allclose(tensor, start.state_dict()[name], atol=1e-6), name


@pytest.mark.parametrize("head", ["mlm", None], ids=["with its head", "with a new head"])
def test_an_adapter_of_a_domain_resumes_and_fills_masks(head, tmp_path, monkeypatch):
    settings = {"adapter": "lora", "lr": 1e-2, "targets": "all-linear", "dropout": 0.0}
    result = pretrain(recipe(tmp_path, head, **settings))
    assert (result.model / "adapter_model.safetensors").is_file()
    start, model = (load_model(folder, "mlm")[0] for folder in (tmp_path / "base", result.model))
    assert not torch.equal(start.encoder.layers[0].ffn.up.weight, model.encoder.layers[0].ffn.up.weight)  # merged
    _, report = load_model(result.model)
    assert report.new == []
    assert mw.FillMask(str(result.model)).fit(["the [MASK]"]).predict(["the [MASK] fell"])
    config = recipe(tmp_path, head, **settings, output=tmp_path / "broken")
    continues_exactly(pretrain, config, monkeypatch, whole=result.output, files=["model/adapter_model.safetensors"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start": None, "adapter": "lora"}, "--adapter requires --model"),
        ({"tokenizer": "tok"}, "'tokenizer' requires random weights"),
        ({"model": {"hidden_size": 64}}, "'model' requires random weights"),
        ({"objective": "rtd"}, "rtd trains two networks"),
        ({"rank": 4}, "'rank' requires --adapter lora"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"objective": "clm"},
            "Objective clm needs a network with attention=causal, which .* is not: use --objective mlm",
        ),
        ({"objective": "mlm+sop"}, r"Objective mlm\+sop needs a network with pair_objective=sop, which .* is not"),
        ({"max_length": 64}, "'max_length' is 64; .* has 48 positions"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_and_leaves_nothing(tmp_path, settings, message):
    with pytest.raises(InputError, match=message):
        pretrain(recipe(tmp_path, **settings))
    assert not (tmp_path / "run").exists()


# -- Pre-training in memory ------------------------------------------------------------------------------------------

DOCUMENTS = [["red apples grow here .", "they are sweet ."], ["blue fish swim there .", "they are fast ."]] * 4
SENTENCES = [sentence for document in DOCUMENTS for sentence in document]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train_from_iterator(SENTENCES, "word", 50)


def test_a_masked_word_is_learned(tokenizer):
    model = pretrain_small(DOCUMENTS, tokenizer, steps=80, hidden_size=32, mask_rate=0.3)
    best = MaskFiller(model).fill(["red [MASK] grow here ."])[0].masks[0].candidates[0]
    assert best.token_str == "apples" and best.score > 0.3


@pytest.mark.parametrize("objective", ["mlm", "mlm+nsp", "clm"])
def test_every_objective_trains_and_a_seed_repeats(tokenizer, objective):
    first, again = (pretrain_small(DOCUMENTS, tokenizer, objective, steps=3, hidden_size=16) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert first.tokenizer is tokenizer and not first.training
