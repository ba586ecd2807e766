"""A fine-tuning run as a user meets it: what it learns, its defaults, and its baseline."""

import json

import pytest
import torch

import maskwright as mw
from inference.samples import tiny
from maskwright.core import registry, storage
from maskwright.core.errors import CorruptFileError, InputError, RowErrors
from maskwright.core.storage import accept
from maskwright.hub.published import inherited_settings, recommended_lr
from maskwright.train.against_baseline import Compared, health_line, worst_level
from maskwright.train.checkpoint import read_weights
from maskwright.train.finetuning.config import FinetuneConfig, epochs_for
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.health import PARTS, compare_pretraining
from train.runs import finetuning, labeled


def test_it_learns_and_leaves_a_model_that_says_the_same(tmp_path):
    result = finetune(finetuning(tmp_path, epochs=6))
    assert result.mean["accuracy"] > 0.9
    assert result.report.is_file()
    classifier = mw.TextClassifier.load(result.model)
    assert classifier.predict(["the red cat was here", "the old river was here"]).tolist() == ["animal", "place"]


def test_seeds_give_mean_and_deviation_and_the_best_is_kept(tmp_path):
    result = finetune(finetuning(tmp_path, seeds=2, epochs=1, lr=5e-4))
    scores = [seed["accuracy"] for seed in result.seeds]
    assert [seed["seed"] for seed in result.seeds] == [0, 1]
    assert result.mean["accuracy"] == pytest.approx(sum(scores) / 2)
    assert result.deviation["loss"] > 0
    best = max(result.seeds, key=lambda seed: seed["accuracy"])
    saved = storage.sha256(result.model / "model.safetensors")
    single = finetune(finetuning(tmp_path, seed=best["seed"], epochs=1, lr=5e-4, output=tmp_path / "single"))
    assert storage.sha256(single.model / "model.safetensors") == saved


def test_the_average_of_the_seeds_is_the_mean_of_their_weights(tmp_path):
    start = finetune(finetuning(tmp_path, epochs=1))
    settings = {"preset": None, "tokenizer": None, "model": str(start.model), "epochs": 1, "lr": 5e-4}
    result = finetune(finetuning(tmp_path, **settings, seeds=2, average_seeds=True, output=tmp_path / "averaged"))
    averaged = mw.load(result.model)
    parts = [read_weights(result.output / f"seed-{seed}" / "best") for seed in range(2)]
    for name, tensor in averaged.state_dict().items():
        torch.testing.assert_close(tensor, torch.stack([part[name] for part in parts]).mean(dim=0), rtol=0, atol=1e-6)
    rows = [line.split("\t") for line in (tmp_path / "dev.tsv").read_text(encoding="utf-8").splitlines()[1:]]
    texts, labels = zip(*rows, strict=True)
    assert result.average is not None
    assert mw.TextClassifier.load(result.model).score(texts, labels) == pytest.approx(result.average["accuracy"])


def test_a_frozen_encoder_stays_as_it_was(tmp_path):
    start = finetune(finetuning(tmp_path, epochs=1))
    frozen = finetune(
        finetuning(
            tmp_path, preset=None, tokenizer=None, model=str(start.model), freeze_encoder=True, output=tmp_path / "f"
        )
    )
    before, after = mw.load(start.model).state_dict(), mw.load(frozen.model).state_dict()
    for name, tensor in before.items():
        is_encoder = name.startswith(("encoder.embeddings", "encoder.layers"))
        assert bool((tensor == after[name]).all()) == is_encoder, name


def test_without_dev_a_tenth_is_set_aside_by_class(tmp_path):
    result = finetune(finetuning(tmp_path, dev=None, epochs=1))
    facts = storage.read_json(result.model / "maskwright.json")
    assert facts["training"]["dev_from_train"] is True


def numbers(path, shift):
    lines = [f"the {'old' if n % 2 else 'red'} cat\t{shift + n % 2}" for n in range(32)]
    path.write_text("text\tscore\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_new_head_starts_at_the_mean_and_a_trained_one_is_kept(tmp_path):
    """With a rate of nearly nothing a run ends where it began."""
    still = {"task": "regression", "epochs": 1, "lr": 1e-12}
    low, high = numbers(tmp_path / "low.tsv", 0.0), numbers(tmp_path / "high.tsv", 7.0)
    first = finetune(finetuning(tmp_path, train=low, dev=low, **still))
    bias = mw.load(first.model).head.classifier.bias.item()
    assert bias == pytest.approx(0.5)
    on = {"preset": None, "tokenizer": None, "train": high, "dev": high, "output": tmp_path / "on"}
    second = finetune(finetuning(tmp_path, model=str(first.model), **on, **still))
    assert mw.load(second.model).head.classifier.bias.item() == pytest.approx(bias)
    regressor = mw.TextRegressor(str(first.model), epochs=1, lr=1e-12).fit(["the old cat", "the red cat"], [7.0, 8.0])
    assert regressor.model_.head.classifier.bias.item() == pytest.approx(bias)
    regressor = mw.TextRegressor(mw.load(first.model), epochs=1, lr=1e-12).fit(["an old cat", "a red cat"], [7.0, 8.0])
    assert regressor.model_.head.classifier.bias.item() == pytest.approx(7.5)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["a cat\tanimal"] * 20, "only the label 'animal'"),
        (["a cat\tanimal", "\tplace", "a tree\t"] * 7, "bad rows"),
        (["\N{GRINNING FACE}\tglad", "\N{CRYING FACE}\tsad"] * 7, "are unknown to the model's tokenizer"),
    ],
)
def test_rows_that_cannot_teach_are_refused_and_leave_nothing(tmp_path, rows, message):
    path = tmp_path / "bad.tsv"
    path.write_text("text\tlabel\n" + "\n".join(rows) + "\n")
    with pytest.raises(InputError, match=message):
        finetune(finetuning(tmp_path, train=path, dev=path))
    assert not (tmp_path / "tuned").exists()


def test_a_dev_label_that_training_does_not_know_is_named_with_its_line(tmp_path):
    config = finetuning(tmp_path)
    with (tmp_path / "dev.tsv").open("a") as handle:
        handle.write("the car was here\tvehicle\n")
    with pytest.raises(RowErrors, match=r"dev\.tsv:26.*vehicle"):
        finetune(config)


# -- Defaults of fine-tuning -----------------------------------------------------------------------------------------

PATHS = {"train": "t.tsv", "output": "run"}


@pytest.fixture
def recommending(tmp_path):
    """A model folder that recommends a learning rate, set by the test."""
    tiny().save(tmp_path / "model")

    def with_value(value):
        path = tmp_path / "model" / "maskwright.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "finetuning": value}))
        accept(tmp_path / "model")
        return str(tmp_path / "model")

    return with_value


@pytest.mark.parametrize(
    ("steps_per_epoch", "expected"), [(1, 10), (9, 10), (10, 10), (12, 9), (33, 4), (34, 3), (1000, 3)]
)
def test_small_data_sets_get_more_epochs(steps_per_epoch, expected):
    assert epochs_for(3, 100, steps_per_epoch) == expected
    assert epochs_for(3, 0, steps_per_epoch) == 3
    assert epochs_for(30, 100, steps_per_epoch) == 30


def test_epochs_that_are_set_are_kept():
    assert FinetuneConfig(**PATHS, model="m").min_steps == 100
    assert FinetuneConfig(**PATHS, model="m", epochs=3).min_steps == 0
    assert FinetuneConfig(**PATHS, model="m", epochs=3, min_steps=50).min_steps == 50
    assert FinetuneConfig(**PATHS, model="m", task="translation").min_steps == 0
    assert FinetuneConfig(**PATHS, model="m", task="anomaly").min_steps == 0


def test_a_run_has_the_epochs_that_it_states_and_resumes(tmp_path, capsys):
    finetuning(tmp_path)
    settings = {**vars(finetuning(tmp_path)), "epochs": None, "min_steps": 10, "output": tmp_path / "run"}
    config = FinetuneConfig(**settings)
    finetune(config)
    assert "3 epochs" not in capsys.readouterr().err  # 4 steps each: three epochs are more than 10 steps
    config = FinetuneConfig(**{**settings, "min_steps": 20, "output": tmp_path / "longer"})
    result = finetune(config)
    assert "5 epochs of 4 steps instead of 3" in capsys.readouterr().err
    steps = [json.loads(line)["step"] for line in (result.output / "seed-0" / "metrics.jsonl").read_text().splitlines()]
    assert max(steps) == 20
    assert finetune(config).already_finished


def test_a_model_recommends_its_learning_rate(recommending):
    model = recommending({"lr": 4e-4})
    assert recommended_lr(model) == 4e-4 and inherited_settings(model) == {"finetuning": {"lr": 4e-4}}
    assert FinetuneConfig(**PATHS, model=model).lr == 4e-4
    assert FinetuneConfig(**PATHS, model=model, lr=1e-5).lr == 1e-5
    assert FinetuneConfig(**PATHS, model=model, adapter="lora").lr == 2e-3
    assert FinetuneConfig(**PATHS, model=model, task="anomaly").lr == 1e-3  # only the head is trained
    assert mw.TextClassifier(model)._lr() == 4e-4
    assert mw.TextClassifier(model, lr=1e-5)._lr() == mw.TextClassifier(model, learning_rate=1e-5)._lr() == 1e-5
    assert mw.TextClassifier(model, adapter="lora")._lr() == 2e-3


@pytest.mark.parametrize("value", ["fast", {"lr": 0}, {"lr": "1e-4"}, {"lr": True}, {}, {"lr": 3.0}])
def test_a_damaged_recommendation_is_an_error(recommending, value):
    with pytest.raises(CorruptFileError, match="'finetuning' needs a learning rate"):
        FinetuneConfig(**PATHS, model=recommending(value))


def test_the_estimator_trains_as_long_as_the_command(tmp_path):
    rows = [line.split("\t") for line in labeled(tmp_path / "t.tsv", 64, 1).read_text().splitlines()[1:]]
    tiny().save(tmp_path / "model")
    texts, labels = zip(*rows, strict=True)
    short = {"batch_size": 16, "max_length": 16, "precision": "fp32"}
    assert mw.TextClassifier(tmp_path / "model", **short).fit(texts, labels).fit_result_.steps == 40


# -- Every training says in one line whether it beats its trivial baseline -------------------------------------------

FLAT = {"mlm_accuracy": 0.05, "mlm_loss": 6.0, "nsp_accuracy": 0.5}


@pytest.mark.parametrize(
    ("score", "baseline", "level"),
    [(0.5, 0.2, "good"), (0.205, 0.2, "bad"), (0.0, 0.0, "bad"), (1.0, 0.995, "watch"), (0.1, 0.4, "bad")],
)
def test_a_score_is_good_only_above_its_baseline(score, baseline, level):
    one = Compared("entity_f1", score, baseline, "each word's most common tag")
    assert one.level == level
    line = health_line([one])
    assert line.startswith(f"health: {level} (entity_f1 {score:.4f}, ") and f"{baseline:.4f}" in line
    assert "\n" not in line and ("--lr" in line) == (level == "bad")
    assert Compared.from_json(json.loads(json.dumps(one.to_json()))) == one


def test_several_tasks_are_as_bad_as_the_worst():
    good, bad = Compared("f1", 0.9, 0.1, "x"), Compared("f1", 0.1, 0.1, "y")
    assert worst_level([good, bad]) == "bad" and worst_level([good, good]) == "good"
    assert health_line({"a": good, "b": bad}).startswith("health: bad (a: f1 0.9000, better than x: 0.1000; b: f1 0.1")


@pytest.mark.parametrize("objective", registry.names("objective"))
def test_every_part_of_every_objective_has_a_baseline(objective):
    parts = set(registry.resolve("objective", objective).parts)
    compared = {one.metric for one in compare_pretraining({f"{part}_accuracy": 0.3 for part in parts}, FLAT)}
    assert compared == {f"{part}_accuracy" for part in parts & PARTS.keys()}
    assert parts - PARTS.keys() <= {"backward"}, "which is scored as clm is, from the other end"


@pytest.fixture(scope="module")
def entities(tmp_path_factory):
    """Names that their words give away, and a model that has had no time to learn them."""
    folder = tmp_path_factory.mktemp("entities")
    finetuning(folder)
    lines = [f"{name}\tB-PER\nsat\tO\nhere\tO\n" for name in ("john", "mary", "anna", "paul") * 10]
    (folder / "rows.conll").write_text("\n".join(lines))
    return folder


def run_of(folder, name):
    rows = folder / "rows.conll"
    settings = {"task": "tagging", "train": rows, "dev": rows, "epochs": 1, "max_length": 16, "lr": 1e-9}
    return finetuning(folder, **settings, output=folder / name)


def test_a_tagger_that_finds_nothing_is_bad(entities):
    result = finetune(run_of(entities, "run"))
    assert result.baseline is not None
    assert (result.baseline.metric, result.baseline.baseline) == ("entity_f1", 1.0)
    assert result.baseline.score == result.mean["entity_f1"] < 0.99
    assert result.baseline.level == "bad"
    assert "no better than each word" in (entities / "run" / "report.html").read_text()
