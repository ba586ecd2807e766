"""The comparison can fail: a damaged key table, a lost bias or a wrong switch must show, or parity proves nothing."""

from dataclasses import replace

import pytest
import torch

from maskwright.core.errors import ModelFolderError
from maskwright.hub.folders import load_model
from parity.checkpoints import HEADS, SETTINGS, checkpoint, labels_for, padded_rows, quick
from parity.comparing import VIEWS, compare_outputs, their_outputs

FAMILIES = list(SETTINGS)


def difference(name, folder, change=lambda model: None):
    """The largest difference after `change`, or what loading raised."""
    theirs = checkpoint(name, None, **SETTINGS[name][0])
    theirs.save_pretrained(folder)
    try:
        ours, _ = load_model(folder)
    except ModelFolderError:  # tensors of other shapes
        return float("inf")
    with torch.no_grad():
        change(ours)
        rows = padded_rows(theirs.config)
        return max(compare_outputs(ours(**rows, **VIEWS), theirs(**rows, **VIEWS), rows, None).values())


@pytest.mark.parametrize("name", quick(FAMILIES))
def test_every_lost_parameter_shows(name, tmp_path):
    """Zero any one parameter, a bias or a table as well: some output moves."""
    theirs = checkpoint(name, None, **SETTINGS[name][0])
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config)
    with torch.no_grad():
        expected = theirs(**rows, **VIEWS)
        for parameter_name, parameter in ours.named_parameters():
            kept = parameter.clone()
            parameter.zero_()
            found = max(compare_outputs(ours(**rows, **VIEWS), expected, rows, None).values())
            parameter.copy_(kept)
            assert found > 1e-3 or parameter_name.startswith("encoder.contacts."), parameter_name  # in no output


@pytest.mark.slow
@pytest.mark.parametrize("name, head", [(name, head) for name in FAMILIES for head in HEADS[name] if head])
def test_every_lost_parameter_of_a_head_shows(name, head, tmp_path):
    theirs = checkpoint(name, head, **SETTINGS[name][0])
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config, head)
    given = rows | labels_for(head, rows, name)
    parts = ("head.", "encoder.pooler.") if ours.head.needs_pooler else ("head.",)
    with torch.no_grad():
        expected = their_outputs(theirs, rows, labels_for(head, rows, name), head)
        for parameter_name, parameter in ours.named_parameters():
            if parameter_name.startswith(parts):
                kept = parameter.clone()
                parameter.zero_()
                found = max(compare_outputs(ours(**given, **VIEWS), expected, rows, head).values())
                parameter.copy_(kept)
                assert found > 1e-3, parameter_name


@pytest.mark.parametrize(
    "name, switch",
    [
        ("roberta", {"positions": "absolute"}),
        ("albert", {"num_hidden_groups": 1}),
        ("mpnet", {"hidden_act": "gelu"}),
        ("electra", {"layer_norm_eps": 0.1}),
        ("distilbert", {"hidden_act": "gelu"}),
        ("big_bird", {"hidden_act": "gelu"}),
        ("ernie", {"task_type_vocab_size": 0}),
        ("roformer", {"rotary_pairs": "halves"}),
        ("esm", {"token_dropout_id": None}),
        ("longformer", {"window_sizes": (8, 8)}),
        ("longformer", {"window_sizes": (4, 4)}),
        ("xmod", {"adapter_norm_first": False}),
        ("modernbert", {"rotary_theta": 10_000.0}),
        ("modernbert", {"rotary_local_theta": 160_000.0}),
        ("modernbert", {"window_size": 10}),
        ("modernbert", {"full_attention_every": 3}),
        ("modernbert", {"hidden_act": "relu"}),
        ("nomic_bert", {"rotary_theta": 10_000.0}),
        ("gte", {"rotary_scaling": None}),
        ("gte", {"rotary_scaling": {"rope_type": "linear", "factor": 4.0}}),
        ("jina_embeddings_v3", {"rotary_scaling": None}),
        ("eurobert", {"norm_kind": "layer", "norm_bias": False}),
        ("eurobert", {"hidden_act": "relu"}),
    ],
)
def test_a_wrong_switch_shows(name, switch, tmp_path):
    def rebuild(ours):
        from maskwright.models.model import Model

        other = Model(replace(ours.config, **switch)).eval()
        held = dict(other.named_parameters())
        for key, value in ours.named_parameters():
            if key in held:
                held[key].copy_(value[: len(held[key])])
        ours.encoder, ours.config = other.encoder, other.config

    assert difference(name, tmp_path, rebuild) > 1e-3
