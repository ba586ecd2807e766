"""Scoring a model: a fine-tuned one on labeled rows, alone or against another one, a pre-trained one on text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from .api import make_int8, open_model, predictor_of
from .core.errors import ConfigError, InputError
from .core.progress import note, warn
from .core.util import plural
from .hub.download import find_folder
from .hub.folders import load_model, read_facts
from .inference.held_out_text import score_text, text_perplexity
from .inference.predict import Predictor
from .inference.ready import in_float32, kind_of, loss_of, room_of
from .models.model import Model
from .tasks.base import Evaluation
from .tasks.evaluation.compare import compare
from .tasks.evaluation.scoring import check_text, read_to_score, worst_errors
from .tasks.examples import Examples
from .text.readers.inputs import Text

Scored = tuple[dict[str, Any], Callable[[], dict[str, float]]]  # the result, and what scores the model once more


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """See `evaluate`."""

    target: str | Path | None = None
    columns: Mapping[str, str] | None = None
    skip_bad_rows: bool = False
    errors: int = 0
    rare_class: str | None = None
    against: str | None = None
    risk: float | None = None
    report: str | Path | None = None
    command: str = ""
    stride: int | None = None
    max_length: int | None = None
    batch_tokens: int | None = None
    seed: int = 0
    device: str = "auto"
    precision: str = "auto"
    calibrate_on: Sequence[Text] | None = None
    untrained: bool = False


def evaluate(
    model: str | Path,
    file: str | Path,
    *,
    target: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    skip_bad_rows: bool = False,
    errors: int = 0,
    rare_class: str | None = None,
    against: str | None = None,
    risk: float | None = None,
    report: str | Path | None = None,
    command: str = "",
    stride: int | None = None,
    max_length: int | None = None,
    batch_tokens: int | None = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    calibrate_on: Sequence[Text] | None = None,
    untrained: bool = False,
) -> dict[str, Any]:
    """Scores a model on a file, as the command does.

    Args:
        model: Short name, model folder, or Hugging Face Hub model ID.
        file: Labeled rows in any format of `maskwright evaluate`; held-out text for a pre-trained model.
        target: Line-aligned reference translations, if `file` is a text file.
        columns: What the columns of the file are, by role: {"text": "body", "label": "y"}.
        skip_bad_rows: Skip and count invalid rows.
        errors: Number of worst errors in the result.
        rare_class: Also score this class against all others.
        against: Also score this model, and test the difference for significance.
        risk: Report the coverage at this maximum error rate.
        report: HTML page to write.
        command: The command that the page shows.
        stride: Stride of overlapping windows in tokens, for the perplexity of a causal language model.
        max_length: Maximum sequence length in tokens; None as in training.
        batch_tokens: Maximum tokens of a batch; None for what suits the device.
        seed: Random seed of masks and significance tests.
        device: "auto", "cpu", "cuda" or "mps".
        precision: "auto", "fp32", "bf16", "fp16", or "int8" with `calibrate_on`.
        calibrate_on: Typical texts, which are not scored, for int8.
        untrained: Accept a head without stored weights.

    Returns:
        {"task", "examples", "metrics", ...} with fractions as metrics: what `maskwright evaluate --json` prints.

    Raises:
        RowErrors: If the file has invalid rows.
        ModelFolderError: If the model can neither predict nor score text.

    Example:
        >>> found = mw.evaluate("runs/b/model", "dev.tsv")
    """
    own = _Settings(
        target=target,
        columns=columns,
        skip_bad_rows=skip_bad_rows,
        errors=errors,
        rare_class=rare_class,
        against=against,
        risk=risk,
        report=report,
        command=command,
        stride=stride,
        max_length=max_length,
        batch_tokens=batch_tokens,
        seed=seed,
        device=device,
        precision=precision,
        calibrate_on=calibrate_on,
        untrained=untrained,
    )
    is_int8 = own.precision == "int8"
    if is_int8 and own.against is not None:
        raise ConfigError("--against compares models in fp32 or bf16: remove --precision int8.")
    loaded = open_model(model, ("predict", "score-text"), own.device, own.precision, untrained=own.untrained)
    kind = kind_of(loaded)
    if own.target is not None and not kind.can("translate"):
        raise InputError(f"{model} is not a translation model: remove {own.target}, or use a translation model.")
    result, exact = (_on_rows if kind.can("predict") else _on_text)(loaded, str(model), Path(file), own)
    if is_int8:
        loss = loss_of(loaded)
        assert loss is not None
        note(str(loss))
        with in_float32(loaded):
            result["int8"] = {**vars(loss), "fp32_metrics": exact()}
    return result


def _on_text(model: Model, name: str, file: Path, own: _Settings) -> Scored:
    if own.against is not None or own.risk is not None or own.report is not None:
        raise InputError(f"{name} is a pre-trained model: --against, --risk and --report are for labeled rows.")
    make_int8(model, own.calibrate_on, room_of(model, own.max_length))
    score = partial(_score_text, model, name, file, own)
    return score(), lambda: score()["metrics"]


def _on_rows(model: Model, name: str, file: Path, own: _Settings) -> Scored:
    if own.stride is not None:
        raise InputError(f"{name} is not a causal language model: --stride applies only to their perplexity.")
    predictor = predictor_of(model, name, own.max_length)
    make_int8(model, own.calibrate_on, predictor.max_length)
    if own.rare_class is not None:
        predictor.task = predictor.task.for_class(own.rare_class)
    task, skip = predictor.task, own.skip_bad_rows
    source: Any = file if own.target is None else (file, own.target)
    table = read_to_score(task, source, name, columns=own.columns, skip_bad_rows=skip)
    examples, found = predictor.evaluate(table.rows, skip_bad_rows=skip, batch_tokens=own.batch_tokens)
    skipped = table.num_skipped + examples.num_skipped
    _tell(predictor, examples, file.name, skipped)
    result: dict[str, Any] = {
        "task": task.name,
        "examples": examples.num_rows,
        "metrics": found.metrics,
        "loss": found.loss,
        "skipped": skipped,
        "truncated": examples.num_truncated,
        "unknown_tokens": examples.counts.unknown_tokens,
    }
    if found.signatures:
        result["signatures"] = found.signatures
    if own.errors:
        result["errors"] = worst_errors(task, examples, found.logits, own.errors)
    if own.risk is not None:
        result["abstention"] = _at_risk(predictor, examples, found, own.risk)
    if own.against is not None:
        result["against"] = _against(predictor, examples, found, table.rows, own)
    if own.report is not None:
        from .tasks.evaluation.report import write_evaluation

        other = result.get("against")
        compared = None if other is None else {**other, "own": found.metrics, "other": other["metrics"]}
        write_evaluation(Path(own.report), predictor.task, name, examples, found, own.command, compared)
        result["report"] = str(own.report)
    return result, lambda: predictor.task.evaluate(model, examples).metrics


def _tell(predictor: Predictor, examples: Examples, name: str, skipped: int) -> None:
    if skipped:
        warn(f"{plural(skipped, 'bad row is', 'bad rows are')} left out.")
    for fact in predictor.task.facts(examples, name):
        note(fact)
    if not examples.num_truncated:
        for remark in predictor.task.notes(examples, name, predictor.max_length):
            warn(remark)
    counts = examples.counts
    if counts.cut_texts or counts.all_unknown:
        warn(counts.note())
    elif counts.unknown_tokens:
        note(counts.note())


def _at_risk(predictor: Predictor, examples: Examples, found: Evaluation, risk: float) -> dict[str, Any]:
    """How many rows can be answered with at most this share wrong, the least confidence for that, and AURC."""
    from .tasks.evaluation.report import curve_of

    task = predictor.task
    decisions = task.decisions(found.logits, examples)
    if not task.has_one_class or decisions is None:
        raise InputError("--risk is for models that give each text one class.")
    curve = curve_of(decisions, task.temperature)
    return {**curve.at_risk(risk), "aurc": curve.aurc, "best_aurc": curve.best_aurc}


def _against(
    predictor: Predictor, examples: Examples, found: Evaluation, rows: list[Any], own: _Settings
) -> dict[str, Any]:
    name = str(own.against)
    opened = open_model(name, "predict", own.device, own.precision, untrained=own.untrained)
    other = predictor_of(opened, name, own.max_length)
    first = predictor.task
    if type(first) is type(other.task):
        first, other.task = first.on_equal_terms(other.task)
    theirs, scored = other.evaluate(rows, skip_bad_rows=own.skip_bad_rows, batch_tokens=own.batch_tokens)
    if theirs.num_rows != examples.num_rows:
        raise InputError(f"{name} knows other labels than the first model, so they cannot be compared row by row.")
    rated = first.rate(found.logits, examples)
    comparison = compare(rated, other.task.rate(scored.logits, theirs), seed=own.seed)
    return {"model": name, "metrics": scored.metrics, "comparison": comparison.to_json()}


def _score_text(model: Model, name: str, file: Path, own: _Settings) -> dict[str, Any]:
    options: dict[str, Any] = {"max_length": own.max_length, "skip_bad_rows": own.skip_bad_rows}
    if own.stride is not None:
        found = text_perplexity(model, file, stride=own.stride, **options)
    else:
        check_text(file, name)
        folder = find_folder(name)[0]
        training = read_facts(folder).get("training")
        generator = None
        if model.head_name == "rtd" and (folder / "generator").is_dir():
            generator = load_model(folder / "generator")[0].to(model.word_embeddings.device)
            generator.compute_dtype = model.compute_dtype
        carries = not isinstance(training, dict) or not training.get("reset_state")
        found = score_text(model, file, generator=generator, seed=own.seed, carries=carries, **options)
    return {"task": "pretraining", "examples": found.examples, "tokens": found.tokens, "metrics": found.metrics}
