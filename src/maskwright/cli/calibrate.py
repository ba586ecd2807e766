"""`maskwright calibrate`: temperature scaling of a fine-tuned model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..core.config import option
from ..core.errors import InputError
from ..core.progress import warn
from .common import JsonFlag, print_json, print_text
from .predict import PredictSettings
from .settings import print_next, takes_settings
from .using import BATCH_TOKENS, MAX_LENGTH, Hardware, Rows


@dataclass(frozen=True, kw_only=True)
class CalibrateSettings(Hardware, Rows):
    """Settings of `maskwright calibrate`."""

    COMMAND: ClassVar[str] = "calibrate"

    model: str = option(help="Folder of a classification or token-classification model.", is_argument=True)
    file: Path = option(help="Labeled rows that were not used in training.", is_argument=True)
    output: Path | None = option(None, "New model folder.", short="-o", default_help="MODEL itself")
    max_length: int | None = option(None, MAX_LENGTH)
    batch_tokens: int | None = option(None, BATCH_TOKENS)


@takes_settings(CalibrateSettings)
def calibrate(settings: CalibrateSettings, json: JsonFlag = False) -> None:
    """Fit a temperature on labeled rows and store it in maskwright.json. Predicted labels do not change.

    All commands and estimators apply it to their probabilities. The reported calibration error is cross-fitted: each
    half of the file is scored with the temperature of the other half.

    Examples:

        maskwright calibrate runs/b/model dev.tsv

        maskwright calibrate runs/n/model dev.conll -o runs/n/calibrated --json
    """
    model, output, skip = settings.model, settings.output, settings.skip_bad_rows
    from ..api import open_model, predictor_of
    from ..hub.download import find_folder
    from ..hub.folders import copy_with_facts
    from ..tasks.evaluation.calibration import calibration_errors, cross_entropy, cross_probabilities, probabilities
    from ..tasks.evaluation.scoring import read_to_score

    if output is None and not Path(model).is_dir():
        raise InputError(
            f"{model} is a Hugging Face Hub model ID, which is read-only: pass -o FOLDER for the calibrated model."
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
    folder = find_folder(model)[0]
    target = folder if output is None else output
    copy_with_facts(folder, target, task.to_json())
    if fitted.is_at_limit:
        warn("The rows do not determine a temperature: all of them are right, or none is better than chance.")
    result = {
        "model": str(target),
        "temperature": fitted.value,
        "decisions": len(decisions),
        "before": {**before, "cross_entropy": cross_entropy(decisions)},
        "after": after,
    }
    if json:
        print_json(result)
        return
    fitted_on = f"{len(decisions):,} decisions of {settings.file}"
    print_text(f"temperature {fitted.value:.3f}, fitted on {fitted_on}; predictions do not change")
    for name, value in before.items():
        print_text(f"{name:<15} {value:.4f} as trained, {after[name]:.4f} calibrated (each half by the other half)")
    print_text(f"model:  {target}")
    print_next(PredictSettings, model=str(target), texts=("your text",), min_confidence=0.9)
