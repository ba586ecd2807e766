"""BigBird's block-sparse attention, as transformers runs it: every head, maps, gradients, the switch for short rows."""

import dataclasses
import warnings

import pytest
import torch

from maskwright.hub.folders import load_model
from maskwright.models.transformer import rule_of
from parity.checkpoints import HEADS, checkpoint, labels_for, padded_rows
from parity.comparing import compare, largest

SPARSE = {"attention_type": "block_sparse", "block_size": 2, "num_random_blocks": 1, "sep_token_id": 9}  # beyond 14
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def both(head, folder, **settings):
    theirs = checkpoint("big_bird", head, **(SPARSE | settings))
    theirs.save_pretrained(folder)
    return load_model(folder)[0], theirs


class Shares:
    """Our model, with maps as transformers shows them: of a block that is listed several times, one share."""

    def __init__(self, model):
        self.model, self.config, self.named_parameters = model, model.config, model.named_parameters

    def __call__(self, **inputs):
        out = self.model(**inputs)
        config, seq = self.model.config, out.attentions[0].shape[-1]
        maps = []
        for depth, weights in enumerate(out.attentions):
            rule = rule_of(config, depth, self.model.training)
            counts = rule.pattern(seq // config.block_size, config.num_attention_heads).counts().clamp(min=1)
            for dim in (1, 2):
                counts = counts.repeat_interleave(config.block_size, dim=dim)
            maps.append(weights / counts)
        return dataclasses.replace(out, attentions=tuple(maps))


@pytest.mark.parametrize("head", HEADS["big_bird"])
@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 5e-5), (torch.float64, 1e-10)])
def test_sparse_rows_give_its_numbers(head, dtype, tolerance, tmp_path):
    ours, theirs = both(head, tmp_path)
    rows = padded_rows(theirs.config, head)
    labels = labels_for(head, rows)
    if head == "regression":
        labels = {"labels": labels["labels"].to(dtype)}
    found = compare(Shares(ours.to(dtype)), theirs.to(dtype), "big_bird", head, rows, labels)
    assert max(found.values()) < tolerance, max(found.items(), key=lambda item: item[1])
    assert theirs.base_model.attention_type == "block_sparse"


def test_training_draws_its_random_blocks(tmp_path):
    """In training, two layers and more random blocks; without dropout nothing else is random."""
    ours, theirs = both("mlm", tmp_path, num_random_blocks=2, **NO_DROPOUT, max_position_embeddings=64)
    rows = padded_rows(theirs.config, seq=48)
    found = compare(Shares(ours.train()), theirs.train(), "big_bird", "mlm", rows, labels_for("mlm", rows))
    assert max(found.values()) < 5e-5, max(found.items(), key=lambda item: item[1])
    in_use = ours.eval()(**rows).last_hidden_state
    assert largest(ours.train()(**rows).last_hidden_state, in_use) > 1e-3


@pytest.mark.parametrize("seq", [15, 17, 19, 20])
def test_rows_that_do_not_fill_their_last_block(seq, tmp_path):
    ours, theirs = both(None, tmp_path)
    rows = padded_rows(theirs.config, seq=seq)
    assert largest(ours(**rows).pooler_output, theirs(**rows).pooler_output) < 5e-5
    found = largest(ours(**rows).last_hidden_state, theirs(**rows).last_hidden_state, rows["attention_mask"])
    assert found < 5e-5 and theirs.attention_type == "block_sparse"


def test_short_rows_attend_fully_and_that_is_said_once(tmp_path):
    ours, theirs = both(None, tmp_path)
    short, long = padded_rows(theirs.config, seq=14), padded_rows(theirs.config, seq=20)
    expected = theirs(**long).last_hidden_state  # before a short row switches transformers' model for good
    with pytest.warns(UserWarning, match="at most 14 tokens"):
        found = ours(**short).last_hidden_state
    assert largest(found, theirs(**short).last_hidden_state, short["attention_mask"]) < 5e-5
    assert theirs.attention_type == "original_full"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(ours(**short).last_hidden_state, found)
        assert largest(ours(**long).last_hidden_state, expected, long["attention_mask"]) < 5e-5


def test_the_question_is_ruled_out_in_a_pack_too(tmp_path):
    from maskwright.data.batch import Batch

    ours, theirs = both("qa", tmp_path)
    ids = padded_rows(theirs.config, seq=20)["input_ids"][:3]
    ids[0, 7] = ids[1, 3] = ids[1, 9] = 9
    out = theirs(input_ids=ids)
    packed = ours.logits(Batch.from_sequences(ids.tolist())).view(3, 20, 2)
    assert largest(packed[..., 0], out.start_logits) < 0.07  # a float32 near a million is rounded to sixteenths
    kept = out.start_logits > -1e5
    assert largest(packed[..., 1], out.end_logits, kept) < 5e-5 and not kept.all()
    padded = ours(input_ids=ids)
    assert largest(padded.end_logits, out.end_logits, kept) < 5e-5
