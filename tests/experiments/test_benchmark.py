"""A benchmark as a user meets it: original files in, every seed trained, numbers as computed by hand."""

from __future__ import annotations

import json
import lzma
import shutil
import statistics
from pathlib import Path

import pytest

from maskwright.api import open_predictor
from maskwright.core import storage
from maskwright.core.errors import ConfigError, MissingFileError, RowErrors, RunError
from maskwright.experiments import benchmark as module
from maskwright.experiments.benchmark import plan_benchmark, run_benchmark
from maskwright.experiments.config import BenchmarkConfig
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.text.tokenizers.tokenizer import Tokenizer
from train import benchmark_data as files


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    """A tiny random encoder with a tokenizer of the words of the files."""
    folder = tmp_path_factory.mktemp("model")
    words = [*files.WORDS, *files.GOOD, *files.BAD, "Anna Bob lives in Rome Oslo now . Where does live ? is It , saw"]
    tokenizer = Tokenizer.train_from_iterator(iter([" ".join(words)] * 3), kind="wordpiece", vocab_size=120)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    found = build(ModelConfig(vocab_size=len(tokenizer), max_position_embeddings=48, **sizes), None, seed=1)
    found.tokenizer = tokenizer
    found.save(folder / "encoder")
    return folder / "encoder"


def bench(benchmark: str, data: Path, model: Path | str, output: Path, **changes) -> BenchmarkConfig:
    settings = {"epochs": 1, "lr": 1e-3, "batch_size": 8, "max_length": 40, "precision": "fp32"}
    own = {"benchmark": benchmark, "data": data, "model": str(model), "output": output}
    return BenchmarkConfig(**{**own, **settings, **changes})


def numbers_of(result) -> dict[str, dict]:
    return {name: number for part in result.facts["parts"] for name, number in part["numbers"].items()}


def part_of(result, name: str) -> dict:
    return next(part for part in result.facts["parts"] if part["name"] == name)


@pytest.fixture(scope="module")
def glue(tmp_path_factory, model: Path):
    root = tmp_path_factory.mktemp("glue")
    files.glue(root / "data")
    config = bench("glue", root / "data", model, root / "run", seeds=2, submission=True)
    return root, config, run_benchmark(config)


def test_the_nine_numbers_and_their_average_are_those_of_the_runs(glue):
    root, _, result = glue
    numbers = numbers_of(result)
    leads = {"MNLI-m": "accuracy", "QQP": "f1", "CoLA": "matthews", "STS-B": "spearman", "MRPC": "f1"}
    assert len(numbers) == 9
    for name, number in numbers.items():
        main = number["metric"]
        assert main == leads.get(name, "accuracy") and number["rows"] == 8
        if name != "MNLI-mm":
            folder = root / "run" / "models" / name.lower().removesuffix("-m")
            every = [json.loads((folder / f"seed-{s}" / "result.json").read_text())["mean"] for s in (0, 1)]
            for metric in set(number) - {"split", "rows", "metric"}:
                values = [one[metric] for one in every]
                assert number[metric]["seeds"] == values
                assert number[metric]["mean"] == pytest.approx(sum(values) / 2)
                assert number[metric]["deviation"] == pytest.approx(statistics.stdev(values))
            assert number[main]["best"] == max(number[main]["seeds"])
    average, leading = result.facts["average"], [number[number["metric"]] for number in numbers.values()]
    assert average["mean"] == pytest.approx(sum(one["mean"] for one in leading) / 9)
    seeds = [sum(one["seeds"][s] for one in leading) / 9 for s in (0, 1)]
    assert average["seeds"] == pytest.approx(seeds) and average["deviation"] == pytest.approx(statistics.stdev(seeds))
    assert average["best"] == pytest.approx(sum(one["best"] for one in leading) / 9)


def test_mismatched_rows_are_scored_by_the_models_that_matched_rows_chose(glue):
    root, _, result = glue
    part, mismatched = part_of(result, "MNLI"), numbers_of(result)["MNLI-mm"]["accuracy"]
    for place, folder in enumerate(part["models"]):
        predictor = open_predictor(folder, precision="fp32")
        rows = predictor.task.read_known(root / "run" / "data" / "mnli" / "dev_mismatched.jsonl").rows
        assert predictor.evaluate(rows)[1].metrics["accuracy"] == pytest.approx(mismatched["seeds"][place])
    assert mismatched["best"] == mismatched["seeds"][part["seeds"].index(part["best_seed"])]
    assert part["facts"]["splits"]["dev"]["without_gold"] == 1


def test_the_leaderboard_gets_a_file_for_each_test_file(glue):
    root, _, result = glue
    submission, part = result.facts["submission"], part_of(result, "RTE")
    made = {Path(path).name for path in submission["files"]}
    assert made == {f"{name}.tsv" for name in "CoLA SST-2 MRPC STS-B QQP MNLI-m MNLI-mm QNLI RTE AX".split()}  # noqa: SIM905
    assert submission["missing"] == ["WNLI"] and set(submission["short"]) == {n[:-4] for n in made}
    lines = (root / "run" / "submission" / "RTE.tsv").read_text().splitlines()
    texts = [line.split("\t")[1:3] for line in (root / "data" / "RTE" / "test.tsv").read_text().splitlines()[1:]]
    best = open_predictor(part["models"][part["best_seed"]], precision="fp32").predict([tuple(pair) for pair in texts])
    assert lines == ["index\tprediction", *(f"{n}\t{answer['label']}" for n, answer in enumerate(best))]


def test_a_finished_benchmark_is_not_run_again(glue, monkeypatch):
    root, config, result = glue
    monkeypatch.setattr(module, "finetune", None)
    again = run_benchmark(config)
    assert again.already_finished and again.facts == result.facts
    with pytest.raises(RunError, match="seeds"):
        run_benchmark(bench("glue", root / "data", config.model, root / "run", seeds=3, submission=True))


@pytest.mark.slow
def test_what_is_finished_is_skipped_after_an_interruption(tmp_path: Path, model: Path, monkeypatch):
    data = files.glue(tmp_path / "data")
    whole = run_benchmark(bench("glue", data, model, tmp_path / "whole", tasks=("rte", "sst2"), seeds=2))
    original, calls = module.finetune, []

    def cut_off(recipe):
        calls.append(recipe)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(recipe)

    config = bench("glue", data, model, tmp_path / "cut", tasks=("rte", "sst2"), seeds=2)
    monkeypatch.setattr(module, "finetune", cut_off)
    with pytest.raises(KeyboardInterrupt):
        run_benchmark(config)
    so_far = storage.read_json(tmp_path / "cut" / "results.json")
    assert [part["name"] for part in so_far["parts"]] == ["SST-2"] and so_far["waiting"] == ["RTE"]
    assert "Not finished yet: RTE" in (tmp_path / "cut" / "table.md").read_text()
    shutil.rmtree(data)
    files.glue(data, rows=20)
    with pytest.raises(RunError, match=r"train\.tsv has changed"):
        run_benchmark(config)
    shutil.rmtree(data)
    files.glue(data)
    assert numbers_of(run_benchmark(config)) == numbers_of(whole) and len(calls) == 5


def test_missing_parts_are_named_and_bad_rows_of_all_files_are_reported_at_once(tmp_path: Path, model: Path):
    data = files.glue(tmp_path / "data")
    shutil.rmtree(data / "QQP")
    (data / "MNLI" / "dev_mismatched.tsv").unlink()
    (data / "CoLA" / "dev.tsv").unlink()
    lines = {name: (data / f"{name}.tsv").read_text() for name in ("RTE/train", "MNLI/dev_matched")}
    for name, line in (("RTE/train", "12\tonly one text"), ("MNLI/dev_matched", "8\ta\tb\tmaybe\tmaybe")):
        (data / f"{name}.tsv").write_text(lines[name] + line + "\n")
    own = {"tasks": ("qqp", "cola", "rte", "mnli"), "max_train_rows": 10}
    with pytest.raises(RowErrors) as caught:
        run_benchmark(bench("glue", data, model, tmp_path / "run", **own))
    assert len(caught.value.rows) == 2 and not (tmp_path / "run").exists()
    result = run_benchmark(bench("glue", data, model, tmp_path / "run", skip_bad_rows=True, **own))
    train = part_of(result, "RTE")["facts"]["splits"]["train"]
    assert (train["rows"], train["rows_in_file"], train["skipped"]) == (10, 12, 1)
    assert set(result.facts["missing"]) == {"QQP", "CoLA", "MNLI-mm"} and result.facts["average"] is None
    assert {"QQP", "CoLA", "MNLI-mm"} < set(result.facts["average_lacks"])
    table = (tmp_path / "run" / "table.md").read_text()
    assert "Average: not available" in table and "CoLA is not measured: its dev file is missing" in table
    assert "10 of 12" in table


@pytest.mark.slow
def test_a_grid_takes_the_best_setting_on_dev(tmp_path: Path, model: Path):
    data, tried = files.glue(tmp_path / "data"), {"grid": True, "epochs": None, "lr": None}
    config = bench("glue", data, model, tmp_path / "run", tasks=("sst-2",), seeds=2, **tried | {"lr": 1e-3})
    assert len(config.points) == 3
    assert len(bench("glue", data, model, tmp_path, **tried, batch_size=None).points) == 18
    part = part_of(run_benchmark(config), "SST-2")
    scores = list(part["tried"].values())
    chosen = config.points[scores.index(max(scores))]  # the first of equals
    assert len(scores) == 3 and part["setting"] == chosen._asdict()
    seeds = part["numbers"]["SST-2"]["accuracy"]["seeds"]
    assert seeds[0] == max(scores) and len(seeds) == 2
    runs = [one for one in (tmp_path / "run/models").rglob("result.json") if (one.parent / "config.toml").exists()]
    assert len(runs) == 4  # the first seed of the choice is one of the three


@pytest.mark.slow
def test_squad_in_its_original_files(tmp_path: Path, model: Path):
    for version, can_refuse in (("1.1", False), ("2.0", True)):
        for seed, (split, count) in enumerate((("train", 12), ("dev", 6))):
            files.squad(tmp_path / "data" / f"{split}-v{version}.json", count, seed, can_refuse)
    numbers = numbers_of(run_benchmark(bench("squad", tmp_path / "data", model, tmp_path / "run")))
    assert set(numbers) == {"SQuAD 1.1", "SQuAD 2.0"}
    assert {"f1", "exact_match", "has_answer_f1", "no_answer_f1"} < set(numbers["SQuAD 2.0"])
    table = (tmp_path / "run" / "table.md").read_text()
    assert "BERT-Large (ensemble+TriviaQA)" in table and "SA-Net on Albert" in table


@pytest.mark.slow
def test_conll_in_its_original_files_is_respelt_and_tested(tmp_path: Path, model: Path):
    for seed, (name, count) in enumerate((("eng.train", 12), ("eng.testa", 6), ("eng.testb", 5))):
        files.conll(tmp_path / "data" / name, count, seed)
    numbers = numbers_of(run_benchmark(bench("conll", tmp_path / "data", model, tmp_path / "run", seeds=2)))
    first = json.loads((tmp_path / "run" / "data" / "conll-2003" / "train.jsonl").read_text().splitlines()[0])
    assert first["tags"] == ["B-PER", "O", "B-LOC", "B-LOC"]
    assert set(numbers) == {"Dev F1", "Test F1"} and numbers["Test F1"]["rows"] == 5
    assert len(numbers["Test F1"]["entity_f1"]["seeds"]) == 2
    assert "Flair" in (tmp_path / "run" / "table.md").read_text()


@pytest.mark.slow
def test_swag_in_its_original_files_and_a_set_like_it_without_its_table(tmp_path: Path, model: Path):
    for seed, (name, count) in enumerate((("train", 12), ("val", 6))):
        files.swag(tmp_path / "data" / f"{name}.csv", count, seed)
    result = run_benchmark(bench("swag", tmp_path / "data", model, tmp_path / "run"))
    assert numbers_of(result)["SWAG"]["rows"] == 6 and set(result.facts["missing"]) == {"CODAH"}
    assert "ESIM+ELMo" in (tmp_path / "run" / "table.md").read_text()
    rows = [{"context": "it saw", "choices": ["a", "cat"], "label": n % 2} for n in range(8)]
    for name in ("train", "dev"):
        path = tmp_path / "codah" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(json.dumps, rows)))
    assert set(numbers_of(run_benchmark(bench("swag", tmp_path / "codah", model, tmp_path / "other")))) == {"CODAH"}
    assert "Published" not in (tmp_path / "other" / "table.md").read_text()


def test_the_plan_finds_plain_and_packed_files_and_counts_runs_and_steps(tmp_path: Path, model: Path):
    for name, count, seed in (("train", 12, 0), ("dev", 6, 1)):
        path = files.squad(tmp_path / "all" / "squad1" / f"{name}.json", count, seed)
        path.with_suffix(".json.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    for place in (tmp_path / "all", tmp_path / "all" / "squad1"):
        plan = plan_benchmark(bench("squad", place, model, tmp_path / "run", seeds=3))
        assert [(part["name"], part["rows"]) for part in plan["parts"]] == [("SQuAD 1.1", {"train": 12, "dev": 6})]
        assert (plan["runs"], plan["steps"]) == (3, 6) and plan["disk_bytes"] > 0
        assert set(plan["missing"]) == {"SQuAD 2.0"}
    data = files.glue(tmp_path / "data", rows=33)
    plan = plan_benchmark(bench("glue", data, model, tmp_path / "run", tasks=("rte",), seeds=2, epochs=3))
    assert (plan["runs"], plan["steps"]) == (2, 2 * 3 * 5)  # 33 rows are five steps of eight
    grid = plan_benchmark(bench("glue", data, model, tmp_path / "run", tasks=("rte",), grid=True, epochs=None, lr=None))
    assert (grid["runs"], grid["steps"]) == (9, 3 * 5 * (2 + 3 + 4))
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_the_command_plans_runs_and_shows_tables_or_json(maskwright, tmp_path: Path, model: Path):
    data = files.glue(tmp_path / "glue")
    fast = ("--epochs", 1, "--max-length", 24, "--batch-size", 8, "--precision", "fp32", "--tasks", "rte,CoLA")
    words = ("experiment", "benchmark", "glue", "--data", data, "--model", model, *fast, "--seeds", 2)
    code, out, _ = maskwright(*words, "-o", tmp_path / "dry", "--dry-run", "--json")
    assert code == 0 and json.loads(out)["runs"] == 4
    code, out, _ = maskwright(*words, "-o", tmp_path / "dry", "--dry-run")
    assert code == 0 and "Nothing was run." in out and not (tmp_path / "dry").exists()
    code, out, err = maskwright(*words, "-o", tmp_path / "run")
    ours, published = out.split("Published, not measured here", 1)
    assert (
        code == 0 and "matthews" in ours and "±" in ours and "OpenAI GPT" not in ours and "second version" in published
    )
    assert "Part 4 of 4: RTE, batch 8, lr 3e-05, 1 epoch, seed 1; about" in err
    code, out, err = maskwright(*words, "-o", tmp_path / "run", "--json")
    assert code == 0 and "Part 1 of" not in err and [one["name"] for one in json.loads(out)["parts"]] == ["CoLA", "RTE"]
    code, out, err = maskwright("experiment", "benchmark", "glue", "--data", data, "--model", "absent/m", "-o", "x")
    assert code == 2 and out == "" and "absent/m" in err
    code, out, err = maskwright(*words, "--max-length", 999, "-o", tmp_path / "long")
    assert code == 2 and out == "" and "48 positions" in err and not (tmp_path / "long").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("colla",)}, "Did you mean 'CoLA'"),
        ({"tasks": ("squad1",)}, "Unknown task of glue"),
        ({"seeds": 0}, "seeds"),
        ({"max_train_rows": 1}, "max_train_rows"),
    ],
)
def test_settings_that_mean_nothing_are_refused(tmp_path: Path, model: Path, changes: dict, message: str):
    files.glue(tmp_path / "data")
    with pytest.raises(ConfigError, match=message):
        run_benchmark(bench("glue", tmp_path / "data", model, tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def test_folders_without_a_benchmark_are_refused(tmp_path: Path, model: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingFileError, match="does not contain any part of the benchmark"):
        run_benchmark(bench("conll", tmp_path / "empty", model, tmp_path / "run"))
    with pytest.raises(MissingFileError, match="is not a folder"):
        run_benchmark(bench("glue", tmp_path / "absent", model, tmp_path / "run"))
    with pytest.raises(ConfigError, match="squad has none"):
        bench("squad", tmp_path / "empty", model, tmp_path / "run", submission=True)
