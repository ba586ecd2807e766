"""GPT-2 (Radford et al. 2019): causal, pre-norm, one combined QKV matrix, and matrices stored as [inputs, outputs]."""

from __future__ import annotations

from ...core.progress import warn
from ..family import Family, Values
from .bert import CLASSIFIER, SPAN

_NAMES = {
    "vocab_size": "vocab_size",
    "hidden_size": "n_embd",
    "num_hidden_layers": "n_layer",
    "num_attention_heads": "n_head",
    "intermediate_size": "n_inner",
    "hidden_act": "activation_function",
    "hidden_dropout": "resid_pdrop",
    "attention_dropout": "attn_pdrop",
    "classifier_dropout": "classifier_dropout",
    "max_position_embeddings": "n_positions",
    "layer_norm_eps": "layer_norm_epsilon",
    "initializer_range": "initializer_range",
    "pad_token_id": "pad_token_id",
    "tie_word_embeddings": "tie_word_embeddings",
    "scale_attention": "scale_attn_weights",
    "scale_attention_by_layer": "scale_attn_by_inverse_layer_idx",
    "upcast_attention": "reorder_and_upcast_attn",
}


def _to_ours(ours: Values) -> Values:
    """Without n_inner the feed-forward size is 4 x hidden; of two dropout rates only one is supported."""
    width, rate = ours.get("hidden_size", 768), ours.pop("embd_pdrop", None)
    if ours.get("intermediate_size") is None and isinstance(width, int):
        ours["intermediate_size"] = 4 * width
    if rate is not None and rate != ours.get("hidden_dropout", 0.1):
        warn(f"embd_pdrop is {rate}, which differs from resid_pdrop: training uses resid_pdrop for both.")
    return ours


def _to_theirs(theirs: Values) -> Values:
    return theirs | {"embd_pdrop": theirs["resid_pdrop"]}


def family() -> Family:
    """Returns the GPT-2 family. Classification uses the last token; transformers has no multiple-choice class."""
    return Family(
        model_type="gpt2",
        title="GPT-2",
        prefix="transformer.",
        classes={
            "GPT2Model": None,
            "GPT2LMHeadModel": "clm",
            "GPT2ForSequenceClassification": "classification",
            "GPT2ForTokenClassification": "tagging",
            "GPT2ForQuestionAnswering": "qa",
        },
        names=_NAMES,
        hints={"embd_pdrop": "embd_pdrop"},
        aliases={
            name: name
            for name in ("hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings")
        },
        defaults={
            "vocab_size": 50_257,
            "intermediate_size": None,
            "hidden_act": "gelu_new",
            "max_position_embeddings": 1_024,
            "layer_norm_eps": 1e-5,
            "pad_token_id": None,
        },
        fixed={
            "embedding_norm": False,
            "attention": "causal",
            "norm": "pre",
            "shrink_residuals": True,
            "type_vocab_size": 0,
            "pooler": False,
            "bare_heads": True,
        },
        nullable=("pad_token_id", "classifier_dropout"),
        understood={
            "add_cross_attention": (False, None),
            "quantization_config": (None,),
            "pruned_heads": ({}, None),
        },
        transposed=("attention.qkv.weight", "attention.out.weight", "ffn.up.weight", "ffn.down.weight"),
        buffers=r"h\.\d+\.attn\.(bias|masked_bias)",
        is_causal=True,
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        encoder={
            "embeddings.word.weight": ["wte.weight"],
            "embeddings.position.weight": ["wpe.weight"],
            "layers.{i}.attention_norm.{p}": ["h.{i}.ln_1.{p}"],
            "layers.{i}.attention.qkv.{p}": ["h.{i}.attn.c_attn.{p}"],
            "layers.{i}.attention.out.{p}": ["h.{i}.attn.c_proj.{p}"],
            "layers.{i}.ffn_norm.{p}": ["h.{i}.ln_2.{p}"],
            "layers.{i}.ffn.up.{p}": ["h.{i}.mlp.c_fc.{p}"],
            "layers.{i}.ffn.down.{p}": ["h.{i}.mlp.c_proj.{p}"],
            "final_norm.{p}": ["ln_f.{p}"],
        },
        heads={
            "clm": {"decoder": ["lm_head.weight"]},
            "classification": {"classifier.{p}": ["score.{p}"]},
            "regression": {"classifier.{p}": ["score.{p}"]},
            "tagging": CLASSIFIER,
            "qa": SPAN,
        },
    )
