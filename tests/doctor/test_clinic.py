"""What the examination of data finds, which labels are doubtful, and how labels of a file are changed."""

from __future__ import annotations

import json
import random
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core import registry
from maskwright.core.errors import InputError
from maskwright.doctor.clinic import examine, find_suspects, next_steps, out_of_fold, suspect_rows
from maskwright.doctor.fix import check_fix, relabel, write_fixed
from maskwright.text.fingerprints import words_of
from tasks.standins import row

SYLLABLES = ["ba", "de", "ki", "lo", "mu", "pra", "sen", "tor", "vi", "xu"]


def sentences(count, seed=0, words=9):
    """Different texts of nonsense words, no two of which share many."""
    draw = random.Random(seed)
    return [" ".join("".join(draw.choices(SYLLABLES, k=3)) for _ in range(words)) for _ in range(count)]


def table(path, rows):
    path.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows), encoding="utf-8")
    return path


def names(diagnosis):
    return {finding.name: finding for finding in diagnosis.findings}


def clean(count=60, seed=0):
    return [(text, "ab"[place % 2]) for place, text in enumerate(sentences(count, seed))]


def test_nothing_is_found_in_good_data(tmp_path):
    found = examine(table(tmp_path / "t.tsv", clean()), table(tmp_path / "d.tsv", clean(20, seed=9)))
    assert found.findings == [] and found.task == "classification"
    assert found.to_json()["labels"] == {"a": 30, "b": 30}


@settings(max_examples=25)
@given(st.integers(0, 12), st.integers(0, 8), st.integers(0, 8), st.integers(0, 5), st.integers(0, 999))
def test_it_finds_exactly_what_was_put_in(tmp_path_factory, repeats, conflicts, leaks, loose, seed):
    folder = tmp_path_factory.mktemp("clinic")
    rows, dev = clean(60, seed), clean(20, seed + 5000)
    draw = random.Random(seed)
    texts = rows[:40]
    dirty = rows + [draw.choice(texts[:20]) for _ in range(repeats)]
    chosen = texts[20 : 20 + conflicts]
    dirty += [(text, "b" if label == "a" else "a") for text, label in chosen]
    dirty += dev[:leaks]
    dirty += [(text.title().replace(" ", "  ") + " !", label) for text, label in dev[10 : 10 + loose]]
    draw.shuffle(dirty)
    found = examine(table(folder / "t.tsv", dirty), table(folder / "d.tsv", dev))
    counts = {name: finding.count for name, finding in names(found).items()}
    expected = {
        "duplicates": repeats,
        "label-conflicts": 2 * conflicts,
        "leaks": leaks,
        "leaks-but-for-spelling": loose,
    }
    assert counts == {name: count for name, count in expected.items() if count}
    kept = write_fixed(found, folder / "fixed.tsv")["kept"]
    assert kept == 60 - conflicts
    again = examine(folder / "fixed.tsv", folder / "d.tsv")
    assert again.findings == [] and len(again.train.prints) == kept


def test_places_are_the_physical_lines(tmp_path):
    rows = clean(30)
    found = examine(
        table(tmp_path / "t.tsv", [*rows, rows[4]]), table(tmp_path / "d.tsv", [*clean(5, seed=7), rows[9]])
    )
    duplicate, leak = names(found)["duplicates"].places[0], names(found)["leaks"].places[0]
    assert (duplicate.line, duplicate.detail) == (32, "same as line 6")
    assert (leak.line, leak.detail) == (11, "same as d.tsv line 7")


def test_texts_are_compared_in_every_script(tmp_path):
    pairs = [
        ("Größe ändern", "GRÖSSE, ändern!"),
        ("ｆｕｌｌ　width", "full width"),
        ("Привет мир", "привет, МИР"),
        ("日本 語", "日本語"),
    ]
    for first, second in pairs:
        assert "".join(words_of(first)) == "".join(words_of(second))
    dev = [*clean(10, seed=3), *[(second, "a") for _, second in pairs]]
    found = examine(
        table(tmp_path / "t.tsv", clean(20) + [(text, "a") for text, _ in pairs]), table(tmp_path / "d.tsv", dev)
    )
    assert names(found)["leaks-but-for-spelling"].count == 4


def test_texts_of_only_punctuation_are_distinguished(tmp_path):
    found = examine(table(tmp_path / "t.tsv", [*clean(30), (":-)", "a"), (":-(", "b"), ("🙂", "a")]))
    assert found.findings == []


def test_near_duplicates_are_found_and_what_is_not_near_is_not(tmp_path):
    rows = clean(40)
    long = sentences(1, seed=77, words=30)[0].split()
    near = [" ".join(long), " ".join([*long[:29], "other"])]
    far = [" ".join([*long[:15], *sentences(1, seed=78, words=15)[0].split()])]
    found = examine(table(tmp_path / "t.tsv", [*rows, *[(text, "a") for text in near + far]]))
    assert names(found)["near-duplicates"].count == 1
    assert names(found)["near-duplicates"].places[0].line == 43
    leaked = examine(
        table(tmp_path / "t.tsv", [*rows, (near[0], "a")]), table(tmp_path / "d.tsv", [*clean(5, 5), (near[1], "a")])
    )
    assert names(leaked)["near-leaks"].count == 1


def test_bad_rows_odd_characters_and_empty_labels(tmp_path):
    body = "".join(f"{text}\t{label}\n" for text, label in clean(30)).encode()
    odd = "caf\u00c3\u00a9 broken\ta\nlost \ufffd here\tb\nbell \x07 rings\ta\n  \ta\nno label\t\nx\ty\tz\n"
    odd += "fish &amp; chips\tb\n"
    (tmp_path / "t.tsv").write_bytes(b"text\tlabel\n" + body + odd.encode() + b"caf\xe9\ta\n")
    found = names(examine(tmp_path / "t.tsv"))
    assert {"mojibake", "lost-characters", "control-characters", "no-label", "markup", "unreadable-rows"} == set(found)
    bad = [finding.sentence for finding in examine(tmp_path / "t.tsv").findings if finding.name == "unreadable-rows"]
    assert len(bad) == 3 and any("UTF-8" in text for text in bad) and any("empty" in text for text in bad)
    assert found["mojibake"].places[0].line == 32
    fixed = write_fixed(examine(tmp_path / "t.tsv"), tmp_path / "f.tsv")
    assert fixed["bad_rows"] == 3 and not any(f.name == "unreadable-rows" for f in examine(tmp_path / "f.tsv").findings)


def test_classes_and_numbers(tmp_path):
    rows = (
        clean(40) + [(text, "rare") for text in sentences(3, 50)] + [(text, " A".strip()) for text in sentences(12, 51)]
    )
    found = names(
        examine(table(tmp_path / "t.tsv", rows), table(tmp_path / "d.tsv", [*clean(9, 52), ("new", "unheard")]))
    )
    assert found["few-rows"].places[0].detail == "'rare': 3 rows"
    assert found["labels-alike"].count == 1 and found["unknown-dev-labels"].count == 1
    numbers = [(text, f"{place / 7:.3f}") for place, text in enumerate(sentences(50, 53))]
    assert examine(table(tmp_path / "n.tsv", numbers)).task == "regression"
    far = names(examine(table(tmp_path / "n.tsv", [*numbers, ("far off", "100000")])))
    assert set(far) == {"far-off-label"}
    same = names(examine(table(tmp_path / "s.tsv", [(text, "1") for text in sentences(5)]), task="regression"))
    assert set(same) == {"constant-label"}


def test_a_constant_column_is_no_text(tmp_path):
    (tmp_path / "t.tsv").write_text("id\ttext\tlabel\n" + "".join(f"{n}\tsame\t{'ab'[n % 2]}\n" for n in range(30)))
    assert "constant-column" in names(examine(tmp_path / "t.tsv"))
    assert "constant-column" not in names(examine(table(tmp_path / "one.tsv", clean(2))))


def test_quotes_of_a_tab_separated_file_are_said_once(tmp_path, capsys):
    path = tmp_path / "a.tsv"
    near = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    path.write_text(f'text\tlabel\n"{near} ""so"" they said"\tx\n"{near} ""so"" they say"\ty\n')
    assert "near-duplicates" in [finding.name for finding in examine(path).findings]
    assert capsys.readouterr().err.count("fields are quoted") == 1


def test_answers_that_annotators_left_out_are_no_missing_labels(tmp_path):
    path = tmp_path / "a.jsonl"
    answers = [("accept", ["a"]), ("reject", ["a"]), ("accept", ["a", "b"]), ("ignore", []), ("accept", ["b"])]
    rows = [
        {"text": f"text {n}", "options": [{"id": "a"}, {"id": "b"}], "accept": names, "answer": answer}
        for n, (answer, names) in enumerate(answers)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = examine(path)
    assert found.shares == {"a": 2, "b": 2} and found.train.facts()["rows"] == 3 and not found.num_problems


def test_csv_rows_of_several_lines_are_left_out_whole(tmp_path):
    text = 'text,label\n"one\ntwo three four",a\nother,b\n"one\ntwo three four",a\nlast,b\n'
    (tmp_path / "t.csv").write_text(text)
    found = examine(tmp_path / "t.csv")
    assert names(found)["duplicates"].places[0].line == 5
    write_fixed(found, tmp_path / "f.csv")
    assert (tmp_path / "f.csv").read_text() == 'text,label\n"one\ntwo three four",a\nother,b\nlast,b\n'


def test_tags_their_spelling_and_those_that_training_lacks(tmp_path):
    sentence = "# a comment\n{}\tB-PER\n{}\tI-PER\nran\tO\n\n"
    text = "".join(sentence.format(*words.split()) for words in sentences(20, words=2))
    (tmp_path / "t.conll").write_text(text + "odd\tI-LOC\nword\tO\n\n" + sentence.format("twice", "said") * 2)
    (tmp_path / "d.conll").write_text(sentence.format("new", "one") + "here\tB-ORG\n\n")
    found = examine(tmp_path / "t.conll", tmp_path / "d.conll")
    by_name = names(found)
    assert found.task == "tagging" and by_name["tag-spelling"].count == 1
    assert by_name["unknown-dev-labels"].count == 1 and by_name["duplicates"].count == 1
    assert found.to_json()["labels"] == {"PER": 22, "LOC": 1}
    write_fixed(found, tmp_path / "f.conll")
    assert (tmp_path / "f.conll").read_text() == text + "odd\tI-LOC\nword\tO\n\n" + sentence.format("twice", "said")


RANGE = "1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_\n"
WORDS = "1\tde\t_\tADP\t_\t_\t0\troot\t_\t_\n2\tel\t_\tDET\t_\t_\t1\tdep\t_\tNER=B-X\n"
EMPTY = "2.1\ty\t_\t_\t_\t_\t_\t_\t0:x\t_\n"
CONLLU = f"# text = del\n{RANGE}{WORDS}{EMPTY}\n{WORDS}{EMPTY}\n"


@pytest.mark.parametrize(
    ("name", "text", "tag", "format", "read"),
    [
        ("a.conllu", CONLLU, "", "CoNLL-U", "1 range of multiword tokens and 2 empty nodes are left out; the tags are"),
        ("a.conllu", CONLLU, "MISC:NER", "CoNLL-U", "tags MISC:NER;.*the tags are BIO"),
        ("a.iob2", "1 Al B-X - k\n2 is O - k\n\n1 Bo O - k\n", "", "CoNLL columns", "column 1, tags in column 2.*BIO"),
    ],
)
def test_the_columns_that_are_read_and_what_is_left_out_are_told(tmp_path, name, text, tag, format, read):
    (tmp_path / name).write_text(text)
    facts = examine(tmp_path / name, columns={"tag": tag} if tag else {}).to_json()["files"][0]
    assert facts["format"] == format and re.search(read, facts["read"])


def test_the_scheme_of_tags_and_words_without_one_are_told(tmp_path):
    rows = "".join(
        f"{one}\tPER-B\n{other}\tPER-I\nran\tO\nhome\t-\n\n" for one, other in map(str.split, sentences(20, words=2))
    )
    (tmp_path / "t.conll").write_text(rows)
    (tmp_path / "d.conll").write_text("ran\tO\nhome\tB-per\n\n")
    found = examine(tmp_path / "t.conll", tmp_path / "d.conll")
    by_name = names(found)
    assert "written as PER-B" in by_name["tag-scheme"].sentence
    assert (by_name["missing-tags"].count, "unknown-dev-labels" in by_name) == (20, False)
    assert found.to_json()["labels"] == {"PER": 20}


def test_questions_whose_answer_is_elsewhere_and_contexts_in_both_files(tmp_path):
    def paragraph(number, answer, start):
        answers = [{"text": answer, "answer_start": start}]
        question = {"id": str(number), "question": f"who {number} ?", "answers": answers}
        return {"context": f"Anna met Bob {number} times.", "qas": [question]}

    def squad(path, paragraphs):
        path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        return path

    good = [paragraph(number, "Anna", 0) for number in range(5)]
    train = squad(tmp_path / "t.json", [*good, paragraph(9, "Carl", 0)])
    found = examine(train, squad(tmp_path / "d.json", [paragraph(2, "Bob", 9)]))
    assert found.task == "qa"
    assert (
        names(found)["unreadable-rows"].count == 1
        and "not in its context" in names(found)["unreadable-rows"].places[0].detail
    )
    assert names(found)["shared-contexts"].count == 1
    with pytest.raises(InputError, match="requires a line-based file"):
        check_fix(train, tmp_path / "f.json")


def test_choices_that_give_themselves_away(tmp_path):
    rows = [{"context": text, "choices": ["one", "two", "three and more"], "label": 2} for text in sentences(40)]
    rows += [{"context": "same", "choices": ["one", "One ", "two"], "label": 0}]
    rows += [{"context": "fewer", "choices": ["one", "two"], "label": 0}]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = examine(tmp_path / "t.jsonl")
    assert found.task == "choice"
    assert {"position-bias", "length-bias", "same-choices", "unreadable-rows"} <= set(names(found))
    step = next_steps(found)[-1].command
    assert "finetune choice" in step and "--skip-bad-rows" in step


def test_trees_and_the_table_of_swag_are_known_by_their_form(tmp_path):
    (tmp_path / "trees.txt").write_text("(3 (2 a) (4 film))\n(1 (2 a) (0 bore))\n(3 (2 a) (4 film))\n(9 (2 a) (2 b))\n")
    found = examine(tmp_path / "trees.txt")
    assert (found.task, len(found.train.prints), found.shares) == ("classification", 3, {"3": 2, "1": 1})
    assert {"duplicates", "unreadable-rows"} <= set(names(found)) and "unlabelled" not in names(found)
    row = "0,v,0,s,she sat,she,gold,fell,rose,left,ate,1\n"
    names_of = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label\n"
    (tmp_path / "swag.csv").write_text(names_of + row)
    assert examine(tmp_path / "swag.csv").task == "choice"


def test_lengths_in_tokens_and_what_is_cut(tmp_path):
    from inference.samples import tokenizer

    rows = [*clean(20), ("cat " * 600, "a"), ("sat " * 300, "b")]
    found = examine(table(tmp_path / "t.tsv", rows), tokenizer=tokenizer())
    facts = found.train.lengths.facts()
    assert facts["most tokens"] == 602 and facts["share cut at 512 tokens"] == pytest.approx(1 / 22)
    assert facts["share cut at 256 tokens"] == pytest.approx(2 / 22)
    assert names(found)["long-rows"].places[0].line == 22


def test_what_cannot_be_read_at_all(tmp_path):
    (tmp_path / "t.tsv").write_text("text\tlabel\n\ta\n \tb\n")
    with pytest.raises(InputError, match="contains no valid row"):
        examine(tmp_path / "t.tsv")


@pytest.mark.slow
def test_many_rows_stay_in_bounded_memory(tmp_path):
    import resource

    draw = np.random.Generator(np.random.PCG64(0))
    words = np.array(["".join(part) for part in draw.choice(SYLLABLES, size=(5000, 3))])
    with (tmp_path / "t.tsv").open("w") as file:
        file.write("text\tlabel\n")
        for _ in range(20):
            for row in words[draw.integers(0, 5000, size=(10_000, 12))]:
                file.write(" ".join(row) + "\ta\n" if row[0] < "m" else " ".join(row) + "\tb\n")
        file.writelines(["the very same text of some words here\ta\n"] * 50)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = examine(tmp_path / "t.tsv")
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert len(found.train.prints) == 200_050 and names(found)["duplicates"].count == 49
    assert grown < 300, f"{grown:.0f} MB more"


def test_a_reader_of_another_package_is_examined_as_labeled_texts(tmp_path, monkeypatch):
    reader = replace(registry.resolve("reader", "texts"), name="lines")
    monkeypatch.setitem(sys.modules, "lines_reader", SimpleNamespace(READER=reader))
    monkeypatch.setitem(registry.TABLE, "reader", {"lines": "lines_reader:READER", **registry.TABLE["reader"]})
    rows = [(text, "ab"[row % 2]) for row, text in enumerate(sentences(20))]
    assert examine(table(tmp_path / "rows.tsv", rows)).task == "classification"


FILES = {
    "a.csv": (
        b'\xef\xbb\xbftext,label,id\r\n"one, ""two""",x,1\r\n\r\n"three\nlines\nhere",x,2\r\nend,x,3\r\n',
        {(4, None): "a,b", (7, None): "y"},
        b'\xef\xbb\xbftext,label,id\r\n"one, ""two""",x,1\r\n\r\n"three\nlines\nhere","a,b",2\r\nend,y,3\r\n',
    ),
    "a.tsv": (b'good "film"\tx\nbad  film \tx', {(2, None): "y"}, b'good "film"\tx\nbad  film \ty'),
    "a.jsonl": (
        b'{"label": 1,"text":"a"}\n\n{"text": "\xc3\xa9", "label": 0.5, "more": [1]}\n',
        {(3, None): "0.25"},
        b'{"label": 1,"text":"a"}\n\n{"text": "\xc3\xa9", "label": 0.25, "more": [1]}\n',
    ),
    "words.jsonl": (
        b'{"tokens": ["a", "b"], "tags": ["O", "O"]}\n',
        {(1, 1): "B-x"},
        b'{"tokens": ["a", "b"], "tags": ["O", "B-x"]}\n',
    ),
    "a.conll": (
        b"# a comment\nAda  NNP  O\r\nmet\tVBD\tO\n\nx O\n",
        {(2, None): "B-per", (3, None): "B-x"},
        b"# a comment\nAda  NNP  B-per\r\nmet\tVBD\tB-x\n\nx O\n",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_only_the_labels_change(tmp_path, name):
    before, labels, after = FILES[name]
    (tmp_path / name).write_bytes(before)
    assert relabel(tmp_path / name, {}, labels) == after


def test_columns_are_those_of_the_readers(tmp_path):
    (tmp_path / "a.csv").write_text("y,body,label\nx,one,kept\n")
    assert (
        relabel(tmp_path / "a.csv", {"text": "body", "label": "y"}, {(2, None): "z"}) == b"y,body,label\nz,one,kept\n"
    )
    (tmp_path / "a.conll").write_text("Ada B-per NNP\n")
    assert relabel(tmp_path / "a.conll", {"tag": "1"}, {(1, None): "O"}) == b"Ada O NNP\n"
    (tmp_path / "a.conllu").write_text("1\tAda\t_\tNOUN\tNN\t_\t0\troot\t_\t_\n")
    for columns, part in (({}, b"PROPN\tNN\t"), ({"tag": "XPOS"}, b"NOUN\tPROPN\t")):
        assert part in relabel(tmp_path / "a.conllu", columns, {(1, None): "PROPN"})


@pytest.mark.parametrize(
    ("name", "content", "labels", "reason"),
    [
        ("a.json", "{}", {(1, None): "x"}, "one JSON object per line to .jsonl"),
        ("a.parquet", "PAR1", {(1, None): "x"}, "convert it to .jsonl"),
        ("a.tsv", "text\tlabel\na\tx\n", {(9, None): "x"}, "has no line 9"),
        ("a.jsonl", '{"text": "a", "label": 1}\n', {(1, None): "high"}, "'high' is not a number"),
    ],
)
def test_what_cannot_be_changed(tmp_path, name, content, labels, reason):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=reason):
        relabel(tmp_path / name, {}, labels)


def test_no_row_has_a_part_in_its_own_probabilities():
    """Features that only identify the row: a fold that contains it would know its label."""
    labels = np.arange(40) % 2
    shares = out_of_fold(np.eye(40), labels)
    assert shares[np.arange(40), labels].max() < 0.6
    assert shares.sum(axis=1) == pytest.approx(np.ones(40))


def test_a_suspect_by_hand():
    """Limits 0.8 and 0.7: row 2 is claimed by class 1, row 3 is unsure but claimed by none."""
    shares = np.array([[0.9, 0.1], [0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.3, 0.7], [0.45, 0.55]])
    labels = np.array([0, 0, 0, 1, 1, 0])
    suspects, margin = find_suspects(shares, labels)
    assert suspects.tolist() == [2] and margin[2] == pytest.approx(0.6)


def test_what_cannot_be_scored():
    with pytest.raises(InputError, match="at least two"):
        out_of_fold(np.zeros((3, 2)), np.zeros(3, dtype=int))
    with pytest.raises(InputError, match="no label"):
        suspect_rows([row("a")], np.zeros((1, 2)))
