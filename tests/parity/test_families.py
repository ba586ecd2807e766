"""The same numbers as transformers, both ways, for every family and head.

Outputs, every layer, every attention map, the loss, and the gradient of every parameter.
"""

import json

import pytest
import torch
import transformers

from maskwright.hub.family import family_named
from maskwright.hub.folders import load_model, save_model
from maskwright.models.build import build
from maskwright.models.presets import PRESETS, preset
from maskwright.models.sizes import parameter_count
from parity.checkpoints import (
    HEADS,
    RELATIVE,
    SETTINGS,
    VERSION_3,
    checkpoint,
    labels_for,
    padded_rows,
    quick,
    their_class,
)
from parity.comparing import VIEWS, compare, compare_outputs, largest, their_outputs
from parity.exact import exact

FLOAT32, FLOAT64 = 5e-5, 1e-10
AUTO = {
    None: transformers.AutoModel,
    "mlm": transformers.AutoModelForMaskedLM,
    "pretraining": transformers.AutoModelForPreTraining,
    "rtd": transformers.AutoModelForPreTraining,
    "clm": transformers.AutoModelForCausalLM,
    "nsp": transformers.AutoModelForNextSentencePrediction,
    "classification": transformers.AutoModelForSequenceClassification,
    "tagging": transformers.AutoModelForTokenClassification,
    "qa": transformers.AutoModelForQuestionAnswering,
    "choice": transformers.AutoModelForMultipleChoice,
}


def cases(quick, slow=()):
    for name, heads in HEADS.items():
        for head in heads:
            for number, settings in enumerate(SETTINGS[name]):
                if quick == (number == 0):
                    marks = [pytest.mark.slow] if head in slow else []
                    yield pytest.param(name, head, settings, id=f"{name}-{head}-{number}", marks=marks)


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
    cls = AUTO.get(head, their_class(name, head))
    again, facts = cls.from_pretrained(folder / "ours", output_loading_info=True, attn_implementation="eager")
    assert type(again) is their_class(name, head)
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


@pytest.mark.parametrize(
    "name, head, settings", list(cases(True, {*AUTO, "regression"} - {None, "mlm", "classification"}))
)
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


# -- What heads do beyond one family ---------------------------------------------------------------------------------

TOLERANCE = 5e-5
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


@pytest.mark.slow
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


@pytest.mark.parametrize("name", quick(HEADS))
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
