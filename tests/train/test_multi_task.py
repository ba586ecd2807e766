"""Several tasks on one encoder: turns in proportion to size, one encoder in all folders, exact resume."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

import maskwright as mw
from maskwright.core.errors import ConfigError, InputError, RowErrors
from maskwright.inference.predict import Predictor
from maskwright.tasks.base import task_of_model
from maskwright.train.finetuning.config import MultiTaskConfig, names
from maskwright.train.finetuning.multi_task import MultiTaskSetup, finetune_tasks
from train.runs import continues_exactly, finetuning


def scored(path, rows, seed):
    rng = random.Random(seed)
    lines = ["text\tscore"]
    for _ in range(rows):
        word = rng.choice(["cat", "dog", "house", "tree"])
        lines.append(f"the {rng.choice(['old', 'red'])} {word} was here\t{1.0 if word in ('cat', 'dog') else 4.0}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tagged(path, rows, seed):
    rng = random.Random(seed)
    blocks = []
    for _ in range(rows):
        animal = rng.choice(["cat", "dog", "bird"])
        blocks.append(f"the\tO\n{animal}\tB-ANIMAL\nwas\tO\nhere\tO\n")
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def multi(folder, **changes):
    single = finetuning(folder)
    settings: dict[str, Any] = {
        "multi_task": (str(single.train), f"regression:{scored(folder / 'scores.tsv', 40, 3)}"),
        "dev": (single.dev, scored(folder / "scores-dev.tsv", 16, 4)),
        "output": folder / "multi",
        "preset": "bert-tiny",
        "tokenizer": folder / "tok",
        "epochs": 8,
        "lr": 2e-3,
        "batch_size": 16,
        "max_length": 24,
        "precision": "fp32",
    }
    return MultiTaskConfig(**{**settings, **changes})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("multi")
    return folder, finetune_tasks(multi(folder))


def test_each_task_learns_and_has_a_folder_that_answers_like_any_other(finished):
    folder, result = finished
    assert set(result.models) == {"train", "scores"}
    assert result.tasks["train"]["metrics"]["accuracy"] > 0.9 and result.tasks["scores"]["metrics"]["pearson"] > 0.8
    classifier = mw.TextClassifier.load(result.models["train"])
    assert classifier.predict(["the red cat was here", "the old river was here"]).tolist() == ["animal", "place"]
    regressor = mw.TextRegressor.load(result.models["scores"])
    low, high = regressor.predict(["the red cat was here", "the old house was here"])
    assert low < high
    for name, file in (("train", "dev.tsv"), ("scores", "scores-dev.tsv")):
        model = mw.load(result.models[name])
        facts = json.loads((result.models[name] / "maskwright.json").read_text(encoding="utf-8"))
        task = task_of_model(model, facts)
        _, evaluation = Predictor(model, task, 24).evaluate(task.read_known(folder / file).rows)
        assert evaluation.metrics == pytest.approx(
            {key: value for key, value in result.tasks[name]["metrics"].items() if key != "loss"}, abs=1e-6
        )


def test_tasks_take_turns_in_proportion_to_their_size_and_each_row_comes_once(tmp_path):
    config = multi(tmp_path, batch_size=8)
    bench = MultiTaskSetup(config, torch.device("cpu"))
    job = bench.job(3, _folder(tmp_path))
    assert job.steps_by_part == [8, 5] and job.steps_per_epoch == 13
    plans = [job.plan(epoch) for epoch in (0, 1)]
    for plan in plans:
        assert Counter(part for part, _ in plan) == {0: 8, 1: 5}
        for number, rows in enumerate((64, 40)):
            seen = [row for part, own in plan if part == number for row in own]
            assert sorted(seen) == list(range(rows))
    assert [part for part, _ in plans[0]] != [part for part, _ in plans[1]]
    assert [part for part, _ in plans[0]] != sorted(part for part, _ in plans[0]), "the turns are mixed"
    again = bench.job(3, _folder(tmp_path)).plan(0)
    assert all(one == other and (a == b).all() for (one, a), (other, b) in zip(plans[0], again, strict=True))
    other = bench.job(4, _folder(tmp_path)).plan(0)
    assert any(one != two or list(a) != list(b) for (one, a), (two, b) in zip(plans[0], other, strict=True))


def test_a_step_moves_the_encoder_and_its_own_head_only(tmp_path):
    job = MultiTaskSetup(multi(tmp_path), torch.device("cpu")).job(0, _folder(tmp_path))
    job.model.train()
    for step in range(3):
        (batch,) = job.micro_batches(step)
        outcome = job.outcome(batch)
        name = job.parts[job.current].name
        assert set(outcome.losses) == set(job.counts(batch)) == {name}
        job.model.zero_grad()
        outcome.losses[name].backward()
        moved = {
            int(key.split(".")[1]) for key, value in job.model.heads.named_parameters(prefix="heads") if _has(value)
        }
        assert moved == {job.current}
        assert all(_has(value) for value in job.model.encoder.layers.parameters())
    first, second = job.model.models
    assert first.encoder.layers is second.encoder.layers and first.encoder.pooler is second.encoder.pooler
    counted = sum(value.numel() for value in job.model.parameters())
    assert counted == first.num_parameters + sum(value.numel() for value in second.head.parameters())


def test_a_task_without_pooler_shares_the_rest(tmp_path):
    config = multi(
        tmp_path,
        multi_task=(f"tagging:{tagged(tmp_path / 'tags.conll', 40, 5)}", str(finetuning(tmp_path).train)),
        dev=(),
        epochs=2,
    )
    result = finetune_tasks(config)
    tagger, classifier = (mw.load(folder) for folder in result.models.values())
    assert not tagger.has_pooler and classifier.has_pooler
    own, shared = tagger.encoder.state_dict(), classifier.encoder.state_dict()
    assert all(torch.equal(value, shared[name]) for name, value in own.items())
    assert len(mw.TokenTagger.load(result.models["tags"]).predict([["the", "cat", "was", "here"]])[0]) == 4


def test_a_run_that_is_interrupted_ends_with_the_same_bits(finished, tmp_path, monkeypatch):
    _, whole = finished
    files = [f"models/{name}/model.safetensors" for name in whole.models]
    config = multi(tmp_path, checkpoint_every=3)
    continues_exactly(finetune_tasks, config, monkeypatch, step=5, whole=whole.output, files=files)


def test_files_are_named_apart():
    assert names([Path("a/sst2.tsv"), Path("b/rte.tsv.xz")]) == ["sst2", "rte"]
    assert names([Path("sst2/train.tsv"), Path("rte/train.tsv")]) == ["sst2", "rte"]
    assert names([Path("x/a.tsv"), Path("x/b.tsv"), Path("y/a.tsv")]) == ["x-a", "x-b", "y-a"]
    assert names([Path("x/y/a.tsv"), Path("z/y/a.tsv")]) == ["y-a-1", "y-a-2"]
    assert names([Path("x/a b/c.tsv"), Path("x/ä.é.tsv")]) == ["c", "ä"]
    assert names([Path("x/Train.tsv"), Path("y/train.tsv")]) == ["x", "y"]  # one folder where case does not count
    assert names([Path("../train.tsv"), Path("x/train.tsv")]) == [Path.cwd().parent.name, "x"]
    assert names([Path("eval.tsv"), Path("b.tsv")]) == ["eval-task", "b"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"multi_task": ("a.tsv",)}, "two files or more"),
        ({"multi_task": ("a.tsv", "a.tsv")}, "twice"),
        ({"multi_task": ("a.tsv", "./a.tsv"), "dev": ()}, "twice"),
        ({"multi_task": ("a.tsv", "x/../a.tsv"), "dev": ()}, "twice"),
        ({"multi_task": ("a.tsv", "b.tsv"), "dev": ("c.tsv",)}, "1 file for 2 tasks"),
        ({"multi_task": ("a.tsv", "regresion:b.tsv"), "dev": ()}, "Did you mean 'regression'"),
        ({"crf": True}, "no task has that type"),
        ({"model": "m"}, "either --model"),
        ({"epochs": 0}, "epochs"),
        ({"average_seeds": True}, "average"),
    ],
)
def test_a_recipe_that_cannot_be_run_is_refused(tmp_path, changes, words):
    with pytest.raises(ConfigError, match=words):
        multi(tmp_path, **changes)


def test_bad_rows_are_all_named_and_leave_no_run(tmp_path):
    (tmp_path / "bad.tsv").write_text("text\tscore\na\tx\nb\ty\n" + "c\t1\n" * 20, encoding="utf-8")
    config = multi(tmp_path, multi_task=(str(finetuning(tmp_path).train), f"regression:{tmp_path / 'bad.tsv'}"), dev=())
    with pytest.raises(RowErrors) as error:
        finetune_tasks(config)
    assert len(error.value.rows) == 2 and not (tmp_path / "multi").exists()
    with pytest.raises(InputError, match="positions"):
        finetune_tasks(multi(tmp_path, max_length=4000))


def _folder(path):
    from maskwright.train.run import RunFolder

    (path / "seed").mkdir(exist_ok=True)
    return RunFolder(path / "seed", {})


def _has(parameter):
    return parameter.grad is not None and bool(parameter.grad.any())
