"""Which held-out rows a model folder carries."""

from __future__ import annotations

from types import SimpleNamespace

from maskwright.train.finetuning.run_data import MAX_TEXT, held_out_examples


def row(text, label="a", pair=None):
    return SimpleNamespace(text=text, text_pair=pair, label=label)


def test_one_of_each_label_first_in_their_order():
    rows = [row("1", "b"), row("2", "b"), row("3", "a"), row("4", "b"), row("5", "c"), row("6", "d")]
    assert [one["text"] for one in held_out_examples(rows)] == ["1", "3", "5"]
    assert [one["text"] for one in held_out_examples(rows[:4])] == ["1", "3", "2"]
    assert held_out_examples([]) == []


def test_long_and_empty_texts_are_left_out_and_other_labels_too():
    rows = [
        row("x" * (MAX_TEXT + 1)),
        row(""),
        row("short", pair="y" * 1001),
        row("tags", ["O", "B"]),
        row("q", 1, "p"),
    ]
    assert held_out_examples(rows) == [{"text": "tags"}, {"text": "q", "text_pair": "p", "label": 1}]
