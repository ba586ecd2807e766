"""The sandboxed process that tries a tokenizer.json; what it needs is imported before it may open no more files."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

from tokenizers import Tokenizer

LONG, LONGER = 10_000, 40_000  # characters of each run; of the slowest run
MAX_SECONDS = 1.0  # for LONGER characters: about 20 times the usual, far below a quadratic pattern
MOST_LETTERS = 24
CHARACTER_KINDS = "aA1 \n\t'!_-.é中\u0301"  # one of each kind that patterns distinguish
SAMPLE_TEXT = "The quick brown fox doesn't jump over 1,234.5 lazy dogs.\n\tNaïve café, 中文 テスト 🙂 https://example.org/a_b?c=d\n"


def try_tokenizer(data: memoryview, file: BinaryIO, out: BinaryIO) -> None:
    """Load a tokenizer.json and encode texts on which slow patterns take long; write why it is rejected, else nothing.

    A killed process also means rejection.
    """

    def seconds(text: str) -> float:
        began = time.process_time()
        tokenizer.encode(text)
        return time.process_time() - began

    try:
        text = str(data, "utf-8")
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.decode(tokenizer.encode(SAMPLE_TEXT).ids)
        own = "".join(one for pattern in _patterns(json.loads(text)) for one in pattern if one.isalnum())
        letters = list(dict.fromkeys(CHARACTER_KINDS + own))[:MOST_LETTERS]
        end = "!" + "".join(letters)  # a pattern's required suffix occurs, but too late
        runs = [run for letter in letters for run in (letter, f"{letter} ")]
        slowest = max(runs, key=lambda run: seconds(run * (LONG // len(run)) + end))
        if seconds(slowest * (LONGER // len(slowest)) + end) > MAX_SECONDS:
            out.write(b"has a pattern whose time grows faster than the text")
    except Exception as error:
        out.write(f"is not a usable tokenizer ({error})".encode())
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        out.write(f"has a component on which the tokenizers library fails ({error})".encode())


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
