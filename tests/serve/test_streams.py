"""Streams of generation: several at once, and clients that leave."""

import json
import threading
from http.client import HTTPConnection

import pytest

from maskwright import api
from maskwright.inference.generate import Generation
from maskwright.models.decoding.rules import Rules
from serve.in_thread import serving
from web_client import until

HERE = {"device": "cpu", "precision": "fp32"}
LONG = 20_000  # tokens of a stream that outlasts every test


@pytest.fixture(scope="module")
def server(models):
    names = ("writer", "vectors")
    with serving(model=tuple(f"{n}={models[n]}" for n in names), access_log=False, max_new_tokens=LONG) as found:
        yield found


def generation_request(prompt: str, tokens: int, **more) -> dict:
    return {"model": "writer", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "stream": True, **more}


def open_stream(server, body: dict) -> HTTPConnection:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    return connection


def text_of(data: bytes) -> str:
    lines = [line.removeprefix("data: ") for line in data.decode().split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return "".join(json.loads(line)["choices"][0]["text"] for line in lines[:-1])


def test_many_streams_at_once_are_those_of_the_library(server, models):
    prompts = ["the cat", "a", "where does the river rise ?", "dogs chase", "ada lovelace met", "the the the"]
    lengths = [5, 90, 30, 60, 17, 45]
    found: dict[int, str] = {}

    def run(number: int) -> None:
        connection = open_stream(server, generation_request(prompts[number], lengths[number]))
        found[number] = text_of(connection.getresponse().read())
        connection.close()

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(prompts))]
    for one in threads:
        one.start()
    assert server.post("/embed", {"inputs": "the cat sat"}).status == 200
    for one in threads:
        one.join(60)
    generator = api.open_generator(models["writer"], **HERE)
    for number, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
        settings = Generation(max_new_tokens=length, rules=Rules(greedy=True))
        assert found[number] == generator.generate([prompt], settings)[0][0].text


def test_a_short_stream_does_not_wait_for_a_long_one(server):
    long = open_stream(server, generation_request("the cat", LONG))
    response = long.getresponse()
    assert response.readline().startswith(b"data: ")
    short = server.post("/v1/completions", generation_request("a", 3))
    assert text_of(short.body) and server.post("/embed", {"inputs": "the cat sat"}).status == 200
    assert server.service.worker.num_rows == 1, "the long stream still runs"
    response.close()
    long.close()
    until(lambda: server.service.worker.num_rows == 0)


@pytest.mark.parametrize("reads", [True, False], ids=["after the first event", "at once"])
def test_a_client_that_leaves_ends_its_stream(server, reads):
    before = server.metric("maskwright_abandoned_total")
    connection = open_stream(server, generation_request("the cat", 1000))
    if reads:
        connection.getresponse().readline()
    connection.sock.close()
    connection.close()
    until(lambda: server.service.worker.num_rows == 0 and server.service.num_active == 0)
    until(lambda: server.metric("maskwright_abandoned_total") == before + 1)


def test_a_stream_ends_at_its_deadline_with_an_error(server):
    found = server.post("/v1/completions", generation_request("the cat", 1000), x_request_timeout="0.05")
    if found.status == 200:  # it had begun
        last = [line for line in found.body.decode().split("\n\n") if line][-1]
        assert "deadline" in json.loads(last.removeprefix("data: "))["error"]["message"]
    else:
        assert found.status in (429, 504)
    until(lambda: server.service.worker.num_rows == 0)


def test_more_texts_than_fit_are_refused(server):
    opened = [open_stream(server, generation_request("the cat", 1000)) for _ in range(80)]
    statuses = []
    for one in opened:
        response = one.getresponse()
        statuses.append(response.status)
        if response.status == 429:
            assert int(response.headers["retry-after"]) >= 1
    assert statuses.count(200) >= 64 and set(statuses) == {200, 429}
    for one in opened:
        one.close()
    until(lambda: server.service.worker.num_rows == 0)
