"""Results of the ablations: JSON, a table, a plot, and whether the curves cross."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Protocol

from ...core.storage import read_bytes, read_json, write_json, write_text
from ...report.numbers import Markup, element, join

# Without any context, a masked language model can still copy the 10% of the target tokens that are unchanged.
SHOWN = 0.1
NO_RESULT = 0.03  # minimum accuracy above the baseline without context; runs below it are not compared
COLOURS = ("#1565c0", "#b3261e", "#2e7d32", "#b26a00")
WIDTH, HEIGHT = 300, 230  # of a panel


class Part(Protocol):
    """One network with one seed (ablations.Part)."""

    @property
    def name(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def score_at(self) -> tuple[int, ...]: ...

    @property
    def folder(self) -> Path: ...

    @property
    def config(self) -> Any: ...

    @property
    def is_finished(self) -> bool: ...

    def score_file(self, step: int) -> Path: ...


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over seeds (0 for a single seed)."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """From one value per seed."""
        return cls(fmean(values), stdev(values) if len(values) > 1 else 0.0)

    def percent(self, digits: int = 1) -> str:
        """The value as text, in percent."""
        return f"{100 * self.mean:.{digits}f} ± {100 * self.deviation:.{digits}f}"


@dataclass(frozen=True)
class Results:
    """settings: the recipe; found: for each run, the results of each finished seed."""

    settings: dict[str, Any]
    found: dict[str, list[dict[str, Any]]]

    @classmethod
    def collect(cls, settings: dict[str, Any], parts: Sequence[Part]) -> Results:
        """Read the finished runs."""
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in settings["runs"]}
        for part in parts:
            if part.is_finished:
                found[part.name].append(facts_of(part))
        return cls(settings, {name: seeds for name, seeds in found.items() if seeds})

    def seeds_of(self, names: Sequence[str]) -> list[int]:
        """The seeds that all of these runs have finished."""
        if any(name not in self.found for name in names):
            return []
        return sorted(set.intersection(*({one["seed"] for one in self.found[name]} for name in names)))

    def spread(self, name: str, seeds: Sequence[int], key: str) -> Spread:
        """Mean and deviation of a value over seeds."""
        return Spread.of([one[key] for one in self.found[name] if one["seed"] in seeds])

    def curve(self, name: str, seeds: Sequence[int]) -> list[tuple[int, Spread]]:
        """Accuracy after fine-tuning, by pre-training step."""
        chosen = [one["accuracy"] for one in self.found[name] if one["seed"] in seeds]
        return [(int(step), Spread.of([one[step] for one in chosen])) for step in chosen[0]]

    def is_result(self, name: str, seeds: Sequence[int]) -> bool:
        """Whether a run is better than copying unchanged tokens and predicting the most common token elsewhere."""
        return self.spread(name, seeds, "guessed").mean > self.spread(name, seeds, "blind").mean + NO_RESULT


def facts_of(part: Part) -> dict[str, Any]:
    """The results of one finished run."""
    result = read_json(part.folder / "result.json")
    lines = [json.loads(line) for line in read_bytes(part.folder / "metrics.jsonl").splitlines() if line]
    words = "clm" if "clm_accuracy" in result["scores"] else "mlm"
    most_common = result["baseline"]["mlm_accuracy"]
    return {
        "seed": part.seed,
        "parameters": read_json(part.folder / "parameters.json"),
        "rate": part.config.lr,
        "tokens": sum(line.get("tokens", 0) for line in lines),
        "seconds": round(sum(line.get("seconds", 0.0) for line in lines), 1),
        "guessed": result["scores"][f"{words}_accuracy"],
        "loss": result["scores"][f"{words}_loss"],
        "commonest": most_common,  # terms: ok
        "blind": most_common if words == "clm" else SHOWN + (1 - SHOWN) * most_common,
        "unigram_loss": result["baseline"]["mlm_loss"],
        "accuracy": {str(step): read_json(part.score_file(step))["accuracy"] for step in part.score_at},
    }


def write_results(results: Results, output: Path) -> None:
    """Write results.json, table.md and accuracy.svg."""
    write_json(output / "results.json", {"settings": results.settings, "runs": results.found})
    write_text(output / "table.md", table(results) + "\n")
    write_text(output / "accuracy.svg", plot(results) + "\n")


# -- words -------------------------------------------------------------------------------------------------------------


def table(results: Results) -> str:
    """The table in Markdown, with its notes."""
    lines = [
        "| comparison | run | parameters | learning rate | tokens, millions | seconds | token accuracy, % | without "
        "context, % | task accuracy, % | seeds |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for comparison, names in results.settings["comparisons"].items():
        seeds = results.seeds_of(names)
        common = shared_steps(results, names, seeds)
        for name in names if seeds else ():
            spread = {key: results.spread(name, seeds, key) for key in ("tokens", "seconds", "guessed", "blind")}
            last = dict(results.curve(name, seeds))[common[-1]].percent()
            task = last if results.is_result(name, seeds) else f"no result ({last})"
            one = results.found[name][0]
            seen = share_of(results, name, common[-1], spread["tokens"].mean) / 1e6
            lines.append(
                f"| {comparison} | {name} | {one['parameters']:,} | {one['rate']:g} | "
                f"{seen:.2f} | {spread['seconds'].mean:,.0f} | {spread['guessed'].percent()} | "
                f"{100 * spread['blind'].mean:.1f} | {task} | {len(seeds)} |"
            )
    return "\n".join([*lines, "", *sentences(results)])


def shared_steps(results: Results, names: Sequence[str], seeds: Sequence[int]) -> list[int]:
    """The steps at which all of these runs were scored."""
    if not seeds:
        return []
    return sorted(set.intersection(*({step for step, _ in results.curve(name, seeds)} for name in names)))


def share_of(results: Results, name: str, step: int, tokens: float) -> float:
    """Tokens seen until `step`."""
    steps = {**results.settings["pretraining"], **results.settings["runs"][name]}["steps"]
    return tokens * step / steps


def sentences(results: Results) -> list[str]:
    """The notes of the table."""
    said = [
        "Task accuracy: after fine-tuning at the last step that the runs of a comparison share; ± is the standard "
        "deviation over seeds. Token accuracy: held-out masked or next tokens at the end of the run; without context: "
        "the most common token, and for masked LM also the 10% of unchanged tokens."
    ]
    for comparison, names in results.settings["comparisons"].items():
        seeds = results.seeds_of(names)
        poor = [name for name in names if seeds and not results.is_result(name, seeds)]
        if poor:
            said.append(
                f"{comparison.capitalize()}: {', '.join(poor)} scored hardly above the baseline without context: no "
                "result for them."
            )
    if "mlm" in results.found and "left to right" in results.found:
        said.append(crossing(results))
    return said


def crossing(results: Results) -> str:
    """A sentence on whether the curves of masked and causal language modeling cross."""
    names = ("mlm", "left to right")
    seeds = results.seeds_of(names)
    if not seeds:
        return "No seed has both directions yet."
    curves = [dict(results.curve(name, seeds)) for name in names]
    steps = [step for step in shared_steps(results, names, seeds) if step]
    gaps = {step: curves[0][step].mean - curves[1][step].mean for step in steps}
    clear = [step for step in steps if abs(gaps[step]) > 2 * error_of(curves[0][step], curves[1][step], len(seeds))]
    lower = [step for step in steps if gaps[step] < 0]
    ahead_from = next((step for step in steps if all(gaps[later] > 0 for later in steps if later >= step)), None)
    if lower and ahead_from is not None:
        said = f"The curves cross: causal LM is better at step {lower[0]:,}, masked LM from step {ahead_from:,} on"
    elif not lower:
        said = "The curves do not cross: masked LM is never below causal LM"
    elif len(lower) == len(steps):
        said = "The curves do not cross within this budget: causal LM is better at every checkpoint"
    else:
        said = f"The curves cross several times: causal LM is better at {len(lower)} of {len(steps)} checkpoints"
    if len(seeds) == 1:
        return f"{said}, with one seed, so the variation over seeds is unknown."
    how = f"at {', '.join(f'{step:,}' for step in clear)}" if clear else "at none"
    error = f"The gap is above twice its standard error {how} of {len(steps)} checkpoints."
    return f"{said} ({len(seeds)} seeds). {error}"


def error_of(one: Spread, other: Spread, seeds: int) -> float:
    """Standard error of the difference of two means."""
    return math.sqrt((one.deviation**2 + other.deviation**2) / seeds)


# -- picture -----------------------------------------------------------------------------------------------------------


def plot(results: Results) -> Markup:
    """Accuracy over steps, one panel per comparison: means, and bands of one standard deviation."""
    panels = [(name, names) for name, names in results.settings["comparisons"].items() if results.seeds_of(names)]
    parts = [
        element("g", panel(results, title, names), transform=f"translate({70 + (WIDTH + 70) * number} 40)")
        for number, (title, names) in enumerate(panels)
    ]
    width, height = 40 + (WIDTH + 70) * max(len(panels), 1), HEIGHT + 150
    paper = element("rect", width=width, height=height, fill="#ffffff")
    style: dict[str, str | int] = {"font-family": "system-ui, sans-serif", "font-size": 12}
    return element(
        "svg",
        [paper, *parts],
        xmlns="http://www.w3.org/2000/svg",
        viewbox=f"0 0 {width} {height}",
        width=width,
        **style,
    )


def panel(results: Results, title: str, names: Sequence[str]) -> Markup:
    """The curves of one comparison, up to the last shared step."""
    seeds = results.seeds_of(names)
    steps = shared_steps(results, names, seeds)
    curves = {name: [(s, v) for s, v in results.curve(name, seeds) if s in steps] for name in names}
    edges = [100 * (v.mean + side * v.deviation) for curve in curves.values() for _, v in curve for side in (-1, 1)]
    room = 0.04 * (max(edges) - min(edges)) or 1.0
    low, high = min(edges) - room, max(edges) + room
    parts = [text(0, -16, f"By {title}: accuracy in %, {len(seeds)} seeds", anchor="start", weight="bold")]
    for tick in ticks(low, high, 5):
        height = HEIGHT * (high - tick) / (high - low)
        parts += [element("line", x1=0, x2=WIDTH, y1=height, y2=height, stroke="#dddddd")]
        parts += [text(-8, height + 4, f"{tick:g}", anchor="end")]
    parts += [text(WIDTH * tick / steps[-1], HEIGHT + 18, f"{tick:,g}") for tick in ticks(0, steps[-1], 4)]
    parts.append(text(WIDTH / 2, HEIGHT + 36, "steps of pre-training"))
    for number, (name, curve) in enumerate(curves.items()):
        color = COLOURS[number]

        def place(step: int, value: float) -> str:
            return f"{WIDTH * step / steps[-1]:.1f},{HEIGHT * (high - 100 * value) / (high - low):.1f}"

        upper = [place(step, v.mean + v.deviation) for step, v in curve]
        lower = [place(step, v.mean - v.deviation) for step, v in reversed(curve)]
        middle = [place(step, v.mean) for step, v in curve]
        parts.append(element("polygon", points=" ".join(upper + lower), fill=color, fill_opacity=0.15))
        parts.append(element("polyline", points=" ".join(middle), fill="none", stroke=color, stroke_width=2))
        height = HEIGHT + 58 + 17 * number
        label = name if results.is_result(name, seeds) else f"{name} (no result: does not use context)"
        parts.append(element("line", x1=0, x2=22, y1=height - 4, y2=height - 4, stroke=color, stroke_width=2))
        parts.append(text(28, height, label, anchor="start"))
    return join(parts)


def ticks(low: float, high: float, wanted: int) -> list[float]:
    """Round values inside a range."""
    power = 10.0 ** math.floor(math.log10((high - low) / wanted))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= (high - low) / wanted)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def text(x: float, y: float, words: str, *, anchor: str = "middle", weight: str = "normal") -> Markup:
    """Text at a position."""
    return element("text", words, x=f"{x:.1f}", y=f"{y:.1f}", fill="#333333", text_anchor=anchor, font_weight=weight)
