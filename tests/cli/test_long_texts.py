"""Long texts through the commands and the estimators: one setting at training, followed everywhere."""

import json

import numpy as np
import pytest

import maskwright as mw
from cli.test_use import lines_of
from inference.samples import TEXTS, tiny, tokenizer
from maskwright.inference.embed import TextEncoder
from maskwright.tasks.examples import compute
from maskwright.tasks.windows import LongTexts, window_rows
from tasks.standins import row

FILLER = "the cat sat on the mat . " * 12
TEXT_OF = {
    "shop": FILLER + "she bought a gallon of milk " + FILLER,
    "bird": FILLER + "penguins flightless birds " + FILLER,
}


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    tiny("pretraining").save(folder / "encoder")
    rows = [f"{text}\t{label}" for label, text in TEXT_OF.items()] * 4 + ["rain fell\tbird", "a\tshop"]
    (folder / "rows.tsv").write_text("\n".join(["text\tlabel", *rows, ""]))
    return folder


def test_the_setting_of_training_is_followed_by_predict_and_evaluate(maskwright, encoder, tmp_path):
    data = ("--train", encoder / "rows.tsv", "--dev", encoder / "rows.tsv", "--device", "cpu", "--precision", "fp32")
    options = ("--long", "windows", "--stride", "4", "--pool", "max", "--max-windows", "5", "--max-length", "24")
    run = tmp_path / "run"
    words = ("finetune", "classification", "--model", encoder / "encoder", *data, *options, "--epochs", "1", "-o", run)
    code, out, err = maskwright(*words, "--json")
    assert code == 0, err
    assert "10 train rows make" in err and "skipped (max_windows)" in err
    facts = json.loads((run / "model" / "maskwright.json").read_text())
    assert facts["long"] == {"stride": 4, "pool": "max", "max_windows": 5}
    page = (run / "report.html").read_text()
    assert "training windows of 24 tokens" in page and "max_windows=5" in page

    code, out, err = maskwright("predict", run / "model", TEXT_OF["bird"], "rain fell", "--json")
    long, short = lines_of(out)
    assert (code, "cut" in err) == (0, False) and long["loudest"]["windows"] > 5 and "loudest" not in short
    shown = TEXT_OF["bird"][long["loudest"]["start"] : long["loudest"]["end"]]
    assert 0 < len(tokenizer()(shown, add_special_tokens=False).ids) <= 22
    _, table, _ = maskwright("predict", run / "model", TEXT_OF["bird"])
    assert f"of {long['loudest']['windows']}, characters" in " ".join(table.split())
    code, out, err = maskwright("predict", run / "model", TEXT_OF["bird"], "--trace")
    assert code == 0 and f"{long['loudest']['windows']}x2" in out

    code, out, err = maskwright("evaluate", run / "model", encoder / "rows.tsv", "--json", "--errors", "3")
    assert (code, json.loads(out)["examples"], json.loads(out)["truncated"]) == (0, 10, 0)
    loaded = mw.TextClassifier.load(run / "model")
    assert (loaded.long, loaded.stride, loaded.pool, loaded.max_windows) == ("windows", 4, "max", 5)
    assert loaded.predict_proba([TEXT_OF["bird"]])[0].tolist() == pytest.approx(list(long["probabilities"].values()))
    answers = tmp_path / "answers.csv"
    code, _, _ = maskwright("predict", run / "model", "--input", encoder / "rows.tsv", "-o", answers)
    assert code == 0 and answers.read_text().startswith("text,label,score")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("classification", "--stride", "4"), "add --long windows"),
        (("classification", "--long", "windows", "--max-windows", "0"), "must be at least 1"),
        (("tagging", "--long", "windows"), "always reads long texts in windows"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(refused, tmp_path, words, said):
    refused(said, "finetune", *words, "--model", "m", "--train", "t.tsv", "-o", tmp_path / "run")


# -- vectors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
@pytest.mark.parametrize("normalize", [True, False])
def test_the_vector_of_a_long_text_is_that_of_its_windows_by_hand(pooling, normalize):
    model, long = tiny(), LongTexts(stride=2)
    texts = [TEXT_OF["shop"], *TEXTS]
    found = TextEncoder(model, pooling=pooling, normalize=normalize, max_length=24, long=long).vectors(texts)
    cut = TextEncoder(model, pooling=pooling, normalize=normalize, max_length=24)
    fits = [len(tokenizer()(text)) <= 24 for text in texts]
    assert np.array_equal(found[fits], cut.vectors(texts)[fits])
    windows = window_rows([row(texts[0])], tokenizer(), 24, long)
    plain = TextEncoder(model, pooling=pooling, max_length=24)
    forward = plain.prepare(["a"]).forward
    parts = [output.numpy() for output in compute(forward, windows.sequences, batch_tokens=1)]
    weights = windows.sequences.lengths
    by_hand = np.max(parts, axis=0) if pooling == "max" else np.average(parts, axis=0, weights=weights)
    if normalize:
        by_hand = by_hand / np.linalg.norm(by_hand)
    assert len(parts) > 5 and np.allclose(found[0], by_hand, atol=1e-5)


def test_embed_reads_windows(maskwright, encoder):
    text, folder = TEXT_OF["shop"], encoder / "encoder"
    code, out, err = maskwright(
        "embed", folder, text, "--max-length", "24", "--long", "windows", "--stride", "2", "--json"
    )
    assert code == 0 and "truncated" not in err
    by_estimator = mw.Embedder(folder, max_length=24, long="windows", stride=2, precision="fp32").transform([text])
    assert np.allclose(json.loads(out)["vector"], by_estimator[0], atol=0.05)
    _, _, err = maskwright("embed", folder, text, "--max-length", "24", "--json")
    assert "truncated" in err
