"""The packed path: no sequence touches another, packing changes nothing, nothing is padded."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maskwright.core.errors import InputError
from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig

CONFIG = ModelConfig(
    vocab_size=97,
    hidden_size=24,
    num_hidden_layers=3,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=32,
)


def make(head=None, **options):
    """A model whose parameters are all drawn at a spread of 0.2."""
    model = build(CONFIG, head, **options).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return model


MODEL = make("pretraining")
sequence = st.lists(st.integers(1, 96), min_size=1, max_size=14)


def encode(sequences, model=MODEL, **options):
    return model.encode(Batch.from_sequences(sequences), **options)


# -- independence ------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(sequence, min_size=1, max_size=7), st.randoms(use_true_random=False))
def test_packing_changes_no_number(sequences, random):
    alone = [encode([one]).hidden for one in sequences]
    order = list(range(len(sequences)))
    random.shuffle(order)
    packed = encode([sequences[i] for i in order]).hidden.split([len(sequences[i]) for i in order])
    for i, one in zip(order, packed, strict=True):
        torch.testing.assert_close(one, alone[i], rtol=0, atol=2e-6)


def run_poisoned(lengths, poison):
    """Outputs and gradients of the other sequences; only the tokens of sequence 1 have the vector `poison`."""
    model = make()
    ids = [[1 + (7 * i + j) % 60 for j in range(length)] for i, length in enumerate(lengths)]
    ids[1] = [96] * lengths[1]
    with torch.no_grad():
        model.word_embeddings[96] = poison
    batch = Batch.from_sequences(ids)
    others = torch.tensor([i != 1 for i, length in enumerate(lengths) for _ in range(length)])
    encoded = model.encode(batch, hidden_states=True, attentions=True)
    outputs = [state[others] for state in encoded.hidden_states]
    outputs.append(model.pool(encoded.hidden, batch)[[i for i in range(len(lengths)) if i != 1]])
    outputs += [one for layer in encoded.attentions for i, one in enumerate(layer) if i != 1]
    sum(one.square().sum() for one in outputs).backward()
    return [one.detach() for one in outputs], {name: value.grad for name, value in model.named_parameters()}


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30, -1e4])
@pytest.mark.parametrize("lengths", [[5, 5, 5, 5], [3, 5, 7, 9]])
def test_poison_in_one_sequence_reaches_no_other(poison, lengths):
    """Equal lengths share one attention call, different ones do not: neither may leak a value or a gradient."""
    outputs, gradients = run_poisoned(lengths, 0.1)
    poisoned_outputs, poisoned_gradients = run_poisoned(lengths, poison)
    for one, other in zip(outputs, poisoned_outputs, strict=True):
        assert torch.equal(one, other)
    words = "encoder.embeddings.word.weight"
    assert torch.equal(gradients[words][:96], poisoned_gradients[words][:96])
    if poison == -1e4:  # while the poison stays finite, not even a weight that all share may notice
        for name, value in gradients.items():
            if name != words:
                torch.testing.assert_close(poisoned_gradients[name], value, rtol=1e-5, atol=1e-6, msg=name)


# -- nothing padded ----------------------------------------------------------------------------------------------


# -- what comes back ---------------------------------------------------------------------------------------------


def test_every_layer_is_there_the_embeddings_first():
    batch = Batch.from_sequences([[5, 6, 7], [8, 9]])
    encoded = MODEL.encode(batch, hidden_states=True, attentions=True)
    assert len(encoded.hidden_states) == 3 + 1 and len(encoded.attentions) == 3
    assert torch.equal(encoded.hidden_states[-1], encoded.hidden)
    embedded = MODEL.encoder.embeddings(batch.input_ids, batch.position_ids, None, torch.float32)
    assert torch.equal(encoded.hidden_states[0], embedded)
    for layer in encoded.attentions:
        assert [tuple(one.shape) for one in layer] == [(3, 3, 3), (3, 2, 2)]
        assert all(torch.allclose(one.sum(-1), torch.ones(one.shape[:2])) for one in layer)
    plain = MODEL.encode(batch)
    assert plain.hidden_states is None and plain.attentions is None
    torch.testing.assert_close(plain.hidden, encoded.hidden, rtol=0, atol=1e-6)


def test_bfloat16_computes_low_and_learns_high():
    model = make("mlm")
    exact = encode([[5, 6, 7, 8]], model).hidden
    model.compute_dtype = torch.bfloat16
    hidden = encode([[5, 6, 7, 8]], model).hidden
    assert hidden.dtype == torch.bfloat16
    assert torch.cosine_similarity(hidden.float(), exact, dim=-1).min() > 0.999
    model.mlm_logits(hidden).float().sum().backward()
    assert all(p.grad.dtype == p.dtype == torch.float32 for p in model.parameters() if p.grad is not None)


# -- bad input ---------------------------------------------------------------------------------------------------


def test_as_many_tokens_as_positions_work_and_one_more_is_named():
    assert encode([[5] * 32]).hidden.shape == (32, 24)
    with pytest.raises(InputError, match=r"33 tokens.* at most 32"):
        encode([[5] * 33])


@pytest.mark.parametrize("bad", [97, -1, 10**12])
def test_an_id_out_of_the_vocabulary_is_named(bad):
    with pytest.raises(InputError, match=f"Token id {bad:,}".replace("-", r"\-")):
        encode([[5, bad]])


def test_a_token_type_out_of_the_table_is_named():
    batch = Batch.from_sequences([[5, 6]], token_types=[[0, 2]])
    with pytest.raises(InputError, match="Token type 2"):
        MODEL.encode(batch)


def test_an_empty_pack_is_no_error_but_an_empty_sequence_cannot_be_pooled():
    assert encode([]).hidden.shape == (0, 24)
    batch = Batch.from_sequences([[5], [], [6]])
    hidden = MODEL.encode(batch).hidden
    with pytest.raises(InputError, match="Sequence 1"):
        MODEL.pool(hidden, batch)
