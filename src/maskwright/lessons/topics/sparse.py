"""Sparse attention for long texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lesson import APPLICATIONS, SESSION, Lesson
from ..recorder import tolerance

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Smaller and longer"
LENGTHS = (512, 1024, 2048, 4096)


def _big_bird(record: LessonRecorder) -> None:
    from ...models.flops import keys_seen
    from ...models.presets import preset
    from ...nn.sparse_rules import big_bird, global_only, random_only, window_only
    from ...report import Chart, Curves, SeenBlocks, Series

    drawn = {
        "(a) random": random_only(1, 2).pattern(12, 1).draw(),
        "(b) window": window_only(1).pattern(12, 1).draw(),
        "(c) global": global_only(1).pattern(12, 1).draw(),
        "(d) together": big_bird(1, 2).pattern(12, 1).draw(),
    }
    record.show(SeenBlocks(drawn, title=""))
    record.equal("(b) row 6 of the window", "....###.....", drawn["(b) window"].split("\n")[5])
    record.equal("(c) the first row attends to all", "#" * 12, drawn["(c) global"].split("\n")[0])
    record.equal("(c) row 6 attends to both ends", "#..........#", drawn["(c) global"].split("\n")[5])
    rows = drawn["(d) together"].split("\n")
    record.equal("(d) key blocks of a middle row: 3 + 2 + 2", 7, rows[5].count("#"))
    sparse, full = preset("bigbird-base", attention="big_bird"), preset("bigbird-base", attention="full")
    seen = {length: keys_seen(sparse, length) for length in LENGTHS}
    grows = seen[4096] / seen[1024]
    record.holds(
        "keys per token at 1,024 and 4,096",
        "the same: linear cost",
        f"{seen[1024]:.0f} and {seen[4096]:.0f}",
        grows < 1.15,
    )
    record.near("with full attention", [1024.0, 4096.0], [keys_seen(full, 1024), keys_seen(full, 4096)], digits=0)
    x = [float(length) for length in LENGTHS]
    record.show(
        Curves(
            [
                Chart(
                    "Pairs of tokens, millions",
                    [
                        Series("full", x, [length * length / 1e6 for length in LENGTHS]),
                        Series("BigBird", x, [length * seen[length] / 1e6 for length in LENGTHS]),
                    ],
                    x_label="tokens",
                )
            ],
            title="",
        )
    )
    share = seen[4096] / 4096
    record.answer(
        f"At 4,096 tokens, each attends to {seen[4096]:.0f} others, {share:.0%} of them. Global blocks connect any two "
        "tokens within two layers; with only a window, many layers would be necessary."
    )


def _window(record: LessonRecorder) -> None:
    import torch

    from ...data.batch import Batch
    from ...report import Grid
    from ..small import small_network

    ids = [5, 9, 13, 17, 21, 25, 29, 33]
    model = small_network(40, attention="window", window_size=2, num_hidden_layers=3)
    found = model.encode(Batch.from_sequences([ids]), hidden_states=True, attentions=True)
    assert found.attentions is not None and found.hidden_states is not None
    weights = found.attentions[0][0][0].detach()
    far = (torch.arange(8)[:, None] - torch.arange(8)).abs() > 1
    record.equal("weights beyond the window", 0.0, float(weights[far].abs().max()))
    record.same("each row sums to", "1", weights.sum(dim=1), torch.ones(8), said="1 within")
    changed = model.encode(Batch.from_sequences([[39, *ids[1:]]]), hidden_states=True).hidden_states
    assert changed is not None
    reach = [
        int(((a - b).abs().amax(dim=1) > tolerance(a)).nonzero().max())
        for a, b in zip(found.hidden_states, changed, strict=True)
    ]
    record.equal("reach of the first token after 0, 1, 2, 3 layers", [0, 1, 2, 3], reach)
    wide = small_network(40, attention="window", window_size=64)
    full = small_network(40)
    batch = Batch.from_sequences([ids])
    record.same(
        "a window over everything = full attention", "equal", wide.encode(batch).hidden, full.encode(batch).hidden
    )
    shown = [[None if bool(far[a, b]) else float(weights[a, b]) for b in range(8)] for a in range(8)]
    names = [str(place + 1) for place in range(8)]
    record.show(Grid(names, names, shown, "A window of one token on each side: dashed cells are not computed"))
    record.answer(
        f"One token further with each layer: {', '.join(map(str, reach))}. This is n / r of the slide's table: with a "
        "window of r, two tokens at distance n are connected after n / r layers."
    )


LESSONS = (
    Lesson(
        "big-bird",
        PART,
        APPLICATIONS,
        "BigBird",
        "Random, window, global, and combined",
        "Four attention patterns, by block. Combined, they connect every pair of tokens within two layers, while the "
        "number of keys per token does not depend on the length.",
        (
            "nn.sparse_rules:big_bird",
            "nn.sparse_rules:window_only",
            "nn.sparse_rules:global_only",
            "models.flops:keys_seen",
        ),
        "To what fraction of a text of 4,096 tokens does a token attend?",
        _big_bird,
    ),
    Lesson(
        "window",
        PART,
        SESSION,
        "Complexity: restricted attention",
        "Window attention over several layers",
        "Each token attends only to its neighbors. Stacked layers increase its reach, layer by layer.",
        ("nn.sparse:attend_sparse",),
        "After how many layers does the first token affect the token three positions later?",
        _window,
    ),
)
