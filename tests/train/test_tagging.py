"""Tagging runs as a user meets them, on transformers and on recurrent networks."""

import random
from itertools import product

import pytest

import maskwright as mw
from maskwright.core import storage
from maskwright.core.errors import InputError, RowErrors
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.finetuning.finetune import finetune
from train.runs import finetuning

PEOPLE, PLACES = ["Anna", "Bob", "Karl"], ["Rome", "New York", "Paris"]


def tagged(path, rows, seed):
    """Sentences of a person and a place, three columns; every fifth begins an entity with I-."""
    rng = random.Random(seed)
    blocks = []
    for number in range(rows):
        place = rng.choice(PLACES).split()
        words = [(rng.choice(PEOPLE), "I-PER" if number % 5 == 0 else "B-PER"), ("is", "O"), ("in", "O")]
        words += [(word, "I-LOC" if index else "B-LOC") for index, word in enumerate(place)]
        words += [(word, "O") for word in rng.choice(["now .", "and then here .", "."]).split()]
        blocks.append("\n".join(f"{word}\tX\t{tag}" for word, tag in words))
    path.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
    return path


def tagging(folder, **changes):
    if not (folder / "tok").exists():
        texts = ["Anna Bob Karl is in Rome New York Paris now and then here ."] * 3
        Tokenizer.train_from_iterator(iter(texts), kind="wordpiece", vocab_size=90).save(folder / "tok")
    own = {
        "task": "tagging",
        "train": tagged(folder / "train.conll", 48, 1),
        "dev": tagged(folder / "dev.conll", 16, 2),
    }
    own |= {"epochs": 8, "lr": 3e-3, "batch_size": 8, "max_length": 10}
    return finetuning(folder, **{**own, **changes})


def test_it_learns_entities_and_leaves_a_model_that_says_the_same(tmp_path, capsys):
    result = finetune(tagging(tmp_path))
    assert result.mean["entity_f1"] > 0.9
    told = capsys.readouterr().err
    assert "train tags invalid in BIO" in told
    assert "windows of at most 10 tokens" in told
    tagger = mw.TokenTagger.load(result.model)
    assert tagger.predict([["Anna", "is", "in", "New", "York"]]) == [["B-PER", "O", "O", "B-LOC", "I-LOC"]]
    assert [entity["text"] for entity in tagger.entities(["Bob is in  New York."])[0]] == ["Bob", "New York"]
    facts = storage.read_json(result.model / "maskwright.json")
    assert (facts["task"], facts["scheme"], facts["crf"]) == ("tagging", "BIO", False)
    page = result.report.read_text(encoding="utf-8")
    for part in (
        "Scores by type of entity",
        "Entities in the training rows",
        "each word&#x27;s most common tag",
        "LOC",
    ):
        assert part in page or part.replace("&#x27;", "'") in page, part


def test_part_of_speech_tags_are_scored_by_word(tmp_path):
    tags = {"the": "DET", "cat": "NOUN", "is": "VERB"}
    texts = [words for length in (2, 3) for words in product(tags, repeat=length)][:30]  # no text twice
    path = tmp_path / "pos.conll"
    path.write_text("\n".join("".join(f"{one}\t{tags[one]}\n" for one in words) for words in texts), "utf-8")
    Tokenizer.train_from_iterator(iter(["the cat is"] * 3), kind="wordpiece", vocab_size=40).save(tmp_path / "tok")
    result = finetune(tagging(tmp_path, train=path, dev=None, epochs=4, seeds=2))
    assert result.main_metric == "accuracy"
    assert set(result.mean) == {"loss", "accuracy", "macro_f1", "ece", "ece_equal_mass"}
    assert result.mean["accuracy"] > 0.9


def test_dev_types_that_training_does_not_know_leave_nothing(tmp_path):
    config = tagging(tmp_path)
    config.dev.write_text("Anna\tX\tB-ORG\nis\tX\tO\n", encoding="utf-8")
    with pytest.raises(RowErrors, match=r"dev\.conll:1.*B-ORG"):
        finetune(config)
    assert not (tmp_path / "tuned").exists()


# -- Taggers and classifiers on recurrent networks -------------------------------------------------------------------

SMALL = {"hidden_size": 32, "num_hidden_layers": 1, "hidden_dropout": 0.1}


def sentences(path, rows, seed):
    """Sentences in which every word that ends in -berg is a place, most of them seen once."""
    rng = random.Random(seed)
    lines: list[str] = []
    for _ in range(rows):
        for _ in range(rng.randint(2, 5)):
            is_place = rng.random() < 0.4
            stem = "".join(rng.choices("abcdefgh", k=rng.randint(2, 5)))
            lines.append(
                f"{stem}{'berg' if is_place else rng.choice(['ing', 'ly', 's'])}\t{'B-LOC' if is_place else 'O'}"
            )
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


def tagger(folder, kind, **changes):
    train, dev = sentences(folder / "train.conll", 150, 1), sentences(folder / "dev.conll", 50, 2)
    words = [line.split("\t")[0] for line in train.read_text().splitlines() if line]
    Tokenizer.train_from_iterator(words, kind=kind, vocab_size=200).save(folder / "tok")
    settings = {"task": "tagging", "train": train, "dev": dev, "output": folder / "run", "tokenizer": folder / "tok"}
    settings |= {"preset": "bilstm-small", "network": SMALL, "epochs": 6, "lr": 1e-2, "batch_size": 16}
    return FinetuneConfig(**{**settings, "precision": "fp32", **changes})


def test_characters_know_words_that_were_never_seen(tmp_path):
    result = finetune(tagger(tmp_path, "char", preset="bilstm-char-small", crf=True))
    assert result.mean["entity_f1"] > 0.9
    loaded = mw.TokenTagger.load(result.model)
    assert loaded.predict([["fedhagberg", "fedhaging"]]) == [["B-LOC", "O"]]


@pytest.mark.slow
def test_pieces_of_words_do_too_and_whole_words_do_not(tmp_path):
    (tmp_path / "p").mkdir()
    (tmp_path / "w").mkdir()
    pieces = finetune(tagger(tmp_path / "p", "wordpiece")).mean["entity_f1"]
    words = finetune(tagger(tmp_path / "w", "word")).mean["entity_f1"]
    assert pieces > 0.7 and pieces > words


def test_a_network_of_characters_wants_characters(tmp_path):
    with pytest.raises(InputError, match="--kind char"):
        finetune(tagger(tmp_path, "wordpiece", preset="bilstm-char-small"))
