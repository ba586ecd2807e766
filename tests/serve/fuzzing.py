"""Hostile requests against a running server: from its OpenAPI schema, and as mutated bytes.

The tests send some hundreds, benchmarks/reliability as many as it is asked for.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable

from serve.server_process import ServerProcess

GOOD = {"inputs": ["the cat sat", "rain"]}
SKIPPED = ("/docs", "/openapi.json", "/metrics")  # no input
# Requests that are changed byte by byte: route and body.
SEEDS: list[tuple[str, Any]] = [
    ("/embed", GOOD),
    ("/embed_all", {"inputs": "the cat"}),
    ("/embed_sparse", {"inputs": "the cat"}),
    ("/predict", {"inputs": [["a"], ["a", "b"]], "raw_scores": True}),
    ("/rerank", {"query": "cat", "texts": ["a cat", "rain"], "return_text": True}),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": ["b", "c"]}}),
    ("/tokenize", {"inputs": "x", "add_special_tokens": True}),
    ("/decode", {"ids": [5, 6], "skip_special_tokens": True}),
    ("/v1/embeddings", {"input": ["a", "b"], "model": "vectors", "encoding_format": "base64", "dimensions": 4}),
    ("/v1/completions", {"model": "writer", "prompt": "the", "max_tokens": 2}),
    ("/v1/completions", {"model": "writer", "prompt": "the", "max_tokens": 2, "stream": True}),
    ("/models/topics", {"inputs": "x", "parameters": {"top_k": 2}}),
    ("/models/names", {"inputs": "ada met charles", "parameters": {"aggregation_strategy": "simple"}}),
    ("/fill-mask", {"inputs": "the [MASK] sat", "parameters": {"top_k": 2, "targets": ["cat"]}}),
    ("/tag", {"inputs": "ada met charles"}),
    ("/answer", {"inputs": {"question": "who ?", "context": "ada met charles"}}),
    ("/translate", {"inputs": "the cat"}),
    ("/generate", {"inputs": "the", "parameters": {"max_new_tokens": 2}}),
    ("/attention", {"inputs": "the cat", "layers": [0], "heads": [0]}),
]
BYTES = [
    *(b"\x00", b"\xff", b"\r\n", b"\n", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"%00", b"\xed\xa0\x80"),
    *(b"\\ud800", b"NaN", b"-Infinity", b"1e999", b"-1", b"null", b"true", b"9" * 400, b"[" * 5000, b"a" * 20_000),
    *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: x\r\n", b"Expect: 100-continue\r\n"),
    *(b"Upgrade: websocket\r\nConnection: Upgrade\r\n", b"Connection: close\r\n", b"GET", b"HTTP/9.9", b"/../..", b";"),
]
WORTH: list[Any] = [
    *(None, True, -1, 0, 1e308, 2**63, "", "a", "\u0000", "😀" * 50, "[MASK]", [], {}, [[]], [None], [1], ["a", 1]),
    *([["a", "b", "c"]], {"a": {"a": {}}}, "x" * 5000, ["a"] * 300, [-1], [2**40], "cls", "\u202e\u0301"),
]


@dataclass
class FuzzResults:
    """What came of requests. statuses: count by status, 0 for a closed connection; failures: what must not happen."""

    statuses: Counter[int] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, status: int, request: str) -> None:
        self.statuses[status] += 1
        if status >= 500:
            self.failures.append(f"{status}: {request[:300]}")

    @property
    def count(self) -> int:
        return self.statuses.total()


def from_schema(server: ServerProcess, count: int, number: int = 0) -> FuzzResults:
    """Send `count` requests from the server's OpenAPI schema, half of them valid by it. number: random seed."""
    import schemathesis
    from schemathesis import GenerationMode

    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [one.ok() for one in schema.get_all_operations()]
    operations = [one for one in operations if one.path not in SKIPPED]
    kinds = [(one, mode) for one in operations for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)]
    found = FuzzResults()
    for operation, mode in kinds:
        free = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
        with_bound = settings(max_examples=max(1, -(-count // len(kinds))), phases=[Phase.generate], **free)

        def send(case: Any) -> None:
            response = case.call(timeout=60)
            found.add(response.status_code, f"{case.method} {case.path} {case.body!r} {case.query!r}")

        try:
            with_bound(seed(number)(given(operation.as_strategy(generation_mode=mode))(send)))()
        except Unsatisfiable:
            continue  # an operation without input has no invalid one
    return found


def request(path: str, body: bytes, headers: bytes = b"") -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    )
    return head.encode() + headers + b"Connection: close\r\n\r\n" + body


def mutated(rng: random.Random) -> bytes:
    """A request that was valid: other values in its JSON, other bytes in its body, or other bytes anywhere."""
    path, body = rng.choice(SEEDS)
    kind = rng.randrange(3)
    if kind == 0:
        return request(path, json.dumps(changed(body, rng)).encode())
    data = json.dumps(body).encode()
    if kind == 1:
        return request(path, bent(data, rng))
    return bent(request(path, data), rng)


def changed(value: Any, rng: random.Random) -> Any:
    if isinstance(value, dict) and value and rng.random() < 0.8:
        key = rng.choice(list(value))
        kind = rng.randrange(6)
        if kind == 0:
            return {name: one for name, one in value.items() if name != key}
        if kind == 1:
            return {
                **value,
                rng.choice(["x", "__proto__", "inputs", "model", "parameters", "stream"]): rng.choice(WORTH),
            }
        return {**value, key: changed(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.5:
        place = rng.randrange(len(value))
        return [*value[:place], changed(value[place], rng), *value[place + 1 :]]
    return rng.choice(WORTH)


def bent(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(data) + 1)
        end = min(len(data), place + rng.randint(1, 30))
        kind = rng.randrange(5)
        if kind == 0:
            data = data[:place] + rng.choice(BYTES) + data[place:]
        elif kind == 1:
            data = data[:place] + data[end:]
        elif kind == 2 and place < len(data):
            data = data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]
        elif kind == 3:
            data = data[:end] + data[place:end] * rng.randint(1, 50) + data[end:]
        elif kind == 4 and len(data) > 1:
            data = data[: max(1, place)]
    return data


def raw_mutations(server: ServerProcess, count: int, rng: random.Random) -> FuzzResults:
    """Send `count` mutated requests, each on its own connection."""
    found = FuzzResults()
    for _ in range(count):
        data = mutated(rng)
        for status in statuses(server.raw(data)) or [0]:
            found.add(status, repr(data))
    return found


def statuses(data: bytes) -> list[int]:
    """The status of each response in what a connection returned; bodies have no status lines."""
    lines = (line for line in data.split(b"\r\n") if line.startswith(b"HTTP/1.1 "))
    return [int(line[9:12]) for line in lines if line[9:12].isdigit()]


def check_health(server: ServerProcess, found: FuzzResults, is_right: Callable[[Any], bool]) -> None:
    """Add a failure if the process ended, or if the next valid request is not answered as expected."""
    if not server.is_alive:
        found.failures.append(f"the process ended: {server.text()[-2000:]}")
        return
    answer = server.post("/embed", GOOD)
    if answer.status != 200 or not is_right(answer.json()):
        found.failures.append(f"a valid request got {answer.status}: {answer.body[:300]!r}")
