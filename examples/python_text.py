"""English text included in Python: the help topics of the language reference and the docstrings of the library.

The text is read from the running interpreter. Docstrings differ between Python versions and are missing with -OO.
"""

from __future__ import annotations

import ast
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from maskwright.core.progress import note
from maskwright.core.storage import write_text

LEAST_CHARACTERS = 500_000
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z\"'`(])")
SKIPPED_FOLDERS = {"site-packages", "test", "tests", "idle_test", "__pycache__", "lib2to3"}


@dataclass(frozen=True)
class PythonText:
    """documents: each a list of sentences, by name; sources: what was read, with the number of documents."""

    named: dict[str, list[str]]
    sources: dict[str, int]

    @property
    def documents(self) -> list[list[str]]:
        """The documents in order."""
        return list(self.named.values())

    @property
    def characters(self) -> int:
        """Characters in all sentences."""
        return sum(len(sentence) for document in self.documents for sentence in document)


def read_python_text() -> PythonText:
    """Help topics and docstrings of this interpreter, one document per topic and per module.

    Raises SystemExit, in words, when there is too little (an interpreter without its library's source, or -OO).
    """
    topics = {name: document for name, text in _topics().items() if (document := sentences(text))}
    modules = {name: document for name, path in _library_files() if (document := _module_sentences(path))}
    version = ".".join(map(str, sys.version_info[:3]))
    text = PythonText(
        {**{f"topics/{name}": document for name, document in topics.items()}, **modules},
        {
            f"help topics of Python {version}": len(topics),
            f"library modules of Python {version}": len(modules),
        },
    )
    if text.characters < LEAST_CHARACTERS:
        raise SystemExit(
            f"error: this Python ({sys.executable}) carries only {text.characters:,} characters of documentation, and "
            f"the demo needs {LEAST_CHARACTERS:,}: use a full CPython, or give your own text: make demo CORPUS=path"
        )
    return text


def write_python_text(folder: Path) -> tuple[Path, dict[str, str | int]]:
    """Write the documentation of this Python as a corpus file; returns its path and its sources."""
    text = read_python_text()
    path = folder / "corpus.txt"
    write_text(path, "\n\n".join("\n".join(document) for document in text.documents) + "\n")
    note(
        f"Text: {', '.join(f'{count} {name}' for name, count in text.sources.items())}; {text.characters:,} characters."
    )
    return path, {**text.sources, "characters": text.characters}


def sentences(text: str) -> list[str]:
    """Return the prose sentences of a docstring or topic, without code, tables and doctests."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.strip().split("\n")]
        joined = " ".join(lines)
        if joined.startswith((">>>", "...", "::", "|", "+-", "*****", "=====")) or not _is_prose(joined):
            continue
        found += [sentence.strip() for sentence in SENTENCE_END.split(joined) if _is_prose(sentence)]
    return found


def _is_prose(text: str) -> bool:
    """At least four words, and mostly letters."""
    letters = sum(character.isalpha() or character.isspace() for character in text)
    return len(text.split()) >= 4 and letters >= 0.8 * len(text)


def _topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return {}
    return topics


def _library_files() -> Iterator[tuple[str, Path]]:
    root = Path(sysconfig.get_path("stdlib"))
    for path in sorted(root.rglob("*.py")):
        if not SKIPPED_FOLDERS & set(path.relative_to(root).parts):
            yield path.relative_to(root).with_suffix("").as_posix(), path


def _module_sentences(path: Path) -> list[str]:
    """Sentences of all docstrings of a source file, read without importing it."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    texts = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, kinds)]
    return [sentence for text in texts if text for sentence in sentences(text)]
