"""Reasons of an answer: what the forward passes say, and integrated gradients."""

from functools import partial

import numpy as np
import pytest
import torch

import maskwright as mw
from inference.samples import tiny
from looked_at import TEXT, translator
from maskwright.core.errors import ConfigError, InputError
from maskwright.inspect import attribute
from maskwright.inspect.attribution import attribute_of
from maskwright.inspect.compare import differences
from maskwright.inspect.outputs import output_of, predict
from maskwright.inspect.reading import read
from maskwright.inspect.reasons import explain, one_word_changes, words_of
from maskwright.text.segmenters import segment

LABELS = ["no", "maybe", "yes"]
SHORT = "the cat sat on the mat"
TAGS = ["O", "B-PER", "I-PER"]
SPAM = "Congratulations! You have won a free prize, call now to claim your cash."


OUTPUTS = {
    "classification": ({"labels": LABELS}, SHORT),
    "regression": ({}, SHORT),
    "tagging": ({"labels": TAGS}, SHORT),
    "qa": ({}, ("where sat the cat", SHORT)),
    "mlm": ({}, "the cat [MASK] on the mat"),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_every_kind_of_output_is_explained(kind):
    options, text = OUTPUTS[kind]
    output = output_of(read(tiny(kind, **options), text), start=4)
    found = explain(output)
    json = found.to_json()
    assert found.attribution.is_complete
    assert found.layers[-1][1] == pytest.approx(found.score, abs=1e-5)  # the last layer is the model
    assert found.answers[0] == pytest.approx((found.answer, found.score)) or kind == "regression"
    assert float(predict([output])[0].max()) == pytest.approx(found.attribution.at_text, abs=1e-4)
    assert {one["word"] for one in json["words"]} >= {"the", "cat", "on", "mat"}
    assert found.attention.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert json["removal"]["scores"]["occlusion"][0] == pytest.approx(found.score, rel=1e-5)
    assert "MASK" not in {one["word"] for one in json["words"]}


def test_the_words_of_a_tagger_are_those_of_its_segmenter():
    reading = read(tiny("tagging", labels=TAGS), "the cat, sat")
    output = output_of(reading, start=4, segment=partial(segment, segmenter="spaces"))
    assert [word.word for word in words_of(output)] == ["the", "cat,", "sat"]
    assert [word.word for word in words_of(output.again(reading))] == ["the", "cat,", "sat"]


def test_occlusion_is_the_score_of_the_text_with_a_masked_word():
    model = tiny("classification", labels=LABELS)
    found = explain(output_of(read(model, SHORT)))
    with torch.no_grad():
        ids = [read(model, text).source.ids for text in (SHORT, "the [MASK] sat on the mat")]
        scores = [model(input_ids=torch.tensor([one])).logits[0].double().softmax(-1) for one in ids]
    index = LABELS.index(found.answer)
    assert found.attributions["occlusion"][1] == pytest.approx(float((scores[0] - scores[1])[index]), abs=1e-6)
    everything = found.removal.scores["gradients"][-1]  # all words removed, in any order
    assert found.removal.random[:, -1] == pytest.approx(everything)


def test_the_words_that_the_built_in_model_depends_on_beat_random_ones():
    output = output_of(read(mw.load("english-spam"), SPAM))
    found = explain(output)
    best = {found.words[place].word for place in np.argsort(-found.attributions["occlusion"])[:2]}
    assert found.answer == "spam" and best == {"free", "won"}
    assert found.removal.beats("occlusion") >= 0.9 and found.removal.effect("occlusion") > 0.5
    assert found.layers[0][0][0][0] == "ham"  # the embeddings alone do not tell


@pytest.mark.slow
def test_one_other_word_changes_the_answer_and_the_text_says_so():
    model = mw.load("english-spam")
    found = one_word_changes(output_of(read(model, SPAM)), mw.load("english"))
    assert found.flips and found.num_tried > 100
    near = found.flips[0]
    assert near.similarity == max(one.similarity for one in found.flips)
    assert near.changed == SPAM[: near.start] + near.replacement + SPAM[near.end :]
    answer = explain(output_of(read(model, near.changed)))
    assert (answer.answer, answer.score) == (near.answer, pytest.approx(near.score, abs=1e-4)) and near.answer == "ham"


@pytest.mark.slow
def test_the_tagged_word_stays_and_the_tag_follows_it():
    model = mw.load("english-names")
    text = "I met Anna in Paris ."
    output = output_of(read(model, text), start=text.index("Paris"))
    assert explain(output).answer == "B-location"
    found = one_word_changes(output, mw.load("english"))
    assert "Paris" not in {one.word for one in (*found.flips, found.closest)}
    assert found.closest.before < explain(output).score


def test_differences_of_two_texts_are_those_of_their_answers():
    model = tiny("classification", labels=LABELS)
    first, second = (explain(output_of(read(model, text))) for text in (SHORT, "the dog sat on"))
    found = differences(first, second)
    assert {row["answer"] for row in found["answers"]} == set(LABELS)
    for row in found["answers"]:
        assert row["first"] == pytest.approx(first.score_of(row["answer"]))
        assert row["second"] == pytest.approx(second.score_of(row["answer"]))
    assert [row["word"] for row in found["words"]] == ["the", "cat / dog", "sat", "on", "the", "mat"]
    assert found["words"][-1]["second"] is None


def test_an_answer_is_whole_words_and_found_by_them():
    output = output_of(read(tiny("qa"), ("where sat the cat", SHORT)))
    found = explain(output)
    names = [name for name, _ in found.answers]
    assert len(set(names)) == len(names) and all(name in SHORT or name == "no answer" for name in names)
    assert {word for name in names for word in name.split()} <= {*SHORT.split(), "no", "answer"}
    assert output.name(output.index("sat on the")) == "sat on the" and not output.knows("at on")
    second = explain(output_of(read(tiny("qa"), ("what sat", SHORT))), answer="the cat")
    rows = {row["answer"]: row for row in differences(found, second)["answers"]}
    assert all(row["first"] is not None and row["second"] is not None for row in rows.values())


def test_what_cannot_be_explained_is_refused():
    with pytest.raises(InputError, match="more than 160"):
        explain(output_of(read(mw.load("english-spam"), "cat " * 200)))
    with pytest.raises(InputError, match="jointly"):
        output_of(read(tiny("tagging-crf", labels=TAGS), SHORT))
    with pytest.raises(InputError, match="no word at character"):
        output_of(read(tiny("tagging", labels=TAGS), SHORT), start=500)
    with pytest.raises(InputError, match="question and a context"):
        output_of(read(tiny("qa"), SHORT))


# -- Integrated gradients --------------------------------------------------------------------------------------------

MASKED = "the cat [MASK] on the mat"


@pytest.mark.parametrize("baseline", ["mask", "pad", "zero"])
@pytest.mark.parametrize("answer", [None, *LABELS])
def test_attributions_add_up_to_what_the_text_changes(baseline, answer):
    model = tiny("classification", labels=LABELS)
    found = attribute(model, TEXT, answer, baseline=baseline)
    assert found.is_complete
    assert found.attributions.sum() == pytest.approx(found.at_text - found.at_baseline, abs=0.02)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([found.tokens.ids])).logits[0]
    assert found.at_text == pytest.approx(float(logits[LABELS.index(found.answer)]), abs=1e-4)
    if answer is None:
        assert found.answer == LABELS[int(logits.argmax())]


@pytest.mark.parametrize("answer", [None, "sat"])
def test_a_prediction_for_a_mask_is_explained_too(answer):
    found = attribute(tiny("mlm"), MASKED, answer, baseline="pad")
    assert found.is_complete and (answer is None or found.answer == answer)
    assert found.attributions[found.tokens.subwords.index("[MASK]")] == 0  # it stays as it is


def test_more_points_of_the_way_bring_the_sum_nearer():
    reading = read(tiny("regression"), TEXT)
    gaps = [abs(attribute_of(reading, steps=steps).gap) for steps in (2, 128)]
    assert gaps[1] < 1e-3 and attribute_of(reading, steps=2).steps > 2


def test_special_tokens_and_a_text_that_is_the_baseline_get_nothing():
    found = attribute(tiny("classification", labels=LABELS), "[MASK] [MASK] cat")
    assert found.attributions[0] == found.attributions[-1] == 0  # [CLS] and [SEP] stay
    assert found.attributions[1] == found.attributions[2] == 0 and found.attributions[3] != 0


def test_attributions_are_those_of_a_plain_sum_of_gradients():
    """Another way to the same integral: a hundred points in the middle of equal steps, through the padded call."""
    model = tiny("classification", labels=LABELS)
    found = attribute(model, TEXT, "yes", baseline="zero")
    table = model.encoder.embeddings.word
    ids = torch.tensor([found.tokens.ids])
    end = table(ids[0]).detach()
    start = end * torch.tensor(found.tokens.is_special)[:, None]
    total = torch.zeros_like(end)
    for part in (np.arange(100) + 0.5) / 100:
        vectors = (start + part * (end - start)).requires_grad_()
        handle = table.register_forward_hook(lambda module, inputs, output, own=vectors: own)
        model(input_ids=ids).logits[0, 2].backward()
        handle.remove()
        total += vectors.grad / 100
    expected = (total * (end - start)).sum(dim=-1).detach().numpy()
    np.testing.assert_allclose(found.attributions, expected, atol=5e-3)


def test_the_model_is_left_as_it_was():
    model = tiny("classification", labels=LABELS)
    before = [(name, value.clone(), value.grad) for name, value in model.named_parameters()]
    attribute(model, TEXT)
    for (_, value, gradient), now in zip(before, model.parameters(), strict=True):
        assert torch.equal(value, now) and now.grad is gradient
    assert not model.encoder.embeddings.word._forward_hooks


def test_what_has_no_answer_to_explain_is_refused():
    with pytest.raises(InputError, match="Attributions require"):
        attribute(tiny(), TEXT)
    with pytest.raises(InputError, match="Attributions require"):
        attribute(translator(), TEXT)
    with pytest.raises(InputError, match="'perhaps' is not a label"):
        attribute(tiny("classification", labels=LABELS), TEXT, "perhaps")
    with pytest.raises(InputError, match="has 0 masks"):
        attribute(tiny("mlm"), TEXT)
    with pytest.raises(ConfigError, match="baseline"):
        attribute(tiny("regression"), TEXT, baseline="nothing")
