"""The library's pipelines for our vocabularies: normalization, pre-tokenization, post-processing and decoding.

All kinds share BERT's special tokens at IDs 0 to 4 and its template [CLS] A [SEP] B [SEP], so every kind can be used
with an encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ....core.errors import ConfigError
from ..tokenizer_files import bert_backend, set_special_tokens
from ..vocabulary import END_OF_WORD

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKEN_OF_ROLE = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
LIMIT_ALPHABET = 1000
# The library splits words into characters, so the end of a word is written as "<" after it, which the model
# completes to the symbol "</w>". A "<" in the text is never the last character, so the two stay distinct.
_END_MARK, _END_SUFFIX = END_OF_WORD[:1], END_OF_WORD[1:]
_AT_WORD_END = r"(?<=\S)(?=\s|\z)"
_PUNCTUATION = r"\p{P}$+<=>^`|~"  # BERT treats all ASCII symbols as punctuation
_AT_PIECE_END = rf"(?<=[^\s{_PUNCTUATION}])(?=[\s{_PUNCTUATION}]|\z)|(?<=[{_PUNCTUATION}])"


class Trained(NamedTuple):
    """A trained library tokenizer, and its configuration with training metadata."""

    backend: Backend
    config: dict[str, Any]


def normalizer(lowercase: bool, isolate_cjk: bool = True) -> Any:
    """BERT's normalizer: removes control characters, isolates CJK; with `lowercase` also strips accents."""
    from tokenizers import normalizers

    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=isolate_cjk, strip_accents=None, lowercase=lowercase
    )


def punctuation_splitter() -> Any:
    """BERT's pre-tokenizer: splits at whitespace, and makes every punctuation mark a separate word."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.BertPreTokenizer()


def wordpiece(vocab: list[str], kind: str, lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Greedy longest-match-first tokenization with `vocab`."""
    bert = {"do_lower_case": lowercase, "strip_accents": None, "tokenize_chinese_chars": True}
    backend = bert_backend(vocab_ids(vocab), bert)
    return Trained(backend, {"tokenizer_class": "BertTokenizer", **bert, **_facts(kind, lowercase, facts)})


def bpe(
    vocab: list[str],
    merges: list[tuple[str, str]],
    *,
    lowercase: bool,
    split_punctuation: bool,
    facts: dict[str, Any],
) -> Trained:
    """Applies learned merges in order, over characters and the end-of-word symbol."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    model = models.BPE(vocab_ids(vocab), merges, unk_token="[UNK]", end_of_word_suffix=_END_SUFFIX)
    backend = Tokenizer(model)
    steps = [normalizer(lowercase, isolate_cjk=split_punctuation)]
    if split_punctuation:
        # The mark is punctuation itself, so a space after it keeps the words separate.
        steps.append(normalizers.Replace(Regex(_AT_PIECE_END), f"{_END_MARK} "))
    else:
        steps.append(normalizers.Replace(Regex(_AT_WORD_END), _END_MARK))
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    set_special_tokens(backend, TOKEN_OF_ROLE)
    return library_tokenizer(backend, "bpe", lowercase, facts)


def byte_bpe(model: Any, lowercase: bool, facts: dict[str, Any]) -> Trained:
    """GPT-2's tokenizer: text as bytes, words with the preceding space."""
    from tokenizers import Tokenizer, decoders

    backend = Tokenizer(model)
    configure_byte_level(backend, lowercase)
    backend.decoder = decoders.ByteLevel()
    set_special_tokens(backend, TOKEN_OF_ROLE, mask_takes_space=True)
    return library_tokenizer(backend, "byte-bpe", lowercase, facts)


def configure_byte_level(backend: Backend, lowercase: bool) -> None:
    """Add the byte-level pre-tokenizer to `backend`, and lowercasing on request."""
    from tokenizers import normalizers, pre_tokenizers

    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)


def word(vocab: list[str], lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Whole words; any other word is [UNK]."""
    from tokenizers import Tokenizer, models

    backend = Tokenizer(models.WordLevel(vocab_ids(vocab), unk_token="[UNK]"))
    backend.normalizer = normalizer(lowercase)
    backend.pre_tokenizer = punctuation_splitter()
    set_special_tokens(backend, TOKEN_OF_ROLE)
    return library_tokenizer(backend, "word", lowercase, facts)


def char(vocab: list[str], lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Single characters, including spaces."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    backend = Tokenizer(models.WordLevel(vocab_ids(vocab), unk_token="[UNK]"))
    backend.normalizer = normalizer(lowercase, isolate_cjk=False)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    set_special_tokens(backend, TOKEN_OF_ROLE)
    return library_tokenizer(backend, "char", lowercase, facts)


def require_vocab_size(vocab_size: int, needed: int, what: str) -> None:
    """Raise ConfigError if `vocab_size` is smaller than the tokens that every vocabulary of this kind needs."""
    if vocab_size < needed:
        raise ConfigError(f"vocab_size={vocab_size} is too small: {what} take {needed}. Use at least {needed}.")


def vocab_ids(vocab: list[str]) -> dict[str, int]:
    """Returns token -> ID."""
    return {token: id for id, token in enumerate(vocab)}


def library_tokenizer(backend: Backend, kind: str, lowercase: bool, facts: dict[str, Any]) -> Trained:
    """A library tokenizer of a kind with its training metadata."""
    generic = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    return Trained(backend, generic | _facts(kind, lowercase, facts))


def _facts(kind: str, lowercase: bool, facts: dict[str, Any]) -> dict[str, Any]:
    return {"maskwright": {"kind": kind, "lowercase": lowercase, **facts}}
