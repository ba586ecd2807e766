"""Attention changes when a word changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..lesson import FRONTIERS, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Attention"
TIRED = "The animal didn't cross the street because it was too tired"
WIDE = TIRED.replace("tired", "wide")


def _tired(record: LessonRecorder) -> None:
    import numpy as np

    from ...inspect.attention import attention
    from ...inspect.moves import head_moves
    from ...report import Bar, Bars, Grid
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(TIRED, WIDE)
    sizes: dict[str, Any] = {"num_hidden_layers": 6, "num_attention_heads": 8}
    model = small_network(tokenizer.vocab_size, **sizes)
    model.tokenizer = tokenizer
    first, second = (attention(model, text).main for text in (TIRED, WIDE))
    moves = head_moves(first, second, "it")
    best = moves.moves[0]
    record.equal("layers and heads", (6, 8), tuple(first.weights.shape[:2]))
    sums = first.weights.sum(axis=-1)
    record.same("every row of attention sums to", "1", sums, np.ones_like(sums), said="1 within")
    place = list(first.queries.labels).index("it")
    rows = [one.of(best.layer, best.head)[place].astype(float) for one in (first, second)]
    record.near(
        "attention change, by hand: half the sum of all differences",
        float(np.abs(rows[0] - rows[1]).sum() / 2),
        best.distance,
    )
    record.equal("of 48 heads, those with a larger change", 0, int((moves.distances > best.distance).sum()))
    same = head_moves(first, attention(model, TIRED).main, "it")
    record.near("the same sentence twice", 0.0, float(same.distances.max()), of=first.weights)
    causal = small_network(tokenizer.vocab_size, attention="causal", type_vocab_size=0, pooler=False, **sizes)
    causal.tokenizer = tokenizer
    left = head_moves(attention(causal, TIRED).main, attention(causal, WIDE).main, "it")
    record.near("a unidirectional network", 0.0, float(left.distances.max()), of=first.weights)
    heads = [f"head {number}" for number in first.heads]
    record.show(
        Grid(
            [f"layer {number}" for number in first.layers],
            heads,
            moves.distances.tolist(),
            "Attention change of 'it'",
        )
    )
    bars = [
        Bar(f"{one.label}: {name}", value, f"{value:.3f}")
        for one in best.shifts[:3]
        for name, value in (("tired", one.before), ("wide", one.after))
    ]
    record.show(Bars(bars, title=f"Layer {best.layer}, head {best.head}: attention of 'it' to"))
    record.answer(
        "No: 'tired' follows 'it', so a causal network has the same rows for both (they differ by "
        f"{float(left.distances.max()):.0f}). These weights are random: head {best.head} of layer {best.layer} has the "
        f"largest change, {best.distance:.3f}. In a trained network it is meaningful: docs/how-to/inspect.md shows a "
        "head of MiniLM in which 'it' attends to 'animal' with 64% for tired and 27% for wide."
    )


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
    ),
)
