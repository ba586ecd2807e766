"""English text included in Python: the help topics of the language reference and the docstrings of the library.

The text is read from the running interpreter. Docstrings differ between Python versions and are missing with -OO.
"""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from maskwright.core.errors import InputError
from maskwright.core.progress import note

LEAST_CHARACTERS = 500_000
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`(])")
SKIPPED_FOLDERS = {"site-packages", "test", "tests", "idle_test", "__pycache__", "lib2to3"}


@dataclass(frozen=True)
class PythonText:
    """documents: each a list of sentences; one per help topic, of which there are num_topics, and per module."""

    documents: list[list[str]]
    num_topics: int


def read_python_text() -> PythonText:
    """Help topics and docstrings of this interpreter.

    Raises InputError when there is too little (an interpreter without its library's source, or -OO).
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        topics = {}
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(root.rglob("*.py")) if not SKIPPED_FOLDERS & set(path.relative_to(root).parts)]
    own = [document for text in topics.values() if (document := sentences(text))]
    documents = own + [document for path in files if (document := _module_sentences(path))]
    characters = sum(len(sentence) for document in documents for sentence in document)
    if characters < LEAST_CHARACTERS:
        raise InputError(
            f"This Python ({sys.executable}) carries only {characters:,} characters of documentation, and the demo "
            f"needs {LEAST_CHARACTERS:,}: use a full CPython, or give your own text: make demo CORPUS=path"
        )
    note(f"Text: the documentation of this Python, {len(documents):,} documents, {characters:,} characters.")
    return PythonText(documents, len(own))


def sentences(text: str) -> list[str]:
    """The prose sentences of a docstring or topic, without code, tables and doctests."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        joined = " ".join(line.strip() for line in paragraph.strip().split("\n"))
        if not joined.startswith((">>>", "...", "::", "|", "+-", "*****", "=====")) and _is_prose(joined):
            found += [sentence.strip() for sentence in SENTENCE_END.split(joined) if _is_prose(sentence)]
    return found


def _is_prose(text: str) -> bool:
    """At least four words, and mostly letters."""
    letters = sum(character.isalpha() or character.isspace() for character in text)
    return len(text.split()) >= 4 and letters >= 0.8 * len(text)


def _module_sentences(path: Path) -> list[str]:
    """Sentences of all docstrings of a source file, read without importing it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [sentence for text in texts if text for sentence in sentences(text)]
