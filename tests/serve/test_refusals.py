"""Requests that are rejected: status, form of the body, and the reason in the metrics."""

import asyncio
import contextlib
import gc
import json
import re
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from conventions.sources import REPOSITORY
from maskwright.core.errors import ConfigError
from maskwright.serve import service, worker
from maskwright.serve.settings import ServeSettings
from serve.in_thread import serving
from web_client import until

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/embed", b"{", 400, "JSON"),
        ("/embed", b'{"inputs": "\\ud800"}', 400, "JSON"),
        ("/embed", b"[" * 100_000, 400, "JSON"),
        ("/embed", b'{"a":' * 50_000, 400, "JSON"),
        ("/embed", b'{"inputs": "\xff"}', 400, "JSON"),
        ("/embed", b"", 400, "JSON"),
        ("/embed", b"null", 422, "request"),
        ("/embed", b'{"inputs": NaN}', 422, "inputs"),
        ("/embed", {"inputs": [[]]}, 422, "inputs"),
        ("/embed", {"inputs": "a", "truncate": "yes"}, 422, "truncate"),
        ("/embed", {"inputs": []}, 400, "inputs"),
        ("/embed", {"inputs": ""}, 400, "inputs"),
        ("/embed", {"inputs": 3}, 422, "inputs"),
        ("/embed", {"inputs": "a", "dimensions": 0}, 422, "dimensions"),
        ("/embed", {"inputs": "a", "dimensions": 4096}, 422, "dimensions"),
        ("/embed", {"inputs": "a", "unknown": 1}, 422, "unknown"),
        ("/embed", {"inputs": ["a"] * 1025}, 413, "1,024"),
        ("/embed", {"inputs": "a" * 2_000_001}, 413, "bytes"),
        ("/v1/embeddings", {"input": 3}, 400, "input"),
        ("/v1/embeddings", {"input": [101, 102]}, 400, "check_embedding_ctx_length"),
        ("/v1/embeddings", {"input": "a", "model": "absent"}, 404, "absent"),
        ("/v1/completions", {"prompt": "a", "model": "vectors"}, 400, "/embed"),
        ("/models/absent/embed", {"inputs": "a"}, 404, "absent"),
        ("/models/..%2f..%2fetc/embed", {"inputs": "a"}, 404, "model"),
        ("/models/vectors/tag", {"inputs": "a"}, 424, "/embed"),
        ("/models/vectors/predict", {"inputs": "a"}, 424, "/embed"),
        ("/models/topics/fill-mask", {"inputs": "a"}, 424, "/predict"),
        ("/models/writer/answer", {"inputs": {"question": "a", "context": "b"}}, 424, "/generate"),
        ("/absent", {}, 404, "route"),
        ("/health", {}, 405, "method"),
        ("/fill-mask", {"inputs": "no mask"}, 422, "[MASK]"),
        ("/decode", {"ids": [10**6]}, 422, "ids"),
    ],
)
def test_refusals_say_what_is_wrong(served, path, body, status, word):
    found = served.post(path, body)
    assert found.status == status
    content = found.json()
    sentence = content["error"]["message"] if path.startswith("/v1") else content["error"]
    assert word in sentence and sentence.endswith(".") and found.headers["x-request-id"]


def test_an_endless_body_is_cut_off(served):
    part, sent, found = b"10000\r\n" + b"a" * 65536 + b"\r\n", 0, b""
    with served.connect() as one, contextlib.suppress(OSError):
        one.sendall(b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        while sent < 50_000_000:
            one.sendall(part)
            sent += 65536
        found = one.recv(65536)
    assert sent < 50_000_000 or found.startswith(b"HTTP/1.1 413 ")


def test_another_content_type_is_refused(served):
    assert served.request("POST", "/embed", b"inputs=a", {"Content-Type": "text/plain"}).status == 415


def test_foreign_hosts_and_origins_are_refused(served):
    assert served.get("/info", Host="evil.example").status == 421
    assert served.post("/embed", {"inputs": "a"}, Origin="https://evil.example").status == 403
    assert served.post("/embed", {"inputs": "a"}, Origin="null").status == 403
    assert served.post("/embed", {"inputs": "a"}, Origin=f"http://127.0.0.1:{served.port}").status == 200


def test_request_ids_and_traces(served):
    assert served.get("/health", X_Request_Id="mine-1").headers["x-request-id"] == "mine-1"
    assert served.get("/health", X_Request_Id="bad id {}").headers["x-request-id"] != "bad id {}"


def test_metrics_count_what_clients_see(served):
    before = served.metric("maskwright_requests_total", 'route="/embed"')
    texts = served.metric("maskwright_texts_total")
    for _ in range(3):
        assert served.post("/embed", {"inputs": ["a", "b"]}).status == 200
    assert served.metric("maskwright_requests_total", 'route="/embed"') == before + 3
    assert served.metric("maskwright_texts_total") == texts + 6
    assert 'maskwright_refused_total{reason="queue_full"} ' in served.get("/metrics").body.decode()
    used = set()  # by the dashboard and the autoscaling of deploy/
    for name in ("grafana.json", "kubernetes.yaml"):
        used |= set(re.findall(r"\b(?:maskwright|process)_\w+", (REPOSITORY / "deploy" / name).read_text("utf-8")))
    assert len(used) > 15 and used <= {name.partition("{")[0] for name in served.metrics()}


def test_a_header_that_is_too_large_is_counted(served):
    before = served.metric("maskwright_refused_total", "header")
    assert served.get("/health", X="a" * 16_500).status == 431
    assert served.metric("maskwright_refused_total", "header") == before + 1
    assert served.metric("maskwright_requests_total", 'status="431"') >= 1


def test_a_deadline_in_the_past_is_no_work(served):
    found = served.post("/embed", {"inputs": "a"}, X_Request_Timeout="0.000001")
    assert found.status in (429, 504)


def test_keys(models, tmp_path, capfd):
    keys = tmp_path / "keys"
    keys.write_text("# comment\none:first-secret\n\ntwo:second-secret\n", encoding="utf-8")
    with serving(model=(f"vectors={models['vectors']}",), api_key_file=keys) as server:
        for secret in ("first-secret", "second-secret"):
            assert server.post("/embed", {"inputs": "planted text"}, Authorization=f"Bearer {secret}").status == 200
        for wrong in ("Bearer third", "first-secret", "Basic first-secret", "Bearer "):
            found = server.post("/embed", {"inputs": "a"}, Authorization=wrong)
            assert found.status == 401 and found.headers["www-authenticate"] == "Bearer"
        assert server.get("/health").status == server.get("/ready").status == 200
        assert server.get("/metrics").status == 401
        assert server.get("/health", Host="10.0.0.7:8080").status == 200
        keys.write_text("three:third-secret\n", encoding="utf-8")
        server.service.keys.reload()
        assert server.post("/embed", {"inputs": "a"}, Authorization="Bearer third-secret").status == 200
        assert server.post("/embed", {"inputs": "a"}, Authorization="Bearer first-secret").status == 401
    log = capfd.readouterr().err
    assert '"key":"one"' in log and "secret" not in log and "planted" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert {line["status"] for line in lines} >= {200, 401}


@pytest.mark.parametrize(
    "wrong",
    [
        {"host": "0.0.0.0"},
        {"model": ("a",)},
        {"model": ("a=x", "a=y")},
        {"model": ("a b=x",)},
        {"tls_cert": "cert.pem"},
        {"precision": "int8"},
        {"max_length": {"absent": 128}},
        {"timeout": 0.0},
        {"api_key": " "},
    ],
)
def test_settings_that_do_not_go_together(wrong):
    with pytest.raises(ConfigError):
        ServeSettings(**wrong)


def test_a_dead_worker_is_unhealthy(models):
    with serving(model=(f"vectors={models['vectors']}",), access_log=False) as server:
        assert server.get("/health").status == 200
        server.service.worker.stop()
        start = time.monotonic()
        assert server.get("/health").status == 503 and server.get("/ready").status == 503
        assert time.monotonic() - start < 15 and server.metric("maskwright_worker_up") == 0


def test_a_hung_worker_is_unhealthy_until_it_goes_on(models, monkeypatch):
    """/health turns 503 as soon as a pack takes too long, and so do requests, old and new."""
    monkeypatch.setattr(worker, "HUNG_SECONDS", 0.3)
    with serving(model=(f"vectors={models['vectors']}",), access_log=False) as server:
        go_on = threading.Event()
        monkeypatch.setattr(server.service.worker, "on_pack", lambda done: go_on.wait(120))
        statuses = []
        waiting = threading.Thread(
            target=lambda: statuses.append(server.post("/embed", {"inputs": "a"}).status), daemon=True
        )
        start = time.monotonic()
        waiting.start()
        until(lambda: server.get("/health").status == 503)
        assert time.monotonic() - start < 15, "long before the pack ends"
        waiting.join(30)
        assert statuses == [503]
        late = server.post("/embed", {"inputs": "a"})
        assert late.status == 503 and int(late.headers["retry-after"]) >= 1
        assert server.metric("maskwright_worker_up") == 0
        go_on.set()
        until(lambda: server.get("/health").status == 200)
        assert server.post("/embed", {"inputs": "a"}).status == 200


@pytest.mark.compatibility(
    "torch 2.13.0",
    theirs="Once two threads used several cores, OpenMP's threads sleep after each operator: 1.5 to 2 times slower",
    ours="One thread of the server loads the models and computes",
)
def test_the_thread_that_loads_the_models_computes(models, monkeypatch):
    threads, load_served, run_pack = [], service.load_served, worker.run_pack

    def spied(function):
        return lambda *given: threads.append(threading.get_ident()) or function(*given)

    monkeypatch.setattr(service, "load_served", spied(load_served))
    monkeypatch.setattr(worker, "run_pack", spied(run_pack))
    with serving(model=(f"vectors={models['vectors']}",), access_log=False) as server:
        assert server.post("/embed", {"inputs": "a"}).status == 200
    assert len(threads) == 2 and len(set(threads)) == 1


def test_a_stop_while_the_models_load_waits_for_the_thread(models, monkeypatch):
    """A thread that is left in torch at the end of the process aborts it."""
    begun, go_on, errors, load = threading.Event(), threading.Event(), [], service.load_served
    monkeypatch.setattr(threading, "excepthook", errors.append)
    monkeypatch.setattr(service, "load_served", lambda settings: (begun.set(), go_on.wait(30), load(settings))[-1])

    async def stopped():
        one = service.Service(ServeSettings(model=(f"vectors={models['vectors']}",), access_log=False))
        one.start()
        await asyncio.to_thread(begun.wait, 30)
        asyncio.get_running_loop().call_later(0.2, go_on.set)
        await one.stop()
        return one

    one = asyncio.run(stopped())
    assert one.worker.loaded.done() and not one.worker.is_up and not errors


def test_a_request_at_fault_fails_alone(models, monkeypatch):
    """Of 32 requests, 8 at a time in packs that they share, those with a text of 5 tokens fail.

    Their tensors leave at once: a GPU that had no memory for a pack needs it for the next one.
    """
    run_pack, tensors = worker.run_pack, []

    def faulty(forward, items):
        if any(ticket.lengths[index] == 5 for ticket, index in items):
            states = torch.zeros(1000)
            tensors.append(weakref.ref(states))
            raise ValueError("planted")
        return run_pack(forward, items)

    monkeypatch.setattr(worker, "run_pack", faulty)
    texts = ["a a a", "a", "a a a a", "the cat sat on the mat"] * 8
    with serving(model=(f"vectors={models['vectors']}",), access_log=False) as server, ThreadPoolExecutor(8) as pool:
        gc.disable()
        try:
            statuses = list(pool.map(lambda text: server.post("/embed", {"inputs": text}).status, texts))
            until(lambda: not any(one() is not None for one in tensors))
        finally:
            gc.enable()
    assert statuses == [500 if text == "a a a" else 200 for text in texts] and len(tensors) >= 8


def test_requests_whose_client_left_the_queue_are_not_computed(models, monkeypatch):
    """40 clients leave 10 ms after their request, while the worker is busy: at most 2 of them are computed."""
    body = json.dumps({"inputs": "the cat sat"})
    head = f"POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    with serving(model=(f"vectors={models['vectors']}",), access_log=False) as server:
        go_on, packs = threading.Event(), []
        monkeypatch.setattr(server.service.worker, "on_pack", lambda done: packs.append(done) or go_on.wait(120))
        busy = threading.Thread(target=lambda: server.post("/embed", {"inputs": "a"}), daemon=True)
        busy.start()
        until(lambda: packs)
        for _ in range(40):
            with server.connect() as one:
                one.sendall(f"{head}\r\n\r\n{body}".encode())
                time.sleep(0.01)
        until(lambda: server.metric("maskwright_abandoned_total") >= 38)
        go_on.set()
        busy.join(30)
        until(lambda: server.metric("maskwright_queued_requests") == 0)
        assert sum(done.num_sequences for done in packs) <= 1 + 2


@pytest.mark.parametrize("named", [False, True])
def test_a_full_queue_refuses_before_the_body_is_read(models, monkeypatch, named):
    with serving(model=(f"vectors={models['vectors']}",), access_log=False) as server:
        path = "/models/vectors/embed" if named else "/embed"
        route = "/models/{name}/embed" if named else "/embed"
        monkeypatch.setattr(server.service.admission, "queued", lambda: (512, 4.0))
        with server.connect() as one:
            head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
            one.sendall(head.encode())
            found = b""
            while not found.endswith(b"}"):  # the header and the body may arrive apart
                found += one.recv(4096)
            assert found.startswith(b"HTTP/1.1 429 ") and b"\r\nretry-after: " in found
            one.sendall(b"a" * 100 + head.encode())  # the connection stays usable
            assert one.recv(4096).startswith(b"HTTP/1.1 429 ")
        assert server.get("/health").status == server.get("/ready").status == server.get("/info").status == 200
        assert server.post("/absent", {}).status == 404
        assert server.metric("maskwright_requests_total", f'route="{route}",status="429"') == 2
        assert server.metric("maskwright_refused_total", "queue_full") == 2


def test_more_tokens_than_the_queue_holds_are_refused_though_the_texts_looked_short(models):
    """A long context becomes many windows."""
    with serving(model=(f"answers={models['answers']}",), access_log=False) as server:
        server.service.admission.most_seconds = 1e9
        object.__setattr__(server.service.settings, "max_queue_seconds", 0.001)
        asked = {"inputs": {"question": "who ?", "context": "ada met charles . " * 500}}
        found = server.post("/answer", asked)
        assert found.status == 413 and "tokens" in found.json()["error"]


def test_too_many_pairs_of_text_and_label(served):
    asked = {"inputs": [["a"]] * 500, "labels": [f"label {number}" for number in range(20)]}
    found = served.post("/models/entails/predict", asked)
    assert found.status == 413 and "pairs" in found.json()["error"]


def test_draining_refuses_new_work(models):
    with serving(model=(f"vectors={models['vectors']}",), access_log=False) as server:
        server.service.drain()
        found = server.post("/embed", {"inputs": "a"})
        assert found.status == 503 and found.headers["connection"] == "close" and int(found.headers["retry-after"]) >= 1
        assert server.get("/ready").status == 503 and server.get("/health").status == 200
