"""Training translation models, transformers and recurrent ones: toy languages, batches, runs that resume."""

import random
from dataclasses import replace

import numpy as np
import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError
from maskwright.data.batch import Batch, TokenBatches
from maskwright.hub.folders import load_model
from maskwright.inference.embed import TextEncoder
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.inspect.lengths import by_length, groups_by_length
from maskwright.models.build import build
from maskwright.models.encoder_decoder import EncoderDecoder
from maskwright.models.pooling import state_of
from maskwright.models.presets import preset
from maskwright.tasks.examples import rows_of
from maskwright.tasks.translation import Translation, alignments, words_of
from maskwright.text.readers.parallel import may_become_tree
from maskwright.text.readers.tables import Row
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.checkpoint import list_checkpoints, read_weights
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from train.runs import continues_exactly

WORDS = [f"w{number}" for number in range(12)]
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_decoder_layers": 2, "num_attention_heads": 4}


def sentences(count, seed, shortest=1, longest=6):
    draws = random.Random(seed)
    return [[draws.choice(WORDS) for _ in range(draws.randint(shortest, longest))] for _ in range(count)]


def write(folder, name, rows, turned):
    """Sources and targets as line-aligned files; turned: a target is its source from the end."""
    paths = folder / f"{name}.src", folder / f"{name}.tgt"
    for path, own in zip(paths, (rows, [row[::-1] if turned else row for row in rows]), strict=True):
        path.write_text("".join(" ".join(row) + "\n" for row in own), encoding="utf-8")
    return paths


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tok") / "tok"
    Tokenizer.train_from_iterator(iter([" ".join(WORDS)] * 3), kind="word", vocab_size=40).save(folder)
    return folder


def recipe(folder, tokenizer, turned=False, **changes):
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
def test_reversing_is_learned(tmp_path, tokenizer):
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


def test_a_run_ends_with_a_model_a_report_and_scores(tmp_path, tokenizer):
    config = recipe(tmp_path, tokenizer)
    result = finetune(config)
    assert {"token_accuracy", "perplexity", "loss"} <= result.mean.keys()
    page = result.report.read_text(encoding="utf-8")
    assert "Generated texts" in page and "train_target=" in page
    model, report = load_model(result.model)
    assert isinstance(model, EncoderDecoder) and not report.new
    assert model.config.decoder_start_token_id == model.tokenizer.bos_id
    assert finetune(config).already_finished


def test_both_sides_may_have_a_vocabulary_of_their_own(tmp_path, tokenizer):
    own = tmp_path / "own"
    Tokenizer.train_from_iterator(iter([" ".join(WORDS[:9])] * 3), kind="word", vocab_size=30).save(own)
    result = finetune(recipe(tmp_path, tokenizer, target_tokenizer=own, epochs=1))
    model, _ = load_model(result.model)
    assert isinstance(model, EncoderDecoder)
    sizes = model.tokenizer.vocab_size, model.target_tokenizer.vocab_size
    assert sizes == (model.config.vocab_size, model.config.decoder_vocab_size) and sizes[0] != sizes[1]
    assert TextTranslator(model).translate(["w1 w2"])[0][0].is_ended in (True, False)


def test_the_mean_of_the_last_epochs_is_the_model(tmp_path, tokenizer):
    result = finetune(recipe(tmp_path, tokenizer, epochs=3, average_checkpoints=2))
    kept = list_checkpoints(result.output / "seed-0" / "last")
    assert len(kept) == 2
    first, second = (read_weights(path) for _, path in kept)
    model, _ = load_model(result.model)
    for name, value in model.state_dict().items():
        assert torch.allclose(value, (first[name].double() + second[name].double()).float() / 2, atol=1e-6), name


def test_an_interrupted_run_ends_with_the_weights_of_one_that_was_not(tmp_path, tokenizer, monkeypatch):
    config = recipe(tmp_path, tokenizer, epochs=3, average_checkpoints=2, checkpoint_every=3)
    continues_exactly(finetune, config, monkeypatch, step=8)


def test_pairs_over_the_limit_are_left_out_of_training_and_counted(tmp_path, tokenizer, capsys):
    config = recipe(tmp_path, tokenizer, epochs=1)
    train = write(tmp_path, "train", [*sentences(60, 1), ["w1"] * 40, ["w2"] * 16], False)
    finetune(replace(config, train=train[0], train_target=train[1]))
    assert "2 of 62 training pairs are longer than max_length and are skipped" in capsys.readouterr().err


@given(st.lists(st.integers(1, 40), min_size=1, max_size=80), st.integers(1, 100), st.integers(0, 3))
def test_every_epoch_gives_every_row_once_in_batches_within_the_budget(lengths, budget, epoch):
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
def test_settings_that_do_not_fit_are_named(tmp_path, tokenizer, changes, message):
    with pytest.raises(ConfigError, match=message):
        recipe(tmp_path, tokenizer, **changes)


def tagged(folder, tokenizer, rows, **changes):
    for name, own in (("train", rows), ("dev", rows[:6])):
        lines = [
            f"<to-{language}> {' '.join(row)}\t{' '.join(row if language == 'aa' else row[::-1])}"
            for row in own
            for language in ("aa", "bb")
        ]
        (folder / f"{name}.tsv").write_text("source\ttarget\n" + "\n".join(lines) + "\n", encoding="utf-8")
    tables = {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "train_target": None, "dev_target": None}
    return replace(recipe(folder, tokenizer, **changes), **tables)


def test_language_tags_become_tokens_and_a_language_that_is_not_known_is_refused(tmp_path, tokenizer):
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


@pytest.mark.parametrize("kind", ["whole words", "byte-bpe"])
@pytest.mark.parametrize("beams", [1, 4])
def test_enforced_brackets_become_trees_of_the_words_whatever_the_weights(kind, beams):
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


# -- Recurrent translation models and autoencoders -------------------------------------------------------------------

TINY = {"hidden_size": 48, "num_hidden_layers": 1, "num_decoder_layers": 1, "hidden_dropout": 0.0}
GREEDY = TranslationSettings(beams=1)


def small(folder, tokenizer, turned=False, **changes):
    own = {"preset": "seq2seq-small", "network": TINY, "warmup": 10, "schedule": "linear", "lr": 1e-2}
    return recipe(folder, tokenizer, turned, **{**own, **changes})


@pytest.fixture(scope="module")
def translator(tmp_path_factory, tokenizer):
    result = finetune(small(tmp_path_factory.mktemp("run"), tokenizer, epochs=10))
    assert result.mean["token_accuracy"] > 0.3
    return load_model(result.model)[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("turned", "network"),
    [
        (False, {"attention_score": "dot", "input_feeding": False, "recurrent": "gru"}),
        (True, {"attention_score": "bilinear", "input_feeding": True, "num_decoder_layers": 2}),
    ],
    ids=["copying, dot", "reversing, bilinear with two layers"],
)
def test_a_toy_language_is_learned_exactly(tmp_path, tokenizer, turned, network):
    config = small(tmp_path, tokenizer, turned, epochs=12, network=TINY | {"hidden_size": 64} | network)
    train = write(tmp_path, "train", sentences(3000, 1), turned)
    result = finetune(replace(config, train=train[0], train_target=train[1]))
    assert result.mean["token_accuracy"] > 0.995
    unseen = sentences(100, 3)
    found = TextTranslator(load_model(result.model)[0]).translate([" ".join(row) for row in unseen], GREEDY)
    wanted = [" ".join(row[::-1] if turned else row) for row in unseen]
    assert np.mean([one[0].text == text for one, text in zip(found, wanted, strict=True)]) > 0.97


def test_a_source_asks_for_a_language_as_its_model_knows_it(translator):
    own = TextTranslator(translator)
    assert own.source_of("w1 w2", None) == "w1 w2"
    with pytest.raises(InputError, match="without language tags"):
        own.source_of("w1 w2", "fr")
    own.task.languages = ("fr",)
    assert own.source_of("w1 w2", "fr") == "<to-fr> w1 w2"
    own.task.codes = ("fr",)
    assert own.source_of("w1 w2", "fr") == ">>fr<< w1 w2"


def test_the_sentence_vector_is_the_state_with_which_the_decoder_begins(translator):
    texts = ["w1 w2 w3", "w4", "w5 w6 w7 w8"]
    found = TextEncoder(translator, pooling="state").vectors(texts)
    examples = Translation().unlabeled(list(rows_of(texts)), translator.tokenizer, counts=TextCounts())
    batch = Batch.from_sequences(examples.input_ids)
    with torch.no_grad():
        expected = state_of(translator.encode(batch).hidden, batch, both_ends=True)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_an_empty_text_changes_nothing_for_the_others_and_long_ones_are_cut_and_counted(translator):
    texts = ["w1 w2 w3", "w4 w5"]
    for settings in (GREEDY, TranslationSettings(beams=3)):
        alone = [one[0] for one in TextTranslator(translator).translate(texts, settings)]
        beside = [one[0] for one in TextTranslator(translator).translate([texts[0], "", texts[1]], settings)]
        assert [beside[0].text, beside[2].text] == [one.text for one in alone]
        assert beside[2].score == pytest.approx(alone[1].score, abs=1e-5)
    limited = TextTranslator(translator, max_length=6)
    limited.translate([" ".join(WORDS), "w1"], GREEDY)
    assert limited.counts.cut_texts == 1


def test_alignments_are_word_by_word_and_rows_sum_to_one(translator):
    (found, empty) = alignments(translator, Translation(), [("w1 w2 w3", "w3 w2"), ("", "")])
    assert [word for word in found.source if word.startswith("w")] == ["w1", "w2", "w3"]
    assert found.target[:2] == ("w3", "w2") and found.weights.shape == (len(found.target), len(found.source))
    np.testing.assert_allclose(found.weights.sum(axis=1), 1.0, atol=1e-6)
    assert empty.weights.shape == (len(empty.target), len(empty.source))


def test_the_pieces_of_a_word_stand_together():
    tokenizer = Tokenizer.train_from_iterator(iter(["lower lowest newer wide"] * 4), kind="wordpiece", vocab_size=30)
    text = "lowest wide"
    ids = np.array(tokenizer(text).ids)
    found = words_of(text, tokenizer, ids)
    assert [word for word, _ in found] == ["[CLS]", "lowest", "wide", "[SEP]"]
    assert [place for _, places in found for place in places] == list(range(len(ids)))
    assert words_of(text, tokenizer, ids[1:])[0][0] == "lowest"


def test_scores_by_length_are_those_of_the_groups(translator):
    rows = [Row(" ".join(words), None, " ".join(words), place + 1, "x") for place, words in enumerate(sentences(60, 5))]
    found = by_length(translator, Translation(), rows, name="small", groups=3)
    assert sum(found.rows) == 60 and list(found.words) == sorted(found.words) and 2 <= len(found.rows) <= 3
    whole = Translation()
    whole.bind(translator)
    total = whole.evaluate(translator, whole.examples(rows, translator.tokenizer)).logits.double()
    lengths = np.array([len(row.text.split()) for row in rows])
    own = torch.from_numpy(groups_by_length(lengths, 3)[0])
    assert found.token_accuracy[0] == pytest.approx(float(total[own, 1].sum() / total[own, 2].sum()))
    with pytest.raises(InputError, match="too few to group"):
        by_length(translator, Translation(), rows[:5])
