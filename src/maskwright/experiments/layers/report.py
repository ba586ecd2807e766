"""The HTML report of layer-wise probing: the choices of layers, the fine-tuned model, the scalar mix, the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.options import command_line
from ...report import (
    Bar,
    Bars,
    Block,
    Chart,
    Command,
    Comparison,
    Curves,
    Facts,
    Figure,
    Health,
    KeyFigures,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Series,
    System,
    Table,
    write_report,
)
from ...report.content import Level
from ...report.layer_mix import mixture_bars
from ...report.numbers import file_size, percent, plus_minus
from ...train.run import RunFolder
from .config import TASK, LayerLabConfig
from .probe import MIX

PROBES = {"linear": "a linear layer", "bilstm": "a BiLSTM"}
PUBLISHED_NOTE = (
    "Published: Devlin et al. 2019, table 7: BERT-base on all of CoNLL-2003 with a two-layer BiLSTM of size 768. Model "
    "and training differ, so only the order is comparable."
)


def write_layer_lab_report(run: RunFolder, result: Mapping[str, Any]) -> None:
    """Write report.html of a run."""
    metric = result["main_metric"]
    words = metric.replace("_", " ")
    rows = result["rows"]
    best = max(rows, key=lambda row: row["mean"][metric])
    recipe = run.recipe
    headline = (
        f"On frozen features {PROBES[recipe['probe']]} is best with {best['name']}: dev {words} {_shown(best, metric)}."
    )
    tuned = result["finetuned"]
    shown = rows if tuned is None else [*rows, tuned]
    if tuned is not None:
        headline += f" The fine-tuned model gets {_shown(tuned, metric)}."
    blocks: list[Block] = [
        KeyFigures(_figures(rows, tuned, metric, result["order"])),
        _comparison(rows, tuned, metric, result["published"]),
        Bars(
            [Bar(row["name"], row["mean"][metric], _shown(row, metric)) for row in shown],
            title=f"Dev {words} by layers",
            note=f"Mean ± deviation over {recipe['seeds']} seeds; bars begin at 0.",
        ),
        _order(result["order"]),
        *_mix(rows),
        _curves(rows, result["histories"], metric, result["num_layers"]),
        _sizes(shown),
        Facts({**result["data"], "steps of each probe": result["steps"]}, title="The data", note=_data_note(result)),
        RunMetadata(
            command_line(LayerLabConfig, recipe), {key: str(value) for key, value in recipe.items()}, run.facts()
        ),
        NextSteps(next_steps(recipe, rows, tuned, metric)),
    ]
    report = Report(f"layers of {recipe['model']}", headline, _health(result), blocks, run.facts()["started"])
    write_report(run.path / "report.html", report)


def order_sentences(order: Mapping[str, Any]) -> list[str]:
    """Each step of the published order as a sentence: whether it holds, and the difference."""
    return [
        f"{step['higher']} {'is at least' if step['holds'] else 'is below'} {step['lower']}: "
        f"{_gap(step['difference'], step['deviation'])}"
        for step in order["steps"]
    ]


def order_verdict(order: Mapping[str, Any]) -> str:
    """The published order as one sentence."""
    if order["holds"] is None:
        return "The published order cannot be checked: the model has too few layers."
    names = [order["steps"][0]["higher"], *(step["lower"] for step in order["steps"])]
    wrong = [step for step in order["steps"] if not step["holds"]]
    verdict = "holds" if not wrong else "does not hold"
    return f"The published order {' >= '.join(names)} {verdict} here."


def next_steps(recipe: Mapping[str, Any], rows: Sequence[Any], tuned: Any, metric: str) -> list[Command]:
    """Commands that use the best layers. The scalar mix belongs to its probe, so the best other row is exported."""
    best = max((row for row in rows if row["name"] != MIX), key=lambda row: row["mean"][metric])
    layers = str(best["name"]).removeprefix("layer-")
    model = recipe["model"]
    files = {"input": "texts.txt", "output": "features.npy"}
    features = {"layers": layers, "pooling": "none", "words": True}
    steps = [Command.suggest("write these features for your texts", "embed", model=model, **files, **features)]
    if tuned is None:
        labeled = {name: recipe[name] for name in ("train", "dev", "columns") if name in recipe}
        steps.append(
            Command.suggest(
                "train the whole model instead", "finetune", task=TASK, model=model, output="runs/tagger", **labeled
            )
        )
    else:
        tagger = f"{recipe['output']}/finetuned/model"
        about = "score the fine-tuned model on test rows"
        steps.append(Command.suggest(about, "evaluate", model=tagger, file="test.conll"))
    return steps


def _shown(row: Mapping[str, Any], metric: str) -> str:
    return plus_minus(row["mean"][metric], row["deviation"][metric] if len(row["runs"]) > 1 else None)


def _gap(difference: float, deviation: float | None) -> str:
    text = f"{difference:+.3f}".replace("-", "−")
    return text if deviation is None else f"{text} ± {deviation:.3f}"


def _figures(rows: Sequence[Any], tuned: Any, metric: str, order: Mapping[str, Any]) -> list[Figure]:
    by_name = {row["name"]: row for row in rows}
    best = max(rows, key=lambda row: row["mean"][metric])
    figures = [Figure("Best frozen", _shown(best, metric), note=best["name"])]
    if tuned is not None:
        figures.append(Figure("Fine-tuned", _shown(tuned, metric), note="the whole model"))
    figures.append(Figure("Embeddings", _shown(by_name["embeddings"], metric), note="before the first layer"))
    steps = order["steps"]
    held = sum(step["holds"] for step in steps)
    if steps:
        figures.append(Figure("Published order", f"{held} of {len(steps)}", note="steps that hold here"))
    return figures


def _health(result: Mapping[str, Any]) -> Health:
    reasons = [order_verdict(result["order"]), *order_sentences(result["order"])]
    level: Level = "good" if result["order"]["holds"] else "watch"
    if result["left_out"]:
        reasons.append(f"Skipped, because the model has too few layers: {', '.join(result['left_out'])}.")
    if result["dev_from_train"]:
        level = "watch"
        reasons.append("The dev examples are held out from the training file; a separate --dev file is more reliable.")
    return Health(level, reasons, "As published" if level == "good" else "")


def _comparison(rows: Sequence[Any], tuned: Any, metric: str, published: Mapping[str, float]) -> Comparison:
    def score(row: Mapping[str, Any]) -> Score:
        return Score(row["mean"][metric], row["deviation"][metric] if len(row["runs"]) > 1 else None, row["runs"])

    systems = [System(row["name"], {metric: score(row)}, seeds=len(row["runs"])) for row in rows]
    if tuned is not None:
        systems.append(System(tuned["name"], {metric: score(tuned)}, seeds=len(tuned["runs"]), note="not frozen"))
    systems += [System(name, {metric: value}, source="published") for name, value in published.items()]
    note = "The best epoch of each seed is chosen on the dev examples, for probes and for the fine-tuned model."
    return Comparison(systems, title="Frozen and fine-tuned", note=f"{note} {PUBLISHED_NOTE}" if published else note)


def _order(order: Mapping[str, Any]) -> Table:
    cells = [
        (step["higher"], step["lower"], _gap(step["difference"], step["deviation"]), "yes" if step["holds"] else "no")
        for step in order["steps"]
    ]
    return Table(
        ("better as published", "than", "difference here", "holds"),
        cells,
        title="Does the published order hold?",
        note=f"{order_verdict(order)} Differences are paired by seed.",
    )


def _mix(rows: Sequence[Any]) -> list[Block]:
    """The layer weights of the scalar mix."""
    mix = next(row["mix"] for row in rows if row["name"] == MIX)
    labels = ["embeddings", *(f"layer {number}" for number in range(1, len(mix["shares"])))]
    each = list(zip(*mix["each"], strict=True))
    texts = [
        f"{percent(share)} ({percent(min(seeds))} to {percent(max(seeds))})"
        for share, seeds in zip(mix["shares"], each, strict=True)
    ]
    return [mixture_bars(labels, mix["shares"], texts, mix["scale"], "mean and range over seeds; ")]


def _curves(rows: Sequence[Any], histories: Mapping[str, Any], metric: str, num_layers: int) -> Curves:
    words = metric.replace("_", " ")
    lines = [
        Series(name, [step for step, _, _ in seed], [score for _, _, score in seed])
        for name, seeds in histories.items()
        for seed in seeds
        if not name.startswith("layer-")
    ]
    charts = [Chart(f"Dev {words} during training", lines)]
    by_number = {"embeddings": 0, "second-to-last": num_layers - 1, "last": num_layers}
    by_number |= {f"layer-{number}": number for number in range(num_layers + 1)}
    single = sorted(
        ((by_number[row["name"]], row) for row in rows if row["name"] in by_number), key=lambda pair: pair[0]
    )
    if len(single) > 3 or num_layers < 3:
        numbers = [number for number, _ in single]
        depth = [Series("frozen", numbers, runs) for runs in zip(*(row["runs"] for _, row in single), strict=True)]
        charts.append(Chart(f"Dev {words} by single layer", depth, x_label="layer"))
    return Curves(charts)


def _sizes(rows: Sequence[Any]) -> Table:
    cells = [(row["name"], row["size"], row["parameters"]) for row in rows]
    return Table(
        ("features", "dimensions", "trainable parameters"),
        cells,
        title="Sizes of the probes",
        note="More dimensions make a larger probe: concat-last-4 has the most trainable parameters.",
    )


def _data_note(result: Mapping[str, Any]) -> str:
    return f"Features of all layers and words: {file_size(result['feature_bytes'])}; computed once for all probes."
