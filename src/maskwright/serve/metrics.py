"""Prometheus metrics. All exist at 0 from the start, so that a rate over them is right from the first request."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TextIO

import orjson
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import generate_latest

from ..core.progress import warn
from .request_context import REASONS, Exchange

# -- One JSON line for each request on standard error. A line never contains text, query or key ----------------------
#
# A thread writes, so a slow reader of the log cannot delay requests; beyond a limit lines are dropped and counted.


MOST_LINES = 10_000
GATHER_SECONDS = 0.05  # lines of this time are written at once: a thread that wakes for each would delay the others


class RequestLog:
    """Writes lines in the background. stream: None for standard error."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self._lines: deque[str] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="maskwright-log", daemon=True)
        self._thread.start()

    def write(self, entry: Mapping[str, Any]) -> None:
        line = orjson.dumps(entry).decode()
        with self._changed:
            if len(self._lines) >= MOST_LINES:
                self._dropped += 1
                return
            self._lines.append(line)
            if len(self._lines) == 1:
                self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._stopping.set()
            self._changed.notify()
        self._thread.join(2.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._stopping.is_set():
                    self._changed.wait()
            self._stopping.wait(GATHER_SECONDS)
            with self._changed:
                lines, dropped = list(self._lines), self._dropped
                self._lines.clear()
                self._dropped = 0
                stopping = self._stopping.is_set()
            if dropped:
                lines.append(orjson.dumps({"dropped_lines": dropped}).decode())
            if lines:
                stream = self.stream or sys.stderr
                try:
                    stream.write("\n".join(lines) + "\n")
                    stream.flush()
                except (OSError, ValueError):
                    return  # a closed standard error must not end the server
            if stopping:
                return


def warn_of(exchange: Exchange, error: Exception) -> None:
    """Reports a fault of ours, without a text of the request."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" in {place.tb_frame.f_code.co_qualname}, line {place.tb_lineno}"
    warn(f"serve: request {exchange.id}: {type(error).__name__}{where}")


SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
TOKENS = (1, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 65536)
OTHER = "other"  # route of a request that no route answers
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters and histograms of one server, in a separate registry."""

    def __init__(self) -> None:
        disable_created_metrics()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU time, open files
        self.requests = self._counter("requests", "Requests by route, model and status.", ("route", "model", "status"))
        self.request_seconds = self._histogram("request_seconds", "Time from the header to the response.")
        self.tokenize_seconds = self._histogram("tokenize_seconds", "Time to tokenize a request.")
        self.queue_seconds = self._histogram("queue_seconds", "Time that a request waits for the model.")
        self.inference_seconds = self._histogram("inference_seconds", "Time that the model computes for a request.")
        self.batch_tokens = self._histogram("batch_tokens", "Tokens of a pack.", TOKENS)
        self.text_tokens = self._histogram("text_tokens", "Tokens of a text.", TOKENS)
        self.loop_lag_seconds = self._histogram("loop_lag_seconds", "Delay of the event loop.")
        self.tokens = self._counter("tokens", "Tokens of all texts.")
        self.texts = self._counter("texts", "Texts of all requests.")
        self.truncated_texts = self._counter("truncated_texts", "Texts that were truncated.")
        self.unknown_tokens = self._counter("unknown_tokens", "Tokens that the vocabulary does not have.")
        self.refused = self._counter("refused", "Refused requests by reason.", ("reason",))
        self.abandoned = self._counter("abandoned", "Requests whose client left before the result.")
        for reason in REASONS:
            self.refused.labels(reason)

    def watch(
        self, queued_requests: Callable[[], int], queued_tokens: Callable[[], int], up: Callable[[], bool]
    ) -> None:
        """Adds the gauges, which are read when the metrics are."""
        for name, about, read in (
            ("queued_requests", "Requests that wait for the model.", queued_requests),
            ("queued_tokens", "Tokens that wait for the model.", queued_tokens),
            ("worker_up", "1 while the inference thread works.", up),
        ):
            gauge = Gauge(f"maskwright_{name}", about, registry=self.registry)
            gauge.set_function(lambda read=read: float(read()))  # type: ignore[misc]  # bound per gauge

    def expect(self, routes: Iterable[str], models: Iterable[str]) -> None:
        """Makes the request counters of these routes and models exist."""
        names = ["", *models]
        for route in routes:
            for name in names:
                self.requests.labels(route, name, "200")

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"maskwright_{name}", about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: Sequence[float] = SECONDS) -> Histogram:
        return Histogram(f"maskwright_{name}", about, buckets=buckets, registry=self.registry)
