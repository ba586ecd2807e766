"""The commands that use a model: JSON alone on standard output, files, truncation told, wrong models refused."""

import io
import json
import os
import signal
import sys
import tracemalloc

import numpy as np
import pytest

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.cli import main
from maskwright.tasks.classification import Classification

LABELS = ["Billing", "Hardware", "Software"]
SIXTEEN = "the cat sat on the mat . dogs chase cats in the unbelievably long garden today"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    tiny("pretraining").save(root / "pretrained")
    tiny("classification", labels=LABELS).save(root / "tickets", facts=Classification(LABELS).to_json())
    multi = Classification(LABELS, multi_label=True)
    tiny("classification", labels=LABELS, problem_type=multi.problem_type).save(root / "multi", facts=multi.to_json())
    tiny("regression").save(root / "score", facts={"task": "regression"})
    tiny("mlm").save(root / "mask")
    tiny().save(root / "bare")
    labeled(root / "rows.tsv", [("a", "b")])
    return root


def lines_of(out):
    return [json.loads(line) for line in out.splitlines()]


def labeled(path, rows, header="text\tlabel"):
    path.write_text("\n".join([header, *("\t".join(row) for row in rows)]) + "\n", encoding="utf-8")
    return path


# -- predict -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "csv", "tsv"])
def test_predict_answers_a_file_into_a_file(maskwright, models, tmp_path, ending):
    texts = [text for text in TEXTS if text]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    output = tmp_path / f"out.{ending}"
    code, out, err = maskwright("predict", models / "tickets", "--input", tmp_path / "in.txt", "--output", output)
    assert (code, out) == (0, "") and f"{len(texts)} answers" in err
    lines = output.read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(texts) + (ending != "jsonl")
    _, direct, _ = maskwright("predict", models / "tickets", *texts, "--json")
    if ending == "jsonl":
        assert [json.loads(line)["label"] for line in lines] == [answer["label"] for answer in lines_of(direct)]


def test_predict_shows_a_table_without_json(maskwright, models):
    for name in ("tickets", "multi", "score"):
        code, out, _ = maskwright("predict", models / name, "router broken")
        assert code == 0 and "router broken" in out


def test_a_trace_shows_the_shapes_by_words_and_by_pieces(maskwright, models):
    code, out, _ = maskwright("predict", models / "tickets", SIXTEEN, "--trace")
    pieces = len(tokenizer()(SIXTEEN).ids)
    assert code == 0 and "17 without the closing [SEP]:  17x32 -> 32 -> 3" in out
    assert f"{pieces} wordpiece tokens:  {pieces}x32 -> 32 -> 3" in out
    _, out, _ = maskwright("predict", models / "tickets", SIXTEEN, "--trace", "--json")
    assert lines_of(out)[0]["shapes"] == {
        "whitespace_without_end": "17x32 -> 32 -> 3",
        "whitespace": "18x32 -> 32 -> 3",
        "tokenizer": f"{pieces}x32 -> 32 -> 3",
    }


def test_a_text_too_long_is_cut_and_said(maskwright, models):
    for command in ("predict", "embed"):
        code, out, err = maskwright(command, models / "tickets", "cat " * 200, "--json", "--quiet")
        assert code == 0 and len(lines_of(out)) == 1 and "1 of 1 text was truncated" in err


def test_bad_rows_stop_a_prediction_or_are_skipped_on_request(maskwright, models, tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{"text": 3}\nnonsense\n{"text": "b"}\n')
    words = ("predict", models / "tickets", "--input", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl")
    code, _, err = maskwright(*words)
    assert code == 2 and "in.jsonl:2" in err
    assert "in.jsonl:3" in err and not (tmp_path / "out.jsonl").exists()
    code, _, err = maskwright(*words, "--skip-bad-rows")
    assert code == 0 and "2 bad rows" in err and len((tmp_path / "out.jsonl").read_text().splitlines()) == 2


def test_a_large_file_is_answered_in_little_memory(maskwright, models, tmp_path, monkeypatch):
    monkeypatch.setattr("maskwright.inference.predict.BLOCK_ROWS", 16)
    large, small = tmp_path / "large.txt", tmp_path / "small.txt"
    large.write_text(("the cat sat on the mat . " * 100 + "\n") * 300)  # 750 kB
    small.write_text("the cat sat\n" * 20)

    def peak(file):
        tracemalloc.start()
        try:
            output = file.with_suffix(".jsonl")
            code, _, _ = maskwright("predict", models / "tickets", "--input", file, "--output", output, "--quiet")
            found = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (code, output.read_text().count("\n")) == (0, file.read_text().count("\n"))
        return found

    maskwright("predict", models / "tickets", "--input", small, "--quiet")  # what is imported once does not count
    few, many = peak(small), peak(large)
    assert many - few < large.stat().st_size / 3, f"{few:,} bytes for 20 short texts, {many:,} for 300 long ones"


def test_a_signal_in_the_middle_leaves_no_half_of_a_file(maskwright, models, tmp_path, monkeypatch):
    (tmp_path / "texts.txt").write_text("cats\ndogs\n")

    def stream(self, rows, batch_tokens=None):
        yield next(iter(rows)), {"label": "Billing"}
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("maskwright.inference.predict.Predictor.stream", stream)
    words = ("--input", tmp_path / "texts.txt", "--output", tmp_path / "answers.jsonl")
    code, _, _ = maskwright("predict", models / "tickets", *words)
    assert code == 130 and [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


# -- evaluate ------------------------------------------------------------------------------------------------------


def test_evaluate_prints_task_examples_and_metrics(as_json, models, tmp_path):
    rows = [("a bill", "Billing"), ("a bug", "Software"), ("a cable", "Hardware")]
    file = labeled(tmp_path / "dev.tsv", rows, "body\ty")
    result = as_json("evaluate", models / "tickets", file, "--columns", "text=body,label=y")
    assert (result["task"], result["examples"]) == ("classification", 3)
    assert {"accuracy", "macro_f1", "matthews", "ece"} <= set(result["metrics"])
    assert all(-1 <= value <= 1 for value in result["metrics"].values())


def test_evaluate_agrees_with_predict(maskwright, models, tmp_path):
    rows = [(text, LABELS[index % 3]) for index, text in enumerate(TEXTS) if text]
    file = labeled(tmp_path / "dev.tsv", rows)
    _, out, _ = maskwright("evaluate", models / "tickets", file, "--json", "--errors", 20)
    _, predicted, _ = maskwright("predict", models / "tickets", "--input", file, "--json")
    result, answers = lines_of(out)[0], lines_of(predicted)
    right = [answer["label"] == answer["gold"] for answer in answers]
    assert result["metrics"]["accuracy"] == pytest.approx(np.mean(right))
    assert len(result["errors"]) == right.count(False)


def test_evaluate_a_pre_trained_model_on_text(maskwright, models, tmp_path):
    documents = ["\n".join(text for text in TEXTS[start : start + 4] if text) for start in (0, 3, 6)]
    (tmp_path / "held-out.txt").write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    words = ("evaluate", models / "pretrained", tmp_path / "held-out.txt", "--json")
    code, out, _ = maskwright(*words)
    result = lines_of(out)[0]
    assert code == 0 and result["task"] == "pretraining"
    assert set(result["metrics"]) == {*("mlm_accuracy", "mlm_baseline", "perplexity", "nsp_accuracy", "nsp_baseline")}
    assert result["metrics"]["perplexity"] > 1
    assert maskwright(*words)[1] == out, "equal seeds, equal masks"
    guessed = result["tokens"]
    assert 1 < guessed < 50 and f"{guessed} tokens of " in maskwright(*words[:-1])[1].splitlines()[0]
    (tmp_path / "one.txt").write_text(documents[0] + "\n", encoding="utf-8")
    code, out, err = maskwright("evaluate", models / "pretrained", tmp_path / "one.txt", "--json")
    assert code == 0 and set(lines_of(out)[0]["metrics"]) == {"mlm_accuracy", "mlm_baseline", "perplexity"}
    assert "one document" in err


# -- fill-mask and next-sentence -----------------------------------------------------------------------------------


def test_fill_mask_gives_candidates_for_every_mask(as_json, maskwright, models):
    text = "the [MASK] sat on the [MASK] ."
    result = as_json("fill-mask", models / "pretrained", text, "--top-k", 3)
    assert [len(mask["predictions"]) for mask in result["masks"]] == [3, 3]
    code, out, _ = maskwright("fill-mask", models / "pretrained", text)
    assert code == 0 and "mask 2 of 2" in out and "filled:" in out


def test_fill_mask_shows_the_whole_vocabulary_or_named_words(maskwright, models):
    _, out, _ = maskwright("fill-mask", models / "pretrained", "a [MASK]", "--all", "--json")
    predictions = lines_of(out)[0]["masks"][0]["predictions"]
    assert len(predictions) == len(tokenizer())
    assert sum(entry["score"] for entry in predictions) == pytest.approx(1.0)
    _, out, _ = maskwright("fill-mask", models / "pretrained", "a [MASK]", "--word", "cat", "--json")
    assert [entry["token_str"] for entry in lines_of(out)[0]["masks"][0]["predictions"]] == ["cat"]


def test_next_sentence_judges_candidates_and_files(maskwright, models, tmp_path):
    first = "the man went to the store ."
    words = ("predict", models / "pretrained")
    seconds = ("--pair", "he bought milk .", "--pair", "penguins are birds .")
    code, out, _ = maskwright(*words, first, first, *seconds, "--json")
    found = lines_of(out)
    assert code == 0 and [row["text_pair"] for row in found] == ["he bought milk .", "penguins are birds ."]
    assert all(row["label"] == ("IsNext" if row["is_next"] >= 0.5 else "NotNext") for row in found)
    file = labeled(tmp_path / "p.tsv", [(first, row["text_pair"]) for row in found], "text\ttext_pair")
    code, out, _ = maskwright(*words, "--input", file, "--json")
    assert lines_of(out) == found


# -- embed ---------------------------------------------------------------------------------------------------------


def test_embed_writes_a_matrix_in_the_order_of_the_file(maskwright, models, tmp_path):
    texts = [text for text in TEXTS if text]
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    words = ("embed", models / "pretrained", "--layers", "concat-last-4", "--pooling", "max")
    code, out, _ = maskwright(*words, "--input", tmp_path / "in.txt", "--output", tmp_path / "v.npy")
    assert (code, out) == (0, "")
    matrix = np.load(tmp_path / "v.npy", allow_pickle=False)
    assert matrix.shape == (len(texts), 128)
    _, out, _ = maskwright(*words, *texts, "--json")
    assert np.allclose([row["vector"] for row in lines_of(out)], matrix, atol=1e-3)


def test_embed_without_pooling_names_tokens_words_and_places(maskwright, models, tmp_path):
    text = "Help, unbelievably!"
    words = ("embed", models / "pretrained", text, "--pooling", "none")
    _, out, _ = maskwright(*words, "--json")
    tokens = lines_of(out)[0]["tokens"]
    assert [entry["token"] for entry in tokens] == tokenizer()(text).tokens
    assert all(text[entry["start"] : entry["end"]] == entry["word"] for entry in tokens)
    _, out, _ = maskwright(*words, "--words", "--json")
    assert [entry["word"] for entry in lines_of(out)[0]["tokens"]] == ["Help", ",", "unbelievably", "!"]
    _, out, _ = maskwright(*words, "--words", "--pieces", "first", "--json")
    first = {entry["word"]: entry["vector"] for entry in tokens[::-1]}
    assert all(entry["vector"] == first[entry["word"]] for entry in lines_of(out)[0]["tokens"])
    code, _, _ = maskwright(*words, "--output", tmp_path / "t.npy")
    lines = lines_of((tmp_path / "t.tokens.jsonl").read_text(encoding="utf-8"))
    assert code == 0 and len(lines) == len(np.load(tmp_path / "t.npy")) == len(tokens)


# -- rejected input ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["predict", "{mask}", "text"], "fill-mask"),
        (["evaluate", "{pretrained}", "{rows.tsv}"], "finetune classification --model"),
        (["evaluate", "{bare}", "x.tsv"], "search or finetune"),
        (["fill-mask", "{tickets}", "a [MASK]"], "predict"),
        (["predict", "{tickets}", "a", "--pair", "b", "--pair", "c"], "--pair"),
        (["predict", "{tickets}", "--input", "{rows.tsv}", "--pair", "b"], "--input"),
        (["predict", "{tickets}", "a", "--output", "out.xlsx"], ".jsonl"),
        (["embed", "{tickets}", "a", "--pieces", "first"], "--words"),
        (["predict", "{pretrained}", "one"], "--pair"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(refused, models, words, sentence):
    places = {f"{{{path.name}}}": str(path) for path in models.iterdir()}
    refused(sentence, *[places.get(word, word) for word in words])


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode_gets_valid_json_and_tables(models, monkeypatch, encoding):
    for words in (["--json"], []):
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "argv", ["maskwright", "predict", str(models / "tickets"), "caf\u00e9 \u732b", *words])
        with pytest.raises(SystemExit) as exit_of_program:
            main()
        stream.flush()
        assert not exit_of_program.value.code
        shown = stream.buffer.getvalue().decode(encoding)
        assert not words or json.loads(shown)["text"] == "caf\u00e9 \u732b"
