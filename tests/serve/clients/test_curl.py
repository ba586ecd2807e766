"""curl against the server."""

from __future__ import annotations

import json
import shutil
import subprocess
import time

import pytest

from serve.server_process import READY_SECONDS, start
from serve.small_models import write_models

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed"),
]


def curl(*words: str) -> tuple[int, str]:
    """Status and body."""
    command = ["curl", "--silent", "--show-error", "--max-time", "60", "--write-out", "\n%{http_code}", *words]
    body, _, status = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rpartition("\n")
    return int(status), body


def test_requests_of_the_manual(server):
    status, body = curl(f"{server.url}/embed", "--json", '{"inputs": ["a", "b"]}')
    assert status == 200 and len(json.loads(body)) == 2
    status, body = curl(f"{server.url}/predict", "--json", '{"inputs": "dogs chase cats"}')
    assert status == 200 and json.loads(body)[0]["label"] in ("animal", "place", "=1+1")
    status, body = curl(f"{server.url}/v1/completions", "--json", '{"prompt": "the", "max_tokens": 3, "stream": true}')
    assert status == 200 and body.startswith("data: {") and body.rstrip().endswith("data: [DONE]")


def test_a_form_is_rejected_with_a_sentence(server):
    status, body = curl(f"{server.url}/embed", "--data", '{"inputs": "a"}')
    assert status == 415 and "application/json" in json.loads(body)["error"]


def test_a_body_in_parts(server):
    chunked = ["--header", "Transfer-Encoding: chunked", "--header", "Expect:"]
    assert curl(f"{server.url}/embed", *chunked, "--json", '{"inputs": "a"}')[0] == 200


def test_a_unix_socket(tmp_path):
    path = tmp_path / "s"
    server = start(tmp_path, *write_models(tmp_path, "vectors"), "--uds", path)
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not path.exists() and server.is_alive and time.monotonic() < deadline:
            time.sleep(0.05)
        assert path.exists(), server.text()
        assert path.stat().st_mode & 0o777 == 0o600
        retry = ["--retry", "60", "--retry-delay", "1", "--retry-all-errors"]
        assert curl("--unix-socket", str(path), "http://localhost/embed", *retry, "--json", '{"inputs": "a"}')[0] == 200
    finally:
        server.process.kill()
        server.process.wait(30)
