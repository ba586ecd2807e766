"""How much is masked: too little is expensive, too much leaves no context."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, Lesson

if TYPE_CHECKING:
    import numpy as np

    from ...objectives.masking import Masked
    from ..recorder import LessonRecorder

PART = "Pre-training"
RATES = (0.05, 0.15, 0.4, 0.8)
VOCAB = 45  # ids 0 to 4 are special, 4 is [MASK]
MASK_SHARE = 0.8  # of the selected words are hidden


def _rate(record: LessonRecorder) -> None:
    import numpy as np

    from ...core.randomness import generator
    from ...objectives.masking import Masker
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
    record.near("words to guess per word read: 5, 15, 40, 80 %", list(RATES), answers, 0.01, digits=2)
    wanted = [rate * (1 - MASK_SHARE * rate) ** 2 for rate in RATES]
    record.near("of these with both neighbors not hidden: rate · (1 − 0.8 rate)²", wanted, usable, 0.015, digits=3)
    share = [one / two for one, two in zip(usable, answers, strict=True)]
    record.holds(
        "too much: no context",
        "share with both",
        ", ".join(f"{one:.0%}" for one in share),
        share == sorted(share)[::-1],
    )
    best = RATES[int(np.argmax(right))]
    record.holds(
        "a reader that counts what stands between two words: right after 7,680 words",
        "a trade",
        ", ".join(f"{one:.0%}" for one in right),
        best in RATES[1:3] and right[0] < right[1] and right[3] < max(right) - 0.1,
    )
    x = [100 * rate for rate in RATES]
    record.show(
        Curves(
            [
                Chart(
                    "In 100 words read",
                    [
                        Series("words to guess", x, [100 * one for one in answers], smooth=False),
                        Series("with both neighbors", x, [100 * one for one in usable], smooth=False),
                    ],
                    x_label="masked, %",
                ),
                Chart(
                    "Right guesses on new text, %",
                    [Series("counting reader", x, [100 * one for one in right], smooth=False)],
                    x_label="masked, %",
                ),
            ],
            title="",
        )
    )
    record.answer(
        f"Not for everyone: this reader, which looks at two neighbors, gets {right[1]:.0%} right with 15 % and "
        f"{right[2]:.0%} with 40 %. Networks were measured with whole runs at equal tokens (docs/results/ablations.md, "
        "three seeds): 5 % had hardly learned anything, 15 % gave 71.9 points, 40 % 72.9."
    )


def _walks(count: int, seed: int = 0) -> np.ndarray:
    """Texts of 128 words, each followed by one of four that it likes: int64 [count, 128]."""
    import numpy as np

    from ...core.randomness import generator

    liked = generator(0, "lesson followers").integers(5, VOCAB, (VOCAB, 4))
    steps = generator(seed, "lesson walks").integers(4, size=(128, count))
    rows = [np.arange(count) % (VOCAB - 5) + 5]
    for step in steps[1:]:
        rows.append(liked[rows[-1], step])
    return np.stack(rows, axis=1)


def _told(masked: Masked, tokens: int) -> np.ndarray:
    """The places to guess whose neighbors are shown, [MASK] being no word."""
    inner = masked.positions[(masked.positions > 0) & (masked.positions < tokens - 1)]
    return inner[(masked.input_ids[inner - 1] != 4) & (masked.input_ids[inner + 1] != 4)]


def _learnt(masked: Masked, places: np.ndarray, unseen: np.ndarray) -> float:
    """The share of new words that are guessed by what stood most often between the same two words."""
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
        "Too little is expensive, too much leaves no context",
        "Every masked word is an answer to learn from, and one word less to learn it by. A reader that only counts "
        "which word stands between which two shows both, on made text masked by the masker of training.",
        ("objectives.masking:Masker.__call__",),
        "Is 15 % the best rate?",
        _rate,
    ),
)
