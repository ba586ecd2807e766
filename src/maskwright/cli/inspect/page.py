"""`maskwright inspect page`: attention, predictions and attributions of a model for one text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.errors import ConfigError
from ...core.progress import note
from ..common import (
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    ThreadsOption,
    print_json,
    print_table,
    print_text,
    set_threads,
)
from ..default_model import with_default_model
from ..using import MaxLengthOption

if TYPE_CHECKING:
    from ...inspect import AttentionChanges, AttentionMap, Inspection
    from ...models.model import Model

SUFFIXES = (".html", ".json")
WIDEST_TABLE = 16  # maximum tokens of an attention table in a terminal


@with_default_model
def page(
    model: Annotated[str, typer.Argument(help="Model folder, run checkpoint, or Hugging Face Hub model ID.")],
    text: Annotated[str, typer.Argument(help="Text to inspect.")],
    pair: Annotated[str | None, typer.Option(help="Second text of a pair.")] = None,
    target: Annotated[
        str | None, typer.Option(help="Target text of a translation model.  \\[default: its translation]")
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Second text to compare: shows the heads whose attention changes most.")
    ] = None,
    against_model: Annotated[
        str | None, typer.Option(help="Second model or checkpoint to compare, such as runs/a/checkpoints/step-500.")
    ] = None,
    word: Annotated[str | None, typer.Option(help="With --against: only the attention of this word.")] = None,
    find: Annotated[
        list[str] | None,
        typer.Option(help='Find heads by pattern ("previous token", "separator", "it -> animal"). Repeatable.'),
    ] = None,
    flow: Annotated[str | None, typer.Option(help="Show attention rollout and flow to this word.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(help="Attention of a translation model: encoder, decoder or cross.  \\[default: cross]"),
    ] = None,
    layers: Annotated[str | None, typer.Option(help="Only these layers, counted from 1: 3 or 1,4-6.")] = None,
    heads: Annotated[str | None, typer.Option(help="Only these heads, counted from 1: 3 or 1,4-6.")] = None,
    top: Annotated[int, typer.Option(min=1, help="Number of heads to print per search.")] = 5,
    beams: Annotated[int, typer.Option("--beam", min=1, help="Beam size of translation.")] = 1,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write an HTML page, or all results as .json.")
    ] = None,
    max_length: MaxLengthOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "fp32",
    threads: ThreadsOption = None,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Show attention, head patterns, predictions and attributions for a text.

    Examples:

        maskwright inspect page runs/a/model "The animal didn't cross the street because it was too tired" -o page.html

        maskwright inspect page runs/a/model "it was too tired" --against "it was too wide" --word it --json

        maskwright inspect page runs/a/model "the cat sat" --find "previous token" --find "cat -> sat" --layers 1-3

        maskwright inspect page runs/de-en/model "ein Haus am See" --target "a house by the lake" -o translation.html
    """
    if output is not None and output.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{output} has an unknown extension: use .html or .json.")
    if against is not None and against_model is not None:
        raise ConfigError("Pass either --against or --against-model, not both.")
    if word is not None and against is None:
        raise ConfigError("--word goes with --against: it is the word whose attention is compared.")
    chosen = {"layers": numbers(layers, "layers"), "heads": numbers(heads, "heads")}
    set_threads(threads)
    from ...inspect import compare_models, head_moves, look, search, through, write_page
    from ...inspect.results import names_apart

    opened = _open(model, device, precision)
    asked: dict[str, Any] = {"target": target, "max_length": max_length, "beams": beams, **chosen}
    asked["brief"] = output is None or _is_json(output)
    looks = [look(opened, text if pair is None else (text, pair), name=Path(model).name, **asked)]
    if against is not None:
        looks.append(look(opened, against if pair is None else (against, pair), name=Path(model).name, **asked))
    elif against_model is not None:
        other = _open(against_model, device, precision)
        names = names_apart(model, against_model)
        looks = [
            look(own, text if pair is None else (text, pair), name=name, **asked)
            for own, name in zip((opened, other), names, strict=True)
        ]
    first = looks[0].attention.of(kind)
    comparison = None
    if against_model is not None:
        comparison = compare_models(opened, other, [text if pair is None else (text, pair)], max_length=max_length)
    moves = None if against is None else head_moves(first, looks[1].attention.of(kind), word)
    found = search(first, find or [])
    followed = None if flow is None else through(first, flow)
    result = {
        "model": looks[0].name,
        "facts": looks[0].facts,
        **looks[0].attention.to_json(weights=layers is not None or heads is not None or _is_json(output)),
        "found": [one.to_json(None if _is_json(output) else top) for one in found],
        **({} if moves is None else {"moves": moves.to_json(top)}),
        **({} if comparison is None else {"comparison": comparison.to_json()}),
        **({} if followed is None else {"flow": followed}),
        **_asides(looks[0], top),
        **({"states": looks[0].states.to_json()} if _is_json(output) else {}),
    }
    if len(looks) > 1:
        result["beside"] = {"model": looks[1].name, **looks[1].attention.to_json(weights=_is_json(output))}
    if output is not None and _is_json(output):
        from ...core.storage import write_json

        write_json(output, result)
    elif output is not None:
        write_page(output, looks, moves, comparison)
    if json:
        print_json(result if not _is_json(output) else {"output": str(output)})
        return
    _show(looks, first, found, moves, followed, top)
    if output is not None:
        note(f"written: {output}")


def _open(name: str, device: str, precision: str) -> Model:
    """Opens a model folder, a Hugging Face Hub model ID or a run checkpoint."""
    from ...api import open_checkpoint, open_model
    from ...train.finetuning.members import is_checkpoint

    if is_checkpoint(Path(name)):
        return open_checkpoint(name, device=device, precision=precision)
    return open_model(name, None, device, precision)


def _asides(look: Inspection, top: int) -> dict[str, Any]:
    """Masked-token predictions and feature attributions, where the model has them."""
    own: dict[str, Any] = {} if look.predictions is None else {"predictions": look.predictions.to_json(top)}
    return own | ({"attributions": [one.to_json() for one in look.attributions]} if look.attributions else {})


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


def _is_json(output: Path | None) -> bool:
    return output is not None and output.suffix.lower() == ".json"


def _show(
    looks: list[Inspection],
    first: AttentionMap,
    found: list[Any],
    moves: AttentionChanges | None,
    followed: dict[str, Any] | None,
    top: int,
) -> None:
    from ...inspect.results import attention_rows

    print_text(f"{looks[0].name}: {looks[0].facts}")
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
        title = "heads that move most between the two texts" + (f", attention of '{moves.word}'" if moves.word else "")
        print_table(("layer", "head", "moved", "what changed"), rows, title, ("layer", "head", "moved"))
        return
    rows = [
        [one.pattern, str(head.layer), str(head.head), f"{head.score:.3f}", f"{head.even:.3f}"]
        for one in found
        for head in one.heads[: top if len(found) < 3 else 1]
    ]
    if rows:
        print_table(("pattern", "layer", "head", "score", "even"), rows, "heads by what they do",
                    ("layer", "head", "score", "even"))  # fmt: skip


def _shifts(move: Any) -> str:
    some = [one for one in move.shifts if abs(one.change) >= 0.005][:3]
    return ", ".join(f"{one.label} {one.before:.2f} to {one.after:.2f}" for one in some)
