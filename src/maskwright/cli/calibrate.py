"""`maskwright calibrate`: temperature scaling of a fine-tuned model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..core.errors import InputError
from ..core.progress import warn
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_text,
    set_threads,
)
from .using import BatchTokensOption, MaxLengthOption


def calibrate(
    model: Annotated[str, typer.Argument(help="Folder of a classification or token-classification model.")],
    file: Annotated[Path, typer.Argument(help="Labeled rows that were not used in training.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="New model folder.  \\[default: MODEL itself]")
    ] = None,
    columns: ColumnsOption = None,
    max_length: MaxLengthOption = None,
    batch_tokens: BatchTokensOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Fit a temperature on labeled rows and store it in maskwright.json. Predicted labels do not change.

    All commands and estimators apply it to their probabilities. The reported calibration error is cross-fitted: each
    half of the file is scored with the temperature of the other half.

    Examples:

        maskwright calibrate runs/b/model dev.tsv

        maskwright calibrate runs/n/model dev.conll -o runs/n/calibrated --json
    """
    set_threads(threads)
    from ..api import ANSWERING, open_model, predictor_of
    from ..hub.download import find_folder
    from ..hub.facts_file import copy_with_facts
    from ..tasks.evaluation.calibration import calibration_errors, cross_entropy, cross_probabilities, probabilities
    from ..tasks.evaluation.scoring import read_to_score

    if output is None and not Path(model).is_dir():
        raise InputError(
            f"{model} is a Hugging Face Hub model ID, which is read-only: pass -o FOLDER for the calibrated model."
        )
    predictor = predictor_of(open_model(model, ANSWERING, device, precision), model, max_length)
    task = predictor.task
    table = read_to_score(task, file, model, columns=parse_columns(columns), skip_bad_rows=skip_bad_rows)
    examples, evaluation = predictor.evaluate(table.rows, skip_bad_rows=skip_bad_rows, batch_tokens=batch_tokens)
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
    print_text(
        f"temperature {fitted.value:.3f}, fitted on {len(decisions):,} decisions of {file}; answers stay the same"
    )
    for name, value in before.items():
        print_text(f"{name:<15} {value:.4f} as trained, {after[name]:.4f} calibrated (each half by the other half)")
    print_text(f"model:  {target}")
    print_text(f'next:   maskwright predict {target} "your text" --min-confidence 0.9')
