"""Masked words: probabilities over the whole vocabulary, in the right text, at the right mask."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from inference.samples import tiny, tokenizer
from maskwright.api import open_mask_filler
from maskwright.core.errors import InputError, ModelFolderError
from maskwright.inference.fill_mask import MaskFiller
from maskwright.models.build import build

TEXTS = ["the [MASK] sat on the mat .", "dogs chase [MASK] in the [MASK] .", "[MASK]", "rain [MASK] [MASK] [MASK]"]


@pytest.fixture(scope="module", params=["mlm", "pretraining"])
def filler(request) -> MaskFiller:
    return MaskFiller(tiny(request.param))


def padded_probabilities(model, text):
    encoding = tokenizer()(text)
    with torch.inference_mode():
        out = model(input_ids=torch.tensor([encoding.ids]))
    logits = out.prediction_logits if "prediction_logits" in out else out.logits
    places = [index for index, id in enumerate(encoding.ids) if id == tokenizer().mask_id]
    return logits[0, places].double().softmax(-1).numpy()


def test_probabilities_are_those_of_the_padded_model_and_sum_to_one(filler):
    for text in TEXTS:
        found = filler.probabilities(text)
        assert found.shape == (text.count("[MASK]"), len(tokenizer()))
        assert np.allclose(found, padded_probabilities(filler.model, text), atol=1e-6)
        assert np.allclose(found.sum(axis=1), 1.0, atol=1e-9)


def test_texts_filled_together_are_filled_as_alone(filler, monkeypatch):
    monkeypatch.setattr("maskwright.inference.fill_mask.BLOCK_TEXTS", 3)
    together = filler.fill(TEXTS)
    for text, found in zip(TEXTS, together, strict=True):
        alone = filler.fill([text])[0]
        assert alone.filled == found.filled
        for mine, other in zip(found.masks, alone.masks, strict=True):
            assert [entry.token for entry in mine.candidates] == [entry.token for entry in other.candidates]


def test_named_words_get_their_rank_among_all(filler):
    whole = {entry.token_str: entry for entry in filler.fill(TEXTS[:1], top_k=None)[0].masks[0].candidates}
    named = filler.fill(TEXTS[:1], words=["cat", "the", "on"])[0].masks[0].candidates
    assert {entry.token_str for entry in named} == {"cat", "the", "on"}
    assert [entry.rank for entry in named] == sorted(entry.rank for entry in named)
    assert all(entry == whole[entry.token_str] for entry in named)
    assert [entry.rank for entry in whole.values()] == list(range(1, len(tokenizer()) + 1))
    assert named[:2] == filler.fill(TEXTS[:1], 2, ["cat", "the", "on"])[0].masks[0].candidates


def test_only_one_mask_is_filled_in_a_candidates_text_and_all_in_the_filled_one(filler):
    found = filler.fill([TEXTS[1]])[0]
    assert [TEXTS[1][mask.start : mask.end] for mask in found.masks] == ["[MASK]", "[MASK]"]
    assert all(entry.sequence.count("[MASK]") == 1 for mask in found.masks for entry in mask.candidates)
    assert "[MASK]" not in found.filled or any(mask.candidates[0].token_str == "[MASK]" for mask in found.masks)


@pytest.fixture(scope="module")
def wordpiece(tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "end", "hello", "stella", "##s", ".", "7", "我", "你"]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(words), **sizes, max_position_embeddings=40, initializer_range=0.5)
    transformers.BertForMaskedLM(config).eval().save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="fill-mask puts a space between a word and the token of a mask that touched it, unless the token begins ##",
    ours="the same, and nothing else of the text changes",
)
@pytest.mark.parametrize(
    "text", ["the[MASK] end", "hello[MASK]", "the [MASK]end", "the[MASK]end.", "[MASK].", "the [MASK]"]
)
def test_a_mask_that_touches_a_word_is_another_word(wordpiece, text):
    import transformers

    theirs = transformers.pipeline("fill-mask", model=str(wordpiece), top_k=14)(text)
    known = {row["token"]: row["sequence"] for row in theirs}
    mine = open_mask_filler(wordpiece, device="cpu", precision="fp32").fill([text], 14)[0]
    shown = {one.token_str: one for one in mine.masks[0].candidates}
    for token in ("stella", "hello", "7", "##s"):
        if token != "##s" or not text.startswith("[MASK]"):
            assert shown[token].sequence == known[shown[token].token]


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("The[MASK]  End", "stella", "The stella  End"),
        ("the[MASK]", ".", "the."),
        ("(the)[MASK]", "end", "(the)end"),
        ("the[MASK]end", "##s", "thes end"),
        ("我[MASK]你", "你", "我你你"),
        ("the[MASK]", "你", "the你"),
        ("the[MASK][MASK]", "end", "the end [MASK]"),
    ],
)
def test_only_spaces_between_words_are_added(wordpiece, text, word, expected):
    filler = open_mask_filler(wordpiece, device="cpu", precision="fp32")
    assert filler.fill([text], words=[word])[0].masks[0].candidates[0].sequence == expected


@pytest.mark.parametrize(
    ("texts", "options", "words"),
    [
        (["no mask here"], {}, r"Text 1 has no \[MASK\]"),
        (["[MASK]", "none"], {}, r"Text 2 has no \[MASK\]"),
        (["[MASK] " + "cat " * 100], {}, "the model accepts 48"),
        (["[MASK]"], {"top_k": 0}, "at least 1"),
        (["[MASK]"], {"words": ["gardenscats"]}, "not one token"),
        (["[MASK]"], {"words": ["漢"]}, "not one token"),
    ],
)
def test_what_cannot_be_filled_is_refused_in_words(filler, texts, options, words):
    with pytest.raises(InputError, match=words):
        filler.fill(texts, **options)


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    from tokenizers import ByteLevelBPETokenizer

    folder = tmp_path_factory.mktemp("roberta")
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    texts = ["hello world, the end of the world", "the end", "end", "a naïve café, the end", "hello end"] * 4
    own = ByteLevelBPETokenizer(add_prefix_space=False)
    own.train_from_iterator(texts, vocab_size=320, min_frequency=2, special_tokens=special)
    own.save_model(str(folder))
    tokenizer = transformers.RobertaTokenizerFast.from_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        vocab_size=len(tokenizer), **sizes, max_position_embeddings=40, pad_token_id=1, initializer_range=0.5
    )
    transformers.RobertaForMaskedLM(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="fill-mask decodes all ids: with several masks the sequence shows the special tokens, and with a WordPiece "
    "vocabulary it loses case and spaces of the text",
    ours="the same for byte-level and SentencePiece tokens; with WordPiece the text stays as it is",
)
@pytest.mark.parametrize(
    "text",
    [
        "the<mask> end",
        "the <mask> end",
        "hello <mask>  <mask> end",
        "<mask>",
        "a café , <mask>.",
        "the  end<mask><mask>",
    ],
)
def test_byte_level_texts_are_decoded_as_in_transformers(byte_level, text):
    import transformers

    pipeline = transformers.pipeline("fill-mask", model=str(byte_level), top_k=250)
    theirs = pipeline(text)
    mine = open_mask_filler(byte_level, device="cpu", precision="fp32").fill([text], 250)[0]
    best = pipeline.tokenizer(text)["input_ids"]
    for mask, one in zip(mine.masks, theirs if isinstance(theirs[0], list) else [theirs], strict=True):
        assert mask.candidates[0].token == one[0]["token"]
        best[best.index(pipeline.tokenizer.mask_token_id)] = one[0]["token"]
        known = {row["token"]: (row["token_str"], row["sequence"]) for row in one}
        for entry in mask.candidates:
            assert (entry.token_str, entry.sequence) == known[entry.token]
        assert text[mask.start : mask.end] == "<mask>"
    assert mine.filled == pipeline.tokenizer.decode(best, skip_special_tokens=True)


def test_a_left_to_right_model_is_refused_in_words(tmp_path):
    model = build(replace(tiny().config, attention="causal"), "clm")
    model.tokenizer = tokenizer()
    with pytest.raises(InputError, match="causal"):
        MaskFiller(model)
    model.save(tmp_path / "m")
    with pytest.raises(ModelFolderError, match="causal language model, but this requires"):
        open_mask_filler(str(tmp_path / "m"))
