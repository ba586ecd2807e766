"""Encoder and decoder: layers, heads, kinds of attention, the causal mask, teacher forcing, the learning rate."""

from __future__ import annotations

import math
from itertools import islice

import torch

from ...data.batch import Batch
from ...inspect.steps import layer_steps
from ...models.decoding.causal import CausalDecoder
from ...models.presets import preset
from ...nn.attention import Run, attend
from ...nn.layers import ACTIVATIONS, FeedForward, LayerNorm
from ...report import Bar, Bars, Grid, Table
from ...report.charts import Arrow, Box, Chart, Flow, Series
from ...train.schedules import learning_rate
from ..inputs import Matrix
from ..parts import attention_sources, attention_weights
from ..recorder import LessonRecorder, difference, tiny, tolerance
from ..small import small_network, small_translator, word_tokenizer


def lesson_heads(record: LessonRecorder) -> None:
    base = preset("transformer-base")
    record.equal("heads and d_k", [8, 64], [base.num_attention_heads, base.head_dim])
    record.equal("W_O: rows × columns", [512, 512], [base.num_attention_heads * base.head_dim, base.hidden_size])
    draw = torch.Generator().manual_seed(0)
    qkv = torch.randn(6, 3 * 512, generator=draw)
    together, weights = attend(qkv, [Run(0, 1, 6)], 8, want_weights=True)
    assert weights is not None
    query, key, value = qkv.chunk(3, dim=1)
    alone = []
    for head in range(8):
        own = slice(64 * head, 64 * (head + 1))
        alone.append(attend(torch.cat([query[:, own], key[:, own], value[:, own]], dim=1), [Run(0, 1, 6)], 1)[0])
    record.same(
        "each single head = its block of the whole", "in parallel, concatenated", torch.cat(alone, dim=1), together
    )
    ones, _ = attend(torch.cat([query, key, torch.ones(6, 512)], dim=1), [Run(0, 1, 6)], 8)
    record.near("values of 1 under any weights", [1.0, 1.0], [float(ones.min()), float(ones.max())], digits=1)
    names = [str(place + 1) for place in range(6)]
    record.show(*(Grid(names, names, weights[0][head].tolist(), f"Head {head + 1}") for head in range(2)))
    one = attend(qkv, [Run(0, 1, 6)], 1)[0]
    apart = float((one - together).abs().mean())
    record.holds(
        "one head of 512 instead of eight of 64", "(asked)", f"differs by {apart:.2f} on average", apart > 0.05
    )
    record.answer(
        f"The cost is the same, but the result differs by {apart:.2f} on average: one head has one set of weights for "
        "all 512 dimensions, while eight heads can attend to eight positions."
    )


def lesson_layer_parts(record: LessonRecorder, x: float, vector: Matrix) -> None:
    base = preset("transformer-base")
    record.equal(
        "feed-forward network",
        "512 → 2,048 → 512, relu",
        f"{base.hidden_size} → {base.intermediate_size:,} → {base.hidden_size}, {base.hidden_act}",
    )
    draw = torch.Generator().manual_seed(0)
    network = FeedForward(8, 32, "relu").requires_grad_(False)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, generator=draw)
    tokens = torch.randn(5, 8, generator=draw)
    order = [4, 2, 0, 1, 3]
    record.same("the same network at every position", "position-wise", network(tokens)[order], network(tokens[order]))
    for parameter in network.parameters():
        torch.nn.init.constant_(parameter, 1.0)
    record.near(
        "all weights and biases 1, input 1: 32 · relu(8 + 1) + 1", 289.0, network(torch.ones(1, 8))[0, 0], digits=0
    )
    norm = LayerNorm(8, 1e-12).requires_grad_(False)
    torch.nn.init.ones_(norm.weight)
    assert norm.bias is not None
    torch.nn.init.zeros_(norm.bias)
    normed = norm(5 + 3 * tokens)
    record.near("mean of each normed vector", [0.0] * 5, normed.mean(dim=1), of=normed, digits=1)
    record.near("its variance", [1.0] * 5, normed.var(dim=1, correction=0), of=normed, digits=1)
    record.same("a batch of 1 and of 5", "over one vector, not the batch", norm(tokens[:1]), norm(tokens)[:1])
    own = torch.tensor(vector, dtype=torch.float64)  # [1, dimensions]
    mean, deviation = sum(vector[0]) / len(vector[0]), float(own.std(correction=0))
    by_hand = [(one - mean) / deviation if deviation > 1e-6 else 0.0 for one in vector[0]]
    norm = LayerNorm(len(vector[0]), 1e-12).requires_grad_(False)
    torch.nn.init.ones_(norm.weight)
    assert norm.bias is not None
    torch.nn.init.zeros_(norm.bias)
    given = ", ".join(f"{one:g}" for one in vector[0])
    normed = norm(own.float())[0]
    record.near(f"norm of {given}: (x − {mean:.3g}) / {deviation:.3g}", by_hand, normed, 1e-3, digits=3, law=True)
    record.show(Bars([Bar(f"{a:g}", abs(b), f"{b:.3f}") for a, b in zip(vector[0], by_hand, strict=True)],
                     title="Distance to the mean after the norm"))  # fmt: skip
    points = torch.linspace(-3, 3, 61)
    lines = [
        Series(name, points.tolist(), ACTIVATIONS[name](points).tolist(), smooth=False) for name in ("relu", "gelu")
    ]
    record.charts(Chart("Activation between the two layers", lines, x_label="x"))
    relu, gelu = (float(ACTIVATIONS[name](torch.tensor(x))) for name in ("relu", "gelu"))
    normal = 0.5 * (1 + math.erf(x / math.sqrt(2)))
    record.near(f"gelu at {x:g}: x times the normal distribution function", x * normal, gelu, 1e-3, law=True)
    record.answer(
        f"relu is {relu:g} at {x:g}, gelu {gelu:.4f}".replace("-", "\N{MINUS SIGN}")
        + ". gelu is x times the standard normal distribution function at x, so small negative inputs keep a gradient."
    )


def lesson_stack(record: LessonRecorder, layers: int) -> None:
    depths = [preset(name).num_hidden_layers for name in ("transformer-base", "bert-base", "bert-large")]
    record.equal("layers of the Transformer, BERT-Base, BERT-Large", [6, 12, 24], depths)
    model = small_network(40, num_hidden_layers=layers, initializer_range=0.05)
    batch = Batch.from_sequences([[2, 9, 11, 17, 3]])
    states = model.encode(batch, hidden_states=True).hidden_states
    assert states is not None
    record.equal(f"outputs of {layers} layers", layers + 1, len(states), law=True)
    layer = next(islice(model.encoder.in_order, 1))
    attended, _ = layer.attention(states[0], batch.runs)
    assert layer.attention_norm is not None
    added = layer.attention_norm(states[0] + attended)
    whole = layer.ffn_norm(added + layer.ffn(added))
    note = "one slide says the residual is concatenated; it is added, so the width stays"
    record.off("width after a residual connection", "concat: 64", 32, states[1].shape[1], note)
    record.same("layer = norm(x + attention), norm(x + feed-forward)", "add & norm", whole, states[1])
    first = states[0].detach()
    alike = [float((state.detach() * first).sum() / (state.norm() * first.norm()).detach()) for state in states]
    record.charts(
        Chart(
            "Cosine similarity to the embeddings, by layer",
            [Series(f"{layers} layers", list(range(layers + 1)), alike)],
            x_label="layer",
        )
    )
    record.answer(
        f"Through the residual connections: even after {layers} untrained layers, the cosine similarity to the "
        f"embeddings is {alike[-1]:.2f}. Each layer adds to its input."
    )


def lesson_five_steps(record: LessonRecorder, text: str) -> None:
    tokenizer = word_tokenizer(text)
    model = small_network(tokenizer, num_attention_heads=8, hidden_size=64, intermediate_size=128)
    found = layer_steps(model, text, 1)
    sizes = [" x ".join(map(str, step.values.shape)) for step in found.five]
    count = len(found.tokens.ids)
    shapes = (f"{count} x 64", f"3 x 8 x {count} x 8", f"8 x {count} x 8", f"{count} x 64", f"{count} x 64")
    for place, (step, shape, size) in enumerate(zip(found.five, shapes, sizes, strict=True), 1):
        record.equal(f"{place}. {step.name}", shape, size, law=True)
    layer = next(islice(model.encoder.in_order, 1))
    ids = list(found.tokens.ids)
    attended, _ = layer.attention(torch.from_numpy(found.inputs), Batch.from_sequences([ids]).runs)
    record.same("the five steps = the attention of the layer", "the same", attended, found.output)
    query, key, weights = (torch.from_numpy(one) for one in (found.query, found.key, found.weights))
    scaled = attention_weights(query @ key.mT, 8)
    is_scaled = difference(scaled, weights) <= tolerance(scaled, weights)
    record.off(
        "input of the softmax",
        "the unscaled scores",
        "the scaled scores",
        "the scaled scores" if is_scaled else "something else",
        "one slide uses unscaled scores in the softmax of step 3; step 2 has already divided them by √d",
    )
    boxes = [
        Box(f"{step.name}: {size}", (n if n < 3 else 5 - n) * 1.5 + 0.2, n // 3, n == 2)  # back below the first row
        for n, (step, size) in enumerate(zip(found.five, sizes, strict=True))
    ]
    record.show(Flow(boxes, [Arrow(number, number + 1) for number in range(4)], "Tensor shapes per step"))
    tokens = list(found.tokens.labels)
    record.show(Grid(tokens, tokens, weights[0].tolist(), "Weights of the first of 8 heads"))
    rows = [(step.name, step.formula, size) for step, size in zip(found.five, sizes, strict=True)]
    record.show(Table(["step", "how", "shape"], rows))
    blind = attention_weights(query @ key.mT)
    moved = float((blind - weights).abs().max())
    record.holds("weights without the scale", "(asked)", f"differ by {moved:.2f}", moved > 0.05)
    most = [float(one.max(dim=-1).values.mean()) for one in (weights, blind)]
    record.answer(
        f"The largest weight of a token would be {most[1]:.2f} on average instead of {most[0]:.2f}, even with a head "
        f"dimension of 8. All {len(ids)} tokens are processed in parallel."
    )


SLIDE = {  # kind: query, key, value, whether later tokens are hidden
    "encoder self-attention": ("source", "source", "source", False),
    "masked decoder self-attention": ("target", "target", "target", True),
    "decoder-encoder attention": ("target", "source", "source", False),
}


def lesson_three_attentions(record: LessonRecorder) -> None:
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


def lesson_cross_attention(record: LessonRecorder) -> None:
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


IDS = [3, 14, 15, 9, 26, 5]


def lesson_causal_mask(record: LessonRecorder, layers: int) -> None:
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


def lesson_parallel_training(record: LessonRecorder) -> None:
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


def lesson_warm_up(record: LessonRecorder, warmup: int, width: int, step: int) -> None:
    peak = (width * warmup) ** -0.5

    def rate(place: int) -> float:
        return learning_rate(place - 1, steps=100_000, peak=peak, warmup=warmup, schedule="inverse_sqrt")

    for place in sorted({1, 2000, 4000, 16_000, 100_000, warmup, step}):
        published = width**-0.5 * min(place**-0.5, place * warmup**-1.5)
        record.near(f"step {place:,}", published, rate(place), digits=7, law=True)
    places = [1, *range(500, 100_001, 500)]
    line = Series("rate", places, [rate(place) for place in places], smooth=False)
    record.charts(Chart(f"Learning rate for width {width} and {warmup:,} steps of warmup", [line]))
    halved = rate(4 * warmup) / rate(warmup)
    record.near("learning rate at four times the warmup, relative to the peak", 0.5, halved, digits=2, law=True)
    record.answer(
        f"Half of the peak: {rate(4 * warmup):.5f} after {4 * warmup:,} steps, {rate(warmup):.5f} at {warmup:,} and "
        f"{rate(step):.7f} at {step:,}. The learning rate decays with the square root of the step and never reaches 0, "
        "so the number of steps need not be known. The option is --set schedule=inverse_sqrt."
    )
