"""transformers in float64. ModernBERT turns queries and keys, soft-maxes and takes the loss of words in float32.

ESM and RoFormer turn queries and keys in float32, Longformer soft-maxes in it.

A token that sees nothing becomes nan there, for the lowest float64 is no float32. Causal models take their loss in
float32. DeBERTa takes the root of its scale and the loss of classes in float32, and its first version normalizes in
float32. Here those steps keep the dtype.
"""

from contextlib import contextmanager
from unittest.mock import patch

import torch
import transformers
from torch import nn
from transformers import (
    BertLMHeadModel,
    ErnieForCausalLM,
    GPT2LMHeadModel,
    MegatronBertForCausalLM,
    modeling_rope_utils,
)
from transformers.models.deberta import modeling_deberta
from transformers.models.deberta_v2 import modeling_deberta_v2
from transformers.models.esm import modeling_esm as esm
from transformers.models.eurobert import modeling_eurobert
from transformers.models.gte import modeling_gte
from transformers.models.jina_embeddings_v3 import modeling_jina_embeddings_v3
from transformers.models.longformer import modeling_longformer
from transformers.models.modernbert import modeling_modernbert as room
from transformers.models.nomic_bert import modeling_nomic_bert
from transformers.models.roformer import modeling_roformer as roformer

ROTARY = {
    "nomic_bert": modeling_nomic_bert,
    "gte": modeling_gte,
    "jina_embeddings_v3": modeling_jina_embeddings_v3,
    "eurobert": modeling_eurobert,
}


class Double:
    float = float32 = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


def rotary_angles(self, x, position_ids):
    """Cosine and sine [batch, seq, head_dim] in float64 of the module's own frequencies."""
    turns = torch.cat([position_ids[..., None] * self.inv_freq] * 2, dim=-1)
    return turns.cos() * self.attention_scaling, turns.sin() * self.attention_scaling


def angles(self, x, position_ids, layer_type=None):
    """Cosine and sine [batch, seq, head_dim] in float64, from the configuration's base."""
    width = self.config.hidden_size // self.config.num_attention_heads
    is_esm = self.config.model_type == "esm"
    base = self.config.rope_theta if is_esm else self.config.rope_parameters[layer_type]["rope_theta"]
    frequencies = 1.0 / base ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    turns = torch.cat([position_ids[..., None] * frequencies] * 2, dim=-1)
    return turns.cos(), turns.sin()


def sinusoids(self, shape, past=0, position_ids=None):
    """All sines first: float64 [seq, head_dim]."""
    width = self.weight.shape[1]
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    turns = torch.arange(shape[1], dtype=torch.float64)[:, None] / 1e4**exponents
    return torch.cat([turns.sin(), turns.cos()], dim=-1)


def turn(query, key, cosine, sine, unsqueeze_dim=1):
    cosine, sine = cosine.unsqueeze(unsqueeze_dim), sine.unsqueeze(unsqueeze_dim)
    return tuple(x * cosine + room.rotate_half(x) * sine for x in (query, key))


def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **_):
    scores = query @ key.mT * scaling
    weights = torch.softmax(scores if attention_mask is None else scores + attention_mask, dim=-1)
    weights = nn.functional.dropout(weights, dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def loss_of_words(logits, labels, vocab_size, **_):
    return nn.functional.cross_entropy(logits.view(-1, vocab_size), labels.view(-1))


def loss_of_next_words(logits, labels, vocab_size, **_):
    return nn.functional.cross_entropy(logits[:, :-1].reshape(-1, vocab_size), labels[:, 1:].reshape(-1))


def scale_of(query, factor):
    """Square root of head_dim times the number of terms, [], in float64."""
    return torch.tensor(query.shape[-1] * factor, dtype=torch.float64).sqrt()


@contextmanager
def exact(name):
    """While it lasts, transformers computes `name` in one dtype throughout."""
    decoders = {
        "bert": BertLMHeadModel,
        "ernie": ErnieForCausalLM,
        "gpt2": GPT2LMHeadModel,
        "megatron-bert": MegatronBertForCausalLM,
    }
    if name in decoders:
        with patch.object(decoders[name], "loss_function", staticmethod(loss_of_next_words)):
            yield
        return
    if name.startswith("deberta"):
        module = modeling_deberta if name == "deberta" else modeling_deberta_v2
        with patch.object(module, "scaled_size_sqrt", scale_of), patch.object(torch.Tensor, "float", lambda x: x):
            yield
        return
    if name in ROTARY:
        own = ROTARY[name]
        rotary = next(one for key, one in vars(own).items() if key.endswith("RotaryEmbedding"))
        with (
            patch.object(own, "torch", Double()),
            patch.object(modeling_rope_utils, "torch", Double()),
            patch.object(rotary, "forward", rotary_angles),
            patch.object(transformers.EuroBertForMaskedLM, "loss_function", staticmethod(loss_of_words)),
        ):
            yield
        return
    if name == "esm":
        with patch.object(esm.EsmRotaryEmbedding, "forward", angles), patch.object(esm, "apply_rotary_pos_emb", turn):
            yield
        return
    alone = {
        "longformer": (modeling_longformer, "torch", Double()),
        "roformer": (roformer.RoFormerSinusoidalPositionalEmbedding, "forward", sinusoids),
    }
    if name in alone:
        with patch.object(*alone[name]):
            yield
        return
    if name != "modernbert":
        yield
        return
    with (
        patch.object(room.ModernBertRotaryEmbedding, "forward", angles),
        patch.object(room, "apply_rotary_pos_emb", turn),
        patch.object(room, "eager_attention_forward", attend),
        patch.object(room.ModernBertForMaskedLM, "loss_function", staticmethod(loss_of_words)),
    ):
        yield
