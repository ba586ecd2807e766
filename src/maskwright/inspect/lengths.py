"""Translation scores by source length (Bahdanau et al. 2015, figure 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..core.config import check
from ..core.errors import InputError, MissingExtraError
from ..core.progress import warn
from ..core.util import plural
from ..models.decoding.search import Beams
from ..models.model import Model, tokenizer_of
from ..tasks.translation import Translation, corpus_scores
from ..text.readers.tables import Row

MIN_ROWS = 5  # per group


@dataclass(frozen=True)
class ByLength:
    """Scores of one model by group, shortest sources first.

    words: mean source length of each group in words; rows: number of texts; token_accuracy: teacher-forced accuracy of
    target tokens; exact: fraction of translations that match the reference exactly; bleu: None without sacrebleu.
    """

    name: str
    num_parameters: int
    words: tuple[float, ...]
    rows: tuple[int, ...]
    token_accuracy: tuple[float, ...]
    exact: tuple[float, ...]
    bleu: tuple[float, ...] | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def groups_by_length(lengths: Sequence[int], count: int) -> list[np.ndarray]:
    """Split rows into at most `count` groups of similar size, shortest first, with equal lengths in one group.

    Returns int64 [rows] for each group.
    """
    values = np.asarray(lengths)
    order = np.argsort(values, kind="stable")
    least = max(len(values) // count, MIN_ROWS)
    found: list[list[int]] = [[]]
    for row in order.tolist():
        is_full = len(found[-1]) >= least and values[row] != values[found[-1][-1]]
        if is_full and len(found) < count:
            found.append([])
        found[-1].append(row)
    if len(found) > 1 and len(found[-1]) < MIN_ROWS:
        found[-2:] = [found[-2] + found[-1]]
    return [np.array(group, dtype=np.int64) for group in found]


def by_length(
    model: Model,
    task: Translation,
    rows: Sequence[Row],
    *,
    name: str = "",
    max_length: int | None = None,
    groups: int = 8,
    beams: int = 1,
) -> ByLength:
    """Score a translation model by source length.

    rows: sources with translations as labels; max_length: maximum tokens per side; groups: maximum number of groups;
    beams: beam size. Raises InputError for too few rows for two groups.
    """
    check(groups >= 2, f"groups is {groups}; it must be at least 2.")
    if len(rows) < 2 * MIN_ROWS:
        raise InputError(
            f"{plural(len(rows), 'text is', 'texts are')} too few to group by length: pass at least {2 * MIN_ROWS}."
        )
    task.bind(model)
    examples = task.examples(rows, tokenizer_of(model), max_length)
    for remark in task.notes(examples, name, max_length or 0):
        warn(remark)
    sums = task.evaluate(model, examples).logits.double().numpy()  # [rows, 3]: loss, correct tokens, tokens
    written = [one[task.written] for one in task.predict(model, examples, beams=Beams(beams))]
    wanted = [str(row.label) for row in examples.rows]
    lengths = [len(row.text.split()) for row in examples.rows]
    parts = groups_by_length(lengths, groups)
    is_same = np.array([one.split() == other.split() for one, other in zip(written, wanted, strict=True)])
    return ByLength(
        name,
        model.num_parameters,
        tuple(float(np.mean([lengths[row] for row in part])) for part in parts),
        tuple(len(part) for part in parts),
        tuple(float(sums[part, 1].sum() / sums[part, 2].sum()) for part in parts),
        tuple(float(is_same[part].mean()) for part in parts),
        _bleu(written, wanted, parts),
    )


def _bleu(written: Sequence[str], wanted: Sequence[str], parts: Sequence[np.ndarray]) -> tuple[float, ...] | None:
    try:
        return tuple(
            corpus_scores([written[row] for row in part], [wanted[row] for row in part])[0]["bleu"] for part in parts
        )
    except MissingExtraError as error:
        warn(str(error))
        return None
