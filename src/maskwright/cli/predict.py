"""`maskwright predict`: the answers of a fine-tuned model, for texts on the command line or for a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.config import option
from ..core.errors import ConfigError
from ..core.progress import note, track
from ..core.util import UNTRAINED, plural, shorten
from .common import JsonFlag, print_json, print_table, print_text
from .pages import with_default_model
from .settings import takes_settings
from .using import (
    BATCH_TOKENS,
    INPUT,
    MAX_LENGTH,
    AnnotatedRows,
    ExecutorHardware,
    calibration_texts,
    check_one_source,
    model_of,
    read_any_rows,
    refuse_same_file,
    tell_int8_loss,
    warn_of_cuts,
    warn_of_skipped,
)

if TYPE_CHECKING:
    from ..inference.predict import Predictor
    from ..inference.zero_shot import ZeroShot
    from ..tasks.base import AnyRow, TableRow, Task
    from ..text.readers.tables import RowStream

TEMPLATE = "This text is about {}."
TABLE_ROWS = 10_000  # answers shown as one table; more come as several, so that they need not all be held


@dataclass(frozen=True, kw_only=True)
class PredictSettings(ExecutorHardware, AnnotatedRows):
    """Settings of `maskwright predict`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "predict"

    model: str = option(help="Fine-tuned model: a folder, or a Hugging Face Hub model ID.", is_argument=True)
    texts: tuple[str, ...] = option((), "Texts to predict labels for.", is_argument=True)
    pair: tuple[str, ...] = option((), "Second text of each pair, in order. Repeatable.")
    choice: tuple[str, ...] = option((), "Answer choice of a multiple-choice context. Repeatable.")
    input: Path | None = option(None, INPUT)
    output: Path | None = option(None, "Output file: .jsonl, .csv or .tsv.", short="-o")
    min_confidence: float | None = option(None, "Abstain below this class probability.", minimum=0, maximum=1)
    labels: str | None = option(
        None,
        "Classify by these class names without training, with a sentence encoder or an entailment model.",
        metavar="NAME,…",
        default_help="those of the model",
    )
    template: str | None = option(
        None, "With --labels: the sentence that is compared with the text.", default_help=TEMPLATE
    )
    trace: bool = option(False, "Show the tensor shapes of each step.")
    max_length: int | None = option(None, MAX_LENGTH)
    batch_tokens: int | None = option(None, BATCH_TOKENS)
    untrained: bool = option(False, UNTRAINED)

    def __post_init__(self) -> None:
        check_one_source(self.texts, self.input)
        if self.choice and self.input is not None:
            raise ConfigError("--choice goes with a text on the command line; a file has its choices in a column.")
        if self.pair and self.input is not None:
            raise ConfigError("--pair goes with texts on the command line; a file has its second texts in a column.")
        if self.trace and self.output is not None:
            raise ConfigError("--trace shows its result; remove --output.")
        if self.trace and self.min_confidence is not None:
            raise ConfigError("--trace shows the answer whatever its probability; remove --min-confidence.")
        if self.template is not None and self.labels is None:
            raise ConfigError("--template goes with --labels.")
        others = {"pair": self.pair, "choice": self.choice, "trace": self.trace, "min-confidence": self.min_confidence}
        if self.labels is not None and (other := next((name for name, value in others.items() if value), None)):
            raise ConfigError(f"--labels classifies single texts; remove --{other}.")
        if self.choice and (len(self.texts) != 1 or len(self.pair) > 1):
            raise ConfigError(
                "--choice goes with one text, and at most one --pair for its question; give others in a file."
            )
        if len(self.choice) == 1:
            raise ConfigError("--choice is given once: pass at least two choices.")
        if self.pair and not self.choice and len(self.pair) != len(self.texts):
            given, wanted = plural(len(self.pair), "time"), plural(len(self.texts), "text")
            raise ConfigError(f"--pair is given {given} for {wanted}: pass one per text.")


@with_default_model
@takes_settings(PredictSettings)
def predict(settings: PredictSettings, json: JsonFlag = False) -> None:
    """Predict with a fine-tuned model: labels, values, entities with offsets, choices, anomaly scores.

    Examples:

        maskwright predict runs/b/model "great film" "a bore" --json

        maskwright predict runs/nli/model "A man sleeps." --pair "A man is awake."

        maskwright predict runs/b/model --input texts.txt --output answers.jsonl

        maskwright predict runs/b/model --input texts.txt --min-confidence 0.9 --output answers.jsonl

        maskwright predict runs/b/model --input texts.txt --precision int8 --output answers.jsonl

        maskwright predict runs/n/model "Albert is going to United States of America."

        maskwright predict runs/fr/model "I am a student"

        maskwright predict runs/m/model "Tom was hungry. He" --choice "ate." --choice "slept."

        maskwright predict "My router is broken." --labels hardware,software,billing

        maskwright predict runs/b/model "My router is broken." --trace
    """
    from ..inference.predict import Predictor

    output = settings.output
    refuse_same_file(settings.input, output)
    from ..inference.output_files import check_output, write_answers

    if output is not None:
        check_output(output)
    rows = _rows(settings)
    predictor = _open(settings, rows)
    if settings.trace:
        assert isinstance(predictor, Predictor)
        for row in rows:
            _show_trace(predictor, row, json)
    elif output is not None:
        count = write_answers(output, _answers(predictor, rows, settings.batch_tokens))
        note(f"{plural(count, 'answer')} in {output}")
    else:
        _show(_answers(predictor, rows, settings.batch_tokens), json, getattr(predictor, "task", None))
    if not isinstance(rows, Sequence):
        warn_of_skipped(rows)
    if isinstance(predictor, Predictor) and settings.min_confidence is not None:
        many = plural(predictor.num_abstained, "text has", "texts have")
        note(f"{many} no label: the confidence is below {settings.min_confidence:g}.")
    warn_of_cuts(predictor.counts)


def _rows(settings: PredictSettings) -> Sequence[AnyRow] | RowStream:
    """The rows of the file, or of the command line."""
    if settings.input is not None:
        return read_any_rows(settings.input, settings.roles, settings.skip_bad_rows)
    from ..tasks.examples import rows_of
    from ..text.readers.choices import choices_of

    texts, pairs = settings.texts, settings.pair
    if settings.choice:
        named = {"context": texts[0], "question": pairs[0] if pairs else "", "choices": list(settings.choice)}
        return choices_of([named], with_labels=False)
    return rows_of(list(zip(texts, pairs, strict=True)) if pairs else list(texts))


def _open(settings: PredictSettings, rows: Sequence[AnyRow] | RowStream) -> Predictor | ZeroShot:
    typical = calibration_texts(settings, None if settings.input is None else rows)
    from ..api import open_predictor, open_zero_shot

    model, precision = model_of(settings, settings.model)
    if settings.labels is not None:
        return open_zero_shot(
            model,
            settings.labels.split(","),
            template=settings.template or TEMPLATE,
            max_length=settings.max_length,
            device=settings.device,
            precision=precision,
            calibrate_on=typical,
        )
    predictor = open_predictor(
        model,
        max_length=settings.max_length,
        min_confidence=settings.min_confidence,
        device=settings.device,
        precision=precision,
        calibrate_on=typical,
        untrained=settings.untrained,
    )
    tell_int8_loss(predictor.model)
    return predictor


def _answers(
    predictor: Predictor | ZeroShot, rows: Sequence[AnyRow] | RowStream, batch_tokens: int | None
) -> Iterator[dict[str, Any]]:
    """Yields the texts of each row with its prediction, question ID and gold label."""
    count = len(rows) if isinstance(rows, Sequence) else rows.num_rows
    with track("predicting", count, "texts") as progress:
        for number, (row, answer) in enumerate(predictor.stream(rows, batch_tokens), start=1):
            texts = {"text": row.text} if row.text_pair is None else {"text": row.text, "text_pair": row.text_pair}
            gold = {} if row.label is None else {"gold": row.label}
            name = {} if (id := getattr(row, "id", None)) is None else {"id": id}
            yield {**name, **texts, **answer, **gold}
            progress.update(number)


def _show(answers: Iterator[dict[str, Any]], json: bool, task: Task | None) -> None:
    """Prints predictions. task: of the model, None for labels that it was not trained for."""
    if json:
        for answer in answers:
            print_json(answer)
        return
    from ..tasks.base import label_rows

    written = task.written if task is not None else ""
    rows_of_answer = label_rows if task is None else task.table_rows
    cells = (line for answer in answers for line in _lines(answer, rows_of_answer(answer)))
    while table := list(islice(cells, TABLE_ROWS)):
        print_table(("text", written or "label", "score"), table, right=("score",))


def _lines(answer: dict[str, Any], rows: list[TableRow]) -> Iterator[tuple[str, str, str]]:
    """Yields text, label and score; then the other rows of the prediction, indented."""
    text = shorten(answer["text"] + (f" | {answer['text_pair']}" if "text_pair" in answer else ""))
    for number, row in enumerate(rows):
        yield (f"  {row.what}" if number else text), row.result, "" if row.score is None else f"{row.score:.4f}"


def _show_trace(predictor: Predictor, row: AnyRow, json: bool) -> None:
    from ..inference.trace import trace
    from ..tasks.examples import content_of

    found = trace(predictor, content_of(row))
    if json:
        print_json({"text": row.text, **found.to_json()})
        return
    print_table(("step", "shape", "what it is"), [(step.name, step.size, step.note) for step in found.steps])
    print_text(f"{len(found.words)} tokens, split at whitespace:  {found.summary('words')}")
    if found.num_closing:
        count, shapes = len(found.words) - found.num_closing, found.summary("words", closing=False)
        print_text(f"{count} without the closing {found.tokens[-1]}:  {shapes}")
    print_text(f"{len(found.tokens)} {predictor.tokenizer.kind} tokens:  {found.summary('pieces')}")
    label = found.answer.get("label", found.answer.get("labels", ""))
    score = f"{found.answer['score']:.4f}" if "score" in found.answer else ""
    print_text(f"answer: {label} {score}\n")
