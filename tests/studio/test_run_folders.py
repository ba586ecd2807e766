"""What one damaged folder does to the list of runs: one row with its error, and nothing to the others."""

import json

import pytest

from maskwright.core.locking import lock
from studio.serving import serving

RECIPE = 'task = "classification"\n'
DEEP_JSON = '{"mean": ' + "[" * 100_000 + "]" * 100_000 + "}"
UNREADABLE = {
    "result cut off": {"result.json": '{"mean": {"acc'},
    "result too deep": {"result.json": DEEP_JSON},
    "facts cut off": {"run.json": "{"},
    "settings too deep": {"config.toml": "a = " + "[" * 5000 + "]" * 5000},
    "settings not TOML": {"config.toml": "task ="},
    "settings not UTF-8": {"config.toml": b"task = '\xff'"},
}
ODD = {
    "result a list": {"result.json": "[1, 2]"},
    "figures that are none": {"result.json": '{"main_metric": ["a"], "mean": {"a": {"b": [[]]}}}'},
    "a main figure that is a list": {"result.json": '{"main_metric": "a", "mean": {"a": [[[]]]}}'},
    "facts a list": {"run.json": "[]"},
    "a beginning that is a number": {"run.json": '{"started": 3}'},
    "a task that is a table": {"config.toml": "[task]\na = 1\n"},
    "a date": {"config.toml": RECIPE + "a = 1979-05-27\nb = [12:00:00]\n"},
    "not a number": {"result.json": '{"main_metric": "a", "mean": {"a": NaN}}'},
    "a log of anything": {"metrics.jsonl": '{"step": "a"}\n{"step": 1, "x": NaN}\n{"x": [{}]}\n3\n' + "[" * 100_000},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    for name, files in {"good": {}, **UNREADABLE, **ODD}.items():
        (runs / "group" / name).mkdir(parents=True)
        for file, content in {"config.toml": RECIPE, **files}.items():
            data = content if isinstance(content, bytes) else content.encode("utf-8")
            (runs / "group" / name / file).write_bytes(data)
    with serving(runs) as found:
        yield found


def test_a_folder_that_cannot_be_read_is_one_row_with_its_error(served):
    answer = served.get("/api/runs")
    assert answer.status == 200
    rows = {run["name"].removeprefix("group/"): run for run in answer.json()["runs"]}
    assert set(rows) == {"good", *UNREADABLE, *ODD}
    assert {name for name, row in rows.items() if "error" in row} == set(UNREADABLE)
    for name, files in UNREADABLE.items():
        assert rows[name]["state"] == "unreadable"
        assert next(iter(files)) in rows[name]["error"] and len(rows[name]["error"]) < 400


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_request_for_it_gets_a_sentence(served, name):
    for path, body in (("/api/runs", {"names": [f"group/{name}"]}), ("/api/train/watch", {"name": f"group/{name}"})):
        answer = served.post(path, body)
        assert answer.status == 422 and next(iter(UNREADABLE[name])) in answer.json()["error"]


@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_but_can_be_read_is_shown(served, name):
    answer = served.post("/api/runs", {"names": [f"group/{name}", "group/good"]})
    assert answer.status == 200 and len(answer.json()["runs"]) == 2


def test_a_folder_of_runs_that_vanishes_or_is_a_file_is_an_empty_list(served, tmp_path, monkeypatch):
    for path in (tmp_path / "nothing", tmp_path / "file"):
        monkeypatch.setattr(served.studio, "runs", path)
        assert served.get("/api/runs").json()["runs"] == []
        (tmp_path / "file").write_text("", encoding="utf-8")


def test_a_folder_that_may_not_be_listed_is_one_row(served, monkeypatch, tmp_path):
    from pathlib import Path

    (tmp_path / "locked" / "inner").mkdir(parents=True)
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "config.toml").write_text(RECIPE, encoding="utf-8")
    listing = Path.iterdir

    def refuse(self):
        if self.name == "locked":
            raise PermissionError(13, "Permission denied", str(self))
        return listing(self)

    monkeypatch.setattr(Path, "iterdir", refuse)
    monkeypatch.setattr(served.studio, "runs", tmp_path)
    rows = {run["name"]: run.get("error", "") for run in served.get("/api/runs").json()["runs"]}
    assert rows["good"] == "" and "Permission denied" in rows["locked"]


def write_run(path, recipe, records, result=None):
    path.mkdir(parents=True)
    (path / "config.toml").write_text(recipe, encoding="utf-8")
    (path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    if result is not None:
        (path / "result.json").write_text(json.dumps(result), encoding="utf-8")


def test_a_run_of_another_process_is_training_with_its_step(served, monkeypatch, tmp_path):
    write_run(tmp_path / "own", 'objective = "mlm"\nsteps = 90\n', [{"step": step, "loss": 1.0} for step in (1, 2, 3)])
    with (tmp_path / "own" / "metrics.jsonl").open("a", encoding="utf-8") as log:
        log.write('{"step": 4, "lo')  # a record that is being written
    monkeypatch.setattr(served.studio, "runs", tmp_path)

    def state():
        run = served.get("/api/runs").json()["runs"][0]
        return run["state"], run["step"], run["steps"]

    assert state() == ("unfinished", 3, 90)
    with lock(tmp_path / "own"):
        assert state() == ("training", 3, 90)
        assert served.post("/api/train/watch", {"name": "own"}).json()["run"]["state"] == "training"
    assert state() == ("unfinished", 3, 90)


def test_a_pretraining_run_has_its_held_out_accuracy_as_result(served, monkeypatch, tmp_path):
    for name, scores in (
        ("masked", {"loss": 4.5, "mlm_loss": 4.5, "mlm_accuracy": 0.3}),
        ("replaced", {"loss": 9.0, "mlm_accuracy": 0.1, "rtd_accuracy": 0.9}),
        ("other", {"loss": 2.0}),
    ):
        write_run(tmp_path / name, 'objective = "mlm"\n', [], {"steps": 6, "scores": scores})
    monkeypatch.setattr(served.studio, "runs", tmp_path)
    found = {run["name"]: run["main"] for run in served.get("/api/runs").json()["runs"]}
    assert found == {
        "masked": {"name": "mlm_accuracy", "value": 0.3},
        "replaced": {"name": "rtd_accuracy", "value": 0.9},
        "other": {"name": "loss", "value": 2.0},
    }
