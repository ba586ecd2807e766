"""Reranking by a classifier of pairs: the class of relevant pairs decides, wherever it is among the outputs."""

import csv
import json

import numpy as np
import pytest
import torch

from hub.folder_tools import foreign
from maskwright import api
from maskwright.doctor.model import accept_model
from maskwright.models.build import build
from maskwright.models.model import LateInteraction, SentenceSettings
from serve.in_thread import serving
from studio.models import network, tokenizer, write

HERE = {"device": "cpu", "precision": "fp32"}
QUERY, DOCUMENTS = "the cat sat", ["dogs chase cats", "rain", "the cat sat on the mat .", "a mat", "london"]
MODELS = {
    "first": (["entailment", "not_entailment"], {}),
    "last": (["irrelevant", "relevant"], {}),
    "three": (["contradiction", "entailment", "neutral"], {}),
    "stars": (["good", "bad"], {"relevant": "good"}),
    "unknown": (["good", "bad"], {}),
}
IDENTITY = "torch.nn.modules.linear.Identity"
CROSS_ENCODERS = {  # of another program: file, its entries, whether the score is the sigmoid (None: refused)
    "plain": (None, {}, True),
    "trained": (None, {}, True),  # here, as a cross-encoder
    "sentence": ("config_sentence_transformers.json", {"model_type": "CrossEncoder", "activation_fn": IDENTITY}, False),
    "config": ("config.json", {"sentence_transformers": {"activation_fn": IDENTITY}}, False),
    "tanh": ("config.json", {"sentence_transformers": {"activation_fn": "torch.nn.modules.activation.Tanh"}}, None),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rerank")
    found = {}
    for name, (labels, facts) in MODELS.items():
        given = {"task": "classification", "labels": labels, **facts}
        found[name] = write(folder / name, "classification", given, labels=labels)
    found["number"] = write(folder / "number", "regression", {"task": "regression"})
    for name, (file, content, _) in CROSS_ENCODERS.items():
        if name == "trained":
            found[name] = write(folder / name, "regression", {"task": "regression", "scale": [0.0, 5.0]})
            continue
        found[name] = foreign(write(folder / name, "regression", {}), settings={"problem_type": None})
        if file is not None:
            known = json.loads((found[name] / file).read_text()) if (found[name] / file).is_file() else {}
            (found[name] / file).write_text(json.dumps(known | content))
    late = build(network(), seed=3)
    settings = LateInteraction(query_length=8, fill_to=8, skipped=(".",))
    late.tokenizer, late.sentence = tokenizer(), SentenceSettings(normalize_tokens=True, late=settings)
    late.save(folder / "late")
    found["late"] = folder / "late"
    for name in ("told", "told-foreign"):  # its class, as the sentence says
        found[name] = write(folder / name, "classification", {"task": "classification"}, labels=["good", "bad"])
        facts = json.loads((found[name] / "maskwright.json").read_text())
        if name == "told-foreign":  # as of another program: no manifest, and a file with the entry alone
            (found[name] / "manifest.json").unlink()
            facts = {}
        (found[name] / "maskwright.json").write_text(json.dumps(facts | {"relevant": "bad"}))
    accept_model(found["told"])
    return found


@pytest.fixture(scope="module")
def ranking(folders):
    with serving(model=tuple(f"{name}={folder}" for name, folder in folders.items()), access_log=False) as found:
        yield found


@pytest.mark.parametrize(
    ("name", "relevant"), [("last", 1), ("three", 1), ("stars", 0), ("told", 1), ("told-foreign", 1)]
)
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


def test_late_interaction_ranks_by_maxsim(ranking, folders):
    expected = api.open_late_encoder(folders["late"], **HERE).scores([QUERY], DOCUMENTS)[0]
    found = ranking.post("/models/late/rerank", {"query": QUERY, "texts": DOCUMENTS}).json()
    assert [one["index"] for one in found] == np.argsort(-expected).tolist()
    assert [one["score"] for one in found] == pytest.approx(np.sort(expected)[::-1], abs=1e-4)
    refused = ranking.post("/models/late/embed", {"inputs": QUERY})
    assert refused.status == 424 and "/rerank" in refused.json()["error"]
    described = {one["model_id"]: one for one in ranking.get("/info").json()["models"]}["late"]
    assert described["model_type"] == {"embedding": {"pooling": "none"}}


@pytest.mark.compatibility(
    "text-embeddings-inference 1.9.3",
    theirs="/rerank gives the sigmoid of one output, whatever its folder stores, and with raw_scores the logit",
    ours="the same, but a stored Identity keeps the logit, and a regression model trained here its number",
)
@pytest.mark.parametrize("name", list(CROSS_ENCODERS))
def test_one_output_of_a_cross_encoder_has_the_stored_activation(ranking, folders, name):
    is_sigmoid = CROSS_ENCODERS[name][2]
    logits = api.open_predictor(folders[name], **HERE).logits([(QUERY, text) for text in DOCUMENTS])[:, 0].double()
    asked = {"query": QUERY, "texts": DOCUMENTS}
    found = ranking.post(f"/models/{name}/rerank", asked)
    if is_sigmoid is None:
        assert found.status == 424 and "Tanh" in json.dumps(found.json())
        return
    raw = ranking.post(f"/models/{name}/rerank", asked | {"raw_scores": True}).json()
    other = ranking.post("/v1/rerank", {"model": name, "query": QUERY, "documents": DOCUMENTS}).json()["results"]
    wanted = (logits.sigmoid() if is_sigmoid else logits).sort(descending=True)
    assert [one["index"] for one in found.json()] == wanted.indices.tolist()
    for scores, expected in (
        ([one["score"] for one in found.json()], wanted.values),
        ([one["score"] for one in raw], logits[wanted.indices]),
        ([one["relevance_score"] for one in other], wanted.values),
    ):
        assert scores == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize(("path", "status"), [("/models/unknown/rerank", 424), ("/v1/rerank", 400)])
def test_classes_without_a_known_meaning_are_refused_with_the_remedy(ranking, path, status):
    asked = {"query": QUERY, "texts": DOCUMENTS}
    if path == "/v1/rerank":
        asked = {"model": "unknown", "query": QUERY, "documents": DOCUMENTS}
    found = ranking.post(path, asked)
    assert found.status == status
    assert all(word in json.dumps(found.json()) for word in ("unknown", "good, bad", "relevant", "maskwright.json"))


@pytest.mark.slow
def test_the_built_in_entailment_model_ranks_answers(data_folder):
    """Of 24 questions with the sentence that answers each, and seven that answer others: 3 would be first by chance."""
    with (data_folder / "qnli" / "dev.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    known = {row["sentence"]: row["question"] for row in rows if row["label"] == "entailment"}
    texts, questions = list(known)[:24], list(known.values())[:24]
    with serving(model=("m=english-entailment",), access_log=False) as server:
        first = 0
        for place, question in enumerate(questions):
            asked = {"query": question, "texts": [*texts[place:], *texts[:place]][:8]}
            first += server.post("/rerank", asked).json()[0]["index"] == 0
    assert first >= 8


@pytest.mark.slow
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
