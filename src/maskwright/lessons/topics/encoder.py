"""The parts of an encoder layer: heads, a feed-forward network, add and norm."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..inputs import Matrix, integer, matrix, number, text
from ..lesson import APPLICATIONS, FRONTIERS, NEUROCOMPUTING, SESSION, Lesson
from ..recorder import difference, tolerance

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Encoder and decoder"


def _heads(record: LessonRecorder) -> None:
    import torch

    from ...models.presets import preset
    from ...nn.attention import Run, attend
    from ...report import Grid

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


def _parts(record: LessonRecorder, x: float, vector: Matrix) -> None:
    import torch

    from ...models.presets import preset
    from ...nn.layers import FeedForward, LayerNorm
    from ...report import Bar, Bars, Chart, Curves, Series

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
        "all weights and biases 1, input 1: 32 · relu(8 + 1) + 1",
        289.0,
        network(torch.ones(1, 8))[0, 0],
        digits=0,
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
    from ...nn.layers import ACTIVATIONS

    lines = [
        Series(name, points.tolist(), ACTIVATIONS[name](points).tolist(), smooth=False) for name in ("relu", "gelu")
    ]
    record.show(Curves([Chart("Activation between the two layers", lines, x_label="x")], title=""))
    relu, gelu = (float(ACTIVATIONS[name](torch.tensor(x))) for name in ("relu", "gelu"))
    normal = 0.5 * (1 + math.erf(x / math.sqrt(2)))
    record.near(f"gelu at {x:g}: x times the normal distribution function", x * normal, gelu, 1e-3, law=True)
    record.answer(
        f"relu is {relu:g} at {x:g}, gelu {gelu:.4f}".replace("-", "\N{MINUS SIGN}")
        + ". gelu is x times the standard normal distribution function at x, so small negative inputs keep a gradient."
    )


def _stack(record: LessonRecorder, layers: int) -> None:
    from itertools import islice

    from ...data.batch import Batch
    from ...models.presets import preset
    from ...report import Chart, Curves, Series
    from ..small import small_network

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
    record.show(
        Curves(
            [
                Chart(
                    "Cosine similarity to the embeddings, by layer",
                    [Series(f"{layers} layers", list(range(layers + 1)), alike)],
                    x_label="layer",
                )
            ],
            title="",
        )
    )
    record.answer(
        f"Through the residual connections: even after {layers} untrained layers, the cosine similarity to the "
        f"embeddings is {alike[-1]:.2f}. Each layer adds to its input."
    )


def _five_steps(record: LessonRecorder, text: str) -> None:
    from itertools import islice

    import torch

    from ...data.batch import Batch
    from ...inspect.steps import layer_steps
    from ...report import Arrow, Box, Flow, Grid, Table
    from ..parts.scaling import attention_weights
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(text)
    model = small_network(tokenizer.vocab_size, num_attention_heads=8, hidden_size=64, intermediate_size=128)
    model.tokenizer = tokenizer
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


LESSONS = (
    Lesson(
        "five-steps",
        PART,
        FRONTIERS,
        "Self-Attention Layer",
        "Self-attention in five steps",
        "Embed, split into heads, attend, concatenate the heads, multiply by W_O: the numbers of a real layer, step "
        "by step.",
        ("inspect.steps:layer_steps",),
        "What if the scores were not scaled?",
        _five_steps,
        (text("text", "Sentence", "thinking machines learn fast", 1, 30),),
    ),
    Lesson(
        "heads",
        PART,
        APPLICATIONS,
        "Multi-head Attention",
        "Eight heads are eight blocks",
        "Each head has its own queries, keys and values of 64 dimensions. The head outputs are concatenated, 8 × 64 = "
        "512, and W_O mixes them.",
        ("nn.attention:attend",),
        "What changes with one large head?",
        _heads,
    ),
    Lesson(
        "layer-parts",
        PART,
        NEUROCOMPUTING,
        "Encoder layer",
        "Feed-forward and norm operate on single tokens",
        "After attention has mixed the tokens, the same small network is applied to each token separately. The norm "
        "is also computed over the dimensions of one vector.",
        ("nn.layers:FeedForward.forward", "nn.layers:LayerNorm.forward"),
        "Why does BERT use gelu instead of the Transformer's relu?",
        _parts,
        (
            number("x", "Input x of the activations", -1, -3, 3),
            matrix("vector", "Vector to normalize, in one row", ((2, 4, 4, 10),), -1000, 1000, rows=1),
        ),
    ),
    Lesson(
        "stack",
        PART,
        SESSION,
        "Encoder: stacked layers",
        "Residual connections",
        "Six layers in the Transformer, 12 and 24 in BERT. Each layer adds its result to its input and normalizes the "
        "sum; the output of every layer can be inspected.",
        ("models.transformer:Transformer.forward", "models.presets:preset"),
        "Why does the last layer still encode the words?",
        _stack,
        (integer("layers", "Number of layers", 6, 2, 24),),
    ),
)
