"""The contract of objectives: examples from documents, labeled packs, sums of losses."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from contracts.common import SMALL, close, every_parameter_learns, lively, reads_nothing
from maskwright.core import registry
from maskwright.core.errors import InputError
from maskwright.core.randomness import generator
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.config import ModelConfig
from maskwright.objectives.masked import MaskedRecipe, Masker
from maskwright.objectives.outcome import LossSums
from maskwright.objectives.segments import sentence_bounds

CLS, SEP, MASK, FIRST_WORD = 1, 2, 3, 5
MAX_LENGTH = 20


class Documents:
    """Eight documents of some sentences, the same every time."""

    def __init__(self):
        rng = np.random.default_rng(7)
        self.sentences = [rng.integers(3, 9, size=rng.integers(2, 6)) for _ in range(8)]
        self.tokens = [rng.integers(FIRST_WORD, SMALL["vocab_size"], size=lengths.sum()) for lengths in self.sentences]

    def document_tokens(self, document):
        return self.tokens[document]


def make(name, seed=0):
    """The objective, and one batch of its examples, drawn from `seed`."""
    masker = Masker(MASK, frozenset(range(FIRST_WORD)), SMALL["vocab_size"])
    counts = np.ones(SMALL["vocab_size"], dtype=np.int64)
    recipe = MaskedRecipe.of(CLS, SEP, masker, MAX_LENGTH, token_counts=counts)
    objective = registry.resolve("objective", name)(recipe)
    documents = Documents()
    objective.check(len(documents.tokens))
    bounds = {number: sentence_bounds(lengths) for number, lengths in enumerate(documents.sentences)}
    examples = objective.plan(bounds, generator(seed, "examples"))
    return objective, objective.batch(documents, examples, generator(seed, "batch"))


def model_for(objective):
    """A small model with the objective's head."""
    return lively(ModelConfig(**SMALL), objective.head)


def texts_of(batch):
    """What is written for each sequence of a pack; None where nothing is."""
    if batch.target is None:
        return [None] * len(batch)
    return [Batch.from_sequences([ids.numpy()]) for ids in batch.target.input_ids.split(batch.target.lengths)]


def sequences(batch):
    """The pack cut into packs of one. A label counts sequences, or tokens that are written, or is at the tokens
    that `<name>_positions` gives.

    Raises KeyError for a label that does neither.
    """
    parts = []
    written = [] if batch.target is None else list(pairwise(batch.target.cu_seqlens.tolist()))
    texts = texts_of(batch)
    for number, (start, stop) in enumerate(pairwise(batch.cu_seqlens.tolist())):
        labels: dict[str, torch.Tensor] = {}
        for name, values in batch.labels.items():
            is_positions = name.endswith("_positions")
            if batch.target is not None and len(values) == batch.target.num_tokens:
                labels[name] = values[slice(*written[number])]
                continue
            if not is_positions and f"{name}_positions" not in batch.labels and len(values) == len(batch):
                labels[name] = values[number : number + 1]
                continue
            positions = batch.labels[name if is_positions else f"{name}_positions"]
            inside = (positions >= start) & (positions < stop)
            labels[name] = values[inside] - (start if is_positions else 0)
        types = None if batch.token_type_ids is None else [batch.token_type_ids[start:stop].numpy()]
        one = Batch.from_sequences([batch.input_ids[start:stop].numpy()], types, labels)
        parts.append(replace(one, target=texts[number]))
    return parts


def outcome_of(objective, model, batch):
    with torch.no_grad():
        result: LossSums = objective.outcome(model, batch)
    return result


def has_its_shapes(name, folder):
    """Sequences that fit, labels on ordinary tokens, one loss and one count for each part; no corpus is rejected."""
    objective, batch = make(name)
    assert (objective.name, objective.head in registry.names("head")) == (name, True)
    assert 0 < max(batch.lengths) <= MAX_LENGTH
    assert all(ids[0] == CLS and ids[-1] == SEP for ids in batch.input_ids.split(batch.lengths))
    outcome = outcome_of(objective, model_for(objective), batch)
    assert set(outcome.losses) == set(outcome.counts) == set(objective.parts)
    assert outcome.counts == objective.counts(batch)
    for part, loss in outcome.losses.items():
        assert loss.shape == () and bool(torch.isfinite(loss)) and float(loss) > 0, part
        assert outcome.counts[part] >= len(batch), f"a sequence has no label of part {part}"
        score = outcome.scores[part]
        assert 0 <= int(score.correct) <= int(score.labels) <= outcome.counts[part]
        assert score.constant is not None and 0 <= int(score.constant.max()) <= int(score.labels)
    with pytest.raises(InputError):
        objective.check(0)


def learns(name, folder):
    objective, batch = make(name)
    model = model_for(objective).train()
    every_parameter_learns(model, torch.stack(list(objective.outcome(model, batch).losses.values())).sum())


def packs(name, folder):
    """The losses of a pack are the sums of those of its sequences, each by itself."""
    objective, batch = make(name)
    model = model_for(objective)
    whole, parts = outcome_of(objective, model, batch), [outcome_of(objective, model, one) for one in sequences(batch)]
    for part, total in whole.losses.items():
        count = whole.counts[part]
        assert count == sum(one.counts[part] for one in parts)
        close(total / count, torch.stack([one.losses[part] for one in parts]).sum() / count, f"mean loss of {part}")


def travels(name, folder):
    objective, batch = make(name)
    model = model_for(objective)
    model.save(folder / "model")
    before, after = (outcome_of(objective, one, batch).losses for one in (model, load_model(folder / "model")[0]))
    assert all(torch.equal(before[part], after[part]) for part in before)


def repeats(name, folder):
    """Examples and labels are a function of the generators, and of nothing else."""
    one, again, other = (make(name, seed)[1] for seed in (1, 1, 2))

    def same(left, right):
        return torch.equal(left.input_ids, right.input_ids) and all(
            torch.equal(left.labels[key], right.labels[key]) for key in left.labels
        )

    assert same(one, again), "one seed gives two batches"
    assert not same(one, other), "the seed decides nothing"


def waits_for_no_device(name, folder):
    objective, batch = make(name)
    reads_nothing(model_for(objective), batch, objective.outcome)


OBJECTIVE = {
    "device": waits_for_no_device,
    "shapes": has_its_shapes,
    "gradients": learns,
    "packing": packs,
    "saving": travels,
    "seed": repeats,
}
