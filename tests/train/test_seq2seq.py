"""Recurrent translation models and autoencoders: toy languages, bad input, alignments, sentence embeddings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from maskwright.core.errors import InputError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.inference.embed import TextEncoder
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.inspect.lengths import by_length, groups_by_length
from maskwright.models.model import Model
from maskwright.models.pooling import state_of
from maskwright.tasks.examples import rows_of
from maskwright.tasks.translation import Translation, alignments, words_of
from maskwright.text.readers.tables import Row
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from train.test_translation import WORDS, recipe, sentences, write

SMALL = {"hidden_size": 48, "num_hidden_layers": 1, "num_decoder_layers": 1, "hidden_dropout": 0.0}
GREEDY = TranslationSettings(beams=1)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tok") / "tok"
    Tokenizer.train_from_iterator(iter([" ".join(WORDS)] * 3), kind="word", vocab_size=40).save(folder)
    return folder


def small(folder: Path, tokenizer: Path, turned: bool = False, **changes: object) -> FinetuneConfig:
    """A recurrent run on a toy language."""
    own = {"preset": "seq2seq-small", "network": SMALL, "warmup": 10, "schedule": "linear", "lr": 1e-2}
    return recipe(folder, tokenizer, turned, **{**own, **changes})


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory, tokenizer: Path) -> Model:
    """One that has seen a little."""
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
def test_a_toy_language_is_learned_exactly(tmp_path: Path, tokenizer: Path, turned: bool, network: dict[str, object]):
    config = small(tmp_path, tokenizer, turned, epochs=12, network=SMALL | {"hidden_size": 64} | network)
    train = write(tmp_path, "train", sentences(3000, 1), turned)
    result = finetune(replace(config, train=train[0], train_target=train[1]))
    assert result.mean["token_accuracy"] > 0.995
    unseen = sentences(100, 3)
    found = TextTranslator(load_model(result.model)[0]).translate([" ".join(row) for row in unseen], GREEDY)
    wanted = [" ".join(row[::-1] if turned else row) for row in unseen]
    assert np.mean([one[0].text == text for one, text in zip(found, wanted, strict=True)]) > 0.97


def test_a_source_asks_for_a_language_as_its_model_knows_it(translator: Model):
    own = TextTranslator(translator)
    assert own.source_of("w1 w2", None) == "w1 w2"
    with pytest.raises(InputError, match="without language tags"):
        own.source_of("w1 w2", "fr")
    own.task.languages = ("fr",)
    assert own.source_of("w1 w2", "fr") == "<to-fr> w1 w2"
    own.task.codes = ("fr",)
    assert own.source_of("w1 w2", "fr") == ">>fr<< w1 w2"


@pytest.mark.slow
def test_an_autoencoder_rebuilds_texts_from_one_vector_that_tells_them_apart(tmp_path: Path, tokenizer: Path):
    config = small(tmp_path, tokenizer, preset="autoencoder-small", epochs=15, network=SMALL | {"hidden_size": 96})
    train = write(tmp_path, "train", sentences(3000, 1, 1, 4), False)
    model = load_model(finetune(replace(config, train=train[0], train_target=train[1])).model)[0]
    unseen = [" ".join(row) for row in sentences(100, 3, 1, 4)]
    found = TextTranslator(model).translate(unseen, GREEDY)
    assert np.mean([one[0].text == text for one, text in zip(found, unseen, strict=True)]) > 0.8
    vectors = TextEncoder(model, pooling="state").vectors(["w1 w2 w3", "w1 w2 w4", "w9 w8"])
    one, two, other = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert one @ two > one @ other


def test_the_sentence_vector_is_the_state_with_which_the_decoder_begins(translator: Model):
    texts = ["w1 w2 w3", "w4", "w5 w6 w7 w8"]
    found = TextEncoder(translator, pooling="state").vectors(texts)
    examples = Translation().unlabeled(list(rows_of(texts)), translator.tokenizer, counts=TextCounts())
    batch = Batch.from_sequences(examples.input_ids)
    with torch.no_grad():
        expected = state_of(translator.encode(batch).hidden, batch, both_ends=True)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-5)


def test_an_empty_text_changes_nothing_for_the_others_and_long_ones_are_cut_and_counted(translator: Model):
    texts = ["w1 w2 w3", "w4 w5"]
    for settings in (GREEDY, TranslationSettings(beams=3)):
        alone = [one[0] for one in TextTranslator(translator).translate(texts, settings)]
        beside = [one[0] for one in TextTranslator(translator).translate([texts[0], "", texts[1]], settings)]
        assert [beside[0].text, beside[2].text] == [one.text for one in alone]
        assert beside[2].score == pytest.approx(alone[1].score, abs=1e-5)
    limited = TextTranslator(translator, max_length=6)
    limited.translate([" ".join(WORDS), "w1"], GREEDY)
    assert limited.counts.cut_texts == 1


def test_alignments_are_word_by_word_and_rows_sum_to_one(translator: Model):
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


def test_scores_by_length_are_those_of_the_groups(translator: Model):
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
