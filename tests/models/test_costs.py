"""Operations and memory: counted and estimated as torch has them; recomputed layers; losses and long texts in parts."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from maskwright.data.batch import Batch
from maskwright.models import sizes as flops
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.presets import preset
from maskwright.models.pretraining_heads import _first_is_right, _right_of_all, vocabulary_loss
from maskwright.models.sizes import activation_bytes, training_memory
from maskwright.nn.native import training
from models.kept import kept_bytes
from nn.costs import Largest

SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
}
LENGTH, SEQUENCES = 12, 3


@pytest.fixture(autouse=True)
def by_operators_of_torch(monkeypatch):
    """What C++ computes, torch does not count."""
    monkeypatch.setattr(training, "missing", lambda: "torch's operators are counted")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert-base", {}),
        ("albert-base", {"embedding_size": 16}),
        ("electra-small", {"embedding_size": 16}),
        ("modernbert-base", {"window_size": 256}),
        ("mpnet-base", {}),
        ("gpt2", {}),
    ],
)
def test_a_training_step_has_the_operations_that_torch_counts(name, changes):
    config = preset(name, **SMALL, **changes)
    model = build(config, head="mlm").train()
    batch = Batch.from_sequences([list(range(5, 5 + LENGTH))] * SEQUENCES)
    positions = torch.arange(0, SEQUENCES * LENGTH, 4)
    with FlopCounterMode(display=False) as counter:
        hidden = model.encode(batch).hidden
        model.mlm_logits(hidden[positions]).sum().backward()
    tokens = SEQUENCES * LENGTH
    forward = tokens * (flops.linear_flops(config) + flops.attention_flops(config, LENGTH))
    forward += len(positions) * flops.word_head_flops(config)
    if config.attention == "causal":
        forward += _masked(config, tokens, LENGTH, config.num_hidden_layers)
    assert counter.get_total_flops() == pytest.approx(flops.TRAINING_PASSES * forward, rel=1e-9)


def _masked(config, tokens, length, layers):
    """Operations with the masked keys of causal attention, which torch counts."""
    return tokens * layers * 4 * config.hidden_size * (length - (length + 1) / 2)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer-base", {}),
        ("bart-base", {}),
        ("transformer-base", {"decoder_vocab_size": 80, "tie_word_embeddings": False, "norm": "pre"}),
    ],
)
def test_an_encoder_decoder_has_the_operations_that_torch_counts(name, changes):
    config = preset(name, **SMALL, num_decoder_layers=3, **changes)
    model = build(config, head="seq2seq").train()
    source = Batch.from_sequences([list(range(5, 5 + LENGTH))] * SEQUENCES)
    target = Batch.from_sequences([list(range(5, 5 + LENGTH - 4))] * SEQUENCES)
    positions = torch.arange(0, target.num_tokens, 4)
    with FlopCounterMode(display=False) as counter:
        hidden = model.decode(target, model.encode(source).hidden, source).hidden
        model.mlm_logits(hidden[positions]).sum().backward()
    forward = SEQUENCES * sum(flops.text_flops(config, LENGTH, LENGTH - 4))
    forward += len(positions) * flops.word_head_flops(config) + _masked(config, target.num_tokens, LENGTH - 4, 3)
    assert counter.get_total_flops() == pytest.approx(flops.TRAINING_PASSES * forward, rel=1e-9)


def test_bert_base_by_hand():
    config = preset("bert-base")
    entries = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
    assert entries == 84_934_656 == flops.linear_flops(config) // 2
    assert flops.attention_flops(config, 128) == 12 * 4 * 128 * 768
    assert flops.word_head_flops(config) == 2 * (768 * 768 + 768 * 30_522)
    assert flops.sequence_head_flops(config) == 2 * 768 * 770


@pytest.mark.parametrize(("length", "window"), [(5, 4), (16, 4), (16, 64), (1, 2)])
def test_keys_of_a_window_are_those_that_a_mask_has(length, window):
    config = ModelConfig(**SMALL, attention="window", window_size=window)
    places = torch.arange(length)
    mask = (places[:, None] - places[None, :]).abs() <= window // 2
    assert flops.keys_seen(config, length) == pytest.approx(float(mask.sum(1).float().mean()))


# -- Estimated memory, compared with what torch stores for the backward pass of real models --------------------------

MEDIUM = {
    "vocab_size": 300,
    "hidden_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def kept_of(model, batch, positions):
    def run():
        scores = model.mlm_logits(model.encode(batch).hidden[positions]).float()
        F.cross_entropy(scores, torch.zeros(len(positions), dtype=torch.int64))

    return kept_bytes(model, run)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bert-base", {}),
        ("bert-base", {"hidden_dropout": 0.0, "attention_dropout": 0.0}),
        ("albert-base", {"embedding_size": 32}),
        ("modernbert-base", {"window_size": 16}),
        ("bert-base", {"attention": "causal"}),
        ("gpt2", {}),
    ],
)
@pytest.mark.parametrize(("length", "precision"), [(16, "fp32"), (96, "bf16")])
def test_what_is_reckoned_is_what_autograd_keeps(name, changes, precision, length):
    config = preset(name, **(MEDIUM | changes))
    model = build(config, head="mlm").train()
    model.compute_dtype = DTYPES[precision]
    sequences = 384 // length
    batch = Batch.from_sequences([[7 + place % 200 for place in range(length)]] * sequences)
    positions = torch.arange(0, batch.num_tokens, 7)
    reckoned = training_memory(
        config, model.num_parameters, length=length, sequences=sequences, scored=0, precision=precision, on_cpu=True
    )
    scores = 4 * len(positions) * config.vocab_size  # of these the forward pass keeps one copy
    assert reckoned.activations + reckoned.cast_weights + scores == pytest.approx(
        kept_of(model, batch, positions), rel=0.08
    )


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("transformer-base", {}),
        ("transformer-base", {"norm": "pre", "attention_dropout": 0.1, "hidden_dropout": 0.0}),
        ("bart-base", {}),
    ],
)
@pytest.mark.parametrize(("lengths", "precision"), [((16, 16), "fp32"), ((96, 20), "bf16")])
def test_the_same_for_an_encoder_decoder(name, changes, precision, lengths):
    config = preset(name, **(MEDIUM | {"num_decoder_layers": 2} | changes))
    model = build(config, head="seq2seq").train()
    model.compute_dtype = DTYPES[precision]
    sequences = 384 // lengths[0]
    source, target = (
        Batch.from_sequences([[7 + place % 200 for place in range(length)]] * sequences) for length in lengths
    )
    positions = torch.arange(0, target.num_tokens, 7)

    def run():
        hidden = model.decode(target, model.encode(source).hidden, source).hidden
        F.cross_entropy(model.mlm_logits(hidden[positions]).float(), torch.zeros(len(positions), dtype=torch.int64))

    reckoned = training_memory(
        config,
        model.num_parameters,
        length=lengths[0],
        target=lengths[1],
        sequences=sequences,
        scored=0,
        precision=precision,
        on_cpu=True,
    )
    scores = 4 * len(positions) * config.vocab_size
    assert reckoned.activations + reckoned.cast_weights + scores == pytest.approx(kept_bytes(model, run), rel=0.08)


def test_activations_grow_with_the_tokens_and_on_a_gpu_not_with_their_square():
    config = preset("bert-base")
    assert activation_bytes(config, 512) == activation_bytes(config, 128)
    assert activation_bytes(config, 512, on_cpu=True) > 1.5 * activation_bytes(config, 128, on_cpu=True)


# -- Activation checkpointing ----------------------------------------------------------------------------------------

DEEP = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
LENGTHS = (5, 9, 9, 20)


def model_of(recomputes, **changes):
    model = build(ModelConfig(**(DEEP | changes)), head="mlm").train()
    model.recomputes = recomputes
    return model


def batch():
    return Batch.from_sequences([[7 + (place * length) % 90 for place in range(length)] for length in LENGTHS])


def loss_of(model):
    torch.manual_seed(3)  # dropout
    hidden = model.encode(batch()).hidden
    return model.mlm_loss(hidden[::3], torch.arange(len(hidden[::3])))[0]


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm": "pre", "positions": "rotary"}, {"num_hidden_groups": 1}, {"attention": "window", "window_size": 8}],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_are_the_same_to_the_last_bit_with_dropout(changes, dtype):
    found = []
    for recomputes in (False, True):
        model = model_of(recomputes, **changes)
        model.compute_dtype = dtype
        loss = loss_of(model)
        loss.backward()
        found.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_runs_again_too(norm, monkeypatch):
    from maskwright.models import transformer

    source, target, found, again = batch(), batch(), [], []
    original = transformer.checkpoint
    monkeypatch.setattr(transformer, "checkpoint", lambda *a, **k: again.append(a[0]) or original(*a, **k))
    for recomputes in (False, True):
        config = ModelConfig(**(DEEP | {"norm": norm, "num_decoder_layers": 3, "decoder_start_token_id": 2}))
        model = build(config, head="seq2seq").train()
        model.recomputes = recomputes
        assert model.recomputes == recomputes
        torch.manual_seed(3)  # dropout
        hidden = model.decode(target, model.encode(source).hidden, source).hidden
        loss = model.mlm_loss(hidden, target.input_ids, 0.1)[0]
        loss.backward()
        found.append([loss.detach(), *(parameter.grad for parameter in model.parameters())])
        assert len(again) == (4 + 3) * recomputes
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_layers_keep_their_inputs_alone():
    less, more = (kept_bytes(model, lambda: model.encode(batch())) for model in (model_of(True), model_of(False)))  # noqa: B023
    assert less < more / 3
    config = model_of(True).config
    reckoned = [activation_bytes(config, 20, "fp32", True, recomputed) for recomputed in (True, False)]
    assert reckoned[0] < 0.6 * reckoned[1]


# -- 4,096 tokens through a whole network, forward and backward ------------------------------------------------------

LONG = 4096
CONFIG = ModelConfig(
    vocab_size=50,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=1,
    intermediate_size=16,
    max_position_embeddings=LONG,
    block_size=16,
    random_blocks=2,
    window_size=32,
    relative_distance=8,
)
NETWORKS = [
    {"attention": "window", "positions": "rotary"},
    {"attention": "window", "positions": "none", "relative_buckets": 32},
    {"attention": "window", "global_attention": True},
    {"attention": "global", "positions": "sinusoidal"},
    {"attention": "big_bird"},
    {"attention": "big_bird", "positions": "relative_key_value", "norm": "pre"},
    {"attention": "big_bird_published"},
]


def ids_of(length):
    return torch.randint(1, 50, (length,), generator=torch.Generator().manual_seed(length))


def packed_step(model, length):
    """Predict 20 tokens of one text, of which four are global."""
    batch = Batch.from_sequences([ids_of(length).tolist()])
    hidden = model.encode(replace(batch, global_tokens=torch.arange(length) % (length // 4) == 0)).hidden
    (hidden.square().sum() + model.mlm_logits(hidden[:20]).logsumexp(-1).sum()).backward()


def padded_step(model, length):
    """The padded call: one row that fills the batch, one that does not."""
    ids = ids_of(length).repeat(2, 1)
    mask = torch.ones_like(ids)
    mask[1, length * 3 // 4 :] = 0
    model(input_ids=ids, attention_mask=mask, labels=torch.where(ids == 7, ids, -100)).loss.backward()


def largest(network, step, length):
    model = build(replace(CONFIG, **network), "mlm").train()
    with Largest() as found:
        step(model, length)
    return found.elements


@pytest.mark.parametrize(("network", "step"), [*((one, packed_step) for one in NETWORKS), (NETWORKS[-1], padded_step)])
def test_no_tensor_of_a_training_step_is_as_large_as_length_times_length(network, step):
    whole = largest(network, step, LONG)
    assert whole < LONG * LONG / 16
    assert whole <= 2.1 * largest(network, step, LONG // 2)


def test_full_attention_in_the_same_place_does_make_one():
    length = 1024
    assert largest({"positions": "relative_key"}, packed_step, length) >= length * length


# -- The loss over a whole vocabulary in parts -----------------------------------------------------------------------

VOCAB, SIZE, POSITIONS = 37, 8, 23


def drawn(dtype=torch.float32):
    draws = torch.Generator().manual_seed(5)
    vectors = torch.randn(POSITIONS, SIZE, generator=draws).to(dtype).requires_grad_()
    table, bias = torch.randn(VOCAB, SIZE, generator=draws), torch.randn(VOCAB, generator=draws)
    if dtype == torch.float64:
        table, bias = table.double(), bias.double()
    return vectors, table.requires_grad_(), bias.requires_grad_(), torch.randint(VOCAB, (POSITIONS,), generator=draws)


def plain(vectors, table, bias, labels, smooth):
    scores = F.linear(vectors, table.to(vectors.dtype), None if bias is None else bias.to(vectors.dtype))
    wide = scores if scores.dtype == torch.float64 else scores.float()
    loss = F.cross_entropy(wide, labels, reduction="sum", label_smoothing=smooth)
    return loss, (scores.argmax(-1) == labels).sum()


@pytest.mark.parametrize(
    ("most", "smooth", "has_bias"), [(1, 0.1, True), (5 * VOCAB, 0.0, False), (5 * VOCAB, 0.1, True)]
)
@pytest.mark.parametrize(("dtype", "near"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 2e-2)])
def test_loss_hits_and_gradients_are_those_of_the_plain_way(dtype, near, most, smooth, has_bias):
    found = []
    for is_plain in (False, True):
        vectors, table, bias, labels = drawn(dtype)
        inputs = (vectors, table, bias if has_bias else None, labels)
        loss, right = plain(*inputs, smooth) if is_plain else vocabulary_loss(*inputs, most, smooth)[:2]
        (loss * 0.25).backward()
        found.append((loss.detach(), right, vectors.grad, table.grad, *([bias.grad] if has_bias else [])))
        assert has_bias or bias.grad is None
    (loss, right, *gradients), (plain_loss, plain_right, *plain_gradients) = found
    assert loss.dtype == plain_loss.dtype and int(right) == int(plain_right)
    torch.testing.assert_close(loss, plain_loss, rtol=near, atol=near)
    for one, other in zip(gradients, plain_gradients, strict=True):
        assert one.dtype == other.dtype
        assert float((one - other).float().norm() / other.float().norm()) < near


@pytest.mark.parametrize("is_trained", [True, False])
@pytest.mark.parametrize("most", [3 * VOCAB, 1000 * VOCAB])
def test_only_scored_labels_count_as_right_and_in_their_loss(is_trained, most):
    vectors, table, bias, labels = drawn(torch.float32)
    labels[::2] = (vectors @ table.T + bias).argmax(dim=-1)[::2]  # so that some are right
    is_scored = torch.arange(POSITIONS) % 3 > 0
    with torch.set_grad_enabled(is_trained):
        loss, right, scored = vocabulary_loss(vectors, table, bias, labels, most, 0.1, is_scored)
        same, _, whole = vocabulary_loss(vectors, table, bias, labels, most, 0.1)
    wanted, wanted_right = plain(vectors[is_scored], table, bias, labels[is_scored], 0.0)
    assert torch.equal(loss, same) and 0 < int(right) == int(wanted_right)
    torch.testing.assert_close(scored, wanted.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(whole, plain(vectors, table, bias, labels, 0.0)[0].detach(), rtol=1e-5, atol=1e-5)
    assert not scored.requires_grad


def test_the_count_of_a_gpu_is_that_of_a_cpu():
    """With ties between highest scores, and with rows that are not scored."""
    draws = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 3, (200, 4), generator=draws).float()
    labels = torch.randint(0, 4, (200,), generator=draws)
    highest, at_label = scores.amax(dim=-1, keepdim=True), scores.gather(1, labels.unsqueeze(1))
    for is_scored in (None, torch.rand(200, generator=draws) < 0.5):
        found = _right_of_all(scores, labels, is_scored)
        assert 0 < found < 200 and found == _first_is_right(scores, highest, at_label, labels, is_scored)


def test_scores_never_exist_whole(monkeypatch):
    sizes = []
    original = F.linear
    monkeypatch.setattr(F, "linear", lambda *inputs: sizes.append(len(inputs[0])) or original(*inputs))
    vocabulary_loss(*drawn(), most=5 * VOCAB)
    assert max(sizes) <= 5 and sum(sizes) == POSITIONS


def test_a_second_gradient_is_refused():
    loss, _, _ = vocabulary_loss(*drawn())
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="once"):
        loss.backward()
