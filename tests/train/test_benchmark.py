"""A benchmark as a user meets it: original files in, every seed trained, numbers as computed by hand."""

from __future__ import annotations

import json
import shutil
import statistics
from pathlib import Path

import pytest

from maskwright.api import open_predictor
from maskwright.core import storage
from maskwright.core.errors import ConfigError, MissingFileError, RowErrors, RunError
from maskwright.experiments.benchmark import suite
from maskwright.experiments.benchmark.config import BenchmarkConfig
from maskwright.experiments.benchmark.results import Results
from maskwright.experiments.benchmark.suite import plan_benchmark, run_benchmark
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
    config = ModelConfig(vocab_size=len(tokenizer), max_position_embeddings=48, **sizes)
    found = build(config, None, seed=1)
    found.tokenizer = tokenizer
    found.save(folder / "encoder")
    return folder / "encoder"


def bench(benchmark: str, data: Path, model: Path, output: Path, **changes) -> BenchmarkConfig:
    settings = {"epochs": 1, "lr": 1e-3, "batch_size": 8, "max_length": 40, "precision": "fp32"}
    return BenchmarkConfig(benchmark, data, str(model), output, **{**settings, **changes})


# -- the whole of GLUE -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def glue(tmp_path_factory, model: Path):
    root = tmp_path_factory.mktemp("glue")
    files.glue(root / "data")
    config = bench("glue", root / "data", model, root / "run", seeds=2, submission=True)
    return root, config, run_benchmark(config)


def test_the_nine_numbers_and_their_average_are_those_of_the_runs(glue):
    root, _, result = glue
    numbers = result.results.numbers
    leads = {"MNLI-m": "accuracy", "QQP": "f1", "CoLA": "matthews", "STS-B": "spearman", "MRPC": "f1"}
    assert len(numbers) == 9
    for name, number in numbers.items():
        assert number.metric == leads.get(name, "accuracy") and number.rows == 8
        if name != "MNLI-mm":
            folder = root / "run" / "models" / name.lower().removesuffix("-m")
            every = [json.loads((folder / f"seed-{s}" / "result.json").read_text())["mean"] for s in (0, 1)]
            for metric, summary in number.metrics.items():
                values = [one[metric] for one in every]
                assert summary.seeds == values
                assert summary.mean == pytest.approx(sum(values) / 2)
                assert summary.deviation == pytest.approx(statistics.stdev(values))
            assert number.summary.best == max(number.summary.seeds)
    average = result.results.average
    assert average.mean == pytest.approx(sum(number.summary.mean for number in numbers.values()) / 9)
    seeds = [sum(number.summary.seeds[s] for number in numbers.values()) / 9 for s in (0, 1)]
    assert average.seeds == pytest.approx(seeds) and average.deviation == pytest.approx(statistics.stdev(seeds))
    assert average.best == pytest.approx(sum(number.summary.best for number in numbers.values()) / 9)


def test_mismatched_rows_are_scored_by_the_models_that_matched_rows_chose(glue):
    root, _, result = glue
    part = next(part for part in result.results.parts if part.name == "MNLI")
    mismatched = result.results.numbers["MNLI-mm"].summary
    for place, folder in enumerate(part.models):
        predictor = open_predictor(folder, precision="fp32")
        rows = predictor.task.read_known(root / "run" / "data" / "mnli" / "dev_mismatched.jsonl").rows
        assert predictor.evaluate(rows)[1].metrics["accuracy"] == pytest.approx(mismatched.seeds[place])
    assert mismatched.best == mismatched.seeds[part.seeds.index(part.best_seed)]
    assert part.facts["splits"]["dev"]["without_gold"] == 1


def test_quotes_are_no_quoting(glue):
    root, _, _ = glue
    lines = (root / "run" / "data" / "cola" / "train.jsonl").read_text().splitlines()
    assert len(lines) == 12
    assert any(json.loads(line)["text"].startswith('"') for line in lines)


def test_results_table_and_page_say_what_is_ours_and_what_is_published(glue):
    root, _config, result = glue
    assert storage.read_json(root / "run" / "results.json") == result.to_json()
    table = (root / "run" / "table.md").read_text()
    ours, published = table.split("## Published, not measured here", 1)
    assert "| CoLA | matthews |" in ours and "Average of the nine scores" in ours
    assert "79.6" not in ours and "BERT-Base" not in ours
    assert published.count("| BERT-Base |") == 2 and "first version" in published and "second version" in published
    page = (root / "run" / "report.html").read_text()
    assert page.count("Published, not measured here") >= 2 and "Every seed" in page and "<script" not in page
    assert "seeds 0, 1" in ours


def test_models_stay_and_what_only_serves_unfinished_runs_goes(glue):
    root, _, _ = glue
    for seed in (0, 1):
        run = root / "run" / "models" / "rte" / f"seed-{seed}"
        assert (run / "model" / "model.safetensors").is_file() and (run / "report.html").is_file()
        assert not (run / f"seed-{seed}" / "checkpoints").exists() and not (run / f"seed-{seed}" / "best").exists()


def test_the_leaderboard_gets_a_file_for_each_test_file(glue):
    root, _, result = glue
    made = {Path(path).name for path in result.submission["files"]}
    assert made == {f"{name}.tsv" for name in "CoLA SST-2 MRPC STS-B QQP MNLI-m MNLI-mm QNLI RTE AX".split()}  # noqa: SIM905
    assert result.submission["missing"] == ["WNLI"] and set(result.submission["short"]) == {n[:-4] for n in made}
    lines = (root / "run" / "submission" / "RTE.tsv").read_text().splitlines()
    part = next(part for part in result.results.parts if part.name == "RTE")
    texts = [line.split("\t")[1:3] for line in (root / "data" / "RTE" / "test.tsv").read_text().splitlines()[1:]]
    best = open_predictor(part.models[part.best_seed], precision="fp32").predict([tuple(pair) for pair in texts])
    assert lines == ["index\tprediction", *(f"{n}\t{answer['label']}" for n, answer in enumerate(best))]


def test_a_finished_benchmark_is_not_run_again(glue, monkeypatch):
    root, config, result = glue
    monkeypatch.setattr(suite, "finetune", None)
    again = run_benchmark(config)
    assert again.already_finished and again.to_json() == json.loads(json.dumps(result.to_json()))
    assert isinstance(again.results, Results) and again.results.average == result.results.average
    with pytest.raises(RunError, match="seeds"):
        run_benchmark(bench("glue", root / "data", Path(config.model), root / "run", seeds=3, submission=True))


def test_the_seeds_of_a_part_are_an_ensemble(glue):
    from maskwright.api import open_ensemble

    root, _, result = glue
    part = next(part for part in result.results.parts if part.name == "SST-2")
    united = open_ensemble(part.models).run(
        lambda task: task.read_known(root / "run" / "data" / "sst-2" / "dev.jsonl").rows
    )
    scores = [metrics["accuracy"] for metrics in united.scores.values()]
    assert scores == pytest.approx(result.results.numbers["SST-2"].summary.seeds)


# -- resuming, missing parts, bad rows ---------------------------------------------------------------------------------


def test_what_is_finished_is_skipped_after_an_interruption(tmp_path: Path, model: Path, monkeypatch):
    data = files.glue(tmp_path / "data")
    whole = run_benchmark(bench("glue", data, model, tmp_path / "whole", tasks=("rte", "sst2"), seeds=2))
    original, calls = suite.finetune, []

    def cut_off(recipe):
        calls.append(recipe)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(recipe)

    config = bench("glue", data, model, tmp_path / "cut", tasks=("rte", "sst2"), seeds=2)
    monkeypatch.setattr(suite, "finetune", cut_off)
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
    result = run_benchmark(config)
    assert {name: number.summary for name, number in result.results.numbers.items()} == {
        name: number.summary for name, number in whole.results.numbers.items()
    }


def test_missing_parts_are_named_and_there_is_no_average(tmp_path: Path, model: Path):
    data = files.glue(tmp_path / "data")
    shutil.rmtree(data / "QQP")
    (data / "MNLI" / "dev_mismatched.tsv").unlink()
    (data / "CoLA" / "dev.tsv").unlink()
    config = bench("glue", data, model, tmp_path / "run", tasks=("qqp", "cola", "rte", "mnli"))
    result = run_benchmark(config).results
    assert set(result.missing) == {"QQP", "CoLA", "MNLI-mm"} and result.average is None
    assert {"QQP", "CoLA", "MNLI-mm"} < set(result.lacking)
    table = (tmp_path / "run" / "table.md").read_text()
    assert "Average: not available" in table and "CoLA is not measured: its dev file is missing" in table


def test_bad_rows_of_all_files_are_reported_at_once_and_leave_nothing(tmp_path: Path, model: Path):
    data = files.glue(tmp_path / "data")
    for name, line in (("RTE/train", "12\tonly one text"), ("QQP/dev", "8\t1\t1\ta\tb\tmaybe")):
        path = data / f"{name}.tsv"
        path.write_text(path.read_text() + line + "\n")
    config = bench("glue", data, model, tmp_path / "run", tasks=("rte", "qqp"))
    with pytest.raises(RowErrors) as caught:
        run_benchmark(config)
    assert len(caught.value.rows) == 2 and not (tmp_path / "run").exists()
    skipping = bench("glue", data, model, tmp_path / "run", tasks=("rte", "qqp"), skip_bad_rows=True)
    part = next(part for part in run_benchmark(skipping).results.parts if part.name == "RTE")
    assert part.facts["splits"]["train"]["skipped"] == 1 and part.facts["splits"]["train"]["rows"] == 12


def test_a_cap_is_drawn_once_and_said(tmp_path: Path, model: Path):
    data = files.glue(tmp_path / "data", rows=40)
    result = run_benchmark(bench("glue", data, model, tmp_path / "run", tasks=("sst-2",), max_train_rows=10, seeds=2))
    train = result.results.parts[0].facts["splits"]["train"]
    assert (train["rows"], train["rows_in_file"]) == (10, 40)
    assert "10 of 40" in (tmp_path / "run" / "table.md").read_text()


def test_a_grid_takes_the_best_setting_on_dev(tmp_path: Path, model: Path):
    data = files.glue(tmp_path / "data")
    config = bench("glue", data, model, tmp_path / "run", tasks=("sst-2",), grid=True, epochs=None, lr=None, seeds=2)
    assert len(config.settings) == 9
    assert len(bench("glue", data, model, tmp_path, grid=True, epochs=None, lr=None, batch_size=None).settings) == 18
    part = run_benchmark(config).results.parts[0]
    assert len(part.tried) == 9 and part.tried[part.setting.words] == max(part.tried.values())
    assert next(words for words, score in part.tried.items() if score == max(part.tried.values())) == part.setting.words
    summary = part.numbers[0].summary
    assert summary.seeds[0] == part.tried[part.setting.words] and len(summary.seeds) == 2
    runs = [
        path for path in (tmp_path / "run" / "models").rglob("result.json") if (path.parent / "config.toml").exists()
    ]
    assert len(runs) == 10  # the first seed of the choice is one of the nine


# -- the other benchmarks ----------------------------------------------------------------------------------------------


def test_squad_in_its_original_files(tmp_path: Path, model: Path):
    for version, can_refuse in (("1.1", False), ("2.0", True)):
        for seed, (split, count) in enumerate((("train", 12), ("dev", 6))):
            files.squad(tmp_path / "data" / f"{split}-v{version}.json", count, seed, can_refuse)
    result = run_benchmark(bench("squad", tmp_path / "data", model, tmp_path / "run")).results
    assert set(result.numbers) == {"SQuAD 1.1", "SQuAD 2.0"}
    assert set(result.numbers["SQuAD 2.0"].metrics) == {"f1", "exact_match", "has_answer_f1", "no_answer_f1"}
    table = (tmp_path / "run" / "table.md").read_text()
    assert "BERT-Large (ensemble+TriviaQA)" in table and "SA-Net on Albert" in table
    assert "SQuAD 1.1 compared with published systems" in (tmp_path / "run" / "report.html").read_text()


def test_conll_in_its_original_files_is_respelt_and_tested(tmp_path: Path, model: Path):
    for seed, (name, count) in enumerate((("eng.train", 12), ("eng.testa", 6), ("eng.testb", 5))):
        files.conll(tmp_path / "data" / name, count, seed)
    result = run_benchmark(bench("conll", tmp_path / "data", model, tmp_path / "run", seeds=2)).results
    first = json.loads((tmp_path / "run" / "data" / "conll-2003" / "train.jsonl").read_text().splitlines()[0])
    assert first["tags"] == ["B-PER", "O", "B-LOC", "B-LOC"]
    assert set(result.numbers) == {"Dev F1", "Test F1"} and result.numbers["Test F1"].rows == 5
    assert len(result.numbers["Test F1"].summary.seeds) == 2
    assert "Flair" in (tmp_path / "run" / "table.md").read_text()


def test_swag_in_its_original_files(tmp_path: Path, model: Path):
    for seed, (name, count) in enumerate((("train", 12), ("val", 6))):
        files.swag(tmp_path / "data" / f"{name}.csv", count, seed)
    result = run_benchmark(bench("swag", tmp_path / "data", model, tmp_path / "run")).results
    assert result.numbers["SWAG"].rows == 6 and set(result.missing) == {"CODAH"}
    table = (tmp_path / "run" / "table.md").read_text()
    assert "ESIM+ELMo" in table and "| SWAG | accuracy |" in table


def test_a_set_like_swag_gets_no_table_of_swag(tmp_path: Path, model: Path):
    rows = [{"context": "it saw", "choices": ["a", "cat"], "label": n % 2} for n in range(8)]
    for name in ("train", "dev"):
        path = tmp_path / "codah" / f"{name}.jsonl"
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(map(json.dumps, rows)))
    result = run_benchmark(bench("swag", tmp_path / "codah", model, tmp_path / "run")).results
    assert set(result.numbers) == {"CODAH"} and "Published" not in (tmp_path / "run" / "table.md").read_text()


def test_plain_files_and_packed_ones_are_found(tmp_path: Path, model: Path):
    import lzma

    for name, count, seed in (("train", 12, 0), ("dev", 6, 1)):
        path = files.squad(tmp_path / "all" / "squad1" / f"{name}.json", count, seed)
        path.with_suffix(".json.xz").write_bytes(lzma.compress(path.read_bytes()))
        path.unlink()
    for place in (tmp_path / "all", tmp_path / "all" / "squad1"):
        plan = plan_benchmark(bench("squad", place, model, tmp_path / "run", seeds=3))
        assert [(part.name, part.rows) for part in plan.parts] == [("SQuAD 1.1", {"train": 12, "dev": 6})]
        assert (plan.runs, plan.steps) == (3, 6) and plan.disk_bytes > 0
        assert set(plan.missing) == {"SQuAD 2.0"}
    assert not (tmp_path / "run").exists()


def test_the_plan_counts_runs_and_steps(tmp_path: Path, model: Path):
    data = files.glue(tmp_path / "data", rows=33)
    plan = plan_benchmark(bench("glue", data, model, tmp_path / "run", tasks=("rte",), seeds=2, epochs=3))
    assert (plan.runs, plan.steps) == (2, 2 * 3 * 5)  # 33 rows are five steps of eight
    grid = plan_benchmark(bench("glue", data, model, tmp_path / "run", tasks=("rte",), grid=True, epochs=None, lr=None))
    assert (grid.runs, grid.steps) == (9, 3 * 5 * (2 + 3 + 4))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": ("colla",)}, "Did you mean 'CoLA'"),
        ({"tasks": ("squad1",)}, "Unknown task of glue"),
        ({"seeds": 0}, "at least 1"),
        ({"max_train_rows": 1}, "at least 2"),
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
