"""Configurations drawn at random for every family, and the measured page of what works with each family and head."""

import json
import random
from importlib.util import find_spec

import pytest
import torch

from hub.folder_tools import foreign
from maskwright.core.errors import ModelFolderError
from maskwright.hub.family import family_named
from maskwright.hub.folders import load_model, save_model
from maskwright.inference.ready import compute_in
from parity.checkpoints import HEADS, SETTINGS, checkpoint, padded_rows, their_class
from parity.comparing import compare_outputs
from parity.coverage import COLUMNS, NAMES, ROUGH, STORED, cases, measure

MOST = 5e-5
ACTS = ("gelu", "relu", "gelu_new", "silu")


def drawn(name, draw):
    """Sizes and settings that a family knows by the usual names; others are those of its own tests."""
    heads = draw.choice([1, 2, 4])
    sizes = {
        "num_attention_heads": heads,
        "hidden_size": heads * 2 * draw.randint(3, 9),
        "num_hidden_layers": draw.randint(2, 4),
        "intermediate_size": draw.randint(8, 60),
        "vocab_size": draw.randint(70, 140),
        "max_position_embeddings": draw.randint(30, 70),
    }
    known = set(family_named(name).names.values())
    others = {"hidden_act": draw.choice(ACTS), "layer_norm_eps": draw.choice([1e-12, 1e-5, 1e-3])}
    others |= {"attention_window": 6}
    kept = {key: value for key, value in draw.choice(SETTINGS[name]).items() if key != "num_key_value_heads"}
    return kept | sizes | {key: value for key, value in others.items() if key in known}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_drawn_configurations_open_and_save(name, seed, tmp_path):
    draw = random.Random(f"{name} {seed}")
    head = draw.choice(HEADS[name])
    theirs = checkpoint(name, head, seed, **drawn(name, draw))
    theirs.save_pretrained(tmp_path / "theirs")
    ours, report = load_model(tmp_path / "theirs")
    assert not report.new and not report.unused
    save_model(ours, tmp_path / "ours")
    again = their_class(name, head).from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    rows = padded_rows(theirs.config, head, seed)
    with torch.no_grad():
        expected = theirs(**rows)
        for model in (ours, again):
            found = compare_outputs(model(**rows), expected, rows, head)
            assert max(found.values()) < MOST, (head, theirs.config, found)


def test_the_page_has_no_difference_of_weight():
    stored = json.loads(STORED.read_text())
    for name, heads in stored.items():
        assert set(heads) == {NAMES.get(head, head) for head in HEADS[name]}, name
        for head, found in heads.items():
            assert tuple(found) == COLUMNS
            values = {key: value for key, value in found.items() if not isinstance(value, str)}
            assert all(value < (0.2 if key in ROUGH else MOST) for key, value in values.items()), (name, head, found)
            assert not any(isinstance(found[column], str) for column in ("open", "save", "pack", "engine")), found


@pytest.mark.slow
def test_the_page_is_what_is_measured():
    stored = json.loads(STORED.read_text())
    assert set(stored) == set(HEADS), "run PYTHONPATH=src:tests python -m parity.coverage NAME, then make reference"
    for name, head in random.Random(1).sample(cases(), 8):
        columns = tuple(column for column in COLUMNS if column != "OpenVINO" or find_spec("openvino"))
        found, written = measure(name, head, columns), stored[name][NAMES.get(head, head)]
        for column, value in found.items():
            assert isinstance(value, str) or value < (0.2 if column in ROUGH else MOST), (name, head, column, value)
            assert type(value) is type(written[column]), (name, head, column, value)


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="save_pretrained stores the rotary frequencies of an EsmModel under a name with a star, encoder.layer.*.",
    ours="They are read under this name, per layer or once, also as ESM-2 has them: rounded to float16.",
)
@pytest.mark.parametrize("layers", ["01", "*"])
@pytest.mark.parametrize("rounded", [True, False])
def test_stored_frequencies_of_esm_count(layers, rounded, tmp_path):
    settings = {"position_embedding_type": "rotary", "max_position_embeddings": 300, "rope_theta": 2.0}
    theirs = checkpoint("esm", "mlm", **settings)
    theirs.save_pretrained(tmp_path / "m")
    place = "esm.encoder.layer.{}.attention.self.rotary_embeddings.inv_freq"
    places = [place.format(layer) for layer in layers]

    def with_frequencies(stored):
        exact = theirs.esm.rotary_embeddings.inv_freq.detach()
        kept = {name: value for name, value in stored.items() if "inv_freq" not in name}
        return kept | {name: exact.half().float() if rounded else exact * 2 for name in places}

    folder = foreign(tmp_path / "m", with_frequencies)
    if not rounded:
        with pytest.raises(ModelFolderError, match="inv_freq holds other frequencies"):
            load_model(folder)
        return
    there = their_class("esm", "mlm").from_pretrained(folder, attn_implementation="eager").eval()
    ours, _ = load_model(folder)
    assert ours.config.rotary_float16
    save_model(ours, tmp_path / "ours")
    again = their_class("esm", "mlm").from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    rows = padded_rows(theirs.config, "mlm", seq=290)
    with torch.no_grad():
        expected = there(**rows)
        for model in (ours, again, load_model(tmp_path / "ours")[0]):
            assert max(compare_outputs(model(**rows), expected, rows, "mlm").values()) < MOST
        assert max(compare_outputs(theirs(**rows), expected, rows, "mlm").values()) > 1e-4


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="RoFormerForMultipleChoice scores the vector of the last column, which is padding in shorter rows.",
    ours="The class is rejected; a multiple-choice head on its encoder scores the first token.",
)
def test_multiple_choice_of_roformer_is_named(tmp_path):
    checkpoint("roformer", None).save_pretrained(tmp_path / "m")
    folder = foreign(tmp_path / "m", settings={"architectures": ["RoFormerForMultipleChoice"]})
    with pytest.raises(ModelFolderError, match="RoFormerForMultipleChoice, whose head is not supported"):
        load_model(folder)
    assert load_model(folder, head="choice")[0].head_name == "choice"


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="DebertaModel.from_pretrained in half precision keeps two biases in float32, and the first call fails.",
    ours="Weights load as float32, and the engine computes in bfloat16.",
)
def test_deberta_computes_in_bfloat16(tmp_path):
    theirs = checkpoint("deberta", None, **SETTINGS["deberta"][0])
    theirs.save_pretrained(tmp_path)
    rows = padded_rows(theirs.config)
    with pytest.raises(RuntimeError), torch.no_grad():
        type(theirs).from_pretrained(tmp_path, dtype=torch.bfloat16)(**rows)
    model, _ = load_model(tmp_path)
    compute_in(model, "bf16")
    with torch.inference_mode():
        found, expected = model(**rows).last_hidden_state, theirs(**rows).last_hidden_state
    kept = rows["attention_mask"].bool()
    assert (found - expected)[kept].norm() < 0.05 * expected[kept].norm()
