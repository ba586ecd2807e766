"""Self-attention, masked self-attention, cross-attention: where Q, K and V come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, NEUROCOMPUTING, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Encoder and decoder"
SLIDE = {  # kind: query, key, value, whether later tokens are hidden
    "encoder self-attention": ("source", "source", "source", False),
    "masked decoder self-attention": ("target", "target", "target", True),
    "decoder-encoder attention": ("target", "source", "source", False),
}


def _sources(record: LessonRecorder) -> None:
    from ...report import Arrow, Box, Flow, Table
    from ..parts.sources import attention_sources
    from ..small import small_translator

    found = attention_sources(small_translator(), [5, 6, 7, 8], [1, 9, 10])
    for one in found:
        query, key, value, hides = SLIDE[one.kind]
        record.equal(f"{one.kind}: Q, K, V", f"{query}, {key}, {value}", f"{one.query}, {one.key}, {one.value}")
        record.equal(f"{one.kind}: hides later tokens", hides, one.hides_later)
    across = found[-1]
    record.off(
        "what the encoder gives the decoder",
        "query and value",
        "key and value",
        " and ".join(part for part in ("query", "key", "value") if getattr(across, part) == "source"),
        "one lecture says query and value; the queries are the decoder's own",
    )
    boxes = [
        Box("source", 0, 2),
        Box("encoder self-attention", 1.6, 2, True),
        Box("target so far", 0, 0),
        Box("masked self-attention", 1.6, 0, True),
        Box("cross-attention", 2.9, 1, True),
        Box("next token", 4.2, 1),
    ]
    arrows = [Arrow(0, 1, "Q K V"), Arrow(2, 3, "Q K V"), Arrow(3, 4, "Q"), Arrow(1, 4, "K V"), Arrow(4, 5)]
    record.show(Flow(boxes, arrows, "Where queries, keys and values come from"))
    record.show(
        Table(
            ["attention", "Q", "K", "V", "hides later"],
            [(one.kind, one.query, one.key, one.value, one.hides_later) for one in found],
        )
    )
    record.answer(
        f"Only {across.query}: with another target the keys and values of the cross-attention stay the same to the "
        "bit. So a translator computes them once for each source, and not again for each word that it writes."
    )


def _cross(record: LessonRecorder) -> None:
    from ...data.batch import Batch
    from ...report import Grid
    from ..small import small_translator

    model = small_translator()
    source, target = [5, 6, 7, 8], [1, 9, 10]
    read = Batch.from_sequences([source])
    encoded = model.encode(read)
    decoded = model.decode(Batch.from_sequences([target]), encoded.hidden, read, attentions=True)
    assert decoded.cross_attentions is not None
    weights = decoded.cross_attentions[0][0].detach()
    record.equal("table of one head: target × source", [3, 4], list(weights.shape[1:]))
    sums = weights.sum(dim=-1)
    record.same("each row sums to", "1", sums, sums.new_ones(sums.shape), said="1 within")
    record.equal(
        "parts of a decoder layer",
        "self-attention, cross-attention, feed-forward",
        ", ".join(
            word
            for word, name in (("self-attention", "attention"), ("cross-attention", "cross"), ("feed-forward", "ffn"))
            if hasattr(model.decoder.depths[0], name)
        ),
    )
    record.show(
        Grid(
            ["start", "word 1", "word 2"],
            [f"source {n}" for n in range(1, 5)],
            weights[0].tolist(),
            "Each target token looks at all source tokens",
        )
    )
    swapped = Batch.from_sequences([[8, 7, 6, 5]])
    other = model.decode(Batch.from_sequences([target]), model.encode(swapped).hidden, swapped).hidden
    moved = float((other - decoded.hidden).abs().max().detach())
    record.holds("another order of the source", "another result", f"moves by {moved:.2f}", moved > 1e-3)
    record.answer(
        f"All of them: every source token is there before the first word is written (each row has {weights.shape[2]} "
        "weights and none is 0), and all of its layers have read it from both sides."
    )


LESSONS = (
    Lesson(
        "three-attentions",
        PART,
        APPLICATIONS,
        "Three Attentions – KQV",
        "Three kinds of attention, one formula",
        "In a translator the formula of attention is used three times. Which text Q, K and V come from is found by "
        "changing each text and looking at what changes with it.",
        ("lessons.parts.sources:attention_sources",),
        "Which of the two texts must be known before the keys of the cross-attention can be computed?",
        _sources,
    ),
    Lesson(
        "cross-attention",
        PART,
        NEUROCOMPUTING,
        "Decoder",
        "The decoder looks at what was read",
        "Between its masked self-attention and its feed-forward network each decoder layer looks across, with "
        "queries of its own, at the keys and values that the encoder made.",
        ("nn.cross:cross_attend",),
        "Which source tokens may the first written word see?",
        _cross,
    ),
)
