"""The same numbers as transformers, both ways, for every head: outputs, layers, attentions, loss, gradients."""

from __future__ import annotations

import pytest
import torch

from maskwright.hub import keys
from maskwright.hub.folders import load_model, save_model
from parity.bert_checkpoints import CLASSES, SETTINGS, bert, labels_for, padded_rows

HEADS = list(CLASSES)
TOLERANCE = 5e-5
TOKEN_FIELDS = ("last_hidden_state", "prediction_logits")


def largest(ours, theirs, mask=None):
    """The largest difference, on kept tokens alone if a mask is given."""
    assert ours.shape == theirs.shape
    difference = (ours - theirs).abs()
    if mask is not None:
        difference = difference[mask.bool()]
    return float(difference.detach().max())


def compare_outputs(ours, theirs, rows, head):
    """Assert that every field of transformers' output is there and equal."""
    mask = rows["attention_mask"]
    for name, value in theirs.items():
        if isinstance(value, tuple) and not value:
            continue  # cross attentions of an encoder
        if name == "hidden_states":
            assert len(ours.hidden_states) == len(value)
            assert max(largest(a, b, mask) for a, b in zip(ours.hidden_states, value, strict=True)) < TOLERANCE
        elif name == "attentions":
            assert len(ours.attentions) == len(value)
            for a, b in zip(ours.attentions, value, strict=True):
                assert largest(a.transpose(1, 2), b.transpose(1, 2), mask) < TOLERANCE  # rows of kept queries
        else:
            of_tokens = name in TOKEN_FIELDS or (name == "logits" and head == "mlm")
            assert largest(ours[name], value, mask if of_tokens else None) < TOLERANCE, name


def cases():
    """Every setting under the head that has most, two settings under each other head; the rest is slow."""
    for i, head in enumerate(HEADS):
        for j, settings in enumerate(SETTINGS):
            quick = head == "pretraining" or j in (i % 5, (i + 2) % 5)
            name = f"{head}-{' '.join(f'{key}={value}' for key, value in settings.items()) or 'plain'}"
            yield pytest.param(head, settings, id=name, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize("head, settings", list(cases()))
def test_what_transformers_wrote_gives_its_numbers_here(head, settings, tmp_path):
    theirs = bert(head, **settings)
    theirs.save_pretrained(tmp_path)
    ours, report = load_model(tmp_path)
    assert ours.head_name == head and not report.new and not report.unused
    rows = padded_rows(theirs.config)
    labels = labels_for(head, rows)
    views = {"output_hidden_states": True, "output_attentions": True}
    their_output = theirs(**rows, **labels, **views)
    our_output = ours(**rows, **labels, **views)
    compare_outputs(our_output, their_output, rows, head)

    def total(output):
        kept = rows["attention_mask"].bool()
        return output.loss if head else output.last_hidden_state[kept].sin().sum() + output.pooler_output.sum()

    total(their_output).backward()
    total(our_output).backward()
    compare_gradients(ours, theirs, head)


def compare_gradients(ours, theirs, head):
    """Every parameter's gradient against transformers', under its name there."""
    expected = {name: value.grad for name, value in theirs.named_parameters()}
    seen = set()
    for name, value in ours.named_parameters():
        names = [keys.with_prefix(key, head) for key in keys.their_names(name, head)]
        names = [keys.DECODER_BIAS if n == keys.MLM_BIAS and keys.DECODER_BIAS in expected else n for n in names]
        gradient = torch.cat([expected[one] for one in names])
        assert largest(value.grad, gradient) < TOLERANCE * max(1.0, float(gradient.abs().max())), name
        seen |= set(names)
    unseen = {name for name, value in expected.items() if name not in seen and value is not None and value.any()}
    assert not unseen


@pytest.mark.parametrize("head, settings", list(cases()))
def test_what_is_written_here_opens_in_transformers_with_the_same_numbers(head, settings, tmp_path):
    theirs = bert(head, **settings)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, _ = load_model(tmp_path / "theirs")
    with torch.no_grad():  # other weights, so that nothing can come from the first folder
        for parameter in ours.parameters():
            parameter.mul_(0.8).add_(0.01)
    save_model(ours, tmp_path / "ours")
    again, facts = CLASSES[head].from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not facts["missing_keys"] and not facts["unexpected_keys"] and not facts["mismatched_keys"]
    assert again.config.id2label == theirs.config.id2label
    assert again.config.hidden_act == theirs.config.hidden_act
    assert again.config.pad_token_id == theirs.config.pad_token_id
    rows = padded_rows(again.config)
    labels = labels_for(head, rows)
    again.eval()
    with torch.no_grad():
        views = {"output_hidden_states": True, "output_attentions": True}
        compare_outputs(ours(**rows, **labels, **views), again(**rows, **labels, **views), rows, head)


def test_auto_classes_find_what_is_written_here(tmp_path):
    import transformers

    from maskwright.models.config import ModelConfig
    from maskwright.models.model import build

    config = ModelConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8)
    for head, auto in (
        (None, transformers.AutoModel),
        ("mlm", transformers.AutoModelForMaskedLM),
        ("pretraining", transformers.AutoModelForPreTraining),
        ("nsp", transformers.AutoModelForNextSentencePrediction),
        ("classification", transformers.AutoModelForSequenceClassification),
    ):
        build(config, head).save(tmp_path / str(head))
        model, facts = auto.from_pretrained(tmp_path / str(head), output_loading_info=True)
        assert type(model) is CLASSES[head]
        assert not facts["missing_keys"] and not facts["unexpected_keys"]


@pytest.mark.parametrize("problem_type", [None, "single_label_classification", "multi_label_classification"])
def test_losses_of_every_problem_type(problem_type, tmp_path):
    theirs = bert("classification", problem_type=problem_type)
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    assert ours.problem_type == problem_type
    rows = padded_rows(theirs.config)
    several = torch.randint(0, 2, (6, 3), generator=torch.Generator().manual_seed(0)).float()
    labels = torch.tensor([0, 2, 1, -100, 2, 0]) if problem_type == "single_label_classification" else several
    assert largest(ours(**rows, labels=labels).loss, theirs(**rows, labels=labels).loss) < TOLERANCE


def test_regression_to_several_numbers(tmp_path):
    theirs = bert("regression", num_labels=3)
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config)
    targets = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    assert ours.head_name == "regression" and ours.num_labels == 3
    assert largest(ours(**rows, labels=targets).loss, theirs(**rows, labels=targets).loss) < TOLERANCE


def test_given_positions_are_used(tmp_path):
    theirs = bert(None)
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config)
    positions = (torch.arange(20) * 7 + 3) % 37
    for given in (positions[None], positions.expand(6, 20)):
        theirs_out = theirs(**rows, position_ids=given).last_hidden_state
        assert (
            largest(ours(**rows, position_ids=given).last_hidden_state, theirs_out, rows["attention_mask"]) < TOLERANCE
        )


def test_float64_agrees_to_ten_decimals(tmp_path):
    theirs = bert("pretraining")
    theirs.save_pretrained(tmp_path)
    ours, _ = load_model(tmp_path)
    rows = padded_rows(theirs.config)
    a, b = ours.double()(**rows), theirs.double()(**rows)
    assert largest(a.prediction_logits, b.prediction_logits, rows["attention_mask"]) < 1e-10
    assert largest(a.seq_relationship_logits, b.seq_relationship_logits) < 1e-10


@pytest.mark.parametrize("damage", ["swap", "bias", "table"])
def test_the_comparison_can_fail(damage, tmp_path, monkeypatch):
    """A key table that swaps query and key, or a lost bias, must show: else the tests above prove nothing."""
    theirs = bert(None)
    theirs.save_pretrained(tmp_path)
    if damage == "swap":
        rows = dict(keys._ENCODER)
        for part in [name for name in rows if "qkv" in name]:
            query, key, value = rows[part]
            rows[part] = [key, query, value]
        monkeypatch.setattr(keys, "_ENCODER", rows)
        keys._rules.cache_clear()
    ours, _ = load_model(tmp_path)
    keys._rules.cache_clear()
    with torch.no_grad():
        if damage == "bias":
            ours.encoder.layers[1].ffn.down.bias.zero_()
        if damage == "table":
            ours.encoder.embeddings.token_type.weight[0] = 0
    rows = padded_rows(theirs.config)
    difference = largest(ours(**rows).last_hidden_state, theirs(**rows).last_hidden_state, rows["attention_mask"])
    assert difference > 1e-3


def test_the_real_minilm():
    import transformers

    from minilm import minilm_folder

    folder = minilm_folder()
    texts = ["The man went to the store.", "He bought a gallon of milk, and left."]
    ours, report = load_model(folder)
    assert len(report.loaded) == 103 and not report.new and not report.unused
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    tokenizer = transformers.BertTokenizerFast.from_pretrained(folder)
    rows = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        views = {"output_hidden_states": True, "output_attentions": True}
        compare_outputs(ours(**rows, **views), theirs(**rows, **views), rows, None)
    batch = ours.tokenizer.batch(texts)
    first, second = ours.encode(batch).hidden.split(batch.lengths)
    padded = ours(**rows).last_hidden_state
    torch.testing.assert_close(first, padded[0, : len(first)], rtol=0, atol=1e-5)
    torch.testing.assert_close(second, padded[1, : len(second)], rtol=0, atol=1e-5)
