"""A report as a real run would fill it, from made-up numbers: every kind of block, drawn from one seed."""

from __future__ import annotations

import numpy as np

from maskwright.train.report import (
    Bar,
    Bars,
    Chart,
    Checkpoint,
    Checkpoints,
    Command,
    Comparison,
    Confusion,
    Curves,
    Facts,
    Figure,
    Health,
    Histogram,
    KeyFigures,
    MaskExample,
    MaskExamples,
    NextSteps,
    Paragraph,
    Report,
    Score,
    Section,
    Series,
    System,
    Table,
    Weights,
    WhatRan,
    WorstError,
    WorstErrors,
)
from maskwright.train.report.numbers import count, duration, percent, plus_minus

STEPS = 2000


def pretraining_report() -> Report:
    """A pre-training run."""
    return Report(
        "bert-mini on the Python documentation",
        "Masked words guessed: 31.2 % right, against 6.1 % for always guessing the commonest.",
        Health(
            "good",
            [
                "It uses context: 31.2 % of the masked tokens right, 6.1 % by always the commonest token.",
                "71.3 % of the sentence pairs right, a coin gets 50 %.",
            ],
        ),
        [
            key_figures(),
            MaskExamples(masks(), title="Filled masks", note="Sentences that the training text does not hold."),
            curves(),
            Section("The text", data_blocks(), "Read from the interpreter that ran this: pydoc topics and docstrings."),
            what_ran(),
            checkpoints(),
            next_steps(),
        ],
        made="21 November 2025, 14:10",
    )


def finetuning_report() -> Report:
    """A fine-tuning run over three seeds, with a baseline that it does not beat by much."""
    return Report(
        "Support tickets: classification",
        "Test macro F1 0.874 ± 0.011 over 3 seeds; TF-IDF with logistic regression reaches 0.881.",
        Health(
            "watch",
            [
                "TF-IDF with logistic regression is as good on these 120 test rows: the difference is 0.007, and one "
                "row is worth 0.008.",
                "Dev loss rose after epoch 4 while training loss fell: the last epochs only learnt by heart.",
            ],
        ),
        [
            KeyFigures(
                [
                    Figure("Macro F1", plus_minus(0.874, 0.011), note="3 seeds, best epoch by dev"),
                    Figure("Accuracy", percent(0.883), note="always “Software”: 46.7 %"),
                    Figure("Test rows", 120, note="set aside before any choice"),
                    Figure("Time", duration(203), note="68 s for each seed"),
                ]
            ),
            comparison(),
            seed_curves(),
            confusion(),
            WorstErrors(worst(), note="The wrong answers that the model was surest of."),
            Bars(
                [Bar(name, n, f"{n} ({percent(n / 480)})") for name, n in CLASSES.items()],
                title="Classes in the training rows",
            ),
            Weights(
                [f"encoder.layer.{i}.attention.self.{n}.weight" for i in range(4) for n in ("query", "key", "value")],
                ["classifier.weight", "classifier.bias"],
                ["cls.predictions.bias", "cls.predictions.transform.dense.weight", "cls.seq_relationship.weight"],
            ),
            Table(
                ["Epoch", "Train loss", "Dev loss", "Dev macro F1", "Time"],
                [
                    [n + 1, 1.02 * 0.6**n, 0.8 - 0.1 * min(n, 3) + 0.03 * n, 0.7 + 0.05 * min(n, 3), duration(11.2)]
                    for n in range(6)
                ],
                title="Epochs of the first seed",
                strong=[3],
            ),
            Paragraph("Rows were split by ticket, never by customer.", title="How rows were split"),
            next_steps(),
        ],
        made="21 November 2025, 14:16",
    )


CLASSES = {"Software": 224, "Hardware": 161, "Billing": 95}


def key_figures() -> KeyFigures:
    return KeyFigures(
        [
            Figure("Masked words right", percent(0.312), note="commonest token: 6.1 %"),
            Figure("Loss", 3.884, note="counting words: 6.02"),
            Figure("Sentence pairs right", percent(0.713), note="a coin: 50 %"),
            Figure("Speed", 4810, "tokens/s", note="2 threads, float32"),
        ]
    )


def curves() -> Curves:
    draw = np.random.default_rng(7)
    steps = np.arange(10, STEPS + 1, 10)
    fall = 3.7 + 5.2 * np.exp(-steps / 260) + 0.5 * np.exp(-steps / 1400)
    train = fall + draw.normal(0, 0.13, len(steps))
    held = np.arange(100, STEPS + 1, 100)
    dev = 3.78 + 5.2 * np.exp(-held / 260) + 0.5 * np.exp(-held / 1400) + draw.normal(0, 0.02, len(held))
    right = 0.06 + 0.26 * (1 - np.exp(-steps / 700))
    pairs = 0.5 + 0.22 * (1 - np.exp(-np.maximum(steps - 500, 0) / 600))
    rate = np.where(steps <= 200, steps / 200, 1 - (steps - 200) / 1800) * 5e-4
    speed = 4800 + draw.normal(0, 160, len(steps))
    speed[90:96] -= 1900
    train[120] = float("nan")
    return Curves(
        [
            Chart(
                "Loss of masked words",
                [Series("training", steps, train), Series("held out", held, dev)],
                baselines={"counting words": 6.02},
            ),
            Chart(
                "Masked words right",
                [
                    Series("training", steps, right + draw.normal(0, 0.012, len(steps))),
                    Series("held out", held, 0.06 + 0.252 * (1 - np.exp(-held / 700))),
                ],
                unit="percent",
                baselines={"always the commonest": 0.061},
            ),
            Chart(
                "Sentence pairs right",
                [Series("training", steps, pairs + draw.normal(0, 0.04, len(steps)))],
                unit="percent",
                baselines={"a coin": 0.5},
            ),
            Chart("Learning rate", [Series("rate", steps, rate, smooth=False)]),
            Chart("Speed", [Series("tokens per second", steps, speed)]),
            Chart(
                "Gradient norm",
                [Series("norm", steps, 8 * np.exp(-steps / 300) + 0.9 + abs(draw.normal(0, 0.2, len(steps))))],
                log_y=True,
                note="Clipped at 1.",
            ),
        ],
        note="Thin lines are single values, thick ones their smoothed course.",
    )


def seed_curves() -> Curves:
    draw = np.random.default_rng(3)
    epochs = list(range(1, 7))
    training, dev, scores = [], [], []
    for _ in range(3):
        training.append(Series("training", epochs, 1.02 * 0.6 ** np.arange(6) + draw.normal(0, 0.02, 6)))
        bowl = np.array([0.83, 0.6, 0.47, 0.43, 0.46, 0.5])
        dev.append(Series("dev", epochs, bowl + draw.normal(0, 0.02, 6)))
        scores.append(Series("dev", epochs, np.array([0.62, 0.78, 0.85, 0.88, 0.875, 0.87]) + draw.normal(0, 0.012, 6)))
    return Curves(
        [
            Chart("Loss", training + dev, x_label="epoch"),
            Chart("Macro F1", scores, x_label="epoch", baselines={"TF-IDF": 0.881, "commonest class": 0.212}),
        ],
        title="Training",
    )


def comparison() -> Comparison:
    return Comparison(
        [
            System("Pre-trained here, then fine-tuned", {"Macro F1": Score(0.874, 0.011, [0.861, 0.879, 0.882]), "Accuracy": Score(0.883, 0.009), "Training": "3 min 20 s"}, 3, "bert-mini, 2,000 steps"),
            System("The same network, not pre-trained", {"Macro F1": Score(0.731, 0.024, [0.705, 0.735, 0.753]), "Accuracy": Score(0.764, 0.018), "Training": "3 min 18 s"}, 3),
            System("TF-IDF and logistic regression", {"Macro F1": 0.881, "Accuracy": 0.892, "Training": "0.2 s"}, note="words and pairs of words", source="baseline"),
            System("Always the commonest class", {"Macro F1": 0.212, "Accuracy": 0.467, "Training": "–"}, source="baseline"),
            System("BERT-base, as printed by its authors", {"Macro F1": None, "Accuracy": 0.935}, note="another data set: SST-2", source="published"),
        ],
        note="Mean ± standard deviation over seeds; one row of the test set is worth 0.008.",
    )  # fmt: skip


def masks() -> list[MaskExample]:
    return [
        MaskExample("Return a new ", " containing all items of the iterable.", [("list", 0.412), ("set", 0.203), ("dictionary", 0.121), ("object", 0.058), ("tuple", 0.031)], "list"),
        MaskExample("Raise ", " if the key is not found.", [("KeyError", 0.701), ("ValueError", 0.113), ("an", 0.041), ("IndexError", 0.022), ("error", 0.018)], "KeyError"),
        MaskExample("The ", " statement is used for conditional execution.", [("with", 0.221), ("import", 0.154), ("for", 0.113), ("return", 0.092), ("try", 0.081)], "if", 9, 0.0214),
        MaskExample("Strings are immutable sequences of Unicode code ", ".", [("points", 0.88), ("objects", 0.021), ("characters", 0.014), ("values", 0.008), ("point", 0.0002)], "points"),
    ]  # fmt: skip


def data_blocks() -> list:
    draw = np.random.default_rng(5)
    lengths = np.clip(draw.gamma(2.2, 22, 9000), 4, 200)
    counts, edges = np.histogram(lengths, bins=25, range=(0, 200))
    return [
        Facts(
            {
                "Documents": 5104,
                "Sentences": 61230,
                "Words": 702118,
                "Tokens": 1012440,
                "Tokens per word": 1.442,
                "Unknown tokens": (percent(0.00012, 3), "122 tokens, most of them box-drawing characters"),
                "Exact duplicates removed": (412, "documents"),
                "Cut to 128 tokens": (percent(0.031), count(1898) + " sentences"),
                "Rows skipped": 0,
                "Held out": (percent(0.02), "102 documents, chosen before training"),
            },
            title="Counts",
        ),
        Histogram(
            edges.tolist(),
            counts.tolist(),
            title="Tokens in a sentence",
            x_label="tokens",
            y_label="sentences",
            marks={"longest input": 128},
        ),
    ]


def what_ran() -> WhatRan:
    return WhatRan(
        "maskwright pretrain --preset bert-mini --objective mlm+nsp --tokenizer tok/ --steps 2000 -o runs/a corpus/",
        {"preset": "bert-mini", "objective": "mlm+nsp", "steps": STEPS, "batch_tokens": 4096, "max_length": 128, "lr": 5e-4, "warmup": 200, "seed": 0, "precision": "fp32", "whole_word": False, "dropout": 0.1},
        {"Started": "21 November 2025, 13:58", "Took": duration(713), "Maskwright": "0.1.0", "torch": "2.13.0", "Python": "3.11.2", "Processor": "2 threads of an x86-64 with AVX-512 BF16", "Parameters": 5_291_264, "Data fingerprint": "sha256:5be2c1f4a09d7c8e4f31b07e2dd9a6c35be2c1f4a09d7c8e4f31b07e2dd9a6c3"},
    )  # fmt: skip


def checkpoints() -> Checkpoints:
    found = [(500, 4.62, 0.204), (1000, 4.17, 0.268), (1500, 3.96, 0.299), (2000, 3.88, 0.312)]
    return Checkpoints(
        [
            Checkpoint(
                step,
                {"Held-out loss": loss, "Words right": percent(right)},
                f"checkpoints/step-{step}",
                63_480_000,
                step == 2000,
                step > 500,
            )
            for step, loss, right in found
        ]
    )


def next_steps() -> NextSteps:
    return NextSteps(
        [
            Command(
                'maskwright fill-mask runs/a/model "Return the [MASK] of two numbers." --top-k 5',
                "Try it on a sentence of your own.",
            ),
            Command(
                "maskwright finetune classification --model runs/a/model --train train.tsv --dev dev.tsv -o runs/b",
                "Teach it a task from labelled rows.",
            ),
            Command("maskwright evaluate runs/b/model test.tsv --json", "Score it on rows that decided nothing."),
        ]
    )


def confusion() -> Confusion:
    return Confusion(list(CLASSES), [[52, 3, 1], [5, 34, 1], [2, 2, 20]])


def worst() -> list[WorstError]:
    return [
        WorstError(
            "my invoice pdf wont open it just says file is damaged, tried 2 laptops",
            "Software",
            "Billing",
            0.94,
            line=17,
        ),
        WorstError(
            "Since the last update the fan runs at full speed all day, even when nothing is open.",
            "Hardware",
            "Software",
            0.91,
            line=203,
        ),
        WorstError(
            "You charged me for a docking station that arrived broken. I want the money back or a working one, and I have written three times already without any answer from anybody.",
            "Billing",
            "Hardware",
            0.88,
            line=88,
        ),
        WorstError("screen???", "Hardware", "Software", 0.61, line=311),
    ]
