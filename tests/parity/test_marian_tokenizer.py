"""Published Marian models compared with transformers: IDs of any text, beams, texts, and folders in both directions."""

import json
import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sentencepiece", reason="the library trains the models of these tests")

import maskwright as mw
from maskwright.hub.folders import load_model
from maskwright.inference.translate import TextTranslator, TranslationSettings
from maskwright.text.tokenizers.tokenizer import Tokenizer
from text.marian_samples import TARGETS, marian_files
from text.tokenizer_samples import CORPUS, any_text

TEXTS = [
    *CORPUS,
    *TARGETS,
    "",
    " ",
    "  two  spaces\tand a tab \n",
    "naïve CAFÉ, ﬁne ½ Ｆｕｌｌ 東京 ΩΩ größer",
    "x̂́ a̧̐ ﬁ́ 가각 e\u0301\u0302",
    "a </s> b</s>c <pad> <unk> <s>",
    ">>fr<< the old man",
    ">> fr << the old man >>fr<<",
    " >>fr<< the old man",
    ">>xx<<the",
    "▁under▁lined ▁",
    "\x00\u200b\ufeffodd\u2028lines",
    "aaaa ..... !!!!!!",
]


def marian_of(folder, **options):
    two = options.get("two", False)
    sources = marian_files(folder, **options)
    targets = json.loads((folder / "target_vocab.json").read_text(encoding="utf-8")) if two else sources
    sizes = {"decoder_vocab_size": len(targets), "share_encoder_decoder_embeddings": False} if two else {}
    pad = {"pad_token_id": sources["<pad>"], "decoder_start_token_id": targets["<pad>"]}
    config = transformers.MarianConfig(
        vocab_size=len(sources), d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=96, init_std=0.3,
        activation_function="swish", scale_embedding=True, eos_token_id=0, **pad, **sizes,
    )  # fmt: skip
    torch.manual_seed(3)
    model = transformers.MarianMTModel(config)
    with torch.no_grad():
        model.final_logits_bias.normal_(0, 1)
    model.save_pretrained(folder)
    return folder


KINDS = {
    "one embedding table": {},
    "several languages": {"codes": ("fr", "pt_br", "cmn_Hans")},
    "two tables": {"two": True},
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    return marian_of(tmp_path_factory.mktemp("marian") / "opus", **KINDS[request.param])


@pytest.fixture(scope="module")
def both(folder):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert type(theirs).__name__ == "MarianTokenizer"
    return Tokenizer.load(folder), Tokenizer.load(folder / "target.spm"), theirs


def check_equal(both, text):
    source, target, theirs = both
    for ours, model, name in ((source, theirs.spm_source, "text"), (target, theirs.spm_target, "text_target")):
        found, wanted = ours(text), theirs(**{name: text})["input_ids"]
        assert found.ids == ours.encode_ids([text])[0][0]
        assert found.ids == wanted or is_tied(theirs, model, text, found.tokens[:-1])
        assert len(found.offsets) == len(found.tokens) == len(found.ids)
        assert all(0 <= start <= end <= len(text) for start, end in found.offsets)
        assert [text for text in found.tokens if text == "</s>"] == ["</s>"] * (text.count("</s>") + 1)
    ids = theirs(text_target=text)["input_ids"]
    assert target.decode(ids) == theirs.decode(ids, skip_special_tokens=True)
    assert target.decode(ids, skip_special_tokens=False) == theirs.decode(ids)


def is_tied(theirs, model, text, found):
    """Whether two ways to cut a text are equally probable: they add their float32 numbers up in another order."""
    theirs.current_spm = model
    wanted = theirs.tokenize(text)
    theirs.current_spm = theirs.spm_source
    totals = [sum(model.get_score(model.piece_to_id(token)) for token in tokens) for tokens in (found, wanted)]
    return "".join(found) == "".join(wanted) and abs(totals[0] - totals[1]) < 1e-3


@pytest.mark.parametrize("text", TEXTS)
def test_both_sides_give_their_ids_and_texts(both, text):
    check_equal(both, text)


@settings(max_examples=200)
@given(text=any_text | st.lists(st.sampled_from([*TEXTS, "</s>", ">>fr<<", "a", "."]), max_size=4).map("".join))
def test_any_text_gives_their_ids(both, text):
    check_equal(both, text)


def test_pairs_roles_and_vocabulary_are_theirs(both):
    source, target, theirs = both
    assert source("the old", "man").ids == theirs("the old", "man")["input_ids"]
    assert source.backend.get_vocab() == theirs.get_vocab() and source.kind == target.kind == "unigram"
    for role in ("unk", "pad", "eos"):
        assert getattr(source, f"{role}_id") == getattr(theirs, f"{role}_token_id"), role
    assert list(source.language_codes) == sorted(code[2:-2] for code in theirs.supported_language_codes)


@pytest.mark.parametrize("beams", [1, 4])
def test_translations_are_theirs(folder, both, beams):
    theirs = transformers.MarianMTModel.from_pretrained(folder).eval()
    tokenizer = both[2]
    ours, report = load_model(folder)
    assert not report.new and not report.unused
    translating = TextTranslator(ours)
    texts = [text for text in (*CORPUS, *TARGETS) if len(tokenizer(text)["input_ids"]) < 90]
    texts = [f">>fr<< {text}" for text in texts] if ours.tokenizer.language_codes else texts
    never = [tokenizer.unk_token_id, tokenizer.pad_token_id]
    never += [ours.tokenizer.token_to_id(f">>{code}<<") for code in ours.tokenizer.language_codes]
    rows = tokenizer(texts, return_tensors="pt", padding=True)
    with torch.no_grad():
        own = ours(rows["input_ids"], rows["attention_mask"], decoder_input_ids=rows["input_ids"] % 50)
        wanted = theirs(**rows, decoder_input_ids=rows["input_ids"] % 50)
        written = theirs.generate(
            **rows, num_beams=beams, max_new_tokens=12, do_sample=False, bad_words_ids=[[one] for one in never]
        )
    assert float((own.logits - wanted.logits).abs().max()) < 1e-4
    found = translating.translate(texts, TranslationSettings(beams, max_new_tokens=12))
    assert [one[0].text for one in found] == tokenizer.batch_decode(written, skip_special_tokens=True)


def test_what_is_written_here_opens_there_and_here(folder, both, tmp_path):
    ours = mw.load(folder)
    ours.save(tmp_path / "new")
    for name in ("source.spm", "target.spm", "vocab.json"):
        assert (tmp_path / "new" / name).read_bytes() == (folder / name).read_bytes()
    again = (
        Tokenizer.load(tmp_path / "new"),
        Tokenizer.load(tmp_path / "new/target.spm"),
        transformers.AutoTokenizer.from_pretrained(tmp_path / "new"),
    )
    for text in TEXTS:
        check_equal(again, text)
        assert again[0](text).ids == both[0](text).ids and again[1](text).ids == both[1](text).ids
    model = mw.load(tmp_path / "new")
    assert model.target_tokenizer is not None
    assert not list((tmp_path / "new").rglob("tokenizer.json")) and not (tmp_path / "new/target_tokenizer").exists()
    (tmp_path / "twice").mkdir()
    model.save(tmp_path / "twice")
    for name in ("tokenizer_config.json", "special_tokens_map.json", "vocab.json", "model.safetensors"):
        assert (tmp_path / "twice" / name).read_bytes() == (tmp_path / "new" / name).read_bytes(), name


def test_new_tokens_are_kept_there_and_here(both, tmp_path):
    source = both[0]
    source.with_tokens(["<to-it>", "<to-fr>"]).save(tmp_path / "new")
    again, there = Tokenizer.load(tmp_path / "new"), transformers.AutoTokenizer.from_pretrained(tmp_path / "new")
    assert again.token_to_id("<to-it>") == source.vocab_size and again.vocab_size == source.vocab_size + 2
    for text in ("<to-it> the old man", "the <to-fr>oldest", "the old"):
        assert again(text).ids == source.with_tokens(["<to-it>", "<to-fr>"])(text).ids == there(text)["input_ids"]


def test_what_transformers_writes_again_opens_here(folder, tmp_path):
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    theirs.add_tokens(["<to-it>"], special_tokens=True) if not theirs.separate_vocabs else None
    theirs.save_pretrained(tmp_path)
    again = (Tokenizer.load(tmp_path), Tokenizer.load(tmp_path / "target.spm"), theirs)
    for text in (*TEXTS, "<to-it> the old"):
        check_equal(again, text)
