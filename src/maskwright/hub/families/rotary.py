"""Encoders with rotary positions in all layers: Nomic BERT (Nussbaum et al. 2024), GTE (Zhang et al. 2024) and Jina
Embeddings v3 (Sturua et al. 2024), which are BERT with them, and EuroBERT (Boizard et al. 2025), a Llama that reads in
both directions.

Files of the first three have the tensor names of their authors' code, which transformers writes, too. The tables, and
so adapters and the folders written here, have the names of transformers' modules.
"""

from __future__ import annotations

from ...core.config import check
from ...models.config import SCALINGS
from ..family import Family, Rows, Values
from .bert import CLASSIFIER, NAMES, PREDICTIONS, SPAN, TABLES, UNDERSTOOD
from .roberta import DENSE_CLASSIFIER, classes
from .roberta import PREDICTIONS as LM_HEAD

_ROPE = {"rotary_scaling": "rope_parameters", "rotary_theta": "rope_theta"}
_HINTS = {"_scaling": "rope_scaling", "_length": "original_max_position_embeddings"}
_UNDERSTOOD = UNDERSTOOD | {
    "position_embedding_type": ("rope", "rotary", None),
    "partial_rotary_factor": (1, None),
}
_QKV = [f"layers.{{i}}.self_attn.{part}_proj.{{p}}" for part in "qkv"]
_ENCODER = {
    **{name: theirs for name, theirs in TABLES.items() if "position" not in name},
    "layers.{i}.attention.qkv.{p}": _QKV,
    "layers.{i}.attention.out.{p}": ["layers.{i}.self_attn.o_proj.{p}"],
    "layers.{i}.attention_norm.{p}": ["layers.{i}.post_attention_layernorm.{p}"],
    "layers.{i}.ffn.up.{p}": ["layers.{i}.mlp.gate_proj.{p}", "layers.{i}.mlp.up_proj.{p}"],
    "layers.{i}.ffn.down.{p}": ["layers.{i}.mlp.down_proj.{p}"],
    "layers.{i}.ffn_norm.{p}": ["layers.{i}.post_mlp_layernorm.{p}"],
    "pooler.{p}": ["pooler.dense.{p}"],
}
# Names in the files of all authors but GTE's.
_RENAMED = {
    r"^bert\.": "",
    r"^emb_ln\.": "embeddings.LayerNorm.",
    r"^encoder\.layers\.": "layers.",
    r"\.(attn|mixer)\.out_proj\.": ".self_attn.o_proj.",
    r"\.norm1\.": ".post_attention_layernorm.",
    r"\.norm2\.": ".post_mlp_layernorm.",
}


def _heads(predictions: Rows, classifier: Rows, **others: Rows) -> dict[str, Rows]:
    return {
        "mlm": predictions,
        "classification": classifier,
        "regression": classifier,
        "tagging": CLASSIFIER,
        **others,
    }


def _classes(stem: str, *others: str) -> dict[str, str | None]:
    """Returns the classes of a family without some heads of BERT."""
    heads = (None, "mlm", "classification", "tagging", *others)
    return {name: head for name, head in classes(stem).items() if head in heads}


def _to_ours(ours: Values) -> Values:
    """Reads rope_parameters, or rope_scaling and rope_theta of older files."""
    scaling, length = ours.pop("_scaling", None), ours.pop("_length", None)
    rope = scaling or ours.pop("rotary_scaling", None) or {}
    check(isinstance(rope, dict), f"rope_parameters are {rope!r}; they must be a table.")
    kind, part = rope.get("rope_type", rope.get("type", "default")), rope.get("partial_rotary_factor")
    check(part in (None, 1), f"partial_rotary_factor is {part!r}, which is not supported.")
    ours |= {"rotary_theta": rope.get("rope_theta") or ours["rotary_theta"], "rotary_scaling": None}
    if kind != "default":
        needed, optional = SCALINGS.get(kind, ((), ())) if isinstance(kind, str) else ((), ())
        found = {name: rope[name] for name in (*needed, *optional) if rope.get(name) is not None}
        if "original_max_position_embeddings" in needed:
            usual = {"original_max_position_embeddings": length or ours["max_position_embeddings"]}
            found = found | usual if length else usual | found
        ours["rotary_scaling"] = {"rope_type": kind, **found}
    size, width, heads = ours.get("attention_head_size"), ours.get("hidden_size", 768), ours.get("num_attention_heads")
    if isinstance(width, int) and isinstance(heads, int) and heads > 0 and size == width // heads:
        ours["attention_head_size"] = None
    return ours


def _to_theirs(theirs: Values) -> Values:
    scaling = theirs["rope_parameters"] or {"rope_type": "default"}
    return theirs | {"rope_parameters": {**scaling, "rope_theta": theirs.pop("rope_theta")}}


def nomic() -> Family:
    """Returns Nomic BERT: no biases in its layers, a gated feed-forward network; also by its older setting names."""
    gates = {"swiglu": "silu", "geglu": "gelu"}

    def to_ours(ours: Values) -> Values:
        gate = ours.pop("_gate", None)
        if gate is not None:
            check(isinstance(gate, str) and gate in gates, f"activation_function is {gate!r}, which is not supported.")
            ours["hidden_act"] = gates[gate]
        return _to_ours(ours)

    return Family(
        model_type="nomic_bert",
        title="Nomic BERT",
        prefix="nomic_bert.",
        classes=_classes("NomicBert"),
        names=NAMES | _ROPE | {"attention_head_size": "head_dim"},
        hints=_HINTS | {"_gate": "activation_function"},
        aliases={
            "hidden_size": "n_embd",
            "num_hidden_layers": "n_layer",
            "num_attention_heads": "n_head",
            "intermediate_size": "n_inner",
            "hidden_dropout": "resid_pdrop",
            "attention_dropout": "attn_pdrop",
            "max_position_embeddings": "n_positions",
            "layer_norm_eps": "layer_norm_epsilon",
            "rotary_theta": "rotary_emb_base",
        },
        defaults={
            "vocab_size": 30_528,
            "num_attention_heads": 12,
            "hidden_act": "silu",
            "hidden_dropout": 0.0,
            "attention_dropout": 0.0,
            "max_position_embeddings": 2_048,
            "rotary_theta": 1_000.0,
        },
        fixed={"positions": "rotary", "linear_bias": False, "gated": True, "pooler": False},
        nullable=("pad_token_id", "classifier_dropout"),
        understood=_UNDERSTOOD
        | {
            "rotary_emb_fraction": (1, None),
            "rotary_emb_interleaved": (False, None),
            "rotary_emb_scale_base": (None,),
            "rotary_scaling_factor": (None,),
            "prenorm": (False, None),
            "parallel_block": (False, None),
            "causal": (False, None),
            "use_rms_norm": (False, None),
            "qkv_proj_bias": (False, None),
            "mlp_fc1_bias": (False, None),
            "mlp_fc2_bias": (False, None),
            "num_experts": (None,),
        },
        adapt_in=to_ours,
        adapt_out=_to_theirs,
        renamed=_RENAMED
        | {r"\.mlp\.fc11\.": ".mlp.up_proj.", r"\.mlp\.fc12\.": ".mlp.gate_proj.", r"\.mlp\.fc2\.": ".mlp.down_proj."},
        joined={"layers.{i}.attn.Wqkv.{p}": _QKV},
        encoder=_ENCODER,
        heads=_heads(PREDICTIONS | {"norm.{p}": ["cls.predictions.transform.layer_norm.{p}"]}, CLASSIFIER),
    )


def gte() -> Family:
    """Returns GTE: the gated projection alone has no bias, and dropout also applies inside the network.

    The authors' scaling "ntk" is another base, and a linear scaling.
    """

    def to_ours(ours: Values) -> Values:
        scaling, width, heads = ours.get("_scaling"), ours["hidden_size"], ours["num_attention_heads"]
        if isinstance(scaling, dict) and scaling.get("type") == "ntk" and scaling.get("mixed_b") is None:
            numbers = scaling.get("factor"), ours["rotary_theta"], width, heads
            is_right = all(isinstance(one, (int, float)) and one > 0 for one in numbers)
            check(is_right, f"rope_scaling is {scaling!r}; its factor must be a number above 0.")
            ours["_scaling"] = {"type": "linear", "factor": scaling["factor"] ** (2 * heads / width)}
            ours["rotary_theta"] *= scaling["factor"]
        return _to_ours(ours | {"ffn_dropout": ours.get("hidden_dropout", 0.1)})

    return Family(
        model_type="gte",
        title="GTE",
        prefix="gte.",
        classes=_classes("Gte"),
        names=NAMES | _ROPE,
        hints=_HINTS,
        defaults={
            "vocab_size": 250_048,
            "hidden_size": 768,
            "num_attention_heads": 12,
            "attention_dropout": 0.0,
            "max_position_embeddings": 8_192,
            "rotary_theta": 160_000.0,
            "type_vocab_size": 1,
            "pad_token_id": 1,
        },
        fixed={"positions": "rotary", "gated": True, "ffn_up_bias": False, "pooler": False, "mlm_act": "gelu"},
        nullable=("pad_token_id", "classifier_dropout"),
        understood=_UNDERSTOOD
        | {
            "head_dim": (None,),
            "layer_norm_type": ("layer_norm", None),
            "logn_attention_scale": (False, None),
            "logn_attention_clip1": (False, None),
        },
        adapt_in=to_ours,
        adapt_out=_to_theirs,
        renamed={
            r"^new\.": "",
            r"^encoder\.layer\.": "layers.",
            r"\.attention\.([qkvo])_proj\.": r".self_attn.\1_proj.",
            r"\.attn_ln\.": ".post_attention_layernorm.",
            r"\.mlp_ln\.": ".post_mlp_layernorm.",
            r"^lm_head\.norm\.": "lm_head.layer_norm.",
        },
        joined={
            "layers.{i}.attention.qkv_proj.{p}": _QKV,
            "layers.{i}.mlp.up_gate_proj.{p}": ["layers.{i}.mlp.up_proj.{p}", "layers.{i}.mlp.gate_proj.{p}"],
        },
        encoder=_ENCODER,
        heads=_heads(LM_HEAD | {"bias": ["lm_head.decoder.bias"]}, CLASSIFIER),
    )


def jina() -> Family:
    """Returns Jina Embeddings v3: XLM-R with rotary positions, and task adapters in folders of their own (PEFT).

    The authors' own file contains the adapters: `load_model` merges the one that is named, see `hub.weights`.
    """
    return Family(
        model_type="jina_embeddings_v3",
        title="Jina Embeddings v3",
        prefix="roberta.",
        classes=_classes("JinaEmbeddingsV3", "qa"),
        names=NAMES | _ROPE,
        hints=_HINTS,
        defaults={
            "vocab_size": 250_002,
            "hidden_size": 1_024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4_096,
            "max_position_embeddings": 8_194,
            "rotary_theta": 20_000.0,
            "type_vocab_size": 1,
            "layer_norm_eps": 1e-5,
            "pad_token_id": 1,
        },
        fixed={"positions": "rotary", "mlm_act": "gelu", "classifier_act": "tanh"},
        nullable=("pad_token_id", "classifier_dropout"),
        aliases={"rotary_theta": "rotary_emb_base"},
        understood=_UNDERSTOOD | {"head_dim": (None,)},
        adapt_in=_to_ours,
        adapt_out=_to_theirs,
        renamed=_RENAMED | {r"\.parametrizations\.weight\.original$": ".weight"},
        joined={"layers.{i}.mixer.Wqkv.{p}": _QKV},
        encoder=_ENCODER
        | {
            "layers.{i}.ffn.up.{p}": ["layers.{i}.mlp.fc1.{p}"],
            "layers.{i}.ffn.down.{p}": ["layers.{i}.mlp.fc2.{p}"],
        },
        heads=_heads(LM_HEAD, DENSE_CLASSIFIER, qa=SPAN),
    )


def eurobert() -> Family:
    """Returns EuroBERT: pre-norm with RMS norms, gated, optionally with shared keys and values; no dropout."""
    poolings = {"bos": "first", "mean": "mean", "late": "late"}

    def to_ours(ours: Values) -> Values:
        ffn_bias, pooling = ours.pop("_ffn_bias", None) or False, ours["pooling"]
        check(ffn_bias == ours["linear_bias"], "mlp_bias and attention_bias differ, which is not supported.")
        is_known = isinstance(pooling, str) and pooling in poolings
        check(is_known, f"classifier_pooling is {pooling!r}; it must be one of {', '.join(poolings)}.")
        if ours.get("num_key_value_heads") == ours["num_attention_heads"]:
            ours["num_key_value_heads"] = None
        return _to_ours(ours | {"pooling": poolings[pooling]})

    def to_theirs(theirs: Values) -> Values:
        pooling = next(name for name, ours in poolings.items() if ours == theirs["classifier_pooling"])
        return _to_theirs(theirs | {"mlp_bias": theirs["attention_bias"], "classifier_pooling": pooling})

    held = {"max_position_embeddings", "initializer_range", "pad_token_id", "tie_word_embeddings", "vocab_size"}
    held |= {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"}
    layer = "layers.{i}."
    return Family(
        model_type="eurobert",
        title="EuroBERT",
        prefix="model.",
        classes=_classes("EuroBert"),
        names={name: theirs for name, theirs in NAMES.items() if name in held}
        | _ROPE
        | {
            "num_key_value_heads": "num_key_value_heads",
            "attention_head_size": "head_dim",
            "attention_dropout": "attention_dropout",
            "layer_norm_eps": "rms_norm_eps",
            "linear_bias": "attention_bias",
            "pooling": "classifier_pooling",
        },
        hints=_HINTS | {"_ffn_bias": "mlp_bias"},
        defaults={
            "vocab_size": 128_256,
            "num_attention_heads": 12,
            "hidden_act": "silu",
            "attention_dropout": 0.0,
            "max_position_embeddings": 8_192,
            "rotary_theta": 10_000.0,
            "layer_norm_eps": 1e-5,
            "linear_bias": False,
            "pooling": "late",
            "pad_token_id": 128_001,
            "tie_word_embeddings": False,
        },
        fixed={
            "positions": "rotary",
            "hidden_dropout": 0.0,
            "embedding_norm": False,
            "norm": "pre",
            "norm_kind": "rms",
            "gated": True,
            "type_vocab_size": 0,
            "pooler": False,
            "mlm_dense": False,
            "classifier_act": "gelu",
            "classifier_dropout": 0.0,
            "classifier_input_dropout": False,
            "choice_act": "gelu",
        },
        understood=_UNDERSTOOD,
        adapt_in=to_ours,
        adapt_out=to_theirs,
        encoder={name: theirs for name, theirs in _ENCODER.items() if name.startswith(layer)}
        | {
            "embeddings.word.weight": ["embed_tokens.weight"],
            layer + "attention_norm.{p}": [layer + "input_layernorm.{p}"],
            layer + "ffn_norm.{p}": [layer + "post_attention_layernorm.{p}"],
            "final_norm.{p}": ["norm.{p}"],
        },
        heads=_heads(
            {"bias": ["lm_head.bias"], "decoder": ["lm_head.weight"]},
            {"dense.{p}": ["dense.{p}"], "classifier.{p}": ["classifier.{p}"]},
        ),
    )
