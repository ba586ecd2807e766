"""Contenders in processes of their own, measured in turn.

Runtimes disturb each other's threads, and memory is only told apart between processes, so each contender is a child. It
loads once, keeps warm, and answers requests, a line of JSON each; the parent asks one child at a time, round after
round (A, B, C, A, B, C, ...), so whatever else the machine does falls on all of them alike. Only ratios within one
contest count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import MaskwrightError

LAST_WORDS = 400  # characters of what a child said before it failed
MARK = "answer: "  # before an answer, so that what libraries print is none


class ContenderError(MaskwrightError, RuntimeError):
    """A contender could not be measured; the message says why, in its own last words."""


class Contender:
    """One child process. name: for people; command: a program that calls `answer`; threads: of its runtime."""

    def __init__(self, name: str, command: Sequence[str], threads: int | None = None) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            env=environment(threads),
        )

    def ask(self, do: str, **details: Any) -> Any:
        """The child's answer to a request. Raises ContenderError when it fails or has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ContenderError(f"{self.name} ended: {self._last_words()}") from None
        line = next((line for line in self._process.stdout if line.startswith(MARK)), "")
        if not line:
            raise ContenderError(f"{self.name} ended: {self._last_words()}")
        answer = json.loads(line.removeprefix(MARK))
        if "error" in answer:
            raise ContenderError(f"{self.name}: {answer['error']}")
        return answer["value"]

    def stop(self) -> None:
        """End the child from another thread, when its answer has taken too long: `ask` raises then."""
        self._process.kill()

    def close(self) -> None:
        """End the child."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()

    def _last_words(self) -> str:
        code = self._process.wait(timeout=10)
        self._errors.seek(0)
        said = self._errors.read().strip()
        return f"exit code {code}; {said[-LAST_WORDS:] or 'it said nothing'}"


def environment(threads: int | None) -> dict[str, str]:
    """What a child inherits: the same code, this many threads, no network look-ups and no progress bars."""
    places = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places)), "TOKENIZERS_PARALLELISM": "true"}
    found |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if threads is not None:
        found |= {"OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    return found


def answer(does: Mapping[str, Callable[..., Any]]) -> None:
    """The child's side: answer requests by name until there are no more. Nothing else reaches standard output."""
    told = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print must not look like an answer
    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = {"value": does[request.pop("do")](**request)}
        except Exception as error:  # told to the parent, which decides
            found = {"error": f"{type(error).__name__}: {str(error)[:LAST_WORDS]}"}
        told.write(f"{MARK}{json.dumps(found)}\n")
        told.flush()
