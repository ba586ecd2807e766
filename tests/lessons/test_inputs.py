"""Inputs of lessons: each has the slide's value as its default, rejects what it does not accept, and has an effect."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from maskwright.core.errors import ConfigError, InputError
from maskwright.lessons.catalog import lesson, lessons
from maskwright.lessons.inputs import MOST, Input, parse_matrix, read_values
from maskwright.lessons.lesson import Result
from maskwright.lessons.page import OWN, report
from maskwright.lessons.running import run
from maskwright.report import render
from report.html_reading import read_html

HI = "58 27 10 12; 27 89 31 67; 10 31 91 54; 12 67 54 92"
SLOW = ("side-by-side", "complexity")  # train two networks, measure times
NAMES = [name for name, one in lessons().items() if one.inputs]
DECLARED = [(name, one) for name in NAMES for one in lessons()[name].inputs if name not in SLOW]
IDS = [f"{name}-{one.name}" for name, one in DECLARED]

OTHER = {  # a text or a matrix for each input that has one, together with other inputs that must fit it
    ("word-vocabulary", "known"): {"known": "hat taaaaasty"},
    ("word-vocabulary", "words"): {"words": "learn hats"},
    ("bpe-merges", "corpus"): {"corpus": "low:5, lower:2"},
    ("bpe-encoding", "word"): {"word": "lowest"},
    ("bpe-encoding", "corpus"): {"corpus": "low:5, lower:2"},
    ("wordpiece-score", "corpus"): {"corpus": "low:5, lower:2"},
    ("longest-match", "words"): {"words": "unable"},
    ("longest-match", "entries"): {"entries": "un ##a"},
    ("bytes", "text"): {"text": "ねこ"},
    ("tree-distances", "words"): {"words": "an animal that crossed the street was tired"},
    ("tree-distances", "heads"): {"words": "dogs chase cats", "heads": "2 0 2"},
    ("pair-input", "first"): {"first": "his cat"},
    ("pair-input", "second"): {"second": "she likes to sleep all day long"},
    ("self-attention", "tokens"): {"tokens": "1 2 3; 0 1 0"},
    ("attention-by-hand", "shares"): {"shares": "1 1 1 1; 1 1 1 1; 1 1 1 1; 1 2 3 4"},
    ("attention-by-hand", "values"): {"values": "1 0 0 0; 0 1 0 0; 0 0 1 0; 0 0 0 1"},
    ("weighted-sum", "text"): {"text": "机器翻译"},
    ("weighted-sum", "matrix"): {"matrix": "2 2 0 0"},
    ("soft-dictionary", "key"): {"key": "sapa"},
    ("saturation", "matrix"): {"matrix": HI},
    ("saturation", "text"): {"text": "so how are you"},
    ("toy-scores", "matrix"): {"matrix": "8 0 0"},
    ("toy-scores", "text"): {"text": "the brown dog ran"},
    ("attention-table", "text"): {"text": "我爱 natural language"},
    ("attention-table", "matrix"): {"matrix": "0.5 0.5; 0.25 0.75"},
    ("tired-or-wide", "first"): {"first": "The animal slept because it was old"},
    ("tired-or-wide", "second"): {"second": "The street was closed because it was wide"},
    ("tired-or-wide", "word"): {"word": "animal"},
    ("five-steps", "text"): {"text": "networks learn"},
    ("layer-parts", "vector"): {"vector": "1 2 3"},
    ("milk-sentence", "text"): {"text": "the animal did not cross the street"},
    ("mlm-loss", "probabilities"): {"probabilities": "0.4 0.3 0.2 0.1"},
    ("whole-vocabulary", "text"): {"text": "they played [MASK] all night"},
    ("side-by-side", "text"): {"text": "the cat sleeps"},
    ("shape-trace", "text"): {"text": "My screen is dark."},
    ("names", "words"): {"words": "Alberta is going to United States of America ."},
    ("names", "gold"): {"gold": "B-PER O O O B-LOC I-LOC O O O"},
    ("names", "predicted"): {"predicted": "O O O O B-LOC I-LOC I-LOC I-LOC O"},
    ("tags-together", "matrix"): {"matrix": "2 0 1; 0 1 1; 0 0 2"},
    ("answer-spans", "scores"): {"scores": "0 1 2 3 4 5 6 7; 7 6 5 4 3 2 1 0"},
    ("answer-scores", "answer"): {"answer": "Denver"},
    ("answer-scores", "golds"): {"golds": "Denver; Carolina Panthers"},
    ("scalar-mix", "shares"): {"shares": "1 1 2"},
    ("scalar-mix", "values"): {"values": "1 2 3"},
    ("green", "word"): {"word": "old", "first": "an old oak", "second": "old tea", "third": "the old town"},
    ("green", "first"): {"first": "a green apple"},
    ("green", "second"): {"second": "green with envy"},
    ("green", "third"): {"third": "greener than green"},
    ("medicine", "query"): {"query": "when does the pharmacy open"},
    ("top-k", "shares"): {"shares": "0.1 0.2 0.3 0.2 0.1 0.1"},
    ("perplexity", "probabilities"): {"probabilities": "0.9 0.9 0.1"},
    ("bleu-by-hand", "written"): {"written": "a cat sat | it was not tired at all"},
    ("bleu-by-hand", "wanted"): {"wanted": "the cat sat on a mat | it was not tired"},
    ("distillation", "shares"): {"shares": "5 4 1"},
}


def facts(result: Result) -> list[object]:
    """What a reader sees of a run, without its time."""
    return [[(check.what, check.computed) for check in result.checks], result.pictures, result.answer]


def other_values(name: str, one: Input) -> list[dict[str, Any]]:
    """Values that are not the slide's: the bounds, each choice, or the text or matrix of OTHER."""
    if one.kind == "choice":
        return [{one.name: value} for value in one.choices if value != one.default]
    if one.kind not in ("number", "integer"):
        return [OTHER[name, one.name]]
    low, high, step = one.minimum, one.maximum, one.step
    assert low is not None and high is not None and step is not None
    values = [low, low + step, high] if one.default in (low, high) else [low, high]
    return [{one.name: value if one.kind == "number" else int(value)} for value in values if value != one.default]


@pytest.mark.parametrize("name", NAMES)
def test_the_defaults_as_texts_are_those_of_the_slide(name: str):
    declared = lesson(name).inputs
    texts = {one.name: one.written(one.default) for one in declared}
    wanted = {one.name: one.default for one in declared}
    assert read_values(name, declared, texts) == read_values(name, declared, {}) == wanted


def test_a_run_with_the_slides_values_is_the_slides():
    result = run("warm-up", {"warmup": "4000"})
    assert result.ok and not result.is_own and result.command == "maskwright lessons warm-up"
    assert facts(result) == facts(run("warm-up"))


@pytest.mark.parametrize(("name", "one"), DECLARED, ids=IDS)
def test_another_value_changes_the_result_and_what_holds_for_any_value_holds(name: str, one: Input):
    found = []
    for values in other_values(name, one):
        result = run(name, values)
        assert result.error is None and result.is_own
        assert [check for check in result.checks if not check.ok] == [], values
        assert any(check.slide for check in result.checks), "nothing is checked for a value of your own"
        found.append(facts(result))
    if len(found) == 1:
        found.append(facts(run(name)))
    assert any(one != found[0] for one in found[1:])


@pytest.mark.parametrize(("name", "one"), DECLARED, ids=IDS)
def test_what_is_out_of_bounds_is_rejected_in_one_sentence(name: str, one: Input):
    bad: list[Any] = ["x", "nan"]
    if one.kind in ("number", "integer"):
        bad += [one.minimum - 1, one.maximum + 1, ""]  # type: ignore[operator]
    if one.kind == "text":
        bad = ["x " * (int(one.maximum or 0) + 1)] + ([""] if one.minimum else [])
    for value in bad:
        with pytest.raises(InputError, match=rf"^{one.name}\b[^\n]*\.$"):
            one.read(value if isinstance(value, str) else one.written(value))


def test_a_page_of_your_own_values_says_so_and_names_the_command():
    result = run("distillation", {"temperature": "2", "shares": "5 4 1"})
    words = shlex.split(result.command)
    assert words == ["maskwright", *["lessons", "distillation", "--set", "temperature=2", "--set"], "shares=5 4 1"]
    text = read_html(render(report([result]))).text
    assert OWN in text and "Temperature" in text and "expected" in text and "the slide" in text
    assert OWN not in read_html(render(report([run("distillation")]))).text


def test_unknown_inputs_are_named_with_their_nearest():
    with pytest.raises(ConfigError, match="Did you mean 'warmup'"):
        run("warm-up", {"warm": "1"})
    with pytest.raises(ConfigError, match="The lesson rome has no inputs"):
        run("rome", {"text": "x"})


def test_a_matrix_is_read_from_words_or_a_file(tmp_path: Path):
    wanted = ((27.0, -1.5), (3.0, 4.0))
    assert parse_matrix("27 -1.5; 3,4") == wanted == parse_matrix("27\t-1.5\n\n3, 4\n")
    path = tmp_path / "scores.csv"
    path.write_text("27,-1.5\n3,4\n", encoding="utf-8")
    assert parse_matrix(str(path), files=True) == wanted
    with pytest.raises(InputError, match="not a number"):
        parse_matrix(str(path))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("z 27; 1 2", "row 1: 'z' is not a number"),
        ("1 2; 3", "row 2 has 1 numbers, row 1 has 2"),
        ("1 nan", "row 1: all numbers must be finite"),
        (" ; ", "no numbers"),
        (";".join(["1"] * (MOST + 1)), f"shows {MOST} x {MOST} at most"),
    ],
)
def test_a_matrix_that_is_none_is_rejected_by_row(source: str, said: str):
    with pytest.raises(InputError, match=said):
        parse_matrix(source)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("word-vocabulary", {"words": "\x00 a", "known": "O O"}),
        ("longest-match", {"words": "A b a:1, !!! <script>"}),
        ("answer-scores", {"golds": "a; the"}),
        ("scalar-mix", {"values": "0 0 0"}),
        ("reconstruction", {"outside": 0}),
    ],
)
def test_unusual_values_give_a_result(name: str, values: dict[str, Any]):
    result = run(name, values)
    assert result.error is None and result.ok and render(report([result]))


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("weighted-sum", {"text": "one"}, "text: the text has 1 words; pass 2 to 64 words"),
        ("weighted-sum", {"matrix": "1 2", "text": "one two three"}, "3 words, the matrix 2 numbers"),
        ("attention-table", {"text": "x " * (MOST + 1)}, "65 words; pass 1 to 64"),
        ("attention-by-hand", {"values": "1 2"}, "values: 1 x 2 numbers; pass 4 x 4"),
        ("tree-distances", {"heads": "2 1 4 2 6 4 8 0"}, "heads: the heads are not a tree"),
        ("tree-distances", {"heads": "0"}, "heads: 1 numbers for 8 words"),
        ("mlm-loss", {"probabilities": "0.5 0.25 0.1 0.1"}, "sum to 1"),
        ("bpe-merges", {"corpus": "old"}, "is not WORD:COUNT"),
        ("wordpiece-score", {"corpus": "a:1"}, "no word has two letters"),
        ("bytes", {"text": "[MASK]"}, "text: a special token"),
        ("names", {"predicted": "O O"}, "predicted: 2 tags for 9 words"),
        ("names", {"gold": "B-PER O O O B-LOC I-LOC I-LOC I-LOC X"}, "'X' is not a BIO tag"),
        ("green", {"word": "blue"}, "word: 'blue' is not in the first sentence"),
        ("tired-or-wide", {"word": "tired"}, "word: 'tired' is not in the second sentence"),
        ("bleu-by-hand", {"written": "one line"}, "written: 1 lines, wanted: 2"),
        ("whole-vocabulary", {"text": "no mask"}, "one .MASK."),
        ("bpe-merges", {"tie_break": "best"}, "tie_break: 'best' is not one of first, last, lexicographic"),
    ],
)
def test_what_does_not_fit_a_lesson_is_rejected(name: str, values: dict[str, Any], said: str):
    with pytest.raises(InputError, match=said):
        run(name, values)
