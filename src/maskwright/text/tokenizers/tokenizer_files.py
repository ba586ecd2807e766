"""Reads and writes tokenizer folders: `tokenizer.json`, or a vocabulary with `tokenizer_config.json`.

A `vocab.txt` is loaded with the pipeline of BERT's published fast tokenizer (Devlin et al. 2019): clean, lowercase,
split at spaces and punctuation, longest match first. `do_lower_case` of a sentence-transformers folder lower-cases
before the normalizer of a tokenizer that does not do so. `vocab.json` with `merges.txt`: see
`text.tokenizers.merges_files`; with `source.spm` and `target.spm`: see `text.tokenizers.marian`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core import storage
from ...core.errors import CorruptFileError, MaskwrightError, MissingFileError, ModelFolderError
from ...core.storage import MODEL_CONFIG, RECORD, fix_for, verify_sealed
from .check import check_tokenizer, is_panic
from .marian import SOURCE, TARGET, TARGET_VOCABULARY, MarianBackend, marian_backend, marian_files
from .merges_files import MERGES, PAIRS, byte_level_backend, set_roberta_special_tokens
from .sentencepiece import NAMES as SENTENCEPIECE
from .sentencepiece import sentencepiece_backend

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Backend

TOKENIZER = "tokenizer.json"
VOCABULARY = "vocab.txt"
CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
SENTENCE_CONFIGS = tuple(  # of sentence-transformers, beside the tokenizer of its network; the first one found holds
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
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
        return marian_backend(main, config), config
    if main.name == PAIRS:
        tokens = {role: _content(config.get(f"{role}_token")) for role in ROLES}
        backend = byte_level_backend(main, config, tokens)
    elif main.suffix == ".json":
        backend = _from_json(main, config)
    elif main.suffix == ".model":
        named = {role: _content(config.get(f"{role}_token")) for role in (*ROLES, "bos", "eos")}
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
            candidates = (getattr(backend.model, "unk_token", None), *usual)
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
    from tokenizers import AddedToken, processors

    backend.add_special_tokens(
        [
            AddedToken(tokens[role], special=True, normalized=False, lstrip=mask_takes_space and role == "mask")
            for role in ROLES
        ]
    )
    cls, sep = tokens["cls"], tokens["sep"]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(token, backend.token_to_id(token)) for token in (cls, sep)],
    )


class TokenizerFiles:
    """Content of a tokenizer folder."""

    def __init__(
        self, backend: Backend | MarianBackend, config: dict[str, Any], roles: dict[str, str], kind: str
    ) -> None:
        self.backend, self.config, self.roles, self.kind = backend, config, roles, kind

    def all(self) -> dict[str, bytes]:
        """Returns name and content of every file."""
        if isinstance(self.backend, MarianBackend):
            return marian_files(self.backend, self.config)
        special = {f"{role}_token": token for role, token in self.roles.items()}
        # `auto_map` names code to run on load: it is never passed on.
        config = {name: value for name, value in self.config.items() if name != "auto_map"} | special
        config.setdefault("tokenizer_class", "PreTrainedTokenizerFast")
        text = self.backend.to_str(pretty=True)
        files = {
            TOKENIZER: text.encode(),
            CONFIG: _json(dict(sorted(config.items()))),
            SPECIAL_TOKENS: _json(special),
        }
        return files | self._vocabulary_files(json.loads(text)["model"])

    def _vocabulary_files(self, model: dict[str, Any]) -> dict[str, bytes]:
        if model.get("type") == "WordPiece":
            return {VOCABULARY: _lines(_by_id(model["vocab"]))}
        if model.get("type") == "BPE":
            merges = [" ".join(merge) if isinstance(merge, list) else merge for merge in model["merges"]]
            return {PAIRS: _json(model["vocab"]), MERGES: _lines(["#version: 0.2", *merges])}
        if model.get("type") == "WordLevel":
            return {PAIRS: _json(model["vocab"])}
        return {}


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
    backend = bert_backend(vocab, config)
    config.setdefault("tokenizer_class", "BertTokenizer")
    config.setdefault("do_lower_case", True)
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


def _by_id(vocab: dict[str, int]) -> list[str]:
    return sorted(vocab, key=lambda token: vocab[token])


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _json(value: Any) -> bytes:
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()
