"""The page Data set: each row is scored as Python scores it, in parts; a corrected label changes nothing else."""

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'studio' is not installed")

from maskwright.api import open_predictor
from maskwright.hub.published import MANIFESTS
from maskwright.inference.cluster import cluster_vectors
from maskwright.studio import files as labeled_files
from maskwright.studio import files as text_files
from maskwright.studio.files import Uploads
from maskwright.studio.model_registry import load_models
from studio.models import write_classifier, write_masked, write_tagger
from studio.serving import serving

ROWS = b'text,label\n"the cat, again",animal\nthe river rose,place\ndogs in london,animal\n'
WORDS = b"Ada B-PER\nin O\nLondon B-LOC\n\nthe O\ncat O\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = [write_classifier(folder / "classes"), write_tagger(folder / "names"), write_masked(folder / "masked")]
    with serving(tmp_path_factory.mktemp("runs"), *models) as found:
        yield found


def uploaded(served, data, ending):
    headers = {"Cookie": served.cookie, "Origin": served.origin}
    return served.request("POST", f"/api/train/upload?ending={ending}", data, headers).json()["file"]


def test_rows_are_scored_as_in_python(served, tmp_path, monkeypatch):
    file = uploaded(served, ROWS, ".csv")
    (tmp_path / "rows.csv").write_bytes(ROWS)
    predictor = open_predictor(served.studio.models["classes"].source, device="cpu", precision="fp32")
    table = predictor.task.read_known(tmp_path / "rows.csv")
    _, evaluation = predictor.evaluate(table.rows)
    expected = predictor.predict([row.text for row in table.rows])
    monkeypatch.setattr(labeled_files, "PART_ROWS", 2)
    monkeypatch.setattr(labeled_files, "PART_SECONDS", 1e-9)  # one block a request
    rows = []
    while len(rows) < 3:
        found = served.post("/api/data", {"model": "classes", "file": file, "start": len(rows)}).json()
        assert found["total"] == 3 and found["labels"] == predictor.task.labels and len(found["rows"]) <= 2
        rows += found["rows"]
    assert [row["predicted"] for row in rows] == [one["label"] for one in expected]
    assert [row["score"] for row in rows] == pytest.approx([one["score"] for one in expected], abs=1e-6)
    assert [row["line"] for row in rows] == [2, 3, 4]
    assert [row["right"] for row in rows] == [row["gold"] == row["predicted"] for row in rows]
    assert sum(row["loss"] for row in rows) / 3 == pytest.approx(evaluation.loss, abs=1e-5)
    assert rows[0]["split"] == pytest.approx(1 / 4)  # of the, cat, the comma and again only the last is several tokens


def test_clusters_are_those_of_the_embeddings(served, monkeypatch):
    rows = ROWS + b"".join(b"the cat number %d,animal\n" % number for number in range(9))
    file = uploaded(served, rows, ".csv")
    monkeypatch.setattr(text_files, "PART_SECONDS", 0)
    monkeypatch.setattr(text_files, "BLOCK_TEXTS", 5)
    parts = [served.post("/api/data/clusters", {"model": "classes", "file": file}).json() for _ in range(3)]
    assert [part["done"] for part in parts] == [5, 10, 12] and parts[1]["groups"] is None
    texts = [row.text for row in served.studio.labeled.rows(served.studio.models["classes"], file, {})]
    expected = cluster_vectors(served.studio.models["classes"].encoder().vectors(texts), texts)
    assert parts[2]["groups"] == expected.groups.tolist() and len(parts[2]["names"]) == len(expected.clusters)


def test_words_are_pairs_of_gold_and_predicted_tags(served):
    file = uploaded(served, WORDS, ".conll")
    first, _ = served.post("/api/data", {"model": "names", "file": file}).json()["rows"]
    expected = served.studio.models["names"].predictor.predict([first["text"]])[0]["tags"]
    assert first["words"] == ["Ada", "in", "London"]
    assert first["pairs"] == [[gold, tag] for gold, tag in zip(["B-PER", "O", "B-LOC"], expected, strict=True)]


def test_a_corrected_file_differs_in_its_labels_alone(served):
    def corrected(model, data, ending, *labels):
        asked = {"model": model, "file": uploaded(served, data, ending), "labels": list(labels)}
        return served.post("/api/data/corrected", asked)

    fixed = corrected("classes", ROWS, ".csv", {"line": 2, "label": "place"})
    assert fixed.body == ROWS.replace(b'"the cat, again",animal', b'"the cat, again",place')
    word = corrected("names", WORDS, ".conll", {"line": 1, "word": 2, "label": "O"})
    assert word.body == WORDS.replace(b"London B-LOC", b"London O")
    for model, data, ending, label in (
        ("classes", ROWS, ".csv", {"line": 9, "label": "place"}),
        ("names", WORDS, ".conll", {"line": 1, "label": "O"}),
        ("names", WORDS, ".conll", {"line": 1, "word": 3, "label": "O"}),
    ):
        refused = corrected(model, data, ending, label)
        assert refused.status == 422 and "is not a row of this file" in refused.json()["error"]


def test_without_a_file_the_sample_with_the_labels_of_the_model(served):
    assert served.post("/api/data", {"model": "classes"}).json()["total"] == 0
    refused = served.post("/api/data/corrected", {"model": "classes", "labels": [{"line": 1, "label": "place"}]})
    assert refused.json()["error"] == "Select a labeled file first."


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MANIFESTS) - {"english"}))
def test_every_built_in_model_has_a_sample_with_errors_to_look_at(name):
    (model,) = load_models([name], "cpu", "fp32")
    rows = labeled_files.LabeledFiles(Uploads(Path("none"))).rows(model, "", {})
    scored = labeled_files.score_rows(model, rows)
    wrong = [row for row in scored if not row["right"]]
    assert rows and len(scored) == len(rows) and 1 <= len(wrong) < len(rows)


def test_bad_files_are_one_sentence(served):
    unknown = served.post("/api/data", {"model": "classes", "file": uploaded(served, b"text\tlabel\na\tx\n", ".tsv")})
    assert unknown.status == 422 and "contains the labels x" in unknown.json()["error"]
    assert "uploads" not in unknown.json()["error"]
    mixed = served.post("/api/data", {"model": "classes", "file": uploaded(served, ROWS + b"a,x\n,place\n", ".csv")})
    assert [row["line"] for row in mixed.json()["rows"]] == [5, 6]
    asked = {"model": "classes", "file": uploaded(served, ROWS + b"a,x\n,place\n", ".csv"), "skip_bad_rows": True}
    assert served.post("/api/data", asked).json()["total"] == 3
    masked = served.post("/api/data", {"model": "masked"})
    assert masked.json()["error"] == "masked is a masked language model, which does not do this."
