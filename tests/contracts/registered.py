"""Everything that is registered, and the contract of each kind: families, folders, functions, readers, tokenizers."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from contracts.common import ROWS, SMALL, lively
from contracts.networks import HEAD, PRESET, answers, shrunk
from contracts.objectives import OBJECTIVE
from contracts.tasks import TASK
from inference.samples import TEXTS
from maskwright.core import registry, storage
from maskwright.core.errors import CorruptFileError, MissingExtraError, RowError, RunError
from maskwright.export.runtimes import Format
from maskwright.hub.family import Family
from maskwright.hub.folders import load_model, read_facts, save_model
from maskwright.models.config import ModelConfig
from maskwright.models.presets import PRESETS, preset
from maskwright.text.readers.tables import find_reader
from maskwright.text.tokenizers.tokenizer import Tokenizer


def network(name):
    mine = [one for one in PRESETS if preset(one).family == name]
    if mine and name != "maskwright":  # our own format takes any network and every head
        return preset(mine[0], **SMALL)
    family = described(name)
    return ModelConfig(**family.to_ours(family.to_theirs(ModelConfig(family=name, **SMALL))))


def described(name):
    found: Family = registry.resolve("family", name)()
    return found


def travels(name, folder):
    family = described(name)
    for head in set(family.classes.values()):
        model, target = lively(network(name), head), folder / str(head)
        model.tokenizer = None  # whose files are not of the family
        save_model(model, target)
        written = json.loads((target / "config.json").read_text(encoding="utf-8"))
        assert written["model_type"] == family.model_type
        assert written["architectures"] == [family.class_of(head)]
        loaded, report = load_model(target)
        assert (loaded.head_name, loaded.config) == (head, model.config)
        assert not report.new and not report.unused
        after = loaded.state_dict()
        assert all(torch.equal(value, after[key]) for key, value in model.state_dict().items())


def repeats(name, folder):
    """A configuration survives the way to the family's names and back; two ways give the same."""
    config, family = network(name), described(name)
    theirs = family.to_theirs(config)
    assert theirs == family.to_theirs(config) and ModelConfig(**family.to_ours(theirs)) == config


FAMILY = {"saving": travels, "seed": repeats}


# -- The contract of model folders -----------------------------------------------------------------------------------


HEADS = (None, "pretraining", "classification")


def travels_of_folders(name, folder):
    """Every parameter, the tokenizer and the facts come back as they were."""
    save = registry.resolve("model_folder", name)
    for head in HEADS:
        target = folder / str(head)
        model = lively(ModelConfig(**SMALL), head)
        save(model, target, facts={"max_length": 17})
        loaded, report = load_model(target)
        assert not report.new and not report.unused and read_facts(target)["max_length"] == 17
        assert loaded.tokenizer.files() == model.tokenizer.files()
        before, after = answers(model, ROWS), answers(loaded, ROWS)
        assert all(torch.equal(before[key], after[key]) for key in before)


def is_whole(name, folder):
    """A manifest covers every file, a changed byte is found, and a folder that is there stays unless replaced."""
    save = registry.resolve("model_folder", name)
    model, target = lively(ModelConfig(**SMALL)), folder / "model"
    save(model, target)
    storage.verify_folder(target)
    with pytest.raises(RunError):
        save(model, target)
    save(model, target, replace=True)
    weights = next(target.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x55")
    with pytest.raises(CorruptFileError, match=weights.name):
        load_model(target)


def repeats_of_folders(name, folder):
    """One model gives the same bytes every time."""
    save = registry.resolve("model_folder", name)
    model = lively(ModelConfig(**SMALL), "mlm")
    for target in ("one", "two"):
        save(model, folder / target)
    manifests = [(folder / target / storage.MANIFEST).read_bytes() for target in ("one", "two")]
    assert manifests[0] == manifests[1]


MODEL_FOLDER = {"saving": travels_of_folders, "whole": is_whole, "seed": repeats_of_folders}


# -- The contracts of what is one function ---------------------------------------------------------------------------


STEPS, WARMUP = 40, 4
LABELS = np.array([0, 1, 1, 0, 1, 0, 0, 1])
WRONG = 1 - LABELS


def is_a_decay(name, folder):
    """A fraction of the peak that never grows, and is the peak where the warmup ends."""
    decay = registry.resolve("schedule", name)
    found = [decay(step, STEPS, WARMUP) for step in range(WARMUP, STEPS)]
    assert abs(found[0] - 1) < 0.2 and all(0 <= value <= 1 for value in found)
    assert all(later <= earlier for earlier, later in zip(found, found[1:], strict=False))


def is_a_number(name, folder):
    """A plain float for right, wrong and constant predictions, which tells right from wrong."""
    metric = registry.resolve("metric", name)
    ordered = LABELS if name != "micro_f1" else LABELS[:, None].astype(bool)
    other = WRONG if name != "micro_f1" else ~ordered
    right, wrong, constant = (metric(ordered, given) for given in (ordered, other, np.zeros_like(ordered)))
    assert all(isinstance(value, float) and math.isfinite(value) for value in (right, wrong, constant))
    assert right != wrong


def ignores_order(name, folder):
    """The order of the rows does not matter."""
    metric, order = registry.resolve("metric", name), np.array([3, 0, 7, 1, 6, 2, 5, 4])
    given = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    gold = LABELS if name != "micro_f1" else LABELS[:, None].astype(bool)
    given = given if name != "micro_f1" else given[:, None].astype(bool)
    assert math.isclose(metric(gold, given), metric(gold[order], given[order]), abs_tol=1e-12)


def names_its_command(name, folder):
    """The settings of a command are a dataclass that names it, as the table does."""
    settings = registry.resolve("command", name)
    assert dataclasses.is_dataclass(settings) and name.startswith(settings.COMMAND)


COMMAND = {"command": names_its_command}
SCHEDULE = {"shapes": is_a_decay}
METRIC = {"shapes": is_a_number, "packing": ignores_order}


def is_a_format(name, folder):
    """A program that runs the graph of a format names the file and the outputs."""
    form = registry.resolve("export_format", name)
    assert isinstance(form, Format)
    if form.open is None:
        assert "{file}" in form.script[0]
    else:
        assert "{file}" in form.script[1] and "{names}" in form.script[2]


EXPORT_FORMAT = {"program": is_a_format}


# -- The contract of loggers -----------------------------------------------------------------------------------------


def begins_with_a_record(name, folder):
    """A logger that is made, checked and closed leaves the folder empty; with a record it has its file."""
    logger = registry.resolve("logger", name)(folder, {"lr": 1.0})
    try:
        logger.check()
    except MissingExtraError as error:
        assert error.extra == name
        return
    logger.close(False)
    assert not list(folder.iterdir()) and logger.path.parent == folder
    logger.append({"step": 1, "time": 1.0, "loss": 2.0, "names": ["a"]})
    logger.close(True)
    assert logger.path.is_file()


LOGGER: dict[str, Callable[[str, Path], None]] = {"files": begins_with_a_record}


# -- The contract of readers -----------------------------------------------------------------------------------------


QUESTION = '{"id": "1", "question": "Who?", "context": "A dog.", "answers": [{"text": "dog", "answer_start": 2}]}'
FILES = {
    "questions": ("rows.jsonl", QUESTION),
    "tagged": ("rows.conll", "the O\ndog B-ANIMAL\n"),
    "trees": ("rows.txt", "(3 (2 good) (3 film))"),
    "choices": ("rows.jsonl", '{"context": "a b", "choices": ["c", "d"], "label": 0}'),
    "texts": ("rows.tsv", "text\tlabel\na good film\tx"),
}


def is_found(name, folder):
    """The first reader that recognizes its file is this one, whose name is that of the registry."""
    found = find_reader(_file(name, folder))
    assert found is registry.resolve("reader", name) and found.name == name


def reads(name, folder):
    """Reading and scanning give the same row, with its label."""
    path, reader = _file(name, folder), registry.resolve("reader", name)
    faults: list[RowError] = []
    table = reader.read(path, {}, False, False)
    rows = list(getattr(table, "rows", table))
    assert rows == list(reader.scan(path, {}, faults)) and len(rows) == 1 and not faults
    assert rows[0].label is not None


def _file(name, folder):
    path = folder / FILES[name][0]
    path.write_text(FILES[name][1] + "\n", encoding="utf-8")
    return path


READER: dict[str, Callable[[str, Path], None]] = {"recognition": is_found, "reading": reads}


# -- The contract of tokenizer kinds ---------------------------------------------------------------------------------


VOCAB_SIZE = 400
PROBES = [*TEXTS, "a text of words that were never seen", "don't  stop\tnow"]


@cache
def _trained(name, entry):
    return Tokenizer.train_from_iterator(iter(TEXTS), name, VOCAB_SIZE)


def trained(name):
    """A tokenizer of this kind over the sample texts, made once for each entry."""
    return _trained(name, registry.resolve("tokenizer", name))


def has_its_shapes(name, folder):
    """IDs inside the vocabulary, special tokens, offsets inside the text; known words are decoded."""
    tokenizer = trained(name)
    assert tokenizer.vocab_size <= VOCAB_SIZE
    roles = [tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    assert None not in roles and len(set(roles)) == len(roles)
    for text in PROBES:
        encoding = tokenizer(text)
        assert len(encoding.ids) == len(encoding.tokens) == len(encoding.offsets) == len(encoding.type_ids)
        assert all(0 <= index < tokenizer.vocab_size for index in encoding.ids)
        assert (encoding.ids[0], encoding.ids[-1]) == (tokenizer.cls_id, tokenizer.sep_id)
        assert all(0 <= start <= stop <= len(text) for start, stop in encoding.offsets)
    ids = tokenizer(TEXTS[1]).ids
    assert tokenizer.decode(ids).replace(" ", "") == TEXTS[1].replace(" ", "")


def packs(name, folder):
    """A single text has the same IDs as in a batch, on the fast path and on the full one."""
    tokenizer = trained(name)
    alone = [tokenizer(text).ids for text in PROBES]
    assert [encoding.ids for encoding in tokenizer.encode_batch(PROBES)] == alone
    assert tokenizer.encode_ids(PROBES)[0] == alone
    batch = tokenizer.batch(PROBES)
    assert [ids.tolist() for ids in batch.input_ids.split(batch.lengths)] == alone


def travels_of_tokenizers(name, folder):
    """Saved and loaded it gives the same ids, and the same files again."""
    tokenizer = trained(name)
    tokenizer.save(folder / "tokenizer")
    loaded = Tokenizer.load(folder / "tokenizer")
    assert [loaded(text).ids for text in PROBES] == [tokenizer(text).ids for text in PROBES]
    assert (loaded.kind, loaded.files()) == (name, tokenizer.files())


def repeats_of_tokenizers(name, folder):
    """Training twice on one text gives the same files."""
    again = Tokenizer.train_from_iterator(iter(TEXTS), name, VOCAB_SIZE)
    assert again.files() == trained(name).files()


TOKENIZER = {"shapes": has_its_shapes, "packing": packs, "saving": travels_of_tokenizers, "seed": repeats_of_tokenizers}


# -- Everything that is registered, and the contract of each kind ----------------------------------------------------


Check = Callable[[str, Path], None]

# Checks by kind: each takes the registered name and an empty folder, and fails for an entry that breaks the contract.
CONTRACTS: dict[str, Mapping[str, Check]] = {
    "preset": PRESET,
    "head": HEAD,
    "task": TASK,
    "reader": READER,
    "logger": LOGGER,
    "objective": OBJECTIVE,
    "tokenizer": TOKENIZER,
    "model_folder": MODEL_FOLDER,
    "family": FAMILY,
    "schedule": SCHEDULE,
    "metric": METRIC,
    "command": COMMAND,
    "export_format": EXPORT_FORMAT,
    "model_loader": {},
}


def kinds():
    """Every kind of thing that has names: those of the registry, and presets."""
    return [*registry.TABLE, "preset"]


def entries():
    """(kind, name) of everything registered now, entry points included; of presets that differ in sizes alone, one."""
    own = [(kind, name) for kind in registry.TABLE for name in registry.names(kind)]
    kinds_of_network = {repr(shrunk(name)): name for name in reversed(PRESETS)}
    return own + [("preset", name) for name in reversed(kinds_of_network.values())]
