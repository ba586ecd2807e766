"""Reranking by a classifier of pairs: the class of relevant pairs decides, wherever it is among the outputs."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import torch

from hub.folder_tools import foreign
from maskwright import api
from maskwright.doctor.model import accept_model
from minilm import minilm_folder
from serve.in_thread import serving
from studio.models import write

HERE = {"device": "cpu", "precision": "fp32"}
QUERY, DOCUMENTS = "the cat sat", ["dogs chase cats", "rain", "the cat sat on the mat .", "a mat", "london"]
MODELS = {
    "first": (["entailment", "not_entailment"], {}),
    "last": (["irrelevant", "relevant"], {}),
    "three": (["contradiction", "entailment", "neutral"], {}),
    "stars": (["good", "bad"], {"relevant": "good"}),
    "unknown": (["good", "bad"], {}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rerank")
    found = {}
    for name, (labels, facts) in MODELS.items():
        given = {"task": "classification", "labels": labels, **facts}
        found[name] = write(folder / name, "classification", given, labels=labels)
    found["number"] = write(folder / "number", "regression", {"task": "regression"})
    return found


@pytest.fixture(scope="module")
def ranking(folders):
    with serving(model=tuple(f"{name}={folder}" for name, folder in folders.items()), access_log=False) as found:
        yield found


@pytest.mark.parametrize(("name", "relevant"), [("last", 1), ("three", 1), ("stars", 0)])
def test_the_relevant_class_decides(ranking, folders, name, relevant):
    pairs = [(QUERY, text) for text in DOCUMENTS]
    logits = api.open_predictor(folders[name], **HERE).logits(pairs)
    expected = logits.double().softmax(dim=-1)[:, relevant].numpy()
    found = ranking.post(f"/models/{name}/rerank", {"query": QUERY, "texts": DOCUMENTS}).json()
    assert [one["index"] for one in found] == np.argsort(-expected).tolist()
    assert [one["score"] for one in found] == pytest.approx(np.sort(expected)[::-1], abs=1e-5)
    raw = ranking.post(f"/models/{name}/rerank", {"query": QUERY, "texts": DOCUMENTS, "raw_scores": True}).json()
    assert torch.tensor([one["score"] for one in raw]).sigmoid().tolist() == pytest.approx(
        [one["score"] for one in found], abs=1e-5
    )
    asked = {"model": name, "query": QUERY, "documents": DOCUMENTS}
    assert [one["index"] for one in ranking.post("/v1/rerank", asked).json()["results"]] == [
        one["index"] for one in found
    ]


@pytest.mark.compatibility(
    "text-embeddings-inference 1.9.3",
    theirs="/rerank answers only for models with one output; its source has no choice among several classes",
    ours="/rerank takes one output too, and of a classifier of pairs the class that is named or declared relevant",
)
def test_a_number_is_the_score(ranking, folders):
    expected = api.open_predictor(folders["number"], **HERE).logits([(QUERY, text) for text in DOCUMENTS])[:, 0]
    found = ranking.post("/models/number/rerank", {"query": QUERY, "texts": DOCUMENTS}).json()
    assert [one["score"] for one in found] == pytest.approx(sorted(expected.tolist(), reverse=True), abs=1e-5)


IDENTITY, SIGMOID = "torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Sigmoid"


@pytest.mark.compatibility(
    "text-embeddings-inference 1.9.3",
    theirs="/rerank gives the sigmoid of one output, whatever its folder stores, and with raw_scores the logit",
    ours="the same, but a stored Identity keeps the logit, and a regression model trained here its number",
)
@pytest.mark.parametrize(
    ("file", "content", "is_sigmoid"),
    [
        (None, {}, True),
        ("config_sentence_transformers.json", {"model_type": "CrossEncoder", "activation_fn": IDENTITY}, False),
        ("config.json", {"sentence_transformers": {"activation_fn": IDENTITY}}, False),
        ("config.json", {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}, None),
    ],
)
def test_one_output_of_a_cross_encoder_has_the_stored_activation(tmp_path, file, content, is_sigmoid):
    folder = foreign(write(tmp_path / "m", "regression", {}), settings={"problem_type": None})
    if file is not None:
        known = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
        (folder / file).write_text(json.dumps(known | content))
    logits = api.open_predictor(folder, **HERE).logits([(QUERY, text) for text in DOCUMENTS])[:, 0].double()
    with serving(model=(f"m={folder}",), access_log=False) as server:
        asked = {"query": QUERY, "texts": DOCUMENTS}
        found = server.post("/rerank", asked)
        if is_sigmoid is None:
            assert found.status == 424
            assert "Tanh" in json.dumps(found.json())
            return
        raw = server.post("/rerank", asked | {"raw_scores": True}).json()
        other = server.post("/v1/rerank", {"model": "m", "query": QUERY, "documents": DOCUMENTS}).json()["results"]
    wanted = (logits.sigmoid() if is_sigmoid else logits).sort(descending=True)
    assert [one["index"] for one in found.json()] == wanted.indices.tolist()
    assert [one["score"] for one in found.json()] == pytest.approx(wanted.values.tolist(), abs=1e-5)
    assert [one["score"] for one in raw] == pytest.approx(logits[wanted.indices].tolist(), abs=1e-5)
    assert [one["relevance_score"] for one in other] == pytest.approx(wanted.values.tolist(), abs=1e-5)


@pytest.mark.parametrize(("path", "status"), [("/models/unknown/rerank", 424), ("/v1/rerank", 400)])
def test_classes_without_a_known_meaning_are_refused_with_the_remedy(ranking, path, status):
    asked = {"query": QUERY, "texts": DOCUMENTS}
    if path == "/v1/rerank":
        asked = {"model": "unknown", "query": QUERY, "documents": DOCUMENTS}
    found = ranking.post(path, asked)
    assert found.status == status
    assert all(word in json.dumps(found.json()) for word in ("unknown", "good, bad", "relevant", "maskwright.json"))


@pytest.mark.slow
def test_a_cross_encoder_trained_on_qnli_puts_the_answer_first(data_folder, tmp_path):
    """Of 40 questions with the sentence that answers each, and nine that answer others; trained on such pairs too."""
    from maskwright import TextClassifier

    def answered(name, most):
        with (data_folder / "qnli" / name).open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            return [(row["question"], row["sentence"]) for row in rows if row["label"] == "entailment"][:most]

    right = answered("train.tsv", 500)
    wrong = [(right[place - 7][0], sentence) for place, (_, sentence) in enumerate(right)]
    model = TextClassifier(str(minilm_folder()), epochs=2, lr=1e-4, batch_size=16, device="cpu", precision="fp32")
    model.fit(right + wrong, ["entailment"] * len(right) + ["not_entailment"] * len(wrong))
    model.save(tmp_path / "m")
    task = api.open_predictor(tmp_path / "m", **HERE).task
    assert task.labels[task.relevant_number] == "entailment"
    known = {sentence: question for question, sentence in answered("dev.tsv", 200)}  # each answers one question
    pairs = [(question, sentence) for sentence, question in known.items()][:40]
    with serving(model=(f"m={tmp_path / 'm'}",), access_log=False) as server:
        first = 0
        for place, (question, _) in enumerate(pairs):
            texts = [pairs[(place + step) % len(pairs)][1] for step in range(10)]
            first += server.post("/rerank", {"query": question, "texts": texts}).json()[0]["index"] == 0
    assert first >= 30


@pytest.mark.parametrize("foreign", [True, False])
def test_a_folder_can_be_told_its_class_as_the_sentence_says(tmp_path, foreign):
    folder = write(tmp_path / "m", "classification", {"task": "classification"}, labels=["good", "bad"])
    facts = json.loads((folder / "maskwright.json").read_text())
    if foreign:  # as of another program: no manifest, and a file with the entry alone
        (folder / "manifest.json").unlink()
        facts = {}
    (folder / "maskwright.json").write_text(json.dumps(facts | {"relevant": "bad"}))
    if not foreign:
        accept_model(folder)
    with serving(model=(f"m={folder}",), access_log=False) as server:
        found = server.post("/rerank", {"query": QUERY, "texts": DOCUMENTS}).json()
    expected = api.open_predictor(folder, **HERE).logits([(QUERY, text) for text in DOCUMENTS]).softmax(dim=-1)[:, 1]
    assert [one["index"] for one in found] == expected.argsort(descending=True).tolist()


@pytest.mark.compatibility(
    "sentence-transformers 6.2.0",
    theirs="CrossEncoder.rank raises ValueError for a model with two or three classes; only one output ranks",
    ours="/rerank ranks by the class that is named or declared relevant",
)
@pytest.mark.parametrize("name", ["first", "three"])
def test_models_that_cross_encoder_does_not_rank(ranking, folders, name):
    sentence_transformers = pytest.importorskip(
        "sentence_transformers", reason="sentence-transformers is not installed"
    )
    model = sentence_transformers.CrossEncoder(str(folders[name]), device="cpu")
    with pytest.raises(ValueError, match="num_labels"):
        model.rank(QUERY, DOCUMENTS)
    shares = torch.tensor(model.predict([(QUERY, text) for text in DOCUMENTS], apply_softmax=True))
    expected = shares[:, MODELS[name][0].index("entailment")]
    found = ranking.post(f"/models/{name}/rerank", {"query": QUERY, "texts": DOCUMENTS}).json()
    assert [one["index"] for one in found] == expected.argsort(descending=True).tolist()
