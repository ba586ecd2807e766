"""Sentence embeddings as a task: rows, separate texts, cosine similarities and their metrics."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import ConfigError, InputError, ModelFolderError, RowErrors
from maskwright.inference.embed import TextEncoder
from maskwright.inference.sparse import sparse_encoder_of
from maskwright.models.model import SentenceSettings
from maskwright.tasks import windows as long_examples
from maskwright.tasks.base import task_from_json, task_of_model
from maskwright.tasks.similarity import Similarity, kind_of, read_similar
from maskwright.tasks.windows import LongTexts
from tasks.standins import row

PAIRS = [row(TEXTS[n], str(n), TEXTS[n + 1], line=n + 2) for n in range(4)]


def scored(*labels):
    return [row("ab", label, "cd", line=line) for line, label in enumerate(labels, start=2)]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (("0.5", "3", "5"), "scores"),
        (("2", "3"), "scores"),
        (("1", "0"), "pairs"),
        (("entailment", "contradiction", "neutral"), "pairs"),
        (("True", "false"), "pairs"),
        ((None, None), "pairs"),
    ],
)
def test_labels_tell_what_pairs_are(labels, kind):
    assert kind_of(scored(*labels)) == kind
    assert kind_of([row("a"), row("b", "3")]) == "texts"


def test_rows_without_a_score_among_scored_ones_are_bad(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\tscore\na\tb\t2.5\nc\td\t\ne\tf\tx\ng\th\tinf\ni\tj\t1\n", encoding="utf-8")
    with pytest.raises(RowErrors) as caught:
        read_similar(path)
    assert [(error.line, error.column) for error in caught.value.rows] == [(3, "score"), (4, "score"), (5, "score")]
    table = read_similar(path, skip_bad_rows=True)
    assert [item.line for item in table.rows] == [2, 6]
    assert table.num_skipped == 3


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        (scored("3", "3"), (), "same score for all"),
        (scored("0", "0"), (), "no positive pair"),
        (scored("3"), (), "needs at least two"),
        (scored("1.5", "3"), [row("a"), row("b")], "single texts"),
    ],
)
def test_rows_that_teach_or_judge_nothing_are_refused(train, dev, message):
    with pytest.raises(InputError, match=message):
        Similarity.from_rows(train, dev)


def test_the_metric_follows_the_dev_rows():
    assert Similarity.from_rows([row("a"), row("b")], scored("1.5", "3")).main_metric == "spearman"
    assert Similarity.from_rows(scored(None, None), scored(None, None)).main_metric == "accuracy"
    assert Similarity.from_rows(scored(None, None), scored("1", "0")).main_metric == "spearman"
    assert Similarity.from_rows(scored("1", "5")).scale == (1.0, 5.0)


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_each_text_is_encoded_as_if_alone_and_pooled_as_the_model_declares(pooling):
    model, task = tiny(), Similarity()
    model.sentence = SentenceSettings(pooling)
    examples = task.examples(PAIRS, tokenizer())
    vectors = task.logits(model, examples, batch_tokens=30)
    assert vectors.shape == (4, 2, 32)
    for place, pair in enumerate(PAIRS):
        for side, text in enumerate((pair.text, pair.text_pair)):
            ids = torch.tensor([tokenizer()(text).ids])
            hidden = model(input_ids=ids).last_hidden_state[0]
            pooled = {"mean": hidden.mean(0), "cls": hidden[0], "max": hidden.amax(0)}[pooling]
            assert torch.allclose(vectors[place, side], F.normalize(pooled, dim=-1), atol=1e-5)


def test_scores_of_two_pairs_by_hand():
    task = Similarity(scale=(0.0, 4.0))
    examples = task.examples([row("a", "0", "b"), row("c", "3", "d")], tokenizer())
    logits = torch.tensor([[[1.0, 0.0], [0.8, 0.6]], [[1.0, 0.0], [0.6, 0.8]]])  # cosine similarities 0.8 and 0.6
    found = task.score(logits, examples)
    assert found.metrics == {"spearman": pytest.approx(-1), "pearson": pytest.approx(-1)}
    assert found.loss == pytest.approx((0.8**2 + (0.6 - 0.75) ** 2) / 2)
    assert task.losses(logits, examples).tolist() == pytest.approx([0.64, 0.0225])


def test_accuracy_is_the_share_of_texts_that_find_their_partner():
    task = Similarity("pairs")
    examples = task.examples([row("a", None, text) for text in ("the", "cat", "mat")], tokenizer())
    logits = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.8, 0.6]]])
    assert task.score(logits, examples).metrics == {"accuracy": pytest.approx(2 / 3)}


def test_a_twin_of_the_partner_is_as_good():
    task = Similarity("pairs")
    examples = task.examples([row("a", None, text) for text in ("the", "cat", "the")], tokenizer())
    assert examples.duplicate_groups.tolist() == [0, 1, 0]
    assert examples.batch([2, 1]).labels["twins"].tolist() == [0, 1]
    logits = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]]])
    found = task.score(logits, examples)
    assert found.metrics == {"accuracy": 1.0} and found.loss < 1e-6


def test_a_single_text_is_drawn_twice_in_training_and_once_otherwise():
    model = tiny()
    task = Similarity("texts")
    batch = task.examples([row(text) for text in TEXTS[:3]], tokenizer()).batch(range(3))
    first, second = task.vectors(model.eval(), batch).unbind(1)
    assert torch.equal(first, second)
    torch.manual_seed(0)
    first, second = task.vectors(model.train(), batch).unbind(1)
    assert not torch.allclose(first, second, atol=1e-3)
    outcome = task.outcome(model, batch)
    assert outcome.counts == {"similarity": 3}
    outcome.losses["similarity"].backward()
    model.eval()
    assert model.encoder.embeddings.word.weight.grad.any()


@pytest.mark.parametrize("epoch", [0.5, 3.0])
def test_the_loss_of_sparse_embeddings_by_hand(epoch):
    rows = [row("a", "1", "cat"), row("a", "1", "dog"), row("the", "0", "mat"), row("the", "1", "rain")]
    model, weights = tiny("mlm"), (0.5, 0.25)
    task = Similarity.from_rows(rows, encoder="sparse", sparsity=weights)
    task.epoch = epoch
    batch = task.examples(rows, tokenizer()).batch(range(4))
    texts = [row.text for row in rows] + [str(row.text_pair) for row in rows]
    first, second = torch.tensor(sparse_encoder_of(model, model).vectors(texts).toarray()).chunk(2)
    logits = first @ second.T
    logits[0, 1] = logits[1, 0] = -torch.inf  # both are answers of "a"
    expected = F.cross_entropy(logits[[0, 1, 3]], torch.tensor([0, 1, 3]), reduction="sum")
    cost = sum(weight * side.mean(0).square().sum() for weight, side in zip(weights, (first, second), strict=True))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda one: kept.append(one.numel()) or one, lambda one: one):
        loss = task.outcome(model, batch).losses["similarity"]
    assert loss.item() == pytest.approx(float(expected + 3 * min(epoch, 1) ** 2 * cost), rel=1e-4)
    assert max(kept) <= max(len(texts), 32) * model.config.vocab_size  # no logits of every token
    loss.backward()
    assert float(model.word_embeddings.grad.abs().sum()) > 0
    assert task_from_json(json.loads(json.dumps(task.to_json()))).sparsity == weights


def test_pairs_and_single_texts_do_not_mix():
    with pytest.raises(InputError, match="Some rows are pairs"):
        Similarity().examples([row("a", "2.5", "b"), row("c", "3")], tokenizer())


def test_a_task_survives_json_and_bad_facts_are_refused():
    task = Similarity("pairs", "accuracy", (0.0, 5.0))
    assert task_from_json(task.to_json()).to_json() == task.to_json()
    for facts in ({"trained_on": "x"}, {"main_metric": "bleu"}, {"scale": [1]}, {"scale": "a"}):
        with pytest.raises(ModelFolderError):
            task_from_json({"task": "similarity", **facts})


def test_a_folder_of_sentence_vectors_is_scored_without_training():
    model = tiny()
    with pytest.raises(InputError, match="no task head"):
        task_of_model(model)
    model.sentence = SentenceSettings()
    assert task_of_model(model).name == "similarity"


LONG = " ".join(TEXTS)
LONG_PAIRS = [
    row("the cat", "1", LONG, line=2),
    row(LONG[:90], "5", "rain fell", line=3),
    row("a", "2", "dogs", line=4),
    row(LONG, "3", LONG[40:130], line=5),
]


def long_task(kind="scores", **options):
    return Similarity(kind, scale=(1, 5), long=LongTexts(stride=2, **options))


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_vectors_of_long_texts_are_those_that_embed_gives_in_training_and_in_answers(pooling):
    model, task = tiny(), long_task()
    model.sentence = SentenceSettings(pooling, normalize=True)
    examples = task.examples(LONG_PAIRS, tokenizer(), 12)
    assert examples.has_windows and len(examples) == 4
    encoder = TextEncoder(model, pooling=pooling, normalize=True, max_length=12, long=task.long)
    expected = torch.stack([torch.from_numpy(encoder.vectors([one.text, one.text_pair])) for one in LONG_PAIRS])
    assert torch.allclose(task.logits(model, examples), expected, atol=1e-5)
    assert torch.allclose(task.logits(model, examples, batch_tokens=13), expected, atol=1e-5)
    chosen = [3, 0, 2]
    with torch.no_grad():
        assert torch.allclose(task.vectors(model, examples.batch(chosen)), expected[chosen], atol=1e-5)


def test_scored_rows_are_trained_in_portions_that_add_up_and_rows_set_against_each_other_are_not(monkeypatch):
    monkeypatch.setattr(long_examples, "TRAIN_TOKENS", 100)
    task, model = long_task(), tiny().eval()
    examples = task.examples(LONG_PAIRS, tokenizer(), 12)
    portions = examples.portions([3, 1, 0, 2])
    assert len(portions) > 1 and sorted(number for part in portions for number in part) == [0, 1, 2, 3]
    whole = task.outcome(model, examples.batch([3, 1, 0, 2])).losses["similarity"]
    parts = sum(task.outcome(model, examples.batch(part)).losses["similarity"] for part in portions)
    assert torch.isclose(whole, parts, rtol=1e-4)
    belonging = long_task("pairs").examples([row(one.text, None, one.text_pair) for one in LONG_PAIRS], tokenizer(), 12)
    assert len(belonging.portions([3, 1, 0, 2])) == 1


def test_scores_outside_a_range_are_bad_rows_and_the_range_is_the_scale(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("sentence1\tsentence2\tscore\na\tb\t2.5\nc\td\t5.5\ne\tf\t1\n", encoding="utf-8")
    with pytest.raises(RowErrors) as caught:
        Similarity.read(path, score_range=(0, 5))
    assert [(bad.line, bad.column) for bad in caught.value.rows] == [(3, "score")]
    assert Similarity.read(path, score_range=(0, 5), skip_bad_rows=True).num_skipped == 1
    task = Similarity.from_rows(scored("1", "3"), score_range=(0, 5))
    assert task.scale == (0, 5)
    with pytest.raises(RowErrors, match="6 is not between 0 and 5"):
        task.examples(scored("6", "2"), tokenizer())
    with pytest.raises(InputError, match="needs scores"):
        Similarity.from_rows(scored("1", "0"), score_range=(0, 5))


@pytest.mark.parametrize("kind", ["scores", "pairs"])
def test_beginnings_of_an_embedding_are_trained_and_scored_as_embeddings(kind):
    rows = [replace(one, label=str(n if kind == "scores" else 1)) for n, one in enumerate(PAIRS)]
    model, sizes = tiny(), (8, 16)
    whole, task = (Similarity.from_rows(rows, rows, matryoshka=chosen) for chosen in ((), sizes))
    examples = task.examples(rows, tokenizer())
    batch = examples.batch(list(range(len(rows))))
    losses = [whole.outcome(model, batch).losses["similarity"]]
    for size in sizes:
        short = Similarity.from_rows(rows, rows)
        short.vectors = lambda model, batch, size=size: F.normalize(whole.vectors(model, batch)[..., :size], dim=-1)
        losses.append(short.outcome(model, batch).losses["similarity"])
    assert torch.allclose(task.outcome(model, batch).losses["similarity"], torch.stack(losses).mean())
    logits = task.logits(model, examples)
    found = task.score(logits, examples).metrics
    metric = "spearman" if kind == "scores" else "accuracy"
    assert found[metric] == whole.score(logits, examples).metrics[metric]
    for size in sizes:
        cut = F.normalize(logits[..., :size], dim=-1)
        assert found[f"{metric}_{size}"] == whole.score(cut, examples).metrics[metric]
    assert task_from_json(json.loads(json.dumps(task.to_json()))).matryoshka == sizes
    with pytest.raises(ConfigError, match="only 32 dimensions"):
        Similarity.from_rows(rows, matryoshka=(32,)).bind(model)
