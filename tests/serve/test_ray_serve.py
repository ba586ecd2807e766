"""The server on Ray: settings as text, an application that is up once its models are, and two real replicas."""

from __future__ import annotations

import json
import os
from urllib.request import Request, urlopen

import pytest

from maskwright.core.errors import ConfigError, MaskwrightError
from maskwright.serve.ray_serve import application, build, settings_of
from maskwright.serve.service import READY
from serve.fuzzing import GOOD
from serve.server_process import free_port
from serve.small_models import write_models
from web_client import run_async


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Options of `maskwright serve` with a model of each kind."""
    words = write_models(tmp_path_factory.mktemp("models"))
    return ",".join(word for word in words if word != "--model")


def test_settings_come_as_text():
    found = settings_of({"models": "a,b", "threads": "2", "access_log": "false", "precision": "fp32", "timeout": "2.5"})
    assert found.models == ("a", "b") and found.threads == 2 and found.timeout == 2.5 and not found.access_log


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"port": "80"}, "Ray's proxies"),
        ({"modles": "a"}, "modles"),
        ({"threads": "many"}, "threads"),
    ],
)
def test_wrong_settings_are_named(options, said):
    with pytest.raises(ConfigError, match=said):
        settings_of(options)


def test_it_is_up_once_its_models_are_loaded(folders):
    app = application(settings_of({"model": folders, "precision": "fp32", "access_log": False}))

    async def phase() -> str:
        async with app.router.lifespan_context(app):
            return app.state.service.phase

    assert run_async(phase()) == READY


def test_a_model_that_cannot_be_loaded_ends_the_start(tmp_path):
    app = application(settings_of({"models": str(tmp_path)}))

    async def start() -> None:
        async with app.router.lifespan_context(app):
            pass

    with pytest.raises(MaskwrightError):
        run_async(start())


@pytest.mark.slow
def test_two_replicas_answer(folders, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra 'scale' is not installed")
    serve = pytest.importorskip("ray.serve", reason="the extra 'scale' is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": os.environ["PYTHONPATH"]}})
    port = free_port()
    try:
        with pytest.raises(ConfigError, match="replicas"):
            build({"replicas": "0"})
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(build({"model": folders, "replicas": "2", "cpus": "0.5", "precision": "fp32"}))
        body = json.dumps(GOOD).encode()
        headers = {"Content-Type": "application/json"}
        found = [
            json.loads(urlopen(Request(f"http://127.0.0.1:{port}/embed", body, headers), timeout=60).read())
            for _ in range(6)
        ]
        assert len(found[0]) == 2 and all(one == found[0] for one in found)
    finally:
        serve.shutdown()
        ray.shutdown()
