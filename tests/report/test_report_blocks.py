"""Blocks: what each shows of its content."""

from __future__ import annotations

import pytest

from maskwright.report import (
    Block,
    Checkpoint,
    Checkpoints,
    Comparison,
    Confusion,
    Facts,
    Figure,
    KeyFigures,
    MaskExample,
    MaskExamples,
    Report,
    RunMetadata,
    Score,
    SeenBlocks,
    System,
    Table,
    Weights,
    WorstError,
    WorstErrors,
    render,
)
from maskwright.report.charts.grids import picture
from report.html_reading import Node, read_html


def main_of(*blocks: Block) -> Node:
    return read_html(render(Report("title", "headline", blocks=blocks))).all("main")[0]


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


def test_a_comparison_keeps_published_rows_apart_and_stresses_the_best_measured_one():
    tree = main_of(
        Comparison(
            [
                System("printed", {"F1": 0.99}, source="published"),
                System("ours", {"F1": Score(0.8, 0.01)}, seeds=3),
                System("simple", {"F1": 0.85}, source="baseline", note="TF-IDF"),
                System("failed", {"F1": float("nan")}),
            ]
        )
    )
    text = tree.text
    order = ["Measured here", "ours", "simple", "failed", "Published elsewhere", "printed"]
    assert [text.index(name) for name in order] == sorted(text.index(name) for name in order)
    assert [node.text for node in tree.all("strong")] == ["0.850"]
    assert plain(tree.all("td", "number")[0].text) == "0.800 ± 0.010"
    assert "simple method" not in text
    assert [node.text for node in tree.all("span", "tag")] == ["simpler method", "TF-IDF"]


def test_lower_can_be_better():
    tree = main_of(Comparison([System("a", {"loss": 2.0}), System("b", {"loss": 1.5})], higher_is_better=False))
    assert [node.text for node in tree.all("strong")] == ["1.500"]


def test_one_system_alone_is_not_called_best_and_draws_no_axis():
    tree = main_of(Comparison([System("a", {"F1": 0.5, "time": "41 s"})]))
    assert not tree.all("strong")
    assert not tree.all("svg")
    assert "41 s" in tree.text


def test_the_confusion_matrix_shows_counts_shares_recall_and_precision():
    tree = main_of(Confusion(["yes", "no"], [[8, 2], [1, 0]]))
    rows = [[plain(cell) for cell in row] for row in tree.all("table")[0].rows()]
    assert rows == [
        ["", "Predicted", ""],
        ["Gold", "yes", "no", "Recall"],
        ["yes", "880 %", "220 %", "80 %"],
        ["no", "1100 %", "0", "0 %"],
        ["Precision", "89 %", "0 %", ""],
    ]


def test_a_class_without_rows_has_no_shares():
    rows = main_of(Confusion(["a", "b"], [[3, 0], [0, 0]])).all("table")[0].rows()
    assert rows[3][-1] == rows[4][2] == "–"


def test_many_labels_become_the_pairs_most_often_confused():
    size = 30
    counts = [[5 if gold == other else 0 for other in range(size)] for gold in range(size)]
    counts[3][4], counts[7][1] = 2, 5
    tree = main_of(Confusion([f"label {number}" for number in range(size)], counts))
    rows = [[plain(cell) for cell in row] for row in tree.all("table")[0].rows()]
    assert rows[1:] == [["label 7", "label 1", "5", "50.0 %"], ["label 3", "label 4", "2", "28.6 %"]]


def test_many_labels_without_a_mistake_say_so():
    size = 30
    counts = [[int(gold == other) for other in range(size)] for gold in range(size)]
    assert (
        "No confusions among the 30 labels" in main_of(Confusion([str(number) for number in range(size)], counts)).text
    )


def test_a_matrix_of_the_wrong_size_is_refused():
    with pytest.raises(ValueError, match="3 labels needs 3 rows"):
        Confusion(["a", "b", "c"], [[1, 2, 3]])


def test_the_correct_prediction_is_marked_and_a_wrong_one_has_its_rank():
    tree = main_of(
        MaskExamples(
            [
                MaskExample("Return a ", " list.", [("new", 0.4), ("the", 0.0002)], "new"),
                MaskExample("The ", " statement.", [("with", 0.2)], "if", rank=1009, probability=0.021),
                MaskExample("Who ", "?", [("knows", 1.0)]),
            ]
        )
    )
    assert [node.all("span", "label")[0].text for node in tree.all("li", "right")] == ["new"]
    assert [plain(node.text) for node in tree.all("p", "missed")] == ["The original token has rank 1,009, 2.1 %."]
    assert [node.text for node in tree.all("mark")] == ["new", "if", "[MASK]"]
    assert "<0.1 %" in plain(tree.text)


def test_errors_without_probability_show_their_loss_if_there_is_one():
    tree = main_of(WorstErrors([WorstError("t", "1.00", "4.00", loss=9.0)]))
    assert tree.all("table")[0].rows() == [["Text", "Gold", "Predicted", "Loss"], ["t", "1.00", "4.00", "9.000"]]
    tree = main_of(WorstErrors([WorstError("t", "a", "b")]))
    assert tree.all("table")[0].rows() == [["Text", "Gold", "Predicted"], ["t", "a", "b"]]


def test_the_best_checkpoint_is_stressed_and_removed_ones_are_named():
    tree = main_of(
        Checkpoints(
            [
                Checkpoint(100, {"loss": 2.0}, is_kept=False),
                Checkpoint(200, {"loss": 1.0}, size_bytes=10**6, is_best=True),
            ]
        )
    )
    rows = [[plain(cell) for cell in row] for row in tree.all("table")[0].rows()]
    assert rows == [
        ["Step", "loss", "Size", "State"],
        ["100", "2.000", "–", "removed"],
        ["200", "1.000", "1 MB", "best"],
    ]
    assert len(tree.all("tr", "strong")) == 1


def test_weights_list_every_name_and_say_when_there_are_none():
    tree = main_of(Weights(["a.weight"], [], ["b.bias", "c.bias"]))
    assert [node.text for node in tree.all("code")] == ["a.weight", "b.bias", "c.bias"]
    assert [node.text for node in tree.all(class_="amount")] == ["1", "0", "2"]
    assert len(tree.all("details")) == 2


def test_columns_of_numbers_stand_on_the_right_but_not_the_first():
    tree = main_of(Table(["n", "score", "time", "word"], [[1, 0.5, "3 min 20 s", "x"], [2, None, "–", "7"]]))
    cells = tree.all("tr")[1].all("td")
    assert [cell.classes == ["number"] for cell in cells] == [False, True, True, False]


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="Row 1 has 1 cells for 2 columns"):
        Table(["a", "b"], [[1, 2], [1]])


def test_a_deviation_is_set_smaller_behind_its_mean():
    numeral = main_of(KeyFigures([Figure("F1", "0.874 ± 0.011")])).all(class_="numeral")[0]
    assert numeral.text == "0.874 ± 0.011"
    assert numeral.all("span", "deviation")[0].text == " ± 0.011"


def test_a_map_of_attention_draws_what_is_seen_in_its_place():
    tree = main_of(SeenBlocks({"layer 1": "##.#\n.##.\n..##\n####"}, note="Blocks of 64."))
    assert tree.all("figcaption")[0].text == "layer 1" and "Blocks of 64" in tree.text
    assert tree.all("svg")[0].attributes["aria-label"] == "layer 1: 11 of 16 pairs of blocks"
    pieces = [[int(node.attributes[name] or 0) // 12 for name in "xy"] for node in tree.all("rect", "seen")]
    widths = [(int(node.attributes["width"] or 0) + 1) // 12 for node in tree.all("rect", "seen")]
    found = {(y, x + step) for (x, y), width in zip(pieces, widths, strict=True) for step in range(width)}
    assert found == {(0, 0), (0, 1), (0, 3), (1, 1), (1, 2), (2, 2), (2, 3), (3, 0), (3, 1), (3, 2), (3, 3)}


def test_maps_beside_each_other_make_one_picture():
    tree = read_html(picture({"a": "#.\n##", "b & c": "#"}))
    assert [node.text for node in tree.all("text")] == ["a", "b & c"]
    assert len(tree.all("rect", "unseen")) == 2


def test_a_command_keeps_options_whole_and_reads_as_typed():
    command = "maskwright pretrain --lr 0.0005 --whole-words -o runs/a corpus-of-mine/ --eval " + "held-out" * 9
    code = main_of(RunMetadata(command, {"eval": "", "lr": 5e-4})).all("code")[0]
    assert code.text == command
    assert [node.text for node in code.all("span")] == ["--lr 0.0005", "--whole-words", "-o runs/a"]


def test_a_setting_that_is_empty_is_a_dash():
    assert [node.text for node in main_of(RunMetadata(settings={"eval": "", "lr": 0.1})).all("dd")] == ["–", "0.1"]


def test_facts_show_values_and_remarks():
    tree = main_of(Facts({"Documents": 5104, "Unknown": (0.00012, "122 tokens")}))
    assert [node.text for node in tree.all("dd")] == ["5,104", "1.2e-4122 tokens"]
