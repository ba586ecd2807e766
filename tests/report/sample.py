"""A report with every kind of block, from made-up numbers and one text that is put wherever a page can hold text."""

import numpy as np

from maskwright.report import (
    Bar,
    Bars,
    Block,
    Collapsible,
    ColoredText,
    Command,
    Comparison,
    Confusion,
    Facts,
    Figure,
    Grid,
    Health,
    KeyFigures,
    MaskExample,
    MaskExamples,
    NextSteps,
    Paragraph,
    Report,
    RunMetadata,
    Score,
    Section,
    SourceCode,
    System,
    Table,
    Token,
    Tokens,
    Weights,
    WorstError,
    WorstErrors,
)
from maskwright.report.charts import Arrow, Box, Chart, Curves, Flow, Histogram, Scatter, Series


def curves(text: str = "") -> Curves:
    draw = np.random.default_rng(7)
    steps = np.arange(10, 2001, 10)
    loss = 3.7 + 5.2 * np.exp(-steps / 260) + draw.normal(0, 0.13, len(steps))
    loss[120] = float("nan")
    right = 0.06 + 0.26 * (1 - np.exp(-steps / 700)) + draw.normal(0, 0.01, len(steps))
    epochs = list(range(1, 7))
    seeds = [Series(f"dev{text}", epochs, 0.85 - 0.3 / np.arange(1, 7) + draw.normal(0, 0.01, 6)) for _ in range(3)]
    return Curves(
        [
            Chart(
                f"Loss{text}",
                [Series(f"training{text}", steps, loss), Series("held out", steps[9::10], loss[9::10] + 0.1)],
                baselines={f"counting words{text}": 6.02},
                note=text,
            ),
            Chart(
                "Masked words right",
                [Series("training", steps, right)],
                unit="percent",
                baselines={"most common": 0.061},
            ),
            Chart("Macro F1", seeds, x_label="epoch"),
            Chart("Gradient norm", [Series("norm", steps, 8 * np.exp(-steps / 300) + 0.1)], log_y=True),
        ],
        note=f"Thin lines are single values.{text}",
    )


def blocks(text: str = "") -> list[Block]:
    """Every kind of block; `text` is appended to its texts."""
    kinds = ("", "special", "first", "second", "masked", "random", "kept", "right", "wrong")
    counts, edges = np.histogram(np.random.default_rng(5).gamma(2.2, 22, 9000), bins=25, range=(0, 200))
    long = "Since the last update the fan runs at full speed all day, even when nothing is open."
    names = [f"encoder.layer.{place}.query.weight{text}" for place in range(4)]
    return [
        KeyFigures(
            [
                Figure(f"Macro F1{text}", f"0.874 ± 0.011{text}", f"points{text}", f"3 seeds{text}"),
                Figure("Loss", 3.884, note="counting words: 6.02"),
                Figure("Speed", 4810, "tokens/s"),
            ]
        ),
        curves(text),
        Comparison(
            [
                System(f"Fine-tuned{text}", {f"F1{text}": Score(0.874, 0.011), "Time": f"3 min 20 s{text}"}, 3, text),
                System("TF-IDF", {f"F1{text}": 0.881, "Time": "0.2 s"}, source="baseline"),
                System("BERT-base", {f"F1{text}": 0.935}, note="another data set", source="published"),
            ],
            note=text,
        ),
        Confusion([f"Software{text}", "Hardware", "Billing"], [[52, 3, 1], [5, 34, 1], [2, 2, 20]], note=text),
        WorstErrors(
            [
                WorstError(
                    long + text, f"Hardware{text}", f"Software{text}", 0.91, text_pair=f"Second.{text}", line=203
                ),
                WorstError("screen???", "Hardware", "Software", 0.61),
            ],
            note=text,
        ),
        MaskExamples(
            [
                MaskExample(
                    f"Return a{text} ", f" of items.{text}", [(f"list{text}", 0.41), ("set", 0.2)], f"list{text}"
                ),
                MaskExample("The ", " statement.", [("with", 0.2), ("for", 0.0002)], "if", 1009, 0.021),
                MaskExample("Who ", "?", [("knows", 1.0)]),
            ],
            note=text,
        ),
        Grid(
            [f"the{text}", "cat"], [f"the{text}", "cat", "sat"], [[0.5, -1.0, None], [0.1, 0.2, 1.0]], f"Weights{text}"
        ),
        Grid.of_pattern(f"layer 1{text}", "##.#\n.##.\n..##\n####"),
        Flow([Box(f"from{text}", 0, 0), Box("to", 2, 1, True)], [Arrow(0, 1, f"Q{text}")], f"A way{text}"),
        Scatter([(0.0, 1.0), (1.0, 0.0)], [0, 1], [f"one{text}", "two"], [f"first{text}", "second"], f"Texts{text}"),
        Tokens([(f"kinds{text}", [Token(f"the{text}", kind, f"below{text}") for kind in kinds])], note=text),
        ColoredText([(f"in{text}", 0.9), ("out", -0.9)], low=f"low{text}"),
        Bars(
            [Bar(f"Software{text}", 224, f"224 (46.7 %){text}"), Bar("Billing", 95)], title=f"Classes{text}", note=text
        ),
        Histogram(
            edges.tolist(), counts.tolist(), f"tokens{text}", f"rows{text}", {f"max{text}": 128}, title=f"Lengths{text}"
        ),
        Weights(names, [f"classifier.bias{text}"], []),
        Section(
            f"The data{text}",
            [
                Facts({f"Documents{text}": 5104, "Unknown": (0.00012, f"122 tokens{text}")}, title="Counts", note=text),
                Table(["Epoch", f"Loss{text}", "Text"], [[1, 1.02, f"a{text}"], [2, 0.6, "b"]], strong=[1], note=text),
                Paragraph(f"Rows were split by ticket.{text}", title=f"Split{text}"),
            ],
            f"A lead.{text}",
        ),
        Collapsible(f"Why?{text}", f"The answer{text}", [Paragraph("Because.")]),
        SourceCode([(f"a:b{text}", f"def b(): ...{text}")]),
        RunMetadata(
            f"maskwright pretrain --preset bert-mini --lr 0.0005 -o runs/a corpus/{text}",
            {f"preset{text}": f"bert-mini{text}", "lr": 5e-4, "eval": ""},
            {f"Data{text}": "sha256:" + "5be2c1f4a09d7c8e" * 4},
        ),
        NextSteps([Command(f"maskwright fill-mask runs/a/model 'Return [MASK].'{text}", f"try it{text}")]),
    ]


def whole(text: str = "") -> Report:
    health = Health("watch", [f"31.2 % of the masked tokens right.{text}"], text)
    return Report(f"A run{text}", f"Macro F1 0.874 ± 0.011 over 3 seeds.{text}", health, blocks(text), f"today{text}")
