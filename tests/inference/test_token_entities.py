"""Entities by the strategies of the pipelines of transformers."""

import pytest

from maskwright import api
from maskwright.core.errors import InputError
from maskwright.inference.token_entities import STRATEGIES, prepare_entities
from studio.models import write, write_parts_of_speech, write_tagger

TEXTS = [
    "ada lovelace met charles babbage in london .",
    "An unbelievably long  sentence about Cats, dogs and mats!",
    "neurocomputing is the study",
    "1 ☃ x",
    "a",
]
BIOES = ["O", "B-PER", "I-PER", "E-PER", "S-PER"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taggers")
    return {
        "bio": write_tagger(folder / "bio"),
        "plain": write_parts_of_speech(folder / "plain"),
        "bioes": write(folder / "bioes", "tagging", {"task": "tagging"}, labels=BIOES),
        "crf": write(folder / "crf", "tagging-crf", {"task": "tagging", "crf": True}, labels=["O", "B-PER", "I-PER"]),
    }


def entities(folder, texts, *options):
    return prepare_entities(api.open_predictor(folder, device="cpu", precision="fp32"), texts, *options).run()


@pytest.mark.parametrize("name", ["bio", "plain"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_entities_are_those_of_the_pipeline(folders, name, strategy):
    transformers = pytest.importorskip("transformers")
    pipeline = transformers.pipeline(
        "token-classification", model=str(folders[name]), aggregation_strategy=strategy, ignore_labels=[]
    )
    found = entities(folders[name], TEXTS, strategy, None, ())
    for text, own in zip(TEXTS, found, strict=True):
        theirs = pipeline(text)
        keys = ["entity", "index"] if strategy == "none" else ["entity_group"]
        for one, other in zip(own, theirs, strict=True):
            assert [one[key] for key in (*keys, "start", "end")] == [other[key] for key in (*keys, "start", "end")]
            assert one["score"] == pytest.approx(float(other["score"]), abs=1e-5)
            assert one["word"] == text[one["start"] : one["end"]]


@pytest.mark.parametrize(
    ("strategy", "ignored"), [("simple", ["O"]), ("first", ["O", "PER"]), ("none", ["B-LOC"]), ("none", ["O", "I-PER"])]
)
def test_ignored_tags_are_left_out(folders, strategy, ignored):
    whole = entities(folders["bio"], TEXTS, strategy, None, ())
    found = entities(folders["bio"], TEXTS, strategy, None, ignored)
    key = "entity" if strategy == "none" else "entity_group"
    assert found == [[one for one in row if one[key] not in ignored] for row in whole] != whole


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="the token-classification pipeline knows B- and I- only: E- ends no entity but makes its own, and "
    "neighbors with S- become one",
    ours="BIOES and BILOU prefixes begin and end entities",
)
def test_bioes_entities_begin_and_end_by_their_prefixes(folders):
    from maskwright.inference.token_entities import _groups, _Unit
    from maskwright.tasks.tagging.task import Tagging

    tags = ["B-PER", "E-PER", "O", "S-PER", "S-PER"]
    units = [_Unit(2 * place, 2 * place + 1, place + 1, tag, 1.0) for place, tag in enumerate(tags)]
    found = _groups("a b c d e", units, Tagging(BIOES))
    assert [(one["entity_group"], one["word"]) for one in found] == [
        ("PER", "a b"), ("O", "c"), ("PER", "d"), ("PER", "e"),
    ]  # fmt: skip


def test_a_long_text_is_read_whole(folders):
    text = " ".join([TEXTS[0]] * 12)
    for stride in (None, 0, 20):
        (found,) = entities(folders["bio"], [text], "none", stride, ())
        assert found[-1]["end"] == len(text)
        assert [one["start"] for one in found] == sorted({one["start"] for one in found})


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("bio", ("best",), "aggregation strategy"),
        ("bio", ("simple", 1000), "stride is 1000"),
        ("bio", ("simple", -1), "stride is -1"),
        ("bio", ("simple", None, ("PERS",)), "PERS"),
        ("bio", ("simple", None, ("B-PER",)), "ignored type 'B-PER'"),
        ("bio", ("none", None, ("PER",)), "ignored tag 'PER'"),
        ("crf", ("simple",), "CRF"),
    ],
)
def test_what_cannot_be_grouped_is_refused(folders, name, options, words):
    with pytest.raises(InputError, match=words):
        entities(folders[name], TEXTS, *options)
