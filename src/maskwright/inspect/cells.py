"""What single cells of a recurrent network tell: their values along a text, and which of them follow a rule.

Karpathy et al. 2015, section 4.1. A unit is searched on the first half of a text, by its correlation with a rule, and
confirmed on the second half, which the search has not seen: of some hundred units one always fits by chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from ..core.config import check
from ..core.errors import ConfigError, InputError
from ..core.progress import track
from ..core.registry import unknown_name
from ..data.batch import Batch
from ..models.model import Model
from .rules import RULES
from .text import ReadText

LANE = 512  # tokens that one lane reads; lanes are read side by side
WARM_UP = 128  # tokens before them, so that a lane remembers what stood there
MOST_TOKENS = 50_000


@dataclass(frozen=True)
class Readings:
    """What every unit holds after each token of a text.

    text: what was read; ends: int64 [tokens], where in it each token ends; values: float32 [tokens, layers, size],
    tanh of an LSTM's memory, else what a cell gives; is_cut: whether the text went on.
    """

    text: str
    ends: np.ndarray
    values: np.ndarray
    is_cut: bool

    def half(self, second: bool) -> slice:
        """The tokens of the half that is searched, or of the one that confirms."""
        middle = len(self.ends) // 2
        return slice(middle, None) if second else slice(0, middle)


@dataclass(frozen=True)
class FoundUnit:
    """A unit that follows a rule. layer, unit: from 1 and from 0; searched, confirmed: its correlation with the rule
    where it was searched, and where it was not.
    """

    rule: str
    layer: int
    unit: int
    searched: float
    confirmed: float

    def to_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


@torch.inference_mode()
def read_cells(model: Model, read: ReadText, most: int = MOST_TOKENS) -> Readings:
    """Read a text with a recurrent left-to-right model and note what each unit holds.

    most: tokens, the first ones. Raises InputError for another kind of model, and for a text of fewer than 4 tokens.
    """
    if model.config.recurrent is None or not model.config.judges_last:
        raise InputError("Cells are those of recurrent networks that read from the left, such as lstm-small.")
    check(most >= 4, f"most is {most}; it must be at least 4.")
    is_cut, read = len(read.ids) > most, read.first(most)
    is_text = read.ends >= 0
    if is_text.sum() < 4:
        raise InputError("The text has fewer than 4 tokens, so nothing can be said of a cell.")
    ids = read.ids.tolist()
    starts = range(0, len(ids), LANE)
    values = _read(model, [ids[max(start - WARM_UP, 0) : start + LANE] for start in starts])
    own = [part[len(part) - len(ids[start : start + LANE]) :] for start, part in zip(starts, values, strict=True)]
    return Readings(read.text, read.ends[is_text], np.concatenate(own)[is_text], is_cut)


def find_units(readings: Readings, rule: str, top: int = 5) -> list[FoundUnit]:
    """The units that follow a rule best where it was searched, best first; none where the rule never changes there.

    Raises ConfigError for an unknown rule.
    """
    wanted = rule_values(readings, rule)
    first, second = readings.half(False), readings.half(True)
    flat = readings.values.reshape(len(wanted), -1)
    searched = correlations(flat[first], wanted[first])
    if not np.isfinite(searched).any():
        return []
    confirmed = correlations(flat[second], wanted[second])
    best = np.argsort(-np.abs(np.nan_to_num(searched)), kind="stable")[:top]
    size = readings.values.shape[2]
    return [
        FoundUnit(rule, int(one) // size + 1, int(one) % size, float(searched[one]), float(confirmed[one]))
        for one in best
    ]


def rule_values(readings: Readings, rule: str) -> np.ndarray:
    """What a rule says at the last character of each token: float64 [tokens]. Raises ConfigError."""
    if rule not in RULES:
        raise ConfigError(unknown_name("rule", rule, RULES))
    return RULES[rule][0](readings.text)[np.maximum(readings.ends - 1, 0)]


def correlations(values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Pearson's correlation of each column with a rule: float64 [units], nan where either never changes.

    values: float [tokens, units]; wanted: float [tokens].
    """
    centred = values - values.mean(axis=0, dtype=np.float64)
    rule = wanted - wanted.mean()
    spread = np.sqrt(np.einsum("tu,tu->u", centred, centred) * (rule @ rule))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = np.where(spread > 1e-9, rule @ centred / spread, np.nan)
    return found


def _read(model: Model, rows: Sequence[list[int]]) -> list[np.ndarray]:
    """What every unit holds after each token of each row: float32 [tokens, layers, size] each."""
    device, states = model.word_embeddings.device, None
    found: list[list[np.ndarray]] = [[] for _ in rows]
    longest = max(map(len, rows))
    with track("reading", longest, "tokens a lane") as progress:
        for place in range(longest):
            batch = Batch.from_sequences([row[place : place + 1] for row in rows]).to(device)
            states = model.read_on(batch, states).states
            assert states is not None
            kept = torch.stack([(layer[1].tanh() if len(layer) > 1 else layer[0])[0] for layer in states], dim=1)
            now = kept.float().cpu().numpy()  # [rows, layers, size]
            for number, row in enumerate(rows):
                if place < len(row):
                    found[number].append(now[number])
            progress.update(place + 1)
    return [np.stack(part) for part in found]
