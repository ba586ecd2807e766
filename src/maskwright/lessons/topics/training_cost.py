"""Training cost, recomputed from hardware and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..inputs import integer, number
from ..lesson import APPLICATIONS, SESSION, Lesson

if TYPE_CHECKING:
    from ..recorder import LessonRecorder

PART = "Sizes and costs"
TERA = 1e12
DAY = 86_400.0
TPU_V3 = 123 * TERA  # per chip: Google Cloud TPU v3 documentation
P100_SUSTAINED = 9.5 * TERA  # assumed by Vaswani et al. 2017, footnote 5


def budget(devices: int, peak: float, seconds: float) -> float:
    """Return the FLOPs of `devices` at their peak, as papers report training cost."""
    return devices * peak * seconds


def transformer_count(hidden: int, inner: int, steps: float, vocab_size: int = 37_000, batch: float = 25_000) -> float:
    """Return training FLOPs of the original encoder-decoder, with `batch` source and target tokens per step.

    6 layers each; attention assumes sentences of 25 tokens, where its cost is negligible; every target is scored.
    """
    from ...models.sizes import TRAINING_PASSES, layer_entries

    encoder, decoder = layer_entries(hidden, inner), layer_entries(hidden, inner, cross=True)
    length = 25
    attention = 4 * hidden * (length + (length + 1) / 2 + length)  # encoder, decoder, cross-attention
    token = 6 * (2 * (encoder + decoder) + attention) + 2 * hidden * vocab_size
    return TRAINING_PASSES * steps * batch * token


def bert_work(name: str) -> float:
    """Return the FLOPs of the original BERT run: 1,000,000 steps of 256 sequences, 90% of length 128, 10% of 512."""
    from ...speed.plan_config import PlanConfig
    from ...speed.workload import workload_of

    return sum(
        steps * 256 * length * workload_of(PlanConfig(preset=name, max_length=length)).flops().total
        for steps, length in ((9e5, 128), (1e5, 512))
    )


def _transformer(record: LessonRecorder, devices: int, days: float) -> None:
    from ...report import Table

    base, big = budget(8, P100_SUSTAINED, DAY / 2), budget(devices, P100_SUSTAINED, days * DAY)
    by_hand = devices * days * 24 * 3600 * 9.5e12 / 1e19
    record.near(f"{devices} P100 for {days:g} days at 9.5 TFLOP/s, 1e19", by_hand, big / 1e19, digits=2, law=True)
    record.near("Transformer (base), 1e18 operations", 3.3, base / 1e18, 0.05, digits=2)
    record.near("Transformer (big), 1e19 operations", 2.3, big / 1e19, 0.05, digits=2)
    four = budget(8, P100_SUSTAINED, 4 * DAY)
    record.off(
        "days of the big model on 8 GPUs",
        "~4 days; 3.5 days on 8 P100",
        2.3,
        big / 1e19,
        f"two lectures differ; 3.5 days agree with the published 2.3e19, 4 days would be {four / 1e19:.2f}e19",
        within=0.05,
        digits=2,
    )
    counted = transformer_count(512, 2048, 1e5)
    token = 6 * (2 * (3_145_728 + 4_194_304) + 4 * 512 * 63) + 2 * 512 * 37_000  # matrices, attention, words
    record.near(
        "operations of the base run by hand, 1e17", 3 * 1e5 * 25_000 * token / 1e17, counted / 1e17, 0.01, digits=2
    )
    record.holds("our count and the published cost", "the order of 3.3e18", f"{counted:.1e}", 5e17 < counted < base)
    rows = [
        ("base", "8 P100, 12 hours", f"{base:.2e}", f"{counted:.2e}"),
        ("big", f"{devices} P100, {days:g} days", f"{big:.2e}", f"{transformer_count(1024, 4096, 3e5):.2e}"),
    ]
    record.show(Table(["Transformer", "ran on", "hardware peak", "operations needed"], rows, right=()))
    record.answer(
        f"{counted / base:.0%} of the hardware's peak in that time was used for the matrix products of the network. "
        "Published costs are hardware times time, an upper bound."
    )


def _bert(record: LessonRecorder, days: float, speed: int) -> None:
    from ...report import Bar, Bars

    found, work = {}, {name: bert_work(name) for name in ("bert-base", "bert-large")}
    for name, tpus, chips in (("bert-base", 4, 16), ("bert-large", 16, 64)):
        record.equal(f"{name}: {tpus} Cloud TPUs are chips", chips, 4 * tpus)
        found[name] = work[name] / budget(chips, TPU_V3, days * DAY)
        record.holds(
            f"{name}: {days:g} days on {chips} chips",
            "sufficient for its run",
            f"{found[name]:.0%} of the peak",
            0.01 < found[name] < 0.6,
        )
    peak = budget(16, TPU_V3, days * DAY) / 1e20
    record.near(f"16 chips for {days:g} days, at their peak, 1e20", 6.80, peak, 0.01, digits=2)
    ratio = work["bert-large"] / work["bert-base"]
    record.holds(
        "operations of Large relative to Base", "4 times the chips", f"{ratio:.2f} times the operations", 3 < ratio < 4
    )
    record.show(
        Bars(
            [Bar(name, share, f"{share:.0%}") for name, share in found.items()],
            title=f"Utilization of the chips over {days:g} days",
        )
    )
    tokens, entries = 256 * (9e5 * 128 + 1e5 * 512), 12 * 12 * 768**2
    least = work["bert-base"] / (6 * entries * tokens)
    record.holds(
        "6 operations × 85 M entries × 43 G tokens",
        "and attention, and words",
        f"{least:.2f} times that",
        1 < least < 1.3,
        law=True,
    )
    one = work["bert-base"] / (speed * 1e9) / DAY / 365
    record.answer(
        f"At {speed} GFLOP/s, {one:.3g} years (100 is the speed of a good CPU core). maskwright plan estimates the "
        "time on your machine, and which smaller model fits into a night."
    )


LESSONS = (
    Lesson(
        "transformer-cost",
        PART,
        SESSION,
        "Machine translation results: training cost",
        "Four days or three and a half?",
        "The paper reports operations: devices times sustained speed times time. The numbers show which of two "
        "statements is correct.",
        ("lessons.topics.training_cost:budget", "lessons.topics.training_cost:transformer_count"),
        "What fraction of that did the network need?",
        _transformer,
        (
            integer("devices", "P100 GPUs of the big model", 8, 1, 64),
            number("days", "Days of the big model", 3.5, 0.5, 30, 0.5),
        ),
    ),
    Lesson(
        "bert-cost",
        PART,
        APPLICATIONS,
        "Model Architecture and Training: compute",
        "Four days on sixteen chips",
        "A million steps of 256 sequences, nine tenths of them 128 tokens long. The lesson computes the utilization "
        "of the chips in four days.",
        ("lessons.topics.training_cost:bert_work", "lessons.topics.training_cost:budget"),
        "How long would one CPU core take?",
        _bert,
        (
            number("days", "Days of training", 4, 0.5, 60, 0.5),
            integer("speed", "GFLOP/s of your CPU", 100, 1, 100_000),
        ),
    ),
)
