"""HTML of predictions: confusion matrix, worst errors, mask predictions."""

from __future__ import annotations

from collections.abc import Sequence

from .. import numbers
from ..charts.bars import track
from ..findings import Confusion, MaskExample, MaskExamples, WorstError, WorstErrors
from ..markup import Markup, data_text, element, join
from .plain import note
from .tables import wide

MATRIX_TO = 24  # labels; beyond that the pairs most often confused are listed
PAIRS = 15
HEATS = 8  # steps of shading


def confusion(block: Confusion) -> Markup:
    """A matrix with row percentages; for too many labels the most confused pairs instead."""
    if len(block.labels) > MATRIX_TO:
        return join(_pairs(block), note(block.note))
    totals = [sum(row) for row in block.counts]
    predicted = [sum(column) for column in zip(*block.counts, strict=True)]
    names = [element("th", name, scope="col", dir="auto") for name in block.labels]
    head = element(
        "thead",
        element(
            "tr",
            element("td"),
            element("th", "Predicted", colspan=len(names), class_="over", scope="colgroup"),
            element("td"),
        ),
        element(
            "tr",
            element("th", "Gold", class_="over", scope="col"),
            names,
            element("th", "Recall", scope="col"),
        ),
    )
    rows = []
    for index, (name, row) in enumerate(zip(block.labels, block.counts, strict=True)):
        cells = [_heat(amount, totals[index], column == index) for column, amount in enumerate(row)]
        found = element("td", _share(row[index], totals[index]), class_="margin")
        rows.append(element("tr", element("th", name, scope="row", dir="auto"), cells, found))
    right = [element("td", _share(block.counts[i][i], predicted[i]), class_="margin") for i in range(len(names))]
    last = element("tr", element("th", "Precision", scope="row"), right, element("td"))
    table = element("table", head, element("tbody", rows), element("tfoot", last), class_="matrix")
    about = (
        "Rows are gold labels, columns predictions; shading and small figures are fractions of a row. Recall is per "
        "gold label, precision per predicted label."
    )
    return join(wide(table), element("p", about, class_="note"), note(block.note))


def worst_errors(block: WorstErrors) -> Markup:
    """Text, gold label, wrong prediction, and its probability or loss if any row has one."""
    errors = block.errors
    known = {"Probability": [one.probability for one in errors], "Loss": [one.loss for one in errors]}
    how_sure = next((name for name, values in known.items() if any(value is not None for value in values)), None)
    has_line = any(one.line is not None for one in errors)
    names = [*["Line"] * has_line, "Text", "Gold", "Predicted", *([how_sure] if how_sure else [])]
    head = element(
        "tr",
        [element("th", name, scope="col", class_="number" if name in {"Line", how_sure} else None) for name in names],
    )
    rows = [element("tr", _error(one, how_sure, has_line)) for one in errors]
    table = element("table", element("thead", head), element("tbody", rows), class_="errors")
    return join(wide(table), note(block.note))


def mask_examples(block: MaskExamples) -> Markup:
    """Each sentence with its mask, and the predictions as bars."""
    return join(element("div", [_example(one) for one in block.examples], class_="masks"), note(block.note))


def _error(one: WorstError, how_sure: str | None, has_line: bool) -> list[Markup]:
    text = data_text(one.text, "p")
    pair = data_text(one.text_pair, "p", class_="second") if one.text_pair is not None else None
    sure = one.probability if how_sure == "Probability" else one.loss
    shown = numbers.MISSING if sure is None else numbers.percent(sure) if how_sure == "Probability" else f"{sure:.3f}"
    line = element("td", numbers.show(one.line), class_="number", data_label="Line")
    return [
        *[line] * has_line,
        element("td", text, pair, class_="text"),
        element("td", data_text(one.gold), data_label="Gold"),
        element("td", data_text(one.predicted), class_="wrong", data_label="Predicted"),
        *[element("td", shown, class_="number", data_label=how_sure)] * (how_sure is not None),
    ]


def _example(one: MaskExample) -> Markup:
    gap = data_text(one.answer, "mark") if one.answer is not None else element("mark", "[MASK]")
    sentence = element("p", data_text(one.before), gap, data_text(one.after), class_="sentence", dir="auto")
    predictions = [_prediction(token, probability, token == one.answer) for token, probability in one.predictions]
    is_missed = one.answer is not None and all(token != one.answer for token, _ in one.predictions)
    missed = None
    if is_missed and (one.rank is not None or one.probability is not None):
        place = f"rank {numbers.count(one.rank)}" if one.rank is not None else "a lower rank"
        chance = f", {_chance(one.probability)}" if one.probability is not None else ""
        missed = element("p", "The original token has ", f"{place}{chance}.", class_="missed")
    return element("div", sentence, element("ol", predictions, class_="guesses"), missed, class_="example")


def _prediction(token: str, probability: float, is_right: bool) -> Markup:
    return element(
        "li",
        data_text(token, class_="label"),
        track(probability),
        element("span", _chance(probability), class_="amount"),
        element("span", "✓" if is_right else "", class_="tick-mark", aria_label="right" if is_right else None),
        class_="right" if is_right else None,
    )


def _chance(probability: float) -> str:
    return f"<{numbers.percent(0.001)}" if 0 < probability < 0.0005 else numbers.percent(probability)


def _heat(amount: int, total: int, is_diagonal: bool) -> Markup:
    share = amount / total if total else 0.0
    step = 0 if not amount else min(max(1, round(share * HEATS * (1 if is_diagonal else 2))), HEATS)
    small = element("span", numbers.percent(share, 0), class_="share") if amount else None
    return element(
        "td",
        element("span", numbers.count(amount), class_="count"),
        small,
        class_=f"heat {'hit' if is_diagonal else 'miss'} h{step}",
    )


def _share(part: int, total: int) -> str:
    return numbers.percent(part / total, 0) if total else numbers.MISSING


def _pairs(block: Confusion) -> Markup:
    found: list[tuple[int, int, int]] = [
        (amount, gold, predicted)
        for gold, row in enumerate(block.counts)
        for predicted, amount in enumerate(row)
        if amount and gold != predicted
    ]
    found.sort(key=lambda one: (-one[0], one[1], one[2]))
    if not found:
        return element("p", f"No confusions among the {len(block.labels)} labels.")
    head = element("tr", [element("th", name, scope="col") for name in ("Gold", "Predicted", "Rows", "Of the gold")])
    rows = [_pair(block.labels, block.counts, one) for one in found[:PAIRS]]
    about = f"The pairs most often confused, of {numbers.count(len(found))}, among {len(block.labels)} labels."
    return join(
        wide(element("table", element("thead", head), element("tbody", rows))),
        element("p", about, class_="note"),
    )


def _pair(labels: Sequence[str], counts: Sequence[Sequence[int]], one: tuple[int, int, int]) -> Markup:
    amount, gold, predicted = one
    return element(
        "tr",
        element("td", labels[gold], dir="auto"),
        element("td", labels[predicted], dir="auto"),
        element("td", numbers.count(amount), class_="number"),
        element("td", numbers.percent(amount / sum(counts[gold])), class_="number"),
    )
