"""`maskwright predict`, `answer` and `fill-mask`: what a model says about texts, or about the rows of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core.config import check, option
from ..core.errors import ConfigError, InputError
from ..core.progress import note, track
from ..core.util import UNTRAINED, plural, shorten
from .common import JsonFlag, Part, Result, Table, print_json, print_parts
from .settings import DefaultModelCommand, takes_settings
from .using import (
    BATCH_TOKENS,
    ENSEMBLE,
    INPUT,
    MAX_LENGTH,
    AnnotatedRows,
    ExecutorHardware,
    Hardware,
    calibration_texts,
    check_one_source,
    model_of,
    read_any_rows,
    read_rows,
    refuse_same_file,
    tell_int8_loss,
    warn_of_cuts,
    warn_of_skipped,
)

if TYPE_CHECKING:
    from ..inference.answer import Answer
    from ..inference.fill_mask import FilledText, NextSentence
    from ..inference.predict import Predictor
    from ..inference.zero_shot import ZeroShot
    from ..tasks.base import AnyRow, TableRow
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
    ensemble: tuple[str, ...] = option((), ENSEMBLE)

    def __post_init__(self) -> None:
        check_one_source(self.texts, self.input)
        of_texts = {"choice": self.choice, "pair": self.pair}
        others = {**of_texts, "trace": self.trace, "min-confidence": self.min_confidence, "ensemble": self.ensemble}
        for name, value in of_texts.items():
            check(not value or self.input is None, f"--{name} goes with texts on the command line, not with --input.")
        for name in ("output", "min_confidence", "ensemble"):
            is_given = getattr(self, name) not in (None, ())
            check(not (self.trace and is_given), f"--trace shows one prediction; remove --{name.replace('_', '-')}.")
        check(self.template is None or self.labels is not None, "--template goes with --labels.")
        check(
            not self.ensemble or self.min_confidence is None, "--ensemble has no confidence: remove --min-confidence."
        )
        if self.labels is not None and (other := next((name for name, value in others.items() if value), None)):
            raise ConfigError(f"--labels classifies single texts; remove --{other}.")
        if self.choice and (len(self.texts) != 1 or len(self.pair) > 1):
            raise ConfigError(
                "--choice goes with one text, and at most one --pair for its question; give others in a file."
            )
        check(len(self.choice) != 1, "--choice is given once: pass at least two choices.")
        if self.pair and not self.choice and len(self.pair) != len(self.texts):
            given, wanted = plural(len(self.pair), "time"), plural(len(self.texts), "text")
            raise ConfigError(f"--pair is given {given} for {wanted}: pass one per text.")


@takes_settings(PredictSettings, command_class=DefaultModelCommand)
def predict(settings: PredictSettings, json: JsonFlag = False) -> None:
    """Predict with a fine-tuned model: labels, values, entities with offsets, choices, anomaly scores.

    A model with a next-sentence head predicts whether the second text of each pair follows the first.

    Examples:

        maskwright predict runs/b/model "great film" "a bore" --json

        maskwright predict runs/nli/model "A man sleeps." --pair "A man is awake."

        maskwright predict runs/b/model --input texts.txt --min-confidence 0.9 --output answers.jsonl

        maskwright predict runs/n/model "Albert is going to United States of America."

        maskwright predict runs/m/model "Tom was hungry. He" --choice "ate." --choice "slept."

        maskwright predict "My router is broken." --labels hardware,software,billing

        maskwright predict runs/nsp/model "The man went to the store." --pair "He bought a gallon of milk."

        maskwright predict runs/b/model --ensemble runs/c/model --input texts.txt --output answers.jsonl
    """
    from ..inference.output_files import check_output, write_answers
    from ..inference.predict import Predictor

    output = settings.output
    refuse_same_file(settings.input, output)
    if output is not None:
        check_output(output)
    rows = _rows(settings)
    predictor, answers = _answers(settings, rows)
    if settings.trace:
        assert isinstance(predictor, Predictor)
        for value, parts in _traces(predictor, rows):
            print_json(value) if json else print_parts(parts)
    elif output is not None:
        note(f"{plural(write_answers(output, answers), 'answer')} in {output}")
    elif json:
        for answer in answers:
            print_json(answer)
    else:
        print_parts(_tables(answers, getattr(predictor, "task", None)))
    if not isinstance(rows, Sequence):
        warn_of_skipped(rows)
    if isinstance(predictor, Predictor) and settings.min_confidence is not None:
        many = plural(predictor.num_abstained, "text has", "texts have")
        note(f"{many} no label: the confidence is below {settings.min_confidence:g}.")
    warn_of_cuts(predictor.counts)


def _rows(settings: PredictSettings) -> Sequence[AnyRow] | RowStream:
    if settings.input is not None:
        return read_any_rows(settings.input, settings.roles, settings.skip_bad_rows)
    from ..tasks.examples import rows_of
    from ..text.readers.choices import choices_of

    texts, pairs = settings.texts, settings.pair
    if settings.choice:
        named = {"context": texts[0], "question": pairs[0] if pairs else "", "choices": list(settings.choice)}
        return choices_of([named], with_labels=False)
    return rows_of(list(zip(texts, pairs, strict=True)) if pairs else list(texts))


def _answers(settings: PredictSettings, rows: Sequence[AnyRow] | RowStream) -> tuple[Any, Iterator[dict[str, Any]]]:
    """What predicts, and its answers: the texts of each row with its prediction, question ID and gold label."""
    from ..api import make_int8, open_ensemble, open_model, open_zero_shot, predictor_of
    from ..inference.fill_mask import NextSentence
    from ..inference.ready import keep_private, kind_of

    typical = calibration_texts(settings, None if settings.input is None else rows)
    model, precision = model_of(settings, settings.model)
    hardware: dict[str, Any] = {"device": settings.device, "precision": precision}
    options: dict[str, Any] = {"max_length": settings.max_length, **hardware}
    if settings.ensemble:
        check(precision != "int8", "--ensemble computes in fp32 or bf16: remove --precision int8.")
        members = open_ensemble(list(dict.fromkeys((model, *settings.ensemble))), **options)
        united = members.run(
            lambda task: list(rows),
            is_scored=False,
            skip_bad_rows=settings.skip_bad_rows,
            batch_tokens=settings.batch_tokens,
        )
        return united, united.answers()
    found: Predictor | ZeroShot
    if settings.labels is not None:
        template = settings.template or TEMPLATE
        found = open_zero_shot(model, settings.labels.split(","), template=template, calibrate_on=typical, **options)
    else:
        loaded = open_model(model, ("predict", "next-sentence"), **hardware, untrained=settings.untrained)
        if not kind_of(loaded).can("predict"):
            judge = NextSentence(loaded)
            return judge, _next_sentences(judge, rows, settings.model)
        found = predictor_of(loaded, model, settings.max_length, settings.min_confidence)
        make_int8(loaded, typical, found.max_length)
        keep_private(loaded)
        tell_int8_loss(loaded)
    return found, _predictions(found, rows, settings.batch_tokens)


def _next_sentences(judge: NextSentence, rows: Iterable[AnyRow], name: str) -> Iterator[dict[str, Any]]:
    pairs = [(row.text, row.text_pair or "") for row in rows]
    check(all(second for _, second in pairs), f"{name} predicts next sentences of pairs: pass --pair.")
    for (a, b), share in zip(pairs, judge.probabilities(pairs).tolist(), strict=True):
        label = "IsNext" if share >= 0.5 else "NotNext"
        yield {"text": a, "text_pair": b, "label": label, "score": max(share, 1 - share), "is_next": share}


def _predictions(
    predictor: Predictor | ZeroShot, rows: Sequence[AnyRow] | RowStream, batch_tokens: int | None
) -> Iterator[dict[str, Any]]:
    count = len(rows) if isinstance(rows, Sequence) else rows.num_rows
    with track("predicting", count, "texts") as progress:
        for number, (row, answer) in enumerate(predictor.stream(rows, batch_tokens), start=1):
            texts = {"text": row.text} if row.text_pair is None else {"text": row.text, "text_pair": row.text_pair}
            gold = {} if row.label is None else {"gold": row.label}
            name = {} if (id := getattr(row, "id", None)) is None else {"id": id}
            yield {**name, **texts, **answer, **gold}
            progress.update(number)


def _tables(answers: Iterator[dict[str, Any]], task: Any) -> Iterator[Part]:
    """Tables of predictions. task: of the model, None for labels that it was not trained for."""
    from ..tasks.base import label_rows

    written = task.written if task is not None else ""
    rows_of_answer = label_rows if task is None else task.table_rows
    cells = (line for answer in answers for line in _lines(answer, rows_of_answer(answer)))
    while rows := list(islice(cells, TABLE_ROWS)):
        yield Table(("text", written or "label", "score"), rows, right=("score",))


def _lines(answer: dict[str, Any], rows: list[TableRow]) -> Iterator[tuple[str, str, str]]:
    """Yields text, label and score; then the other rows of the prediction, indented."""
    text = shorten(answer["text"] + (f" | {answer['text_pair']}" if "text_pair" in answer else ""))
    for number, row in enumerate(rows):
        yield (f"  {row.what}" if number else text), row.result, "" if row.score is None else f"{row.score:.4f}"


def _traces(predictor: Predictor, rows: Iterable[AnyRow]) -> Iterator[Result]:
    from ..inference.predict import trace
    from ..tasks.examples import content_of

    for row in rows:
        found = trace(predictor, content_of(row))
        label = found.answer.get("label", found.answer.get("labels", ""))
        score = f"{found.answer['score']:.4f}" if "score" in found.answer else ""
        count, shapes = len(found.words) - found.num_closing, found.summary("words", closing=False)
        closing = f"{count} without the closing {found.tokens[-1]}:  {shapes}" if found.num_closing else None
        yield (
            {"text": row.text, **found.to_json()},
            (
                Table(("step", "shape", "what it is"), [(step.name, step.size, step.note) for step in found.steps]),
                f"{len(found.words)} tokens, split at whitespace:  {found.summary('words')}",
                closing,
                f"{len(found.tokens)} {predictor.tokenizer.kind} tokens:  {found.summary('pieces')}",
                f"answer: {label} {score}\n",
            ),
        )


@dataclass(frozen=True, kw_only=True)
class AnswerSettings(Hardware):
    """Settings of `maskwright answer`. Raises ConfigError unless there is one context."""

    COMMAND: ClassVar[str] = "answer"

    model: str = option(help="Question-answering model: a folder, or a Hugging Face Hub model ID.", is_argument=True)
    question: tuple[str, ...] = option(help="Question. Repeatable.")
    context: str | None = option(None, "Text that contains the answer.")
    context_file: Path | None = option(None, "Text file with the context.")
    top_k: int = option(3, "Number of candidate spans to show.", minimum=1, maximum=20)
    threshold: float | None = option(
        None,
        "Predict no answer if its score exceeds that of the best span by more than this.",
        default_help="as trained",
    )
    trace: bool = option(False, "Show word positions of the answer, from 1.")
    max_length: int | None = option(None, MAX_LENGTH)
    untrained: bool = option(False, UNTRAINED)

    def __post_init__(self) -> None:
        check((self.context is None) != (self.context_file is None), "Pass either --context or --context-file.")


@takes_settings(AnswerSettings)
def answer(settings: AnswerSettings) -> Iterator[Result]:
    """Extract answer spans from a text of any length.

    Examples:

        maskwright answer runs/q/model --question "Who sleeps?" --context "The old man sleeps." --json

        maskwright answer runs/q/model --question "Who won?" --question "Where?" --context-file report.txt --top-k 5

        maskwright answer runs/q/model --question "Who sleeps?" --context "The old man sleeps." --trace
    """
    text = settings.context or "" if settings.context_file is None else _read(settings.context_file)
    from ..api import open_answerer

    answerer = open_answerer(
        settings.model,
        max_length=settings.max_length,
        threshold=settings.threshold,
        device=settings.device,
        precision=settings.precision,
        untrained=settings.untrained,
    )
    asked = [(one, text) for one in settings.question]
    for (one, _), found in zip(asked, answerer.answer(asked, settings.top_k), strict=True):
        traced = answerer.trace(one, text, found) if settings.trace else None
        value = {"question": one, **found.answer, "candidates": found.candidates}
        yield (
            value | ({} if traced is None else {"trace": traced.to_json()}),
            (_candidates(one, found), None if traced is None else str(traced)),
        )
    warn_of_cuts(answerer.counts)


def _read(path: Path) -> str:
    from ..text.formats.files import read_lines

    lines = list(read_lines(path))
    for line in lines:
        if line.fault:
            raise InputError(f"{path}:{line.number}: {line.fault}.")
    return "\n".join(line.text for line in lines)


def _candidates(question: str, found: Answer) -> Table:
    rows = [
        (entry["answer"], f"{entry['start']}-{entry['end']}", f"{entry['score']:.4f}") for entry in found.candidates
    ]
    rows.append(("(no answer)", "", f"{found.answer['no_answer_score']:.4f}"))
    title = f"{question}   {found.answer['answer'] or 'no answer'}"
    return Table(("answer", "characters", "probability"), rows, title, right=("characters", "probability"))


@dataclass(frozen=True, kw_only=True)
class FillMaskSettings(Hardware):
    """Settings of `maskwright fill-mask`. Raises ConfigError unless there is one source of texts."""

    COMMAND: ClassVar[str] = "fill-mask"

    model: str = option(help="Masked language model: a folder, or a Hugging Face Hub model ID.", is_argument=True)
    texts: tuple[str, ...] = option((), "Texts with at least one [MASK].", is_argument=True)
    input: Path | None = option(None, INPUT)
    top_k: int = option(5, "Number of candidates per mask.", minimum=1)
    whole: bool = option(False, "Show all tokens of the vocabulary.", flag="--all")
    word: tuple[str, ...] = option((), "Score only this word, with its rank. Repeatable.", default_help="all words")
    words: str | None = option(None, "Score only these words.", metavar="WORD,…", default_help="all words")

    def __post_init__(self) -> None:
        check_one_source(self.texts, self.input)
        check(self.words is None or bool(self.wanted), "--words is empty: pass words, as in --words gallon,liter.")

    @property
    def wanted(self) -> list[str]:
        """The words to score, empty for all."""
        return [*self.word, *(part.strip() for part in (self.words or "").split(",") if part.strip())]


@takes_settings(FillMaskSettings, command_class=DefaultModelCommand)
def fill_mask(settings: FillMaskSettings) -> Iterator[Result]:
    """Predict masked tokens.

    Examples:

        maskwright fill-mask runs/a/model "the man went to the [MASK] ." --top-k 5

        maskwright fill-mask runs/a/model "[MASK] is the capital of [MASK] ." --json

        maskwright fill-mask runs/a/model "he bought a [MASK] of milk ." --words gallon,liter
    """
    from ..api import open_mask_filler

    texts = list(settings.texts) if settings.input is None else [row.text for row in read_rows(settings.input)]
    filler = open_mask_filler(settings.model, device=settings.device, precision=settings.precision)
    top_k = None if settings.whole or settings.wanted else settings.top_k
    for found in filler.fill(texts, top_k, settings.wanted or None):
        yield found.to_json(), _masks(found)


def _masks(found: FilledText) -> Iterator[Part]:
    for number, mask in enumerate(found.masks, start=1):
        title = found.text if len(found.masks) == 1 else f"{found.text}   (mask {number} of {len(found.masks)})"
        rows = [(entry.rank, entry.token_str, f"{entry.score:.4f}", entry.sequence) for entry in mask.candidates]
        yield Table(("rank", "token", "probability", "text"), rows, title, right=("rank", "probability"))
    if len(found.masks) > 1:
        yield f"filled: {found.filled}\n"
