"""Benchmark backends: child processes that encode texts, measured in turn by their parent.

Runtimes share threads and memory within one process, so each backend is a process of its own. It loads its model once
and answers requests, one JSON line each; the parent asks one child at a time, in rounds (A, B, C, A, B, C, ...), so
other load on the machine affects all alike. Only ratios within one benchmark are meaningful.

`python -m maskwright.speed.backend maskwright|transformers` is such a child. transformers is measured for comparison
only; Maskwright does not depend on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import MaskwrightError
from ..core.memory import peak_memory

PEER = "transformers"
PEER_PRECISIONS = ("fp32", "bf16")
PEER_BATCH_SIZE = 32  # with texts sorted by length, fastest for transformers on a CPU
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
        """Kill the child from another thread; `ask` then raises BackendError."""
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


COMMON = 1e-5  # relative to the norm of the mean: shorter differences are rounding
Vectors = Callable[[Sequence[str]], np.ndarray]  # texts -> float [texts, size]


class TimedEncoder:
    """Answers benchmark requests for one function from texts to embeddings.

    open_vectors: loads the function from the settings of the `load` request.
    """

    def __init__(self, open_vectors: Callable[[dict[str, Any]], Vectors]) -> None:
        self._open = open_vectors
        self._vectors: Vectors | None = None
        self._texts: list[str] = []

    def serve(self) -> None:
        """Answer requests until the parent closes the connection."""
        names = ("load", "texts", "vectors", "bulk", "latency", "memory")
        answer({name: getattr(self, name) for name in names})

    def load(self, **settings: Any) -> float:
        """Load the model; returns the seconds taken."""
        started = time.perf_counter()
        self._vectors = self._open(settings)
        return time.perf_counter() - started

    def texts(self, texts: list[str]) -> int:
        """Store the texts for later requests; returns their number."""
        self._texts = texts
        return len(texts)

    def vectors(self, count: int) -> list[list[float]]:
        """Return the embeddings of the first `count` texts."""
        found: list[list[float]] = self._run(self._texts[:count]).astype(np.float64).tolist()
        return found

    def bulk(self, count: int, list_size: int | None = None) -> float:
        """Return the seconds for the first `count` texts, in one call or in lists of `list_size`."""
        texts = self._texts[:count]
        if not texts:
            raise RuntimeError("no texts: send a 'texts' request first")
        started = time.perf_counter()
        for begin in range(0, len(texts), list_size or len(texts)):
            self._run(texts[begin : begin + (list_size or len(texts))])
        return time.perf_counter() - started

    def latency(self, text: str, times: int, most_seconds: float = 10.0) -> list[float]:
        """Return the seconds of each of up to `times` single requests, after three warm-up requests."""
        for _ in range(3):
            self._run([text])
        found: list[float] = []
        begin = time.perf_counter()
        while len(found) < times and (len(found) < 3 or time.perf_counter() - begin < most_seconds):
            started = time.perf_counter()
            self._run([text])
            found.append(time.perf_counter() - started)
        return found

    def memory(self) -> int:
        """Return the peak memory in bytes: GPU memory if a GPU was used, else main memory."""
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available() and torch.cuda.max_memory_allocated():
            return int(torch.cuda.max_memory_allocated())
        return peak_memory()

    def _run(self, texts: Sequence[str]) -> np.ndarray:
        if self._vectors is None:
            raise RuntimeError("no model: send a 'load' request first")
        return np.asarray(self._vectors(texts))


def percentile(values: Sequence[float], share: float) -> float:
    """Return the `share` quantile of the values."""
    return float(np.quantile(np.asarray(values), share))


def centered_cosines(vectors: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return row-wise cosine similarities after subtracting the mean of the reference from both: [texts].

    Embeddings of one model share a large common component, so any two are similar; without it, a backend that
    confuses its inputs is detected. vectors, reference: float [texts, size].
    """
    mean = reference.mean(axis=0, keepdims=True)
    one, other = vectors - mean, reference - mean
    lengths = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    nothing = COMMON * np.linalg.norm(mean)
    are_common = (lengths[0] <= nothing) & (lengths[1] <= nothing)  # rows equal to the mean, as for identical texts
    cosines = (one * other).sum(axis=1) / np.maximum(lengths[0] * lengths[1], 1e-30)
    return np.where(are_common, 1.0, cosines)


def open_ours(settings: dict[str, Any]) -> Vectors:
    """Load the Maskwright text encoder, with mean pooling of the last layer.

    settings: model, precision, device, max_length, calibration (texts for int8 calibration).
    """
    from ..api import make_int8
    from ..hub.folders import load_model
    from ..inference.embed import TextEncoder
    from ..inference.ready import place

    model, _ = load_model(settings["model"])
    placed = place(model, settings["device"], settings["precision"])
    encoder = TextEncoder(placed, max_length=settings["max_length"])
    make_int8(placed, settings["calibration"], encoder.max_length)
    return encoder.vectors


def open_peer(settings: dict[str, Any]) -> Vectors:
    """Load the same encoder with transformers: fast tokenizer, batches sorted by length, fused attention."""
    import torch

    library = import_module(PEER)
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[settings["precision"]]
    tokenizer = library.AutoTokenizer.from_pretrained(settings["model"])
    model = library.AutoModel.from_pretrained(settings["model"], dtype=dtype, attn_implementation="sdpa")
    model = model.eval().to(settings["device"])

    @torch.inference_mode()
    def vectors(texts: Sequence[str]) -> np.ndarray:
        """Return embeddings in the order of the texts: float32 [texts, hidden]."""
        ids = tokenizer(list(texts), truncation=True, max_length=settings["max_length"])["input_ids"]
        order = sorted(range(len(ids)), key=lambda index: len(ids[index]))
        found = np.empty((len(ids), model.config.hidden_size), dtype=np.float32)
        for begin in range(0, len(order), PEER_BATCH_SIZE):
            rows = order[begin : begin + PEER_BATCH_SIZE]
            batch = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt")
            batch = {name: values.to(settings["device"]) for name, values in batch.items()}
            hidden = model(**batch).last_hidden_state.float()  # [batch, seq, hidden]
            mask = batch["attention_mask"].unsqueeze(-1)  # [batch, seq, 1]
            found[rows] = ((hidden * mask).sum(1) / mask.sum(1)).cpu().numpy()  # [batch, hidden]
        return found

    return vectors


def main() -> None:
    """Serve the backend that the command line names."""
    import torch

    from ..core.progress import set_quiet

    set_quiet(True)
    torch.set_grad_enabled(False)
    TimedEncoder(open_peer if sys.argv[1] == PEER else open_ours).serve()


if __name__ == "__main__":
    main()
