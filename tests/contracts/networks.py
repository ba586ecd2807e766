"""The contract of presets and heads: what they answer, that they learn, travel through a folder, and pack."""

import dataclasses

import torch

from contracts.common import ROWS, SMALL, close, every_parameter_learns, fitting, lively
from maskwright.core import registry
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model
from maskwright.models.build import build
from maskwright.models.config import ModelConfig
from maskwright.models.presets import preset


def answers(model, rows):
    """Every field of the padded call of `rows`: [batch, ...] by name."""
    width = max(map(len, rows))
    ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])  # [batch, seq]
    keep = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    types = (torch.arange(width) % 2 * keep).long()
    if model.head_name == "choice":  # each row is a question with one choice: [batch, 1, seq]
        ids, keep, types = ids[:, None], keep[:, None], types[:, None]
    out = model(input_ids=ids, attention_mask=keep, token_type_ids=types)
    return {name: value for name, value in vars(out).items() if value is not None}


def has_its_shapes(model):
    """Hidden states of every layer, and logits where there is a head, one row for each sequence."""
    found = answers(model, ROWS)
    assert found["last_hidden_state"].shape == (len(ROWS), max(map(len, ROWS)), model.config.hidden_size)
    for name, value in found.items():
        assert len(value) == len(ROWS) and bool(torch.isfinite(value).all()), name
    assert model.head is None or any(name.endswith("logits") for name in found), "the head answers nothing"
    layers, attends = model.config.num_hidden_layers, model.config.recurrent is None
    encoded = model.encode(Batch.from_sequences(ROWS), hidden_states=True, attentions=attends)
    assert (len(encoded.hidden_states), len(encoded.attentions or ())) == (layers + 1, layers * attends)


def learns(model):
    """A loss on what it answers reaches every parameter: on the logits where there is a head.

    A CRF has scores in addition to the logits, so there it is the head's own loss.
    """
    model.train()
    torch.manual_seed(0)
    if model.head_name == "tagging-crf":
        rows = torch.tensor(ROWS[0]).repeat(2, 1)  # [batch, seq]
        every_parameter_learns(model, model(input_ids=rows, token_type_ids=rows % 2, labels=rows // 2 % 2).loss)
        return
    found = answers(model, ROWS)
    chosen = [value for name, value in sorted(found.items()) if model.head is None or name.endswith("logits")]
    generator = torch.Generator().manual_seed(1)
    every_parameter_learns(
        model, torch.stack([(value * torch.randn(value.shape, generator=generator)).sum() for value in chosen]).sum()
    )


def packs(model):
    """A single sequence gives the same result as in a batch, in any order, packed and padded."""
    together = answers(model, ROWS)
    order = [3, 0, 4, 2, 1]
    hidden = model.encode(Batch.from_sequences([ROWS[row] for row in order])).hidden
    parts = dict(zip(order, hidden.split([len(ROWS[row]) for row in order]), strict=True))
    for number, row in enumerate(ROWS):
        for name, alone in answers(model, [row]).items():
            beside = together[name][number : number + 1]
            close(beside if beside.shape == alone.shape else beside[:, : len(row)], alone, f"{name} of row {number}")
        close(parts[number], model.encode(Batch.from_sequences([row])).hidden, f"packed row {number}")


def travels(model, folder):
    model.save(folder)
    loaded, report = load_model(folder)
    assert (loaded.head_name, loaded.labels, loaded.config) == (model.head_name, model.labels, model.config)
    assert not report.new and not report.unused
    with torch.no_grad():
        before, after = answers(model, ROWS), answers(loaded, ROWS)
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)


def repeats(config, head):
    """The seed decides the weights; a draw elsewhere decides nothing in use, and a named draw repeats in training."""
    config = fitting(config, head)
    first, again, other = (build(config, head, seed=seed) for seed in (1, 1, 2))
    for (name, one), same, changed in zip(
        first.named_parameters(), again.parameters(), other.parameters(), strict=True
    ):
        assert torch.equal(one, same), f"{name} changes from one build to the next"
        assert one.ndim == 1 or not torch.equal(one, changed), f"{name} does not depend on the seed"

    def after_seed(model, seed):
        torch.manual_seed(seed)
        with torch.no_grad():
            return answers(model, ROWS)

    model = lively(config, head)
    for mode, seeds in ((False, (1, 2)), (True, (1, 1))):
        model.train(mode)
        one, two = (after_seed(model, seed) for seed in seeds)
        assert all(torch.equal(one[name], two[name]) for name in one), f"answers change, training={mode}"


# -- presets -----------------------------------------------------------------------------------------------------------


def shrunk(name):
    fields = {field.name for field in dataclasses.fields(ModelConfig)}
    return preset(name, **{key: value for key, value in SMALL.items() if key in fields})


PRESET = {
    "shapes": lambda name, folder: has_its_shapes(lively(shrunk(name))),
    "gradients": lambda name, folder: learns(lively(shrunk(name))),
    "packing": lambda name, folder: packs(lively(shrunk(name))),
    "saving": lambda name, folder: travels(lively(shrunk(name)), folder / "model"),
    "seed": lambda name, folder: repeats(shrunk(name), None),
}

# -- heads -------------------------------------------------------------------------------------------------------------


def _with_head(name):
    model = lively(ModelConfig(**SMALL), name)
    assert type(model.head) is registry.resolve("head", name), f"the name {name} builds another head"
    return model


HEAD = {
    "shapes": lambda name, folder: has_its_shapes(_with_head(name)),
    "gradients": lambda name, folder: learns(_with_head(name)),
    "packing": lambda name, folder: packs(_with_head(name)),
    "saving": lambda name, folder: travels(_with_head(name), folder / "model"),
    "seed": lambda name, folder: repeats(ModelConfig(**SMALL), name),
}
