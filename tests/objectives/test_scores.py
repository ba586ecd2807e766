"""A score and its baseline are of the same labels: constant answers score exactly the baseline, in every objective."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from maskwright.core import registry
from maskwright.data.batch import Batch
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.presets import preset
from maskwright.nn.layers import Linear
from maskwright.objectives.causal import StatefulCausalLM
from maskwright.objectives.distillation import DistillationWeights, MaskedDistillation
from maskwright.objectives.masked import MaskedLanguageModeling, MaskedRecipe, Masker
from maskwright.objectives.outcome import TokenScorer, mean_scores
from maskwright.train.loop import Window
from maskwright.train.pretraining.health import baseline_of, judge

CLS, SEP, MASK, FIRST_WORD, VOCAB, COMMON = 1, 2, 3, 5, 60, 17
LENGTH = 24
CONFIG = ModelConfig(
    vocab_size=VOCAB,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=48,
    max_position_embeddings=LENGTH,
)
OBJECTIVES = ["mlm", "mlm+nsp", "mlm+sop", "rtd", "clm", "bilm", "denoise", "distill", "carried"]
RECURRENT = preset("lstm-small", vocab_size=VOCAB, hidden_size=32, num_hidden_layers=1, max_position_embeddings=LENGTH)
NETWORKS = {"denoise": replace(CONFIG, num_decoder_layers=1), "bilm": RECURRENT, "carried": RECURRENT}


class Documents:
    """Forty documents; a third of their tokens are COMMON."""

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.lengths = [rng.integers(3, 9, size=rng.integers(2, 8)) for _ in range(40)]
        self.tokens = [rng.integers(FIRST_WORD, VOCAB, size=lengths.sum()) for lengths in self.lengths]
        for tokens in self.tokens:
            tokens[rng.random(len(tokens)) < 0.33] = COMMON
        self.counts = np.bincount(np.concatenate(self.tokens), minlength=VOCAB)

    def document_tokens(self, document: int) -> np.ndarray:
        """int64 [tokens]."""
        return self.tokens[document]

    def sentence_lengths_of(self, document: int) -> np.ndarray:
        """int64 [sentences]."""
        return self.lengths[document]

    def document_lengths(self) -> np.ndarray:
        """int64 [documents]."""
        return np.array([len(tokens) for tokens in self.tokens])


def made(name: str) -> tuple[MaskedLanguageModeling, nn.Module, list[Batch]]:
    """The objective, its untrained network, and batches."""
    documents = Documents()
    masker = Masker(MASK, frozenset(range(FIRST_WORD)), VOCAB)
    recipe = MaskedRecipe.of(CLS, SEP, masker, LENGTH, token_counts=documents.counts)
    config = NETWORKS.get(name, CONFIG)
    if name == "distill":
        student = build(config, "mlm", seed=1)
        objective: MaskedLanguageModeling = MaskedDistillation(
            recipe, build(config, "mlm", seed=2), DistillationWeights(), student
        )
    elif name == "carried":
        objective = StatefulCausalLM(recipe)
    else:
        objective = registry.resolve("objective", name)(recipe)
    model = objective.network(replace(config, **objective.network_settings), 0).eval()
    batches = objective.held_out(documents, np.arange(40), seed=0, sequences=16, most=256)
    return objective, model, batches


def scored(objective: MaskedLanguageModeling, model: nn.Module, batches: list[Batch]) -> dict[str, float]:
    """Mean scores over all batches, as a run computes them."""
    window = Window()
    with torch.inference_mode():
        for batch in batches:
            window.add(objective.outcome(model, batch))
    return window.means()


def answer_constantly(objective: MaskedLanguageModeling, model: nn.Module, answer: int) -> None:
    """Make every head answer the same whatever it reads: tokens the most common one, classes `answer`."""
    head = objective.final_model(model).head
    with torch.no_grad():
        if objective.name == "rtd":
            linear = [part for part in head.modules() if isinstance(part, Linear)][-1]
            linear.weight.zero_()
            linear.bias.fill_(1e4 if answer else -1e4)
        else:
            objective.final_model(model).predictions.bias[COMMON] = 1e4
        objective.token_predictor(model).predictions.bias[COMMON] = 1e4
        if hasattr(head, "seq_relationship"):
            head.seq_relationship.classifier.bias[answer] = 1e4


@pytest.mark.parametrize("name", OBJECTIVES)
def test_constant_answers_score_exactly_the_baseline(name: str):
    found = []
    for answer in (0, 1):
        objective, model, batches = made(name)
        answer_constantly(objective, model, answer)
        found.append(scored(objective, model, batches))
    for part in [key.removesuffix("_accuracy") for key in found[0] if key.endswith("_accuracy")]:
        best = max(one[f"{part}_accuracy"] for one in found)
        assert best == found[0][f"{part}_baseline"] > 0, part


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_untrained_network_is_not_called_healthy(name: str):
    objective, model, batches = made(name)
    scores = scored(objective, model, batches)
    for part in [key.removesuffix("_accuracy") for key in scores if key.endswith("_accuracy")]:
        margin = 0.1 if part in ("nsp", "sop") else 0.02  # a coin is tossed for each of some 80 pairs
        assert scores[f"{part}_accuracy"] <= scores[f"{part}_baseline"] + margin, part
    assert judge(scores, baseline_of(scores), []).level == "bad"


@pytest.mark.parametrize("name", ["clm", "bilm", "denoise", "carried"])
def test_the_form_of_examples_is_not_scored(name: str):
    """A network that knows where marks and ends of texts stand, and no word of the text, has the baseline's scores."""
    objective, _, batches = made(name)
    is_special = torch.from_numpy(objective.recipe.masker.is_special)
    unigram = torch.tensor(Documents().counts + 1.0).log()
    sums: dict[str, float] = {}
    for batch in batches:
        labels = batch.labels[objective.words]
        logits = unigram.repeat(len(labels), 1)
        logits[:, is_special] = -1e4
        logits[is_special[labels], labels[is_special[labels]]] = 1e4
        for key, value in objective.scorer.score(logits, labels).sums().items():
            sums[key] = sums.get(key, 0.0) + value
    means = mean_scores(sums)
    assert means["accuracy"] == means["baseline"]
    assert means["scored_loss"] == pytest.approx(means["baseline_loss"], rel=1e-5)
    assert sums["scored"] < sum(len(batch.labels[objective.words]) for batch in batches)


def test_the_unigram_baseline_by_hand():
    scorer = TokenScorer(np.array([True, False, False, False]), np.array([50, 0, 3, 1]), predicts_special=True)
    labels = torch.tensor([2, 2, 3, 1, 0])
    means = mean_scores(scorer.score(torch.zeros(5, 4), labels).sums())
    fractions = {1: 1 / 7, 2: 4 / 7, 3: 2 / 7}
    assert means["baseline"] == 0.5
    assert means["baseline_loss"] == pytest.approx(-np.mean([np.log(fractions[one]) for one in (2, 2, 3, 1)]))
    assert means["scored_loss"] == pytest.approx(np.log(4))
