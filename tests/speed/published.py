"""Published training runs, which verify the FLOP counts and the durations of training cost estimates.

If a paper reports FLOPs, our count by the paper's method must match. If it reports hardware and time, our count must be
below devices x peak x time; the ratio is the utilization of that run. All figures are from the cited papers.
"""

from __future__ import annotations

from dataclasses import replace

from maskwright.core.gpus import TERA, gpu_named
from maskwright.lessons.parts import DAY, P100_SUSTAINED, TPU_V3, budget
from maskwright.models.presets import preset
from maskwright.models.sizes import attention_flops, linear_flops, word_head_flops
from maskwright.speed.plan_config import TRANSLATION, PlanConfig

HOUR = 3600.0
V100_TENSOR = 125 * TERA  # float16 products: NVIDIA V100 data sheet
RTX_2080_TI_TENSOR = 53.8 * TERA  # float16 products with float32 accumulation: NVIDIA Turing white paper


def electra_count(hidden: int, layers: int, steps: float, sequences: int, length: int = 512) -> float:
    """Training FLOPs by ELECTRA's method (Clark et al. 2020, appendix and flops_computation.py).

    There, a backward pass costs as much as a forward pass, an embedding lookup is a product with the whole embedding
    matrix, and 5/32 of the positions are scored.
    """
    network = preset("bert-base", hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64,
                     intermediate_size=4 * hidden)  # fmt: skip
    lookup = 2 * network.table_size * (network.vocab_size + length)
    token = linear_flops(network) + attention_flops(network, length) + lookup + 5 / 32 * word_head_flops(network)
    return 2 * steps * sequences * length * token


def bf16(name: str) -> float:
    """Peak of a GPU."""
    peak = gpu_named(name).bf16
    assert peak is not None
    return peak


# Published FLOPs, and ours: ELECTRA (Clark et al. 2020, table 8), Vaswani et al. 2017 (table 2 and section 5.2, devices
# x sustained speed x time), Cramming (Geiping and Goldstein 2022, table 1, devices x peak x time).
CHECKS = {
    "BERT-Base": (6.4e19, electra_count(768, 12, 1e6, 256)),
    "BERT-Large": (1.9e20, electra_count(1024, 24, 1e6, 256)),
    "Transformer (base)": (3.3e18, budget(8, P100_SUSTAINED, 12 * HOUR)),
    "Transformer (big)": (2.3e19, budget(8, P100_SUSTAINED, 3.5 * DAY)),
    "BERT, 4 Cloud TPUs, 4 days": (6.80e20, budget(16, TPU_V3, 4 * DAY)),
    "BERT, 8 V100, 1 day": (8.6e19, budget(8, V100_TENSOR, DAY)),
    "Cramming, RTX 2080 Ti, 1 day": (5e18, budget(1, RTX_2080_TI_TENSOR, DAY)),
    "Cramming, RTX A6000, 1 day": (1.3e19, budget(1, bf16("a6000"), DAY)),
}

PAIRS = PlanConfig("transformer-base", objective=TRANSLATION, tokens=1e5 * 50_000, batch_tokens=50_000, max_length=25,
                   gpu="p100", gpus=8)  # fmt: skip
BASE = PlanConfig("bert-base", objective="mlm", tokens=7e4 * 4096 * 128, batch_tokens=4096 * 128, gpu="a100", gpus=8)
FIRST = PlanConfig("modernbert-base", objective="mlm", tokens=1.72e12, mask_rate=0.3, max_length=1024, gpu="h100",
                   gpus=8)  # fmt: skip
LARGE = PlanConfig("bert-large", objective="mlm+nsp", tokens=3_000_256 * 256, batch_tokens=448 * 256, max_length=256,
                   gpu="a100", gpus=8)  # fmt: skip
GPT2 = PlanConfig("gpt2", objective="clm", tokens=18_865 * 524_288, batch_tokens=524_288, max_length=1024, gpu="a100",
                  gpus=8)  # fmt: skip
# Published hours, the plan of the run, and the relative error of the plan's duration that the documentation states:
# Vaswani et al. 2017, section 5.2; Portes et al. 2023, section 4; Warner et al. 2024, sections 2.2 and A, table 3 (not
# verified against the table); MLPerf training v1.0, NVIDIA (half of the tokens are padding: Krell et al. 2021);
# Karpathy 2024, llm.c, scripts/run_gpt2_*.sh.
TIMED = {
    "Transformer (base)": (12, PAIRS, -0.13),
    "Transformer (big)": (84, replace(PAIRS, preset="transformer-big", tokens=3e5 * 50_000), 0.26),
    "BERT-Base of MosaicBERT": (11.5, BASE, -0.35),
    "ModernBERT-base, first phase": (194.2, FIRST, -0.14),
    "ModernBERT-large, first phase": (425.3, replace(FIRST, preset="modernbert-large"), 0.09),
    "MLPerf BERT-large, 8 GPUs": (1_433.9 / HOUR, LARGE, 0.37),
    "MLPerf BERT-large, 64 GPUs": (
        195.5 / HOUR,
        replace(LARGE, tokens=3_151_872 * 256, batch_tokens=3072 * 256, gpus=64, interconnect="200"),
        0.32,
    ),
    "GPT-2 124M of llm.c": (18_865 * 0.3 / HOUR, GPT2, 0.86),
    "GPT-2 1558M of llm.c": (
        24,
        replace(GPT2, preset="gpt2-xl", tokens=32_000 * 1_048_576, batch_tokens=1_048_576, gpu="h100"),
        0.60,
    ),
}
