"""Question answering as a task: training, answers with offsets, no-answer prediction by a threshold chosen on dev."""

from __future__ import annotations

import json
import math

import pytest
import torch

from maskwright.core.errors import InputError, ModelFolderError, RowErrors
from maskwright.inference.answer import Answerer
from maskwright.inference.predict import Predictor
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.model import Model
from maskwright.tasks.examples import rows_of
from maskwright.tasks.qa.task import QuestionAnswering
from maskwright.text.readers.squad import Question
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.train.finetuning.finetune import fit
from tasks.questions import ask, tokenizer

CONTEXT = "The old man told an older story. She walked along the lowest road, and the oldest of them was the finest."


def model(seed: int = 0, **changes: object) -> Model:
    sizes = {"vocab_size": tokenizer().vocab_size, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = ModelConfig(**{**sizes, "intermediate_size": 64, "max_position_embeddings": 128, **changes})
    made = build(config, "qa", seed=seed)
    made.tokenizer = tokenizer()
    return made.eval()


def rows() -> list[Question]:
    return [
        ask(CONTEXT, "old man", question="Who told it?", name="a"),
        ask(CONTEXT, "lowest road", question="Where did she walk?", name="b"),
        ask("The finest story.", "story", question="What is the finest?", name="c"),
        ask("She told the story.", question="Who walked?", name="d"),
    ]


def test_the_loss_is_the_mean_of_the_cross_entropies_of_start_and_end():
    task, network = QuestionAnswering(), model()
    windows = task.examples(rows(), tokenizer(), 40)
    batch = windows.batch(range(len(windows)))
    expected = 0.0
    for logits, target in zip(network.logits(batch).split(batch.lengths), batch.labels["sequence"], strict=True):
        shares = logits.log_softmax(dim=0)
        expected -= float(shares[target[0], 0] + shares[target[1], 1]) / 2
    outcome = task.outcome(network, batch)
    assert float(outcome.losses["qa"]) == pytest.approx(expected, rel=1e-5)
    assert outcome.counts == {"qa": len(windows)}
    per_row = task.losses(task.logits(network, windows), windows)
    assert per_row.shape == (4,)
    sums = per_row * torch.bincount(torch.from_numpy(windows.question))
    assert float(sums.sum()) == pytest.approx(expected, rel=1e-5)


def test_rows_are_answered_the_same_alone_and_beside_others():
    task, network = QuestionAnswering(), model()
    together = task.unlabeled(rows(), tokenizer(), 40, counts=TextCounts())
    found = task.answers(task.logits(network, together), together)
    for row, answer in zip(rows(), found, strict=True):
        alone = task.unlabeled([row], tokenizer(), 40, counts=TextCounts())
        (own,) = task.answers(task.logits(network, alone, batch_tokens=1), alone)
        assert own["answer"] == answer["answer"] == row.context[answer["start"] : answer["end"]]
        assert own["score"] == pytest.approx(answer["score"], abs=1e-5)
    assert json.loads(json.dumps(found)) == found


@pytest.fixture(scope="module")
def trained() -> tuple[QuestionAnswering, Model]:
    """A network that has memorized the rows."""
    task, network = QuestionAnswering.from_rows(rows()), model(hidden_dropout=0.0, attention_dropout=0.0)
    fit(network, task, task.examples(rows(), tokenizer(), 64), epochs=120, lr=3e-3, batch_size=4, seed=0)
    return task, network.eval()


def test_it_learns_answers_and_when_there_is_none(trained):
    task, network = trained
    windows = task.examples(rows(), tokenizer(), 64)
    logits = task.logits(network, windows)
    answers = task.answers(logits, windows)
    assert [answer["answer"] for answer in answers] == ["old man", "lowest road", "story", ""]
    assert answers[3]["start"] is None and answers[3]["score"] == answers[3]["no_answer_score"] > 0.5
    assert all(answer["score"] > 0.5 > answer["no_answer_score"] for answer in answers[:3])
    assert all(task.is_right(windows, row, answer) for row, answer in enumerate(answers))


def test_the_threshold_is_chosen_after_training_and_travels(trained):
    task, network = trained
    own = QuestionAnswering(task.may_refuse)
    windows = own.examples(rows(), tokenizer(), 64)
    logits = own.logits(network, windows)
    before = own.score(logits, windows).metrics
    own.tune_threshold(logits, windows)
    assert own.threshold is not None and len(own.threshold.seen) == 4
    again = QuestionAnswering.from_json(json.loads(json.dumps(own.to_json())))
    assert again.to_json() == own.to_json() and again.answers(logits, windows) == own.answers(logits, windows)
    # The rows that chose it are scored by halves, before and after.
    assert again.score(logits, windows).metrics == before
    other = [ask("An older man told it.", "older man", name="z"), ask("She walked.", question="Why?", name="y")]
    fresh = own.examples(other, tokenizer(), 64)
    metrics = own.score(own.logits(network, fresh), fresh).metrics
    assert set(metrics) >= {"exact_match", "f1", "has_answer_f1", "no_answer_f1"}
    assert all(math.isfinite(value) for value in metrics.values())


def test_without_unanswerable_training_rows_every_question_is_answered():
    task, network = QuestionAnswering.from_rows(rows()[:3]), model()
    assert task.may_refuse is False
    windows = task.examples(rows(), tokenizer(), 64)
    logits = task.logits(network, windows)
    assert all(answer["answer"] for answer in task.answers(logits, windows))
    task.tune_threshold(logits, windows)
    assert task.threshold is None


def test_answers_are_pieces_of_a_context_of_any_length(trained):
    context = "She walked along the lowest road. " * 300 + CONTEXT  # over 10,000 characters
    answerer = Answerer(Predictor(trained[1], trained[0], 64))
    (found,) = answerer.answer([("Who told it?", context)], top_k=5)
    assert len(found.candidates) == 5
    for entry in found.candidates:
        assert context[entry["start"] : entry["end"]] == entry["answer"]
    assert [entry["score"] for entry in found.candidates] == sorted([e["score"] for e in found.candidates])[::-1]


def test_a_threshold_of_ones_own_decides(trained):
    predictor = Predictor(trained[1], trained[0], 64)
    asked = [("Who told it?", CONTEXT)]
    assert Answerer(predictor, 1e6).answer(asked)[0].answer["answer"] == "old man"
    assert Answerer(predictor, -1e6).answer(asked)[0].answer["answer"] == ""
    with pytest.raises(InputError, match="finite"):
        Answerer(predictor, math.nan)


def test_pairs_of_texts_are_questions_too(trained):
    predictor = Predictor(trained[1], trained[0], 64)
    assert predictor.predict([("Who told it?", CONTEXT)])[0]["answer"] == "old man"
    with pytest.raises(InputError, match="needs its context"):
        list(predictor.stream(rows_of(["Who told it?"])))


def test_what_cannot_be_used_is_refused_in_words(tmp_path):
    with pytest.raises(InputError, match="no question with an answer"):
        QuestionAnswering.from_rows([ask(CONTEXT)], train_file="train.json")
    with pytest.raises(RowErrors, match="answers are missing"):
        QuestionAnswering().examples([ask(CONTEXT, known=False)], tokenizer(), 64, file="dev.json")
    with pytest.raises(InputError, match="no usable row"):
        QuestionAnswering().examples([ask(CONTEXT, known=False)], tokenizer(), 64, skip_bad_rows=True)
    with pytest.raises(InputError, match="Unknown column role 'text' of questions"):
        QuestionAnswering.read(tmp_path / "q.json", columns={"text": "body"})
    (tmp_path / "q.json").write_text('{"data": []}')
    with pytest.raises(InputError, match="no columns to map"):
        QuestionAnswering.read(tmp_path / "q.json", columns={"question": "body"})
    for facts in ({"may_refuse": "yes"}, {"threshold": 3}):
        with pytest.raises(ModelFolderError):
            QuestionAnswering.from_json({"task": "qa", **facts})
