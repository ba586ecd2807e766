"""Greedy and beam continuations are those of transformers' generate on the same weights, for unequal prompts too."""

from __future__ import annotations

import itertools

import pytest
import torch

from maskwright.hub.folders import load_model
from maskwright.models.decoding.causal import CausalDecoder
from maskwright.models.decoding.rules import Rules, probabilities
from maskwright.models.decoding.search import Beams, grow, search_beams
from parity.checkpoints import checkpoint

END, PAD = 7, 5
PROMPTS = [[11, 12, 13, 14, 15], [16, 17], [18, 19, 20, 21, 22, 23, 24], [25]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    theirs = checkpoint("gpt2", "clm", pad_token_id=PAD, bos_token_id=1, eos_token_id=END, n_layer=2, use_cache=True)
    theirs.save_pretrained(folder)
    return load_model(folder)[0], theirs


def padded(prompts):
    """Left-padded ids and mask, as transformers wants prompts."""
    width = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (width - len(row)) + row for row in prompts])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts])
    return {"input_ids": ids, "attention_mask": mask}


def their_continuations(theirs, prompts, **settings):
    rows = padded(prompts)
    out = theirs.generate(**rows, do_sample=False, max_new_tokens=12, **settings)[:, rows["input_ids"].shape[1] :]
    found = []
    for row in out.tolist():
        found.append(list(itertools.takewhile(lambda token: token not in (END,), row)))
    return found


@pytest.mark.parametrize("penalty", [1.0, 1.7])
def test_greedy(pair, penalty):
    ours, theirs = pair
    settings = {} if penalty == 1 else {"repetition_penalty": penalty}
    # Their penalty sees the padding of unequal prompts as text, so it is compared one prompt at a time.
    groups = [PROMPTS] if penalty == 1 else [[prompt] for prompt in PROMPTS]
    for prompts in groups:
        rules = Rules(greedy=True, repetition_penalty=penalty)
        grown = grow(CausalDecoder(ours, prompts, 12), prompts, rules, max_new_tokens=12, end_ids={END})
        assert [one.ids for one in grown] == their_continuations(theirs, prompts, **settings)


@pytest.mark.parametrize(
    "beams",
    [
        Beams(3, 3),
        Beams(4, 2, length_penalty=0.0),
        Beams(4, 4, length_penalty=2.0, early_stopping=True),
        Beams(5, 5, length_penalty=-1.0),
    ],
    ids=str,
)
def test_beams(pair, beams):
    ours, theirs = pair
    found = search_beams(CausalDecoder(ours, PROMPTS, 12), PROMPTS, beams, max_new_tokens=12, end_ids={END})
    rows = padded(PROMPTS)
    expected = theirs.generate(
        **rows,
        do_sample=False,
        max_new_tokens=12,
        num_beams=beams.width,
        num_return_sequences=beams.num_results,
        length_penalty=beams.length_penalty,
        early_stopping=beams.early_stopping,
        return_dict_in_generate=True,
        output_scores=True,
    )
    scores = expected.sequences_scores.view(len(PROMPTS), -1)
    ours_scores = torch.tensor([[one.score for one in text] for text in found])
    torch.testing.assert_close(ours_scores, scores, rtol=0, atol=1e-4)
    new = expected.sequences[:, rows["input_ids"].shape[1] :].tolist()
    for one, row in zip(itertools.chain(*found), new, strict=True):
        assert one.ids == row[: len(one.ids)]
        assert row[len(one.ids) :] == [] or row[len(one.ids)] in (END, PAD)


@pytest.mark.parametrize(
    "rules", [Rules(top_k=5), Rules(top_p=0.7), Rules(temperature=0.6, top_k=20, top_p=0.5)], ids=str
)
def test_what_may_be_drawn_and_how_probably(pair, rules):
    from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

    logits = torch.randn(6, 83, generator=torch.Generator().manual_seed(1)) * 3
    warpers = [TemperatureLogitsWarper(rules.temperature)]
    warpers += [TopKLogitsWarper(rules.top_k)] if rules.top_k else []
    warpers += [TopPLogitsWarper(rules.top_p)] if rules.top_p else []
    expected = LogitsProcessorList(warpers)(torch.zeros(6, 1, dtype=torch.int64), logits).softmax(-1)
    shares, ids = probabilities(logits, rules)
    found = torch.zeros(6, 83, dtype=torch.float64).scatter(1, ids, shares)
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=1e-6)
