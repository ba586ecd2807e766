"""How the studio is opened: no key where other users can read it, and no model twice."""

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'studio' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'studio' is not installed")

from maskwright.core.errors import ModelFolderError
from maskwright.studio.app import redirect_file
from maskwright.studio.model_registry import load_models
from studio.models import write_masked

# What a desktop starts as its browser: it notes its command line and what it was given, as another user could see them.
BROWSER = """#!{python}
import json, os, stat, sys
from pathlib import Path
page = Path(sys.argv[1].removeprefix("file://"))
modes = {{"file": page.stat().st_mode, "folder": page.parent.stat().st_mode}}
found = {{"words": sys.argv[1:], "page": page.read_text(), **modes}}
Path({told!r} + ".new").write_text(json.dumps(found))
os.rename({told!r} + ".new", {told!r})
"""


def status(address: str) -> int:
    host, _, path = address.removeprefix("http://").partition("/")
    connection = HTTPConnection(host, timeout=30)
    connection.request("GET", f"/{path}")
    return connection.getresponse().status


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_the_command_starts_the_browser_with_a_private_file_whose_key_works_once_and_ends_by_a_signal(tmp_path):
    browser, told = tmp_path / "browser", tmp_path / "told.json"
    browser.write_text(BROWSER.format(python=sys.executable, told=str(told)), encoding="utf-8")
    browser.chmod(0o755)
    # A shell lets background processes ignore Ctrl-C, and children inherit that.
    start = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "runpy.run_module('maskwright', run_name='__main__', alter_sys=True)"
    words = [sys.executable, "-c", start, "studio", "--port", "0", "--runs", str(tmp_path / "runs"), "--json"]
    environment = {**os.environ, "BROWSER": f"{browser} %s"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            assert process.stdout is not None
            printed = json.loads(process.stdout.readline())["address"]
            host = printed.split("/")[2]
            end = time.monotonic() + 120
            while True:  # the studio listens before it starts the browser, and answers once that has returned
                try:
                    assert status(f"http://{host}/") == 403
                    break
                except ConnectionError:
                    assert time.monotonic() < end and process.poll() is None
                    time.sleep(0.05)
            found = json.loads(told.read_text(encoding="utf-8"))
            (link,) = re.findall(r'href="([^"]*)"', found["page"])
            assert status(link) == 303
            assert status(link) == 403, "the key works twice"
            assert status(printed) == 303, "the printed address has a separate key"
        finally:
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors
    later = json.loads(rest.splitlines()[-1])["address"]  # for the next browser
    assert later.startswith(f"http://{host}/?key=") and later not in (printed, link)
    assert link.startswith(f"http://{host}/?key=") and link != printed
    assert "key" not in " ".join(found["words"]) and found["words"][0].startswith("file://")
    assert stat.S_IMODE(found["file"]) == 0o600 and stat.S_IMODE(found["folder"]) == 0o700
    assert not Path(found["words"][0].removeprefix("file://")).exists(), "the file outlives the studio"


def test_the_file_is_gone_when_the_studio_ends_and_holds_its_address_as_text():
    with redirect_file('http://127.0.0.1:1/?key="><script>') as path:
        text = path.read_text(encoding="utf-8")
        assert "<script>" not in text and text.count("&quot;&gt;&lt;script&gt;") == 2
    assert not path.parent.exists()


@pytest.mark.parametrize("other", ["cls", "cls/.", "./cls", "cls//", "cls/../cls", "{folder}/cls", "link"])
def test_two_spellings_of_a_folder_are_one_model(tmp_path, monkeypatch, other):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cls").mkdir()
    (tmp_path / "link").symlink_to("cls")
    with pytest.raises(ModelFolderError, match="are the same model: pass it once"):
        load_models(["cls", other.format(folder=tmp_path)], "cpu", "fp32")


@pytest.mark.parametrize("spelling", ["cls/.", "./cls", "cls//"])
def test_a_spelling_is_not_part_of_a_name(tmp_path, monkeypatch, spelling):
    monkeypatch.chdir(tmp_path)
    write_masked(tmp_path / "cls")
    assert [one.name for one in load_models([spelling], "cpu", "fp32")] == ["cls"]
