"""Smaller and longer: distillation, and sparse attention."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from ...core.util import plural
from ...data.batch import Batch
from ...models.presets import preset
from ...models.sizes import keys_seen
from ...nn.sparse import big_bird, global_only, random_only, window_only
from ...objectives.distillation import hidden_cosine_loss, soft_target_loss
from ...report import Grid
from ...report.charts import Chart, Series
from ..inputs import Matrix
from ..parts import attention_weights
from ..recorder import LessonRecorder, tolerance
from ..small import small_network


def lesson_distillation(record: LessonRecorder, temperature: float, shares: Matrix) -> None:
    (given,) = shares
    count = len(given)
    teacher = torch.tensor([[math.log(one) for one in given]])
    student = torch.zeros(1, count)
    plain = [one / sum(given) for one in given]
    record.near("teacher at temperature 1", plain, attention_weights(teacher)[0], law=True)
    by_hand = sum(p * math.log(count * p) for p in plain)
    loss = float(soft_target_loss(student, teacher, 1.0))
    record.near("loss of a uniform student, T = 1", by_hand, loss, of=teacher, law=True)
    equal = float(soft_target_loss(teacher, teacher, 2.0))
    record.near("loss of a student equal to the teacher", 0.0, equal, of=teacher, law=True)
    raised = [one ** (1 / temperature) for one in given]
    soft = [one / sum(raised) for one in raised]
    warm = attention_weights(teacher / temperature)[0]
    record.near(f"teacher at temperature {temperature:g}", soft, warm, law=True)
    record.bars(
        f"Teacher distribution at temperature {temperature:g}",
        [(f"word {n}", one) for n, one in enumerate(soft, 1)],
        ".3f",
    )
    norms = []
    for heat in (1.0, 2.0, 4.0, 8.0):
        own = torch.zeros(1, count, requires_grad=True)
        soft_target_loss(own, teacher, heat).backward()
        assert own.grad is not None
        norms.append(float(own.grad.norm()))
    flat = max(norms) / max(min(norms), 1e-12)
    record.holds("gradient from T = 1 to 8", "T² keeps its size", f"{min(norms):.2f} to {max(norms):.2f}", flat < 2)
    turned = hidden_cosine_loss(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[2.0, 0.0], [1.0, 0.0]]))
    record.near("1 − cos: same direction 0, right angle 1; the sum", 1.0, float(turned), digits=1, law=True)
    heats = [1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0]
    lines = [
        Series(f"word {word + 1}", heats, [float(attention_weights(teacher / heat)[0, word]) for heat in heats])
        for word in range(count)
    ]
    record.charts(Chart("Teacher distribution by temperature", lines, x_label="temperature"))
    record.answer(
        f"The similarity of the wrong words: at temperature {temperature:g}, the second word has {soft[1]:.2f} instead "
        f"of {plain[1]:.2f}. A label contains one word; a teacher also rates the others."
    )


LENGTHS = (512, 1024, 2048, 4096)


def lesson_big_bird(record: LessonRecorder, random: int, window: int, ends: int, blocks: int) -> None:
    drawn = {
        "(a) random": random_only(1, random).pattern(blocks, 1).draw(),
        "(b) window": window_only(1, window).pattern(blocks, 1).draw(),
        "(c) global": global_only(1, ends, ends).pattern(blocks, 1).draw(),
        "(d) together": replace(big_bird(1, random), window_blocks=window, first_blocks=ends, last_blocks=ends)
        .pattern(blocks, 1)
        .draw(),
    }
    record.show(*(Grid.of_pattern(name, pattern) for name, pattern in drawn.items()))
    record.equal("(b) row 6 of the window", "....###.....", drawn["(b) window"].split("\n")[5])
    record.equal("(c) the first row attends to all", "#" * blocks, drawn["(c) global"].split("\n")[0], law=True)
    record.equal("(c) row 6 attends to both ends", "#..........#", drawn["(c) global"].split("\n")[5])
    rows = drawn["(d) together"].split("\n")
    record.equal("(d) key blocks of a middle row: 3 + 2 + 2", 7, rows[5].count("#"))
    most = 2 * window + 1 + 2 * ends + random
    middle = rows[blocks // 2].count("#")
    what = f"(d) key blocks of the middle row: at most {2 * window + 1} + {2 * ends} + {random}"
    record.holds(what, f"at most {most}", f"{middle} of {blocks}", middle <= most, law=True)
    filled = sum(row.count("#") for row in rows) / blocks**2
    record.holds("(d) computed fraction of all pairs", "(asked)", f"{filled:.0%}", 0 < filled <= 1, law=True)
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
    record.charts(
        Chart(
            "Pairs of tokens, millions",
            [
                Series("full", x, [length * length / 1e6 for length in LENGTHS]),
                Series("BigBird", x, [length * seen[length] / 1e6 for length in LENGTHS]),
            ],
            x_label="tokens",
        )
    )
    share = seen[4096] / 4096
    record.answer(
        f"At 4,096 tokens, each attends to {seen[4096]:.0f} others, {share:.0%} of them. Global blocks connect any two "
        "tokens within two layers; with only a window, many layers would be necessary."
    )


def lesson_window(record: LessonRecorder, side: int, layers: int) -> None:
    ids = [5, 9, 13, 17, 21, 25, 29, 33]
    model = small_network(40, attention="window", window_size=2 * side, num_hidden_layers=layers)
    found = model.encode(Batch.from_sequences([ids]), hidden_states=True, attentions=True)
    assert found.attentions is not None and found.hidden_states is not None
    weights = found.attentions[0][0][0].detach()
    far = (torch.arange(8)[:, None] - torch.arange(8)).abs() > side
    beyond = float(weights[far].abs().max()) if bool(far.any()) else 0.0
    record.equal("weights beyond the window", 0.0, beyond, law=True)
    record.same("each row sums to", "1", weights.sum(dim=1), torch.ones(8), said="1 within")
    changed = model.encode(Batch.from_sequences([[39, *ids[1:]]]), hidden_states=True).hidden_states
    assert changed is not None
    reach = [
        int(((a - b).abs().amax(dim=1) > tolerance(a)).nonzero().max())
        for a, b in zip(found.hidden_states, changed, strict=True)
    ]
    by_hand = [min(n * side, 7) for n in range(layers + 1)]
    after = ", ".join(map(str, range(layers + 1)))
    record.equal(f"reach of the first token after {after} layers", by_hand, reach, law=True)
    wide = small_network(40, attention="window", window_size=64)
    full = small_network(40)
    batch = Batch.from_sequences([ids])
    record.same(
        "a window over everything = full attention", "equal", wide.encode(batch).hidden, full.encode(batch).hidden
    )
    shown = [[None if bool(far[a, b]) else float(weights[a, b]) for b in range(8)] for a in range(8)]
    names = [str(place + 1) for place in range(8)]
    record.show(
        Grid(
            names,
            names,
            shown,
            f"A window of {plural(side, 'token', 'tokens')} on each side: dashed cells are not computed",
        )
    )
    record.answer(
        f"{plural(side, 'token', 'tokens')} further with each layer: {', '.join(map(str, reach))}. This is n / r of "
        "the slide's table: with a window of r, two tokens at distance n are connected after n / r layers."
    )
