"""Runs benchmark backends in separate processes, measured in turn.

Each backend is a child process, because runtimes share threads and memory within one process. It loads its model once
and answers requests, one JSON line each. The parent sends requests to one child at a time, in rounds (A, B, C, A, B, C,
...), so other load on the machine affects all backends alike. Only ratios within one benchmark are meaningful.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.errors import MaskwrightError

MAX_ERROR_CHARS = 400  # of the error output of a failed child
MARK = "answer: "  # prefix of a response, which separates it from other output


class BackendError(MaskwrightError, RuntimeError):
    """A backend could not be measured; the message includes its error output."""


class BackendProcess:
    """One child process.

    name: shown in messages; command: a program that calls `answer`; threads: CPU threads, None for the default.
    """

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
        """Send a request and return the response. Raises BackendError if the child fails or has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **details}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BackendError(f"{self.name} ended: {self._failure()}") from None
        line = next((line for line in self._process.stdout if line.startswith(MARK)), "")
        if not line:
            raise BackendError(f"{self.name} ended: {self._failure()}")
        answer = json.loads(line.removeprefix(MARK))
        if "error" in answer:
            raise BackendError(f"{self.name}: {answer['error']}")
        return answer["value"]

    def stop(self) -> None:
        """Kill the child from another thread after a timeout; `ask` then raises BackendError."""
        self._process.kill()

    def close(self) -> None:
        """Kill the child and close its streams."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):  # an unsent request, if the child had ended
                stream.close()

    def _failure(self) -> str:
        code = self._process.wait(timeout=10)
        self._errors.seek(0)
        output = self._errors.read().strip()
        return f"exit code {code}; {output[-MAX_ERROR_CHARS:] or 'no error output'}"


def environment(threads: int | None) -> dict[str, str]:
    """Return the environment of a child: same code, number of threads, no network access."""
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "TOKENIZERS_PARALLELISM": "true"}
    found |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    if threads is not None:
        found |= {"OMP_NUM_THREADS": str(threads), "RAYON_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    return found


def answer(does: Mapping[str, Callable[..., Any]]) -> None:
    """Answer requests by name until standard input closes (child side)."""
    responses = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # keep the output of libraries out of the responses
    for line in sys.stdin:
        request = json.loads(line)
        try:
            found = {"value": does[request.pop("do")](**request)}
        except Exception as error:  # reported to the parent
            found = {"error": f"{type(error).__name__}: {str(error)[:MAX_ERROR_CHARS]}"}
        responses.write(f"{MARK}{json.dumps(found)}\n")
        responses.flush()
