"""deploy/ray_serve.py on a local Ray (the extra `scale` has no Ray Serve: `pip install 'ray[serve]'`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from serve.server_process import free_port
from serve.small_models import write_models

PROGRAM = """
import json, sys
from http.client import HTTPConnection
import ray
from ray import serve
sys.path.insert(0, sys.argv[1])
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
from ray_serve import app
serve.run(app)
import time
deadline = time.monotonic() + 120
while True:
    connection = HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
    connection.request("GET", "/ready")
    if connection.getresponse().status == 200:
        break
    assert time.monotonic() < deadline, "no replica became ready"
    time.sleep(0.2)
found = []
for _ in range(20):
    body = json.dumps({"inputs": ["the cat sat"]})
    connection.request("POST", "/embed", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found.append((answer.status, answer.read().decode()))
    connection = HTTPConnection("127.0.0.1", int(sys.argv[2]), timeout=60)
print("answers:", json.dumps(found))
serve.shutdown()
ray.shutdown()
"""


@pytest.mark.slow
def test_replicas_answer_alike(tmp_path: Path):
    if find_spec("ray") is None or find_spec("ray.serve") is None or find_spec("aiohttp_cors") is None:
        pytest.skip("Ray Serve is not installed: pip install 'ray[serve]'")
    _, entry = write_models(tmp_path, "vectors")
    name, _, folder = entry.partition("=")
    config = tmp_path / "serve.toml"
    config.write_text(f'[serve]\nprecision = "fp32"\n[[serve.model]]\nname = "{name}"\nfolder = "{folder}"\n', "utf-8")
    variables = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY / "src"),
        "MASKWRIGHT_SERVE_CONFIG": str(config),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    command = [sys.executable, "-c", PROGRAM, str(REPOSITORY / "deploy"), str(free_port())]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = (one for one in done.stdout.splitlines() if one.startswith("answers: "))
    answers = json.loads(line.removeprefix("answers: "))
    assert {status for status, _ in answers} == {200}
    assert len({body for _, body in answers}) == 1
