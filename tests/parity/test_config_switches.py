"""No setting of transformers' configurations is ignored: it gives the same outputs here, or is rejected.

Every field of a family's configuration class, and every second name of one, is changed in config.json alone, for the
same weights. Where both sides load the folder their outputs must be equal.
"""

import dataclasses
import json
from typing import Any

import pytest
import torch

from maskwright.core.errors import ModelFolderError
from maskwright.hub.folders import load_model, save_model
from parity.checkpoints import RELATIVE, VERSION_3, checkpoint, their_class

SIDES = {
    "d_model": 24,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 44,
    "decoder_ffn_dim": 44,
}
# The heads with most settings; sizes for those that `checkpoint` does not know.
PLAIN = (
    *("bert", "roberta", "xlm-roberta", "camembert", "data2vec-text", "roberta-prelayernorm", "ernie", "megatron-bert"),
    *("distilbert", "mpnet", "big_bird", "xmod", "modernbert", "nomic_bert", "gte", "jina_embeddings_v3", "eurobert"),
)
FAMILIES: list[tuple[str, str, dict[str, Any]]] = [
    *((name, "mlm", {}) for name in PLAIN),
    ("roformer", "mlm", {"embedding_size": 10}),
    ("esm", "mlm", {"token_dropout": True}),
    ("rembert", "mlm", {"input_embedding_size": 10, "output_embedding_size": 14}),
    ("albert", "mlm", {"embedding_size": 10}),
    ("electra", "choice", {"embedding_size": 10}),
    ("electra", "mlm", {"embedding_size": 10}),
    ("longformer", "mlm", {"attention_window": 4}),
    ("modernbert", "classification", {}),
    ("deberta", "mlm", RELATIVE),
    ("deberta", "classification", RELATIVE),
    ("deberta-v2", "mlm", VERSION_3),
    ("deberta-v2", "choice", VERSION_3 | {"conv_kernel_size": 3}),
    ("eurobert", "classification", {}),
    ("gpt2", "clm", {"pad_token_id": 5, "bos_token_id": 1, "eos_token_id": 2}),
    ("bart", "seq2seq", SIDES),
    ("marian", "seq2seq", SIDES | {"pad_token_id": 82, "decoder_start_token_id": 81}),
]
# Not of the network: which outputs are returned and how, and the class of the folder. No number depends on them.
NOT_OF_THE_NETWORK = {
    "architectures",
    "chunk_size_feed_forward",
    "dtype",
    "id2label",
    "is_encoder_decoder",
    "label2id",
    "output_attentions",
    "output_hidden_states",
    "problem_type",
    "return_dict",
    "transformers_version",
    "use_cache",
}
_ROTARY = {
    "rope_theta": 50.0,
    "rope_scaling": {"type": "linear", "factor": 2.0},
    "rope_parameters": {"rope_type": "llama3", "rope_theta": 30.0, "factor": 2.0, "low_freq_factor": 0.1}
    | {"high_freq_factor": 0.9},
    "original_max_position_embeddings": 7,
    "partial_rotary_factor": 0.5,
}
# Settings that the classes read without a field.
FURTHER: dict[str, dict[str, Any]] = {
    "electra": {"summary_proj_to_labels": True},
    "modernbert": {
        "sliding_window": 1,
        "global_rope_theta": 100.0,
        "global_attn_every_n_layers": 1,
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "layer_types": ["full_attention", "full_attention"],
    },
    **dict.fromkeys(("nomic_bert", "gte", "jina_embeddings_v3", "eurobert"), _ROTARY),
    "marian": {"normalize_before": True, "add_final_layer_norm": True, "normalize_embedding": True},
}
# What they load and we reject with a sentence (docs/results/checkpoints.md).
HEADS_OF_SIDES = {"encoder_attention_heads", "decoder_attention_heads", "num_attention_heads"}  # differ
REFUSED: dict[tuple[str, str], set[str]] = {
    **{(name, "mlm"): {"is_decoder"} for name in (*PLAIN[:8], "roformer", "rembert", "xmod", "big_bird")},
    ("esm", "mlm"): {"is_decoder", "is_folding_model"},
    ("electra", "choice"): {"is_decoder", "summary_type", "summary_use_proj"},
    ("electra", "mlm"): {"is_decoder"},
    ("mpnet", "mlm"): {"pad_token_id"},
    ("modernbert", "mlm"): {"decoder_bias", "rope_scaling"},
    ("modernbert", "classification"): {"rope_scaling"},
    **{
        case: {"relative_attention"}  # true alone, or false beside pos_att_type
        for case in (("deberta", "mlm"), ("deberta", "classification"), ("deberta-v2", "mlm"), ("deberta-v2", "choice"))
    },
    **{(name, "mlm"): {"partial_rotary_factor"} for name in PLAIN[-4:]},
    ("eurobert", "classification"): {"partial_rotary_factor"},
    ("bart", "seq2seq"): {*HEADS_OF_SIDES, "pad_token_id"},
    ("marian", "seq2seq"): {*HEADS_OF_SIDES, "normalize_before", "add_final_layer_norm", "normalize_embedding"},
}


def other_value(name, value):
    """A value that is not the one given; None where none is known."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return 2 if "head" in name else 1 if "layers" in name else value + 1
    if isinstance(value, float):
        return 0.3
    others = dict.fromkeys(("gelu", "gelu_new", "silu"), "tanh") | dict.fromkeys(("first", "cls"), "mean")
    others |= {"late": "bos", "block_sparse": "original_full"}
    return others.get(value) if isinstance(value, str) else None


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="`partial_rotary_factor` of Nomic BERT, GTE, Jina Embeddings v3 and EuroBERT is saved, but does not change "
    "a number; with a `rope_type` other than the default the first call fails.",
    ours="A folder with a factor other than 1 is rejected, and the setting named.",
)
@pytest.mark.parametrize("name", ["nomic_bert", "gte", "jina_embeddings_v3", "eurobert"])
@pytest.mark.parametrize("is_nested", [False, True])
def test_rotation_of_a_part_of_each_head_is_rejected(name, is_nested, tmp_path):
    rows = {"input_ids": torch.arange(6, 15)[None]}
    theirs = checkpoint(name, "mlm")
    theirs.save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    values, part = json.loads(path.read_text()), {"partial_rotary_factor": 0.5}
    values |= {"rope_parameters": values["rope_parameters"] | part} if is_nested else part
    path.write_text(json.dumps(values))
    other = their_class(name, "mlm").from_pretrained(tmp_path, attn_implementation="eager").eval()
    assert torch.equal(logits_of(other, rows), logits_of(theirs, rows))
    with pytest.raises(ModelFolderError, match="partial_rotary_factor"):
        load_model(tmp_path)


def logits_of(model, rows):
    with torch.no_grad():
        return model(**rows).logits


@pytest.mark.parametrize("name, head, sizes", FAMILIES, ids=[f"{name}-{head}" for name, head, _ in FAMILIES])
def test_no_setting_is_ignored(name, head, sizes, tmp_path):
    theirs = checkpoint(name, head, **sizes)
    theirs.save_pretrained(tmp_path)
    ids = torch.randint(6, 60, (2, 3, 11) if head == "choice" else (3, 11), generator=torch.Generator().manual_seed(0))
    rows = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    rows |= {"decoder_input_ids": ids[:, :7]} if head == "seq2seq" else {}
    fields = {field.name for field in dataclasses.fields(theirs.config) if not field.name.startswith("_")}
    names = (fields | set(theirs.config.attribute_map)) - NOT_OF_THE_NETWORK
    changed = {key: other_value(key, getattr(theirs.config, key)) for key in sorted(names)} | FURTHER.get(name, {})
    path, stored = tmp_path / "config.json", json.loads((tmp_path / "config.json").read_text())
    compared, refused = 0, set()
    for key, value in changed.items():
        if value is None:
            continue
        path.write_text(json.dumps(stored | {key: value}))
        try:
            other, facts = their_class(name, head).from_pretrained(
                tmp_path, attn_implementation="eager", output_loading_info=True
            )
            expected = logits_of(other.eval(), rows)
        except Exception:
            continue
        if facts["missing_keys"] or facts["mismatched_keys"]:
            continue  # drawn at random
        try:
            ours, _ = load_model(tmp_path)
        except ModelFolderError:
            refused.add(key)
            continue
        found = logits_of(ours, rows)
        assert found.shape == expected.shape and float((found - expected).abs().max()) < 1e-4, (key, value)
        compared += 1
    assert compared > 5 and refused == REFUSED.get((name, head), set())


@pytest.mark.parametrize(
    "name, head, sizes, setting",
    [
        ("distilbert", "mlm", {}, "num_attention_heads"),
        ("gpt2", "clm", {"pad_token_id": 5, "bos_token_id": 1, "eos_token_id": 2}, "num_attention_heads"),
        ("gpt2", "clm", {"pad_token_id": 5, "bos_token_id": 1, "eos_token_id": 2}, "num_hidden_layers"),
    ],
)
def test_a_second_name_counts_and_is_saved_under_the_first(name, head, sizes, setting, tmp_path):
    theirs = checkpoint(name, head, **sizes)
    theirs.save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {setting: 1}))
    ours, _ = load_model(tmp_path / "theirs")
    assert getattr(ours.config, setting) == 1
    save_model(ours, tmp_path / "ours")
    again = their_class(name, head).from_pretrained(tmp_path / "ours").eval()
    assert getattr(again.config, setting) == 1
    rows = {"input_ids": torch.arange(6, 15)[None]}
    assert torch.allclose(logits_of(ours, rows), logits_of(again, rows), atol=1e-4)
