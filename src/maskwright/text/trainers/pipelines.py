"""The library's pipelines around our vocabularies: what happens to a text before and after the model.

All kinds share BERT's special tokens at ids 0 to 4 and its frame [CLS] A [SEP] B [SEP], so every kind can
feed an encoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.errors import ConfigError
from ..tokenizer_files import bert_backend, frame
from ..vocabulary import END_OF_WORD

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

SPECIAL_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOKEN_OF_ROLE = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
LIMIT_ALPHABET = 1000
# The library splits words into characters, so the end of a word is written as "<" after it, which the model
# completes to its own symbol "</w>". A "<" of the text is never the last character, so the two stay apart.
_END_MARK, _END_SUFFIX = END_OF_WORD[:1], END_OF_WORD[1:]
_AT_WORD_END = r"(?<=\S)(?=\s|\z)"
_PUNCTUATION = r"\p{P}$+<=>^`|~"  # BERT counts all ASCII signs as punctuation
_AT_PIECE_END = rf"(?<=[^\s{_PUNCTUATION}])(?=[\s{_PUNCTUATION}]|\z)|(?<=[{_PUNCTUATION}])"


class Trained(NamedTuple):
    """A trained tokenizer of the library, and its configuration with the facts of the training."""

    backend: Backend
    config: dict[str, Any]


def normalizer(lowercase: bool, isolate_cjk: bool = True) -> Any:
    """BERT's: control characters out, white space to spaces, CJK apart; with `lowercase` accents go too."""
    from tokenizers import normalizers

    return normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=isolate_cjk, strip_accents=None, lowercase=lowercase
    )


def punctuation_splitter() -> Any:
    """BERT's pre-tokenizer: words at white space, every punctuation mark a word of its own."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.BertPreTokenizer()


def wordpiece(vocab: list[str], kind: str, lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Longest match first over `vocab`."""
    bert = {"do_lower_case": lowercase, "strip_accents": None, "tokenize_chinese_chars": True}
    backend = bert_backend(numbered(vocab), bert)
    return Trained(backend, {"tokenizer_class": "BertTokenizer", **bert, **_facts(kind, lowercase, facts)})


def bpe(
    vocab: list[str],
    merges: list[tuple[str, str]],
    *,
    lowercase: bool,
    split_punctuation: bool,
    facts: dict[str, Any],
) -> Trained:
    """The learned merges in order, over characters and the end-of-word symbol."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    model = models.BPE(numbered(vocab), merges, unk_token="[UNK]", end_of_word_suffix=_END_SUFFIX)
    backend = Tokenizer(model)
    steps = [normalizer(lowercase, isolate_cjk=split_punctuation)]
    if split_punctuation:
        # The mark is punctuation itself, so a space behind it keeps the words apart.
        steps.append(normalizers.Replace(Regex(_AT_PIECE_END), f"{_END_MARK} "))
    else:
        steps.append(normalizers.Replace(Regex(_AT_WORD_END), _END_MARK))
    backend.normalizer = normalizers.Sequence(steps)
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.decoder = decoders.BPEDecoder(suffix=END_OF_WORD)
    frame(backend, TOKEN_OF_ROLE)
    return _fast(backend, "bpe", lowercase, facts)


def byte_bpe(model: Any, lowercase: bool, facts: dict[str, Any]) -> Trained:
    """GPT-2's: any text as bytes, words with the space before them."""
    from tokenizers import Tokenizer, decoders

    backend = Tokenizer(model)
    configure_byte_level(backend, lowercase)
    backend.decoder = decoders.ByteLevel()
    frame(backend, TOKEN_OF_ROLE, mask_takes_space=True)
    return _fast(backend, "byte-bpe", lowercase, facts)


def configure_byte_level(backend: Backend, lowercase: bool) -> None:
    """Give `backend` the byte-level pre-tokenizer, and lower-casing on request."""
    from tokenizers import normalizers, pre_tokenizers

    if lowercase:
        backend.normalizer = normalizers.Lowercase()
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)


def word(vocab: list[str], lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Whole words; any other word is [UNK]."""
    from tokenizers import Tokenizer, models

    backend = Tokenizer(models.WordLevel(numbered(vocab), unk_token="[UNK]"))
    backend.normalizer = normalizer(lowercase)
    backend.pre_tokenizer = punctuation_splitter()
    frame(backend, TOKEN_OF_ROLE)
    return _fast(backend, "word", lowercase, facts)


def char(vocab: list[str], lowercase: bool, facts: dict[str, Any]) -> Trained:
    """Single characters, spaces included."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    backend = Tokenizer(models.WordLevel(numbered(vocab), unk_token="[UNK]"))
    backend.normalizer = normalizer(lowercase, isolate_cjk=False)
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    frame(backend, TOKEN_OF_ROLE)
    return _fast(backend, "char", lowercase, facts)


def require_room(vocab_size: int, needed: int, what: str) -> None:
    """Raise ConfigError when `vocab_size` does not hold what every vocabulary of this kind must hold."""
    if vocab_size < needed:
        raise ConfigError(f"vocab_size={vocab_size} is too small: {what} take {needed}. Give at least {needed}.")


def numbered(vocab: list[str]) -> dict[str, int]:
    """Token to id."""
    return {token: id for id, token in enumerate(vocab)}


def _fast(backend: Backend, kind: str, lowercase: bool, facts: dict[str, Any]) -> Trained:
    generic = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
    }
    return Trained(backend, generic | _facts(kind, lowercase, facts))


def _facts(kind: str, lowercase: bool, facts: dict[str, Any]) -> dict[str, Any]:
    return {"maskwright": {"kind": kind, "lowercase": lowercase, **facts}}
