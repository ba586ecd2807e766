"""Attention changes when a word changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from ..inputs import text, words_of
from ..lesson import FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Attention"
TIRED = "The animal didn't cross the street because it was too tired"
WIDE = TIRED.replace("tired", "wide")


def _tired(record: LessonRecorder, first: str, second: str, word: str) -> None:
    import numpy as np

    from ...inspect.attention import attention
    from ...inspect.moves import head_moves
    from ...report import Bar, Bars, Grid
    from ..small import small_network, word_tokenizer

    for name, given in (("first", first), ("second", second)):
        if word.lower() not in [one.lower() for one in words_of(given)]:
            raise InputError(f"word: '{word}' is not in the {name} sentence; pass a word of both.")
    word = word.lower()
    tokenizer = word_tokenizer(first, second)
    sizes: dict[str, Any] = {"num_hidden_layers": 6, "num_attention_heads": 8}
    model = small_network(tokenizer.vocab_size, **sizes)
    model.tokenizer = tokenizer
    before, after = (attention(model, text).main for text in (first, second))
    moves = head_moves(before, after, word)
    best = moves.moves[0]
    record.equal("layers and heads", (6, 8), tuple(before.weights.shape[:2]), law=True)
    sums = before.weights.sum(axis=-1)
    record.same("every row of attention sums to", "1", sums, np.ones_like(sums), said="1 within")
    if len(words_of(first)) == len(words_of(second)):
        places = [list(one.queries.labels).index(word) for one in (before, after)]
        rows = [one.of(best.layer, best.head)[n].astype(float) for one, n in zip((before, after), places, strict=True)]
        by_hand = float(np.abs(rows[0] - rows[1]).sum() / 2)
        record.near("attention change, by hand: half the sum of all differences", by_hand, best.distance)
    record.equal("of 48 heads, those with a larger change", 0, int((moves.distances > best.distance).sum()), law=True)
    same = head_moves(before, attention(model, first).main, word)
    record.near("the same sentence twice", 0.0, float(same.distances.max()), of=before.weights, law=True)
    causal = small_network(tokenizer.vocab_size, attention="causal", type_vocab_size=0, pooler=False, **sizes)
    causal.tokenizer = tokenizer
    left = head_moves(attention(causal, first).main, attention(causal, second).main, word)
    record.near("a unidirectional network", 0.0, float(left.distances.max()), of=before.weights)
    heads = [f"head {number}" for number in before.heads]
    record.show(
        Grid(
            [f"layer {number}" for number in before.layers],
            heads,
            moves.distances.tolist(),
            f"Attention change of '{word}'",
        )
    )
    bars = [
        Bar(f"{one.label}: {name}", value, f"{value:.3f}")
        for one in best.shifts[:3]
        for name, value in zip(_names(first, second), (one.before, one.after), strict=True)
    ]
    record.show(Bars(bars, title=f"Layer {best.layer}, head {best.head}: attention of '{word}' to"))
    record.answer(
        "Only for words before the change: a causal network has the same rows for both sentences where all words up to "
        f"'{word}' are equal (here they differ by {float(left.distances.max()):.2g}). These weights are random: head "
        f"{best.head} of layer {best.layer} has the largest change, {best.distance:.3f}. In a trained network it is "
        "meaningful: docs/how-to/inspect.md shows a head of MiniLM in which 'it' attends to 'animal' with 64% for "
        "tired and 27% for wide."
    )


def _names(first: str, second: str) -> tuple[str, str]:
    """The last words of both sentences, or their numbers if these are equal."""
    last = (words_of(first)[-1], words_of(second)[-1])
    return last if last[0] != last[1] else ("first", "second")


LESSONS = (
    Lesson(
        "tired-or-wide",
        PART,
        FRONTIERS,
        "Attention Visualization",
        "Attention of 'it' when the animal is tired and the street is wide",
        "Two sentences differ in their last word. For each head, the attention rows of 'it' are compared: the change "
        "is half the sum of the absolute differences.",
        ("inspect.attention:attention", "inspect.moves:head_moves"),
        "Would a causal model show this?",
        _tired,
        (
            text("first", "First sentence", TIRED, 2, 40),
            text("second", "Second sentence", WIDE, 2, 40),
            text("word", "Word whose attention is compared", "it", 1, 1),
        ),
    ),
)
