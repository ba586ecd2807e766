"""Focal and contrastive losses, the fraction of masked tokens, and scores compared with their baselines."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from maskwright.core import registry
from maskwright.core.randomness import generator
from maskwright.lessons.parts import explain_loss
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.presets import preset
from maskwright.nn.layers import Linear
from maskwright.objectives.causal import StatefulCausalLM
from maskwright.objectives.distillation import DistillationWeights, MaskedDistillation
from maskwright.objectives.masked import MaskedLanguageModeling, MaskedRecipe, Masker
from maskwright.objectives.outcome import (
    TokenScorer,
    focal_binary,
    focal_cross_entropy,
    in_batch_logits,
    in_batch_loss,
    mean_scores,
)
from maskwright.train.loop import Window
from maskwright.train.pretraining.health import baseline_of, judge

LOGITS = torch.randn(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3
CLASSES = torch.tensor([0, 1, 2, 2, 1, 0])
SEVERAL = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64)


def test_without_gamma_it_is_the_cross_entropy():
    assert torch.allclose(focal_cross_entropy(LOGITS, CLASSES, 0.0), F.cross_entropy(LOGITS, CLASSES, reduction="none"))
    binary = F.binary_cross_entropy_with_logits(LOGITS, SEVERAL, reduction="none")
    assert torch.allclose(focal_binary(LOGITS, SEVERAL, 0.0), binary)
    weights = torch.tensor([2.0, 5.0, 0.5], dtype=torch.float64)
    weighed = F.binary_cross_entropy_with_logits(LOGITS, SEVERAL, reduction="none", pos_weight=weights)
    assert torch.allclose(focal_binary(LOGITS, SEVERAL, 0.0, weights), weighed)


@pytest.mark.parametrize(
    ("probability", "gamma", "expected"),
    [
        (0.9, 2.0, 0.01 * -math.log(0.9)),  # the paper: a hundred times less than the cross-entropy
        (0.5, 2.0, 0.25 * math.log(2)),
        (0.1, 2.0, 0.81 * -math.log(0.1)),
        (0.5, 0.5, math.sqrt(0.5) * math.log(2)),
    ],
)
def test_values_by_hand(probability, gamma, expected):
    logit = math.log(probability / (1 - probability))
    two = torch.tensor([[0.0, logit]], dtype=torch.float64)
    assert float(focal_cross_entropy(two, torch.tensor([1]), gamma)) == pytest.approx(expected)
    one = torch.tensor([[logit]], dtype=torch.float64)
    assert float(focal_binary(one, torch.ones(1, 1, dtype=torch.float64), gamma)) == pytest.approx(expected)
    assert float(focal_binary(-one, torch.zeros(1, 1, dtype=torch.float64), gamma)) == pytest.approx(expected)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_gradients_are_those_of_the_formula(gamma):
    logits = LOGITS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: focal_cross_entropy(x, CLASSES, gamma).sum(), (logits,))
    assert torch.autograd.gradcheck(lambda x: focal_binary(x, SEVERAL, gamma).sum(), (logits,))


@given(st.sampled_from([0.5, 1.0, 2.0]), st.sampled_from([-200.0, -40.0, 40.0, 200.0]))
def test_a_row_that_is_sure_has_a_finite_loss_and_slope(gamma, logit):
    for loss in (
        lambda x: focal_cross_entropy(torch.cat([torch.zeros_like(x), x], dim=1), torch.tensor([1]), gamma),
        lambda x: focal_binary(x, torch.ones(1, 1), gamma),
    ):
        value = torch.tensor([[logit]], requires_grad=True)
        total = loss(value).sum()
        total.backward()
        assert bool(torch.isfinite(total)) and bool(torch.isfinite(value.grad).all())


# -- Contrastive losses: values worked out by hand, gradients, and what they must not depend on -----------------------

FIRST = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
SECOND = torch.tensor([[0.6, 0.8], [0.0, 1.0]])


def test_the_in_batch_loss_of_two_pairs_by_hand():
    # At temperature 0.5 the first text scores 1.2 and 0, the second 1.6 and 2: -log of the partner's share.
    logits = in_batch_logits(FIRST, SECOND, temperature=0.5)
    assert torch.allclose(logits, torch.tensor([[1.2, 0.0], [1.6, 2.0]]))
    by_hand = math.log(1 + math.exp(-1.2)) + math.log(1 + math.exp(-0.4))
    assert in_batch_loss(logits, torch.tensor([True, True])).item() == pytest.approx(by_hand)


def test_the_same_text_again_is_no_wrong_answer():
    logits = in_batch_logits(FIRST, SECOND, torch.tensor([7, 7]), temperature=0.5)
    assert in_batch_loss(logits, torch.tensor([True, True])).item() == 0.0
    three = in_batch_logits(FIRST[[0, 1, 0]], SECOND[[0, 1, 0]], torch.tensor([0, 1, 0]), temperature=0.5)
    loss = in_batch_loss(three, torch.tensor([True, False, False]))
    assert loss.item() == pytest.approx(math.log(1 + math.exp(-1.2))), "as without its twin"


def test_gradients_are_those_of_finite_differences():
    generator = torch.Generator().manual_seed(1)
    first, second = (torch.randn(5, 4, generator=generator, dtype=torch.float64, requires_grad=True) for _ in "ab")
    positive = torch.tensor([True, False, True, True, False])

    def in_batch(a, b):
        return in_batch_loss(in_batch_logits(F.normalize(a, dim=-1), F.normalize(b, dim=-1)), positive)

    assert torch.autograd.gradcheck(in_batch, (first, second))


# -- The 15 % and the 80 / 10 / 10, on real sizes --------------------------------------------------------------------

VOCAB, MASK, SPECIAL = 500, 4, frozenset(range(5))


def pack(lengths, seed=0):
    """Sequences [CLS] ... [SEP] of these lengths, end to end."""
    rng = np.random.default_rng(seed)
    rows = [np.concatenate([[2], rng.integers(5, VOCAB, size=length - 2), [3]]) for length in lengths]
    return np.concatenate(rows).astype(np.int64)


def test_a_hundred_thousand_tokens_give_fifteen_per_cent_and_eighty_ten_ten():
    lengths = [128] * 900
    ids = pack(lengths)
    masked = Masker(MASK, SPECIAL, VOCAB)(ids, np.array(lengths), generator(0, "masks"))
    ordinary = 126 * 900
    assert abs(len(masked.labels) / ordinary - 0.15) < 0.003
    became = masked.input_ids[masked.positions]
    assert abs((became == MASK).mean() - 0.8) < 0.01
    kept = (became == masked.labels).mean()
    assert abs(kept - (0.1 + 0.1 / (VOCAB - 5))) < 0.01
    assert abs(1 - (became == MASK).mean() - kept - 0.1) < 0.01


@pytest.mark.parametrize("whole_words", [False, True])
@given(lengths=st.lists(st.integers(2, 40), min_size=1, max_size=12), seed=st.integers(0, 1000))
def test_laws_of_masking(lengths, seed, whole_words):
    ids = pack(lengths, seed)
    continues = np.arange(VOCAB) % 3 == 0 if whole_words else None
    masked = Masker(MASK, SPECIAL, VOCAB, continues_word=continues)(ids, np.array(lengths), generator(seed, "masks"))
    assert not np.isin(ids[masked.positions], list(SPECIAL)).any(), "a special token was selected"
    assert (masked.labels == ids[masked.positions]).all()
    untouched = np.ones(len(ids), dtype=bool)
    untouched[masked.positions] = False
    assert (masked.input_ids[untouched] == ids[untouched]).all()
    assert not np.isin(masked.input_ids[masked.positions], list(SPECIAL - {MASK})).any()
    ends = np.cumsum(lengths)
    hit = set(np.searchsorted(ends, masked.positions, side="right").tolist())
    assert hit == {number for number, length in enumerate(lengths) if length > 2}, "a sequence without a label"
    if continues is not None:
        chosen = set(masked.positions.tolist())
        for position in range(1, len(ids)):
            if continues[ids[position]] and ids[position] > 4 and ids[position - 1] > 4:
                assert (position in chosen) == (position - 1 in chosen), "half a word was selected"


# -- The two losses of one prediction, and the masking of one sentence -----------------------------------------------

WORDS = ["the", "man", "went", "to", "the", "store", "to", "buy", "a", "gallon", "of", "milk"]


def test_the_losses_of_the_lecture():
    found = explain_loss([0.6, 0.12, 0.18, 0.1], [0, 0, 1, 0])
    assert found.binary == pytest.approx(0.7161, abs=5e-5) and found.categorical == pytest.approx(1.7148, abs=5e-5)
    assert found.binary == pytest.approx(sum(found.terms) / 4) and found.categorical == pytest.approx(found.terms[2])


# -- A score and its baseline are of the same labels -----------------------------------------------------------------

CLS, SEP, HIDDEN, FIRST_WORD, WORDS_KNOWN, COMMON = 1, 2, 3, 5, 60, 17
LENGTH = 24
CONFIG = ModelConfig(
    vocab_size=WORDS_KNOWN,
    hidden_size=32,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=48,
    max_position_embeddings=LENGTH,
)
OBJECTIVES = ["mlm", "mlm+nsp", "mlm+sop", "rtd", "clm", "bilm", "denoise", "distill", "carried"]
RECURRENT = preset(
    "lstm-small", vocab_size=WORDS_KNOWN, hidden_size=32, num_hidden_layers=1, max_position_embeddings=LENGTH
)
NETWORKS = {"denoise": replace(CONFIG, num_decoder_layers=1), "bilm": RECURRENT, "carried": RECURRENT}


class Documents:
    """Forty documents; a third of their tokens are COMMON."""

    def __init__(self):
        rng = np.random.default_rng(5)
        self.lengths = [rng.integers(3, 9, size=rng.integers(2, 8)) for _ in range(40)]
        self.tokens = [rng.integers(FIRST_WORD, WORDS_KNOWN, size=lengths.sum()) for lengths in self.lengths]
        for tokens in self.tokens:
            tokens[rng.random(len(tokens)) < 0.33] = COMMON
        self.counts = np.bincount(np.concatenate(self.tokens), minlength=WORDS_KNOWN)

    def document_tokens(self, document):
        return self.tokens[document]

    def sentence_lengths_of(self, document):
        return self.lengths[document]

    def document_lengths(self):
        return np.array([len(tokens) for tokens in self.tokens])


def made(name):
    documents = Documents()
    masker = Masker(HIDDEN, frozenset(range(FIRST_WORD)), WORDS_KNOWN)
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


def scored(objective, model, batches):
    window = Window()
    with torch.inference_mode():
        for batch in batches:
            window.add(objective.outcome(model, batch))
    return window.means()


def answer_constantly(objective, model, answer):
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
def test_constant_answers_score_exactly_the_baseline(name):
    found = []
    for answer in (0, 1):
        objective, model, batches = made(name)
        answer_constantly(objective, model, answer)
        found.append(scored(objective, model, batches))
    for part in [key.removesuffix("_accuracy") for key in found[0] if key.endswith("_accuracy")]:
        best = max(one[f"{part}_accuracy"] for one in found)
        assert best == found[0][f"{part}_baseline"] > 0, part


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_untrained_network_is_not_called_healthy(name):
    objective, model, batches = made(name)
    scores = scored(objective, model, batches)
    for part in [key.removesuffix("_accuracy") for key in scores if key.endswith("_accuracy")]:
        margin = 0.1 if part in ("nsp", "sop") else 0.02  # a coin is tossed for each of some 80 pairs
        assert scores[f"{part}_accuracy"] <= scores[f"{part}_baseline"] + margin, part
    assert judge(scores, baseline_of(scores), []).level == "bad"


@pytest.mark.parametrize("name", ["clm", "bilm", "denoise", "carried"])
def test_the_form_of_examples_is_not_scored(name):
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
            sums[key] = sums.get(key, 0.0) + float(value)
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
