"""Training translation models: toy languages are learned exactly, published schedules and batches, runs resume."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import TokenBatches
from maskwright.hub.folders import load_model
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.models.build import build
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.models.presets import preset
from maskwright.text.readers.parallel import may_become_tree
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.checkpoint import list_checkpoints, read_weights
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from train.runs import continues_exactly

WORDS = [f"w{number}" for number in range(12)]
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4}


def sentences(count: int, seed: int, shortest: int = 1, longest: int = 6) -> list[list[str]]:
    """Rows of random words."""
    draws = random.Random(seed)
    return [[draws.choice(WORDS) for _ in range(draws.randint(shortest, longest))] for _ in range(count)]


def write(folder: Path, name: str, rows: list[list[str]], turned: bool) -> tuple[Path, Path]:
    """Sources and targets as line-aligned files; turned: a target is its source from the end."""
    paths = folder / f"{name}.src", folder / f"{name}.tgt"
    for path, own in zip(paths, (rows, [row[::-1] if turned else row for row in rows]), strict=True):
        path.write_text("".join(" ".join(row) + "\n" for row in own), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tok") / "tok"
    Tokenizer.train_from_iterator(iter([" ".join(WORDS)] * 3), kind="word", vocab_size=40).save(folder)
    return folder


def recipe(folder: Path, tokenizer: Path, turned: bool = False, **changes: object) -> FinetuneConfig:
    """A small run on a toy language."""
    train, dev = write(folder, "train", sentences(160, 1), turned), write(folder, "dev", sentences(12, 2), turned)
    settings: dict[str, object] = {
        "task": "translation",
        "preset": "transformer-mini",
        "tokenizer": tokenizer,
        "network": SMALL | {"intermediate_size": 128, "hidden_dropout": 0.0},
        "train": train[0],
        "train_target": train[1],
        "dev": dev[0],
        "dev_target": dev[1],
        "output": folder / "run",
        "epochs": 2,
        "max_length": 16,
        "batch_tokens": 512,
        "warmup": 20,
        "lr": 3e-3,
        "precision": "fp32",
        "device": "cpu",
    }
    return FinetuneConfig(**(settings | changes))  # type: ignore[arg-type]


@pytest.mark.slow
def test_reversing_is_learned(tmp_path: Path, tokenizer: Path):
    config = recipe(tmp_path, tokenizer, True, epochs=15, lr=2e-3, warmup=100, schedule="linear")
    config = replace(config, network=config.network | {"norm": "pre"})
    train = write(tmp_path, "train", sentences(3000, 1), True)
    result = finetune(replace(config, train=train[0], train_target=train[1]))
    assert result.mean["token_accuracy"] == 1.0
    model, _ = load_model(result.model)
    unseen = sentences(100, 3)
    found = TextTranslator(model).translate([" ".join(row) for row in unseen], TranslationSettings(beams=1))
    wanted = [" ".join(row[::-1]) for row in unseen]
    right = sum(one[0].text == line for one, line in zip(found, wanted, strict=True))
    assert right >= 97  # rounding differs by CPU, and with it what a short training learns of rare rows


def test_a_run_ends_with_a_model_a_report_and_scores(tmp_path: Path, tokenizer: Path):
    config = recipe(tmp_path, tokenizer)
    result = finetune(config)
    assert {"token_accuracy", "perplexity", "loss"} <= result.mean.keys()
    page = result.report.read_text(encoding="utf-8")
    assert "Generated texts" in page and "train_target=" in page
    model, report = load_model(result.model)
    assert isinstance(model, EncoderDecoder) and not report.new
    assert model.config.decoder_start_token_id == model.tokenizer.bos_id
    assert finetune(config).already_finished


def test_both_sides_may_have_a_vocabulary_of_their_own(tmp_path: Path, tokenizer: Path):
    own = tmp_path / "own"
    Tokenizer.train_from_iterator(iter([" ".join(WORDS[:9])] * 3), kind="word", vocab_size=30).save(own)
    result = finetune(recipe(tmp_path, tokenizer, target_tokenizer=own, epochs=1))
    model, _ = load_model(result.model)
    assert isinstance(model, EncoderDecoder)
    sizes = model.tokenizer.vocab_size, model.target_tokenizer.vocab_size
    assert sizes == (model.config.vocab_size, model.config.decoder_vocab_size) and sizes[0] != sizes[1]
    assert TextTranslator(model).translate(["w1 w2"])[0][0].is_ended in (True, False)


def test_the_mean_of_the_last_epochs_is_the_model(tmp_path: Path, tokenizer: Path):
    result = finetune(recipe(tmp_path, tokenizer, epochs=3, average_checkpoints=2))
    kept = list_checkpoints(result.output / "seed-0" / "last")
    assert len(kept) == 2
    first, second = (read_weights(path) for _, path in kept)
    model, _ = load_model(result.model)
    for name, value in model.state_dict().items():
        assert torch.allclose(value, (first[name].double() + second[name].double()).float() / 2, atol=1e-6), name


def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(
    tmp_path: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
):
    config = recipe(tmp_path, tokenizer, epochs=3, average_checkpoints=2, checkpoint_every=3)
    continues_exactly(finetune, config, monkeypatch, step=8)


def test_pairs_over_the_limit_are_left_out_of_training_and_counted(tmp_path: Path, tokenizer: Path, capsys):
    config = recipe(tmp_path, tokenizer, epochs=1)
    train = write(tmp_path, "train", [*sentences(60, 1), ["w1"] * 40, ["w2"] * 16], False)
    finetune(replace(config, train=train[0], train_target=train[1]))
    assert "2 of 62 training pairs are longer than max_length and are skipped" in capsys.readouterr().err


# -- schedule and batches ----------------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 40), min_size=1, max_size=80), st.integers(1, 100), st.integers(0, 3))
def test_every_epoch_gives_every_row_once_in_batches_within_the_budget(lengths: list[int], budget: int, epoch: int):
    batches = TokenBatches(np.array(lengths), budget, seed=0)
    rows = [batches.rows(epoch, number) for number in range(len(batches))]
    assert sorted(np.concatenate(rows).tolist()) == list(range(len(lengths)))
    assert all(len(own) == 1 or sum(lengths[row] for row in own) <= budget for own in rows)
    again = TokenBatches(np.array(lengths), budget, seed=0)
    assert [again.rows(epoch, number).tolist() for number in range(len(again))] == [own.tolist() for own in rows]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_smoothing": 1.0}, "label_smoothing"),
        ({"batch_tokens": 20}, "must fit a pair"),
        ({"average_checkpoints": 0}, "average_checkpoints"),
        ({"average_checkpoints": 2, "patience": 1}, "average_checkpoints.*patience"),
        ({"dev": None}, "translation of 'dev'"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path: Path, tokenizer: Path, changes: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, tokenizer, **changes)


def tagged(folder: Path, tokenizer: Path, rows: list[list[str]], **changes: object) -> FinetuneConfig:
    """The same words forwards (aa) or backwards (bb), by tag."""
    for name, own in (("train", rows), ("dev", rows[:6])):
        lines = [
            f"<to-{language}> {' '.join(row)}\t{' '.join(row if language == 'aa' else row[::-1])}"
            for row in own
            for language in ("aa", "bb")
        ]
        (folder / f"{name}.tsv").write_text("source\ttarget\n" + "\n".join(lines) + "\n", encoding="utf-8")
    tables = {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "train_target": None, "dev_target": None}
    return replace(recipe(folder, tokenizer, **changes), **tables)


def test_language_tags_become_tokens_and_a_language_that_is_not_known_is_refused(tmp_path: Path, tokenizer: Path):
    result = finetune(tagged(tmp_path, tokenizer, sentences(40, 3), epochs=1))
    model, report = load_model(result.model)
    assert not report.new and model.tokenizer.token_to_id("<to-aa>") is not None
    translator = TextTranslator(model)
    assert translator.task.languages == ("aa", "bb")
    ((one,),) = translator.translate(["w1 w2"], TranslationSettings(beams=2, to="aa"))
    assert "<to-" not in one.text
    with pytest.raises(InputError, match="cannot translate to 'cc', only to aa, bb"):
        translator.translate(["w1"], TranslationSettings(to="cc"))
    with pytest.raises(InputError, match="has no target language"):
        translator.translate(["w1"])
    plain = TextTranslator(
        load_model(finetune(recipe(tmp_path, tokenizer, epochs=1, output=tmp_path / "plain")).model)[0]
    )
    with pytest.raises(InputError, match="without language tags"):
        plain.translate(["w1"], TranslationSettings(to="aa"))


@pytest.mark.slow
def test_what_is_written_follows_the_tag(tmp_path: Path, tokenizer: Path):
    config = tagged(tmp_path, tokenizer, sentences(2500, 1), epochs=14, lr=2e-3, warmup=100, schedule="linear")
    translator = TextTranslator(load_model(finetune(config).model)[0])
    unseen = sentences(40, 9)
    for language in ("aa", "bb"):
        wanted = [" ".join(row if language == "aa" else row[::-1]) for row in unseen]
        settings = TranslationSettings(beams=1, to=language)
        found = [one[0].text for one in translator.translate([" ".join(row) for row in unseen], settings)]
        assert sum(a == b for a, b in zip(found, wanted, strict=True)) >= 38


@pytest.mark.parametrize("kind", ["whole words", "byte-bpe"])
@pytest.mark.parametrize("beams", [1, 4])
def test_enforced_brackets_become_trees_of_the_words_whatever_the_weights(kind: str, beams: int):
    trees = ["(S (NP w1 )NP (VP w2 w3 )VP )S", "(S w1 (NP w2 )NP )S"]
    tokenizer = Tokenizer.train_from_iterator(iter(trees * 9), kind="byte-bpe", vocab_size=300)
    if kind == "whole words":
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "(S", ")S", "(NP", ")NP", "(VP", ")VP", "w1", "w2", "w3"]
        backend = tokenizers.Tokenizer(
            tokenizers.models.WordLevel({name: id for id, name in enumerate(names)}, unk_token="[UNK]")
        )
        backend.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        backend.add_special_tokens(names[:4])
        tokenizer = Tokenizer(backend)
        assert tokenizer.kind == "word"
    network = preset("transformer-mini", vocab_size=tokenizer.vocab_size, **SMALL)
    written = {"decoder_start_token_id": tokenizer.bos_id, "eos_token_id": tokenizer.eos_id}
    model = build(replace(network, pad_token_id=tokenizer.pad_id or 0, **written), "seq2seq", seed=4)
    model.tokenizer = tokenizer
    with torch.no_grad():  # so that few brackets are opened, and labels are short
        for id, token in enumerate(tokenizer.tokens):
            is_next = token[:1] == "Ġ" or (len(token) > 1 and token[0] in "w)")
            model.head.bias[id] += 40.0 if id == tokenizer.eos_id else 20.0 * is_next - 40.0 * ("(" in token)
    texts = ["w1", "w2 w3", "w3 w1 w2", "w1 unheard"]
    for how in ("flag", "enforce"):
        settings = TranslationSettings(beams, beams, max_new_tokens=60, length_penalty=0.0, brackets=how)
        found = TextTranslator(model).translate(texts, settings)
        if how == "flag":
            assert all(one[0].fault is not None for one in found)
            continue
        for text, own in zip(texts[:3], found, strict=False):
            assert all(may_become_tree(one.text, text.split()) for one in own)
            assert all((one.fault is None) == one.is_ended for one in own)
        assert all(own[0].is_ended for own in found[:3])
        assert kind == "byte-bpe" or found[3][0].fault is not None, "no token says this word"
