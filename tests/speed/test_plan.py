"""Plans: published runs as checks of the arithmetic, utilization, what fits, and a probe that measures."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from maskwright.core.errors import ConfigError, InputError
from maskwright.core.gpus import GPUS, gpu_from_driver_name, gpu_named
from maskwright.models import sizes as flops
from maskwright.models.build import build
from maskwright.models.presets import PRESETS, preset
from maskwright.speed.plan import USABLE_MEMORY, Hardware, communication, make_plan, micro_batches
from maskwright.speed.plan_config import PlanConfig, link_of
from maskwright.speed.workload import forward_flops, probe, training_flops, workload_of
from speed import published

TINY = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
H100 = PlanConfig(tokens=3.3e9, gpu="h100", gpus=8)


def test_published_operations_come_out():
    # The papers print one to three digits; "5" and "13" exaFLOP are rounded to whole ones.
    for run, (printed, ours) in published.CHECKS.items():
        assert ours / printed == pytest.approx(1, abs=0.08 if "Cramming" in run else 0.006), run


def test_published_times_are_within_the_stated_error():
    for run, (hours, config, stated) in published.TIMED.items():
        error = make_plan(config).seconds / published.HOUR / hours - 1
        assert error == pytest.approx(stated, abs=0.02), run


@pytest.mark.parametrize(
    ("name", "objective", "head"),
    [
        ("bert-tiny", "mlm", "mlm"),
        ("bert-tiny", "mlm+nsp", "pretraining"),
        ("gpt2", "clm", "clm"),
        ("transformer-mini", "translation", "seq2seq"),
        ("bart-base", "denoise", "seq2seq"),
    ],
)
def test_parameters_are_those_of_the_model_that_is_built(name: str, objective: str, head: str):
    work = workload_of(PlanConfig(preset=name, model=TINY, vocab_size=150, objective=objective))
    assert work.num_parameters == build(preset(name, vocab_size=150, **TINY), head=head).num_parameters


@pytest.mark.parametrize("name", [name for name, network in PRESETS.items() if network.family != "maskwright"])
def test_every_transformer_has_a_plan(name: str):
    plan = make_plan(replace(H100, preset=name, objective=None))  # the objective of its family
    assert plan.total_flops > 6 * plan.tokens * 1e6
    assert plan.memory.total > 16 * plan.parameters


def test_gpt2_by_hand():
    plan = make_plan(PlanConfig(preset="gpt2", tokens=1e9, max_length=1024, gpu="a100", gpus=8, batch_tokens=1 << 19))
    assert plan.config.objective == "clm" and plan.parameters == 124_439_808
    token = 3 * (2 * 84_934_656 + 12 * 4 * 512.5 * 768 + 2 * 768 * 50_257)
    assert plan.flops.total == pytest.approx(token)
    assert plan.memory.optimizer == 8 * plan.parameters and plan.communication is not None


def test_a_translation_by_hand():
    """A pair of 50 and 50 tokens; keys and values of cross-attention are computed for each source token."""
    plan = make_plan(
        PlanConfig(preset="transformer-base", objective="translation", tokens=1e9, max_length=50, gpu="a100", gpus=8)
    )
    layer, causal = 4 * 512**2 + 2 * 512 * 2048, 51 / 2
    linear = 6 * 2 * (50 * layer + 50 * (layer + 2 * 512**2) + 50 * 2 * 512**2)
    attention = 6 * 4 * 512 * 50 * (50 + causal + 50)
    assert plan.flops.linear == pytest.approx(3 * linear / 100)
    assert plan.flops.attention == pytest.approx(3 * attention / 100)
    assert plan.flops.head == pytest.approx(3 * 2 * 512 * 37_000 / 2)
    assert plan.sequences * plan.accumulation * 8 * 100 <= 131_072 < (plan.sequences * plan.accumulation + 1) * 8 * 100


def test_bert_base_on_eight_h100_by_hand():
    plan = make_plan(replace(H100, price_per_hour=2.0))
    assert plan.encoder_parameters == 109_482_240
    token = 3 * (2 * 84_934_656 + 12 * 4 * 128 * 768 + 0.15 * 2 * (768**2 + 768 * 30_522) + 2 * 768 * 770 / 128)
    assert plan.flops.total == pytest.approx(token)
    assert plan.communication is not None
    assert plan.seconds * plan.communication.efficiency == pytest.approx(3.3e9 * token / (8 * 989e12 * 0.3))
    assert plan.cost == pytest.approx(plan.seconds / 3600 * 8 * 2.0)
    assert plan.share_of_peak == 0.3 and any("assumption" in sentence for sentence in plan.assumptions)
    assert plan.sequences * plan.accumulation * 8 * 128 == 131_072


def test_as_few_micro_batches_as_fit_are_taken():
    config = PlanConfig(preset="bert-large", gpu="t4", max_length=512)
    plan = make_plan(config)
    room = USABLE_MEMORY * gpu_named("t4").memory
    assert plan.accumulation > 1 and plan.memory.total <= room
    work, place = workload_of(config), Hardware("T4", gpu_named("t4").memory, "fp32", False)
    with pytest.raises(InputError, match="does not fit"):
        micro_batches(replace(config, accumulation=plan.accumulation // 2), work, place)


def test_what_cannot_fit_is_refused_with_what_can():
    config = PlanConfig(preset="bert-large", gpu="t4", max_length=512, accumulation=1)
    with pytest.raises(InputError, match="need .* GB, and NVIDIA T4 has 16.0 GB") as refused:
        make_plan(config)
    flags = [line.split(":")[0].split() for line in str(refused.value).splitlines()[1:]]
    assert {words[0] for words in flags} >= {"--accumulation", "--preset"}
    proposed = dict(words for words in flags if len(words) == 2)
    make_plan(replace(config, accumulation=int(proposed["--accumulation"])))
    make_plan(replace(config, preset=proposed["--preset"]))


def test_layers_that_run_again_take_less_memory_and_up_to_a_third_more_time():
    plain, less = make_plan(H100), make_plan(replace(H100, activation_checkpointing=True))
    assert less.memory.activations < plain.memory.activations / 2 and less.total_flops == plain.total_flops
    assert 1.25 < less.seconds / plain.seconds < 4 / 3


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"gpu": "h10"}, "Did you mean 'h100'"),
        ({"gpus": 8}, "requires --gpu"),
        ({"utilization": 40}, "must be at most 1"),
        ({"tokens": 1e9, "steps": 5}, "mutually exclusive"),
        ({"tokens": -1}, "above 0"),
        ({"batch_tokens": 64}, "raise --batch-tokens"),
        ({"objective": "mlmm"}, "Did you mean 'mlm'"),
        ({"gpu": "t4", "precision": "bf16"}, "does not support bfloat16"),
        ({"gpu": "t4", "precision": "fp16"}, "inference"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(changes: dict, sentence: str):
    with pytest.raises(ConfigError, match=sentence):
        make_plan(PlanConfig(**changes))


@pytest.mark.parametrize("objective", ["mlm+nsp", "rtd"])
def test_a_probe_trains_two_depths_and_reads_off_the_whole(objective: str):
    config = PlanConfig(
        preset="bert-base", model=TINY, vocab_size=150, max_length=16, objective=objective, probe_seconds=0.1
    )
    found = probe(config, workload_of(config), torch.device("cpu"), "fp32", sequences=4)
    assert found.depths == (1, 3) and found.sequences == 4
    assert found.tokens_per_second > 0 and found.ceiling > 0


def test_the_plan_of_this_machine_is_timed_by_a_probe():
    changes = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    plan = make_plan(
        PlanConfig(
            preset="bert-tiny",
            model=changes,
            vocab_size=150,
            max_length=16,
            steps=10,
            batch_tokens=64,
            device="cpu",
            probe_seconds=0.1,
        )
    )
    assert "probe" in plan.timed_by and plan.seconds == pytest.approx(640 / plan.tokens_per_second)


def test_a_probe_trains_an_encoder_decoder():
    model = {**TINY, "num_hidden_layers": 5, "num_decoder_layers": 5}
    config = PlanConfig(
        "transformer-base", model, vocab_size=150, max_length=16, objective="translation", probe_seconds=0.1
    )
    found = probe(config, workload_of(config), torch.device("cpu"), "fp32", sequences=4)
    assert found.depths == (1, 3) and found.tokens_per_second > 0
    uneven = replace(config, model={**model, "num_decoder_layers": 2})
    assert probe(uneven, workload_of(uneven), torch.device("cpu"), "fp32", sequences=4).depths == (5,)


def test_a_translation_without_a_decoder_and_a_recurrent_network_are_refused_in_words():
    with pytest.raises(ConfigError, match="translation needs an encoder-decoder such as .* which bert-base is not"):
        make_plan(PlanConfig(objective="translation", tokens=1e6))
    with pytest.raises(ConfigError, match="supports Transformers only"):
        make_plan(PlanConfig(preset="seq2seq-small", tokens=1e6))


def test_communication_by_hand():
    """BERT-base on 8 GPUs moves 770 MB: 62 ms at 12.5 GB/s, of which the last bucket cannot be hidden."""
    parameters, factor = 110_000_000, 2 * 7 / 8
    slow = communication(8, parameters, link_of("12.5", 8), compute=0.03, accumulation=1, tokens=131_072)
    assert slow.reduction == pytest.approx(0.0616)
    last = factor * 25 * 2**20 / 12.5e9
    assert slow.exposed == pytest.approx(0.0616 - 0.02) and slow.step == pytest.approx(0.0716)
    fast = communication(8, parameters, link_of("nvlink", 8), compute=0.03, accumulation=1, tokens=131_072)
    assert fast.exposed == pytest.approx(last * 12.5 / 300) and fast.compute / (fast.compute + fast.exposed) > 0.99
    more = communication(
        8, parameters, slow.link, compute=0.03 * slow.deciding_tokens / 131_072, accumulation=1, tokens=1
    )
    assert more.exposed == pytest.approx(last), "from that batch on the GPU decides"


def test_a_slow_network_costs_and_a_larger_batch_hides_it():
    many = replace(H100, gpus=64, batch_tokens=1 << 19)
    fast, slow = make_plan(many), make_plan(replace(many, interconnect="100gb"))
    assert fast.communication is not None and slow.communication is not None
    assert slow.seconds > fast.seconds and slow.communication.efficiency < fast.communication.efficiency < 1
    larger = make_plan(replace(many, interconnect="100gb", batch_tokens=1 << 23))
    assert larger.communication is not None and larger.communication.efficiency > 0.9


def test_a_network_that_does_not_fit_is_sharded():
    plan = make_plan(replace(H100, gpus=8))
    assert plan.sharded_memory is not None and plan.sharded_memory < plan.memory.total
    shards = make_plan(replace(H100, gpus=8, shard=True))
    assert shards.memory.optimizer == plan.memory.optimizer // 8 and shards.communication is not None
    assert plan.communication is not None
    assert shards.communication.reduction == pytest.approx(1.5 * plan.communication.reduction)
    huge = {"hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 16_384, "num_hidden_layers": 48}
    large = PlanConfig(preset="bert-large", model=huge, gpu="h100", gpus=8)
    with pytest.raises(InputError, match=r"What fits:\n  --shard --accumulation (\d+).*: [\d.]+ GB"):
        make_plan(large)
    assert make_plan(replace(large, shard=True)).memory.total < 0.9 * 80e9
    with pytest.raises(ConfigError, match="--shard requires several GPUs"):
        replace(H100, gpus=1, shard=True)


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
