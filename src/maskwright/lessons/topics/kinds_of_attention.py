"""Self-attention, masked self-attention, cross-attention: the sources of Q, K and V."""

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
    from ..parts.explainers import attention_sources
    from ..small import small_translator

    found = attention_sources(small_translator(), [5, 6, 7, 8], [1, 9, 10])
    for one in found:
        query, key, value, hides = SLIDE[one.kind]
        record.equal(f"{one.kind}: Q, K, V", f"{query}, {key}, {value}", f"{one.query}, {one.key}, {one.value}")
        record.equal(f"{one.kind}: masks later tokens", hides, one.hides_later)
    across = found[-1]
    record.off(
        "passed from the encoder to the decoder",
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
    record.show(Flow(boxes, arrows, "Sources of queries, keys and values"))
    record.show(
        Table(
            ["attention", "Q", "K", "V", "masks later tokens"],
            [(one.kind, one.query, one.key, one.value, one.hides_later) for one in found],
        )
    )
    record.answer(
        "Only the source: with another target, the keys and values of the cross-attention are bit-identical. A "
        "translation model therefore computes them once per source, not for each target token."
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
            "Each target token attends to all source tokens",
        )
    )
    swapped = Batch.from_sequences([[8, 7, 6, 5]])
    other = model.decode(Batch.from_sequences([target]), model.encode(swapped).hidden, swapped).hidden
    moved = float((other - decoded.hidden).abs().max().detach())
    record.holds("different order of the source", "different result", f"changes by {moved:.2f}", moved > 1e-3)
    record.answer(
        "All of them: the whole source is encoded before the first token is generated (each row has "
        f"{weights.shape[2]} weights and none is 0), and every encoder layer is bidirectional."
    )


LESSONS = (
    Lesson(
        "three-attentions",
        PART,
        APPLICATIONS,
        "Three Attentions – KQV",
        "Three kinds of attention, one formula",
        "A translation model uses the attention formula three times. The lesson finds the sources of Q, K and V by "
        "changing each text in turn.",
        ("lessons.parts.explainers:attention_sources",),
        "Which of the two texts must be known before the keys of the cross-attention can be computed?",
        _sources,
    ),
    Lesson(
        "cross-attention",
        PART,
        NEUROCOMPUTING,
        "Decoder",
        "The decoder attends to the source",
        "Between masked self-attention and feed-forward network, each decoder layer has cross-attention: its queries "
        "come from the decoder, keys and values from the encoder.",
        ("nn.cross:cross_attend",),
        "To which source tokens does the first target token attend?",
        _cross,
    ),
)
