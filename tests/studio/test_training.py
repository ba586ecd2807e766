"""Runs and trainings of the studio: files are capped and read by the readers alone, nothing leads out of the folder, a
training run is a process that stops and resumes.
"""

import json
import os
import stat
import time
from pathlib import Path

import pytest

from maskwright.core.config import read_toml, settings_of
from maskwright.report.page import bundle, digest
from maskwright.train.finetuning.config import FinetuneConfig
from maskwright.train.run import RunFolder
from studio.models import write_masked
from studio.serving import Served, serving
from train.runs import labeled
from web_client import Answer

GOOD = b"text\tlabel\n" + b"the cat sat\tanimal\nthe river rose\tplace\n" * 12


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("studio")
    (folder / "secret").mkdir()
    (folder / "secret" / "config.toml").write_text('task = "classification"\n', encoding="utf-8")
    (folder / "secret" / "report.html").write_text("SECRET", encoding="utf-8")
    (folder / "secret.tsv").write_text("text\tlabel\nSECRET\tx\n", encoding="utf-8")
    (folder / "runs").mkdir()
    (folder / "runs" / "link").symlink_to(folder / "secret")
    with serving(folder / "runs", write_masked(folder / "masked")) as found:
        yield found


def send(served: Served, data: bytes, ending: str = ".tsv") -> Answer:
    headers = {"Cookie": served.cookie, "Origin": served.origin}
    return served.request("POST", f"/api/train/upload?ending={ending}", data, headers)


def upload(served: Served, data: bytes) -> str:
    answer = send(served, data)
    assert answer.status == 200, answer.body
    return answer.json()["file"]


def begin(served: Served, name: str, file: str, **changes) -> None:
    asked = {"name": name, "model": "masked", "task": "classification", "file": file, "max_length": 32, **changes}
    answer = served.post("/api/train/start", asked)
    assert answer.status == 200, answer.body


def watch(served: Served, name: str, until, seconds: float = 240) -> dict:
    """The run, asked for again and again until it is as wanted."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        run = served.post("/api/train/watch", {"name": name}).json()["run"]
        if until(run):
            return run
        time.sleep(0.1)
    pytest.fail(f"{name} stays as {run['state']}: {run['lines']}")


def test_a_file_is_kept_and_described(served):
    name = upload(served, GOOD)
    assert upload(served, GOOD) == name
    path = served.studio.runs / ".studio" / "uploads" / name
    assert path.read_bytes() == GOOD and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (path.parent, path.parent.parent)] == [0o700, 0o700]
    found = served.post("/api/train/check", {"file": name, "task": "classification"}).json()
    assert found["rows"] == 24 and found["labels"] == [["animal", 12], ["place", 12]]
    assert found["first"][0] == ["the cat sat", "", "animal"]


def test_every_bad_row_is_listed_and_may_be_left_out(served):
    name = upload(served, GOOD + b"\tanimal\nno label\t\n")
    answer = served.post("/api/train/check", {"file": name, "task": "classification"})
    assert answer.status == 422 and [row["line"] for row in answer.json()["rows"]] == [26, 27]
    assert str(served.studio.runs) not in answer.body.decode()
    found = served.post("/api/train/check", {"file": name, "task": "classification", "skip_bad_rows": True}).json()
    assert (found["rows"], found["skipped"]) == (24, 2)


@pytest.mark.parametrize("task", ["regression", "tagging", "qa", "choice", "anomaly", "generation", "translation"])
def test_a_file_for_another_task_is_refused_or_read_in_words(served, task):
    answer = served.post("/api/train/check", {"file": upload(served, GOOD), "task": task})
    assert answer.status in (200, 422)
    assert "internal" not in answer.body.decode() and str(served.studio.runs) not in answer.body.decode()


@pytest.mark.parametrize(
    "ending", ["", ".exe", ".gz", ".tsv.gz", ".zst", ".parquet", ".py", "/../../x.tsv", ".TSV%00", "tsv"]
)
def test_other_endings_are_refused(served, ending):
    assert send(served, GOOD, ending).status == 422


def test_an_upload_beyond_the_cap_is_refused_and_nothing_is_kept(served, monkeypatch):
    import maskwright.studio.views.runs as view

    monkeypatch.setattr(view, "FILE_BYTES", 1000)
    before = set((served.studio.runs / ".studio").rglob("*"))
    assert send(served, b"a" * 1001).status == 413
    assert set((served.studio.runs / ".studio").rglob("*")) == before


OUTSIDE = [
    "..",
    ".",
    "",
    "/",
    "../secret",
    "link",
    "../runs/../secret",
    "/etc",
    "a/../../secret",
    "secret\x00",
    "..\\secret",
]


@pytest.mark.parametrize("name", OUTSIDE)
def test_no_name_of_a_run_leads_out_of_the_folder(served, name):
    for path in ("/api/train/resume", "/api/train/open", "/api/train/watch", "/api/train/stop"):
        answer = served.post(path, {"name": name})
        assert answer.status in (404, 422), path
        assert b"SECRET" not in answer.body
    assert served.post("/api/runs", {"names": [name]}).status in (404, 422)
    asked = {"name": name, "model": "masked", "task": "classification", "file": upload(served, GOOD)}
    assert served.post("/api/train/start", asked).status == 422


@pytest.mark.parametrize(
    "file", ["../secret.tsv", "../../secret.tsv", "/etc/passwd", "link", "", "0" * 16 + ".tsv", "a.tsv"]
)
def test_no_name_of_a_file_leads_out_of_the_folder(served, file):
    answer = served.post("/api/train/check", {"file": file, "task": "classification"})
    assert answer.status == 404 and b"SECRET" not in answer.body


@pytest.mark.parametrize("name", ["link", "..%2fsecret", "%2e%2e/secret", "../secret", "link/", "//secret", "%00"])
def test_no_address_of_a_report_leads_out_of_the_folder(served, name):
    answer = served.get(f"/report/{name}")
    assert answer.status in (404, 422) and b"SECRET" not in answer.body


def test_the_recipe_of_a_training_is_private(served, monkeypatch):
    """In a folder of an earlier version, which anyone could read."""
    folder = served.studio.runs / ".studio"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    monkeypatch.setattr(served.studio.jobs, "start", lambda name, words: None)
    begin(served, "private", upload(served, GOOD))
    mode = (folder / "private.toml").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600 and stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_links_are_not_listed(served):
    assert "link" not in [run["name"] for run in served.get("/api/runs").json()["runs"]]


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": 0},
        {"lr": 0.0},
        {"lr": 2.0},
        {"batch_size": -1},
        {"model": "../masked"},
        {"model": "/etc"},
        {"task": "pretrain"},
        {"columns": "text"},
        {"columns": "text=nothing"},
        {"name": "a b"},
        {"name": "-x"},
        {"name": "a" * 65},
        {"more": 1},
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_begins(served, changes):
    asked = {"name": "never", "model": "masked", "task": "classification", "file": upload(served, GOOD), **changes}
    assert served.post("/api/train/start", asked).status in (404, 422)
    assert not (served.studio.runs / "never").exists() and served.studio.jobs.get("never") is None


def test_the_form_has_the_settings_of_each_task_with_their_help_and_default(served):
    found = served.get("/api/train/form").json()
    assert found["models"]["masked"][0] == "classification" and "translation" not in found["models"]["masked"]
    for task, own in found["tasks"].items():
        for one in own["settings"]:
            setting = settings_of(FinetuneConfig)[one["name"]]
            assert one["help"] == setting.help and setting.is_for(task) and one["default"] and one["label"], one
    crf = {task for task, own in found["tasks"].items() if "crf" in [one["name"] for one in own["settings"]]}
    assert crf == {"tagging"}


def test_any_setting_of_the_form_reaches_the_recipe(served, monkeypatch):
    monkeypatch.setattr(served.studio.jobs, "start", lambda name, words: None)
    begin(served, "chosen", upload(served, GOOD), schedule="cosine", class_weight="balanced", weight_decay=0.1)
    recipe = read_toml(served.studio.runs / ".studio" / "chosen.toml")
    assert (recipe["schedule"], recipe["class_weight"], recipe["weight_decay"]) == ("cosine", "balanced", 0.1)


@pytest.mark.slow
def test_a_training_runs_in_its_own_process_and_its_model_is_opened(served, tmp_path):
    file = upload(served, labeled(tmp_path / "rows.tsv", 60, 1).read_bytes())
    begin(served, "first", file, epochs=2, batch_size=8)
    job = served.studio.jobs.get("first")
    assert job is not None and job.process.pid != os.getpid()
    again = {"name": "first", "model": "masked", "task": "classification", "file": file}
    assert served.post("/api/train/start", again).status == 422
    run = watch(served, "first", lambda run: run["state"] == "finished")
    own = json.loads(json.dumps(RunFolder(served.studio.runs / "first" / "seed-0", {}).records()))
    numbers = [{name: value for name, value in record.items() if not isinstance(value, list)} for record in own]
    assert run["curves"]["seed-0"] == numbers  # without the memory of each process
    assert run["main"]["name"] == "accuracy" and run["has_report"] and run["exit"] in (None, 0)
    report = served.get("/report/first")
    assert report.status == 200 and b"first" in report.body
    policy = report.headers["content-security-policy"]
    assert "sandbox allow-scripts" in policy and "default-src 'none'" in policy
    assert digest(bundle("report.js")) in policy and policy.count("sha256-") == 1
    assert served.get("/classify").status == 404
    assert served.post("/api/train/open", {"name": "first"}).json() == {"model": "first"}
    assert served.get("/classify").status == 200
    answer = served.post("/api/classify", {"model": "first", "text": "the old cat was here"}).json()
    from maskwright.api import open_predictor

    expected = open_predictor(served.studio.runs / "first" / "model", device="cpu", precision="fp32")
    probabilities = expected.predict(["the old cat was here"])[0]["probabilities"]
    assert answer["answer"]["probabilities"] == pytest.approx(probabilities)


@pytest.mark.slow
def test_a_training_stops_saves_and_goes_on_to_the_same_end(served, tmp_path):
    file = upload(served, labeled(tmp_path / "rows.tsv", 400, 2).read_bytes())
    settings = {"epochs": 6, "batch_size": 4}
    begin(served, "stopped", file, **settings)
    watch(served, "stopped", lambda run: any(record.get("loss") for record in run["curves"].get("seed-0", [])))
    assert served.post("/api/train/stop", {"name": "stopped"}).status == 200
    run = watch(served, "stopped", lambda run: run["state"] == "unfinished")
    assert run["exit"] == 130 and list((served.studio.runs / "stopped" / "seed-0" / "checkpoints").iterdir())
    assert served.post("/api/train/stop", {"name": "stopped"}).status == 422
    assert served.post("/api/train/resume", {"name": "stopped"}).status == 200
    watch(served, "stopped", lambda run: run["state"] == "finished")
    begin(served, "straight", file, **settings)
    watch(served, "straight", lambda run: run["state"] == "finished")
    weights = [
        (served.studio.runs / name / "model" / "model.safetensors").read_bytes() for name in ("stopped", "straight")
    ]
    assert weights[0] == weights[1] and served.post("/api/train/resume", {"name": "straight"}).status == 422


@pytest.mark.slow
def test_errors_of_the_process_are_reported(served, tmp_path):
    """A name that is free when asked and holds something else when the process comes to it."""
    file = upload(served, GOOD)
    begin(served, "late", file, epochs=1)
    (served.studio.runs / "late").mkdir(exist_ok=True)
    (served.studio.runs / "late" / "foreign.txt").write_text("x", encoding="utf-8")
    run = watch(served, "late", lambda run: run["state"] != "running")
    assert run["exit"] == 2 and any("error:" in line for line in run["lines"])


def test_a_port_that_is_taken_is_said_in_words(refused, served, tmp_path):
    refused(
        f"Port {served.port} cannot be used", "studio", "--no-browser", "--port", served.port, "--runs", Path(tmp_path)
    )
