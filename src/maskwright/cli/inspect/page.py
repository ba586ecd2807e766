"""`maskwright inspect page`: attention, predictions and attributions of a model for one text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.config import option
from ...core.errors import ConfigError
from ...core.progress import note
from ...core.util import PRECISION, Precision
from ..common import JsonFlag, print_json, print_table, print_text
from ..pages import with_default_model
from ..settings import takes_settings
from ..using import BEAM, MAX_LENGTH, Hardware

if TYPE_CHECKING:
    from ...inspect import AttentionChanges, AttentionMap, Inspection
    from ...models.model import Model

SUFFIXES = (".html", ".json")
WIDEST_TABLE = 16  # maximum tokens of an attention table in a terminal


@dataclass(frozen=True, kw_only=True)
class PageSettings(Hardware):
    """Settings of `maskwright inspect page`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "inspect page"

    model: str = option(help="Model folder, run checkpoint, or Hugging Face Hub model ID.", is_argument=True)
    text: str = option(help="Text to inspect.", is_argument=True)
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
    top: int = option(5, "Number of heads to print per search.", minimum=1)
    beams: int = option(1, BEAM, flag="--beam")
    output: Path | None = option(None, "Write an HTML page, or all results as .json.", short="-o")
    max_length: int | None = option(None, MAX_LENGTH)
    precision: Precision = option("fp32", PRECISION)

    def __post_init__(self) -> None:
        if self.output is not None and self.output.suffix.lower() not in SUFFIXES:
            raise ConfigError(f"{self.output} has an unknown extension: use .html or .json.")
        if self.against is not None and self.against_model is not None:
            raise ConfigError("Pass either --against or --against-model, not both.")
        if self.word is not None and self.against is None:
            raise ConfigError("--word goes with --against: it is the word whose attention is compared.")
        _ = self.chosen

    @property
    def chosen(self) -> dict[str, list[int] | None]:
        """The numbers of the layers and heads to show, None for all."""
        return {"layers": numbers(self.layers, "layers"), "heads": numbers(self.heads, "heads")}

    @property
    def is_json(self) -> bool:
        """Whether all results are written as JSON."""
        return self.output is not None and self.output.suffix.lower() == ".json"

    def with_pair(self, text: str) -> str | tuple[str, str]:
        """A text with the second one of its pair, if there is one."""
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


@with_default_model
@takes_settings(PageSettings)
def page(settings: PageSettings, json: JsonFlag = False) -> None:
    """Show attention, head patterns, predictions and attributions for a text.

    Examples:

        maskwright inspect page runs/a/model "The animal didn't cross the street because it was too tired" -o page.html

        maskwright inspect page runs/a/model "it was too tired" --against "it was too wide" --word it --json

        maskwright inspect page runs/a/model "the cat sat" --find "previous token" --find "cat -> sat" --layers 1-3

        maskwright inspect page runs/de-en/model "ein Haus am See" --target "a house by the lake" -o translation.html
    """
    from ...core.storage import write_json
    from ...inspect import write_page

    found, output = _inspect(settings), settings.output
    if output is not None and settings.is_json:
        write_json(output, _as_json(settings, found))
    elif output is not None:
        write_page(output, found.looks, found.moves, found.comparison)
    if json:
        print_json({"output": str(output)} if settings.is_json else _as_json(settings, found))
        return
    _show(found, settings.top)
    if output is not None:
        note(f"written: {output}")


def _inspect(settings: PageSettings) -> PageResults:
    from ...inspect import compare_models, head_moves, look, search, through
    from ...inspect.heads import names_apart

    opened, text = _open(settings.model, settings), settings.with_pair(settings.text)
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


def _as_json(settings: PageSettings, found: PageResults) -> dict[str, Any]:
    is_json, top, (look, *others) = settings.is_json, settings.top, found.looks
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


def _open(name: str, settings: PageSettings) -> Model:
    """Opens a model folder, a Hugging Face Hub model ID or a run checkpoint."""
    from ...api import open_checkpoint, open_model
    from ...train.finetuning.seeds import is_checkpoint

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


def _show(found: PageResults, top: int) -> None:
    from ...inspect.heads import attention_rows

    look, first, followed, moves = found.looks[0], found.attention, found.flow, found.moves
    print_text(f"{look.name}: {look.facts}")
    print_text(f"tokens: {' '.join(first.queries.labels)}")
    print_text(f"{first.kind} attention: {first.source}\n")
    if len(first.layers) * len(first.heads) == 1 and len(first.keys) <= WIDEST_TABLE:
        columns, rows = attention_rows(first, first.layers[0], first.heads[0])
        print_table(columns, rows, f"layer {first.layers[0]}, head {first.heads[0]}", columns[1:])
    if followed is not None:
        rows = [[one["token"], f"{one['rollout']:.4f}", f"{one['flow']:.4f}"] for one in followed["inputs"]]
        title = f"where '{followed['token']}' at layer {followed['layer']} comes from"
        print_table(("input", "rollout", "flow"), rows, title, ("rollout", "flow"))
    if moves is not None:
        rows = [[str(one.layer), str(one.head), f"{one.distance:.3f}", _shifts(one)] for one in moves.moves[:top]]
        title = f"largest attention changes{f' of {moves.word!r}' if moves.word else ''} between the two texts"
        print_table(("layer", "head", "change", "where"), rows, title, ("layer", "head", "change"))
        return
    rows = [
        [one.pattern, str(head.layer), str(head.head), f"{head.score:.3f}", f"{head.even:.3f}"]
        for one in found.patterns
        for head in one.heads[: top if len(found.patterns) < 3 else 1]
    ]
    if rows:
        print_table(("pattern", "layer", "head", "score", "uniform"), rows, "heads by pattern",
                    ("layer", "head", "score", "uniform"))  # fmt: skip


def _shifts(move: Any) -> str:
    some = [one for one in move.shifts if abs(one.change) >= 0.005][:3]
    return ", ".join(f"{one.label} {one.before:.2f} to {one.after:.2f}" for one in some)
