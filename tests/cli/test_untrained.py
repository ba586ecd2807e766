"""A folder without the weights of its head: answers are refused, unless one asks for random ones; training starts."""

import json

import pytest

from hub.folder_tools import CONFIG, foreign, make
from maskwright import api
from maskwright.core.errors import ModelFolderError
from maskwright.estimators.finetuned import TextClassifier
from maskwright.hub.folders import load_model
from maskwright.serve.models import load_served
from maskwright.serve.settings import ServeSettings
from maskwright.text.tokenizers.tokenizer import Tokenizer

LABELS = ["ham", "spam", "other"]
ENCODER = ("bert.", "encoder.")


@pytest.fixture
def headless(tmp_path):
    def write(head, **options):
        model = make(head, CONFIG, **options)
        model.tokenizer = Tokenizer.train_from_iterator(["a small text, and another one"] * 3, vocab_size=60)
        model.save(tmp_path / head)
        return foreign(tmp_path / head, lambda stored: {n: t for n, t in stored.items() if n.startswith(ENCODER)})

    return write


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="A pipeline answers from a randomly initialized head; a warning on standard error is the only sign.",
    ours="a folder without weights of its head is rejected, unless --untrained (untrained=True in Python) is given.",
)
def test_an_answer_needs_trained_weights(headless, maskwright, tmp_path):
    folder = headless("classification", labels=LABELS)
    (tmp_path / "dev.csv").write_text("text,label\na text,ham\nanother,spam\nsmall,other\n")
    for words in (["predict", folder, "a text"], ["evaluate", folder, tmp_path / "dev.csv"]):
        code, out, said = maskwright(*words, "--json")
        assert code == 2 and not out and "classifier.weight" in said and "--untrained" in said
        code, out, said = maskwright(*words, "--json", "--untrained")
        assert code == 0 and json.loads(out) and "randomly initialized" in said
    code, out, _ = maskwright("predict", folder, "a text", "--json", "--untrained")
    assert json.loads(out)["label"] in LABELS  # the class names of config.json are kept


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("qa", ["answer", "--question", "a", "--context", "a small text"]),
        ("tagging", ["predict", "a text"]),
        ("mlm", ["fill-mask", "a [MASK] text"]),
        ("nsp", ["predict", "a text", "--pair", "another"]),
    ],
)
def test_every_command_that_answers_refuses(head, words, headless, maskwright, refused):
    folder = headless(head, **({"labels": ["O", "B-X"]} if head == "tagging" else {}))
    refused("no weights for", words[0], folder, *words[1:])
    if words[0] in ("answer", "predict"):
        assert maskwright(words[0], folder, *words[1:], "--untrained")[0] == 0


def test_python_and_the_server_refuse_too(headless):
    folder = str(headless("classification", labels=LABELS))
    settings = {"models": (folder,), "device": "cpu", "precision": "fp32", "port": 0}
    for refused in (
        lambda: api.open_predictor(folder),
        lambda: TextClassifier.load(folder),
        lambda: load_served(ServeSettings(**settings)),
    ):
        with pytest.raises(ModelFolderError, match=r"classifier\.weight.*untrained"):
            refused()
    assert api.open_predictor(folder, device="cpu", untrained=True).model.labels == tuple(LABELS)
    assert list(TextClassifier.load(folder, untrained=True, device="cpu").classes_) == LABELS
    load_served(ServeSettings(**settings, untrained=True))


def test_embeddings_and_training_need_no_head(headless, maskwright, tmp_path):
    folder = headless("classification", labels=LABELS)
    assert api.open_embedder(folder, device="cpu").vectors(["a text"]).shape == (1, CONFIG.hidden_size)
    rows = "".join(f"a {word},ham\nanother {word},spam\n" for word in "abcdefghijklmn")
    (tmp_path / "train.csv").write_text("text,label\n" + rows)
    words = ("finetune", "classification", "--model", folder, "--train", tmp_path / "train.csv", "-o", tmp_path / "run")
    code, _, said = maskwright(*words, "--epochs", "1", "--max-length", "16", "--quiet")
    assert code == 0, said
    assert load_model(tmp_path / "run/model")[0].labels == ("ham", "spam")
