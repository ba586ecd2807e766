"""The comparison: what each kind must show on a corpus where the answer is known."""

from __future__ import annotations

import pytest

from maskwright.core import registry
from maskwright.core.errors import ConfigError, InputError
from maskwright.text.tokenizers.compare import compare, measure
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.tokenizer_samples import CORPUS


def write_corpus(folder, documents: list[list[str]]):
    path = folder / "corpus.txt"
    path.write_text("\n\n".join("\n".join(document) for document in documents), encoding="utf-8")
    return path


def test_a_new_word_is_unknown_to_words_and_spelled_by_pieces(tmp_path):
    """The affixes of old/older/oldest are learned in training and serve smart/smarter/smartest, never seen whole."""
    seen = ["old older oldest", "low lower lowest", "fine finer finest", "smart", "rest smar t a b"]
    documents = [[sentence for _ in range(3) for sentence in seen] for _ in range(9)] + [["smarter smartest older"]]
    comparison = compare(write_corpus(tmp_path, documents), 300)
    assert (comparison.unit, comparison.held_out_texts, comparison.held_out_words) == ("document", 1, 3)
    by_kind = {measures.name: measures for measures in comparison.measures}
    assert list(by_kind) == list(registry.names("tokenizer")) and not comparison.left_out
    assert by_kind["word"].unk_rate == pytest.approx(2 / 3) == by_kind["word"].unk_words
    assert by_kind["word"].tokens_per_word == 1 and by_kind["word"].affixes_shared is None
    for kind in ("char", "bpe", "byte-bpe", "wordpiece", "wordpiece-score"):
        assert by_kind[kind].unk_rate == 0
        assert by_kind[kind].affix_pieces > 0
        assert 1 < by_kind[kind].tokens_per_word <= by_kind["char"].tokens_per_word
    assert by_kind["wordpiece"].examples == {"smart": ["smarter", "smartest"]}


def test_the_measures_of_a_worked_text():
    tokenizer = Tokenizer.train_from_iterator(["ab ab ab abc c"], "wordpiece", 13)
    assert set(tokenizer.tokens[5:]) == {"a", "b", "c", "##a", "##b", "##c", "ab", "abc"}
    words = {"ab": 2, "ba": 1, "cab": 1, "x": 1}
    found = measure(tokenizer, "mine", ["ab ba", "ab cab x"], words)
    # ab | b ##a | ab | c ##a ##b | [UNK]
    assert found.tokens_per_word == pytest.approx(8 / 5)
    assert (found.unk_rate, found.unk_words) == (pytest.approx(1 / 8), pytest.approx(1 / 5))
    assert found.vocab_used == pytest.approx(5 / 8)  # ab b c ##a ##b
    assert (found.affix_pieces, found.affixes_shared) == (4, pytest.approx(1 / 4))  # only ##a serves two words


def test_few_documents_are_split_by_sentences_and_training_never_sees_them(tmp_path):
    sentences = [f"word{'abcdefghijklmnopqrst'[number]}" for number in range(20)]
    comparison = compare(write_corpus(tmp_path, [sentences]), 100, ["word"])
    assert (comparison.unit, comparison.train_texts, comparison.held_out_texts) == ("sentence", 18, 2)
    assert comparison.measures[0].unk_words == 1


def test_ready_tokenizers_are_measured_on_the_same_text(tmp_path):
    path = write_corpus(tmp_path, [[sentence] for sentence in CORPUS * 3])
    ready = Tokenizer.train_from_iterator(CORPUS, "bpe", 200)
    comparison = compare(path, 200, ["char"], tokenizers=[ready])
    assert [measures.name for measures in comparison.measures] == ["char", "bpe"]


def test_what_cannot_be_compared_is_said(tmp_path):
    path = write_corpus(tmp_path, [[sentence] for sentence in CORPUS * 3])
    assert set(compare(path, 60).left_out) >= {"byte-bpe", "wordpiece"}
    with pytest.raises(ConfigError, match="too small"):
        compare(path, 60, ["byte-bpe"])
    with pytest.raises(ConfigError, match="Unknown tokenizer"):
        compare(path, 60, ["bytes"])
    with pytest.raises(InputError, match="at least 10 sentences"):
        compare(write_corpus(tmp_path, [["one"]]), 60)
    with pytest.raises(InputError, match="standard input"):
        compare("-", 60)
