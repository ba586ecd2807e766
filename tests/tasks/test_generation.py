"""Text-to-text: examples, targets, special tokens; BLEU, chrF and ROUGE are those of their packages."""

import json
import math
import random
import sys

import pytest
import torch
import torch.nn.functional as F

import maskwright as mw
from maskwright.core.errors import InputError, MissingExtraError, RowErrors
from maskwright.hub.folders import load_model
from maskwright.lessons.parts import explain_bleu
from maskwright.models.build import build, with_tokenizer
from maskwright.models.presets import preset
from maskwright.tasks.base import DELIM, EXTRACT, START
from maskwright.tasks.classification import Classification
from maskwright.tasks.generation import Generation, rouge_scores
from maskwright.tasks.translation import Translation, corpus_scores
from maskwright.text.readers.tables import Row
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.text.tokenizers.tokenizer import Tokenizer

SMALL = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96}
WORDS = {"one": "un", "two": "deux", "three": "trois", "red": "rouge", "cat": "chat", "sees": "voit"}


def tokenizer():
    texts = [" ".join(WORDS), " ".join(WORDS.values())] * 3
    return Tokenizer.train_from_iterator(texts, kind="word", vocab_size=40)


def gpt2_tokenizer(folder):
    own = Tokenizer.train_from_iterator(["one two three", "red cat sees"] * 3, kind="byte-bpe", vocab_size=275)
    own.save(folder / "own")
    vocab = json.loads((folder / "own" / "vocab.json").read_text())
    words = [word for word in vocab if not word.startswith("[")]
    (folder / "gpt2").mkdir()
    table = {word: number for number, word in enumerate([*words, "<|endoftext|>"])}
    (folder / "gpt2" / "vocab.json").write_text(json.dumps(table))
    (folder / "gpt2" / "merges.txt").write_text((folder / "own" / "merges.txt").read_text())
    return Tokenizer.load(folder / "gpt2")


def test_a_row_is_source_delimiter_target_end_and_only_the_target_is_learned():
    tok = tokenizer().with_tokens(["<to-fr>"])
    examples = Generation("<to-fr>").examples([Row("one cat", None, "un chat", 1, "f")], tok, 20)
    ids = examples.input_ids[0].tolist()
    assert [tok.id_to_token(id) for id in ids] == ["[CLS]", "one", "cat", "<to-fr>", "un", "chat", "[SEP]"]
    batch = examples.batch([0])
    assert batch.labels["clm"].tolist() == ids[4:] and batch.labels["clm_positions"].tolist() == [3, 4, 5]
    model = build(preset("gpt2", vocab_size=tok.vocab_size, **SMALL), "clm").eval()
    logits = model.mlm_logits(model.encode(batch).hidden)[3:6]
    outcome = Generation("<to-fr>").outcome(model, batch)
    torch.testing.assert_close(
        outcome.losses["generation"], F.cross_entropy(logits, batch.labels["clm"], reduction="sum")
    )


def test_a_long_source_gives_way_and_a_target_that_is_cut_does_not_end_there():
    tok = tokenizer()
    task = Generation()
    long, short = Row("one " * 50, None, "un", 1, "f"), Row("one", None, "un " * 50, 2, "f")
    examples = task.examples([long, short], tok, 12)
    first, second = (ids.tolist() for ids in examples.input_ids)
    assert len(first) == 12 and tok.decode(first[-2:]) == "un" and first[-1] == tok.eos_id
    assert len(second) <= 12 and second[-1] == tok.token_to_id("un")
    assert examples.num_truncated == 2 and task.notes(examples, "train", 12) == [
        "2 of 2 train rows are truncated to 12 tokens."
    ]
    counts = TextCounts()
    assert len(task.unlabeled([long], tok, 12, counts=counts).input_ids[0]) <= 12 and counts.cut_tokens > 30


def test_new_rows_of_a_vocabulary_are_near_the_mean_and_change_nothing_else():
    model = build(preset("gpt2", vocab_size=40, **SMALL), "clm")
    tok = tokenizer()
    model.tokenizer = tok
    more = tok.with_tokens([f"<{n}>" for n in range(40)])
    grown = with_tokenizer(model, more)
    assert grown.config.vocab_size == more.vocab_size == len(grown.word_embeddings)
    assert torch.equal(grown.word_embeddings[:40], model.word_embeddings)
    new = grown.word_embeddings[40:]
    assert float((new - model.word_embeddings.mean(0)).abs().max()) < 0.02
    assert not torch.equal(new[0], new[1])
    assert with_tokenizer(grown, more) is grown


def test_a_tokenizer_that_frames_nothing_gets_start_delimiter_and_extract_for_a_task(tmp_path):
    tok = gpt2_tokenizer(tmp_path)
    assert tok.opening_ids == [] and tok.bos_id == tok.eos_id == tok.token_to_id("<|endoftext|>")
    model = build(preset("gpt2", vocab_size=tok.vocab_size, **SMALL), "classification", labels=["a", "b"]).eval()
    model.tokenizer = tok
    task = Classification(["a", "b"])
    ready = task.extend_vocabulary(model)
    assert ready.tokenizer("one", "two").tokens == [START, *tok("one").tokens, DELIM, *tok("two").tokens, EXTRACT]
    batch = ready.tokenizer.batch(["one two"])
    judged = ready.first(ready.encode(batch).hidden, batch)
    assert torch.equal(judged, ready.encode(batch).hidden[-1:])
    assert task.extend_vocabulary(ready) is ready
    ready.save(tmp_path / "m")
    again, report = load_model(tmp_path / "m")
    assert not report.new and again.tokenizer("one").tokens == ready.tokenizer("one").tokens


def test_classifiers_regressions_and_choices_run_on_a_decoder(tmp_path):
    tok = gpt2_tokenizer(tmp_path)
    model = build(preset("gpt2", vocab_size=tok.vocab_size, **SMALL), "clm", seed=2)
    model.tokenizer = tok
    model.save(tmp_path / "lm")
    texts = [("one two", "red"), ("cat sees", "two"), ("red cat", "one"), ("two two", "cat")] * 6
    labels = ["yes", "no", "yes", "no"] * 6
    entailment = mw.TextClassifier(str(tmp_path / "lm"), epochs=8, lr=3e-3, batch_size=8).fit(texts, labels)
    assert entailment.score(texts, labels) == 1.0
    entailment.save(tmp_path / "nli")
    assert mw.TextClassifier.load(tmp_path / "nli").predict(texts[:2]).tolist() == ["yes", "no"]
    similarity = mw.TextRegressor(str(tmp_path / "lm"), epochs=1, batch_size=8).fit(texts, [0.0, 1.0, 0.2, 0.7] * 6)
    assert similarity.predict(texts[:2]).shape == (2,)
    rows = [("one", ["two", "red cat"])] * 8
    chooser = mw.MultipleChoice(str(tmp_path / "lm"), epochs=1, batch_size=4)
    assert len(chooser.fit(rows, [0] * 8).predict(rows)) == 8


def test_both_orders_of_a_pair_are_read_and_the_answer_does_not_depend_on_which_comes_first(tmp_path):
    from maskwright.inference.predict import Predictor
    from maskwright.tasks.base import task_from_json
    from maskwright.tasks.regression import Regression
    from maskwright.tasks.windows import LongTexts

    tok = tokenizer()
    model = build(preset("gpt2", vocab_size=tok.vocab_size, initializer_range=0.3, **SMALL), "regression").eval()
    model.tokenizer = tok
    both = Regression(LongTexts.of(both_orders=True))
    plain = Predictor(model, Regression())
    there, back = plain.logits([("one cat", "red"), ("red", "one cat")])
    found = Predictor(model, both).logits([("one cat", "red"), ("red", "one cat"), "one"])
    torch.testing.assert_close(found[0], (there + back) / 2)
    torch.testing.assert_close(found[0], found[1])
    torch.testing.assert_close(found[2], plain.logits(["one"])[0])
    assert task_from_json(both.to_json()).long.both_orders
    assert "loudest" not in Predictor(model, both).predict([("one cat", "red")])[0]
    examples = both.examples([Row("one", "cat", "0.5", 1, "f"), Row("two", "red", "1", 2, "f")], tok, 12)
    assert both.outcome(model, examples.batch([0, 1])).counts == {"regression": 2}


GOOD, EMPTY = Row("one cat", None, "un chat", 1, "a.tsv"), Row("red cat", None, "", 1_204, "a.tsv")


@pytest.mark.parametrize("task", [Translation(), Generation()])
def test_rows_without_a_target_are_refused_or_left_out(task):
    task.start_id = 1
    with pytest.raises(RowErrors, match="1204.*missing"):
        task.examples([GOOD, EMPTY], tokenizer(), file="a.tsv")
    found = task.examples([GOOD, EMPTY], tokenizer(), skip_bad_rows=True)
    assert (list(found.rows), found.num_skipped) == ([GOOD], 1)
    with pytest.raises(InputError, match="no usable row"):
        task.examples([EMPTY], tokenizer(), skip_bad_rows=True)
    with pytest.raises(InputError, match="no rows"):
        type(task).from_rows([])


def test_scores_are_those_of_all_tokens_and_not_of_rows():
    logits = torch.tensor([[2.0, 1.0, 1.0], [3000.0, 0.0, 3.0]])  # loss, correct predictions, tokens
    task = Translation()
    found = task.score(logits, None)  # type: ignore[arg-type]
    assert found.metrics[task.main_metric] == 1 / 4 and found.loss == 3002 / 4
    first, second = task.answers(logits, None)  # type: ignore[arg-type]
    assert first["score"] == 1 and first["perplexity"] == pytest.approx(math.exp(2))
    assert second["score"] == 0 and math.isfinite(second["perplexity"])
    assert task.is_right(None, 0, first) and not task.is_right(None, 1, second)  # type: ignore[arg-type]


# -- BLEU, chrF and ROUGE are those of their packages, with the signature --------------------------------------------


def test_bleu_is_the_number_computed_by_hand():
    """5 of 6 words, 3 of 5 pairs, 2 of 4 triples and 1 of 3 rows of four are right, and no text is too short."""
    pytest.importorskip("sacrebleu")
    scores, signatures = corpus_scores(["the cat sat on the mat"], ["the cat sat on a mat"])
    assert scores["bleu"] == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25, abs=0.01)
    assert 0 < scores["chrf"] < 100
    assert "tok:13a" in signatures["bleu"] and "version:" in signatures["bleu"] and "nc:6" in signatures["chrf"]


@pytest.mark.parametrize(
    ("texts", "settings"),
    [
        (["guten Morgen", "ja"], "eff:yes|tok:13a"),
        (["guten Morgen, liebe Leute", "ja"], "eff:no|tok:13a"),
        (["我喜欢猫。", "他不喜欢。"], "eff:no|tok:zh"),
        (["猫が好きです"], "eff:no|tok:char"),
        (["ภาษาไทย"], "eff:no|tok:char"),
        (["猫が"], "eff:yes|tok:char"),
        (["나는 고양이를 좋아한다 정말로"], "eff:no|tok:13a"),
    ],
)
@pytest.mark.compatibility(
    "sacrebleu 2.6.0",
    theirs="BLEU of perfect texts under four tokens is 0, and a sentence without spaces is one token",
    ours="Effective order if no reference has four tokens, characters without spaces; said, and in the signature",
)
def test_perfect_texts_have_bleu_100_and_the_settings_are_said(texts, settings, capsys):
    pytest.importorskip("sacrebleu")
    scores, signatures = corpus_scores(texts, texts)
    assert scores["bleu"] == pytest.approx(100) and scores["chrf"] == pytest.approx(100)
    assert settings in signatures["bleu"]
    err = capsys.readouterr().err
    assert ("No reference has 4 words" in err) == ("eff:yes" in settings)
    assert ("no spaces between words" in err) == ("13a" not in settings)


def test_short_translations_of_long_references_still_score_0(capsys):
    pytest.importorskip("sacrebleu")
    scores, signatures = corpus_scores(["the cat"], ["the cat sat on the mat"])
    assert scores["bleu"] == 0 and "eff:no" in signatures["bleu"] and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("module", "scores"), [("sacrebleu.metrics", corpus_scores), ("rouge_score.rouge_scorer", rouge_scores)]
)
def test_a_missing_scorer_is_named_with_what_brings_it(monkeypatch, module, scores):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'maskwright\[translation\]'"):
        scores(["a"], ["b"])


# -- ROUGE is that of rouge-score, with its signature ----------------------------------------------------------------


def test_rouge_is_the_number_computed_by_hand():
    """Of three written words two are right, and two of four are found; the pair of them too, of two and of three."""
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    scores, signatures = rouge_scores(["the cat sat", "a dog"], ["the cat ran away", "a dog"])
    assert scores["rouge1"] == pytest.approx((2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4) + 1) / 2)
    assert scores["rouge2"] == pytest.approx((2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3) + 1) / 2)
    assert scores["rougeL"] == pytest.approx(scores["rouge1"])
    assert "F1" in signatures["rouge"] and "any script" in signatures["rouge"]


PERFECT = [
    "die Straße führt über die Brücke",
    "naïve café",
    "Это кошка",
    "猫が 好き",
    "日本語の文章です",
    "مرحبا بالعالم",
    "नमस्ते दुनिया",
    "ภาษาไทย",
    "한국어 문장",
]


@pytest.mark.parametrize("text", PERFECT)
@pytest.mark.compatibility(
    "rouge_score 0.1.2",
    theirs="Words are runs of a to z and 0 to 9: a perfect text in another script scores 0, one with umlauts fragments",
    ours="Words of any script, characters in scripts without spaces; ASCII texts score the same",
)
def test_a_perfect_text_of_any_script_has_rouge_1(text):
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    assert rouge_scores([text], [text])[0] == {"rouge1": 1.0, "rouge2": 1.0, "rougeL": 1.0}


@pytest.mark.parametrize(
    ("written", "wanted", "unigrams"),
    [
        ("Mädchen Männer", "Mönche Märchen", 0.0),  # a to z alone: the fragment m is in all four
        ("Cafe\u0301 NOIR", "café noir", 1.0),
        ("ﬁne Ｈｅｌｌｏ", "fine hello", 1.0),
        ("猫が好き", "犬が好き", 0.75),
        ("snake_case", "snake case", 1.0),
    ],
)
def test_words_are_compared_whole(written, wanted, unigrams):
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    assert rouge_scores([written], [wanted])[0]["rouge1"] == pytest.approx(unigrams)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("O'Neill's 3.5 % gain, in the U.S.", "o neill gained 3.5% in the US"),
        ("A_b-C (d) e/f", "a b c d e f"),
        ("tabs\tand\x0blines\nhere", "tabs and lines here, too"),
    ],
)
def test_ascii_scores_are_those_of_the_package(written, wanted):
    scorer = pytest.importorskip("rouge_score.rouge_scorer", reason="rouge-score is not installed")
    theirs = scorer.RougeScorer(["rouge1", "rouge2", "rougeL"]).score(wanted, written)
    assert rouge_scores([written], [wanted])[0] == {name: one.fmeasure for name, one in theirs.items()}


def test_references_without_words_or_pairs_are_counted(capsys):
    pytest.importorskip("rouge_score", reason="rouge-score is not installed (extra translation)")
    assert rouge_scores(["yes", "!", "a dog"], ["yes", "!", "a dog"])[0]["rouge2"] == pytest.approx(1 / 3)
    err = capsys.readouterr().err
    assert "1 of 3 references without a letter" in err and "1 of 3 references of one word" in err


# -- BLEU that can be followed by hand is the number of sacrebleu ----------------------------------------------------


def test_a_text_by_hand():
    found = explain_bleu(["the cat sat on the mat"], ["the cat sat on a mat"])
    assert (found.matches, found.rows) == ((5, 3, 2, 1), (6, 5, 4, 3))
    assert found.penalty == 1.0
    assert found.score == pytest.approx(100 * (5 / 6 * 3 / 5 * 2 / 4 * 1 / 3) ** 0.25)


@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_number_of_sacrebleu(seed):
    pytest.importorskip("sacrebleu")
    rng = random.Random(seed)
    wanted = [" ".join(rng.choices("abcd", k=rng.randint(5, 12))) for _ in range(20)]
    written = [" ".join(word for word in line.split() if rng.random() < 0.9) + " a" for line in wanted]
    assert explain_bleu(written, wanted).score == pytest.approx(corpus_scores(written, wanted)[0]["bleu"], abs=1e-9)


@pytest.mark.parametrize(("written", "wanted"), [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_texts_without_their_references_are_refused(written, wanted):
    with pytest.raises(InputError, match="a reference for each text"):
        explain_bleu(written, wanted)
