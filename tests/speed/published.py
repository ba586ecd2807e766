"""Published training runs, which verify the FLOP counts of training cost estimates.

If a paper reports FLOPs, our count by the paper's method must match. If it reports hardware and time, our count must be
below devices x peak x time; the ratio is the utilization of that run. All figures are from the cited papers; nothing is
measured here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from maskwright.core.gpus import TERA, gpu_named
from maskwright.lessons.costs import DAY, P100_SUSTAINED, TPU_V3, bert_work, budget, transformer_count
from maskwright.models.presets import preset
from maskwright.models.sizes import attention_flops, linear_flops, word_head_flops
from maskwright.speed.plan import make_plan
from maskwright.speed.plan_config import TRANSLATION, PlanConfig
from maskwright.speed.workload import workload_of

HOUR = 3600.0
V100_TENSOR = 125 * TERA  # float16 products: NVIDIA V100 data sheet
RTX_2080_TI_TENSOR = 53.8 * TERA  # float16 products with float32 accumulation: NVIDIA Turing white paper
NOT_VERIFIED = "not verified against the paper's table"


@dataclass(frozen=True)
class Check:
    """A published figure and our computation of it.

    printed: figure of the source; ours: computed; how: inputs; doubt: why the published figure is uncertain.
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
        """Ratio of our figure to the published one."""
        return self.ours / self.printed


@dataclass(frozen=True)
class ReportedUtilization:
    """FLOPs of a published run by our count, and those of its hardware at peak in the reported time.

    doubt: as in `Check`.
    """

    run: str
    flops: float
    at_peak: float
    how: str
    source: str
    doubt: str | None = None

    @property
    def share(self) -> float:
        """Utilization: fraction of the peak."""
        return self.flops / self.at_peak


def electra_count(hidden: int, layers: int, steps: float, sequences: int, length: int = 512) -> float:
    """Return training FLOPs by ELECTRA's method (Clark et al. 2020, appendix and flops_computation.py).

    There, a backward pass costs as much as a forward pass, an embedding lookup is a product with the whole embedding
    matrix, and 5/32 of the positions are scored.
    """
    network = preset("bert-base", hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
                     intermediate_size=4 * hidden)  # fmt: skip
    lookup = 2 * network.table_size * (network.vocab_size + length)
    token = linear_flops(network) + attention_flops(network, length) + lookup + 5 / 32 * word_head_flops(network)
    return 2 * steps * sequences * length * token


def checks() -> list[Check]:
    """Return published FLOPs with our counts."""
    electra = "Clark et al. 2020, ELECTRA, table 8, and flops_computation.py"
    vaswani = "Vaswani et al. 2017, table 2 and section 5.2"
    cramming = "Geiping and Goldstein 2022, Cramming, table 1"
    peak = "devices x peak x time"
    return [
        Check("BERT-Base", "operations", 6.4e19, electra_count(768, 12, 1e6, 256), "by ELECTRA's method", electra),
        Check("BERT-Large", "operations", 1.9e20, electra_count(1024, 24, 1e6, 256), "by ELECTRA's method", electra),
        Check("Transformer (base)", "operations", 3.3e18, budget(8, P100_SUSTAINED, 12 * HOUR), f"{peak}: 8 P100 at "
              "9.5 TFLOP/s, 12 hours", vaswani),
        Check("Transformer (big)", "operations", 2.3e19, budget(8, P100_SUSTAINED, 3.5 * DAY), f"{peak}: 8 P100 at "
              "9.5 TFLOP/s, 3.5 days", vaswani),
        Check("BERT, 4 Cloud TPUs, 4 days", "operations at peak", 6.80e20, budget(16, TPU_V3, 4 * DAY),
              f"{peak}: 16 chips at 123 TFLOP/s", cramming, NOT_VERIFIED),
        Check("BERT, 8 V100, 1 day", "operations at peak", 8.6e19, budget(8, V100_TENSOR, DAY),
              f"{peak}: 125 TFLOP/s", cramming, NOT_VERIFIED),
        Check("Cramming, RTX 2080 Ti, 1 day", "operations at peak", 5e18, budget(1, RTX_2080_TI_TENSOR, DAY),
              f"{peak}: 53.8 TFLOP/s", cramming, NOT_VERIFIED),
        Check("Cramming, RTX A6000, 1 day", "operations at peak", 1.3e19, budget(1, _bf16("a6000"), DAY),
              f"{peak}: 154.8 TFLOP/s", cramming, NOT_VERIFIED),
    ]  # fmt: skip


def reached() -> list[ReportedUtilization]:
    """Return the utilization of runs whose FLOPs, hardware and time are published."""
    devlin = "Devlin et al. 2019, section A.2"
    vaswani = "Vaswani et al. 2017, section 5.2"
    nemo = "NVIDIA NeMo Framework user guide, BERT, training performance results"
    return [
        ReportedUtilization("Transformer (base)", transformer_count(512, 2048, 1e5),
                budget(8, P100_SUSTAINED, 12 * HOUR),
                "100,000 steps of 25,000 + 25,000 tokens; 8 P100, 12 hours", vaswani),
        ReportedUtilization("Transformer (big)", transformer_count(1024, 4096, 3e5),
                budget(8, P100_SUSTAINED, 3.5 * DAY), "300,000 steps; 8 P100, 3.5 days", vaswani),
        ReportedUtilization("BERT-Base", bert_work("bert-base"), budget(16, TPU_V3, 4 * DAY),
                "1,000,000 steps of 256 sequences; 16 TPU chips, 4 days, counted as v3", devlin),
        ReportedUtilization("BERT-Large", bert_work("bert-large"), budget(64, TPU_V3, 4 * DAY),
                "the same; 64 TPU chips, 4 days", devlin),
        *(run.reached for run in timed_runs() if run.peak is not None),
        *(ReportedUtilization(f"BERT of 4e9 parameters, {gpus} A100", rate * 6 * 4e9, budget(gpus, _bf16("a100"), 1),
                f"{rate:,} tokens/s, 6 operations for each parameter and token", nemo)
          for gpus, rate in ((8, 57_287), (128, 728_178))),
    ]  # fmt: skip


def _bf16(name: str) -> float:
    peak = gpu_named(name).bf16
    assert peak is not None
    return peak


@dataclass(frozen=True)
class TimedRun:
    """The published duration of a run, and that of its plan with the default utilization.

    hours: published; config: its plan; stated_error: of the plan, as the documentation states it; how: inputs; doubt:
    as in `Check`.
    """

    run: str
    hours: float
    config: PlanConfig
    stated_error: float
    how: str
    source: str
    doubt: str | None = None

    @property
    def error(self) -> float:
        """Relative error of the plan's duration."""
        return make_plan(self.config).seconds / HOUR / self.hours - 1

    @property
    def peak(self) -> float | None:
        """Peak of the bfloat16 products of one GPU; None if it has none, and the run used float32."""
        return gpu_named(self.config.gpu or "").bf16

    @property
    def reached(self) -> ReportedUtilization:
        """The utilization of the run, its communication included."""
        peak, tokens = self.peak, self.config.tokens
        assert peak is not None and tokens is not None
        at_peak = budget(self.config.gpus, peak, self.hours * HOUR)
        flops = tokens * workload_of(self.config).flops().total
        return ReportedUtilization(self.run, flops, at_peak, self.how, self.source, self.doubt)


def timed_runs() -> list[TimedRun]:
    """Return published runs on named GPUs with their duration."""
    vaswani = "Vaswani et al. 2017, section 5.2"
    modern = "Warner et al. 2024, sections 2.2 and A, table 3"
    mlperf = "MLPerf training results v1.0, NVIDIA/results/dgxa100{}_ngc21.05_pytorch/bert/result_{}.txt"
    padding = "Half of the tokens at length 512 are padding: Krell et al. 2021, Efficient sequence packing"
    llm_c = "Karpathy 2024, llm.c, scripts/run_gpt2_{}.sh"
    pairs = PlanConfig(
        "transformer-base",
        objective=TRANSLATION,
        tokens=1e5 * 50_000,
        batch_tokens=50_000,
        max_length=25,
        gpu="p100",
        gpus=8,
    )
    base = PlanConfig(
        "bert-base", objective="mlm", tokens=7e4 * 4096 * 128, batch_tokens=4096 * 128, gpu="a100", gpus=8
    )
    first = PlanConfig(
        "modernbert-base", objective="mlm", tokens=1.72e12, mask_rate=0.3, max_length=1024, gpu="h100", gpus=8
    )
    large = PlanConfig(
        "bert-large",
        objective="mlm+nsp",
        tokens=3_000_256 * 256,
        batch_tokens=448 * 256,
        max_length=256,
        gpu="a100",
        gpus=8,
    )
    gpt2 = PlanConfig(
        "gpt2", objective="clm", tokens=18_865 * 524_288, batch_tokens=524_288, max_length=1024, gpu="a100", gpus=8
    )
    return [
        TimedRun("Transformer (base), planned", 12, pairs, -0.13,
                 "100,000 steps of 25,000 + 25,000 tokens; 8 P100, 12 hours", vaswani),
        TimedRun("Transformer (big), planned", 84, replace(pairs, preset="transformer-big", tokens=3e5 * 50_000), 0.26,
                 "300,000 steps of 25,000 + 25,000 tokens; 8 P100, 3.5 days", vaswani),
        TimedRun("BERT-Base of MosaicBERT, 70,000 steps", 11.5, base, -0.35,
                 "70,000 steps of 4,096 x 128 tokens; 8 A100, 11.5 hours", "Portes et al. 2023, section 4"),
        TimedRun("ModernBERT-base, first phase", 194.2, first, -0.14,
                 "1.72e12 tokens at length 1,024; 8 H100, 194.2 hours", modern, NOT_VERIFIED),
        TimedRun("ModernBERT-large, first phase", 425.3, replace(first, preset="modernbert-large"), 0.09,
                 "1.72e12 tokens at length 1,024; 8 H100, 425.3 hours", modern, NOT_VERIFIED),
        TimedRun("MLPerf BERT-large, 8 GPUs", 1_433.9 / HOUR, large, 0.37,
                 "3,000,256 samples of 256 tokens, 448 per step; 8 A100, 23.9 minutes", mlperf.format("", 0), padding),
        TimedRun("MLPerf BERT-large, 64 GPUs", 195.5 / HOUR,
                 replace(large, tokens=3_151_872 * 256, batch_tokens=3072 * 256, gpus=64, interconnect="200"), 0.32,
                 "3,151,872 samples of 256 tokens, 3,072 per step; 64 A100, 8 x 200 Gb/s per machine, 3.3 minutes",
                 mlperf.format("_n8", 1), padding),
        TimedRun("GPT-2 124M of llm.c", 18_865 * 0.3 / HOUR, gpt2, 0.86,
                 "18,865 steps of 524,288 tokens at length 1,024; 8 A100, 0.3 s per step", llm_c.format("124M")),
        TimedRun("GPT-2 1558M of llm.c", 24,
                 replace(gpt2, preset="gpt2-xl", tokens=32_000 * 1_048_576, batch_tokens=1_048_576, gpu="h100"), 0.60,
                 "32,000 steps of 1,048,576 tokens at length 1,024; 8 H100, 24 hours", llm_c.format("1558M")),
    ]  # fmt: skip
