"""Settings of a server from a file, and the server on Ray."""

import json
import os
from urllib.request import Request, urlopen

import numpy as np
import pytest

from maskwright import api
from maskwright.core.errors import ConfigError, MaskwrightError
from maskwright.serve.ray_serve import application, build, settings_of
from maskwright.serve.service import READY
from maskwright.serve.settings import ServeSettings, read_settings
from serve.fuzzing import GOOD
from serve.in_thread import serving
from serve.server_process import free_port
from serve.small_models import write_models
from web_client import run_async

HERE = {"device": "cpu", "precision": "fp32"}
TEXT = "the cat sat on the mat ."


def test_a_file_of_settings_with_several_models(models, tmp_path):
    file = tmp_path / "serve.toml"
    entries = "".join(
        f'[[serve.model]]\nname = "{name}"\nfolder = "{models[own]}"\n{more}'
        for name, own, more in (("a", "vectors", "max_length = 8\n"), ("b", "topics", ""))
    )
    file.write_text(f"[serve]\nmax_texts = 3\naccess_log = false\n{entries}", encoding="utf-8")
    chosen = read_settings(file, {"max_texts": 2})
    given = {name: getattr(chosen, name) for name in ("model", "max_length", "max_texts", "access_log")}
    assert given["max_texts"] == 2 and chosen.max_length == {"a": 8}
    with serving(**given) as server:
        assert server.post("/embed", {"inputs": ["a"] * 3}).status == 413
        assert server.post("/predict", {"inputs": TEXT}).status == 200
        cut = server.post("/models/a/embed", {"inputs": TEXT * 3})
        assert cut.headers["x-truncated-texts"] == "1"
        short = api.open_embedder(models["vectors"], max_length=8, normalize=True, **HERE).vectors([TEXT * 3])
        assert np.abs(np.array(cut.json()) - short).max() < 1e-5
        assert server.get("/info").json()["max_input_length"] == 8


def test_settings_survive_their_file(tmp_path):
    import tomli_w

    chosen = ServeSettings(model=("a=b",), max_length={"a": 8}, port=0, timeout=2.5, allowed_host=("x",))
    file = tmp_path / "serve.toml"
    file.write_text(tomli_w.dumps(_without_none(chosen.to_recipe())), encoding="utf-8")
    assert read_settings(file, {}) == chosen
    for text in (
        "[server]\nport = 1\n",
        "[serve]\nprot = 1\n",
        '[[serve.model]]\nname = "a"\n',
        "[serve]\nport = 99999\n",
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError):
            read_settings(file, {})


def _without_none(value):
    return {k: _without_none(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    words = write_models(tmp_path_factory.mktemp("models"))
    return ",".join(word for word in words if word != "--model")


def test_settings_come_as_text():
    found = settings_of({"models": "a,b", "threads": "2", "access_log": "false", "precision": "fp32", "timeout": "2.5"})
    assert found.models == ("a", "b") and found.threads == 2 and found.timeout == 2.5 and not found.access_log


@pytest.mark.parametrize(
    ("options", "said"),
    [({"port": "80"}, "Ray's proxies"), ({"modles": "a"}, "modles"), ({"threads": "many"}, "threads")],
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
