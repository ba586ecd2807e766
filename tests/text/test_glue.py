"""GLUE as its original files lie: odd headers, no header, quotes that do not quote, test files without labels."""

from __future__ import annotations

import pytest

from maskwright.core.errors import ConfigError, InputError, MissingFileError, RowErrors
from maskwright.text.readers.glue import glue_files, glue_task, read_glue

PARSES = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
MNLI_TEST = f"{PARSES} sentence1 sentence2"
STSB_TEST = "index genre filename year old_index source1 source2 sentence1 sentence2"
PAIR = "index sentence1 sentence2"
# file -> (task, header, one row with | for tabs, what is read: text, second text, label)
LABELED: dict[str, tuple[str, str | None, str, tuple[str, str | None, str]]] = {
    "CoLA/train.tsv": ("CoLA", None, "gj04|0|*|The car honked.", ("The car honked.", None, "0")),
    "SST-2/train.tsv": ("SST-2", "sentence label", "so exciting a movie |1", ("so exciting a movie ", None, "1")),
    "STS-B/train.tsv": (
        "STS-B",
        f"{STSB_TEST} score",
        "0|m|M|t|1|n|n|A man.|A boy.|2.600",
        ("A man.", "A boy.", "2.600"),
    ),
    "QQP/train.tsv": (
        "QQP",
        "id qid1 qid2 question1 question2 is_duplicate",
        "1|2|3|How?|Why?|0",
        ("How?", "Why?", "0"),
    ),
    "MNLI/dev_matched.tsv": (
        "MNLI",
        f"{MNLI_TEST} label1 label2 gold_label",
        "0|1|1e|slate|( a )|( b )|(ROOT a)|(ROOT b)|First.|Second.|neutral|entailment|neutral",
        ("First.", "Second.", "neutral"),
    ),
    "QNLI/train.tsv": (
        "QNLI",
        "index question sentence label",
        '0|Who?|"He"|entailment',
        ("Who?", '"He"', "entailment"),
    ),
    "RTE/train.tsv": ("RTE", f"{PAIR} label", "0|Long.|Short.|not_entailment", ("Long.", "Short.", "not_entailment")),
    "WNLI/train.tsv": ("WNLI", f"{PAIR} label", "0|It is.|A is.|1", ("It is.", "A is.", "1")),
}
# file -> (task, header, row without its index)
UNLABELED = {
    "CoLA/test.tsv": ("CoLA", "index sentence", "Bill laughed."),
    "STS-B/test.tsv": ("STS-B", STSB_TEST, "g|f|y|1|n|n|A|B"),
    "QQP/test.tsv": ("QQP", "id question1 question2", "A|B"),
    "MNLI/test_matched.tsv": ("MNLI", MNLI_TEST, "p|q|g|b|b|r|r|A|B"),
    "diagnostic/diagnostic.tsv": ("AX", PAIR, "A|B"),
}


def write(folder, name, lines, end="\n"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes("".join(f"{line}{end}" for line in lines if line is not None).encode())
    return path


def tabs(text, mark):
    return None if text is None else text.replace(mark, "\t")


@pytest.mark.parametrize("name", LABELED)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_labeled_files_are_read_in_their_original_columns(tmp_path, name, end):
    task, header, line, expected = LABELED[name]
    lines = [tabs(header, " "), *[tabs(line, "|")] * 2]
    part = read_glue(write(tmp_path, name, lines, end), task)
    assert [(row.text, row.text_pair, row.label) for row in part.rows] == [expected, expected]
    assert [row.line for row in part.rows] == ([1, 2] if header is None else [2, 3])
    assert part.ids == ["0", "1"] and not part.skipped and len(part) == 2


def test_mrpc_has_quirks_of_its_own(tmp_path):
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"
    write(tmp_path, "MRPC/msr_paraphrase_train.txt", [header, "1\t70\t71\tOne .\tTwo ."])
    row = read_glue(glue_files(tmp_path, "MRPC")["train"], "MRPC").rows[0]
    assert (row.text, row.text_pair, row.label) == ("One .", "Two .", "1")


@pytest.mark.parametrize("name", UNLABELED)
def test_test_files_have_an_index_and_no_labels(tmp_path, name):
    task, header, line = UNLABELED[name]
    path = write(tmp_path, name, [tabs(header, " "), *(tabs(f"{index}|{line}", "|") for index in (1, 0))])
    part = read_glue(path, task, with_labels=False)
    assert part.ids == ["1", "0"]
    assert (part.rows[1].text, part.rows[1].text_pair) == (("A", "B") if line.endswith("A|B") else (line, None))
    assert all(row.label is None for row in part.rows)
    with pytest.raises(InputError, match="rows can only be predicted"):
        read_glue(path, task)


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
    header, line = tabs(header, " "), tabs(line, "|")
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
