"""A report as a real run would fill it, from made-up numbers: every kind of block, drawn from one seed."""

from __future__ import annotations

import numpy as np

from maskwright.report import (
    AlignmentMap,
    Arrow,
    Bar,
    Bars,
    Box,
    Checkpoint,
    Checkpoints,
    Collapsible,
    ColoredText,
    Command,
    Facts,
    Figure,
    Flow,
    Grid,
    Health,
    Histogram,
    KeyFigures,
    MaskExamples,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Scatter,
    Section,
    SeenBlocks,
    SourceCode,
    Table,
    Token,
    Tokens,
    Weights,
    WorstErrors,
)
from maskwright.report.numbers import count, duration, percent, plus_minus
from report.report_findings import CLASSES, STEPS, comparison, confusion, curves, masks, seed_curves, worst


def drawn_report() -> Report:
    """A page of examples: every drawing, with every kind of token."""
    kinds = ("", "special", "first", "second", "masked", "random", "kept", "right", "wrong")
    return Report(
        "a lesson",
        "what it shows",
        None,
        [
            Section(
                "drawings",
                [
                    Grid(["a"], ["x", "y", "z"], [[0.5, -1.0, None]], "attention pattern"),
                    Flow([Box("from", 0, 0), Box("to", 2, 1, True)], [Arrow(0, 1, "Q")], "a way"),
                    Tokens([("kinds", [Token("the", kind, "below") for kind in kinds])]),
                    SourceCode([("a:b", "def b(): ...")]),
                    Table(["a", "b"], [["1", "2"]]),
                    Scatter([(0.0, 1.0), (1.0, 0.0)], [0, 1], ["one", "two"], ["first", "second"], "texts"),
                    Collapsible("Why?", "The answer", [Paragraph("Because.")]),
                ],
            )
        ],
    )


def pretraining_report() -> Report:
    """A pre-training run."""
    return Report(
        "bert-mini on the Python documentation",
        "Masked-token accuracy: 31.2 %, compared with 6.1 % for the most common token.",
        Health(
            "good",
            [
                "It uses context: 31.2 % of the masked tokens right, 6.1 % by the most common token.",
                "71.3 % of the sentence pairs right, a coin gets 50 %.",
            ],
        ),
        [
            key_figures(),
            MaskExamples(masks(), title="Filled masks", note="Sentences that the training text does not hold."),
            curves(),
            AlignmentMap(["ein", "Hund"], ["a", "dog"], [[0.9, 0.1], [0.2, 0.8]], "half", title="Looked at"),
            ColoredText([("in", 0.9), ("out", -0.9)]),
            SeenBlocks({"first layer": "###\n##.\n#.#"}, title="Attention pattern"),
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
                "Dev loss rose after epoch 4 while training loss fell: the last epochs only memorized.",
            ],
        ),
        [
            KeyFigures(
                [
                    Figure("Macro F1", plus_minus(0.874, 0.011), note="3 seeds, best epoch by dev"),
                    Figure("Accuracy", percent(0.883), note="always “Software”: 46.7 %"),
                    Figure("Test rows", 120, note="held out before any choice"),
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


def key_figures() -> KeyFigures:
    return KeyFigures(
        [
            Figure("Masked words right", percent(0.312), note="most common token: 6.1 %"),
            Figure("Loss", 3.884, note="counting words: 6.02"),
            Figure("Sentence pairs right", percent(0.713), note="a coin: 50 %"),
            Figure("Speed", 4810, "tokens/s", note="2 threads, float32"),
        ]
    )


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


def what_ran() -> RunMetadata:
    return RunMetadata(
        "maskwright pretrain --preset bert-mini --objective mlm+nsp --tokenizer tok/ --steps 2000 -o runs/a corpus/",
        {
            "preset": "bert-mini",
            "objective": "mlm+nsp",
            "steps": STEPS,
            "batch_tokens": 4096,
            "max_length": 128,
            "lr": 5e-4,
            "warmup": 200,
            "seed": 0,
            "precision": "fp32",
            "whole_word": False,
            "dropout": 0.1,
        },
        {
            "Started": "21 November 2025, 13:58",
            "Took": duration(713),
            "Maskwright": "0.1.0",
            "torch": "2.13.0",
            "Python": "3.11.2",
            "Processor": "2 threads of an x86-64 with AVX-512 BF16",
            "Parameters": 5_291_264,
            "Data fingerprint": "sha256:" + "5be2c1f4a09d7c8e" * 4,
        },
    )


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
                "Teach it a task from labeled rows.",
            ),
            Command("maskwright evaluate runs/b/model test.tsv --json", "Score it on rows that decided nothing."),
        ]
    )
