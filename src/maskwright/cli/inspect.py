"""`maskwright inspect` and `probe`: what a model computes for a text, views of networks, and probes of its layers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..core.config import check, option
from ..core.errors import ConfigError
from ..core.progress import warn
from ..core.registry import unknown_name
from ..core.util import PRECISION, Precision
from ..train.settings import SEED
from .common import Part, Result, Table
from .settings import DefaultModelCommand, takes_settings
from .using import BEAM, MAX_LENGTH, MODEL, Hardware, Page, Rows, check_page

if TYPE_CHECKING:
    from ..inspect import AttentionChanges, AttentionMap, Inspection
    from ..models.model import Model

SUFFIXES = (".html", ".json")
WIDEST_TABLE = 16  # maximum tokens of an attention table in a terminal
ATTENTION = "attention"
POOLINGS = ("mean", "cls", "max")
HEADS, UNITS = 5, 3  # shown per search, and per rule
NUMBERS = ("searched", "confirmed", "random weights")
LENGTH_COLUMNS = ("model", "words", "texts", "BLEU", "token accuracy", "exact")


@dataclass(frozen=True, kw_only=True)
class InspectSettings(Hardware, Rows):
    """Settings of `maskwright inspect`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "inspect"

    model: str = option(help="Model folder, run checkpoint, or Hugging Face Hub model ID.", is_argument=True)
    texts: tuple[str, ...] = option(
        (), "Text to inspect; files of --view cells, further models of the other views.", is_argument=True
    )
    view: Literal["attention", "cells", "gradients", "lengths"] = option(
        ATTENTION,
        "What to show: attention of a text, units of a recurrent network, gradients of recurrent networks by distance, "
        "or translation scores by source length",
    )
    input: tuple[Path, ...] = option(
        (), "File, folder or glob for the views of files. Repeatable.", old_flag="--text --data"
    )
    pair: str | None = option(None, "Second text of a pair.")
    target: str | None = option(None, "Target text of a translation model.", default_help="its translation")
    against: str | None = option(None, "Second text to compare: shows the heads whose attention changes most.")
    against_model: str | None = option(
        None, "Second model or checkpoint to compare, such as runs/a/checkpoints/step-500."
    )
    word: str | None = option(None, "With --against: only the attention of this word.")
    find: tuple[str, ...] = option(
        (), 'Find heads by pattern ("previous token", "separator", "it -> animal"). Repeatable.'
    )
    flow: str | None = option(None, "Show attention rollout and flow to this word.")
    kind: str | None = option(
        None, "Attention of a translation model: encoder, decoder or cross.", default_help="cross"
    )
    layers: str | None = option(None, "Only these layers, counted from 1, as in 3 or 1,4-6.", default_help="all")
    heads: str | None = option(None, "Only these heads, counted from 1, as in 3 or 1,4-6.", default_help="all")
    top: int | None = option(
        None, "Number of heads per search, or units per rule.", default_help="5; 3 units", minimum=1
    )
    beams: int = option(1, BEAM, flag="--beam")
    rule: tuple[str, ...] = option(
        (),
        "Rule of --view cells: quotes, line, depth, capitals, heading, comment or condition. Repeatable.",
        default_help="all",
    )
    unit: tuple[str, ...] = option((), "Unit that --view cells also draws. Repeatable.", metavar="LAYER:UNIT")
    max_tokens: int = option(50_000, "Maximum tokens that --view cells reads.", minimum=4)
    distance: int = option(50, "Maximum distance of --view gradients, in tokens.", minimum=2)
    untrained: bool = option(False, "With --view gradients: also measure the networks with random weights.")
    groups: int = option(8, "Maximum number of length groups of --view lengths.", minimum=2)
    output: Path | None = option(None, "Write an HTML page, or all results as .json.", short="-o")
    max_length: int | None = option(None, MAX_LENGTH)
    precision: Precision = option("fp32", PRECISION)
    seed: int = option(0, SEED)

    def __post_init__(self) -> None:
        if self.output is not None and self.output.suffix.lower() not in SUFFIXES:
            raise ConfigError(f"{self.output} has an unknown extension: use .html or .json.")
        check(self.against is None or self.against_model is None, "Pass either --against or --against-model, not both.")
        check(
            self.word is None or self.against is not None,
            "--word goes with --against: it is the word whose attention is compared.",
        )
        if self.view == ATTENTION:
            check(len(self.texts) == 1, "Pass one text to inspect.")
            check(not self.input, "--input goes with --view cells, gradients or lengths.")
        elif self.view == "cells":
            check(bool(self.texts or self.input), "--view cells reads text files: pass them after the model.")
        else:
            check(bool(self.input), f"--view {self.view} reads a file: pass --input FILE.")
        check(
            self.view != "lengths" or len(self.input) <= 2,
            "--view lengths reads --input FILE with pairs, or --input twice: sources and translations.",
        )
        _ = self.chosen

    @property
    def chosen(self) -> dict[str, list[int] | None]:
        """The numbers of the layers and heads to show, None for all."""
        return {"layers": numbers(self.layers, "layers"), "heads": numbers(self.heads, "heads")}

    @property
    def is_json(self) -> bool:
        return self.output is not None and self.output.suffix.lower() == ".json"

    def with_pair(self, text: str) -> str | tuple[str, str]:
        return text if self.pair is None else (text, self.pair)


@dataclass(frozen=True)
class PageResults:
    """Results of one command: what was looked at, its attention, heads found, and comparisons where asked for."""

    looks: list[Inspection]
    attention: AttentionMap
    patterns: list[Any]
    moves: AttentionChanges | None
    comparison: Any
    flow: dict[str, Any] | None


@takes_settings(InspectSettings, command_class=DefaultModelCommand)
def inspect(settings: InspectSettings) -> Iterator[Result]:
    """Show attention, head patterns, predictions and attributions for a text, or another view of a model.

    --view cells finds units that track quotes, line position, brackets, capitals, headings, comments or conditions:
    they are selected by correlation on the first half of the text and confirmed on the second; "random weights" is the
    same search in an untrained network. --view gradients measures how the gradient of the loss decays with distance.

    Examples:

        maskwright inspect runs/a/model "The animal didn't cross the street because it was too tired" -o page.html

        maskwright inspect runs/a/model "it was too tired" --against "it was too wide" --word it --json

        maskwright inspect runs/a/model "the cat sat" --find "previous token" --find "cat -> sat" --layers 1-3

        maskwright inspect runs/de-en/model "ein Haus am See" --target "a house by the lake" -o translation.html

        maskwright inspect runs/lstm/model --view cells book.txt --rule quotes --unit 2:17 -o cells.html

        maskwright inspect runs/rnn/model runs/lstm/model --view gradients --input book.txt --untrained

        maskwright inspect runs/t/model --view lengths --input dev.tsv --groups 4 --json
    """
    if settings.view == ATTENTION:
        yield from _attention(settings)
        return
    if not settings.is_json:
        check_page(settings.output)
    value, parts = {"cells": _cells, "gradients": _gradients, "lengths": _lengths}[settings.view](settings)
    if settings.is_json:
        _write_json(settings, value)
    yield value, (*parts, *_written(settings))


def _write_json(settings: InspectSettings, value: Any) -> None:
    from ..core.storage import write_json

    assert settings.output is not None
    write_json(settings.output, value)


def _written(settings: InspectSettings) -> list[str]:
    return [] if settings.output is None else [f"written: {settings.output}"]


def _attention(settings: InspectSettings) -> Iterator[Result]:
    from ..inspect import write_page

    found, output = _inspect(settings), settings.output
    value = _as_json(settings, found)
    if output is not None and settings.is_json:
        _write_json(settings, value)
        value = {"output": str(output)}
    elif output is not None:
        write_page(output, found.looks, found.moves, found.comparison)
    yield value, (*_shown(found, settings.top or HEADS), *_written(settings))


def _inspect(settings: InspectSettings) -> PageResults:
    from ..inspect import compare_models, head_moves, look, search, through
    from ..inspect.heads import names_apart

    opened, text = _open(settings.model, settings), settings.with_pair(settings.texts[0])
    asked: dict[str, Any] = {
        "target": settings.target,
        "max_length": settings.max_length,
        "beams": settings.beams,
        "brief": settings.output is None or settings.is_json,
        **settings.chosen,
    }
    names = (Path(settings.model).name, "")
    if settings.against_model is not None:
        names = names_apart(settings.model, settings.against_model)
    looks, moves, comparison = [look(opened, text, name=names[0], **asked)], None, None
    first = looks[0].attention.of(settings.kind)
    if settings.against is not None:
        looks.append(look(opened, settings.with_pair(settings.against), name=names[0], **asked))
        moves = head_moves(first, looks[1].attention.of(settings.kind), settings.word)
    elif settings.against_model is not None:
        other = _open(settings.against_model, settings)
        looks.append(look(other, text, name=names[1], **asked))
        comparison = compare_models(opened, other, [text], max_length=settings.max_length)
    flow = None if settings.flow is None else through(first, settings.flow)
    return PageResults(looks, first, search(first, list(settings.find)), moves, comparison, flow)


def _as_json(settings: InspectSettings, found: PageResults) -> dict[str, Any]:
    is_json, top, (look, *others) = settings.is_json, settings.top or HEADS, found.looks
    has_weights = settings.layers is not None or settings.heads is not None or is_json
    result = {
        "model": look.name,
        "facts": look.facts,
        **look.attention.to_json(weights=has_weights),
        "found": [one.to_json(None if is_json else top) for one in found.patterns],
        **({} if found.moves is None else {"moves": found.moves.to_json(top)}),
        **({} if found.comparison is None else {"comparison": found.comparison.to_json()}),
        **({} if found.flow is None else {"flow": found.flow}),
        **({} if look.predictions is None else {"predictions": look.predictions.to_json(top)}),
        **({"attributions": [one.to_json() for one in look.attributions]} if look.attributions else {}),
        **({"states": look.states.to_json()} if is_json else {}),
    }
    for other in others:
        result["beside"] = {"model": other.name, **other.attention.to_json(weights=is_json)}
    return result


def _open(name: str, settings: InspectSettings) -> Model:
    """Opens a model folder, a Hugging Face Hub model ID or a run checkpoint."""
    from ..api import open_checkpoint, open_model
    from ..train.finetuning.seeds import is_checkpoint

    if is_checkpoint(Path(name)):
        return open_checkpoint(name, device=settings.device, precision=settings.precision)
    return open_model(name, (), settings.device, settings.precision)


def numbers(text: str | None, what: str) -> list[int] | None:
    """`1,4-6` as [1, 4, 5, 6]; None for None. Raises ConfigError for anything else."""
    if text is None:
        return None
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ConfigError(f"--{what} is '{text}'; it takes numbers from 1, as in 3 or 1,4-6.")
        found += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(found))


def _shown(found: PageResults, top: int) -> Iterator[Part]:
    from ..inspect.heads import attention_rows

    look, first, followed, moves = found.looks[0], found.attention, found.flow, found.moves
    yield f"{look.name}: {look.facts}"
    yield f"tokens: {' '.join(first.queries.labels)}"
    yield f"{first.kind} attention: {first.source}\n"
    if len(first.layers) * len(first.heads) == 1 and len(first.keys) <= WIDEST_TABLE:
        columns, rows = attention_rows(first, first.layers[0], first.heads[0])
        yield Table(columns, rows, f"layer {first.layers[0]}, head {first.heads[0]}", columns[1:])
    if followed is not None:
        rows = [[one["token"], f"{one['rollout']:.4f}", f"{one['flow']:.4f}"] for one in followed["inputs"]]
        title = f"where '{followed['token']}' at layer {followed['layer']} comes from"
        yield Table(("input", "rollout", "flow"), rows, title, ("rollout", "flow"))
    if moves is not None:
        rows = [[str(one.layer), str(one.head), f"{one.distance:.3f}", _shifts(one)] for one in moves.moves[:top]]
        title = f"largest attention changes{f' of {moves.word!r}' if moves.word else ''} between the two texts"
        yield Table(("layer", "head", "change", "where"), rows, title, ("layer", "head", "change"))
        return
    rows = [
        [one.pattern, str(head.layer), str(head.head), f"{head.score:.3f}", f"{head.even:.3f}"]
        for one in found.patterns
        for head in one.heads[: top if len(found.patterns) < 3 else 1]
    ]
    if rows:
        yield Table(("pattern", "layer", "head", "score", "uniform"), rows, "heads by pattern",
                    ("layer", "head", "score", "uniform"))  # fmt: skip


def _shifts(move: Any) -> str:
    some = [one for one in move.shifts if abs(one.change) >= 0.005][:3]
    return ", ".join(f"{one.label} {one.before:.2f} to {one.after:.2f}" for one in some)


def _cells(settings: InspectSettings) -> Result:
    from ..api import open_model
    from ..inspect.cells import RULES, documents_of, find_units, read_cells, tokens_of, untrained_like
    from ..inspect.reports import confirmed_text, headline, write_cells
    from ..models.model import tokenizer_of

    rules, files = settings.rule or tuple(RULES), (*settings.texts, *map(str, settings.input))
    for name in rules:
        check(name in RULES, unknown_name("rule", name, RULES))
    model = open_model(settings.model, "predict-next", settings.device, "fp32")
    shown = [_unit(one, model) for one in settings.unit]
    read = tokens_of(documents_of(files, skip_bad_rows=settings.skip_bad_rows), tokenizer_of(model))
    readings = read_cells(model, read, settings.max_tokens)
    untrained = read_cells(untrained_like(model), read, settings.max_tokens)
    found = [one for name in rules for one in find_units(readings, name, untrained, settings.top or UNITS)]
    if settings.output is not None and not settings.is_json:
        write_cells(settings.output, readings, found, shown, Path(settings.model).name)
    rows = [
        [one.rule, f"{one.layer}:{one.unit}", f"{one.searched:+.3f}", confirmed_text(one), f"{one.random:.3f}"]
        for one in found
    ]
    value = {"tokens": len(readings.ends), "units": [one.to_json() for one in found]}
    return value, (Table(["rule", "unit", *NUMBERS], rows, right=NUMBERS), headline(found))


def _unit(text: str, model: Model) -> tuple[int, int]:
    """Layer, from 1, and unit, from 0. Raises ConfigError."""
    layers, size = model.config.num_hidden_layers, model.config.direction_size
    layer, _, unit = text.partition(":")
    is_there = layer.isdecimal() and unit.isdecimal() and 1 <= int(layer) <= layers and int(unit) < size
    check(
        is_there, f"--unit is '{text}'; it must be a layer from 1 to {layers} and a unit from 0 to {size - 1}, as 1:0."
    )
    return int(layer), int(unit)


def _gradients(settings: InspectSettings) -> Result:
    from ..api import open_model
    from ..inspect.cells import documents_of, tokens_of
    from ..inspect.gradients import fading
    from ..inspect.reports import gradients_headline, table, write_gradients
    from ..models.build import build
    from ..models.model import tokenizer_of

    documents = documents_of([str(one) for one in settings.input], skip_bad_rows=settings.skip_bad_rows)
    found = []
    for place in (settings.model, *settings.texts):
        model = open_model(place, "predict-next", "cpu", "fp32")
        ids = tokens_of(documents, tokenizer_of(model)).ids.tolist()
        found.append(fading(model, ids, settings.distance, place))
        if settings.untrained:
            fresh = build(model.config, "clm", seed=settings.seed)
            found.append(fading(fresh, ids, settings.distance, f"{place}, untrained"))
    if settings.output is not None and not settings.is_json:
        write_gradients(settings.output, found)
    return [one.to_json() for one in found], (Table(*table(found)), gradients_headline(found))


def _lengths(settings: InspectSettings) -> Result:
    from ..api import open_translator
    from ..inspect.lengths import by_length
    from ..inspect.reports import lengths_headline, write_lengths
    from ..tasks.translation import Translation

    path = settings.input[0] if len(settings.input) == 1 else (settings.input[0], settings.input[1])
    rows = Translation.read(path, columns=settings.columns, skip_bad_rows=settings.skip_bad_rows).rows
    hardware: Any = {"device": settings.device, "precision": settings.precision}
    found = []
    for place in (settings.model, *settings.texts):
        opened = open_translator(place, max_length=settings.max_length, **hardware)
        sizes: Any = {"max_length": opened.max_length, "groups": settings.groups, "beams": settings.beams}
        found.append(by_length(opened.model, opened.task, rows, name=place, **sizes))
    if settings.output is not None and not settings.is_json:
        write_lengths(settings.output, found)
    cells = [
        [one.name, f"{words:.1f}", f"{count:,}", "-" if one.bleu is None else f"{one.bleu[place]:.1f}",
         f"{one.token_accuracy[place]:.3f}", f"{one.exact[place]:.3f}"]
        for one in found
        for place, (words, count) in enumerate(zip(one.words, one.rows, strict=True))
    ]  # fmt: skip
    return [one.to_json() for one in found], (Table(LENGTH_COLUMNS, cells), lengths_headline(found))


@dataclass(frozen=True, kw_only=True)
class ProbeSettings(Hardware, Rows, Page):
    """Settings of `maskwright probe`. Raises ConfigError for an unknown pooling."""

    COMMAND: ClassVar[str] = "probe"

    model: str = option(help=MODEL)
    train: Path = option(help="Training data: tagged sentences or labeled texts.")
    dev: Path | None = option(None, "Dev data, on which the probes are scored.", default_help="a quarter of --train")
    pooling: str = option("mean", "Pooling of text embeddings: mean, cls or max.")
    most: int = option(10_000, "Maximum words or texts per file.", minimum=2)
    max_length: int | None = option(None, MAX_LENGTH)
    seed: int = option(0, SEED)
    precision: Precision = option("fp32", PRECISION)

    def __post_init__(self) -> None:
        check(self.pooling in POOLINGS, unknown_name("pooling", self.pooling, POOLINGS))


@takes_settings(ProbeSettings)
def probe(settings: ProbeSettings) -> Iterator[Result]:
    """Train linear probes on each frozen layer, with a control task of random labels.

    Control-task accuracy measures memorization; selectivity is accuracy minus control-task accuracy.

    Examples:

        maskwright probe runs/a/model --train train.conll --dev dev.conll --columns token=0,tag=1 -o probe.html

        maskwright probe runs/a/model --train tickets.tsv --pooling cls --json
    """
    check_page(settings.output)
    from ..api import open_model
    from ..inference.probing import MAX_STEPS, read_labeled
    from ..inference.probing import probe as probe_layers
    from ..inspect.reports import COLUMNS, probe_rows, write_probes
    from ..inspect.reports import probe_headline as headline

    rows, held = (
        None if path is None else read_labeled(path, columns=settings.columns, skip_bad_rows=settings.skip_bad_rows)
        for path in (settings.train, settings.dev)
    )
    found = probe_layers(
        open_model(settings.model, (), settings.device, settings.precision, untrained=True),  # its head is not used
        rows or (),
        held,
        pooling=settings.pooling,
        max_length=settings.max_length,
        most=settings.most,
        seed=settings.seed,
    )
    if found.num_unfinished:
        warn(f"{found.num_unfinished} probes were still improving after {MAX_STEPS:,} steps.")
    if settings.output is not None:
        write_probes(settings.output, found, Path(settings.model).name)
    page = None if settings.output is None else f"page: {settings.output}"
    yield found.to_json(), (Table(COLUMNS, probe_rows(found), right=COLUMNS), headline(found), page)
