"""The same numbers as transformers, both ways, for every family and head.

Outputs, every layer, every attention map, the loss, and the gradient of every parameter.
"""

from __future__ import annotations

import pytest
import torch

from maskwright.hub.folders import load_model, save_model
from parity.checkpoints import HEADS, RELATIVE, SETTINGS, VERSION_3, checkpoint, labels_for, padded_rows, their_class
from parity.comparing import VIEWS, compare, compare_outputs, largest, their_outputs
from parity.exact import exact

FLOAT32, FLOAT64 = 5e-5, 1e-10


def cases(quick: bool):
    """Every head with the first settings of its family, or with all others."""
    for name, heads in HEADS.items():
        for head in heads:
            for number, settings in enumerate(SETTINGS[name]):
                if quick == (number == 0):
                    yield pytest.param(name, head, settings, id=f"{name}-{head}-{number}")


def loads_with_the_same_numbers(name, head, settings, folder, dtype=torch.float32, tolerance=FLOAT32):
    theirs = checkpoint(name, head, **settings)
    theirs.save_pretrained(folder)
    ours, report = load_model(folder)
    assert ours.head_name == head and ours.config.family == name
    assert not report.new and not report.unused, report
    rows = padded_rows(theirs.config, head)
    labels = labels_for(head, rows, name)
    if head == "regression":
        labels = {"labels": labels["labels"].to(dtype)}
    found = compare(ours.to(dtype), theirs.to(dtype), name, head, rows, labels)
    if head == "rtd":  # their labels are float32, and so is what they make of them
        assert found.pop("loss") < max(tolerance, 1e-6)
    assert max(found.values()) < tolerance, max(found.items(), key=lambda item: item[1])


def opens_there_with_the_same_numbers(name, head, settings, folder):
    theirs = checkpoint(name, head, **settings)
    theirs.save_pretrained(folder / "theirs")
    ours, _ = load_model(folder / "theirs")
    with torch.no_grad():  # other weights, so that nothing can come from the first folder
        for parameter in ours.parameters():
            parameter.mul_(0.8).add_(0.01)
    save_model(ours, folder / "ours")
    again, facts = their_class(name, head).from_pretrained(
        folder / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not facts["missing_keys"] and not facts["unexpected_keys"] and not facts["mismatched_keys"], facts
    for setting in settings.keys() - {"sinusoidal_pos_embds"}:
        assert getattr(again.config, setting) == getattr(theirs.config, setting), setting
    if head in ("classification", "tagging"):
        assert again.config.id2label == theirs.config.id2label
    rows = padded_rows(again.config, head)
    labels = labels_for(head, rows, name)
    again.eval()
    with torch.no_grad():
        found = compare_outputs(ours(**rows, **labels, **VIEWS), their_outputs(again, rows, labels, head), rows, head)
    assert max(found.values()) < FLOAT32, found


@pytest.mark.parametrize("name, head, settings", list(cases(quick=True)))
def test_what_transformers_wrote_gives_its_numbers_here(name, head, settings, tmp_path):
    loads_with_the_same_numbers(name, head, settings, tmp_path)


@pytest.mark.parametrize("name, head, settings", list(cases(quick=True)))
def test_what_is_written_here_opens_in_transformers_with_the_same_numbers(name, head, settings, tmp_path):
    opens_there_with_the_same_numbers(name, head, settings, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name, head, settings", list(cases(quick=False)))
def test_other_settings_agree_too(name, head, settings, tmp_path):
    loads_with_the_same_numbers(name, head, settings, tmp_path / "one")
    opens_there_with_the_same_numbers(name, head, settings, tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize("name, head, settings", [*cases(quick=True), *cases(quick=False)])
def test_float64_agrees_to_ten_decimals(name, head, settings, tmp_path):
    with exact(name):
        loads_with_the_same_numbers(name, head, settings, tmp_path, torch.float64, FLOAT64)


@pytest.mark.parametrize("name", [name for name in HEADS if name != "roformer"])  # theirs takes none
def test_given_positions_are_used(name, tmp_path):
    theirs = checkpoint(name, None, **SETTINGS[name][0])
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config)
    positions = (torch.arange(20) * 7 + 3) % 37
    for given in (positions[None], positions.expand(6, 20)):
        expected = theirs(**rows, position_ids=given).last_hidden_state
        found = ours(**rows, position_ids=given).last_hidden_state
        assert largest(found, expected, rows["attention_mask"]) < FLOAT32


@pytest.mark.parametrize(
    "name, settings",
    [
        ("mpnet", {}),
        ("deberta", RELATIVE | {"max_relative_positions": 150}),
        ("deberta-v2", RELATIVE | {"position_buckets": 32, "max_relative_positions": 150}),
        ("deberta-v2", VERSION_3 | {"position_buckets": 6, "max_relative_positions": 20}),
    ],
)
def test_far_apart_tokens_share_buckets(name, settings, tmp_path):
    """Buckets at every distance up to beyond the last edge."""
    theirs = checkpoint(name, None, max_position_embeddings=200, **settings)
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config, seq=190)
    found = compare_outputs(ours(**rows, **VIEWS), theirs(**rows, **VIEWS), rows, None)
    assert max(found.values()) < FLOAT32, found


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="Longformer pads texts to a multiple of the largest window of its layers; where another window does not "
    "divide it, most lengths fail.",
    ours="Windows of any even sizes per layer work for texts of every length.",
)
def test_windows_that_do_not_divide_each_other(tmp_path):
    theirs = checkpoint("longformer", None, attention_window=[4, 6])
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config, seq=16)
    with pytest.raises(AssertionError, match="multiple of 4"):
        theirs(**rows)
    padded = {key: torch.nn.functional.pad(value, (0, 8), value=key == "input_ids") for key, value in rows.items()}
    expected = theirs(**padded).last_hidden_state[:, :16]
    assert largest(ours(**rows).last_hidden_state, expected, rows["attention_mask"]) < FLOAT32
