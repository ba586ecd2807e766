"""Files of annotation tools, as tagged words and as labeled texts."""

import csv
import io
import json

import pytest

from maskwright.core.errors import InputError, RowErrors
from maskwright.tasks.classification import Classification
from maskwright.tasks.specs import check_content, reader_for
from maskwright.tasks.tagging.task import Tagging
from maskwright.text.readers.tables import find_reader

TEXT = "Ada Byron met Ann in Graz."
WORDS = ["Ada", "Byron", "met", "Ann", "in", "Graz", "."]
TAGS = ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "O"]
SPANS = [(0, 9, "PER"), (14, 17, "PER"), (21, 25, "LOC")]


def region(start, end, label, text=None, **more):
    value = {"start": start, "end": end, "labels": [label]} | ({} if text is None else {"text": text})
    return {"value": value, "from_name": "label", "to_name": "text", "type": "labels", "id": "x", **more}


def choice(*names, control="topic"):
    return {"value": {"choices": list(names)}, "from_name": control, "to_name": "text", "type": "choices"}


def task(*annotations, text=TEXT, id=1, **more):
    return {"id": id, "data": {"text": text}, "annotations": list(annotations), "predictions": [], **more}


def annotated(*results, by=1, **more):
    return {"id": 7, "completed_by": by, "was_cancelled": False, "result": list(results), **more}


BOX = {"type": "rectanglelabels", "value": {"x": 1}}
REGIONS = [region(start, end, label, TEXT[start:end]) for start, end, label in SPANS]
MIN_REGIONS = [{"start": start, "end": end, "text": TEXT[start:end], "labels": [label]} for start, end, label in SPANS]
MIN = {"annotation_id": 3, "annotator": 1, "lead_time": 2.5, "created_at": "2024-05-01T10:00:00Z"}
PRODIGY = [{"start": start, "end": end, "label": label} for start, end, label in SPANS]
DOCCANO = [{"id": 4, "label": label, "start_offset": start, "end_offset": end} for start, end, label in SPANS]
PRODIGY_TOKENS = [
    {"text": TEXT[start:end], "start": start, "end": end, "id": number}
    for number, (start, end) in enumerate([(0, 3), (4, 9), (10, 13), (14, 17), (18, 20), (21, 25), (25, 26)])
]
BILUO = ["B-PER", "L-PER", "O", "U-PER", "O", "U-LOC", "O"]
V2_TOKENS = [
    {"id": number, "orth": word, "space": "" if number >= 5 else " ", "ner": tag}
    for number, (word, tag) in enumerate(zip(WORDS, BILUO, strict=True))
]
WEBANNO = """#FORMAT=WebAnno TSV 3.3
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS|PosValue|coarseValue
#T_SP=de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity|identifier|value
#T_RL=webanno.custom.Meets|kind|BT_de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity


#Text=Ada Byron met Ann in Graz.
1-1\t0-3\tAda\tNNP\tPROPN\t*[1]\tPER[1]\t_\t_\t
1-2\t4-9\tByron\tNNP\tPROPN\t*[1]\tPER[1]\t_\t_\t
1-3\t10-13\tmet\tVBD\tVERB\t_\t_\t_\t_\t
1-4\t14-17\tAnn\tNNP\tPROPN\t*\tPER\tmet\t1-1[1_0]\t
1-5\t18-20\tin\tIN\tADP\t_\t_\t_\t_\t
1-6\t21-25\tGraz\tNNP\tPROPN\t*\tLOC\t_\t_\t
1-7\t25-26\t.\t.\tPUNCT\t_\t_\t_\t_\t
"""
BRAT = "T1\tPER 0 9\tAda Byron\nT2\tPER 14 17\tAnn\nT3\tLOC 21 25\tGraz\n"

ENTITIES = {
    "label-studio.json": [task(annotated(*REGIONS))],
    "completions.json": [{"id": 1, "data": {"text": TEXT}, "completions": [annotated(*REGIONS)]}],
    "other-key.json": [{"id": 1, "data": {"body": TEXT, "n": 4}, "annotations": [annotated(*REGIONS)]}],
    "min.json": [{"id": 1, "text": TEXT, "label": MIN_REGIONS, **MIN}],
    "doccano.jsonl": [{"id": 1, "text": TEXT, "label": [list(span) for span in SPANS], "Comments": []}],
    "doccano-labels.jsonl": [{"id": 1, "text": TEXT, "labels": [list(span) for span in SPANS]}],
    "doccano-relations.jsonl": [{"id": 1, "text": TEXT, "Comments": [], "entities": DOCCANO, "relations": [{"id": 1}]}],
    "doccano-old.jsonl": [{"id": 1, "text": TEXT, "annotations": [one | {"user": 1} for one in DOCCANO]}],
    "prodigy.jsonl": [{"text": TEXT, "spans": PRODIGY, "tokens": PRODIGY_TOKENS, "answer": "accept", "_task_hash": 3}],
    "prodigy-plain.jsonl": [{"text": TEXT, "spans": PRODIGY}],
    "spacy-v2.json": [{"id": 0, "paragraphs": [{"raw": TEXT, "sentences": [{"tokens": V2_TOKENS, "brackets": []}]}]}],
    "spacy-no-raw.json": [{"id": 0, "paragraphs": [{"sentences": [{"tokens": V2_TOKENS}]}]}],
    "spacy-pairs.json": [[TEXT, {"entities": [list(span) for span in SPANS]}]],
    "spacy-lines.jsonl": [[TEXT, {"entities": [list(span) for span in SPANS]}]] * 2,
    "spacy-classes.json": {"classes": ["PER"], "annotations": [[TEXT, {"entities": [list(at) for at in SPANS]}], None]},
    "spacy-doc.jsonl": [{"text": TEXT, "ents": PRODIGY, "tokens": [{"id": 0, "start": 0, "end": 3}]}],
    "spacy-group.json": [{"text": TEXT, "ents": [], "spans": {"sc": PRODIGY}, "tokens": []}],
    "pretty.json": [{"tokens": WORDS, "tags": TAGS}],
    "webanno.tsv": WEBANNO,
    "brat.ann": BRAT,
}
CLASSES = {
    "label-studio.json": [task(annotated(choice("travel"))), task(annotated(choice("work")), text="Second.", id=2)],
    **{
        f"min-{number}.json": [{"text": TEXT, "topic": first, **MIN}, {"text": "Second.", "topic": "work", **MIN}]
        for number, first in enumerate(("travel", {"choices": ["travel"]}))
    },
    "table.csv": (
        '"annotation_id","annotator","created_at","id","lead_time","text","topic","updated_at"\n'
        f'3,1,"x",1,2.5,"{TEXT}","travel","x"\n4,1,"x",2,2.5,"Second.","{{""choices"": [""work""]}}","x"\n'
    ),
    **{
        f"doccano-{key}.jsonl": [{"id": 1, key: TEXT, "label": ["travel"]}, {"id": 2, key: "Second.", "label": "work"}]
        for key in ("text", "data")
    },
    "prodigy-choice.jsonl": [
        {"text": text, "options": [{"id": name, "text": name}], "accept": [name], "answer": "accept"}
        for text, name in ((TEXT, "travel"), ("Second.", "work"))
    ],
    "prodigy-binary.jsonl": [
        {"text": text, "label": name, "answer": answer, "_view_id": "classification"}
        for text, name, answer in (
            *((TEXT, "travel", "accept"), (TEXT, "work", "reject"), ("Second.", "work", "accept")),
            *(("Third.", "work", "reject"), ("Fourth.", "work", "ignore")),
        )
    ],
    "spacy-v2.json": [
        {
            "paragraphs": [
                {"raw": text, "cats": [{"label": "travel", "value": one}, {"label": "work", "value": 1 - one}]}
                for text, one in ((TEXT, 1.0), ("Second.", 0.0))
            ]
        }
    ],
    "spacy-pairs.json": [
        [TEXT, {"cats": {"travel": 1.0, "work": 0.0}}],
        ["Second.", {"cats": {"travel": False, "work": True}}],
    ],
    "records.json": [{"text": TEXT, "label": "travel"}, {"text": "Second.", "label": "work"}],
}


@pytest.fixture
def file(tmp_path):
    """Writes a file: JSON, JSON lines or text, by its name; with brat's text as a second file."""

    def write(name, content, text=TEXT):
        path = tmp_path / name
        if name.endswith(".jsonl") and not isinstance(content, str):
            content = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content)
        elif not isinstance(content, str):
            content = json.dumps(content, indent=1, ensure_ascii=False)
        path.write_text(content, encoding="utf-8")
        if name.endswith(".ann"):
            path.with_suffix(".txt").write_text(text, encoding="utf-8")
        return path

    return write


def entities(path, **more):
    return [" ".join(map("/".join, zip(row.words, row.tags, strict=True))) for row in Tagging.read(path, **more).rows]


EXPECTED = " ".join(map("/".join, zip(WORDS, TAGS, strict=True)))


# -- every format ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENTITIES)
def test_spans_of_every_format_become_the_same_tags(file, name):
    path = file(name, ENTITIES[name])
    row = Tagging.read(path).rows[0]
    assert (list(row.words), list(row.tags), row.text) == (WORDS, TAGS, TEXT if name != "pretty.json" else row.text)
    assert [row.text[start:end] for start, end in row.spans] == WORDS
    assert find_reader(path).name == reader_for("tagging", path).name == "tagged"
    check_content(path, "tagging")
    if name != "pretty.json":
        for refuse in (lambda: check_content(path, "classification"), lambda: Classification.read(path)):
            with pytest.raises(InputError, match="finetune tagging"):
                refuse()


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_every_format_become_the_same_rows(file, name):
    path = file(name, CLASSES[name])
    assert [(row.text, row.label) for row in Classification.read(path).rows] == [(TEXT, "travel"), ("Second.", "work")]
    check_content(path, "classification")
    if name != "records.json":
        for refuse in (lambda: check_content(path, "tagging"), lambda: Tagging.read(path)):
            with pytest.raises(InputError, match="finetune classification"):
                refuse()


def test_one_file_with_spans_and_classes_serves_both_tasks(file):
    path = file(
        "a.json", [task(annotated(*REGIONS, choice("travel"))), task(annotated(choice("work")), text="Second.")]
    )
    assert entities(path) == [EXPECTED, "Second/O ./O"]
    assert [row.label for row in Classification.read(path).rows] == ["travel", "work"]
    for name in ("tagging", "classification"):
        check_content(path, name)
    assert (reader_for("tagging", path).name, reader_for("classification", path).name) == ("tagged", "texts")


def test_doc_bin_is_read_through_spacy(file, tmp_path):
    spacy = pytest.importorskip("spacy", reason="spaCy is an extra")
    doc = spacy.blank("en")(TEXT)
    doc.set_ents([doc.char_span(*span[:2], label=span[2]) for span in SPANS])
    doc.cats = {"travel": 1.0, "work": 0.0}
    path = tmp_path / "train.spacy"
    spacy.tokens.DocBin(docs=[doc]).to_disk(path)
    assert entities(path) == [EXPECTED]
    assert [row.label for row in Classification.read(path).rows] == ["travel"]
    doc.set_ents([doc.char_span(*SPANS[0][:2], label="PER")], missing=[doc[2:]])
    spacy.tokens.DocBin(docs=[doc]).to_disk(path)
    assert list(Tagging.read(path).rows[0].tags) == ["B-PER", "I-PER", "", "", "", "", ""]


def test_a_folder_of_brat_files_is_read_by_lines(file, tmp_path):
    file("one.ann", BRAT + "T4\tLOC 32 36\tOslo\n", TEXT + "\n\nTo: Oslo and\nback\n")
    file("two.ann", "T1\tLOC 0 8\tNew York\n", "New\nYork\nis big\n")
    (tmp_path / "three.txt").write_text("Nobody looked at this.")
    assert entities(tmp_path) == [EXPECTED, "To/O :/O Oslo/B-LOC and/O", "back/O", "New/B-LOC York/I-LOC", "is/O big/O"]
    check_content(tmp_path, "tagging")


# -- which field is the text ---------------------------------------------------------------------------------


@pytest.mark.compatibility(
    "label-studio-sdk 2.1.2",
    theirs="a task has any number of fields; its JSON-MIN and CSV do not show which is labeled",
    ours="the text is the field in which the file's spans are found, else one with a known name, or --columns",
)
@pytest.mark.parametrize("to_name", ["body", "source", "text"])  # the name of a control, or of a field
@pytest.mark.parametrize("name", ["a.json", "min.json", "a.csv", "a.tsv"])
def test_a_task_without_spans_has_its_text_in_the_field_of_the_others(file, name, to_name):
    rows = [("Nobody came.", []), (TEXT, MIN_REGIONS), ("Nor did we.", [])]
    more = {"source": "wire", "url": "https://example.org/"}
    if name == "a.json":
        regions = [one | {"to_name": to_name} for one in REGIONS]
        content = [
            {"id": n, "data": more | {"body": text}, "annotations": [annotated(*(regions if spans else []))]}
            for n, (text, spans) in enumerate(rows)
        ]
    elif name == "min.json":
        content = [more | {"id": n, "body": text, "tags": spans} | MIN for n, (text, spans) in enumerate(rows)]
    else:
        mark = "," if name == "a.csv" else "\t"
        found = [
            [*MIN.values(), *more.values(), n, text, json.dumps(spans) if spans else ""]
            for n, (text, spans) in enumerate(rows)
        ]
        written = io.StringIO()
        csv.writer(written, delimiter=mark).writerows([[*MIN, *more, "id", "body", "tags"], *found])
        content = written.getvalue()
    found = entities(file(name, content))
    assert found == ["Nobody/O came/O ./O", EXPECTED, "Nor/O did/O we/O ./O"]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"text": "One.", "source": "wire"}, "One."),
        ({"body": "One.", "n": 4}, "One."),
        ({"body": "One.", "source": "wire"}, None),
    ],
)
def test_without_spans_a_known_or_the_only_field_is_the_text(file, data, expected):
    path = file("a.json", [{"id": 1, "data": data, "annotations": [annotated()]}])
    if expected is None:
        with pytest.raises(InputError, match="body, source.*--columns text=NAME"):
            Tagging.read(path)
        assert Tagging.read(path, columns={"text": "body"}).rows[0].text == "One."
    else:
        assert Tagging.read(path).rows[0].text == expected


@pytest.mark.compatibility(
    "spaCy 3.8.18",
    theirs="an entity tag '-' or an empty one is unknown: it is neither an entity nor outside of one",
    ours="such words have no tag, so training and scores skip them, and that is said",
)
@pytest.mark.parametrize("mark", ["-", "", None])
def test_words_with_an_unknown_entity_tag_are_not_outside(file, capsys, mark):
    tokens = [token | {"ner": mark if token["orth"] in ("met", ".") else token["ner"]} for token in V2_TOKENS]
    path = file("a.json", [{"id": 0, "paragraphs": [{"raw": TEXT, "sentences": [{"tokens": tokens}]}]}])
    tags = ["" if word in ("met", ".") else tag for word, tag in zip(WORDS, TAGS, strict=True)]
    assert list(Tagging.read(path).rows[0].tags) == tags
    assert "unknown, left out of training and scores (2)" in capsys.readouterr().err


# -- offsets -----------------------------------------------------------------------------------------------

EMOJI = "Hi 😀 Ann in Graz"  # two UTF-16 units, four bytes


@pytest.mark.parametrize(
    ("unit", "ann", "graz"),
    [("characters", (5, 8), (12, 16)), ("UTF-16 units", (6, 9), (13, 17)), ("bytes", (8, 11), (15, 19))],
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.ann"])
def test_the_unit_of_offsets_is_found_by_the_recorded_texts(file, capsys, name, unit, ann, graz):
    if name == "a.json":
        content = [task(annotated(region(*ann, "PER", "Ann"), region(*graz, "LOC", "Graz")), text=EMOJI)]
    elif name == "a.jsonl":
        tokens = [{"text": "Ann", "start": ann[0], "end": ann[1]}, {"text": "Graz", "start": graz[0], "end": graz[1]}]
        spans = [{"start": ann[0], "end": ann[1], "label": "PER"}, {"start": graz[0], "end": graz[1], "label": "LOC"}]
        content = [{"text": EMOJI, "tokens": tokens, "spans": spans, "answer": "accept"}]
    else:
        content = f"T1\tPER {ann[0]} {ann[1]}\tAnn\nT2\tLOC {graz[0]} {graz[1]}\tGraz\n"
    assert entities(file(name, content, EMOJI)) == ["Hi/O 😀/O Ann/B-PER in/O Graz/B-LOC"]
    assert (unit in capsys.readouterr().err) == (unit != "characters")


@pytest.mark.parametrize(
    ("words", "content"),
    [
        ("after the text", [task(annotated(region(21, 40, "LOC")))]),
        (
            "is 'met' in the text, but the file says 'Graz', which is at 21-25",
            [task(annotated(region(10, 13, "LOC", "Graz")))],
        ),
        ("ends before it begins", [task(annotated(region(9, 4, "LOC")))]),
        ("the start of a span is text", [{"id": 1, "paragraphs": [{"raw": TEXT, "entities": [["0", 3, "PER"]]}]}]),
        ("the start of a span is text", [{"id": 1, "text": TEXT, "label": [[0, 3, "PER"], ["4", "9", "PER"]]}]),
        ("the start of a span is text", [{"id": 1, "text": TEXT, "label": [["0", "3", "PER"]]}]),
        ("not a whole number", [{"id": 1, "text": TEXT, "label": [[0.0, 3.0, "PER"]]}]),
        ("not a whole number", [{"text": TEXT, "ents": [{"start": 0.5, "end": 3, "label": "PER"}]}]),
        ("contains only spaces", [task(annotated(region(9, 10, "LOC")))]),
        ("place in HTML", [task(annotated(region("/div[1]/text()[1]", "/div[1]/text()[1]", "LOC")))]),
        ("has no label", [[TEXT, {"entities": [[0, 3, ""]]}]]),
        ("the text is empty", [task(annotated(), text=" ")]),
        ("'Eve' is not at 0-3", [{"text": TEXT, "tokens": [PRODIGY_TOKENS[0] | {"text": "Eve"}], "spans": PRODIGY}]),
        ("after the text", "T1\tPER 14 99\tAnn\n"),
        ("is 'met' in the text", "T1\tPER 10 13\tAnn\n"),
        ("a text-bound annotation", "T1 PER 10 13 Ann\n"),
        ("no line of a brat file", "Ada\tB-PER\n"),
    ],
)
def test_wrong_spans_are_reported_with_their_record(file, words, content):
    path = file("a.ann" if isinstance(content, str) else "a.json", content)
    with pytest.raises(RowErrors, match=words) as caught:
        Tagging.read(path)
    assert caught.value.rows[0].file == str(path) and caught.value.rows[0].line >= 1


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("1-4\t14-17", "1-4\t14-19", r"offsets 14-19 do not fit the word 'Ann'"),
        ("met Ann in", "met in", "'Ann' does not follow"),
        ("1-4\t14-17\tAnn", "Ann\tB-PER", "is not a token"),
        ("met\tVBD\tVERB\t_\t_\t_\t_\t", "met\tVBD", "a.tsv:10: has 4 columns, not 9"),
        ("WebAnno TSV 3.3", "WebAnno TSV 2", "export it as WebAnno TSV v3"),
    ],
)
def test_wrong_lines_of_webanno_are_reported(file, old, new, words):
    with pytest.raises(InputError, match=words):
        Tagging.read(file("a.tsv", WEBANNO.replace(old, new)))


def test_bad_records_are_skipped_on_request_and_spans_do_not_matter_for_classes(file):
    content = [
        task(annotated(*REGIONS, choice("travel"))),
        task(annotated(region(3, 99, "PER"), choice("work")), text="Two."),
    ]
    path = file("a.json", content)
    table = Tagging.read(path, skip_bad_rows=True)
    assert (len(table), table.num_skipped) == (1, 1)
    assert len(Classification.read(path)) == 2


# -- overlaps, cut words, empty annotations ----------------------------------------------------------------


@pytest.mark.compatibility(
    "label-studio-sdk 2.1.2",
    theirs="the CONLL2003 export cuts the longer of two overlapping spans, and says nothing",
    ours="the longest span is kept whole and the others are counted, or --overlap error reports them",
)
def test_of_overlapping_spans_the_longest_is_kept_and_said(file, capsys):
    path = file("a.json", [task(annotated(region(4, 9, "ORG"), *REGIONS, region(4, 9, "ORG")))])
    assert entities(path) == [EXPECTED]
    said = capsys.readouterr().err
    assert "overlapping spans, the longest kept (1)" in said and "ORG 'Byron' overlaps PER 'Ada Byron'" in said
    with pytest.raises(RowErrors, match="ORG 'Byron' overlaps PER 'Ada Byron'"):
        Tagging.read(path, columns={"overlap": "error"})


def test_of_a_discontinuous_span_the_longest_part_is_kept_and_said(file, capsys):
    path = file("a.ann", "T1\tPER 0 3;14 17\tAda Ann\nT2\tLOC 4 9;21 25\tByron Graz\nR1\tIn Arg1:T1 Arg2:T2\n")
    assert entities(path) == ["Ada/B-PER Byron/B-LOC met/O Ann/O in/O Graz/O ./O"]
    said = capsys.readouterr().err
    assert "discontinuous spans, the longest part kept (2)" in said and "relations (1)" in said
    with pytest.raises(RowErrors, match="is discontinuous"):
        Tagging.read(path, columns={"overlap": "error"})


@pytest.mark.compatibility(
    "spaCy 3.8.18",
    theirs="an entity that does not fit the tokens makes its words unknown, with a warning",
    ours="the span splits the word, and is counted",
)
def test_a_span_inside_a_word_splits_it(file, capsys):
    spans = [{"start": start, "end": end, "label": "LOC"} for start, end in ((4, 8), (10, 14))]
    path = file("a.jsonl", [{"text": "pre-Graz, Grazer", "spans": spans, "answer": "accept"}])
    assert entities(path) == ["pre-/O Graz/B-LOC ,/O Graz/B-LOC er/O"]
    assert "words that a span cuts" in capsys.readouterr().err


@pytest.mark.compatibility(
    "label-studio-sdk 2.1.2",
    theirs="the CONLL2003 export tags every word of an unannotated task with O",
    ours="tasks that nobody annotated are skipped and counted",
)
def test_an_empty_annotation_is_an_example_and_an_unannotated_text_is_not(file, capsys):
    cancelled = annotated(*REGIONS, was_cancelled=True)
    content = [
        task(annotated(*REGIONS)),
        task(annotated(), text="Nothing.", id=2),
        task(text="Later.", id=3),
        task(cancelled, text=TEXT, id=4),
        task(text="Guessed.", id=5, predictions=[{"result": [region(0, 7, "PER")]}]),
    ]
    assert entities(file("a.json", content)) == [EXPECTED, "Nothing/O ./O"]
    said = capsys.readouterr().err
    for part in ("texts without an annotation (2)", "canceled annotations (1)", "predictions of a model (1)"):
        assert part in said


def test_rejected_and_ignored_answers_are_not_learned(file, capsys):
    rows = [
        {"text": TEXT, "spans": PRODIGY, "answer": "accept"},
        {"text": "Bad one.", "spans": [{"start": 0, "end": 3, "label": "PER"}], "answer": "reject"},
        {"text": "Unclear.", "spans": [], "answer": "ignore"},
    ]
    assert entities(file("a.jsonl", rows)) == [EXPECTED]
    said = capsys.readouterr().err
    assert "rejected answers (1)" in said and "ignored answers (1)" in said


def test_a_file_that_nobody_annotated_says_so(file):
    with pytest.raises(InputError, match=r"no annotated text: .*texts without an annotation \(1\)"):
        Tagging.read(file("a.json", [task()]))
    with pytest.raises(InputError, match="no text with a class"):
        Classification.read(file("b.json", [task()]))
    path = file("c.json", [task()])
    assert [row.tags for row in reader_for("tagging", path).read(path, {}, False, False).rows] == [None]


def test_binary_answers_about_one_label_make_two_classes(file):
    answers = {"First.": "accept", "Second.": "reject", "Third.": "ignore"}
    path = file("a.jsonl", [{"text": text, "label": "travel", "answer": one} for text, one in answers.items()])
    assert [row.label for row in Classification.read(path).rows] == ["travel", "not travel"]
    assert [row.label for row in Classification.read(path, multi_label=True).rows] == ["travel", ""]


def test_a_label_both_accepted_and_rejected_is_reported(file):
    rows = [{"text": TEXT, "label": name, "answer": answer} for name in "ab" for answer in ("accept", "reject")]
    with pytest.raises(RowErrors, match="'a' is both accepted and rejected"):
        Classification.read(file("a.jsonl", rows))


# -- several annotators, several classes -------------------------------------------------------------------


@pytest.mark.compatibility(
    "label-studio-sdk 2.1.2",
    theirs="the CONLL2003 export has a task once per annotator, with contradictory tags and without their names",
    ours="JSON is read with its annotators: equal annotations count once, others ask for --annotator",
)
def test_annotators_who_agree_count_once_and_who_disagree_are_kept_apart(file):
    one, other = ({"id": number, "email": f"{name}@x.org"} for number, name in ((1, "a"), (2, "b")))
    content = [
        task(annotated(*REGIONS, by=one), annotated(*REGIONS, by=other)),
        task(annotated(by=one), annotated(region(0, 3, "PER"), by=other), text="Ann."),
    ]
    path = file("a.json", content)
    with pytest.raises(RowErrors, match=r"a@x.org and b@x.org disagree: choose one with --annotator NAME"):
        Tagging.read(path)
    assert entities(path, columns={"annotator": "a@x.org"}) == [EXPECTED, "Ann/O ./O"]
    assert entities(path, columns={"annotator": "2"}) == [EXPECTED, "Ann/B-PER ./O"]
    with pytest.raises(InputError, match="no annotation by 'c': the annotators are a@x.org, b@x.org"):
        Tagging.read(path, columns={"annotator": "c"})


def test_texts_alone_are_read_whatever_their_annotations(file):
    disagree = task(annotated(choice("a"), by=1), annotated(*REGIONS, choice("b"), by=2))
    path = file(
        "a.json", [disagree, task(annotated(region(3, 99, "PER"), choice("a")), text="Two."), task(text="Three.")]
    )
    assert [(row.text, row.tags) for row in find_reader(path).read(path, {}, False, False).rows] == [
        (TEXT, None),
        ("Two.", None),
        ("Three.", None),
    ]
    texts = reader_for("classification", path).read(path, {}, False, False)
    assert [(row.text, row.label) for row in texts] == [(TEXT, None), ("Two.", "a"), ("Three.", None)]


@pytest.mark.parametrize("name", ["min.json", "table.csv", "choice.jsonl"])
def test_rows_about_one_text_are_compared(file, name):
    given = [("Second.", 2, 1, "work"), (TEXT, 1, 1, "travel"), ("Second.", 2, 2, "work"), (TEXT, 1, 2, "work")]
    if name == "min.json":
        content = [{"id": id, "text": text, "topic": label, **MIN, "annotator": who} for text, id, who, label in given]
    elif name == "table.csv":
        rows = "".join(f'3,{who},{id},"{text}","{label}"\n' for text, id, who, label in given)
        content = f"annotation_id,annotator,id,text,topic\n{rows}"
    else:
        content = [
            {"text": text, "accept": [label], "answer": "accept", "_input_hash": id, "_annotator_id": str(who)}
            for text, id, who, label in given
        ]
    path = file(name, content)
    with pytest.raises(RowErrors, match="1 and 2 disagree"):
        Classification.read(path)
    rows = Classification.read(path, columns={"annotator": "2"}).rows
    assert [(row.text, row.label) for row in rows] == [("Second.", "work"), (TEXT, "work")]


@pytest.mark.compatibility(
    "label-studio-sdk 2.1.2",
    theirs="JSON-MIN and CSV write one choice as text, several as an object, none as a missing key",
    ours="all three are read as lists of classes",
)
def test_several_classes_ask_for_multi_label(file):
    given = {"One.": {"topic": {"choices": ["b", "a"]}}, "Two.": {"topic": "a"}, "Three.": {}}
    rows = [{"id": id, "text": text, **topic, **MIN} for id, (text, topic) in enumerate(given.items())]
    path = file("a.json", rows)
    with pytest.raises(InputError, match="1 text has several classes.*--multi-label"):
        Classification.read(path, multi_label=False)
    assert [row.label for row in Classification.read(path, multi_label=True).rows] == ["b|a", "a", ""]


def test_several_questions_are_told_apart_by_name(file):
    path = file("a.json", [task(annotated(choice("travel"), choice("good", control="mood")))])
    with pytest.raises(InputError, match=r"label=NAME \(topic, mood\)"):
        Classification.read(path)
    assert [row.label for row in Classification.read(path, columns={"label": "mood"}).rows] == ["good"]


# -- other projects, other files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("image.json", [{"data": {"image": "a.png"}, "annotations": [annotated(BOX)]}]),
        ("audio.json", [{"id": 1, "data": {"audio": "a.wav"}, "annotations": [annotated(region(0.5, 1.5, "speech"))]}]),
        ("min.json", [{"id": 1, "image": "a.png", "label": [{"x": 1, "y": 2, "width": 3, "height": 4}], **MIN}]),
        ("doccano.jsonl", [{"id": 1, "filename": "a.png", "bbox": [{"x": 1}]}]),
        ("prodigy.jsonl", [{"image": "a.png", "spans": [], "_task_hash": 2, "answer": "accept"}]),
        ("coco.json", {"images": [], "annotations": [], "categories": []}),
    ],
)
def test_exports_of_other_projects_are_refused_with_what_they_are(file, name, content):
    with pytest.raises(InputError, match="only labeled spans and classes of texts"):
        Tagging.read(file(name, content))


# -- WebAnno -----------------------------------------------------------------------------------------------

LAYERS = """#FORMAT=WebAnno TSV 3.2
#T_SP=webanno.custom.Drug|dose|name
#T_SP=webanno.custom.Mention|


#Text=x\\_y 😀ab pain
#Text=stops
1-1\t0-3\tx\\_y\tlow[1]|*[2]\tA\\|B[1]|C\\[1\\][2]\t*
1-2\t4-8\t😀ab\t_\t_\t_
1-2.1\t6-7\ta\t*\tD\t_
1-3\t9-13\tpain\t*[3]\tE[3]\t_
1-4\t14-19\tstops\t*[3]\tE[3]\t*

#Text=Next one
2-1\t20-24\tNext\t*[4]\tF[4]\t_
2-2\t25-28\tone\t*[4]\tF[4]\t_
"""


def test_layers_features_escapes_stacks_and_parts_of_webanno(file, capsys):
    path = file("a.tsv", LAYERS)
    with pytest.raises(InputError, match=r"tag=NAME \(Drug, Mention\)"):
        Tagging.read(path)
    found = entities(path, columns={"tag": "Drug:name"})
    assert found == ["x_y/B-A|B 😀/O a/B-D b/O pain/B-E stops/I-E", "Next/B-F one/I-F"]
    assert "overlapping spans" in capsys.readouterr().err
    assert entities(path, columns={"tag": "Mention"})[0] == "x_y/B-Mention 😀ab/O pain/O stops/B-Mention"
    with pytest.raises(InputError, match="no layer 'Other': the layers of spans are Drug, Mention"):
        Tagging.read(path, columns={"tag": "Other"})
