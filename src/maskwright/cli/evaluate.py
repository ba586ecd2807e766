"""`maskwright evaluate`: the metrics of a fine-tuned model on labeled rows, or of a pre-trained one on text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..core.config import command_line, option, to_dict
from ..core.util import UNTRAINED, on_one_line, plural
from ..train.settings import SEED
from .common import JsonFlag, print_json, print_metrics, print_table, print_text
from .settings import takes_settings
from .using import (
    BATCH_TOKENS,
    CALIBRATE_ON,
    MAX_LENGTH,
    MODEL,
    AnnotatedRows,
    InferenceHardware,
    calibration_texts,
)

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


PASSED = (  # settings that `maskwright.evaluate` has by the same name
    "target",
    "skip_bad_rows",
    "errors",
    "rare_class",
    "against",
    "risk",
    "report",
    "stride",
    "max_length",
    "batch_tokens",
    "seed",
    "device",
    "precision",
    "untrained",
)


@takes_settings(EvaluateSettings)
def evaluate(settings: EvaluateSettings, json: JsonFlag = False) -> None:
    """Evaluate a model. Metrics are fractions; with two classes, f1 is that of the second.

    A fine-tuned model is scored on labeled rows (.csv, .tsv, .jsonl, .json, .parquet; files of annotation tools; tagged
    words in CoNLL columns or .jsonl; questions in SQuAD .json or .jsonl; choices in SWAG .csv or .jsonl), a pre-trained
    one on text, which is masked, or predicted token by token, as in training. A sentence encoder is scored on pairs:
    the cosine similarities of their embeddings against the gold scores.

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
    typical = calibration_texts(settings)  # never of the rows that are scored: that would flatter int8
    from ..evaluation import evaluate as score

    given = {name: getattr(settings, name) for name in PASSED}
    shown = command_line(EvaluateSettings, to_dict(settings)) if settings.report else ""
    result = score(
        settings.model, settings.file, columns=settings.roles or None, calibrate_on=typical, command=shown, **given
    )
    if json:
        print_json(result)
    else:
        _show(result, settings.file)


def _show(result: dict[str, Any], file: Path) -> None:
    if "tokens" in result:
        print_text(
            f"{plural(result['tokens'], 'token')} of {file} predicted, in {plural(result['examples'], 'sequence')}"
        )
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
        how = "not reached at any confidence" if least is None else f"with --min-confidence {least:.4f}"
        print_text(f"error rate at most {found['risk']:.1%}: coverage {found['coverage']:.1%}, {how}")
    if "against" in result:
        _show_comparison(result["metrics"], result["against"])
    for error in result.get("errors", []):
        found = next(error[name] for name in ANSWERS if name in error)
        pair = f" | {error['text_pair']}" if error["text_pair"] else ""
        if "perplexity" in error:  # of a text to generate
            wanted, text = (on_one_line(str(error[name])) for name in ("gold", "text"))
            print_text(f"line {error['line']}: {found:.0%} of the tokens of {wanted} predicted: {text}")
            continue
        gold, given = (_words(side, " " if "tags" in error else " | ") for side in (error["gold"], found))
        print_text(f"line {error['line']}: gold {gold}, predicted {given}: {error['text']}{pair}")
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
