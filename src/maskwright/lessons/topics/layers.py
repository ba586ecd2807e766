"""Which layers make a vector, learned mixes of them, and what a context does to a word."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..lesson import FRONTIERS, SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Features and meaning"
GREEN = ("the green leaf of the tree", "a green young player of the team", "the green party won the vote")


def _choices(record: LessonRecorder) -> None:
    import torch

    from ...inference.layers import NAMED_LAYERS, choose_layers
    from ...report import Bar, Bars
    from ...tasks.evaluation.published import published_table

    states = [torch.full((2, 3), float(layer)) for layer in range(13)]  # layer n holds the number n
    table = published_table("conll2003-layers", "paper")
    wanted = {"embeddings": 0.0, "last": 12.0, "second-to-last": 11.0, "sum-all": 78.0, "sum-last-4": 42.0}
    for name, value in wanted.items():
        record.near(
            f"{name}: a number of the vector", value, float(choose_layers(name, 12).apply(states)[0, 0]), digits=0
        )
    joined = choose_layers("concat-last-4", 12)
    record.equal("concat-last-4", [9, 10, 11, 12], joined.apply(states)[0, ::3].int().tolist())
    record.equal(
        "width of a token's vector in BERT-Base",
        {"last": 768, "concat-last-4": 3072},
        {name: choose_layers(name, 12).size(768) for name in ("last", "concat-last-4")},
    )
    scores = {row.name: row.values["Dev F1"] for row in table.rows}
    order = [
        scores[name] for name in ("embeddings", "last", "sum-all", "second-to-last", "sum-last-4", "concat-last-4")
    ]
    record.equal("published dev F1", [91.0, 94.9, 95.5, 95.6, 95.9, 96.1], order)
    doubtful = [row.name for row in table.rows if row.scores["Dev F1"].doubt]
    record.holds(
        "values of the first two rows",
        "(lost in the text)",
        ", ".join(doubtful),
        doubtful == ["embeddings", "last"],
        "these two are from the slide's figure; its text has the other four",
    )
    record.show(
        Bars(
            [Bar(name, scores[name], f"{scores[name]:.1f}") for name in NAMED_LAYERS],
            title="Published: CoNLL-2003 dev F1 of a tagger on frozen layers",
        )
    )
    gain = scores["concat-last-4"] - scores["last"]
    record.answer(
        f"Four layers beside each other gain {gain:.1f} points over the last one, published; the last layer is made "
        "for predicting masked words. maskwright experiment layers trains the same tagger on all six, and on a "
        "learned mix, on your data."
    )


def _mix(record: LessonRecorder) -> None:
    import torch

    from ...nn.scalar_mix import ScalarMix
    from ...report import Bar, Bars

    mix = ScalarMix(3)
    layers = [torch.tensor([[value]]) for value in (6.0, 0.0, 3.0)]
    record.near("shares at the beginning", [1 / 3] * 3, mix.shares().detach())
    record.near("the mix of 6, 0 and 3: their mean", 3.0, float(mix(layers).detach()), digits=1)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([math.log(2), 0.0, 0.0]))
        mix.scale.fill_(2.0)
    record.near("weights log 2, 0, 0: shares", [0.5, 0.25, 0.25], mix.shares().detach(), digits=2)
    record.near("2 · (0.5·6 + 0.25·0 + 0.25·3)", 7.5, float(mix(layers).detach()), digits=1)
    names = ("embeddings", "layer 1", "layer 2")
    record.show(
        Bars(
            [Bar(name, one, f"{one:.2f}") for name, one in zip(names, mix.shares().tolist(), strict=True)],
            title="Shares of the layers",
        )
    )
    mix(layers).sum().backward()
    pulls = mix.weights.grad
    assert pulls is not None
    record.answer(
        "By its gradient, like any weight: if a larger mix is wanted, the layer that holds 6 is pulled up by "
        f"{float(pulls[0]):.2f}, the one that holds 0 down by {-float(pulls[1]):.2f}. The softmax keeps the shares at "
        "1 in all."
    )


def _green(record: LessonRecorder) -> None:
    from ...inference.embed import TextEncoder
    from ...inference.similarity import word_similarities
    from ...report import Grid
    from ...text.readers.tables import Row
    from ..small import small_network, word_tokenizer

    tokenizer = word_tokenizer(*GREEN)
    model = small_network(tokenizer.vocab_size)
    model.tokenizer = tokenizer
    rows = [Row(text, None, None, number, "lesson") for number, text in enumerate(GREEN, 1)]
    found = word_similarities(TextEncoder(model, pooling="none"), rows, "green")
    assert found.static is not None
    record.near("static vectors of 'green'", [1.0] * 9, found.static, digits=1)
    others = [float(found.matrix[a, b]) for a in range(3) for b in range(a)]
    record.holds(
        "vectors of 'green' in context", "differ", ", ".join(f"{one:.2f}" for one in others), max(others) < 0.999
    )
    record.show(
        Grid(
            [f"sentence {n}" for n in (1, 2, 3)],
            ["1", "2", "3"],
            found.matrix.tolist(),
            "Cosines of 'green' in context",
        ),
        Grid([f"sentence {n}" for n in (1, 2, 3)], ["1", "2", "3"], found.static.tolist(), "of its static vector"),
    )
    depth = [
        float(word_similarities(TextEncoder(model, layers=layer, pooling="none"), rows, "green").matrix[0, 1])
        for layer in (0, 1, 2)
    ]
    record.answer(
        f"With each layer more of the context: the cosine of the first two is {depth[0]:.2f} at the input (positions "
        f"aside it is one word), {depth[1]:.2f} after one layer, {depth[2]:.2f} after two. This network is untrained: "
        "that the contexts which mean the same are nearer has to be learned. maskwright similarity MODEL --word green "
        "shows it."
    )


LESSONS = (
    Lesson(
        "layer-choices",
        PART,
        SESSION,
        "Later layers have the best…",
        "Six ways to make a vector of twelve layers",
        "Every layer gives each token a vector. One can take one, add several, or put four side by side; the paper "
        "compared them with a tagger on CoNLL-2003.",
        (
            "inference.layers:choose_layers",
            "inference.layers:LayerChoice.apply",
            "tasks.evaluation.published:published_table",
        ),
        "Is the last layer the best?",
        _choices,
    ),
    Lesson(
        "scalar-mix",
        PART,
        SESSION,
        "ELMo: step 2 and 3",
        "A mix of layers that is learned",
        "ELMo gives each layer a weight, soft-maxed, and scales the sum. The weights belong to the task.",
        ("nn.scalar_mix:ScalarMix.forward", "nn.scalar_mix:ScalarMix.shares"),
        "How does training find the right layer?",
        _mix,
    ),
    Lesson(
        "green",
        PART,
        FRONTIERS,
        "Embeddings generated from BERT; Self Attention Motivation",
        "Green leaves, green players, green parties",
        "A word has one vector in the table, whatever the sentence. What comes out of the encoder differs with the "
        "context.",
        ("inference.similarity:word_similarities",),
        "Where in the network does a word become its meaning?",
        _green,
    ),
)
