"""Negatives for pairs that belong together: second texts of other pairs, drawn, or found by a sentence encoder.

Those that are found are the nearest to the first text (Karpukhin et al. 2020, section 3.2), except for those that are
nearly as near as the positive, which are often right answers too (Moreira et al. 2024, section 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from ...core.errors import InputError
from ...core.progress import note
from ...core.randomness import generator
from ...hub.folders import load_model
from ...inference.cluster import unit_vectors
from ...inference.embed import TextEncoder, embedder_of
from ...inference.ready import compute_in
from ...tasks.similarity import kind_of, target_of
from ...text.readers.tables import Row
from .config import FinetuneConfig

DRAWN = 4  # negatives of a first text for a cross-encoder whose file has none
MARGIN = 0.05  # a negative's cosine is at most this fraction of the positive's below it
BLOCK = 256  # first texts at a time


def add_negatives(config: FinetuneConfig, device: torch.device, *parts: list[Row]) -> list[list[Row]]:
    """Returns the rows of each part, train and dev, with the negatives that the recipe asks for.

    A cross-encoder gets some in any case, and in dev too; the others have those of the batch. Raises InputError for
    rows with scores, and for a model that finds none.
    """
    is_cross, count = config.encoder == "cross", config.hard_negatives
    train = parts[0]
    needed = is_cross and kind_of(train) == "pairs" and all(target_of(row, "pairs") for row in train)
    if not count and not needed:
        return list(parts)
    if kind_of(train) != "pairs":
        raise InputError(f"{config.train} has no pairs without a score, to which negatives could be added.")
    encoder, name = None, str(config.miner or config.model)
    if count:
        model, _ = load_model(name, None)
        if model.sentence is None:
            raise InputError(f"{name} is no sentence encoder, so it finds no negatives: pass one as --set miner=MODEL.")
        compute_in(model, config.precision)
        pooling = model.sentence.pooling
        encoder = embedder_of(model.to(device), name, pooling=pooling, max_length=config.max_length)
    found = [
        with_negatives(rows, count or DRAWN, encoder, config.seed) if is_cross or rows is train else rows
        for rows in parts
    ]
    how = f"found by {name}" if count else "drawn at random"
    note(f"{len(found[0]) - len(train):,} negatives for {len(train):,} training pairs are {how}.")
    return found


def with_negatives(rows: Sequence[Row], count: int, encoder: TextEncoder | None, seed: int = 0) -> list[Row]:
    """Returns the rows with the labels 1 and 0, and at most `count` new rows with the label 0 for each first text.

    encoder: finds the nearest second texts of other first texts; None to draw them, with `seed`.
    """
    labeled = [replace(row, label=f"{target_of(row, 'pairs'):g}") for row in rows]
    passages = list(dict.fromkeys(str(row.text_pair) for row in rows))
    place = {passage: number for number, passage in enumerate(passages)}
    asked: dict[str, Row] = {row.text: row for row in reversed(labeled) if row.label == "1"}
    own: dict[str, list[int]] = {}
    right: dict[str, list[int]] = {}
    for row in labeled:
        own.setdefault(row.text, []).append(place[str(row.text_pair)])
        if row.label == "1":
            right.setdefault(row.text, []).append(place[str(row.text_pair)])
    questions = list(right)
    if encoder is None:
        chosen = [
            generator(seed, "negatives", number).choice(
                len(passages), min(len(passages), count + len(own[text])), replace=False
            )
            for number, text in enumerate(questions)
        ]
        chosen = [found[~np.isin(found, own[text])] for found, text in zip(chosen, questions, strict=True)]
    else:
        chosen = []
        seconds = unit_vectors(encoder.vectors(passages))
        for start in range(0, len(questions), BLOCK):
            block = questions[start : start + BLOCK]
            for text, cosines in zip(block, unit_vectors(encoder.vectors(block)) @ seconds.T, strict=True):
                least = float(cosines[right[text]].min())
                cosines[own[text]] = -np.inf
                cosines[cosines > least - MARGIN * abs(least)] = -np.inf
                order = np.argsort(-cosines, kind="stable")[:count]
                chosen.append(order[np.isfinite(cosines[order])])
    new = [
        replace(asked[text], text_pair=passages[number], label="0")
        for text, found in zip(questions, chosen, strict=True)
        for number in found[:count].tolist()
    ]
    if not new:
        raise InputError(f"{rows[0].file} has no second text that can be a negative of another pair.")
    return [*labeled, *new]
