"""The examples of docs/how-to/serve-clients.md run against a server with the models that the page names."""

from __future__ import annotations

import subprocess

import pytest

from documents.given import write_files, write_models
from documents.test_snippets import blocks_of
from serve.server_process import running

pytest.importorskip("openai", reason="the test extra installs openai")

pytestmark = pytest.mark.slow
PAGE, ADDRESS = "how-to/serve-clients", "http://127.0.0.1:8080"
MODELS = {"search": "minilm", "topics": "runs/b/model", "reader": "runs/a/model", "gpt": "runs/gpt/model"}


def test_the_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path)
    write_models(tmp_path)
    options = [word for name, folder in MODELS.items() for word in ("--model", f"{name}={tmp_path / folder}")]
    blocks = blocks_of(PAGE)
    assert " ".join(f"--model {name}={folder}" for name, folder in MODELS.items()) in blocks[0].text
    with running(*options) as server:
        for block in blocks:
            if block.reason:
                continue  # LangChain and LlamaIndex: test_frameworks.py
            text = block.text.replace(ADDRESS, server.url)
            if block.language == "python":
                exec(compile(text, f"{PAGE}.md", "exec"), {})
            else:
                done = subprocess.run(["sh", "-e", "-c", text], capture_output=True, text=True, check=False)
                assert done.returncode == 0, f"{text}\n{done.stderr}"
