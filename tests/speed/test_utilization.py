"""The arithmetic of utilization, against the counts of models/sizes.py and by hand; GPUs by their drivers' names."""

from __future__ import annotations

import pytest

from maskwright.core.gpus import GPUS, gpu_from_driver_name
from maskwright.models import sizes as flops
from maskwright.models.presets import preset
from maskwright.speed.workload import forward_flops, training_flops


def test_a_batch_of_one_length_is_tokens_times_the_count_of_one():
    config = preset("bert-base")
    token = flops.linear_flops(config) + flops.attention_flops(config, 128)
    assert forward_flops(config, [128] * 256) == 256 * 128 * token
    scored = 256 * 19
    wanted = 3 * (256 * 128 * token + scored * flops.word_head_flops(config))
    assert training_flops(config, [128] * 256, num_scored=scored) == wanted


def test_lengths_count_one_by_one_and_padding_does_not():
    config = preset("bert-mini", vocab_size=1000)
    whole = sum(forward_flops(config, [length]) for length in (5, 70, 70, 128))
    assert forward_flops(config, [70, 5, 128, 70]) == pytest.approx(whole)
    assert forward_flops(config, [5, 128]) < forward_flops(config, [128, 128])
    judged = training_flops(config, [9], num_classified=1) - training_flops(config, [9])
    assert judged == 3 * flops.sequence_head_flops(config)


def test_bert_base_at_128_by_hand():
    """12 layers of 4 x 768^2 + 2 x 768 x 3072 entries, two operations each, and keys and values of 128 tokens."""
    token = 2 * 12 * (4 * 768**2 + 2 * 768 * 3072) + 12 * 4 * 768 * 128
    head = 2 * (768**2 + 768 * 30_522)
    assert training_flops(preset("bert-base"), [128], 19) == 3 * (128 * token + 19 * head)


@pytest.mark.parametrize(
    ("called", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-40GB", "a100-40"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_a_gpu_is_known_by_what_its_driver_calls_it(called: str, key: str):
    assert gpu_from_driver_name(called) is GPUS[key]


@pytest.mark.parametrize(
    "called", ["NVIDIA H100 NVL", "NVIDIA A10G", "NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 4090 Laptop GPU", ""]
)
def test_one_with_another_peak_is_not_taken_for_it(called: str):
    assert gpu_from_driver_name(called) is None
