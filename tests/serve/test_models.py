"""Which models are served: adapters on one base, and settings from a file."""

from __future__ import annotations

import numpy as np
import pytest

from maskwright import api
from maskwright.core.errors import ConfigError
from maskwright.serve.settings import ServeSettings, read_settings
from serve.in_thread import serving

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
