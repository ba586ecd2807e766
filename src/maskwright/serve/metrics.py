"""Prometheus metrics. All exist at 0 from the start, so that a rate over them is right from the first request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics
from prometheus_client.exposition import generate_latest

from .refusals import REASONS

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
        """Returns the exposition format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str, labels: Sequence[str] = ()) -> Counter:
        return Counter(f"maskwright_{name}", about, labels, registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: Sequence[float] = SECONDS) -> Histogram:
        return Histogram(f"maskwright_{name}", about, buckets=buckets, registry=self.registry)
