"""Sandboxed process that loads a tokenizer.json and encodes texts on which slow patterns take long.

Writes the reason if the tokenizer is rejected, else nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from tokenizers import Tokenizer

LONG, LONGER = 10_000, 40_000  # characters of each run; of the slowest run
MAX_SECONDS = 1.0  # for LONGER characters: about 20 times the usual, far below a quadratic pattern
MOST_LETTERS = 24
# One of each kind of character that patterns distinguish.
CHARACTER_KINDS = "aA1 \n\t'!_-.é中\u0301"
SAMPLE_TEXT = "The quick brown fox doesn't jump over 1,234.5 lazy dogs.\n\tNaïve café, 中文 テスト 🙂 https://example.org/a_b?c=d\n"


def try_tokenizer(data: memoryview, file: BinaryIO, out: BinaryIO) -> None:
    """Write the result for the mapped file; a killed process also means rejection."""
    try:
        text = str(data, "utf-8")
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.decode(tokenizer.encode(SAMPLE_TEXT).ids)
        letters = sample_characters(json.loads(text))
        end = "!" + "".join(letters)  # a pattern's required suffix occurs, but too late
        runs = [run for letter in letters for run in (letter, f"{letter} ")]
        slowest = max(runs, key=lambda run: _seconds(tokenizer, run * (LONG // len(run)) + end))
        if _seconds(tokenizer, slowest * (LONGER // len(slowest)) + end) > MAX_SECONDS:
            out.write(b"has a pattern whose time grows faster than the text")
    except Exception as error:
        out.write(f"is not a usable tokenizer ({error})".encode())
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        out.write(f"has a component on which the tokenizers library fails ({error})".encode())


def sample_characters(content: dict[str, Any]) -> list[str]:
    """Returns the characters of test texts: each character kind, and letters from the tokenizer's own patterns."""
    own = "".join(one for text in _patterns(content) for one in text if one.isalnum())
    return list(dict.fromkeys(CHARACTER_KINDS + own))[:MOST_LETTERS]


def _seconds(tokenizer: Tokenizer, text: str) -> float:
    began = time.process_time()
    tokenizer.encode(text)
    return time.process_time() - began


def _patterns(value: Any) -> Iterator[str]:
    """Yields the patterns of all components except the vocabulary."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name in ("String", "Regex") and isinstance(inner, str):
                yield inner
            elif name != "model":
                yield from _patterns(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _patterns(inner)
