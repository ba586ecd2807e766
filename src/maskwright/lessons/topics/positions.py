"""Positional encodings: how attention gets the order of tokens."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, NEUROCOMPUTING, Lesson
from ..recorder import difference, show, tiny

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Positions and input"
WIDTH, LENGTH = 512, 512
PARSED = ("the", "animal", "that", "crossed", "the", "street", "was", "tired")
HEADS = (2, 8, 4, 2, 6, 4, 8, 0)  # the number of each word's head, from 1; 0 is the root's


def _sinusoids(record: LessonRecorder) -> None:
    import torch

    from ...nn.positions import sinusoidal_positions
    from ...report import Chart, Curves, Grid, Series

    table = sinusoidal_positions(LENGTH, WIDTH)  # [positions, width]
    for place, index in ((1, 0), (10, 4), (100, 200)):
        angle = place / 10_000 ** (index / WIDTH)
        record.near(f"PE({place}, {index}) = sin", math.sin(angle), float(table[place, index]), digits=6)
        record.near(f"PE({place}, {index + 1}) = cos", math.cos(angle), float(table[place, index + 1]), digits=6)
    apart = torch.pdist(table).min()
    record.holds("every row is unique", "unique", f"minimum distance {float(apart):.2f}", float(apart) > 0.1)
    added = (torch.ones(LENGTH, WIDTH) + table).shape[1]
    record.equal("width of token + position", WIDTH, added)
    rows = [str(place) for place in range(16)]
    columns = [str(index) for index in range(0, 52, 2)]
    record.show(
        Grid(
            rows,
            columns,
            table[:16, :52:2].tolist(),
            "Sinusoidal encoding of the first 16 positions, dimensions 0 to 50",
            digits=None,
        )
    )
    products = table @ table.T  # [positions, positions]
    lines = [products.diagonal(k) for k in (1, 10, 100)]
    spread = max(float(line.max() - line.min()) for line in lines)
    first = [line[:1].expand(len(line)) for line in lines]
    record.same("PE(p) · PE(p + k) is the same for all p", "(asked)", lines, first, said="differs by")
    line = Series("PE(p) · PE(p + k)", list(range(60)), products[0, :60].tolist())
    record.answer(
        f"Yes: the product of two rows depends only on their distance (it differs by at most {tiny(spread)} over 500 "
        "positions), so a head can learn to attend k tokens back from any position.",
        Curves([Chart("Product of two rows by distance", [line], x_label="distance k")], title=""),
    )


def _ideas(record: LessonRecorder) -> None:
    from ...models.config_tables import CHOICES
    from ...nn.positions import binary_positions, integer_positions, normalized_positions, sinusoidal_positions
    from ...report import Grid

    binary = binary_positions(16)
    for place, slide in ((0, "0 0 0 0"), (5, "0 1 0 1"), (10, "1 0 1 0"), (15, "1 1 1 1")):
        record.equal(f"{place} in binary", slide, " ".join(str(int(bit)) for bit in binary[place]))
    flips = binary.diff(dim=0).abs().sum(dim=0).int().tolist()
    record.equal("changes of each digit from 0 to 15", [1, 3, 7, 15], flips)
    whole = integer_positions(1000)
    record.holds(
        "an integer index grows without bound",
        "large values",
        f"{float(whole.max()):.0f} at position 999",
        float(whole.max()) == 999.0,
    )
    short, long = float(normalized_positions(5)[2, 0]), float(normalized_positions(9)[2, 0])
    record.near("position 2 of 5, and of 9, normalized", [0.5, 0.25], [short, long], digits=2)
    waves = sinusoidal_positions(16, 8)
    record.holds(
        "sine and cosine terms are bounded",
        "−1 to 1",
        f"{show(float(waves.min()), 2)} to {show(float(waves.max()), 2)}",
        float(waves.abs().max()) <= 1,
    )
    schemes = [name for name in CHOICES["positions"] if name != "none"]
    record.holds("available position types", "(several)", ", ".join(schemes), len(schemes) >= 4)
    places = [str(place) for place in range(16)]
    record.show(
        Grid(places, ["8", "4", "2", "1"], binary.tolist(), "The numbers 0 to 15 in binary", digits=0),
        Grid(places, [str(index) for index in range(8)], waves.tolist(), "Sinusoidal encoding, width 8"),
    )
    fast, slow = waves[:, 0].diff().abs().sum(), waves[:, 6].diff().abs().sum()
    record.answer(
        f"Halving rates of change, but without jumps: over 16 positions the first sine changes by {float(fast):.1f} in "
        f"total, the last one by {float(slow):.2f}. Neighboring positions stay close in every dimension, unlike 7 = "
        "0111 and 8 = 1000."
    )


def _relative(record: LessonRecorder) -> None:
    from ...data.batch import Batch
    from ...report import Table
    from ..small import small_network

    moved, pairs = {}, {}
    for scheme in ("relative_key", "rotary", "absolute"):
        model = small_network(50, positions=scheme)
        batch = Batch.from_sequences([[7, 3, 21, 9, 14]])
        later = replace(batch, position_ids=batch.position_ids + 20)
        first, second = (model.encode(one, attentions=True).attentions for one in (batch, later))
        assert first is not None and second is not None
        pairs[scheme] = (first[0][0], second[0][0])
        moved[scheme] = difference(*pairs[scheme])
    record.same("relative: weights after a shift by 20", "unchanged", *pairs["relative_key"])
    record.same("rotary: the same", "(not shown)", *pairs["rotary"])
    record.holds("absolute: the same", "changed", f"differ by {moved['absolute']:.2f}", moved["absolute"] > 0.01)
    record.show(
        Table(
            ["positions", "largest change of a weight"],
            [(k, f"{v:.1e}") for k, v in moved.items()],
            right=["largest change of a weight"],
        )
    )
    model = small_network(50, positions="relative_key", relative_distance=2)
    ids = [7, 3, 3, 3, 3, 9]
    found = model.encode(Batch.from_sequences([ids]), attentions=True).attentions
    assert found is not None
    far = found[0][0][:, 0, 3:5]
    same = difference(far[:, 0], far[:, 1])
    near = float((found[0][0][:, 0, 1] - found[0][0][:, 0, 2]).abs().max())
    record.holds("the same word at distance 1 and 2", "distinguished", f"differ by {near:.3f}", near > 1e-3)
    record.same("distances beyond the limit share an embedding", "clipped", far[:, 0], far[:, 1])
    record.answer(
        "They share one embedding: with a limit of 2, the first token attends equally to equal words at distances 3 "
        f"and 4 (the weights differ by {tiny(same)}). Direction and short distances are exact, large distances are not "
        "distinguished."
    )


def _tree(record: LessonRecorder) -> None:
    import numpy as np

    from ...data.parses import tree_distances
    from ...report import Grid, Table

    arcs = tree_distances(HEADS)  # [words, words], negative to the left
    places = np.arange(len(PARSED))
    steps = places[None, :] - places[:, None]
    subject, street, verb = PARSED.index("animal"), PARSED.index("street"), PARSED.index("tired")
    record.equal(
        "animal and tired: distance in words, in arcs", (6, 1), (int(steps[subject, verb]), int(arcs[subject, verb]))
    )
    record.equal("street and was: distance in words, in arcs", (1, 4), (int(steps[street, 6]), int(arcs[street, 6])))
    neighbors = int((np.abs(arcs) == 1).sum()) // 2
    record.equal("pairs that are one arc apart: one less than words", len(PARSED) - 1, neighbors)
    record.equal("reversed pair: the same number with the opposite sign", True, bool((arcs == -arcs.T).all()))
    chain = tree_distances([*range(2, len(PARSED) + 1), 0])  # the head of each word is the next word
    record.equal("a chain as a tree: the distances are those of the text", True, bool((chain == steps).all()))
    record.show(Grid(list(PARSED), list(PARSED), np.abs(arcs).tolist(), "Distances in arcs", digits=0))
    rows = [
        (f"{PARSED[a]} – {PARSED[b]}", abs(int(steps[a, b])), abs(int(arcs[a, b])))
        for a, b in ((subject, verb), (subject, 3), (street, 6), (0, 4))
    ]
    record.show(Table(["words", "distance in the text", "distance in the tree"], rows))
    record.answer(
        f"Here at most {int(np.abs(arcs).max())} arcs, compared with {len(PARSED) - 1} positions in the text: trees "
        "are shallow. The predicate of the animal is one arc away, however long the clause between them is. In a "
        "network with relative positions, these distances can replace the linear ones (parsed_batch)."
    )


LESSONS = (
    Lesson(
        "sinusoids",
        PART,
        APPLICATIONS,
        "Positional Embedding",
        "Sinusoidal positions",
        "Attention does not encode order, so a vector for the position is added to each token embedding: a sine in "
        "each even dimension, a cosine in each odd one, with decreasing frequencies. The width does not change.",
        ("nn.positions:sinusoidal_positions",),
        "Can attention compute the distance of two tokens from these vectors?",
        _sinusoids,
    ),
    Lesson(
        "position-ideas",
        PART,
        NEUROCOMPUTING,
        "Positional encoding",
        "Simpler ideas and their limits",
        "An integer index is unbounded. Divided by the length, its meaning depends on the text. Binary digits are "
        "bounded and unique, but discontinuous. The digits change at halving rates, as do the sinusoids.",
        (
            "nn.positions:binary_positions",
            "nn.positions:integer_positions",
            "nn.positions:normalized_positions",
            "nn.positions:sinusoidal_positions",
        ),
        "What do sinusoids have in common with binary digits?",
        _ideas,
    ),
    Lesson(
        "relative-positions",
        PART,
        APPLICATIONS,
        "What would we like to fix",
        "Relative positions",
        "Shaw et al. add a learned embedding of the distance between query and key. The attention of a sentence then "
        "does not depend on its position in the text.",
        ("nn.relative:RelativeVectors.score_terms", "nn.rotary:rotate_query_key"),
        "What happens to distances larger than those in training?",
        _relative,
    ),
    Lesson(
        "tree-distances",
        PART,
        APPLICATIONS,
        "What would we like to fix: syntax",
        "Tree distances",
        "Wang et al. use distances in a dependency parse: the number of arcs between two words instead of the number "
        "of words. The parse is read from a file; here it is written by hand.",
        ("data.parses:tree_distances",),
        "What is the largest distance of two words in the tree?",
        _tree,
    ),
)
