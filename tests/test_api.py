"""The Python names: what `mw.load` and `mw.build` give, and opening a folder for each kind of use."""

import pytest
import torch

import maskwright as mw
from inference.samples import TEXTS, tiny
from maskwright import api
from maskwright.core.errors import ConfigError, ModelFolderError
from maskwright.tasks.classification import Classification

LABELS = ["a", "b", "c"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for head in ("mlm", "nsp", "pretraining", "regression"):
        tiny(head).save(root / head, facts={"task": "regression"} if head == "regression" else None)
    facts = {**Classification(LABELS).to_json(), "max_length": 12}
    tiny("classification", labels=LABELS).save(root / "classification", facts=facts)
    tiny().save(root / "bare")
    return root


def test_load_gives_the_stored_head_with_its_tokenizer(folders):
    for head in ("mlm", "nsp", "pretraining", "regression", "classification"):
        model = mw.load(folders / head)
        assert model.head_name == head and not model.training
        assert model.tokenizer.vocab_size == model.config.vocab_size
    assert mw.load(folders / "bare").head_name is None
    assert mw.load(folders / "classification").labels == tuple(LABELS)


def test_heads_can_be_swapped_on_one_encoder(folders):
    stored = mw.load(folders / "pretraining")
    swapped = mw.load(folders / "pretraining", head="classification", labels=["x", "y"], seed=3)
    assert swapped.labels == ("x", "y")
    for mine, theirs in zip(stored.encoder.parameters(), swapped.encoder.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    again = mw.load(folders / "pretraining", head="classification", labels=["x", "y"], seed=3)
    other = mw.load(folders / "pretraining", head="classification", labels=["x", "y"], seed=4)
    assert torch.equal(swapped.head.classifier.weight, again.head.classifier.weight)
    assert not torch.equal(swapped.head.classifier.weight, other.head.classifier.weight)


def test_build_makes_what_a_preset_says():
    model = mw.build(mw.preset("bert-tiny", vocab_size=100), head="mlm", seed=1)
    assert (model.config.hidden_size, model.config.num_hidden_layers) == (128, 2)
    assert model.mlm_logits(torch.zeros(3, 128)).shape == (3, 100)


def test_a_predictor_takes_task_and_length_from_the_folder(folders):
    predictor = api.open_predictor(folders / "classification", precision="fp32")
    assert predictor.task.labels == LABELS and predictor.max_length == 12
    assert api.open_predictor(folders / "classification", max_length=9).max_length == 9
    assert api.open_predictor(folders / "regression").task.name == "regression"


def test_a_folder_that_transformers_wrote_needs_no_facts(folders, tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(
        vocab_size=mw.load(folders / "bare").config.vocab_size,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        id2label={0: "no", 1: "yes", 2: "maybe"},
        label2id={"no": 0, "yes": 1, "maybe": 2},
    )
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path)
    mw.load(folders / "bare").tokenizer.save(tmp_path / "tok")
    for file in (tmp_path / "tok").iterdir():
        if file.name != "manifest.json":
            file.rename(tmp_path / file.name)
    predictor = api.open_predictor(tmp_path)
    assert predictor.task.to_json()["labels"] == ["no", "yes", "maybe"]
    assert len(predictor.predict(TEXTS)) == len(TEXTS)


@pytest.mark.parametrize(
    ("opener", "wrong", "fits"),
    [
        ("open_predictor", "mlm", "fill-mask"),
        ("open_predictor", "bare", "finetune"),
        ("open_mask_filler", "classification", "predict"),
        ("open_mask_filler", "nsp", "next-sentence"),
        ("open_next_sentence", "mlm", "fill-mask"),
        ("open_next_sentence", "regression", "predict"),
    ],
)
def test_the_wrong_kind_of_model_is_refused_with_what_fits_it(folders, opener, wrong, fits):
    with pytest.raises(ModelFolderError, match=fits) as caught:
        getattr(api, opener)(folders / wrong)
    assert str(folders / wrong) in str(caught.value)


def test_every_model_gives_vectors(folders):
    for folder in folders.iterdir():
        assert mw.pipeline(folder, "embed").predict(["a", "b"]).shape == (2, 32)


PAIR = ("the cat sat", "on the mat")


@pytest.mark.parametrize(
    ("model", "task", "inputs", "settings"),
    [
        ("classification", None, ["the cat", PAIR], {}),
        ("classification", "text-classification", ["the cat"], {"min_confidence": 0.9}),
        ("mlm", None, ["the [MASK] sat", "rain [MASK] ."], {}),
        ("nsp", None, [PAIR], {}),
        ("bare", None, ["the cat", "dogs"], {"pooling": "cls"}),
        ("bare", "zero-shot", ["the cat", "dogs"], {"labels": ["animal", "weather"]}),
    ],
)
def test_a_pipeline_answers_at_once_and_as_a_stream_also_from_memory(folders, model, task, inputs, settings):
    opened = mw.pipeline(folders / model, task, precision="fp32", **settings)
    answers = list(opened.predict(inputs))
    assert len(answers) == len(inputs)
    copied = mw.pipeline(mw.load(folders / model), task, precision="fp32", **settings)
    for found in (opened.stream(iter(inputs)), zip(inputs, copied.predict(inputs), strict=True)):
        for (given, streamed), text, answer in zip(found, inputs, answers, strict=True):
            assert getattr(given, "text", given) in (text, text[0]) and str(streamed) == str(answer)


@pytest.mark.parametrize(("task", "settings"), [("fil-mask", {}), ("embed", {"long": "fold"})])
def test_a_task_or_setting_that_does_not_exist_is_refused_before_loading(task, settings):
    with pytest.raises(ConfigError):
        mw.pipeline("no/such/folder", task, **settings)


def test_evaluate_scores_rows_or_text(folders, tmp_path):
    rows = tmp_path / "rows.tsv"
    rows.write_text("text\tlabel\nthe cat sat\ta\nrain fell\tb\ndogs chase cats\tc\n")
    found = mw.evaluate(folders / "classification", rows, errors=1)
    predicted = [answer["label"] for answer in mw.pipeline(folders / "classification").predict(["the cat sat"])]
    assert (found["task"], found["examples"], len(found["errors"])) == ("classification", 3, 1)
    assert found["metrics"]["accuracy"] in (0, 1 / 3, 2 / 3, 1) and predicted[0] in LABELS
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat .\n\nrain fell .\n")
    assert mw.evaluate(folders / "mlm", text)["metrics"]["perplexity"] > 1


def test_facts_of_another_model_are_refused(folders, tmp_path):
    tiny("classification", labels=LABELS).save(tmp_path / "m", facts=Classification(["x", "y"]).to_json())
    with pytest.raises(ModelFolderError, match="do not belong together"):
        api.open_predictor(tmp_path / "m")
