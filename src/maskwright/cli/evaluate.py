"""`maskwright evaluate`: the metrics of a fine-tuned model on labeled rows, or of a pre-trained one on text."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.errors import ConfigError, InputError
from ..core.plural import plural
from ..core.progress import warn
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    InferencePrecisionOption,
    JsonFlag,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    in_a_line,
    parse_columns,
    print_json,
    print_metrics,
    print_table,
    print_text,
    set_threads,
)
from .using import (
    BatchTokensOption,
    CalibrateOption,
    MaxLengthOption,
    calibration_texts,
    tell_int8_loss,
    warn_of_cuts,
)

if TYPE_CHECKING:
    from ..inference.predict import Predictor
    from ..models.model import Model
    from ..tasks.base import Evaluation
    from ..tasks.rows.examples import Examples

ANSWERS = ("label", "labels", "tags", "answer", "is_rare", "score")  # under which a task words what it found


def evaluate(
    model: Annotated[str, typer.Argument(help="Model folder, or a Hugging Face Hub model ID.")],
    file: Annotated[Path, typer.Argument(help="Labeled rows; held-out text for a pre-trained model.")],
    target: Annotated[
        Path | None, typer.Argument(help="Reference translations of a text file, line by line (translation models).")
    ] = None,
    columns: ColumnsOption = None,
    errors: Annotated[int, typer.Option(min=0, help="Number of worst errors to show.")] = 0,
    rare_class: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Also score this class against all others: pr_auc, f1, recall.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Also score this model and test the difference for significance."),
    ] = None,
    risk: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Report coverage at this maximum error rate (selective prediction)."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also write an HTML page: scores, calibration, abstention, errors.", metavar="FILE.html"),
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option(help="Stride of overlapping windows, in tokens (causal language models).", metavar="TOKENS"),
    ] = None,
    max_length: MaxLengthOption = None,
    batch_tokens: BatchTokensOption = None,
    seed: SeedOption = None,
    device: DeviceOption = "auto",
    precision: InferencePrecisionOption = "auto",
    calibrate_on: CalibrateOption = None,
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Evaluate a model. Metrics are fractions; with two classes, f1 is that of the second.

    A fine-tuned model is scored on labeled rows (.csv, .tsv, .jsonl, .parquet; tagged words in CoNLL columns or
    .jsonl; questions in SQuAD .json or .jsonl; choices in SWAG .csv or .jsonl), a pre-trained one on text, which is
    masked, or guessed token by token, as in training. An encoder of sentences is scored on pairs: the cosines of their
    vectors against the gold scores.

    Examples:

        maskwright evaluate runs/b/model dev.tsv

        maskwright evaluate runs/b/model test.csv --columns text=body,label=y --errors 10 --json

        maskwright evaluate runs/b/model test.tsv --rare-class hate_speech

        maskwright evaluate runs/n/model test.conll --columns token=0,tag=3

        maskwright evaluate runs/b/model test.tsv --against runs/c/model --report compared.html

        maskwright evaluate runs/b/model test.tsv --risk 0.05

        maskwright evaluate runs/b/model dev.tsv --precision int8 --calibrate-on train.tsv

        maskwright evaluate runs/t/model test.de test.en

        maskwright evaluate runs/a/model held-out.txt

        maskwright evaluate runs/g/model held-out.txt --stride 512
    """
    set_threads(threads)
    typical = calibration_texts(precision, calibrate_on)  # never of the rows that are scored: that would flatter int8
    if typical is not None and against is not None:
        raise ConfigError("--against compares models in fp32 or bf16: remove --precision int8.")
    from ..api import ANSWERING, WORDY, make_int8, open_model, predictor_of
    from ..inference.ready import role_of, room_of

    loaded = open_model(model, (*ANSWERING, *WORDY), device, precision)
    if target is not None and role_of(loaded) != "seq2seq":
        raise InputError(f"{model} is not a translation model: remove {target}, or use a translation model.")
    if role_of(loaded) not in ANSWERING:
        if against is not None or risk is not None or report is not None:
            raise InputError(f"{model} is a pre-trained model: --against, --risk and --report are for labeled rows.")
        make_int8(loaded, typical, room_of(loaded, max_length))
        text = partial(_score_text, loaded, model, file, max_length, seed or 0, skip_bad_rows)
        windows = partial(_score_windows, loaded, file, stride or 0, max_length, skip_bad_rows)
        score = text if stride is None else windows
        result, exact = score(), lambda: score()["metrics"]
    else:
        if stride is not None:
            raise InputError(f"{model} is not a causal language model: --stride applies only to their perplexity.")
        predictor = predictor_of(loaded, model, max_length)
        make_int8(loaded, typical, predictor.max_length)
        if rare_class is not None:
            _ask_for(predictor, rare_class)
        scored = _score_rows(predictor, model, file, target, parse_columns(columns), batch_tokens, skip_bad_rows)
        result = scored.result(errors)
        exact = scored.metrics_again
        if risk is not None:
            result["abstention"] = scored.at_risk(risk)
        if against is not None:
            other = predictor_of(open_model(against, ANSWERING, device, precision), against, max_length)
            result["against"] = scored.against(other, against, seed or 0, batch_tokens)
        if report is not None:
            scored.write(report, result.get("against"))
            result["report"] = str(report)
    if typical is not None:
        result |= _in_float32(loaded, exact)
    if json:
        print_json(result)
        return
    _show(result, file)


def _in_float32(model: Model, score: Callable[[], dict[str, float]]) -> dict[str, Any]:
    """The int8 accuracy loss: cosine similarities, and the scores in float32."""
    from ..inference.calibration import in_float32, loss_of

    tell_int8_loss(model)
    loss = loss_of(model)
    assert loss is not None
    with in_float32(model):
        return {"int8": {**vars(loss), "fp32_metrics": score()}}


def _show(result: dict[str, Any], file: Path) -> None:
    if "tokens" in result:
        print_text(f"{plural(result['tokens'], 'token')} of {file} guessed, in {plural(result['examples'], 'part')}")
    else:
        print_text(f"{result['task']} on {plural(result['examples'], 'example')} of {file}")
    print_metrics(result["metrics"])
    for signature in result.get("signatures", {}).values():
        print_text(signature)
    if "int8" in result:
        exact = result["int8"]["fp32_metrics"]
        rows = [(name, f"{value:.4f}", f"{exact[name]:.4f}") for name, value in result["metrics"].items()]
        print_table(("metric", "int8", "float32"), rows, right=("int8", "float32"))
    if "abstention" in result:
        found = result["abstention"]
        least = found["min_confidence"]
        how = "not even its surest answers are so good" if least is None else f"with --min-confidence {least:.4f}"
        print_text(f"at most {found['risk']:.1%} wrong: {found['coverage']:.1%} can be answered, {how}")
    if "against" in result:
        _show_comparison(result["metrics"], result["against"])
    for error in result.get("errors", []):
        found = next(error[name] for name in ANSWERS if name in error)
        pair = f" | {error['text_pair']}" if error["text_pair"] else ""
        if "perplexity" in error:  # of a text that was to be written
            wanted = in_a_line(str(error["gold"]))
            print_text(
                f"line {error['line']}: {found:.0%} of the tokens of {wanted} guessed: {in_a_line(error['text'])}"
            )
            continue
        gold, given = (_words(side, " " if "tags" in error else " | ") for side in (error["gold"], found))
        print_text(f"line {error['line']}: {gold} taken for {given}: {error['text']}{pair}")
    if "report" in result:
        print_text(f"report: {result['report']}")


def _words(answer: Any, between: str) -> str:
    """Formats a gold label or a prediction: all parts of a list, "nothing" where it is empty."""
    return between.join(map(str, answer)) if isinstance(answer, list) and answer else str(answer or "nothing")


def _show_comparison(own: dict[str, float], against: dict[str, Any]) -> None:
    rows = [
        (name, f"{value:.4f}", f"{against['metrics'][name]:.4f}", f"{value - against['metrics'][name]:+.4f}")
        for name, value in own.items()
        if name in against["metrics"]
    ]
    print_table(("metric", "A", "B", "difference"), rows, right=("A", "B", "difference"))
    found = against["comparison"]
    tests = f"bootstrap p {found['difference']['p_value']:.4f}, permutation p {found['permutation_p']:.4f}"
    if found["mcnemar"] is not None:
        alone = found["mcnemar"]
        tests += (
            f", McNemar p {alone['p_value']:.4f} (right alone: A {alone['only_first']:,}, B {alone['only_second']:,})"
        )
    print_text(f"{found['metric']}: {tests}")
    print_text(found["sentence"])


@dataclass(frozen=True)
class _ScoredRows:
    """Scores of a model on the rows of a file."""

    predictor: Predictor
    examples: Examples
    evaluation: Evaluation
    rows: list[Any]
    num_skipped: int
    skip_bad_rows: bool

    def result(self, errors: int) -> dict[str, Any]:
        """What --json prints."""
        from ..tasks.evaluation.errors import worst_errors

        task = self.predictor.task
        result: dict[str, Any] = {
            "task": task.name,
            "examples": self.examples.num_rows,
            "metrics": self.evaluation.metrics,
            "loss": self.evaluation.loss,
            "skipped": self.num_skipped,
            "truncated": self.examples.num_truncated,
            "unknown_tokens": self.examples.counts.unknown_tokens,
        }
        if self.evaluation.signatures:
            result["signatures"] = self.evaluation.signatures
        if errors:
            result["errors"] = worst_errors(task, self.examples, self.evaluation.logits, errors)
        return result

    def metrics_again(self) -> dict[str, float]:
        """The same scores, computed once more."""
        return self.predictor.task.evaluate(self.predictor.model, self.examples).metrics

    def write(self, path: Path, against: dict[str, Any] | None) -> None:
        """The page."""
        from ..tasks.evaluation.report import write_evaluation

        own = self.evaluation
        compared = None if against is None else {**against, "own": own.metrics, "other": against["metrics"]}
        command = shlex.join(["maskwright", *sys.argv[1:]])
        write_evaluation(path, self.predictor.task, self.examples, own, command, compared)

    def at_risk(self, risk: float) -> dict[str, Any]:
        """How many rows can be answered with at most this share wrong, the least confidence for that, and AURC."""
        from ..tasks.classification.task import Classification
        from ..tasks.evaluation.trust_report import curve_of

        task = self.predictor.task
        if not isinstance(task, Classification) or task.multi_label:
            raise InputError("--risk is for models that give each text one class.")
        decisions = task.decisions(self.evaluation.logits, self.examples)
        curve = curve_of(decisions, task.temperature)
        return {**curve.at_risk(risk), "aurc": curve.aurc, "best_aurc": curve.best_aurc}

    def against(self, other: Predictor, name: str, seed: int, batch_tokens: int | None) -> dict[str, Any]:
        """The same rows scored by another model, and the comparison."""
        from ..tasks.evaluation.compare import compare, on_equal_terms, rate

        first, other.task = on_equal_terms(self.predictor.task, other.task)
        examples, evaluation = other.evaluate(self.rows, skip_bad_rows=self.skip_bad_rows, batch_tokens=batch_tokens)
        if examples.num_rows != self.examples.num_rows:
            raise InputError(f"{name} knows other labels than the first model, so they cannot be compared row by row.")
        rated = rate(first, self.evaluation.logits, self.examples)
        found = compare(rated, rate(other.task, evaluation.logits, examples), seed=seed)
        return {"model": name, "metrics": evaluation.metrics, "comparison": found.to_json()}


def _ask_for(predictor: Predictor, rare_class: str) -> None:
    """Scores this class against all others, without the threshold of another class."""
    from ..tasks.classification.task import Classification

    if not isinstance(predictor.task, Classification):
        raise InputError(f"--rare-class applies to classification; this is a {predictor.task.name} model.")
    predictor.task = predictor.task.for_class(rare_class)


def _score_rows(
    predictor: Predictor,
    model: str,
    file: Path,
    target: Path | None,
    columns: dict[str, str],
    batch_tokens: int | None,
    skip_bad_rows: bool,
) -> _ScoredRows:
    from ..tasks.evaluation.scoring import read_to_score

    task = predictor.task
    source = file if target is None else (file, target)
    table = read_to_score(task, source, model, columns=columns, skip_bad_rows=skip_bad_rows)
    examples, evaluation = predictor.evaluate(table.rows, skip_bad_rows=skip_bad_rows, batch_tokens=batch_tokens)
    num_skipped = table.num_skipped + examples.num_skipped
    if num_skipped:
        warn(f"{plural(num_skipped, 'bad row is', 'bad rows are')} left out.")
    if not examples.num_truncated:
        for remark in task.notes(examples, file.name, predictor.max_length):
            warn(remark)
    warn_of_cuts(examples.counts)
    return _ScoredRows(predictor, examples, evaluation, table.rows, num_skipped, skip_bad_rows)


def _score_windows(
    model: Model, file: Path, stride: int, max_length: int | None, skip_bad_rows: bool
) -> dict[str, Any]:
    """Perplexity with overlapping windows, as printed by --json."""
    from ..inference.perplexity import text_perplexity

    found = text_perplexity(model, file, stride=stride, max_length=max_length, skip_bad_rows=skip_bad_rows)
    return {"task": "pretraining", "examples": found.windows, "tokens": found.tokens, "metrics": found.metrics}


def _score_text(
    model: Model, name: str, file: Path, max_length: int | None, seed: int, skip_bad_rows: bool
) -> dict[str, Any]:
    from ..hub.download import find_folder
    from ..hub.folders import load_model, read_facts
    from ..inference.held_out_text import score_text
    from ..tasks.evaluation.scoring import check_text

    check_text(file, name)
    folder = find_folder(name)[0]
    training = read_facts(folder).get("training")
    carries = not isinstance(training, dict) or not training.get("reset_state")
    generator = None
    if model.head_name == "rtd" and (folder / "generator").is_dir():
        generator = load_model(folder / "generator")[0].to(model.word_embeddings.device)
        generator.compute_dtype = model.compute_dtype
    score = score_text(
        model,
        file,
        generator=generator,
        max_length=max_length,
        seed=seed,
        skip_bad_rows=skip_bad_rows,
        carries=carries,
    )
    return {"task": "pretraining", "examples": score.examples, "tokens": score.tokens, "metrics": score.metrics}
