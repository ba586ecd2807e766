"""What heads do beyond one family: auto classes, problem types, labels that do not count, a real checkpoint."""

from __future__ import annotations

import json

import pytest
import torch
import transformers

from maskwright.hub.family import family_named
from maskwright.hub.folders import load_model
from maskwright.models.build import build
from maskwright.models.presets import PRESETS, preset
from maskwright.models.sizes import parameter_count
from parity.checkpoints import HEADS, checkpoint, labels_for, padded_rows, their_class
from parity.comparing import VIEWS, compare_outputs, largest

TOLERANCE = 5e-5
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


@pytest.mark.parametrize("name", HEADS)
def test_no_head_of_transformers_is_left_out(name):
    """Every class of a family that transformers exports, except for causal language models.

    RoFormer's multiple choice scores the vector of the last column, padding included; ESMFold is no encoder.
    """
    family = family_named(name)
    stem = their_class(name, None).__name__.removesuffix("Model")
    found = {one for one in dir(transformers) if one.startswith(f"{stem}For")}
    assert found - family.classes.keys() <= {f"{stem}ForCausalLM", "RoFormerForMultipleChoice", "EsmForProteinFolding"}
    assert family.classes.keys() <= found | {f"{stem}Model", f"{stem}LMHeadModel"}


@pytest.mark.parametrize("name", [name for name, config in PRESETS.items() if config.family != "maskwright"])
def test_presets_are_the_published_networks(name):
    """As many parameters as transformers' model of the configuration that we would write; frozen sinusoids are none."""
    config = preset(name)
    family = family_named(config.family)
    assert family.describes(config, None)
    theirs = transformers.AutoConfig.for_model(config.family, **family.to_theirs(config))
    with torch.device("meta"):
        model = their_class(config.family, None)(theirs)
    assert sum(value.numel() for value in model.parameters() if value.requires_grad) == parameter_count(config)


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("problem_type", [None, "single_label_classification", "multi_label_classification"])
def test_losses_of_every_problem_type(name, problem_type, tmp_path):
    theirs = checkpoint(name, "classification", problem_type=problem_type)
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    assert ours.problem_type == problem_type
    rows = padded_rows(theirs.config)
    several = torch.randint(0, 2, (6, 3), generator=torch.Generator().manual_seed(0)).float()
    is_single = problem_type == "single_label_classification" or (problem_type is None and name.startswith("deberta"))
    labels = torch.tensor([0, 2, 1, -100, 2, 0]) if is_single else several
    assert largest(ours(**rows, labels=labels).loss, theirs(**rows, labels=labels).loss) < TOLERANCE


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="DeBERTa's classifiers with labels [texts, classes] and without problem_type take the cross-entropy of a "
    "softmax, as for one class per text; the other families take it for several classes per text, each by itself.",
    ours="Labels of several classes per text mean the same loss for every family: one binary cross-entropy per class.",
)
@pytest.mark.parametrize("name", ["deberta", "deberta-v2"])
def test_several_labels_of_a_text_do_not_compete(name, tmp_path):
    theirs = checkpoint(name, "classification")
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config)
    labels = torch.ones(6, 3)
    found, expected = ours(**rows, labels=labels), theirs(**rows, labels=labels)
    each = torch.nn.functional.binary_cross_entropy_with_logits(expected.logits, labels)
    assert largest(found.loss, each) < TOLERANCE < largest(expected.loss, each)
    theirs.config.problem_type = "multi_label_classification"
    assert largest(theirs(**rows, labels=labels).loss, each) < TOLERANCE


@pytest.mark.parametrize("says_so", [True, False])
@pytest.mark.parametrize("name", ["deberta", "deberta-v2"])
def test_both_word_heads_of_deberta_are_read(name, says_so, tmp_path):
    """The published files have the newer one, and their config.json, without `legacy`, means the older one."""
    theirs = checkpoint(name, "mlm", legacy=False, pad_token_id=0)
    theirs.save_pretrained(tmp_path / "theirs")
    path = tmp_path / "theirs/config.json"
    config = {key: value for key, value in json.loads(path.read_text()).items() if says_so or key != "legacy"}
    path.write_text(json.dumps(config))
    ours, report = load_model(tmp_path / "theirs")
    assert not report.new and not report.unused
    ours.save(tmp_path / "ours")
    again = their_class(name, "mlm").from_pretrained(tmp_path / "ours")
    rows = padded_rows(theirs.config, "mlm")
    for other in (theirs, again):
        assert largest(ours(**rows).logits, other(**rows).logits, rows["attention_mask"]) < TOLERANCE


@pytest.mark.parametrize(
    "name, head", [(name, head) for name in HEADS for head in ("qa", "choice", "tagging") if head in HEADS[name]]
)
def test_without_a_mask_everything_counts(name, head, tmp_path):
    theirs = checkpoint(name, head)
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config, head)
    labels = labels_for(head, rows, name)
    del rows["attention_mask"]
    a, b = ours(**rows, **labels), theirs(**rows, **labels)
    assert largest(a.loss, b.loss) < TOLERANCE


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="Tokens that the attention mask drops are computed: after left padding a sequence head uses the vector of "
    "the masked column 0, and the loss of an answer span is a softmax over all columns, padding included.",
    ours="They are not computed: their vectors are 0, a sequence head uses the first unmasked token, and start and end "
    "logits of masked columns are the lowest number, so that the loss of a span does not count them.",
)
def test_masked_columns_take_part_in_nothing(tmp_path):
    theirs = checkpoint("bert", "qa")
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config, "qa")
    dropped = rows["attention_mask"] == 0
    found, expected = ours(**rows), theirs(**rows)
    assert largest(found.start_logits, expected.start_logits, ~dropped) < TOLERANCE
    assert bool((found.start_logits[dropped] < -1e30).all())
    assert bool((found.last_hidden_state[dropped] == 0).all()) and expected.start_logits[dropped].abs().min() > 0
    columns = {"start_positions": torch.full((6,), 15), "end_positions": torch.zeros(6, dtype=torch.int64)}
    assert bool(ours(**rows, **columns).loss < 100)  # a position of a masked column is ignored
    left = {"input_ids": torch.tensor([[0, 0, 7, 8]]), "attention_mask": torch.tensor([[0, 0, 1, 1]])}
    pooled = build(ours.config, "classification").eval()
    alone = pooled(torch.tensor([[7, 8]]), position_ids=torch.tensor([[2, 3]])).logits
    torch.testing.assert_close(pooled(**left).logits, alone)


def test_the_real_minilm():
    from minilm import minilm_folder

    folder = minilm_folder()
    texts = ["The man went to the store.", "He bought a gallon of milk, and left."]
    ours, report = load_model(folder)
    assert len(report.loaded) == 103 and not report.new and not report.unused
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    rows = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        found = compare_outputs(ours(**rows, **VIEWS), theirs(**rows, **VIEWS), rows, None)
    assert max(found.values()) < TOLERANCE, found
    batch = ours.tokenizer.batch(texts)
    first, second = ours.encode(batch).hidden.split(batch.lengths)
    padded = ours(**rows).last_hidden_state
    torch.testing.assert_close(first, padded[0, : len(first)], rtol=0, atol=1e-5)
    torch.testing.assert_close(second, padded[1, : len(second)], rtol=0, atol=1e-5)
