"""What the routes use: loaded models, reached through admission, a queue and the inference thread.

event loop: admission -> text threads: prepare -> queue -> inference thread: compute -> text threads: finish
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from torch import Tensor

from ..core.errors import InputError, MaskwrightError
from ..http.model_registry import LoadedModel
from ..inference.prepared import Prepared
from ..models.model import Model
from ..tasks.examples import Forward
from ..text.tokenizers.encoding import TextCounts
from .batcher import CHARACTERS_PER_SECOND, Admission, Reservation, tokens_of_characters
from .metrics import OTHER, Metrics, RequestLog
from .models import ServedModels, load_served
from .request_context import (
    ApiKeys,
    Exchange,
    Refused,
    checked,
    disconnected,
    next_event,
    result_of,
    retry_after,
    too_large,
    unanswered,
    wrong_value,
)
from .settings import ServeSettings
from .worker import END, SMALLEST, Computation, Done, Speed, Stream, Worker, measure

Result = TypeVar("Result")
TEXT_THREADS = 2  # the tokenizer releases the interpreter lock
# Characters and texts of a request, and numbers of its outputs: up to these, the way to a text thread is more work.
SHORT_CHARACTERS, FEW_NUMBERS = 500, 4096
LONG_CHARACTERS = 100_000  # requests with more are tokenized in a separate thread, so that others need not wait
BULK_TEXTS = 32  # a request with more texts waits for shorter ones
MOST_ROWS = 64  # texts that are generated at the same time, each with its cache of keys and values
SPLITTING = ("answer", "tag")  # abilities of models that read long texts in windows
WATCH_SECONDS = 0.1
LOADING, READY, DRAINING, FAILED = "loading", "ready", "draining", "failed"
FRESH = 0.1  # weight of the newest pack in the measured speed


class Service:
    """State of one server. Construct it before the event loop, `start` it inside.

    Attributes:
        phase: LOADING, READY, DRAINING or FAILED.
        failure: Why loading failed.
        on_loaded: Called in the loading thread before the server is ready.
    """

    def __init__(self, settings: ServeSettings) -> None:
        self.settings = settings
        self.keys = ApiKeys(settings.api_key, settings.api_key_file)
        self.metrics = Metrics()
        self.log = RequestLog() if settings.access_log else None
        self.models = ServedModels([])
        self.phase = LOADING
        self.failure: Exception | None = None
        self.on_loaded: Callable[[], None] = lambda: None
        self.worker = Worker(self._load_all, self._budget, self._on_pack)
        self.admission = Admission(settings.max_queued_requests, settings.max_queue_seconds, self._queued)
        self.num_active = 0  # requests that the routes compute
        self.routes: frozenset[str] = frozenset()
        self.endpoints: Mapping[tuple[str, str], Callable[[Request], Awaitable[Response]]] = {}  # by method and path
        self._speeds: dict[int, Speed] = {}  # by id of the model
        self._texts = ThreadPoolExecutor(TEXT_THREADS, thread_name_prefix="maskwright-text")
        self._long_texts = ThreadPoolExecutor(1, thread_name_prefix="maskwright-long-text")
        self._calls: set[Computation | Stream] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self.metrics.watch(
            lambda: self.admission.waiting[0], lambda: self.worker.batcher.num_tokens, lambda: self.is_healthy
        )

    # -- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts loading in the background. Called in the event loop."""
        self.worker.start()
        self._tasks = [asyncio.create_task(self._load()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self.worker.stop)
        self._texts.shutdown(wait=False, cancel_futures=True)
        self._long_texts.shutdown(wait=False, cancel_futures=True)
        self.close()

    def close(self) -> None:
        if self.log is not None:
            self.log.close()

    @property
    def is_healthy(self) -> bool:
        return self.worker.is_up and self.phase != FAILED

    def drain(self) -> None:
        """From now on, new work is rejected."""
        self.phase = DRAINING

    async def idle(self) -> None:
        """Returns when all admitted requests are answered."""
        while self.num_active:
            await asyncio.sleep(0.02)

    async def _load(self) -> None:
        try:
            await asyncio.shield(asyncio.wrap_future(self.worker.loaded))
        except Exception as error:
            self.phase, self.failure = FAILED, error
            return
        self.metrics.expect(self.routes, self.models.names)
        if self.phase == LOADING:
            self.phase = READY

    def _load_all(self) -> None:
        models = load_served(self.settings)
        for served in models:
            self._speeds[id(served.model)] = measure(served.model, self.settings.batch_tokens)
        self.models = models
        self.on_loaded()

    async def _watch(self) -> None:
        """Measures the lag of the event loop, and fails what waits for a dead worker."""
        while True:
            start = time.monotonic()
            await asyncio.sleep(WATCH_SECONDS)
            self.metrics.loop_lag_seconds.observe(max(0.0, time.monotonic() - start - WATCH_SECONDS))
            if not self.worker.is_up:
                for call in list(self._calls):
                    if not call.done.done():
                        call.done.set_exception(unanswered())

    # -- speed -------------------------------------------------------------------------------------------------------

    def _budget(self, forward: Forward) -> int:
        speed = self._speeds.get(id(forward.model))
        return SMALLEST if speed is None else speed.batch_tokens

    def _speed(self, model: Model) -> float:
        speed = self._speeds.get(id(model))
        return 1000.0 if speed is None else speed.tokens_per_second

    def _on_pack(self, done: Done) -> None:
        self.metrics.batch_tokens.observe(done.num_tokens)
        known = self._speeds.get(id(done.forward.model))
        if known is not None and done.num_tokens >= known.batch_tokens // 2:  # small packs say little
            now = done.num_tokens / max(done.seconds, 1e-6)
            speed = known.tokens_per_second * (1 - FRESH) + now * FRESH
            self._speeds[id(done.forward.model)] = Speed(speed, known.batch_tokens)

    def speed_of(self, name: str) -> Speed:
        return self._speeds[id(self.models.by_name[name].model)]

    def _queued(self) -> tuple[int, float]:
        batcher = self.worker.batcher
        by_key = list(batcher.tokens_by_key.items())
        seconds = sum(tokens / self._speed(key.model) for key, tokens in by_key if isinstance(key, Forward))
        return batcher.num_requests, seconds

    # -- requests ----------------------------------------------------------------------------------------------------

    def check_ready(self) -> None:
        """Raises Refused (503) while loading or draining."""
        if self.phase == READY:
            if not self.worker.is_up:
                raise unanswered()
            return
        if self.phase == DRAINING:
            raise Refused(503, "not_ready", "The server is shutting down: send the request to another one.", {
                **retry_after(1), "connection": "close",
            })  # fmt: skip
        raise Refused(503, "not_ready", "The models are still loading: send the request again later.", retry_after(1))

    def check_room(self, exchange: Exchange) -> None:
        """Raises Refused (503, 429) if no request is let in now: before its body is read, so that this costs little."""
        self.check_ready()
        self.admission.check(exchange.seconds_left)

    def find(self, exchange: Exchange, ability: str, name: str | None) -> LoadedModel:
        """Returns the model for a route; see `ServedModels.find`. Raises Refused (503) while there is none."""
        self.check_ready()
        model = self.models.find(ability, name)
        exchange.model = model.name
        return model

    async def compute(
        self,
        request: Request,
        exchange: Exchange,
        model: LoadedModel,
        texts: Sequence[str],
        prepare: Callable[[], Prepared[Result]],
        *,
        truncate: bool = True,
        num_items: int | None = None,
    ) -> Result:
        """Answers a request in packs that it shares with others.

        Args:
            texts: All its texts, for the limits.
            prepare: Tokenizes them, in a text thread.
            truncate: Whether too long texts are truncated; otherwise they are an error (413).
            num_items: Number of texts in the sense of the request; default the number of `texts`.

        Raises Refused where it is not admitted, or expires.
        """
        count = len(texts) if num_items is None else num_items
        place, characters = self._enter(exchange, model, texts, count)
        loop = asyncio.get_running_loop()
        call: Computation | None = None
        try:
            with self._active():
                is_short = characters + len(texts) <= SHORT_CHARACTERS
                prepared = await self._in_thread(lambda: self._prepared(prepare), characters, is_short)
                exchange.num_tokens += prepared.counts.tokens
                exchange.num_truncated += prepared.counts.cut_texts
                if not truncate and prepared.counts.cut_texts:
                    raise too_large(
                        f"{prepared.counts.cut_texts} of the texts have more tokens than {model.name} reads, and "
                        "'truncate' is false: send shorter ones."
                    )
                self._check_size(prepared)
                call = Computation(prepared, loop, exchange.client, exchange.is_bulk or count > BULK_TEXTS)
                self.worker.submit(call)
                self.admission.leave(place)
                outputs = await self._wait(request, exchange, call)
                self._note_times(exchange, call)
                return await self._in_thread(lambda: prepared.finish(outputs), is_short=is_short and _are_few(outputs))
        finally:
            self.admission.leave(place)
            if call is not None:
                self.worker.drop(call)

    async def run(
        self,
        request: Request,
        exchange: Exchange,
        texts: Sequence[str],
        steps: Callable[[Callable[[Any], None]], Generator[None, None, Result]],
        num_rows: int = 1,
    ) -> Result:
        """Answers a request in steps of its own, which take turns with packs; the result is that of the generator.

        num_rows: Texts that it generates at the same time.
        """
        stream = self._open(exchange, texts, steps, num_rows)
        try:
            with self._active():
                result: Result = await self._wait(request, exchange, stream)
                self._note_times(exchange, stream)
                return result
        finally:
            stream.is_gone = True

    async def stream(
        self,
        request: Request,
        exchange: Exchange,
        texts: Sequence[str],
        steps: Callable[[Callable[[Any], None]], Generator[None, None, Any]],
    ) -> AsyncGenerator[Any, None]:
        """Yields what the generator emits, while it runs. Closing the iterator ends the generator.

        Until the first event it watches the connection; from then on, whoever sends the events has to.
        """
        stream = self._open(exchange, texts, steps, 1)
        gone: asyncio.Task[None] | None = asyncio.ensure_future(disconnected(request))
        try:
            with self._active():
                while True:
                    event = await next_event(stream, exchange, gone, self.worker)
                    if gone is not None:
                        gone.cancel()
                        gone = None
                    if event is END:
                        break
                    yield event
                checked(stream)
                self._note_times(exchange, stream)
        except (GeneratorExit, asyncio.CancelledError):
            exchange.is_abandoned = not stream.is_finished
            raise
        finally:
            if gone is not None:
                gone.cancel()
            stream.is_gone = True

    async def in_text_thread(
        self, exchange: Exchange, model: LoadedModel, texts: Sequence[str], function: Callable[[], Result]
    ) -> Result:
        """Answers a request that needs no model, such as tokenization."""
        place, characters = self._enter(exchange, model, texts, len(texts))
        try:
            with self._active():
                return await self._in_thread(function, characters)
        finally:
            self.admission.leave(place)

    # -- private -----------------------------------------------------------------------------------------------------

    def _check_count(self, exchange: Exchange, count: int) -> None:
        exchange.num_texts = count
        if count > self.settings.max_texts:
            raise too_large(f"The request has {count:,} texts; at most {self.settings.max_texts:,} are allowed.")

    def _enter(
        self, exchange: Exchange, model: LoadedModel, texts: Sequence[str], count: int
    ) -> tuple[Reservation, int]:
        """Returns the place of an admitted request, and the characters of its texts."""
        self._check_count(exchange, count)
        longest = None if model.kind.can(*SPLITTING) else model.model.config.max_position_embeddings
        characters = sum(map(len, texts))
        tokens = tokens_of_characters(characters, len(texts), longest)
        seconds = tokens / self._speed(model.model) + characters / CHARACTERS_PER_SECOND
        return self.admission.enter(seconds, exchange.seconds_left), characters

    def _check_size(self, prepared: Prepared[Any]) -> None:
        """Raises Refused (413) for more work than the queue holds, which may show only in the tokens."""
        tokens = sum(map(len, prepared.examples.input_ids))
        seconds, most = tokens / self._speed(prepared.forward.model), self.settings.max_queue_seconds
        if seconds > most and tokens > self._budget(prepared.forward):
            raise too_large(
                f"The request has {tokens:,} tokens, about {seconds:.0f} seconds of work, and the queue holds "
                f"{most:g}: send fewer or shorter texts at a time."
            )

    def _open(self, exchange: Exchange, texts: Sequence[str], steps: Any, num_rows: int) -> Stream:
        self._check_count(exchange, len(texts))
        running = self.worker.num_rows
        if running and running + num_rows > MOST_ROWS:
            raise Refused(
                429,
                "queue_full",
                f"{running} texts are being generated, and this server allows {MOST_ROWS}: send it again later.",
                retry_after(1),
            )
        stream = Stream(steps, asyncio.get_running_loop(), num_rows)
        self.worker.submit_stream(stream)
        return stream

    @contextmanager
    def _active(self) -> Generator[None, None, None]:
        self.num_active += 1
        try:
            yield
        finally:
            self.num_active -= 1

    async def _in_thread(self, function: Callable[[], Result], characters: int = 0, is_short: bool = False) -> Result:
        """Runs a function in a text thread, or here if it is short. Raises Refused for a wrong request."""
        threads = self._long_texts if characters > LONG_CHARACTERS else self._texts
        try:
            if is_short:
                return function()
            return await asyncio.get_running_loop().run_in_executor(threads, function)
        except (InputError, MaskwrightError) as error:
            raise wrong_value(str(error)) from None

    async def _wait(self, request: Request, exchange: Exchange, call: Any) -> Any:
        self._calls.add(call)
        try:
            return await result_of(call, request, exchange)
        finally:
            self._calls.discard(call)

    def _prepared(self, prepare: Callable[[], Prepared[Result]]) -> Prepared[Result]:
        """Tokenizes and counts, in a text thread."""
        start = time.monotonic()
        prepared = prepare()
        counts: TextCounts = prepared.counts
        metrics = self.metrics
        metrics.tokenize_seconds.observe(time.monotonic() - start)
        metrics.tokens.inc(counts.tokens)
        metrics.texts.inc(counts.texts)
        metrics.truncated_texts.inc(counts.cut_texts)
        metrics.unknown_tokens.inc(counts.unknown_tokens)
        for ids in prepared.examples.input_ids:
            metrics.text_tokens.observe(len(ids))
        return prepared

    def _note_times(self, exchange: Exchange, call: Computation | Stream) -> None:
        exchange.queue_seconds += call.queue_seconds
        exchange.inference_seconds += call.inference_seconds
        self.metrics.queue_seconds.observe(call.queue_seconds)
        self.metrics.inference_seconds.observe(call.inference_seconds)

    def on_reject(self, status: int) -> None:
        """Counts a request that was rejected by its size or the number of connections, before the application."""
        self.metrics.requests.labels(OTHER, "", str(status)).inc()
        self.metrics.refused.labels("header" if status == 431 else "queue_full").inc()


def _are_few(outputs: Sequence[Any]) -> bool:
    """Whether the outputs are a few numbers; those of sparse embeddings are pairs, and count as many."""
    return all(isinstance(one, Tensor) for one in outputs) and sum(one.numel() for one in outputs) <= FEW_NUMBERS
