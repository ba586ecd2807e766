"""GLUE as its original files lie: odd headers, no header, quotes that do not quote, test files without labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core.errors import ConfigError, InputError, MissingFileError, RowErrors
from maskwright.text.readers.glue import TASKS, glue_files, glue_task, read_glue

MNLI_TEST = (
    "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse "
    "sentence1_parse sentence2_parse sentence1 sentence2"
)
STSB_TEST = "index genre filename year old_index source1 source2 sentence1 sentence2"
# file -> (task, header, one row, what is read: text, second text, label)
LABELED: dict[str, tuple[str, str | None, str, tuple[str, str | None, str]]] = {
    "CoLA/train.tsv": (
        "CoLA",
        None,
        "gj04\t0\t*\tThe car honked down the road.",
        ("The car honked down the road.", None, "0"),
    ),
    "SST-2/train.tsv": ("SST-2", "sentence\tlabel", "so exciting a movie \t1", ("so exciting a movie ", None, "1")),
    "MRPC/train.tsv": (
        "MRPC",
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String",
        "1\t70\t71\tOne .\tTwo .",
        ("One .", "Two .", "1"),
    ),
    "STS-B/train.tsv": (
        "STS-B",
        STSB_TEST.replace(" ", "\t") + "\tscore",
        "0\tmain-captions\tMSRvid\t2012test\t0001\tnone\tnone\tA man.\tA boy.\t2.600",
        ("A man.", "A boy.", "2.600"),
    ),
    "QQP/train.tsv": (
        "QQP",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "133273\t213221\t213222\tHow?\tWhy?\t0",
        ("How?", "Why?", "0"),
    ),
    "MNLI/train.tsv": (
        "MNLI",
        MNLI_TEST.replace(" ", "\t") + "\tlabel1\tgold_label",
        "0\t31193\t31193n\tgovernment\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tSkimming.\tProduct.\tneutral\tneutral",
        ("Skimming.", "Product.", "neutral"),
    ),
    "MNLI/dev_matched.tsv": (
        "MNLI",
        MNLI_TEST.replace(" ", "\t") + "\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label",
        "0\t1\t1e\tslate\t( a )\t( b )\t(ROOT a)\t(ROOT b)\tFirst.\tSecond.\t"
        "neutral\tentailment\tneutral\tneutral\tneutral\tneutral",
        ("First.", "Second.", "neutral"),
    ),
    "QNLI/train.tsv": (
        "QNLI",
        "index\tquestion\tsentence\tlabel",
        "0\tWhen?\tThen.\tentailment",
        ("When?", "Then.", "entailment"),
    ),
    "RTE/train.tsv": (
        "RTE",
        "index\tsentence1\tsentence2\tlabel",
        "0\tLong.\tShort.\tnot_entailment",
        ("Long.", "Short.", "not_entailment"),
    ),
    "WNLI/train.tsv": ("WNLI", "index\tsentence1\tsentence2\tlabel", "0\tIt is.\tA is.\t1", ("It is.", "A is.", "1")),
}
# file -> (task, header, rows, ids, texts of the first row)
UNLABELED = {
    "CoLA/test.tsv": ("CoLA", "index\tsentence", ["0\tBill laughed.", "1\tBill"], ("Bill laughed.", None)),
    "SST-2/test.tsv": ("SST-2", "index\tsentence", ["0\tuneasy .", "1\tgood"], ("uneasy .", None)),
    "MRPC/test.tsv": (
        "MRPC",
        "\ufeffindex\t#1 ID\t#2 ID\t#1 String\t#2 String",
        ["0\t10\t11\tA\tB", "1\t12\t13\tC\tD"],
        ("A", "B"),
    ),
    "STS-B/test.tsv": (
        "STS-B",
        STSB_TEST.replace(" ", "\t"),
        ["0\tg\tf\ty\t1\tn\tn\tA\tB", "1\tg\tf\ty\t1\tn\tn\tA\tB"],
        ("A", "B"),
    ),
    "QQP/test.tsv": ("QQP", "id\tquestion1\tquestion2", ["0\tA?\tB?", "1\tC?\tD?"], ("A?", "B?")),
    "MNLI/test_matched.tsv": (
        "MNLI",
        MNLI_TEST.replace(" ", "\t"),
        ["0\tp\tq\tg\tb\tb\tr\tr\tA\tB", "1\tp\tq\tg\tb\tb\tr\tr\tA\tB"],
        ("A", "B"),
    ),
    "QNLI/test.tsv": ("QNLI", "index\tquestion\tsentence", ["0\tA\tB", "1\tC\tD"], ("A", "B")),
    "RTE/test.tsv": ("RTE", "index\tsentence1\tsentence2", ["0\tA\tB", "1\tC\tD"], ("A", "B")),
    "diagnostic/diagnostic.tsv": ("AX", "index\tsentence1\tsentence2", ["0\tA\tB", "1\tC\tD"], ("A", "B")),
}


def write(folder: Path, name: str, lines: Sequence[str | None], end: str = "\n") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}{end}" for line in lines if line is not None).encode())
    return path


@pytest.mark.parametrize("name", LABELED)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_labeled_files_are_read_in_their_original_columns(tmp_path, name, end):
    task, header, line, expected = LABELED[name]
    part = read_glue(write(tmp_path, name, [header, line, line], end), task)
    assert [(row.text, row.text_pair, row.label) for row in part.rows] == [expected, expected]
    assert [row.line for row in part.rows] == ([1, 2] if header is None else [2, 3])
    assert part.ids == ["0", "1"] and not part.skipped and len(part) == 2


@pytest.mark.parametrize("name", UNLABELED)
def test_test_files_have_an_index_and_no_labels(tmp_path, name):
    task, header, lines, texts = UNLABELED[name]
    path = write(tmp_path, name, [header, *reversed(lines)])
    part = read_glue(path, task, with_labels=False)
    assert part.ids == ["1", "0"]
    assert (part.rows[1].text, part.rows[1].text_pair) == texts
    assert all(row.label is None for row in part.rows)
    with pytest.raises(InputError, match="rows can only be predicted"):
        read_glue(path, task)


@given(
    st.lists(
        st.text(st.characters(exclude_characters="\t\n\r\0", exclude_categories=("Cs",)), min_size=1),
        min_size=1,
        max_size=5,
    )
)
def test_any_text_of_cola_comes_back_as_it_is(tmp_path_factory, texts):
    texts = [text for text in texts if text.strip()] or ["a"]
    path = write(tmp_path_factory.mktemp("cola"), "train.tsv", [f"gj04\t1\t\t{text}" for text in texts])
    assert [row.text for row in read_glue(path, "CoLA").rows] == texts


# -- bad rows ------------------------------------------------------------------------------------------------------


def test_every_bad_row_is_named_with_its_line_and_reason(tmp_path):
    lines = [
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "1\t2\t3\tfine?\tfine!\t1",
        "4\t5\t6\tbroken over",
        "two lines?\tyes\t0",
        "7\t8\t9\t\twhy?\t0",
        "10\t11\t12\ta?\tb?\t2",
        "13\t14\t15\ta?\tb?\t",
    ]
    path = write(tmp_path, "train.tsv", lines)
    with pytest.raises(RowErrors) as caught:
        read_glue(path, "QQP")
    assert [(fault.line, fault.column) for fault in caught.value.rows] == [
        (3, None),
        (4, None),
        (5, "question1"),
        (6, "is_duplicate"),
        (7, "is_duplicate"),
    ]
    assert "has 4 columns, not 6" in str(caught.value) and "unknown label '2'" in str(caught.value)
    part = read_glue(path, "QQP", skip_bad_rows=True)
    assert len(part) == 1 and len(part.skipped) == 5 and part.ids == ["0"]


@pytest.mark.parametrize("score", ["5.001", "-0.1", "nan", "inf", "much"])
def test_a_similarity_outside_its_range_is_a_bad_row(tmp_path, score):
    path = write(tmp_path, "dev.tsv", ["sentence1\tsentence2\tscore", "a\tb\t5.0", f"a\tb\t{score}", "a\tb\t0"])
    with pytest.raises(RowErrors, match="dev.tsv:3: column 'score'"):
        read_glue(path, "STS-B")


def test_mnli_without_agreement_is_left_out_and_counted(tmp_path):
    _, header, line, _ = LABELED["MNLI/dev_matched.tsv"]
    split = line.rsplit("\t", 1)[0] + "\t-"
    part = read_glue(write(tmp_path, "dev_matched.tsv", [header, split, line]), "MNLI")
    assert len(part) == 1 and part.num_without_gold == 1 and not part.skipped


def test_an_index_that_stands_twice_in_a_test_file_is_a_bad_row(tmp_path):
    path = write(tmp_path, "test.tsv", ["index\tsentence", "0\ta", "1\tb", "0\tc"])
    with pytest.raises(RowErrors, match="test.tsv:4: column 'index': duplicate '0', first in line 2"):
        read_glue(path, "SST-2", with_labels=False)
    assert len(read_glue(path, "SST-2", with_labels=False, skip_bad_rows=True)) == 2


def test_the_file_of_another_task_is_refused(tmp_path):
    path = write(tmp_path, "train.tsv", ["sentence\tlabel", "a\t1"])
    with pytest.raises(InputError, match="does not have the columns of QNLI: its first row is 'sentence', 'label'"):
        read_glue(path, "QNLI")
    with pytest.raises(InputError, match="does not have the columns of CoLA"):
        read_glue(write(tmp_path, "b.tsv", ["gj04\t1\tthree columns"]), "CoLA")


# -- tasks and files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spelling", ["STS-B", "stsb", "sts_b", "Sts-b"])
def test_a_task_has_many_spellings(tmp_path, spelling):
    assert glue_task(spelling) is TASKS["STS-B"]
    write(tmp_path, f"{spelling}/dev.tsv", ["x"])
    assert list(glue_files(tmp_path, "STS-B")) == ["dev"]
    assert list(glue_files(tmp_path / spelling, "STS-B")) == ["dev"]


def test_mrpc_is_found_under_its_first_names(tmp_path):
    _, header, line, expected = LABELED["MRPC/train.tsv"]
    write(tmp_path, "MRPC/msr_paraphrase_train.txt", [header, line])
    path = glue_files(tmp_path, "MRPC")["train"]
    assert read_glue(path, "MRPC").rows[0].label == expected[2]


def test_missing_folders_and_files_are_named(tmp_path):
    with pytest.raises(MissingFileError, match="is not a folder"):
        glue_files(tmp_path / "none", "RTE")
    with pytest.raises(MissingFileError, match="has no folder for RTE"):
        glue_files(tmp_path, "RTE")
    (tmp_path / "RTE").mkdir()
    with pytest.raises(MissingFileError, match="contains no file of RTE"):
        glue_files(tmp_path, "RTE")
    with pytest.raises(ConfigError, match="Did you mean 'QNLI'"):
        glue_task("QNL")


@pytest.mark.parametrize("task", [name for name in TASKS if name not in ("WNLI", "AX")])
def test_the_plain_files_are_read_too(data_folder, task):
    files = glue_files(data_folder, task)
    assert {"train", "dev"} <= set(files)
    part = read_glue(files["dev"], task)
    labels = {row.label for row in part.rows}
    assert len(part) >= 250 and not part.skipped
    assert labels == set(TASKS[task].labels) if TASKS[task].labels else len(labels) > 5
