"""Equal to transformers' fast tokenizers in every field: MiniLM's vocabulary and trained ones, any text."""

import json
import lzma
from itertools import islice, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models

from maskwright.core.errors import InputError
from maskwright.text.tokenizers.tokenizer import Tokenizer
from minilm import minilm_folder
from text.tokenizer_samples import CORPUS, any_text, trained

transformers = pytest.importorskip("transformers")
VOCABULARIES = (
    *("minilm", "wordpiece-cased", "bpe", "byte-bpe"),
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("minilm-vocab.txt", "wordpiece", "wordpiece-score")),
)
TRUNCATIONS = ("longest_first", "only_first", "only_second")


@pytest.fixture(scope="module", params=VOCABULARIES)
def both(request, tmp_path_factory):
    if request.param.startswith("minilm"):
        folder = minilm_folder()
    else:
        folder = tmp_path_factory.mktemp("tokenizer") / "tok"
        if request.param == "wordpiece-cased":
            Tokenizer.train_from_iterator(CORPUS, "wordpiece", 400, lowercase=False).save(folder)
        else:
            trained(request.param).save(folder)
    ours = Tokenizer.load(folder / "vocab.txt" if request.param.endswith(".txt") else folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return ours, theirs


def call_theirs(theirs, text, pair, **options):
    """Return every window's fields, or None if transformers raises an error."""
    theirs.truncation_side = options.pop("truncation_side", "right")
    try:
        # In lists: a single call takes an empty second text for none.
        encoded = theirs(
            [text],
            None if pair is None else [pair],
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_token_type_ids=True,
            return_overflowing_tokens=True,
            **options,
        )
    except BaseException as error:  # the library panics, and that is no Exception
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return None
    fields = ("input_ids", "offset_mapping", "token_type_ids", "special_tokens_mask", "attention_mask")
    return [
        {name: encoded[name][window] for name in fields}
        | {name: getattr(encoded, name)(window) for name in ("tokens", "word_ids", "sequence_ids")}
        for window in range(len(encoded["input_ids"]))
    ]


def fields_of(encoding):
    names = {"input_ids": "ids", "offset_mapping": "offsets", "token_type_ids": "type_ids"}
    names |= {name: name for name in ("special_tokens_mask", "attention_mask", "tokens", "word_ids", "sequence_ids")}
    windows = [encoding, *encoding.overflowing]
    return [{theirs: getattr(window, own) for theirs, own in names.items()} for window in windows]


@settings(max_examples=80)
@given(text=any_text, pair=st.none() | any_text)
def test_any_text_gives_equal_fields(both, text, pair):
    ours, theirs = both
    assert fields_of(ours(text, pair)) == call_theirs(theirs, text, pair)


@settings(max_examples=120)
@given(
    text=any_text,
    pair=st.none() | any_text,
    max_length=st.integers(3, 24),
    truncation=st.sampled_from(TRUNCATIONS),
    stride=st.integers(0, 3),
    side=st.sampled_from(["right", "left"]),
    padding=st.sampled_from([False, "max_length"]),
)
def test_truncation_overflow_and_padding_give_equal_fields(
    both, text, pair, max_length, truncation, stride, side, padding
):
    ours, theirs = both
    options = {"max_length": max_length, "truncation": truncation, "stride": stride, "padding": padding}
    expected = call_theirs(theirs, text, pair, truncation_side=side, padding_side=side, **options)
    if expected is None:
        with pytest.raises(InputError):
            ours(text, pair, truncation_side=side, padding_side=side, **options)
        return
    encoding = ours(text, pair, truncation_side=side, padding_side=side, **options)
    assert fields_of(encoding) == expected
    whole = ours(text, pair)
    kept = sum(encoding.attention_mask) - encoding.template.num_special
    assert encoding.num_truncated == len(whole) - whole.template.num_special - kept


@pytest.mark.parametrize("padding", ["longest", "max_length"])
def test_batches_are_padded_to_equal_rectangles(both, padding):
    ours, theirs = both
    pairs = list(pairwise(CORPUS))
    theirs.truncation_side = "right"
    expected = theirs(pairs, padding=padding, max_length=60, truncation=True, return_token_type_ids=True)
    found = ours.encode_batch(pairs, 60, padding=padding)
    assert [encoding.ids for encoding in found] == expected["input_ids"]
    assert [encoding.attention_mask for encoding in found] == expected["attention_mask"]
    assert [encoding.type_ids for encoding in found] == expected["token_type_ids"]


@settings(max_examples=40)
@given(text=any_text)
def test_decoding_gives_equal_text(both, text):
    ours, theirs = both
    ids = ours(text).ids
    for skip in (True, False):
        expected = theirs.decode(ids, skip_special_tokens=skip, clean_up_tokenization_spaces=False)
        assert ours.decode(ids, skip_special_tokens=skip) == expected


@pytest.mark.parametrize(
    ("lower", "accents", "chinese"), list(product([True, False], [None, True, False], [True, False]))
)
def test_every_setting_of_a_published_vocabulary_is_followed(tmp_path, lower, accents, chinese):
    (tmp_path / "vocab.txt").write_bytes((minilm_folder() / "vocab.txt").read_bytes())
    config = {"do_lower_case": lower, "strip_accents": accents, "tokenize_chinese_chars": chinese}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": "BertTokenizer"}))
    ours = Tokenizer.load(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    ours.save(tmp_path / "again")
    again = Tokenizer.load(tmp_path / "again")
    theirs_again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again", local_files_only=True)
    for text in [*CORPUS, "Crème BRÛLÉE 東京タワー İstanbul ẞ Ωμέγα\u0301"]:
        expected = call_theirs(theirs, text, None)
        assert fields_of(ours(text)) == expected
        assert fields_of(again(text)) == expected == call_theirs(theirs_again, text, None)


@pytest.mark.parametrize(
    "said",
    [
        {"do_lower_case": False},
        {"do_lower_case": True, "strip_accents": False},
        {"do_lower_case": True, "tokenize_chinese_chars": False, "strip_accents": None},
    ],
)
def test_the_configuration_wins_over_the_tokenizer_file(tmp_path, said):
    (tmp_path / "tokenizer.json").write_bytes((minilm_folder() / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(said | {"tokenizer_class": "BertTokenizer"}))
    ours = Tokenizer.load(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    for text in [*CORPUS, "Crème BRÛLÉE 東京タワー"]:
        assert fields_of(ours(text)) == call_theirs(theirs, text, None)


def test_what_the_configuration_leaves_open_is_written_out_for_others(tmp_path):
    cased = Tokenizer.train_from_iterator(CORPUS, "wordpiece", 400, lowercase=False)
    (tmp_path / "tokenizer.json").write_bytes(cased.files()["tokenizer.json"])
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    Tokenizer.load(tmp_path).save(tmp_path / "again")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "again", local_files_only=True)
    for text in CORPUS:
        assert fields_of(cased(text)) == call_theirs(theirs, text, None)


@pytest.mark.parametrize(
    "lines",
    [
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"],
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a ", "a", "b\u3000", "c\x1c", "", "b", "##b\r"],
        ["[UNK]", "[CLS]", "[SEP]", "hello"],
    ],
)
def test_vocabulary_files_are_read_as_the_library_reads_them(tmp_path, lines):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\n".join(lines).encode())
    ours = Tokenizer.load(path)
    expected = models.WordPiece.read_file(str(path))
    found = ours.backend.get_vocab(with_added_tokens=False)
    assert found == expected
    theirs = transformers.BertTokenizer.from_pretrained(tmp_path, local_files_only=True)
    assert fields_of(ours("a b ab hello [MASK]")) == call_theirs(theirs, "a b ab hello [MASK]", None)
    assert [ours.pad_id, ours.mask_id, ours.cls_id] == [theirs.pad_token_id, theirs.mask_token_id, theirs.cls_token_id]


def on_real_text(test):
    """One vocabulary of each pipeline: the long tests."""
    chosen = ["minilm", "wordpiece", "wordpiece-cased", "bpe", "byte-bpe"]
    return pytest.mark.slow(pytest.mark.parametrize("both", chosen, indirect=True)(test))


def real_lines(data, count):
    """Lines of encyclopedia, tweets, translations and reviews, in equal shares."""
    names = (
        "pretraining_text/sample.txt.xz",
        "hate_speech/train.tsv",
        "tatoeba_en_fr/train.tsv.xz",
        "sst2/train.tsv",
        "pretraining_text/novels.txt.xz",
    )
    lines = []
    for name in names:
        open_file = lzma.open if name.endswith("xz") else open
        with open_file(data / name, "rt", encoding="utf-8") as handle:
            lines += [line.rstrip("\n") for line in islice(handle, count // len(names))]
    return lines


@on_real_text
def test_ten_thousand_real_lines_give_equal_fields(both, data_folder):
    ours, theirs = both
    theirs.truncation_side = "right"
    lines = real_lines(data_folder, 10_000)
    expected = theirs(lines, return_offsets_mapping=True)
    encodings = ours.encode_batch(lines)
    assert [encoding.ids for encoding in encodings] == expected["input_ids"]
    assert [encoding.offsets for encoding in encodings] == expected["offset_mapping"]
    assert ours.encode_ids(lines)[0] == expected["input_ids"]


@on_real_text
def test_five_thousand_real_pairs_are_cut_and_padded_to_equal_windows(both, data_folder):
    ours, theirs = both
    theirs.truncation_side = "right"
    lines = real_lines(data_folder, 10_000)
    pairs = list(zip(lines[::2], lines[1::2], strict=True))
    options = {"max_length": 96, "truncation": True, "stride": 8, "padding": "max_length"}
    expected = theirs(
        pairs, return_offsets_mapping=True, return_token_type_ids=True, return_overflowing_tokens=True, **options
    )
    windows = [
        window for encoding in ours.encode_batch(pairs, **options) for window in [encoding, *encoding.overflowing]
    ]
    assert len(windows) == len(expected["input_ids"]) > len(pairs)
    assert [window.ids for window in windows] == expected["input_ids"]
    assert [window.offsets for window in windows] == expected["offset_mapping"]
    assert [window.type_ids for window in windows] == expected["token_type_ids"]
    assert [window.attention_mask for window in windows] == expected["attention_mask"]


@pytest.mark.compatibility(
    "transformers 5.23.0",
    theirs="BertTokenizer(vocab_file=...), as in versions before 5, ignores the file: every word is unknown.",
    ours="Tokenizer.load takes the path of a vocab.txt; a file that it cannot use is an error.",
)
def test_a_vocabulary_file_is_read(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "film"]), encoding="utf-8")
    assert transformers.BertTokenizer(vocab_file=str(path)).tokenize("good film") == ["[UNK]", "[UNK]"]
    assert transformers.BertTokenizer(vocab=str(path)).tokenize("good film") == ["good", "film"]
    assert Tokenizer.load(path)("good film").tokens == ["[CLS]", "good", "film", "[SEP]"]
