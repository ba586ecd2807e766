"""Causal decoding: the mask, teacher forcing, the published learning-rate schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import integer
from ..lesson import APPLICATIONS, NEUROCOMPUTING, Lesson
from ..recorder import difference, tiny, tolerance

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Encoder and decoder"
IDS = [3, 14, 15, 9, 26, 5]


def _mask(record: LessonRecorder, layers: int) -> None:
    from ...data.batch import Batch
    from ...report import Grid
    from ..small import small_network

    model = small_network(40, "clm", attention="causal", type_vocab_size=0, pooler=False, num_hidden_layers=layers)
    seen = model.encode(Batch.from_sequences([IDS]), attentions=True)
    assert seen.attentions is not None
    before = seen.hidden.detach()
    kept, least = [], 1.0
    for place in range(1, len(IDS)):
        changed = [*IDS[:place], 30, *IDS[place + 1 :]]
        after = model.encode(Batch.from_sequences([changed])).hidden.detach()
        kept.append((before[:place], after[:place]))
        least = min(least, float((after - before)[place:].abs().amax(dim=1).min()))
    first, second = ([row for pair in kept for row in pair[side]] for side in (0, 1))
    worst = difference(first, second)
    record.same("if a later token changes", "nothing before it", first, second, said="earlier outputs change by")
    record.holds(
        "the later outputs", "depend on it", f"change by at least {least:.2f}", least > 100 * tolerance(before)
    )
    weights = seen.attentions[0][0][0].detach()
    above = float(weights.triu(1).abs().max())
    record.equal("weights above the diagonal", 0.0, above, law=True)
    names = [str(place + 1) for place in range(len(IDS))]
    shown = [
        [value if column <= row else None for column, value in enumerate(values)]
        for row, values in enumerate(weights.tolist())
    ]
    record.show(Grid(names, names, shown, "Masked self-attention of one head: dashed cells are masked"))
    free = model.config.num_hidden_layers
    record.answer(
        f"No: all {free} layers are masked, and after them earlier outputs change by only {tiny(worst)}. A single "
        "layer without a mask would leak the next word, and training would learn to copy it."
    )


def _parallel(record: LessonRecorder) -> None:
    import torch

    from ...data.batch import Batch
    from ...models.decoding.causal import CausalDecoder
    from ...report import Bar, Bars
    from ..small import small_network

    model = small_network(40, "clm", attention="causal", type_vocab_size=0, pooler=False)
    passes: list[int] = []  # tokens of each pass over the first layer
    counter = next(model.encoder.in_order).register_forward_hook(lambda layer, given, out: passes.append(len(given[0])))
    with torch.inference_mode():
        at_once = model.mlm_logits(model.encode(Batch.from_sequences([IDS])).hidden)  # [tokens, vocab]
    training = len(passes)
    decoder = CausalDecoder(model, [IDS[:1]], len(IDS))
    steps = [decoder.start(), *(decoder.step(torch.tensor([id])) for id in IDS[1:])]
    written = torch.cat(steps)
    gap = difference(written, at_once)
    record.same("logits in one pass, and token by token", "the same", written, at_once)
    record.equal("forward passes to train on 6 tokens", 1, training)
    record.equal("forward passes to generate them", 6, len(passes) - training)
    record.show(Bars([Bar("training", training, "1 pass"), Bar("generation", len(steps), f"{len(steps)} passes")]))
    counter.remove()
    slow = CausalDecoder(model, [IDS[:1]], len(IDS), use_cache=False)
    again = [slow.start(), *(slow.step(torch.tensor([id])) for id in IDS[1:])]
    record.same("with and without the key-value cache", "the same", torch.cat(again), written)
    record.answer(
        "In training the target is known, so all positions are predicted at once, each from the true tokens before "
        f"it. The logits equal those of generation token by token (they differ by {tiny(gap)}). In generation, each "
        f"token is an input of the next step: {len(steps)} tokens need {len(steps)} steps."
    )


def _schedule(record: LessonRecorder, warmup: int, width: int, step: int) -> None:
    from ...report import Chart, Curves, Series
    from ...train.schedules import learning_rate

    peak = (width * warmup) ** -0.5

    def rate(place: int) -> float:
        return learning_rate(place - 1, steps=100_000, peak=peak, warmup=warmup, schedule="inverse_sqrt")

    for place in sorted({1, 2000, 4000, 16_000, 100_000, warmup, step}):
        published = width**-0.5 * min(place**-0.5, place * warmup**-1.5)
        record.near(f"step {place:,}", published, rate(place), digits=7, law=True)
    places = [1, *range(500, 100_001, 500)]
    line = Series("rate", places, [rate(place) for place in places], smooth=False)
    record.show(Curves([Chart(f"Learning rate for width {width} and {warmup:,} steps of warmup", [line])], title=""))
    halved = rate(4 * warmup) / rate(warmup)
    record.near("learning rate at four times the warmup, relative to the peak", 0.5, halved, digits=2, law=True)
    record.answer(
        f"Half of the peak: {rate(4 * warmup):.5f} after {4 * warmup:,} steps, {rate(warmup):.5f} at {warmup:,} and "
        f"{rate(step):.7f} at {step:,}. The learning rate decays with the square root of the step and never reaches 0, "
        "so the number of steps need not be known. The option is --set schedule=inverse_sqrt."
    )


LESSONS = (
    Lesson(
        "causal-mask",
        PART,
        APPLICATIONS,
        "Masked Self-Attention",
        "No token attends to later tokens",
        "A decoder generates from left to right. In training, too, a token attends only to itself and earlier tokens: "
        "the scores of later tokens are masked before the softmax.",
        ("nn.attention:apply_causal_mask",),
        "Can the next word leak through a second layer?",
        _mask,
        (integer("layers", "Number of layers", 2, 1, 12),),
    ),
    Lesson(
        "parallel-training",
        PART,
        APPLICATIONS,
        "Question: parallel training",
        "Parallel training, sequential generation",
        "A recurrent network depends on its previous state. A causal decoder is trained on all positions of a text in "
        "one pass.",
        ("models.decoding.causal:CausalDecoder.step",),
        "Why can a Transformer decoder be trained in parallel, but not generate in parallel?",
        _parallel,
    ),
    Lesson(
        "warm-up",
        PART,
        NEUROCOMPUTING,
        "Training procedure",
        "Learning rate with warmup and decay",
        "The original Transformer has a warmup of 4,000 steps and then decays the learning rate with the square root "
        "of the step: d^−0.5 · min(step^−0.5, step · warm-up^−1.5).",
        ("train.schedules:learning_rate",),
        "What is the learning rate at four times the warmup?",
        _schedule,
        (
            integer("warmup", "Steps of warmup", 4000, 100, 20_000, 100),
            integer("width", "Width d of the network", 512, 64, 4096, 64),
            integer("step", "Step whose rate is printed", 2000, 1, 100_000),
        ),
    ),
)
