"""Published runs, recomputed: the check of the arithmetic behind `maskwright plan`.

Two kinds of checks. Where a paper prints operations, ours, counted as that paper counts, must come to the same. Where
it prints hardware and time, hardware times peak times time is the most that can have been computed, and our count must
lie below: the quotient is the share of the peak that the run reached (if our count of its work is right). Numbers of
papers stand here with their source; nothing was measured by us.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..models.flops import TRAINING_PASSES, attention_flops, layer_entries, linear_flops, word_head_flops
from ..models.presets import preset
from .gpus import TERA, gpu_named
from .plan_config import PlanConfig
from .workload import Workload, workload_of

HOUR, DAY = 3600.0, 86_400.0
TPU_V3 = 123 * TERA  # of a chip: Google's documentation of Cloud TPU v3
V100_TENSOR = 125 * TERA  # float16 products: NVIDIA V100 data sheet
RTX_2080_TI_TENSOR = 53.8 * TERA  # float16 products that add in float32: NVIDIA Turing white paper
NOT_LOOKED_UP = "the paper's table could not be looked up again when this was written"
P100_SUSTAINED = 9.5 * TERA  # what Vaswani et al. 2017 take for a P100, footnote 5


@dataclass(frozen=True)
class Check:
    """One published number and ours.

    printed: as the source has it; ours: by our arithmetic; how: what was put in; doubt: why a figure of the source is
    not quite certain.
    """

    run: str
    what: str
    printed: float
    ours: float
    how: str
    source: str
    doubt: str | None = None

    @property
    def ratio(self) -> float:
        """Ours in parts of theirs."""
        return self.ours / self.printed


@dataclass(frozen=True)
class Reached:
    """A run's work by our count, and what its hardware could have computed at its peak in the time it took.

    doubt: as in Check.
    """

    run: str
    flops: float
    at_peak: float
    how: str
    source: str
    doubt: str | None = None

    @property
    def share(self) -> float:
        """The share of the peak."""
        return self.flops / self.at_peak


def budget(devices: int, peak: float, seconds: float) -> float:
    """Operations that `devices` could make at their peak: how papers print the cost of training."""
    return devices * peak * seconds


def electra_count(hidden: int, layers: int, steps: float, sequences: int, length: int = 512) -> float:
    """Training as ELECTRA's table counts it (Clark et al. 2020, appendix, and the script published with it).

    A backward pass costs as much as a forward pass there, a look-up is a product with the whole word table, and 5/32 of
    the positions are scored.
    """
    network = preset("bert-base", hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
                     intermediate_size=4 * hidden)  # fmt: skip
    look_up = 2 * network.table_size * (network.vocab_size + length)
    token = linear_flops(network) + attention_flops(network, length) + look_up + 5 / 32 * word_head_flops(network)
    return 2 * steps * sequences * length * token


def transformer_count(hidden: int, inner: int, steps: float, vocab_size: int = 37_000, batch: float = 25_000) -> float:
    """Training of the original encoder-decoder: `batch` source and as many target tokens a step, 6 layers each.

    Sentences of 25 tokens are taken for attention, which hardly matters at that length; every target is scored.
    """
    encoder, decoder = layer_entries(hidden, inner), layer_entries(hidden, inner, cross=True)
    length = 25
    attention = 4 * hidden * (length + (length + 1) / 2 + length)  # in the encoder, the decoder, across
    token = 6 * (2 * (encoder + decoder) + attention) + 2 * hidden * vocab_size
    return TRAINING_PASSES * steps * batch * token


def bert_work(name: str) -> float:
    """BERT's own run: 1,000,000 steps of 256 sequences, 90 % of them 128 tokens long, the others 512."""
    return sum(
        steps * 256 * length * workload_of(PlanConfig(preset=name, max_length=length)).flops().total
        for steps, length in ((9e5, 128), (1e5, 512))
    )


def checks() -> list[Check]:
    """Printed operations beside ours."""
    electra = "Clark et al. 2020, ELECTRA, table 8, and flops_computation.py"
    vaswani = "Vaswani et al. 2017, table 2 and section 5.2"
    cramming = "Geiping and Goldstein 2022, Cramming, table 1"
    peak = "devices x peak x time"
    return [
        Check("BERT-Base", "operations", 6.4e19, electra_count(768, 12, 1e6, 256), "as ELECTRA counts", electra),
        Check("BERT-Large", "operations", 1.9e20, electra_count(1024, 24, 1e6, 256), "as ELECTRA counts", electra),
        Check("Transformer (base)", "operations", 3.3e18, budget(8, P100_SUSTAINED, 12 * HOUR), f"{peak}: 8 P100 at "
              "9.5 TFLOP/s, 12 hours", vaswani),
        Check("Transformer (big)", "operations", 2.3e19, budget(8, P100_SUSTAINED, 3.5 * DAY), f"{peak}: 8 P100 at "
              "9.5 TFLOP/s, 3.5 days", vaswani),
        Check("BERT, 4 Cloud TPUs, 4 days", "operations at peak", 6.80e20, budget(16, TPU_V3, 4 * DAY),
              f"{peak}: 16 chips at 123 TFLOP/s", cramming, NOT_LOOKED_UP),
        Check("BERT, 8 V100, 1 day", "operations at peak", 8.6e19, budget(8, V100_TENSOR, DAY),
              f"{peak}: 125 TFLOP/s", cramming, NOT_LOOKED_UP),
        Check("Cramming, RTX 2080 Ti, 1 day", "operations at peak", 5e18, budget(1, RTX_2080_TI_TENSOR, DAY),
              f"{peak}: 53.8 TFLOP/s", cramming, NOT_LOOKED_UP),
        Check("Cramming, RTX A6000, 1 day", "operations at peak", 1.3e19, budget(1, _bf16("a6000"), DAY),
              f"{peak}: 154.8 TFLOP/s", cramming, NOT_LOOKED_UP),
    ]  # fmt: skip


def reached() -> list[Reached]:
    """Runs whose work, hardware and time are published: the share of the peak that follows."""
    devlin = "Devlin et al. 2019, section A.2"
    vaswani = "Vaswani et al. 2017, section 5.2"
    modern = "Warner et al. 2024, sections 2.2 and A, table 3"
    return [
        Reached("Transformer (base)", transformer_count(512, 2048, 1e5), budget(8, P100_SUSTAINED, 12 * HOUR),
                "100,000 steps of 25,000 + 25,000 tokens; 8 P100, 12 hours", vaswani),
        Reached("Transformer (big)", transformer_count(1024, 4096, 3e5), budget(8, P100_SUSTAINED, 3.5 * DAY),
                "300,000 steps; 8 P100, 3.5 days", vaswani),
        Reached("BERT-Base", bert_work("bert-base"), budget(16, TPU_V3, 4 * DAY),
                "1,000,000 steps of 256 sequences; 16 TPU chips, 4 days, counted as v3", devlin),
        Reached("BERT-Large", bert_work("bert-large"), budget(64, TPU_V3, 4 * DAY),
                "the same; 64 TPU chips, 4 days", devlin),
        Reached("ModernBERT-base, first phase", 1.72e12 * _modern("modernbert-base").flops().total,
                budget(8, _bf16("h100"), 194.2 * HOUR), "1.72e12 tokens at length 1,024; 8 H100, 194.2 hours",
                modern, NOT_LOOKED_UP),
        Reached("ModernBERT-large, first phase", 1.72e12 * _modern("modernbert-large").flops().total,
                budget(8, _bf16("h100"), 425.3 * HOUR), "1.72e12 tokens at length 1,024; 8 H100, 425.3 hours",
                modern, NOT_LOOKED_UP),
    ]  # fmt: skip


def mosaic_tokens(share: float) -> float:
    """Tokens that MosaicBERT-Base can have seen when it reached BERT-Base's GLUE score.

    1.13 hours on 8 A100 (Portes et al. 2023, abstract) at `share` of their peak; the whole recipe is 70,000 steps of
    4,096 sequences of 128 tokens. The network is reckoned as BERT-Base with gates, no positions, 30 % masked.
    """
    changes = {"gated": True, "positions": "none"}
    work = workload_of(PlanConfig(preset="bert-base", objective="mlm", mask_rate=0.3, model=changes, vocab_size=30_528))
    return share * budget(8, _bf16("a100"), 1.13 * HOUR) / work.flops().total


MOSAIC_RECIPE_TOKENS = 70_000 * 4_096 * 128


def _modern(name: str) -> Workload:
    return workload_of(PlanConfig(preset=name, objective="mlm", mask_rate=0.3, max_length=1024))


def _bf16(name: str) -> float:
    peak = gpu_named(name).bf16
    assert peak is not None
    return peak
