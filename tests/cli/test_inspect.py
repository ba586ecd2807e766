"""`maskwright inspect` and its probes: tables, only JSON on standard output, a page, and error messages."""

import json
from pathlib import Path

import numpy as np
import pytest

from inference.samples import TEXTS, tiny
from looked_at import translator
from maskwright.inspect import attention, probe, read_labeled

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "bare"
    tiny().save(folder)
    return folder


@pytest.fixture(scope="module")
def translation_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "translator"
    translator().save(folder)
    return folder


def test_one_head_is_printed_as_a_table_whose_rows_sum_to_one(maskwright, model):
    code, out, _ = maskwright("inspect", model, TEXT, "--layers", "2", "--heads", "3")
    weights = attention(tiny(), TEXT).main.of(2, 3)
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("cat ")]
    assert code == 0 and row[1:-1] == [f"{value:.2f}" for value in weights[2]] and row[-1] == "1.00"


def test_json_holds_weights_where_layers_or_heads_are_chosen(maskwright, model):
    code, out, _ = maskwright("inspect", model, TEXT, "--layers", "1,3-4", "--heads", "2", "--json")
    (found,) = json.loads(out)["maps"]
    assert code == 0 and (found["layers"], found["heads"]) == ([1, 3, 4], [2])
    np.testing.assert_allclose(found["weights"], attention(tiny(), TEXT).main.weights[[0, 2, 3]][:, [1]], atol=1e-5)
    _, out, _ = maskwright("inspect", model, TEXT, "--json")
    assert "weights" not in json.loads(out)["maps"][0]


def test_heads_are_searched_by_pattern_and_from_word_to_word(as_json, model):
    first, second = as_json("inspect", model, TEXT, "--find", "previous token", "--find", "cat -> mat", "--top", "3")[
        "found"
    ]
    assert (first["pattern"], second["pattern"]) == ("previous token", "cat -> mat")
    assert len(second["heads"]) == 3 and second["heads"][0]["score"] >= second["heads"][2]["score"]


def test_which_head_moves_most_between_two_sentences(as_json, maskwright, model):
    asked = ("inspect", model, TEXT, "--against", "the cat sat in the mat")
    found = as_json(*asked, "--word", "cat")["moves"]
    assert found["word"] == "cat" and found["heads"][0].keys() >= {"layer", "head", "distance"}
    code, out, _ = maskwright(*asked)
    assert code == 0 and "largest attention changes" in out


def test_a_translation_is_shown_with_its_target_given_or_written(maskwright, translation_model, tmp_path):
    given = ("--target", "rain fell", "--kind", "cross", "--layers", "1", "--json")
    code, out, _ = maskwright("inspect", translation_model, TEXT, *given)
    found = json.loads(out)
    assert (
        code == 0
        and found["target"] == "given"
        and [one["kind"] for one in found["maps"]] == ["encoder", "decoder", "cross"]
    )
    code, out, _ = maskwright("inspect", translation_model, TEXT, "--json", "-o", tmp_path / "t.html", "--quiet")
    assert code == 0 and json.loads(out)["target"] == "written"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--layers", "5"], "There is no layer 5: the model has layers 1 to 4"),
        (["--find", "previus token"], "attention pattern"),
        (["--find", "cat -> tree"], "'tree' is not in the text"),
        (["--against", "x", "--against-model", "y"], "not both"),
        (["--kind", "cross"], "kind of attention"),
        (["-o", "picture.png"], "use .html or .json"),
    ],
)
def test_refusals_are_one_sentence(refused, model, words, message):
    refused(message, "inspect", model, TEXT, *words)


def test_a_checkpoint_stands_beside_the_model_that_the_run_became(maskwright, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the cat sat on the mat .\ndogs chase cats in the garden .\n\n" * 40, encoding="utf-8")
    sizes = ["hidden_size=16", "num_hidden_layers=2", "num_attention_heads=2", "intermediate_size=24"]
    network = [word for one in sizes for word in ("--set", one)]
    maskwright("pretrain", "--preset", "bert-tiny", *network, "--objective", "mlm", "--vocab-size", 80, "--steps", 8,
               "--checkpoint-every", 4, "--keep", 3, "--batch-tokens", 256, "--max-length", 32, "--precision", "fp32",
               "--quiet", "-o", tmp_path / "run", corpus)  # fmt: skip
    steps = tmp_path / "run" / "checkpoints"
    asked = ("inspect", tmp_path / "run/model", TEXT, "--json", "--against-model")
    early, late = (json.loads(maskwright(*asked, steps / name)[1])["comparison"] for name in ("step-4", "step-8"))
    assert max(one["same_place"] for one in late["heads"]) == 0 < max(one["same_place"] for one in early["heads"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("probe")
    tiny().save(where / "model")
    words = [text.split() for text in TEXTS if text] * 3
    tagged = "\n\n".join("\n".join(f"{word} x {'LONG' if len(word) > 3 else 'SHORT'}" for word in row) for row in words)
    (where / "train.conll").write_text(tagged + "\n", encoding="utf-8")
    rows = [f"{text}\t{'pets' if 'cat' in text else 'other'}" for text in TEXTS if text]
    (where / "texts.tsv").write_text("\n".join(["text\tlabel", *rows * 3]) + "\n", encoding="utf-8")
    return where


def test_the_numbers_are_those_of_python(folder: Path, maskwright):
    columns = {"token": "0", "tag": "2"}
    given = ["--train", folder / "train.conll", "--columns", "token=0,tag=2", "--quiet"]
    code, out, _ = maskwright("probe", folder / "model", *given, "--json", "--seed", 3)
    expected = probe(tiny(), read_labeled(folder / "train.conll", columns=columns), seed=3).to_json()
    found = json.loads(out)
    assert code == 0 and found.keys() == expected.keys() and found["labels"] == ["LONG", "SHORT"]
    for own, other in zip(found["layers"], expected["layers"], strict=True):
        assert own == pytest.approx(other, abs=0.02)
    code, out, _ = maskwright("probe", folder / "model", *given)
    assert code == 0 and "selectivity" in out and "majority label" in out


def test_texts_are_probed_and_drawn(folder: Path, maskwright, tmp_path: Path):
    given = ["--train", folder / "texts.tsv", "--dev", folder / "texts.tsv", "--pooling", "cls", "--most", 20]
    code, out, _ = maskwright("probe", folder / "model", *given, "-o", tmp_path / "p.html", "--quiet")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert code == 0 and "page:" in out
    assert "Selectivity: accuracy minus control" in page and "layer-wise probing of model" in page
    assert page.count('data-chart="lines"') >= 2 and "20" in page


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--train", "nothing.tsv"], "nothing.tsv"),
        (["--train", "{folder}/texts.tsv", "--pooling", "median"], "pooling"),
        (["--train", "{folder}/texts.tsv", "-o", "p.png"], ".html"),
        (["--train", "{folder}/texts.tsv", "--dev", "{folder}/train.conll"], "use one kind for both"),
        (["--train", "{folder}/texts.tsv", "--most", 1], "--most"),
    ],
)
def test_what_cannot_be_probed_is_refused(folder: Path, refused, words: list[object], said: str):
    refused(said, "probe", folder / "model", *(str(word).format(folder=folder) for word in words))
