"""`maskwright evaluate`: the scores of models on labeled rows or text, their ensemble, and their calibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.config import check, command_line, option, to_dict
from ..core.errors import InputError
from ..core.progress import note, warn
from ..core.util import UNTRAINED, on_one_line, plural
from ..train.settings import SEED
from .common import Part, Result, Table
from .predict import PredictSettings
from .settings import next_command, takes_settings
from .using import (
    BATCH_TOKENS,
    CALIBRATE_ON,
    ENSEMBLE,
    MAX_LENGTH,
    MODEL,
    AnnotatedRows,
    InferenceHardware,
    calibration_texts,
    refuse_same_file,
    warn_of_cuts,
    warn_of_skipped,
)

if TYPE_CHECKING:
    from ..tasks.base import AnyRow, Task

ANSWERS = ("label", "labels", "tags", "answer", "is_rare", "score")  # under which a task words what it found


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(InferenceHardware, AnnotatedRows):
    """Settings of `maskwright evaluate`."""

    COMMAND: ClassVar[str] = "evaluate"

    model: str = option(help=MODEL)
    file: Path = option(help="Labeled rows; held-out text for a pre-trained model.", is_argument=True)
    target: Path | None = option(
        None, "Line-aligned reference translations, if FILE is a text file (translation models).", is_argument=True
    )
    errors: int = option(0, "Number of worst errors to show.", minimum=0)
    rare_class: str | None = option(
        None, "Also score this class against all others: pr_auc, f1, recall.", metavar="CLASS"
    )
    against: str | None = option(
        None, "Also score this model and test the difference for significance.", metavar="MODEL"
    )
    risk: float | None = option(
        None, "Report coverage at this maximum error rate (selective prediction).", minimum=0, maximum=1
    )
    report: Path | None = option(
        None, "Also write an HTML page: scores, calibration, abstention, errors.", metavar="FILE.html"
    )
    stride: int | None = option(
        None, "Stride of overlapping windows, in tokens (causal language models).", metavar="TOKENS"
    )
    max_length: int | None = option(None, MAX_LENGTH)
    batch_tokens: int | None = option(None, BATCH_TOKENS)
    calibrate_on: Path | None = option(None, CALIBRATE_ON)
    seed: int = option(0, SEED)
    untrained: bool = option(False, UNTRAINED)
    ensemble: tuple[str, ...] = option((), ENSEMBLE)
    calibrate: bool = option(
        False, "Fit a temperature on FILE and store it in maskwright.json; predicted labels do not change."
    )
    output: Path | None = option(
        None, "Predictions of --ensemble (.jsonl, .csv, .tsv), or new model folder of --calibrate.", short="-o"
    )

    def __post_init__(self) -> None:
        check(not (self.ensemble and self.calibrate), "Pass either --ensemble or --calibrate.")
        check(
            self.output is None or bool(self.ensemble) or self.calibrate,
            "--output goes with --ensemble or --calibrate; --report FILE.html writes a page.",
        )
        if self.ensemble or self.calibrate:
            name = "ensemble" if self.ensemble else "calibrate"
            others = {"--against": self.against, "--risk": self.risk, "--report": self.report, "--stride": self.stride}
            given = [flag for flag, value in others.items() if value is not None]
            check(not given, f"--{name} does not go with {', '.join(given)}.")
            check(self.precision != "int8", f"--{name} computes in fp32 or bf16: remove --precision int8.")


PASSED = (  # settings that `maskwright.evaluate` has by the same name
    *("target", "skip_bad_rows", "errors", "rare_class", "against", "risk", "report", "stride", "max_length"),
    *("batch_tokens", "seed", "device", "precision", "untrained"),
)


@takes_settings(EvaluateSettings)
def evaluate(settings: EvaluateSettings) -> Iterator[Result]:
    """Evaluate a model. Metrics are fractions; with two classes, f1 is that of the second.

    A fine-tuned model is scored on labeled rows (.csv, .tsv, .jsonl, .json, .parquet; files of annotation tools; tagged
    words in CoNLL columns or .jsonl; questions in SQuAD .json or .jsonl; choices in SWAG .csv or .jsonl), a pre-trained
    one on text, which is masked, or predicted token by token, as in training. A sentence encoder is scored on pairs:
    the cosine similarities of their embeddings against the gold scores.

    Examples:

        maskwright evaluate runs/b/model dev.tsv

        maskwright evaluate runs/b/model test.csv --columns text=body,label=y --errors 10 --json

        maskwright evaluate runs/b/model test.tsv --against runs/c/model --report compared.html

        maskwright evaluate runs/b/model test.tsv --risk 0.05

        maskwright evaluate runs/t/model test.de test.en

        maskwright evaluate runs/a/model held-out.txt

        maskwright evaluate runs/b dev.tsv --ensemble runs/b

        maskwright evaluate runs/b/model dev.tsv --ensemble runs/c/model --ensemble runs/d/model -o answers.jsonl

        maskwright evaluate runs/b/model dev.tsv --calibrate -o runs/b/calibrated
    """
    if settings.ensemble or settings.calibrate:
        yield (_ensemble if settings.ensemble else _calibrate)(settings)
        return
    typical = calibration_texts(settings)  # never of the rows that are scored: that would flatter int8
    from ..evaluation import evaluate as score

    given = {name: getattr(settings, name) for name in PASSED}
    shown = command_line(EvaluateSettings, to_dict(settings)) if settings.report else ""
    result = score(
        settings.model, settings.file, columns=settings.roles or None, calibrate_on=typical, command=shown, **given
    )
    yield result, _shown(result, settings.file)


def _shown(result: dict[str, Any], file: Path) -> Iterator[Part]:
    if "tokens" in result:
        yield f"{plural(result['tokens'], 'token')} of {file} predicted, in {plural(result['examples'], 'sequence')}"
    else:
        yield f"{result['task']} on {plural(result['examples'], 'example')} of {file}"
    yield result["metrics"]
    yield from result.get("signatures", {}).values()
    if "int8" in result:
        exact = result["int8"]["fp32_metrics"]
        rows = [(name, f"{value:.4f}", f"{exact[name]:.4f}") for name, value in result["metrics"].items()]
        yield Table(("metric", "int8", "float32"), rows, right=("int8", "float32"))
    if "abstention" in result:
        found = result["abstention"]
        least = found["min_confidence"]
        how = "not reached at any confidence" if least is None else f"with --min-confidence {least:.4f}"
        yield f"error rate at most {found['risk']:.1%}: coverage {found['coverage']:.1%}, {how}"
    if "against" in result:
        yield from _comparison(result["metrics"], result["against"])
    for error in result.get("errors", []):
        found = next(error[name] for name in ANSWERS if name in error)
        pair = f" | {error['text_pair']}" if error["text_pair"] else ""
        if "perplexity" in error:  # of a text to generate
            wanted, text = (on_one_line(str(error[name])) for name in ("gold", "text"))
            yield f"line {error['line']}: {found:.0%} of the tokens of {wanted} predicted: {text}"
            continue
        gold, given = (_words(side, " " if "tags" in error else " | ") for side in (error["gold"], found))
        yield f"line {error['line']}: gold {gold}, predicted {given}: {error['text']}{pair}"
    if "report" in result:
        yield f"report: {result['report']}"


def _words(answer: Any, between: str) -> str:
    """Formats a gold label or a prediction: all parts of a list, "nothing" where it is empty."""
    return between.join(map(str, answer)) if isinstance(answer, list) and answer else str(answer or "nothing")


def _comparison(own: dict[str, float], against: dict[str, Any]) -> Iterator[Part]:
    rows = [
        (name, f"{value:.4f}", f"{against['metrics'][name]:.4f}", f"{value - against['metrics'][name]:+.4f}")
        for name, value in own.items()
        if name in against["metrics"]
    ]
    yield Table(("metric", "A", "B", "difference"), rows, right=("A", "B", "difference"))
    found = against["comparison"]
    tests = f"bootstrap p {found['difference']['p_value']:.4f}, permutation p {found['permutation_p']:.4f}"
    if found["mcnemar"] is not None:
        alone = found["mcnemar"]
        tests += (
            f", McNemar p {alone['p_value']:.4f} (right alone: A {alone['only_first']:,}, B {alone['only_second']:,})"
        )
    yield f"{found['metric']}: {tests}"
    yield found["sentence"]


def _calibrate(settings: EvaluateSettings) -> Result:
    """Fit a temperature. The reported calibration error is cross-fitted: each half by that of the other."""
    from ..api import open_model, predictor_of
    from ..hub.download import find_folder
    from ..hub.folders import copy_with_facts
    from ..tasks.evaluation.calibration import calibration_errors, cross_entropy, cross_probabilities, probabilities
    from ..tasks.evaluation.scoring import read_to_score

    model, output, skip = settings.model, settings.output, settings.skip_bad_rows
    if output is None and not Path(model).is_dir():
        raise InputError(
            f"{model} is built in or on the Hugging Face Hub, so read-only: pass -o FOLDER for the calibrated model."
        )
    opened = open_model(model, "predict", settings.device, settings.precision)
    predictor = predictor_of(opened, model, settings.max_length)
    task = predictor.task
    table = read_to_score(task, settings.file, model, columns=settings.columns, skip_bad_rows=skip)
    examples, evaluation = predictor.evaluate(table.rows, skip_bad_rows=skip, batch_tokens=settings.batch_tokens)
    fitted = task.calibrate(evaluation.logits, examples)
    decisions = task.decisions(evaluation.logits, examples)
    assert decisions is not None
    before = calibration_errors(decisions.gold, probabilities(decisions.logits))
    after = calibration_errors(decisions.gold, cross_probabilities(decisions))
    before["cross_entropy"] = cross_entropy(decisions)
    folder = find_folder(model)[0]
    target = folder if output is None else output
    copy_with_facts(folder, target, task.to_json())
    if fitted.is_at_limit:
        warn("The rows do not determine a temperature: all of them are right, or none is better than chance.")
    result = {
        "model": str(target),
        "temperature": fitted.value,
        "decisions": len(decisions),
        "before": before,
        "after": after,
    }
    fitted_on = f"{len(decisions):,} decisions of {settings.file}"
    parts = (
        f"temperature {fitted.value:.3f}, fitted on {fitted_on}; predictions do not change",
        *(f"{name:<15} {before[name]:.4f} as trained, {value:.4f} calibrated (each half by the other half)"
          for name, value in after.items()),
        f"model:  {target}",
        next_command(PredictSettings, model=str(target), texts=("your text",), min_confidence=0.9),
    )  # fmt: skip
    return result, parts


def _ensemble(settings: EvaluateSettings) -> Result:
    """Scores of each member, their mean, and the score of the averaged predictions."""
    from ..api import open_ensemble
    from ..inference.output_files import check_output, write_answers
    from ..tasks.evaluation.scoring import read_to_score

    file, output, skip = settings.file, settings.output, settings.skip_bad_rows
    refuse_same_file(file, output)
    if output is not None:
        check_output(output)

    def read(task: Task) -> Sequence[AnyRow]:
        table = read_to_score(task, file, settings.model, columns=settings.columns, skip_bad_rows=skip)
        warn_of_skipped(table)
        return table.rows

    members = open_ensemble(
        list(dict.fromkeys((settings.model, *settings.ensemble))),
        max_length=settings.max_length,
        device=settings.device,
        precision=settings.precision,
    )
    united = members.run(read, is_scored=True, skip_bad_rows=skip, batch_tokens=settings.batch_tokens)
    if output is not None:
        note(f"{plural(write_answers(output, united.answers()), 'answer')} in {output}")
    warn_of_cuts(united.counts)
    assert united.evaluation is not None
    every = list(united.scores.values())
    result = {
        "task": united.task.name,
        "examples": united.examples.num_rows,
        "members": [{"model": name, "metrics": scores} for name, scores in united.scores.items()],
        "mean": {name: sum(scores[name] for scores in every) / len(every) for name in every[0]},
        "metrics": united.evaluation.metrics,
        "loss": united.evaluation.loss,
        "main_metric": united.task.main_metric,
    }
    return result | ({} if output is None else {"output": str(output)}), _members(result, file)


def _members(result: Mapping[str, Any], file: Path) -> Iterator[Part]:
    rest = [name for name in result["metrics"] if name != result["main_metric"]]
    names = [result["main_metric"], *rest][:5]
    members = _short([one["model"] for one in result["members"]])
    rows = [(name, one["metrics"]) for name, one in zip(members, result["members"], strict=True)]
    rows += [("mean of the members", result["mean"]), ("ensemble", result["metrics"])]
    cells = [(name, *(f"{scores[metric]:.4f}" for metric in names)) for name, scores in rows]
    title = f"{result['task']} on {plural(result['examples'], 'example')} of {file}"
    yield Table(("model", *names), cells, title, right=names)
    metric = names[0]
    gain = result["metrics"][metric] - result["mean"][metric]
    yield f"{len(result['members'])} models as one: {metric} {gain:+.4f} to the mean of the members"


def _short(names: Sequence[str]) -> list[str]:
    """Returns paths without their common prefix."""
    parts = [Path(name).parts for name in names]
    shared = next((place for place, column in enumerate(zip(*parts, strict=False)) if len(set(column)) > 1), 0)
    return [str(Path(*own[shared:])) for own in parts]
