"""What the made-up runs of `report_sample` found: curves, comparison, filled masks, confusion, errors."""

from __future__ import annotations

import numpy as np

from maskwright.report import Chart, Comparison, Confusion, Curves, MaskExample, Score, Series, System, WorstError

STEPS = 2000
CLASSES = {"Software": 224, "Hardware": 161, "Billing": 95}


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
                baselines={"majority class": 0.061},
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
            Chart("Macro F1", scores, x_label="epoch", baselines={"TF-IDF": 0.881, "majority class": 0.212}),
        ],
        title="Training",
    )


def comparison() -> Comparison:
    return Comparison(
        [
            System(
                "Pre-trained here, then fine-tuned",
                {
                    "Macro F1": Score(0.874, 0.011, [0.861, 0.879, 0.882]),
                    "Accuracy": Score(0.883, 0.009),
                    "Training": "3 min 20 s",
                },
                3,
                "bert-mini, 2,000 steps",
            ),
            System(
                "The same network, not pre-trained",
                {
                    "Macro F1": Score(0.731, 0.024, [0.705, 0.735, 0.753]),
                    "Accuracy": Score(0.764, 0.018),
                    "Training": "3 min 18 s",
                },
                3,
            ),
            System(
                "TF-IDF and logistic regression",
                {"Macro F1": 0.881, "Accuracy": 0.892, "Training": "0.2 s"},
                note="words and pairs of words",
                source="baseline",
            ),
            System("Majority class", {"Macro F1": 0.212, "Accuracy": 0.467, "Training": "–"}, source="baseline"),
            System(
                "BERT-base, as printed by its authors",
                {"Macro F1": None, "Accuracy": 0.935},
                note="another data set: SST-2",
                source="published",
            ),
        ],
        note="Mean ± standard deviation over seeds; one row of the test set is worth 0.008.",
    )


def masks() -> list[MaskExample]:
    return [
        MaskExample(
            "Return a new ",
            " containing all items of the iterable.",
            [("list", 0.412), ("set", 0.203), ("dictionary", 0.121), ("object", 0.058), ("tuple", 0.031)],
            "list",
        ),
        MaskExample(
            "Raise ",
            " if the key is not found.",
            [("KeyError", 0.701), ("ValueError", 0.113), ("an", 0.041), ("IndexError", 0.022), ("error", 0.018)],
            "KeyError",
        ),
        MaskExample(
            "The ",
            " statement is used for conditional execution.",
            [("with", 0.221), ("import", 0.154), ("for", 0.113), ("return", 0.092), ("try", 0.081)],
            "if",
            9,
            0.0214,
        ),
        MaskExample(
            "Strings are immutable sequences of Unicode code ",
            ".",
            [("points", 0.88), ("objects", 0.021), ("characters", 0.014), ("values", 0.008), ("point", 0.0002)],
            "points",
        ),
    ]


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
            "You charged me for a docking station that arrived broken. I want the money back or a working one, "
            "and I have written three times already without any answer from anybody.",
            "Billing",
            "Hardware",
            0.88,
            line=88,
        ),
        WorstError("screen???", "Hardware", "Software", 0.61, text_pair="It went dark on Monday.", line=311),
    ]
