"""Safety checks of a third-party tokenizer.json before it is passed to the tokenizers library.

A component can expand text without bound (forty steps that each double a letter), and a regular expression can take
time quadratic or exponential in text length. So the expansion of every chain of components is limited, and a tokenizer
with an unknown pattern or component is first run in a sandboxed process (`trial`). Published models
have none of these and need no trial.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from ...core.errors import CorruptFileError, InputError, ModelFolderError
from ...core.isolation import BadFile, Limits, isolated

MAX_TOKENS = 4_000_000  # also the highest ID
MAX_TOKEN_CHARACTERS = 1024  # characters
MAX_WORD_CHARACTERS = 1000  # characters; WordPiece time is quadratic in word length
MAX_EXPANSION = 2000  # output bytes per input byte; the highest known is ALBERT's 726
MAX_STEPS, DEEPEST = 64, 8
MAX_SPECIAL_TOKENS = 1024  # special tokens added by a template
MAX_PATTERN_CHARACTERS, MAX_PREFIX_CHARACTERS, MAX_REPLACEMENT_BYTES, LONGEST_OF_NFKC = 4096, 64, 256, 33
TRIAL = "maskwright.text.tokenizers.trial:try_tokenizer"

# Maximum expansion of a byte. Unicode: U+FDFA has 3 bytes, and 33 in NFKC and NFKD.
_GROWTH = {
    "BertNormalizer": 8, "NFC": 3, "NFD": 3, "NFKC": 11, "NFKD": 11, "Lowercase": 2, "StripAccents": 1, "Strip": 1,
    "Nmt": 1, "Prepend": 1, "ByteLevel": 2, "BertPreTokenizer": 1, "Whitespace": 1, "WhitespaceSplit": 1,
    "Metaspace": 3, "Punctuation": 1, "Digits": 1, "Split": 1, "CharDelimiterSplit": 1, "UnicodeScripts": 1,
    "FixedLength": 1, "WordPiece": 2, "BPEDecoder": 2, "ByteFallback": 3, "Fuse": 1, "CTC": 2,
}  # fmt: skip
_CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
_SIGNS_AND_SPACES = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Patterns with linear time: those of our tokenizers (`text.tokenizers.trainers.pipelines`) and of published ones.
MATCH_SOMETHING = {" {2,}", r"\s+", " +"}
KNOWN_PATTERNS = MATCH_SOMETHING | {
    r"\d", r"\p{N}", r"\p{N}{1,3}", r"[\s\S]", r"(?<=\S)(?=\s|\z)",
    r"(?<=[^\s\p{P}$+<=>^`|~])(?=[\s\p{P}$+<=>^`|~]|\z)|(?<=[\p{P}$+<=>^`|~])",
    rf"{_CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",
    rf"{_CONTRACTIONS}|[\p{{L}}]+|[\p{{N}}]|[^\s\p{{L}}\p{{N}}]+",
    rf"(?i:{_CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_SIGNS_AND_SPACES}",
    rf"(?i:{_CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_SIGNS_AND_SPACES}",
}  # fmt: skip

_passed: set[bytes] = set()  # digests of tokenizers that passed the trial in this process


def check_tokenizer(data: bytes, content: Any, path: Path) -> None:
    """Raise CorruptFileError for an invalid tokenizer.json, ModelFolderError for one that may use excessive time or
    memory.

    data, content: the file as bytes and parsed; path: its name in errors.
    """
    try:
        reason, is_known = _examine(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptFileError(f"{path} is not a usable tokenizer ({error}): restore it from its source.") from None
    if reason:
        raise ModelFolderError(f"{path} {reason}: it is not loaded. Use a tokenizer from another source.")
    if not is_known:
        _try(data, path)


def check_replacements(compiled: bytes) -> None:
    """Raise ValueError if a compiled SentencePiece normalizer has an overly long replacement."""
    if _longest_replacement(compiled) > MAX_REPLACEMENT_BYTES:
        raise ValueError(f"its normalizer replaces a character by more than {MAX_REPLACEMENT_BYTES} bytes")


def is_panic(error: BaseException) -> bool:
    """Whether an exception is a panic of the library, which is not an `Exception` and only recognizable by name."""
    return type(error).__name__ == "PanicException"


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Convert a library panic on a text to an InputError."""
    try:
        yield
    except BaseException as error:
        if is_panic(error):
            raise InputError(f"The tokenizer fails on one of the texts ({error}): use another tokenizer.") from None
        raise


def _examine(content: Mapping[str, Any]) -> tuple[str, bool]:
    """Returns why a tokenizer is rejected ("" if accepted), and whether all components and patterns are known."""
    is_known = True
    expansion = 1.0
    for role in ("normalizer", "pre_tokenizer", "decoder"):
        steps = list(_steps(content.get(role)))
        if len(steps) > MAX_STEPS:
            return f"has more than {MAX_STEPS} steps in its {role}", False
        for step in steps:
            reason = _reject_step(step)
            if reason:
                return reason, False
            is_known = is_known and _is_known(step)
        own = prod(map(_expansion, steps))
        expansion = own if role == "decoder" else expansion * own  # a decoder starts from IDs
        if expansion > MAX_EXPANSION:
            return f"has a {role} that makes a text more than {MAX_EXPANSION:,} times as long", False
    reason = _reject_template(content.get("post_processor")) or _reject_model(content)
    return reason, is_known


def _steps(component: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yields the steps of a component with nested sequences flattened."""
    if component is None:
        return
    if component["type"] != "Sequence":
        yield component
        return
    if depth == DEEPEST:
        raise ValueError("its sequences are nested too deeply")
    for name in ("normalizers", "pretokenizers", "decoders", "processors"):
        for inner in component.get(name, ()):
            yield from _steps(inner, depth + 1)


def _expansion(step: Mapping[str, Any]) -> float:
    """Returns the maximum number of output bytes per input byte."""
    if step["type"] == "Precompiled":
        longest = _longest_replacement(base64.b64decode(step["precompiled_charsmap"] or ""))
        return _GROWTH["NFKC"] if longest <= LONGEST_OF_NFKC else longest
    if step["type"] != "Replace":
        return _GROWTH.get(step["type"], 1)
    size = len(step["content"].encode())
    pattern = step["pattern"]
    if "String" in pattern:
        return max(1.0, size / len(pattern["String"].encode()))
    matches_something = pattern["Regex"] in MATCH_SOMETHING
    return max(1.0, size) if matches_something else 1.0 + size  # an empty pattern matches between all characters


def _reject_step(step: Mapping[str, Any]) -> str:
    """Returns why a step is rejected, or ""."""
    pattern = step.get("pattern")
    if isinstance(pattern, dict):
        text = pattern.get("String", pattern.get("Regex"))
        if not isinstance(text, str) or len(text) > MAX_PATTERN_CHARACTERS:
            return f"has a pattern of more than {MAX_PATTERN_CHARACTERS:,} characters"
        if not text and step["type"] == "Replace":
            return "replaces the empty text"
    if len(step.get("prepend") or "") > MAX_PREFIX_CHARACTERS:
        return f"prepends more than {MAX_PREFIX_CHARACTERS} characters to a text"
    if step["type"] == "FixedLength" and not step["length"] >= 1:
        return "splits a text into parts of length 0"
    return ""


def _is_known(step: Mapping[str, Any]) -> bool:
    """Whether a step is known to take linear time."""
    pattern = step.get("pattern")
    is_plain = not isinstance(pattern, dict) or bool(pattern.get("String")) or pattern.get("Regex") in KNOWN_PATTERNS
    return is_plain and step["type"] in {*_GROWTH, "Replace", "Precompiled"}


def _longest_replacement(compiled: bytes) -> int:
    """Returns the longest replacement in bytes of a compiled normalizer (NUL-terminated, after its trie)."""
    table = int.from_bytes(compiled[:4], "little")
    return max(map(len, compiled[4 + table :].split(b"\0")))


def _reject_template(processor: Any) -> str:
    """Returns why the special-token template is rejected, or ""."""
    for step in _steps(processor):
        ids = {name: len(token["ids"]) for name, token in (step.get("special_tokens") or {}).items()}
        for template in (step.get("single") or [], step.get("pair") or []):
            texts = [piece["Sequence"]["id"] for piece in template if "Sequence" in piece]
            special = sum(ids.get(piece["SpecialToken"]["id"], 1) for piece in template if "SpecialToken" in piece)
            if len(set(texts)) < len(texts):
                return "repeats a text in its template"
            if special > MAX_SPECIAL_TOKENS:
                return f"adds more than {MAX_SPECIAL_TOKENS:,} special tokens to a text"
    return ""


def _reject_model(content: Mapping[str, Any]) -> str:
    """Returns why the vocabulary is rejected, or ""."""
    model, added = content["model"], content.get("added_tokens") or []
    if not model.get("max_input_chars_per_word", 0) <= MAX_WORD_CHARACTERS:
        return f"tokenizes words of more than {MAX_WORD_CHARACTERS:,} characters"
    for name in ("continuing_subword_prefix", "end_of_word_suffix"):
        if len(model.get(name) or "") > MAX_PREFIX_CHARACTERS:
            return f"adds more than {MAX_PREFIX_CHARACTERS} characters to every part of a word"
    vocab = model["vocab"]
    tokens = vocab if isinstance(vocab, dict) else [token for token, _ in vocab]
    highest = max(vocab.values(), default=0) if isinstance(vocab, dict) else len(vocab)
    highest = max([highest, *(token["id"] for token in added)])
    if not max(highest, len(tokens) + len(added)) < MAX_TOKENS:
        return f"has more than {MAX_TOKENS:,} tokens, or an id above that"
    longest = max(max(map(len, tokens), default=0), *(len(token["content"]) for token in added), 0)
    return f"has a token of more than {MAX_TOKEN_CHARACTERS:,} characters" if longest > MAX_TOKEN_CHARACTERS else ""


def _try(data: bytes, path: Path) -> None:
    """Load the tokenizer and encode test texts with it in a sandboxed process."""
    from hashlib import sha256
    from tempfile import TemporaryFile

    digest = sha256(data).digest()
    if digest in _passed:
        return
    found = find_spec("tokenizers")
    library = str(Path(found.origin).parents[1]) if found is not None and found.origin else ""
    limits = Limits((1 << 30) + 24 * len(data), 10 + len(data) // 2_000_000, 120 + len(data) // 200_000)
    with TemporaryFile() as file:
        file.write(data)
        file.flush()
        file.seek(0)
        try:
            with isolated(TRIAL, file, limits, (library,)) as answer:
                reason = answer.read(500).decode("utf-8", errors="replace")
        except BadFile as error:
            reason = str(error)
        except InputError:
            from ...core.progress import warn

            warn(f"{path} has unknown components, and this system cannot test them in a sandboxed process.")
            reason = ""
    if reason:
        shown = "".join(one if one.isprintable() else " " for one in reason)
        raise ModelFolderError(f"{path} {shown}: it is not loaded. Use a tokenizer from another source.")
    _passed.add(digest)
