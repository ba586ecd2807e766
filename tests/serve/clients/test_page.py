"""The commands and programs of docs/how-to/serve.md and serve-clients.md run, with the servers that they start."""

import re
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

import maskwright as mw
from documents.given import write_files, write_models
from documents.test_snippets import blocks_of
from serve.server_process import ServerProcess, running

pytestmark = pytest.mark.slow
ADDRESS = re.compile(r"(localhost|127\.0\.0\.1):8080")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("served")
    write_files(found)
    write_models(found)
    for name, head, labels in (("tickets", "classification", ["Billing", "Other"]), ("ner", "tagging", ["O", "B-PER"])):
        base = mw.load(found / "minilm")
        model = mw.build(base.config, head, labels=labels, seed=1)
        model.tokenizer = base.tokenizer
        model.save(found / "runs" / name / "model")
    return found


@pytest.mark.parametrize("page", ["how-to/serve", "how-to/serve-clients"])
def test_the_examples_run(page: str, folder: Path, monkeypatch: pytest.MonkeyPatch):
    if page == "how-to/serve-clients":
        pytest.importorskip("openai", reason="the test extra installs openai")
    monkeypatch.chdir(folder)
    commands = 0
    with ExitStack() as stack:
        server: ServerProcess | None = None
        for block in blocks_of(page):
            if block.reason:
                continue  # LangChain and LlamaIndex: test_frameworks.py
            if block.language == "python":
                assert server is not None
                exec(compile(ADDRESS.sub(f"127.0.0.1:{server.port}", block.text), f"{page}.md", "exec"), {})
                continue
            for line in block.text.replace("\\\n", " ").splitlines():
                commands += 1
                if line.startswith("maskwright serve"):
                    stack.close()
                    server = stack.enter_context(running(*map(_absolute, shlex.split(line)[2:])))
                else:
                    assert server is not None
                    own = ADDRESS.sub(f"127.0.0.1:{server.port}", line)
                    done = subprocess.run(own, shell=True, capture_output=True, text=True, check=False)
                    assert done.returncode == 0 and '"error"' not in done.stdout, f"{line}\n{done.stdout}{done.stderr}"
    assert commands >= 4


def _absolute(word: str) -> str:
    """An option with its folder as an absolute path, because the server runs in another folder."""
    name, equals, place = word.rpartition("=")
    return f"{name}{equals}{Path(place).resolve()}" if Path(place).is_dir() else word
