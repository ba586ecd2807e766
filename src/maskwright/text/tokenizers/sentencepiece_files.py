"""Reads `spiece.model` and `sentencepiece.bpe.model`: a SentencePiece vocabulary as the tokenizer of its family.

The pipelines of ALBERT (Lan et al. 2020), XLM-R (Conneau et al. 2020) and BigBird (Zaheer et al. 2020) differ, and
follow their published fast tokenizers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import storage
from ...core.errors import CorruptFileError, ModelFolderError
from .sentencepiece_model import CONTROL, USER_DEFINED, Pieces, read_pieces

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend
    from tokenizers.normalizers import Normalizer

NAMES = ("spiece.model", "sentencepiece.bpe.model")
_CLASSES = {"albert": "AlbertTokenizer", "xlm-roberta": "XLMRobertaTokenizer", "big_bird": "BigBirdTokenizer"}
_CLASS_OF_FILE = dict(zip(NAMES, ("AlbertTokenizer", "XLMRobertaTokenizer"), strict=True))
# Special tokens by role, in the order in which tokens missing from the vocabulary get their IDs.
_ALBERT_TOKENS = {
    "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]", "mask": "[MASK]"
}  # fmt: skip
_ROBERTA_TOKENS = {
    "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"
}  # fmt: skip


def sentencepiece_backend(path: Path, config: dict[str, Any], named: Mapping[str, str | None]) -> Backend:
    """Load the tokenizer of a SentencePiece model; `config` is updated with the class and the special tokens.

    config: content of tokenizer_config.json; named: special tokens by role (those of bert, "bos" and "eos") from it,
    None for the family's defaults. The family is determined by the class in it, else by the model type in a config.json
    next to it, else by the file name. Raises CorruptFileError, and ModelFolderError for another family.
    """
    kind = str(config.get("tokenizer_class") or _class_beside(path)).removesuffix("Fast")
    if kind not in _FAMILIES:
        raise ModelFolderError(f"{path}: SentencePiece is supported for {', '.join(_FAMILIES)}, but not for {kind}.")
    make, usual = _FAMILIES[kind]
    tokens = {role: named.get(role) or token for role, token in usual.items()}
    pieces = read_pieces(path)
    try:
        backend = make(pieces, tokens, config)
    except Exception as error:  # the library raises bare Exception for an unusable vocabulary
        raise CorruptFileError(f"{path} is not a usable vocabulary ({error}): restore it from its source.") from None
    config["tokenizer_class"] = kind
    config |= {f"{role}_token": token for role, token in tokens.items()}
    return backend


def _albert(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    from tokenizers import normalizers, pre_tokenizers

    steps: list[Normalizer] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not config.get("keep_accents", False):
        steps += [normalizers.NFKD(), normalizers.StripAccents()]
    if config.get("do_lower_case", True):
        steps.append(normalizers.Lowercase())
    if pieces.charsmap:
        steps.append(normalizers.Precompiled(pieces.charsmap))
    backend = _unigram(pieces, pieces.vocab, 1, config, [pre_tokenizers.WhitespaceSplit()])
    backend.normalizer = normalizers.Sequence(steps)
    _add_tokens(backend, pieces, tokens, config)
    _set_template(backend, tokens, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
    return backend


def _big_bird(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    from tokenizers import Regex, normalizers

    unknown = (tokens["unk"], 0.0)
    unk_id = pieces.vocab.index(unknown) if unknown in pieces.vocab else 100
    backend = _unigram(pieces, pieces.vocab, unk_id, config, [])
    backend.normalizer = normalizers.Sequence([normalizers.Replace(Regex(" {2,}"), "▁")])
    _add_tokens(backend, pieces, tokens, config, mask_takes_space=True)
    _set_template(backend, tokens, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")
    return backend


def _xlm_roberta(pieces: Pieces, tokens: dict[str, str], config: dict[str, Any]) -> Backend:
    """Creates XLM-R's tokenizer with fairseq's IDs: four special tokens, the pieces from the fourth on, the mask."""
    from tokenizers import normalizers, pre_tokenizers

    first = [(tokens[role], 0.0) for role in ("bos", "pad", "eos", "unk")]
    vocab = [*first, *pieces.vocab[3:], (tokens["mask"], 0.0)]
    backend = _unigram(pieces, vocab, 3, config, [pre_tokenizers.WhitespaceSplit()])
    if pieces.charsmap:
        backend.normalizer = normalizers.Precompiled(pieces.charsmap)
    _add_tokens(backend, pieces, tokens, config)
    _set_template(backend, tokens, "{bos}:0 $A:0 {eos}:0", "{bos}:0 $A:0 {eos}:0 {eos}:0 $B:0 {eos}:0")
    return backend


_FAMILIES: dict[str, tuple[Callable[[Pieces, dict[str, str], dict[str, Any]], Backend], dict[str, str]]] = {
    "AlbertTokenizer": (_albert, _ALBERT_TOKENS),
    "XLMRobertaTokenizer": (_xlm_roberta, _ROBERTA_TOKENS),
    "BigBirdTokenizer": (_big_bird, _ALBERT_TOKENS | {"bos": "<s>", "eos": "</s>"}),
}


def _unigram(
    pieces: Pieces, vocab: list[tuple[str, float]], unk_id: int, config: dict[str, Any], splits: list[Any]
) -> Backend:
    """Creates a Unigram tokenizer whose words begin with ▁, and its decoder. vocab: the pieces by ID."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    scheme = "always" if config.get("add_prefix_space", True) else "never"
    backend = Tokenizer(models.Unigram(vocab, unk_id=unk_id, byte_fallback=pieces.has_bytes))
    words = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=scheme)
    backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, words]) if splits else words
    decoder = decoders.Metaspace(replacement="▁", prepend_scheme=scheme)
    backend.decoder = decoders.Sequence([decoders.ByteFallback(), decoder]) if pieces.has_bytes else decoder
    return backend


def _add_tokens(
    backend: Backend, pieces: Pieces, tokens: dict[str, str], config: dict[str, Any], mask_takes_space: bool = False
) -> None:
    """Add special tokens, then pieces that the model marks as control or user-defined; all are matched as a whole.

    Matching options (such as absorbing the preceding space) come from `added_tokens_decoder` in tokenizer_config.json.
    Otherwise pieces marked in the model are matched literally, and other tokens as their role in tokenizer_config.json
    defines.
    """
    from tokenizers import AddedToken

    listed = config.get("added_tokens_decoder")
    said = _by_content(listed.values() if isinstance(listed, dict) else [])
    roles = _by_content(config.get(f"{role}_token") for role in tokens)
    if mask_takes_space:
        roles.setdefault(tokens["mask"], {"lstrip": True})
    marked = {
        text: kind == CONTROL
        for (text, _), kind in zip(pieces.vocab, pieces.kinds, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    }
    special = dict.fromkeys(tokens.values(), True)
    for token, is_special in (special | marked | special).items():
        told = said.get(token, {} if token in marked else roles.get(token, {}))
        flags = {name: bool(told.get(name, False)) for name in ("lstrip", "rstrip", "single_word", "normalized")}
        backend.add_tokens([AddedToken(token, special=is_special, **flags)])


def _by_content(entries: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Returns token objects of a configuration by their text."""
    return {str(entry.get("content")): entry for entry in entries if isinstance(entry, dict)}


def _set_template(backend: Backend, tokens: dict[str, str], single: str, pair: str) -> None:
    from tokenizers import processors

    found = [(token, backend.token_to_id(token)) for token in dict.fromkeys(tokens.values())]
    backend.post_processor = processors.TemplateProcessing(
        single=single.format(**tokens), pair=pair.format(**tokens), special_tokens=found
    )


def _class_beside(path: Path) -> str:
    """Returns the tokenizer class from the config.json next to a file, else from the file name."""
    beside = path.with_name("config.json")
    content = storage.read_json(beside) if beside.is_file() else {}
    model_type = content.get("model_type") if isinstance(content, dict) else None
    if model_type is None:
        return _CLASS_OF_FILE.get(path.name, "AlbertTokenizer")
    return _CLASSES.get(str(model_type), f"a model of type '{model_type}'")
