"""Random checkpoints of every family and head, made by transformers, with settings that are not the defaults."""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from collections.abc import Iterable
from typing import Any

import pytest
import torch
import transformers

from maskwright.hub.family import family_named

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

SMALL = {
    "vocab_size": 83,
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 44,
    "max_position_embeddings": 37,
}
# Ids that lie outside so small a vocabulary by default.
SPECIAL: dict[str, dict[str, Any]] = {
    "esm": {"pad_token_id": 1, "mask_token_id": 32},
    "eurobert": {"pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 4},
    "longformer": {"pad_token_id": 1, "sep_token_id": 9},
    "xmod": {"default_language": "en_XX"},
    "modernbert": {"pad_token_id": 3, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
VERSION_3 = RELATIVE | {"position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True}
_LINEAR = {"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5}
_DYNAMIC = {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 2.0}
_YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 3.0, "original_max_position_embeddings": 12}
_YARN |= {"beta_fast": 2.0, "beta_slow": 0.3}
_LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16}
_LLAMA3 |= {"low_freq_factor": 0.5, "high_freq_factor": 2.0}
# The first of a family is quick, the others are slow.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "bert": [
        {
            "hidden_act": "gelu_new",
            "type_vocab_size": 3,
            "hidden_size": 30,
            "num_attention_heads": 5,
            "pad_token_id": 7,
        },
        {},
        {"hidden_act": "relu", "layer_norm_eps": 1e-5, "type_vocab_size": 1, "num_attention_heads": 1},
        {"hidden_act": "silu", "intermediate_size": 17, "num_hidden_layers": 1, "layer_norm_eps": 1e-3},
        {"tie_word_embeddings": False, "num_hidden_layers": 4, "classifier_dropout": 0.3},
    ],
    "roberta": [
        {"pad_token_id": 3, "type_vocab_size": 2, "hidden_act": "relu", "layer_norm_eps": 1e-5},
        {"type_vocab_size": 1, "hidden_act": "gelu_new", "classifier_dropout": 0.3},
        {"pad_token_id": 0, "tie_word_embeddings": False, "num_hidden_layers": 3},
    ],
    "xlm-roberta": [{"layer_norm_eps": 1e-5, "type_vocab_size": 1, "intermediate_size": 20}],
    "camembert": [{"layer_norm_eps": 1e-5, "type_vocab_size": 1}, {"pad_token_id": 4, "hidden_act": "relu"}],
    "data2vec-text": [{"layer_norm_eps": 1e-5, "hidden_act": "relu"}, {"pad_token_id": 4, "classifier_dropout": 0.3}],
    "roberta-prelayernorm": [
        {"layer_norm_eps": 1e-5, "type_vocab_size": 1, "num_hidden_layers": 3},
        {"pad_token_id": 3, "hidden_act": "relu", "tie_word_embeddings": False},
    ],
    "ernie": [
        {"use_task_id": True, "hidden_act": "relu", "pad_token_id": 7},
        {"use_task_id": True, "task_type_vocab_size": 5, "type_vocab_size": 4, "tie_word_embeddings": False},
        {"layer_norm_eps": 1e-5, "classifier_dropout": 0.3},
    ],
    "megatron-bert": [
        {"hidden_act": "gelu_new", "pad_token_id": 5, "num_hidden_layers": 3},
        {"layer_norm_eps": 1e-5, "type_vocab_size": 3, "tie_word_embeddings": False},
    ],
    "roformer": [
        {"embedding_size": 10, "hidden_act": "relu", "type_vocab_size": 3, "pad_token_id": 4},
        {"rotary_value": True, "layer_norm_eps": 1e-5, "num_attention_heads": 2},
        {"tie_word_embeddings": False, "embedding_size": 30, "num_hidden_layers": 3},
    ],
    "esm": [
        {"position_embedding_type": "rotary", "token_dropout": True, "layer_norm_eps": 1e-5},
        {"emb_layer_norm_before": True, "token_dropout": True, "pad_token_id": 2},
        {"position_embedding_type": "rotary", "num_hidden_layers": 3, "tie_word_embeddings": False, "rope_theta": 50.0},
    ],
    "rembert": [
        {"input_embedding_size": 10, "output_embedding_size": 14, "hidden_act": "relu", "pad_token_id": 5},
        {"input_embedding_size": 24, "output_embedding_size": 24, "type_vocab_size": 3, "num_hidden_layers": 3},
    ],
    "distilbert": [
        {"activation": "relu", "pad_token_id": 5, "qa_dropout": 0.3, "seq_classif_dropout": 0.4},
        {"sinusoidal_pos_embds": True, "num_hidden_layers": 3},
        {"tie_word_embeddings": False, "dropout": 0.2, "attention_dropout": 0.3},
    ],
    "albert": [
        {"embedding_size": 10, "num_hidden_groups": 2, "num_hidden_layers": 5, "hidden_act": "gelu"},
        {"embedding_size": 24, "num_hidden_groups": 1, "classifier_dropout_prob": 0.2, "type_vocab_size": 3},
        {"embedding_size": 30, "num_hidden_groups": 3, "num_hidden_layers": 3, "tie_word_embeddings": False},
        {"embedding_size": 10, "num_hidden_groups": 2, "num_hidden_layers": 3, "inner_group_num": 2},
    ],
    "electra": [
        {"embedding_size": 10, "hidden_act": "relu", "summary_activation": "tanh", "layer_norm_eps": 1e-5},
        {"embedding_size": 24, "type_vocab_size": 3, "summary_activation": "linear"},
        {"embedding_size": 30, "tie_word_embeddings": False, "classifier_dropout": 0.3, "hidden_act": "silu"},
    ],
    "mpnet": [
        {"hidden_act": "relu", "layer_norm_eps": 1e-5, "num_hidden_layers": 3},
        {"relative_attention_num_buckets": 40, "num_attention_heads": 2},
        {"tie_word_embeddings": False, "max_position_embeddings": 160},
    ],
    "big_bird": [
        {"attention_type": "original_full", "hidden_act": "relu", "sep_token_id": 9, "classifier_dropout": 0.3},
        {"rescale_embeddings": True, "type_vocab_size": 3, "layer_norm_eps": 1e-5, "num_random_blocks": 2},
        {"tie_word_embeddings": False, "block_size": 8, "pad_token_id": 5, "num_hidden_layers": 3},
        {"use_bias": False},
    ],
    "longformer": [
        {"attention_window": [4, 8], "layer_norm_eps": 1e-5, "type_vocab_size": 1},
        {"attention_window": 6, "pad_token_id": 0, "sep_token_id": 2, "hidden_act": "relu", "num_hidden_layers": 3},
        {"attention_window": 40, "tie_word_embeddings": False, "max_position_embeddings": 90},
    ],
    "xmod": [
        {"languages": ["de_DE"], "default_language": "de_DE", "layer_norm_eps": 1e-5, "type_vocab_size": 1},
        {"languages": ["a", "b", "c"], "default_language": "b", "pre_norm": True, "adapter_layer_norm": True},
        {
            "languages": ["a", "b"],
            "default_language": "a",
            "adapter_reuse_layer_norm": False,
            "ln_before_adapter": False,
        },
        {"languages": ["a", "b"], "default_language": "b", "adapter_reduction_factor": 5, "ln_before_adapter": False},
    ],
    "modernbert": [
        {"num_hidden_layers": 5, "local_attention": 8, "global_attn_every_n_layers": 2, "classifier_pooling": "mean"},
        {"local_attention": 4, "norm_bias": True, "norm_eps": 1e-3, "hidden_activation": "silu", "pad_token_id": 7},
        {
            "attention_bias": True,
            "mlp_bias": True,
            "classifier_bias": True,
            "classifier_activation": "relu",
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 500.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
            },
            "tie_word_embeddings": False,
            "num_hidden_layers": 4,
        },
    ],
    "deberta": [
        RELATIVE | {"position_biased_input": False, "pad_token_id": 3, "layer_norm_eps": 1e-5, "hidden_act": "relu"},
        RELATIVE | {"pos_att_type": ["c2p"], "max_relative_positions": 7, "type_vocab_size": 2, "embedding_size": 10},
        RELATIVE | {"pos_att_type": ["p2c"], "tie_word_embeddings": False, "cls_dropout": 0.3},
        {"pooler_hidden_act": "tanh", "num_hidden_layers": 3},
    ],
    "deberta-v2": [
        VERSION_3 | {"position_biased_input": False, "pad_token_id": 3, "hidden_act": "relu"},
        VERSION_3 | {"conv_kernel_size": 3, "conv_act": "gelu", "type_vocab_size": 2, "embedding_size": 10},
        RELATIVE | {"share_att_key": False, "conv_kernel_size": 5, "conv_groups": 4, "max_relative_positions": 7},
        RELATIVE | {"pos_att_type": ["c2p"], "tie_word_embeddings": False, "norm_rel_ebd": "layer_norm"},
        RELATIVE | {"pos_att_type": ["p2c"], "position_buckets": 5, "cls_dropout": 0.3},
        {"pooler_hidden_act": "tanh", "num_hidden_layers": 3},
    ],
    "nomic_bert": [
        {"hidden_act": "gelu", "layer_norm_eps": 1e-5, "type_vocab_size": 3, "pad_token_id": 7, "head_dim": 10},
        {"rope_parameters": _LINEAR, "classifier_dropout": 0.3, "num_hidden_layers": 3},
        {"rope_parameters": _DYNAMIC},
    ],
    "gte": [
        {"rope_parameters": _LLAMA3, "type_vocab_size": 2, "layer_norm_eps": 1e-5},
        {"type_vocab_size": 0, "hidden_act": "relu", "hidden_dropout_prob": 0.0},
        {"tie_word_embeddings": False, "num_hidden_layers": 3, "rope_parameters": _YARN},
    ],
    "jina_embeddings_v3": [
        {"rope_parameters": _YARN | {"mscale": 0.7, "mscale_all_dim": 0.4}, "hidden_act": "relu"},
        {"type_vocab_size": 2, "pad_token_id": 0, "classifier_dropout": 0.3},
        {"tie_word_embeddings": False, "rope_parameters": _YARN | {"truncate": False, "attention_factor": 0.9}},
    ],
    "eurobert": [
        {"num_key_value_heads": 2, "rms_norm_eps": 1e-3, "rope_parameters": _LLAMA3},
        {"num_key_value_heads": 1, "head_dim": 8, "classifier_pooling": "bos", "tie_word_embeddings": True},
        {"classifier_pooling": "mean", "attention_bias": True, "mlp_bias": True, "num_hidden_layers": 3},
    ],
}
HEADS: dict[str, list[str | None]] = {
    name: [*dict.fromkeys(family_named(name).classes.values()), "regression"] for name in SETTINGS
}
LABELS = {
    "classification": {"id2label": {0: "bad", 1: "so-so", 2: "good"}, "label2id": {"bad": 0, "so-so": 1, "good": 2}},
    "tagging": {"id2label": {0: "O", 1: "B", 2: "I", 3: "X"}, "label2id": {"O": 0, "B": 1, "I": 2, "X": 3}},
    "regression": {"num_labels": 1, "problem_type": "regression"},
}

QUICK = ("bert", "deberta-v2")  # families whose comparisons with every library and setting are in the fast suite


def quick(cases: Iterable[Any]) -> list[Any]:
    """Values of a parameter, families or tuples that begin with one: slow, except for those of QUICK."""
    named = [(case if isinstance(case, tuple) else (case,)) for case in cases]
    return [pytest.param(*one, marks=[] if one[0] in QUICK else pytest.mark.slow) for one in named]


DECODER = {"clm": {"is_decoder": True, "use_cache": False}}


def their_class(name, head):
    found = family_named(name).class_of(head)
    return getattr(transformers, found)


def checkpoint(name, head, seed=0, **settings):
    """A model of transformers whose every parameter, norms and biases too, is drawn at a spread of 0.25."""
    known = SMALL | SPECIAL.get(name, {}) | LABELS.get(head or "", {}) | DECODER.get(head or "", {}) | settings
    their_config = transformers.AutoConfig.for_model(name, **known)
    their_config._attn_implementation = "eager"
    model = their_class(name, head)(their_config).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if name == "roformer" and not parameter.requires_grad:
                continue  # sinusoids
            parameter.normal_(0, 0.25, generator=generator)
    return model


def padded_rows(config, head=None, seed=0, seq=20):
    """Ids [6, seq], mask and token types: full, right padding, left padding, a hole, a hole at column 0, one token.

    Column 0 is kept for heads that use its vector: theirs take it masked, too. What is dropped is padding in some rows
    and other tokens in others; one padding token is kept. For choices the six rows are two questions of three choices.
    """
    generator = torch.Generator().manual_seed(seed)
    pad = config.pad_token_id
    ids = torch.randint(1, config.vocab_size, (6, seq), generator=generator)
    ids = torch.where(ids == pad, pad + 1, ids)
    # ESM's counts masks in dropped columns, and divides by 0 for a text of masks.
    if config.model_type == "esm" and config.mask_token_id is not None:
        ids[4:] = torch.where(ids[4:] == config.mask_token_id, 4, ids[4:])
    mask = torch.ones_like(ids)
    mask[1, 13:] = 0
    mask[2, :6] = 0
    mask[3, 8:11] = 0
    mask[4, 0] = mask[4, 5] = 0
    mask[5, 1:] = 0
    if head not in ("mlm", "clm", "tagging", "rtd"):
        mask[:, 0] = 1
    for row in (1, 2, 3):
        ids[row][mask[row] == 0] = pad
    ids[0, 4] = pad
    rows = {"input_ids": ids, "attention_mask": mask}
    if config.model_type == "longformer":
        rows |= _of_longformer(config, ids, head)
    types = (
        getattr(config, "type_vocab_size", 0)
        if config.model_type not in ("distilbert", "mpnet", "modernbert", "esm")
        else 0
    )
    if types:
        rows["token_type_ids"] = torch.randint(0, types, ids.shape, generator=generator)
    if head == "choice":
        rows = {field: value.view(2, 3, seq) for field, value in rows.items()}
    return rows


def _of_longformer(config, ids, head):
    """Exactly three separators, which theirs requires in pairs of texts, or given global tokens."""
    if head in ("qa", "choice"):
        ids[ids == config.sep_token_id] += 3
        ids[:, [6, 7, 12]] = config.sep_token_id
    if head in (None, "mlm", "tagging"):
        marks = torch.zeros_like(ids)
        marks[0, 3] = marks[0, 11] = marks[1, :7] = marks[2, 7] = marks[3, 10] = marks[3, 14] = 1
        return {"global_attention_mask": marks}
    return {}


def labels_for(head, rows, name="bert", seed=0):
    generator = torch.Generator().manual_seed(seed)
    ids, mask = rows["input_ids"], rows["attention_mask"]
    chosen = (torch.rand(ids.shape, generator=generator) < 0.3) & (mask == 1)
    words = torch.where(chosen, ids, -100)
    words.view(-1, ids.shape[-1])[0, 0] = 5
    of_rows = torch.randint(0, 2, (len(ids),), generator=generator)
    starts, ends = torch.tensor([3, 0, 7, 11, 99, 0]), torch.tensor([5, 12, 0, 12, 4, 0])
    before = torch.zeros_like(mask)
    before[..., 1:] = mask[..., :-1]
    following = words.masked_fill(before == 0, -100)  # theirs predicts a label at a masked token too
    second = "sentence_order_label" if name == "albert" else "next_sentence_label"
    return {
        None: {},
        "mlm": {"labels": words},
        "clm": {"labels": following},
        "nsp": {"labels": of_rows},
        "rtd": {"labels": (torch.rand(ids.shape, generator=generator) < 0.3).long()},
        "pretraining": {"labels": words, second: of_rows},
        "classification": {"labels": of_rows + 1},
        "tagging": {"labels": torch.where(words == -100, words, words % 4)},
        "qa": {"start_positions": starts, "end_positions": ends},
        "choice": {"labels": of_rows},
        "regression": {"labels": torch.randn(len(ids), generator=generator)},
    }[head]
