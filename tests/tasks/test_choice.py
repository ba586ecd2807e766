"""Multiple choice as a task: softmax over a row's choices, whatever order they are packed in; cut rows are counted."""

import pytest
import torch

import maskwright as mw
from inference.samples import tiny, tokenizer
from maskwright.core.errors import InputError, ModelFolderError, RowErrors
from maskwright.inference.predict import Predictor
from maskwright.tasks.base import task_of_model
from maskwright.tasks.choice import Choice, tokenize_choices
from maskwright.tasks.windows import LongTexts
from maskwright.text.readers.choices import ChoiceRow, choices_of
from maskwright.text.tokenizers.encoding import TextCounts
from maskwright.train.finetuning.finetune import fit


def row(context, *choices, label=0, question="", line=1):
    return ChoiceRow(context, question, choices, label, line, "rows.jsonl")


ROWS = [
    row("the cat", "sat on the mat .", "bought a gallon of milk", "rain fell", label=0),
    row("she", "are flightless birds !", "bought a gallon of milk at the store", "fell", label=1, line=2),
    row("", "the garden", "a", "penguins are birds", label=2, question="dogs", line=3),
    row("rain fell on the mat", "a", "cats", "dogs chase cats in the garden", question="she", label=1, line=4),
]


def examples(rows=ROWS, max_length=None):
    return Choice().examples(rows, tokenizer(), max_length)


def test_every_choice_is_a_sequence_with_the_question_before_it():
    found = examples()
    assert (len(found), found.num_texts, len(found.input_ids)) == (4, 3, 12)
    for number, own in enumerate(ROWS):
        for place, (first, second) in enumerate(own.pairs()):
            encoding = tokenizer()(first, second)
            assert found.input_ids[3 * number + place].tolist() == encoding.ids
            assert found.token_types[3 * number + place].tolist() == encoding.type_ids
    assert found.lengths.tolist() == found.texts.lengths.reshape(4, 3).sum(axis=1).tolist()
    assert found.targets.tolist() == [0, 1, 2, 1]


def test_the_places_of_a_batch_lead_back_to_each_choice():
    found = examples()
    batch = found.batch([3, 0, 2])
    assert batch.lengths == sorted(batch.lengths) and batch.labels["sequence"].tolist() == [1, 0, 2]
    starts = batch.cu_seqlens.tolist()
    for here, number in enumerate([3, 0, 2]):
        for choice, sequence in enumerate(batch.labels["places"][here].tolist()):
            ids = batch.input_ids[starts[sequence] : starts[sequence + 1]].tolist()
            assert ids == found.input_ids[3 * number + choice].tolist()


def test_the_loss_is_the_cross_entropy_over_the_choices_of_a_row():
    task, model, found = Choice(), tiny("choice"), examples()
    outcome = task.outcome(model, found.batch(range(4)))
    expected = 0.0
    for number, own in enumerate(ROWS):
        scores = []
        for first, second in own.pairs():
            encoding = tokenizer()(first, second)
            out = model(input_ids=torch.tensor([[encoding.ids]]), token_type_ids=torch.tensor([[encoding.type_ids]]))
            scores.append(out.logits.view(()))
        shares = torch.stack(scores).softmax(dim=0)
        expected -= shares[own.label].log().item()
        (answer,) = task.answers(torch.stack(scores)[None], examples([own]))
        assert answer["probabilities"] == pytest.approx(shares.tolist(), abs=1e-6)
        assert answer["choice"] == own.choices[answer["label"]] and answer["score"] == max(answer["probabilities"])
        assert task.losses(task.logits(model, found), found)[number] == pytest.approx(-shares[own.label].log().item())
    assert float(outcome.losses["choice"]) == pytest.approx(expected, rel=1e-5)
    assert outcome.counts == {"choice": 4}


@pytest.mark.parametrize("batch_tokens", [1, 40, 10_000])
def test_packing_changes_no_answer(batch_tokens):
    task, model, found = Choice(), tiny("choice"), examples()
    together = task.logits(model, found, batch_tokens)
    assert together.shape == (4, 3)
    for number, own in enumerate(ROWS):
        alone = task.logits(model, examples([own]))
        assert torch.allclose(alone[0], together[number], atol=1e-5)


def test_the_longer_side_is_cut_and_rows_with_a_cut_choice_are_counted():
    long = row("the cat sat on the mat and the dogs chase cats in the garden", "a", "cats")
    wide = row("a", "the cat sat on the mat and the dogs chase cats in the garden", "cats", line=2)
    short = row("the cat", "sat", "fell", line=3)
    counts = TextCounts()
    found = tokenize_choices([long, wide, short], tokenizer(), 12, counts=counts)
    assert max(found.texts.lengths) == 12
    assert (found.num_truncated, counts.cut_texts, counts.texts) == (2, 3, 6)
    whole = tokenizer()("a", "cats").ids
    assert found.input_ids[1].tolist()[-2:] == whole[-2:], "the short choice stays whole; the context is truncated"
    assert "2 of 3 train rows" in Choice().notes(found, "train", 12)[0]
    assert not Choice().notes(examples(), "train", 48)


def test_metrics_by_hand():
    task, found = Choice(), examples()
    logits = torch.tensor([[2.0, 0, 0], [0, 3.0, 0], [1.0, 0, 0], [0, 0, 1.0]])
    evaluation = task.score(logits, found)
    assert evaluation.metrics["accuracy"] == 0.5 and set(evaluation.metrics) == {"accuracy", "ece"}
    assert evaluation.loss == pytest.approx(float(task.losses(logits, found).mean()))
    right = [task.is_right(found, number, answer) for number, answer in enumerate(task.answers(logits, found))]
    assert right == [True, True, False, False]


def test_it_learns_and_its_task_is_known_from_the_folder_and_from_the_head(tmp_path):
    task, model = Choice.from_rows(ROWS), tiny("choice")
    fit(model, task, examples(), epochs=30, lr=3e-3, batch_size=4, seed=0, precision="fp32")
    assert task.evaluate(model, examples()).metrics["accuracy"] == 1.0
    model.save(tmp_path / "m", facts=task.to_json())
    again = mw.load(tmp_path / "m")
    assert isinstance(task_of_model(again, {"task": "choice"}), Choice) and isinstance(task_of_model(again), Choice)
    assert torch.allclose(task.logits(again, examples()), task.logits(model, examples()), atol=1e-6)
    assert task_of_model(again).evaluate(again, examples()).metrics["accuracy"] == 1.0
    with pytest.raises(ModelFolderError, match="multiple-choice"):
        mw.TextClassifier.load(tmp_path / "m")


def test_rows_without_a_usable_answer_are_named_or_left_out():
    bad = [*ROWS, row("a", "b", "c", "d", label=None, line=5), row("a", "b", "c", "d", label=3, line=6)]
    with pytest.raises(RowErrors) as error:
        Choice().examples(bad, tokenizer(), file="f.jsonl")
    assert [(fault.line, fault.reason) for fault in error.value.rows] == [
        (5, "is missing"),
        (6, "3 is out of range for 3 choices (counted from 0)"),
    ]
    kept = Choice().examples(bad, tokenizer(), skip_bad_rows=True)
    assert (len(kept), kept.num_skipped) == (4, 2)
    with pytest.raises(InputError, match="no usable row"):
        Choice().examples(bad[4:], tokenizer(), skip_bad_rows=True)
    with pytest.raises(InputError, match="no row"):
        Choice.from_rows([])
    with pytest.raises(InputError, match="2 or 3 choices"):
        examples([ROWS[0], row("a", "b", "c")])


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"context": "c", "choices": ["a", " "], "label": 0}, "choice 1"),
        ({"context": "c", "choices": ["a", "b"]}, "label is missing"),
        ({"context": "c", "choices": ["a", "b", "d"], "label": 0}, "there are 3 choices, and 2 is what most"),
    ],
)
def test_rows_from_memory_are_held_to_the_rules_of_a_file(item, words):
    good = {"context": "c", "question": "q", "choices": ["a", "b"], "label": 1}
    assert [own.label for own in choices_of([good, good])] == [1, 1]
    with pytest.raises(RowErrors, match=words) as error:
        choices_of([good, good, item])
    assert {fault.line for fault in error.value.rows} == {3}


def test_a_text_without_choices_is_refused_in_words():
    predictor = Predictor(tiny("choice"), Choice())
    with pytest.raises(InputError, match="needs choices"):
        predictor.predict(["the cat"])


LONG = "the cat sat on the mat . she bought a gallon of milk at the store . penguins are flightless birds ! " * 2
LONG_ROWS = [row(LONG, "rain fell", "dogs chase cats in the garden", label=1), row("she", "a", "fell", line=2)]


def test_every_token_of_a_context_is_in_a_window_with_the_whole_choice():
    found = Choice(LongTexts(stride=3)).examples(LONG_ROWS, tokenizer(), 24)
    windows = found.texts
    assert (len(found), found.num_truncated, found.targets.tolist()) == (2, 0, [1, 0])
    assert windows.num_windows[0] > 2 and windows.num_windows[2:].tolist() == [1, 1]
    whole = tokenizer()(LONG, add_special_tokens=False)
    for choice, text in enumerate(LONG_ROWS[0].choices):
        ending = [*tokenizer()(text, add_special_tokens=False).ids, tokenizer().sep_id]
        context: list[int] = []
        for index in range(windows.starts[choice], windows.starts[choice + 1]):
            ids = windows.input_ids[index].tolist()
            assert len(ids) <= 24 and ids[-len(ending) :] == ending
            assert windows.token_types[index].tolist() == [0] * (len(ids) - len(ending)) + [1] * len(ending)
            first = len(context) - 3 if context else 0
            context = context[:first] + ids[1 : -len(ending) - 1]
            assert tuple(windows.spans[index]) == (whole.offsets[first][0], whole.offsets[len(context) - 1][1])
        assert context == whole.ids
    assert found.lengths.tolist() == found.texts.lengths.reshape(2, 2).sum(axis=1).tolist()


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_scores_of_windows_are_pooled_in_training_and_in_answers(pool):
    model, task = tiny("choice"), Choice(LongTexts(stride=3, pool=pool))
    found = task.examples(LONG_ROWS, tokenizer(), 24)
    alone = [
        model.logits(mw.Batch.from_sequences([ids], [types])).item()
        for ids, types in zip(found.input_ids, found.token_types, strict=True)
    ]
    parts = [alone[start:end] for start, end in zip(found.texts.starts, found.texts.starts[1:], strict=False)]
    wanted = torch.tensor([max(part) if pool == "max" else sum(part) / len(part) for part in parts]).reshape(2, 2)
    batch = found.batch([1, 0])
    assert torch.allclose(task.scores(model, batch), wanted[[1, 0]], atol=1e-5)
    assert torch.allclose(task.logits(model, found), wanted, atol=1e-5)
    assert torch.allclose(task.logits(model, found, batch_tokens=24), wanted, atol=1e-5)
    first, second = task.predict(model, found)
    own = parts[first["label"]]
    assert "loudest" not in second and first["loudest"]["window"] == own.index(max(own))
    assert LONG[first["loudest"]["start"] : first["loudest"]["end"]] and first["loudest"]["windows"] == len(own)
