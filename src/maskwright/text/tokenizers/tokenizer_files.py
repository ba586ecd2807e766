"""Reads and writes tokenizer folders: `tokenizer.json`, or a vocabulary with `tokenizer_config.json`.

A `vocab.txt` is loaded with the pipeline of BERT's published fast tokenizer (Devlin et al. 2019): clean, lowercase,
split at spaces and punctuation, longest match first. `do_lower_case` of a sentence-transformers folder lower-cases
before the normalizer of a tokenizer that does not do so. `vocab.json` is byte-level BPE with `merges.txt` (Radford et
al. 2019), and a translation model of Marian with `source.spm` and `target.spm`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import storage
from ...core.errors import CorruptFileError, MaskwrightError, MissingFileError, ModelFolderError
from ...core.storage import MODEL_CONFIG, RECORD, fix_for, verify_sealed
from .check import check_tokenizer, is_panic
from .sentencepiece import NAMES as SENTENCEPIECE
from .sentencepiece import MarianBackend, sentencepiece_backend, set_template

if TYPE_CHECKING:
    from tokenizers import AddedToken
    from tokenizers import Tokenizer as Backend

PAIRS, MERGES = "vocab.json", "merges.txt"
SOURCE, TARGET, TARGET_VOCABULARY = "source.spm", "target.spm", "target_vocab.json"

TOKENIZER = "tokenizer.json"
VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
SENTENCE_CONFIGS = tuple(  # of sentence-transformers, beside the tokenizer of its network; the first one found holds
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
ESM = "EsmTokenizer"  # transformers reads its vocab.txt
OWN = "maskwright"  # key in CONFIG for tokenizers trained or saved by Maskwright
MAIN_FILES = (SOURCE, TARGET, TOKENIZER, VOCABULARY, PAIRS, *SENTENCEPIECE)  # in order of precedence
FILES = (*MAIN_FILES, MERGES, TARGET_VOCABULARY, CONFIG, SPECIAL_TOKENS)
LIMIT_BYTES, JSON_LIMIT_BYTES = 256 << 20, 100_000_000
# The order in which missing special tokens get their IDs, and the usual names of each role.
ROLES = {
    "unk": ("[UNK]", "<unk>"),
    "sep": ("[SEP]", "</s>"),
    "pad": ("[PAD]", "<pad>"),
    "cls": ("[CLS]", "<s>"),
    "mask": ("[MASK]", "<mask>"),
}
# Unicode's White_Space: stripped at the end of a vocabulary line. Python's set has four more characters.
_WHITE_SPACE = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501


def read_tokenizer(path: str | Path) -> tuple[Backend | MarianBackend, dict[str, Any]]:
    """Load the library's tokenizer and its configuration from a folder or one of its main files.

    A folder with a source and a target tokenizer loads the source one; its `target.spm` the target one.
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"{path} does not exist: specify a tokenizer folder, a tokenizer.json or a vocab.txt.")
    if path.is_dir():
        main = next((path / name for name in MAIN_FILES if (path / name).is_file()), None)
        if main is None:
            raise ModelFolderError(f"{path} contains no tokenizer: it has neither {TOKENIZER} nor {VOCABULARY}.")
    else:
        main = path
    verify_sealed(main.parent, FILES)
    config = _read_config(main.parent)
    _check_record(main.parent, config)
    if main.name in (SOURCE, TARGET):
        return _marian(main, config), config
    named = {role: _content(config.get(f"{role}_token")) for role in (*ROLES, "bos", "eos")}
    if main.name == PAIRS:
        backend = _byte_level(main, config, named)
    elif main.suffix == ".json":
        backend = _from_json(main, config)
    elif main.suffix == ".model":
        backend = sentencepiece_backend(main, config, named)
    else:
        backend = _from_vocabulary(main, config)
    if sentence_config(main.parent).get("do_lower_case") is True:
        _lower_case(backend, config)
    return backend, config


def sentence_config(folder: Path) -> dict[str, Any]:
    """Returns the settings of a sentence-transformers network in its folder; {} without them."""
    path = next((folder / name for name in SENTENCE_CONFIGS if (folder / name).is_file()), None)
    content = {} if path is None else storage.read_json(path)
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path} is not a JSON object.")
    return content


def _lower_case(backend: Backend, config: dict[str, Any]) -> None:
    """Lower-case before the normalizer, unless that has a lower-casing step (BERT's own is not one).

    The class becomes the one that transformers loads with this normalizer: for others it builds the usual one.
    """
    from tokenizers import normalizers

    own = backend.normalizer
    steps: list[Any] = [] if own is None else [own]
    if isinstance(own, normalizers.Sequence):
        steps = list(own)  # type: ignore[call-overload]  # its stub does not say that it is iterable
    if not any(isinstance(step, normalizers.Lowercase) for step in steps):
        backend.normalizer = normalizers.Sequence([normalizers.Lowercase(), *steps])
        config["tokenizer_class"] = "PreTrainedTokenizerFast"


def special_token_roles(backend: Backend | MarianBackend, config: dict[str, Any]) -> dict[str, str]:
    """Returns the token of each role (unk, sep, pad, cls, mask): as configured, else the usual one if it exists."""
    roles = {}
    for role, usual in ROLES.items():
        configured = _content(config.get(f"{role}_token"))
        candidates: tuple[str | None, ...] = (configured,) if configured else usual
        if role == "unk" and not configured:
            model = None if isinstance(backend, MarianBackend) else backend.model
            candidates = (getattr(model, "unk_token", None), *usual)
        token = next((token for token in candidates if token and backend.token_to_id(token) is not None), None)
        if token is not None:
            roles[role] = token
    return roles


def bert_backend(vocab: dict[str, int], config: dict[str, Any]) -> Backend:
    """Create BERT's fast tokenizer over `vocab`, with the settings of a `tokenizer_config.json`."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    is_mpnet = str(config.get("tokenizer_class", "")).startswith("MPNet")
    tokens = {
        role: _content(config.get(f"{role}_token")) or usual[is_mpnet and role != "unk"]
        for role, usual in ROLES.items()
    }
    backend = Tokenizer(models.WordPiece(vocab, unk_token=tokens["unk"]))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=config.get("do_lower_case", True),
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    if is_mpnet:
        set_roberta_special_tokens(backend, tokens, config)
    else:
        set_special_tokens(backend, tokens)
    return backend


def set_special_tokens(backend: Backend, tokens: dict[str, str], *, mask_takes_space: bool = False) -> None:
    """Register the special tokens and set the template [CLS] A [SEP] B [SEP] with types 0 and 1.

    mask_takes_space: the mask token absorbs the preceding space, for vocabularies whose words begin with a space.
    """
    from tokenizers import AddedToken

    backend.add_special_tokens(
        [
            AddedToken(tokens[role], special=True, normalized=False, lstrip=mask_takes_space and role == "mask")
            for role in ROLES
        ]
    )
    ends = {role: tokens[role] for role in ("cls", "sep")}
    set_template(backend, ends, "{cls}:0 $A:0 {sep}:0", "{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1")


def files_of(backend: Backend | MarianBackend, config: dict[str, Any], roles: dict[str, str]) -> dict[str, bytes]:
    """Returns name and content of every file of a tokenizer folder."""
    if isinstance(backend, MarianBackend):
        return _marian_files(backend, config)
    special = {f"{role}_token": token for role, token in roles.items()}
    # `auto_map` names code to run on load: it is never passed on.
    config = {name: value for name, value in config.items() if name != "auto_map"} | special
    if str(config.get("tokenizer_class", "Deberta")).startswith("Deberta"):  # whose class changes what is in the file
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
    text = backend.to_str(pretty=True)
    files = {TOKENIZER: text.encode(), CONFIG: _json(dict(sorted(config.items()))), SPECIAL_TOKENS: _json(special)}
    model = json.loads(text)["model"]
    if model.get("type") == "WordPiece" or config["tokenizer_class"] == ESM:
        files[VOCABULARY] = _lines(sorted(model["vocab"], key=model["vocab"].__getitem__))
    elif model.get("type") in ("BPE", "WordLevel"):
        files[PAIRS] = _json(model["vocab"])
    if model.get("type") == "BPE":
        merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in model["merges"]]
        files[MERGES] = _lines(["#version: 0.2", *merges])
    return files


def _from_json(path: Path, config: dict[str, Any]) -> Backend:
    from tokenizers import Tokenizer, processors

    data = storage.read_bytes(path, JSON_LIMIT_BYTES)
    try:
        check_tokenizer(data, json.loads(data), path)
        backend = Tokenizer.from_str(data.decode("utf-8"))
    except (MaskwrightError, MemoryError):
        raise
    except BaseException as error:  # the library raises bare Exception on parse errors, or panics
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        raise CorruptFileError(f"{path} is not a usable tokenizer ({error}): restore it from its source.") from None
    if backend.post_processor is None:
        backend.post_processor = processors.TemplateProcessing(single="$A:0", pair="$A:0 $B:1", special_tokens=[])
    if config.get("tokenizer_class") not in ("PreTrainedTokenizerFast", "TokenizersBackend"):
        _apply_bert_settings(backend, config)
    return backend


def _apply_bert_settings(backend: Backend, config: dict[str, Any]) -> None:
    """Apply case, accent and CJK settings of `tokenizer_config.json`, which override `tokenizer.json`.

    Missing settings are written to the configuration, because other tools assume BERT's defaults for them.
    """
    from tokenizers import normalizers

    current = backend.normalizer
    if not isinstance(current, normalizers.BertNormalizer):
        return
    settings = {"clean_text": current.clean_text}
    for said, name in (
        ("do_lower_case", "lowercase"),
        ("strip_accents", "strip_accents"),
        ("tokenize_chinese_chars", "handle_chinese_chars"),
    ):
        settings[name] = config.setdefault(said, getattr(current, name))
    backend.normalizer = normalizers.BertNormalizer(**settings)


def _from_vocabulary(path: Path, config: dict[str, Any]) -> Backend:
    try:
        text = storage.read_bytes(path, LIMIT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not UTF-8 (byte {error.start}): restore it from its source.") from None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    vocab = {line.rstrip(_WHITE_SPACE): id for id, line in enumerate(lines)}
    if not vocab:
        raise ModelFolderError(f"{path} is empty: a vocabulary has one token per line.")
    kind = str(config.get("tokenizer_class", ""))
    if kind.startswith("RoFormer"):
        raise ModelFolderError(
            f"{path}: RoFormerTokenizer splits words with jieba, which is not supported: use another."
        )
    if kind == ESM:
        return _esm(vocab, config)
    config.setdefault("tokenizer_class", "BertTokenizer")
    config.setdefault("do_lower_case", any(map(str.islower, vocab)))  # else every letter would be unknown
    return bert_backend(vocab, config)


def _esm(vocab: dict[str, int], config: dict[str, Any]) -> Backend:
    """Create the tokenizer of protein models: every token of the vocabulary is found wherever it is in a text."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors

    usual = {"unk": "<unk>", "sep": "<eos>", "pad": "<pad>", "cls": "<cls>", "mask": "<mask>", "eos": "<eos>"}
    tokens = {role: _content(config.get(f"{role}_token")) or token for role, token in usual.items()}
    missing = [token for token in tokens.values() if token not in vocab]
    if missing:
        raise ModelFolderError(f"The vocabulary lacks {missing[0]}, which an EsmTokenizer needs.")
    backend = Tokenizer(models.WordLevel(vocab, unk_token=tokens["unk"]))
    longest_first = "|".join(re.escape(token) for token in sorted(vocab, key=len, reverse=True))
    splits = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(longest_first), "isolated")]
    backend.pre_tokenizer = pre_tokenizers.Sequence(splits)
    backend.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in tokens.values()])
    cls, end = tokens["cls"], tokens["eos"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {end}:0",
        pair=f"{cls}:0 $A:0 {end}:0 $B:0 {end}:0",
        special_tokens=[(token, vocab[token]) for token in (cls, end)],
    )
    config |= {f"{role}_token": token for role, token in tokens.items()}
    return backend


def _read_config(folder: Path) -> dict[str, Any]:
    """Merge the configuration files; `tokenizer_config.json` takes precedence, over it sentence-transformers' own."""
    config: dict[str, Any] = {}
    for name in (SPECIAL_TOKENS, CONFIG):
        if (folder / name).is_file():
            content = storage.read_json(folder / name)
            if not isinstance(content, dict):
                raise CorruptFileError(f"{folder / name} is not a JSON object: restore it from its source.")
            config |= content
    own = sentence_config(folder)
    arguments = own.get("processor_kwargs", own.get("tokenizer_args"))
    return config | (arguments if isinstance(arguments, dict) else {})


def with_record(files: dict[str, bytes]) -> dict[str, bytes]:
    """Returns the files of a tokenizer folder with its tokenizer_config.json marked as having a manifest."""
    config = json.loads(files.get(CONFIG, b"{}"))
    return files | {CONFIG: _json(config | {OWN: config.get(OWN, {}) | RECORD})}


def _check_record(folder: Path, config: dict[str, Any]) -> None:
    """Raise CorruptFileError if the manifest recorded by a tokenizer folder is missing.

    In a model folder maskwright.json decides, because tokenizer files may have been copied there. The record is removed
    from `config`, because it describes the folder, not the tokenizer.
    """
    own = config.get(OWN)
    if not isinstance(own, dict) or "manifest" not in own:
        return
    kept = {name: value for name, value in own.items() if name != "manifest"}
    config[OWN] = kept
    if not kept:
        del config[OWN]
    if not (folder / MODEL_CONFIG).is_file():
        storage.verify_folder(folder, names=FILES, fix=fix_for(folder))


def _content(token: Any) -> str | None:
    """Returns a special token as text; configuration files may also contain {"content": ...}."""
    if isinstance(token, dict):
        token = token.get("content")
    return token if isinstance(token, str) and token else None


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


# -- vocab.json with merges.txt: byte-level BPE as in RoBERTa's and GPT-2's published tokenizers ---------------

END_OF_WORD = "</w>"  # of a vocabulary of kind bpe
TEXT_END = "<|endoftext|>"  # of GPT-2
DEFAULT_SPECIAL_TOKENS = {"unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>", "mask": "<mask>"}


def _byte_level(path: Path, config: dict[str, Any], tokens: dict[str, str | None]) -> Backend:
    """Special tokens are added to texts if the vocabulary has a first and a last token (else those of GPT-2)."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

    if not path.with_name(MERGES).is_file():
        raise ModelFolderError(
            f"{path} has no {MERGES} next to it, which byte-level BPE needs (a Marian tokenizer needs source.spm and "
            "target.spm)."
        )
    vocab = read_vocabulary(path)
    try:
        model = models.BPE(vocab, _read_merges(path.with_name(MERGES)), fuse_unk=False)
    except Exception as error:  # the library raises bare Exception for a merge missing from the vocabulary
        raise CorruptFileError(
            f"{path.with_name(MERGES)} does not match {PAIRS} ({error}): restore both from their source."
        ) from None
    backend = Tokenizer(model)
    spaced = bool(config.get("add_prefix_space", False))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=spaced)
    backend.decoder = decoders.ByteLevel()
    if _is_deberta(path, config):
        usual = {role: tokens[role] or names[0] for role, names in ROLES.items()}
        set_special_tokens(backend, usual, mask_takes_space=True)
        return backend
    named = {role: tokens[role] or token for role, token in DEFAULT_SPECIAL_TOKENS.items()}
    has_special_tokens = named["cls"] in vocab and named["sep"] in vocab
    if has_special_tokens:
        set_roberta_special_tokens(backend, named, config)
    else:
        if TEXT_END in vocab:
            backend.add_special_tokens([AddedToken(TEXT_END, special=True, normalized=False)])
        backend.post_processor = processors.ByteLevel(trim_offsets=True)
    config.setdefault("tokenizer_class", "RobertaTokenizer" if has_special_tokens else "GPT2Tokenizer")
    return backend


def _is_deberta(path: Path, config: dict[str, Any]) -> bool:
    """Whether a byte-level vocabulary is DeBERTa's, by tokenizer_config.json or a config.json next to it."""
    beside = path.with_name(MODEL_CONFIG)
    model = storage.read_json(beside) if beside.is_file() else None
    is_named = str(config.get("tokenizer_class", "")).startswith("DebertaTokenizer")
    return is_named or (isinstance(model, dict) and model.get("model_type") == "deberta")


def set_roberta_special_tokens(backend: Backend, tokens: dict[str, str], config: dict[str, Any]) -> None:
    """Register the special tokens and set the template <s> A </s></s> B </s>, all of type 0.

    The mask token absorbs the preceding space unless tokenizer_config.json disables it.
    """
    from tokenizers import AddedToken, processors

    said = config.get("mask_token")
    takes_space = bool(said.get("lstrip", True)) if isinstance(said, dict) else True
    backend.add_special_tokens(
        [
            AddedToken(token, special=True, normalized=False, lstrip=takes_space and role == "mask")
            for role, token in tokens.items()
            if role in ("cls", "sep") or backend.token_to_id(token) is not None
        ]
    )
    vocab = backend.get_vocab()
    cls, sep = ((tokens[role], vocab[tokens[role]]) for role in ("cls", "sep"))
    spaced = bool(config.get("add_prefix_space", False))
    backend.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=spaced)


def read_vocabulary(path: Path) -> dict[str, int]:
    """Returns the ID of each token in a JSON file. Raises CorruptFileError for other content."""
    vocab = storage.read_json(path, LIMIT_BYTES)
    is_table = isinstance(vocab, dict) and all(type(index) is int and 0 <= index < 1 << 32 for index in vocab.values())
    if not is_table or not vocab:
        raise CorruptFileError(f"{path} is not a mapping of tokens to IDs: restore it from its source.")
    return dict(vocab)


def _read_merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = storage.read_bytes(path, LIMIT_BYTES).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is not UTF-8 (byte {error.start}): restore it from its source.") from None
    merges = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or (number == 1 and line.startswith("#version")):
            continue
        first, _, second = line.rstrip("\r").partition(" ")
        if not first or not second or " " in second:
            raise CorruptFileError(f"{path}, line {number}: expected two symbols to merge. Restore it from its source.")
        merges.append((first, second))
    return merges


# -- source.spm, target.spm and vocab.json: a translation model of Marian, also with target_vocab.json ----------

_MARIAN_TOKENS = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}
# Tokens missing from the vocabulary get their IDs in this order.
_MARIAN_ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
_LISTS = ("extra_special_tokens", "additional_special_tokens")


def _marian(path: Path, config: dict[str, Any]) -> MarianBackend:
    """Load one side: source for a source.spm, target for a target.spm. Updates `config` with class and special tokens.

    config: content of tokenizer_config.json. Raises ModelFolderError if a file is missing or the model uses unsupported
    settings, CorruptFileError for invalid files.
    """
    folder = path.parent
    is_separate = bool(config.get("separate_vocabs"))
    names = [SOURCE, TARGET, PAIRS, *([TARGET_VOCABULARY] if is_separate else [])]
    lacking = [name for name in names if not (folder / name).is_file()]
    if lacking:
        raise ModelFolderError(
            f"{folder} lacks {' and '.join(lacking)}: a Marian tokenizer consists of {', '.join(names)}. "
            "Restore it from its source."
        )
    for role, token in _MARIAN_TOKENS.items():
        config[f"{role}_token"] = config.get(f"{role}_token") or token
    config["tokenizer_class"] = "MarianTokenizer"
    vocab = read_vocabulary(folder / PAIRS)
    if _content(config["unk_token"]) not in vocab:
        raise CorruptFileError(
            f"{folder / PAIRS} has no {_content(config['unk_token'])}: it does not belong to {SOURCE}. Restore both."
        )
    added = _added_tokens(config, vocab)
    if is_separate and path.name == TARGET:
        same = {token: vocab[token] for token in added}  # on both sides, as in transformers
        vocab = read_vocabulary(folder / TARGET_VOCABULARY) | same
    files = {name: storage.read_bytes(folder / name, LIMIT_BYTES) for name in names}
    back = path.name if is_separate else SOURCE  # decoding uses the source model, as in transformers
    try:
        return MarianBackend(path.name, back, vocab, added, files)
    except ValueError as error:
        raise CorruptFileError(f"{path} is not a usable vocabulary ({error}): restore it from its source.") from None


def _marian_files(backend: MarianBackend, config: Mapping[str, Any]) -> dict[str, bytes]:
    """Returns name and content of every file of both sides, including tokens added later."""
    named = {f"{role}_token" for role in _MARIAN_ROLES} & config.keys()
    roles = {name: _content(config[name]) for name in named if config[name] is not None}
    later = [token for token in backend.added if token not in roles.values()]
    # `auto_map` names code to run on load: it is never passed on.
    kept = {name: value for name, value in config.items() if name not in ("auto_map", *_LISTS)}
    written = kept | ({_LISTS[1]: later} if later else {})
    return backend.files | {
        "tokenizer_config.json": _json(dict(sorted(written.items()))),
        "special_tokens_map.json": _json(dict(sorted(roles.items()))),
    }


def _added_tokens(config: Mapping[str, Any], vocab: dict[str, int]) -> dict[str, AddedToken]:
    """Returns the added tokens: unknown, end of sentence and padding first, then those of the configuration.

    Tokens missing from the vocabulary get new IDs.
    """
    from tokenizers import AddedToken

    told = {token: (id, flags) for id, token, flags in _listed_with_ids(config)}
    for token, (id, _) in told.items():
        vocab[token] = id
    roles = [config.get(f"{role}_token") for role in _MARIAN_ROLES]
    others = [one for name in _LISTS if isinstance(config.get(name), list) for one in config[name]]
    flags = {_content(one): one for one in [*others, *roles] if isinstance(one, dict)}
    flags |= {token: own for token, (_, own) in told.items()}
    first = [_content(config[f"{role}_token"]) for role in _MARIAN_TOKENS]
    named = [_content(one) for one in [*roles, *others]]
    for one in filter(None, named):
        vocab.setdefault(one, max(vocab.values()) + 1)
    return {
        token: AddedToken(
            token,
            special=True,
            normalized=False,
            lstrip=bool(flags.get(token, {}).get("lstrip", False)),
            rstrip=bool(flags.get(token, {}).get("rstrip", False)),
        )
        for token in dict.fromkeys([*first, *told, *named])
        if token
    }


def _listed_with_ids(config: Mapping[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Yields ID, token and matching options from `added_tokens_decoder`."""
    listed = config.get("added_tokens_decoder")
    for id, one in listed.items() if isinstance(listed, dict) else ():
        token = _content(one)
        if token and str(id).isdecimal():
            yield int(id), token, one if isinstance(one, dict) else {}
