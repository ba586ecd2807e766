"""What other trainers do otherwise: accumulation, evaluation during training, resuming, weight decay, warmup."""

import json
import random
from dataclasses import replace

import pytest
from safetensors.torch import load_file

from maskwright.core import storage
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.train import loop
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.loop import Interrupted
from maskwright.train.optimizer import adamw
from maskwright.train.pretraining.pretrain import pretrain
from maskwright.train.schedules import learning_rate, warmup_steps
from train.runs import TINY, finetuning, labeled, pretraining
from train.test_translation import SMALL


def tagged(path):
    """Sentences of 1 to 15 words, so that micro-batches have unequal numbers of tags."""
    blocks = ["\n".join(f"{word}\t{word[0].upper()}" for word in ["the", "cat", "was"] * n) for n in (1, 5, 2, 4, 1, 3)]
    path.write_text("\n\n".join([*blocks, "the\tT"]) + "\n", encoding="utf-8")
    return path


def interrupted(run, config, after, monkeypatch):
    original, left = loop._stop_if_requested, [after]

    def ask(request, *others):
        left[0] -= 1
        request.requested = left[0] == 0
        original(request, *others)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(loop, "_stop_if_requested", ask)
        run(config)
    return run(config)


def digest(result):
    return storage.sha256(result.model / "model.safetensors")


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="With gradient accumulation over N micro-batches, the Trainer adds up their mean losses for most heads of "
    "BERT (masked words, sequences, tokens, choices): the gradient is N times that of one batch. With label smoothing, "
    "and for questions, it is right.",
    ours="The loss, the gradient and the update of one batch: means are over the labels of the whole step.",
)
@pytest.mark.parametrize(
    ("task", "write"),
    [("tagging", tagged), ("classification", lambda path: labeled(path, 7, 1))],
    ids=("tagging", "classification"),
)
def test_the_update_of_micro_batches_is_that_of_one_batch(tmp_path, task, write):
    rows = write(tmp_path / "rows.tsv")
    settings = {
        "task": task,
        "train": rows,
        "dev": rows,
        "batch_size": 7,
        "epochs": 2,
        "log_every": 1,
        "max_length": 64,
    }
    settings["network"] = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    logs, weights = {}, {}
    for count in (1, 2, 7):
        output = tmp_path / f"run-{count}"
        result = finetune(finetuning(tmp_path, output=output, accumulation=count, **settings))
        lines = (output / "seed-0" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        logs[count] = [(one["loss"], one["grad_norm"]) for one in map(json.loads, lines) if "grad_norm" in one]
        weights[count] = load_file(result.model / "model.safetensors")
    for count in (2, 7):
        assert len(logs[count]) == 2
        for one, other in zip(logs[1], logs[count], strict=True):
            assert other == pytest.approx(one, rel=1e-4)
        for name, value in weights[1].items():
            assert (value - weights[count][name]).abs().max() < 1e-4, name  # of steps of 2e-3


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="A pass over the evaluation rows draws from torch's global generator, which also draws dropout: the weights "
    "depend on whether and when the Trainer evaluates.",
    ours="The same bits, however often a run evaluates, saves and logs: each draw has its own seed.",
)
def test_evaluation_does_not_change_the_training(tmp_path):
    runs = [
        pretrain(pretraining(tmp_path, output=tmp_path / str(every), evaluate_every=every, checkpoint_every=every))
        for every in (1, 6)
    ]
    assert digest(runs[0]) == digest(runs[1])


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="On one CPU thread, a Trainer resumes with the same bits, also inside an epoch with gradient accumulation; "
    "with train_sampling_strategy='group_by_length' only in the first epoch.",
    ours="The same bits, also from the middle of a later epoch whose batches are formed by length.",
)
@pytest.mark.slow
def test_batches_by_length_resume_in_a_later_epoch_with_the_same_bits(tmp_path, monkeypatch):
    tokenizer = finetuning(tmp_path).tokenizer
    draws = random.Random(3)
    texts = {name: tmp_path / f"{name}.txt" for name in ("train", "train_target", "dev", "dev_target")}
    for path in texts.values():
        lines = [" ".join(draws.choices(["the", "cat", "dog", "was"], k=draws.randint(1, 8))) for _ in range(30)]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = replace(
        finetuning(tmp_path, output=tmp_path / "whole", checkpoint_every=2, accumulation=2, epochs=2),
        **texts,
        task="translation",
        preset="transformer-mini",
        tokenizer=tokenizer,
        network={**SMALL, "hidden_size": 32, "intermediate_size": 64},
        batch_tokens=128,
    )
    whole = finetune(config)
    lines = (config.output / "seed-0" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    steps = max(json.loads(line)["step"] for line in lines)
    resumed = interrupted(finetune, replace(config, output=tmp_path / "cut"), steps - 1, monkeypatch)
    assert steps >= 6 and digest(resumed) == digest(whole)


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="A Trainer that resumes has a count of 0 evaluations without a better score, and stops later than the "
    "uninterrupted run (unless restore_callback_states_from_checkpoint is set).",
    ours="Checkpoints keep the count: a resumed run stops at the same step.",
)
def test_early_stopping_is_resumed(tmp_path, monkeypatch):
    config = finetuning(tmp_path, lr=1e-12, epochs=9, patience=3)  # so no epoch is better than the first
    per_epoch = 4
    finetune(config)
    interrupted(finetune, replace(config, output=tmp_path / "cut"), 3 * per_epoch, monkeypatch)
    for folder in (config.output, tmp_path / "cut"):
        lines = (folder / "seed-0" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        assert max(json.loads(line)["step"] for line in lines) == 4 * per_epoch


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="Parameters with 'bias' in their name have no weight decay: neither has the table of relative positions "
    "of MPNet and T5 (relative_attention_bias.weight).",
    ours="All matrices have weight decay, that table too; vectors have none.",
)
def test_the_table_of_relative_positions_has_weight_decay(tmp_path):
    model = build(preset("mpnet-base", vocab_size=90, **TINY), "mlm", seed=1)
    (table,) = (value for name, value in model.named_parameters() if "relative" in name)
    decayed, others = adamw(model, 1e-3, 0.01).param_groups
    assert decayed["weight_decay"] == 0.01 and others["weight_decay"] == 0
    assert any(one is table for one in decayed["params"]) and all(one.ndim == 1 for one in others["params"])


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="With warmup, the first step has the learning rate 0 and changes nothing; a fraction is rounded up.",
    ours="The first of N warmup steps has 1/N of the peak, the last one the peak; a fraction is rounded.",
)
def test_the_first_step_of_a_warmup_learns():
    steps = warmup_steps(0.1, 24)
    assert steps == 2
    rates = [learning_rate(step, steps=24, peak=1.0, warmup=steps, schedule="linear") for step in range(24)]
    assert rates[:2] == [0.5, 1.0] and max(rates) == 1.0 and rates[-1] > 0
