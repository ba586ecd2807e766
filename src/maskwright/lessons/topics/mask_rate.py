"""The masking probability: a low one is expensive, a high one leaves no context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    import numpy as np

    from ...objectives.masked import Masked
    from ..recorder import LessonRecorder

PART = "Pre-training"
RATES = (0.05, 0.15, 0.4, 0.8)
VOCAB = 45  # ids 0 to 4 are special, 4 is [MASK]
MASK_SHARE = 0.8  # of the selected words are masked


def _rate(record: LessonRecorder) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...objectives.masked import Masker
    from ...report import Chart, Curves, Series

    texts = _walks(60)
    lengths = np.full(len(texts), texts.shape[1])
    ids, unseen = texts.reshape(-1), _walks(20, seed=1).reshape(-1)
    answers, usable, right = [], [], []
    for rate in RATES:
        masked = Masker(4, frozenset(range(5)), VOCAB, rate)(ids, lengths, generator(0, "rates"))
        answers.append(len(masked.positions) / len(ids))
        known = _told(masked, len(ids))
        usable.append(len(known) / len(ids))
        right.append(_learnt(masked, known, unseen))
    record.near("predicted words per input word: 5%, 15%, 40%, 80%", list(RATES), answers, 0.01, digits=2)
    wanted = [rate * (1 - MASK_SHARE * rate) ** 2 for rate in RATES]
    record.near("of these, with both neighbors visible: rate · (1 − 0.8 rate)²", wanted, usable, 0.015, digits=3)
    share = [one / two for one, two in zip(usable, answers, strict=True)]
    record.holds(
        "too much: no context",
        "fraction with both neighbors",
        ", ".join(f"{one:.0%}" for one in share),
        share == sorted(share)[::-1],
    )
    best = RATES[int(np.argmax(right))]
    record.holds(
        "accuracy of a trigram counting model after 7,680 words",
        "a trade",
        ", ".join(f"{one:.0%}" for one in right),
        best in RATES[1:3] and right[0] < right[1] and right[3] < max(right) - 0.1,
    )
    x = [100 * rate for rate in RATES]
    record.show(
        Curves(
            [
                Chart(
                    "Per 100 input words",
                    [
                        Series("predicted words", x, [100 * one for one in answers], smooth=False),
                        Series("with both neighbors", x, [100 * one for one in usable], smooth=False),
                    ],
                    x_label="masked, %",
                ),
                Chart(
                    "Accuracy on new text, %",
                    [Series("counting model", x, [100 * one for one in right], smooth=False)],
                    x_label="masked, %",
                ),
            ],
            title="",
        )
    )
    record.answer(
        f"Not for every model: this one, which uses two neighbors, reaches {right[1]:.0%} with 15% and {right[2]:.0%} "
        "with 40%. Networks were compared at equal tokens (docs/results/ablations.md, three seeds): with 5% they had "
        "hardly learned anything, 15% reached 71.9 points, 40% 72.9."
    )


def _walks(count: int, seed: int = 0) -> np.ndarray:
    """Return random texts of 128 words; each word is followed by one of its four possible successors: int64 [count,
    128].
    """
    import numpy as np

    from ...core.randomness import generator

    liked = generator(0, "lesson followers").integers(5, VOCAB, (VOCAB, 4))
    steps = generator(seed, "lesson walks").integers(4, size=(128, count))
    rows = [np.arange(count) % (VOCAB - 5) + 5]
    for step in steps[1:]:
        rows.append(liked[rows[-1], step])
    return np.stack(rows, axis=1)


def _told(masked: Masked, tokens: int) -> np.ndarray:
    """Return the positions to predict whose neighbors are not masked."""
    inner = masked.positions[(masked.positions > 0) & (masked.positions < tokens - 1)]
    return inner[(masked.input_ids[inner - 1] != 4) & (masked.input_ids[inner + 1] != 4)]


def _learnt(masked: Masked, places: np.ndarray, unseen: np.ndarray) -> float:
    """Return the accuracy on new words of predicting the most frequent word between the same two words."""
    import numpy as np

    seen = np.zeros((VOCAB, VOCAB, VOCAB), dtype=np.int64)
    targets = masked.labels[np.searchsorted(masked.positions, places)]
    np.add.at(seen, (masked.input_ids[places - 1], masked.input_ids[places + 1], targets), 1)
    guesses = seen[unseen[:-2], unseen[2:]].argmax(axis=-1)
    return float((guesses == unseen[1:-1]).mean())


LESSONS = (
    Lesson(
        "mask-rate",
        PART,
        APPLICATIONS,
        "Word Masking: how much?",
        "A low masking probability is expensive, a high one leaves no context",
        "Every masked word is a training target, and one word less of context. A model that only counts the words "
        "between two neighbors shows both effects, on synthetic text masked as in training.",
        ("objectives.masked:Masker.__call__",),
        "Is 15% the best masking probability?",
        _rate,
    ),
)
