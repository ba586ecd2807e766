"""Adapter folders in PEFT's format: LoRA updates and a trained head, without the base model's weights.

Tensors have transformers' names below `base_model.model.`: `NAME.lora_A.weight` [rank, in] and `NAME.lora_B.weight`
[out, rank] for each changed linear layer, and the trained modules. maskwright.json adds the task, and the base with
the SHA-256 of its weights. Models with adapters on one base share its weights.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from ..core import storage
from ..core.errors import CorruptFileError, InputError, MissingFileError, ModelFolderError
from ..core.storage import ADAPTER_CONFIG as CONFIG
from ..core.storage import EXPORTED, FACTS, MODEL_CONFIG, read_facts, verify_sealed
from ..models.adapters import Adapter, LoraPart, SharedWeights, add_lora
from ..models.build import with_tokenizer
from ..models.heads import CLASSIFIERS, LABELED_HEADS
from ..models.lora_config import ALL_LINEAR, ROLES, LoraConfig
from ..models.model import Model
from ..nn.layers import Linear, LoraLinear
from ..text.tokenizers.tokenizer import Tokenizer
from ..text.tokenizers.tokenizer_files import MAIN_FILES
from .assemble import LoadReport, listed
from .config_file import MOST_LABELS, FolderConfig, read_config
from .download import find_folder
from .family import Family, family_for
from .published import PUBLISHED, absolute_name, is_short_name
from .sentence import network_folder
from .weights import Weights, weight_files

# -- Reads and writes PEFT's adapter_config.json, as far as LoRA on linear layers goes -------------------------------


_LIMIT_BYTES = 1 << 20
TASK_TYPES: dict[str | None, str] = {  # by our head; PEFT has none for the others
    "classification": "SEQ_CLS",
    "regression": "SEQ_CLS",
    "tagging": "TOKEN_CLS",
    "tagging-crf": "TOKEN_CLS",
    "qa": "QUESTION_ANS",
    "clm": "CAUSAL_LM",
    "seq2seq": "SEQ_2_SEQ_LM",
    None: "FEATURE_EXTRACTION",
}
# Settings that do not change what a stored adapter computes. Which layers it changes is read from its tensors.
_HARMLESS = {
    "auto_mapping", "base_model_name_or_path", "bias", "corda_config", "ensure_weight_tying", "eva_config",
    "exclude_modules", "fan_in_fan_out", "inference_mode", "init_lora_weights", "layers_pattern", "layers_to_transform",
    "lora_alpha", "lora_dropout", "lora_ga_config", "megatron_core", "modules_to_save", "peft_type", "peft_version",
    "qalora_group_size", "r", "revision", "runtime_config", "target_modules", "task_type", "use_rslora",
}  # fmt: skip
_PLAIN_STARTS = (True, False, "gaussian", "eva", "orthogonal")  # the others also change the base's weights


def read_adapter_config(folder: Path) -> tuple[LoraConfig, dict[str, Any]]:
    """Returns the settings of an adapter folder (without targets), and the whole adapter_config.json.

    Raises ModelFolderError for other kinds of adapters, and for options that are not supported.
    """
    path = folder / CONFIG
    values = storage.read_json(path, _LIMIT_BYTES)
    if not isinstance(values, dict):
        raise ModelFolderError(f"{path} is not a JSON object, so this is not an adapter folder.")
    kind = values.get("peft_type")
    if kind != "LORA":
        raise ModelFolderError(f"{path}: peft_type is {kind!r}; only LORA is supported.")
    others = sorted(name for name, value in values.items() if value and name not in _HARMLESS)
    if values.get("bias", "none") != "none":
        others.append("bias")
    if values.get("init_lora_weights", True) not in _PLAIN_STARTS:
        others.append("init_lora_weights")
    if others:
        raise ModelFolderError(f"{path}: {others[0]} is {values[others[0]]!r}, which is not supported.")
    rank, alpha, rate = (values.get(name) for name in ("r", "lora_alpha", "lora_dropout"))
    rate = 0.0 if rate is None else rate
    is_right = isinstance(rank, int) and rank >= 1 and isinstance(alpha, int | float) and isinstance(rate, int | float)
    if not is_right or not 0 <= rate < 1:
        raise ModelFolderError(
            f"{path}: r is {rank!r}, lora_alpha {alpha!r} and lora_dropout {rate!r}; they must be a rank of 1 or more, "
            "a number and a probability."
        )
    assert isinstance(rank, int) and isinstance(alpha, int | float)
    scale = rank**0.5 if values.get("use_rslora") else 1.0  # rank-stabilized: alpha / sqrt(rank)
    return LoraConfig(rank, float(alpha) * scale, (), float(rate)), values


def write_adapter_config(
    config: LoraConfig,
    *,
    base: str,
    head: str | None,
    targets: Sequence[str],
    saved: Sequence[str],
    is_transposed: bool,
) -> dict[str, Any]:
    """Returns the content of adapter_config.json.

    Args:
        base: Hub model ID or folder of the base model.
        targets: Names of linear layers in transformers' model, or suffixes of them.
        saved: Names of trained modules.
        is_transposed: Whether transformers stores the layers as [in, out].
    """
    is_wrapped_twice = "qa_classifier" in saved  # BigBird's: for this task PEFT also wraps qa_outputs in it, and fails
    return {
        "peft_type": "LORA",
        "task_type": None if is_wrapped_twice else TASK_TYPES.get(head),
        "base_model_name_or_path": base,
        "r": config.rank,
        "lora_alpha": int(config.alpha) if config.alpha == int(config.alpha) else config.alpha,
        "lora_dropout": config.dropout,
        "target_modules": list(targets),
        "modules_to_save": list(saved) or None,
        "bias": "none",
        "fan_in_fan_out": is_transposed,
        "init_lora_weights": True,
        "inference_mode": True,
        "use_rslora": False,
        "use_dora": False,
    }


# -- The linear layers of a model that an adapter can change, under the names of the base's format -------------------


# Settings of the layers between encoder and head, and their values where there are none.
BETWEEN: dict[str, Any] = {"mix_layers": False, "top_layers": 0, "top_embedding_size": 0}


def linear_parts(model: Model) -> dict[str, LoraPart]:
    """Returns the linear layers of a model by transformers' names; a joint layer may have a name for each part."""
    family, found = base_family(model), {}
    for name, module in model.named_modules():
        if isinstance(module, Linear):
            theirs = family.stored_names(f"{name}.weight", model.head_name)
            sizes = family.part_sizes(f"{name}.weight", module.weight.shape[0], len(theirs))
            roles = _roles(name)
            names = roles if len(roles) == len(theirs) > 1 else tuple(map(str, range(len(theirs))))
            names = ("whole",) if len(theirs) == 1 else names
            for number, (own, part, size) in enumerate(zip(theirs, names, sizes, strict=True)):
                found[own.removesuffix(".weight")] = LoraPart(name, part, sum(sizes[:number]), size)
    return found


def _roles(module: str) -> tuple[str, ...]:
    """What targets a linear layer may be, () for one outside the layers."""
    return ROLES.get(".".join(module.split(".")[-2:]), ()) if ".layers." in module else ()


def is_target(part: LoraPart, targets: Collection[str], model: Model) -> bool:
    """Whether the targets of an adapter include a part; a joint layer is included as a whole.

    all-linear also includes the pooler, if a head reads it.
    """
    roles = (part.name,) if part.name in _roles(part.module) else _roles(part.module)
    if part.module == "encoder.pooler" and model.head is not None:
        roles = (ALL_LINEAR,)
    return any(role in targets or ALL_LINEAR in targets for role in roles)


def base_family(model: Model) -> Family:
    """Returns the family in whose format the base is stored; what is between encoder and head is not the base's."""
    config = replace(model.config, **BETWEEN)
    families = [family_for(config, head) for head in (model.head_name, None)]
    return next((family for family in families if family.encoder), families[0])


def stored_in_base(family: Family, name: str, model: Model) -> list[str]:
    """Returns transformers' names of a parameter; none for a low-rank update."""
    return [] if ".lora." in name else family.stored_names(name, model.head_name)


FILE = "adapter_model.safetensors"
PICKLE = "adapter_model.bin"
FACT = "adapter"  # entry of maskwright.json
PREFIX = "base_model.model."
TASK_HEADS = (*CLASSIFIERS, "regression", "anomaly")  # heads that an adapter trains; the others stay as in the base
_LORA = re.compile(r"(.+)\.lora_([AB])(?:\.default)?\.weight")
_BASES: WeakValueDictionary[str, SharedWeights] = WeakValueDictionary()  # by the SHA-256 of their weights

LoadBase = Callable[..., tuple[Model, LoadReport]]


def is_adapter(folder: Path) -> bool:
    """Whether a folder contains an adapter and not a whole model."""
    return (folder / CONFIG).is_file() and not (folder / MODEL_CONFIG).is_file()


# -- training ------------------------------------------------------------------------------------------------------


def attach_adapter(
    model: Model, base: str, config: LoraConfig, new: Collection[str], seed: int, network: Mapping[str, Any]
) -> None:
    """Prepare a loaded model for training an adapter: add updates, and freeze all but them, the task's head and what
    the base lacks.

    Args:
        base: Name of the model folder or Hub model ID that `model` was loaded from.
        new: Names of tensors that it lacks, from the LoadReport.
        seed: For the initialization.
        network: Settings between encoder and head that were changed on loading.

    Raises InputError where the targets select no linear layer, ModelFolderError where the base is an adapter itself.
    """
    found = linear_parts(model)
    chosen = [
        part
        for theirs, part in found.items()
        if is_target(part, config.targets, model) and f"{theirs}.weight" not in new  # what is new is trained whole
    ]
    if not chosen:
        raise InputError(
            f"{base} has no linear layer that is a target ({', '.join(config.targets)}): adapters are for Transformers."
        )
    found_base, root = find_folder(base)
    if is_adapter(found_base):
        raise ModelFolderError(
            f"{base} is an adapter itself: merge it first with maskwright export {base} --to folder -o MODEL, and "
            "train on MODEL."
        )
    add_lora(model, chosen, config, seed)
    family = base_family(model)
    for name, parameter in model.named_parameters():
        is_new = any(theirs in new for theirs in stored_in_base(family, name, model))
        if name.startswith("top.") or is_new or (name.startswith("head.") and model.head_name in TASK_HEADS):
            parameter.requires_grad_(True)
    model.adapter = Adapter(config, absolute_name(base), weights_digest(found_base, root), dict(network))


def weights_digest(folder: Path, root: Path | None = None) -> str:
    """Returns the SHA-256 of a model folder's weights file; of several files, that of their SHA-256 in order.

    The weights of an exported folder are in the files of its graph.
    """
    network = network_folder(folder)
    exported = read_facts(folder).get(EXPORTED)
    if exported is None:
        files = weight_files(network, root or network)
    else:
        graphs = exported["graphs"].values()
        files = [storage.inside(folder, name, root) for one in graphs for name in (one["file"], *one["data"])]
    digests = [storage.sha256(path) for path in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


# -- saving --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AdapterFiles:
    """Contents of an adapter folder besides maskwright.json and README.md: config, tensors, and what `facts` gain."""

    config: dict[str, Any]
    tensors: dict[str, Tensor]
    fact: dict[str, Any]


def adapter_files(model: Model, folder: Path, problem_type: str | None) -> AdapterFiles:
    """Returns what is stored of a model with an adapter in `folder`. The path to a base folder is relative to it."""
    adapter, family = _adapter_of(model), base_family(model)
    everything = linear_parts(model)
    tensors: dict[str, Tensor] = {}
    changed: list[str] = []
    for theirs, part in everything.items():
        module = model.get_submodule(part.module)
        if isinstance(module, LoraLinear) and part.name in module.lora:
            update = module.update(part.name)
            changed.append(theirs)
            for side, matrix in (("A", update.A), ("B", family.by_head(f"{part.module}.weight", update.B))):
                tensors[f"{PREFIX}{theirs}.lora_{side}.weight"] = matrix.detach().cpu().contiguous().clone()
    saved: dict[str, None] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and ".lora." not in name:
            stored = family.to_stored(name, parameter.detach().cpu(), model.head_name)
            tensors |= {PREFIX + key: tensor for key, tensor in stored.items()}
            saved |= dict.fromkeys(_module_of(family, key) for key in stored)
    config = write_adapter_config(
        adapter.config,
        base=PUBLISHED[adapter.base].hub_id if adapter.base in PUBLISHED else adapter.base,
        head=model.head_name,
        targets=_targets(changed, everything),
        saved=list(saved),
        is_transposed=bool(family.transposed),
    )
    fact = {
        "base": _relative(adapter.base, folder),
        "weights_sha256": adapter.weights_sha256,
        "targets": list(adapter.config.targets),
        "labels": list(model.labels),
        "problem_type": problem_type,
        "network": dict(adapter.network),
    }
    return AdapterFiles(config, tensors, {name: value for name, value in fact.items() if value not in (None, {}, [])})


def has_own_tokenizer(model: Model) -> bool:
    """Whether the tokenizer of a model with an adapter differs from the base's, as after adding tokens."""
    if model.tokenizer is None:
        return False
    folder = network_folder(find_folder(_adapter_of(model).base)[0])
    return dict(model.tokenizer.files()) != dict(Tokenizer.load(folder).files())


def _adapter_of(model: Model) -> Adapter:
    assert model.adapter is not None, "a model with an adapter"
    return model.adapter


def _relative(base: str, folder: Path) -> str:
    if is_short_name(base) or not Path(base).is_dir():
        return base
    path = Path(os.path.relpath(Path(base).resolve(), folder.resolve())).as_posix()
    return path if path.startswith(".") else f"./{path}"


def _module_of(family: Family, stored: str) -> str:
    """Returns the name of the module that PEFT stores whole for a trained tensor."""
    name = stored.removeprefix(family.prefix)
    return name.partition(".")[0] if family.encoder else name.rpartition(".")[0]


def _targets(changed: Collection[str], everything: Collection[str]) -> list[str]:
    """Returns the suffixes below a layer of the changed linear layers, or their names where suffixes match others."""
    suffixes = {re.split(r"\.\d+\.", name)[-1] for name in changed}
    matched = {name for name in everything if any(f".{name}".endswith(f".{suffix}") for suffix in suffixes)}
    return sorted(suffixes if matched == set(changed) else changed)


# -- loading -------------------------------------------------------------------------------------------------------


def load_adapter(folder: Path, root: Path, load_base: LoadBase) -> tuple[Model, LoadReport]:
    """Load the base of an adapter folder with the adapter on it.

    load_base: loads a whole model: name, head, labels, problem_type, top, shared -> model and report. Raises
    ModelFolderError for an unsupported adapter, and for one that does not belong to its base; CorruptFileError for a
    damaged file; MissingFileError where the base does not exist.
    """
    is_verified = verify_sealed(folder, root=root)
    config, values = read_adapter_config(folder)
    facts = read_facts(folder)
    own = _own_fact(folder, facts)
    base = _base_name(folder, own, values)
    base_folder, base_root = _find_base(folder, base)
    digest = weights_digest(base_folder, base_root)
    if own.get("weights_sha256", digest) != digest:
        raise ModelFolderError(
            f"{folder} was trained on a base whose weights have the SHA-256 {str(own['weights_sha256'])[:12]}…, but "
            f"those of {base} have {digest[:12]}…: the base has changed, or it is another model."
        )
    shared = _BASES.setdefault(digest, SharedWeights())
    stored = read_config(network_folder(base_folder))
    with _open(folder, root) as file:
        names = {_plain(name): name for name in file.shapes}
        head, labels = _head(facts, own, values, stored, names, file)
        model, report = load_base(
            base, head, labels=labels, problem_type=own.get("problem_type"), top=own.get("network"), shared=shared
        )
        if any((folder / name).is_file() for name in MAIN_FILES):
            model = with_tokenizer(model, Tokenizer.load(folder))
        config = replace(config, targets=tuple(own.get("targets", ())))
        used = _load_updates(model, config, names, file, base) | _load_modules(model, names, file)
    strange = [name for name in names if name not in used]
    if strange:
        raise ModelFolderError(_no_place(folder, strange, head, base))
    model.adapter = Adapter(config, absolute_name(base), digest, own.get("network", {}), shared)
    shared.share(model)
    new = [name for name in report.new if name not in used]
    return model, LoadReport(sorted(used), new, [], is_verified)


def _own_fact(folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what maskwright.json says of the adapter; {} for a folder of another program."""
    own = facts.get(FACT, {})
    if not isinstance(own, dict) or not isinstance(facts.get("head"), str | None):
        raise CorruptFileError(f"{folder / FACTS}: '{FACT}' or 'head' is not as written by Maskwright.")
    labels, targets, network = own.get("labels", []), own.get("targets", []), own.get("network", {})
    is_right = all(isinstance(own.get(name), str | None) for name in ("base", "weights_sha256", "problem_type"))
    is_right &= all(
        isinstance(names, list) and all(isinstance(one, str) for one in names) for names in (labels, targets)
    )
    if not is_right or not isinstance(network, dict) or not network.keys() <= BETWEEN.keys():
        raise CorruptFileError(f"{folder / FACTS}: '{FACT}' is not as written by Maskwright.")
    return own


def _base_name(folder: Path, own: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    recorded, theirs = own.get("base"), values.get("base_model_name_or_path")
    if isinstance(recorded, str) and recorded.startswith("."):
        near = Path(os.path.normpath(folder.resolve() / recorded))
        recorded = str(near) if near.is_dir() or not isinstance(theirs, str) else theirs
    base = recorded or theirs
    if not isinstance(base, str) or not base:
        raise ModelFolderError(f"{folder / CONFIG} names no base model (base_model_name_or_path).")
    return base


def base_of(folder: Path) -> Path:
    """Returns the folder of the base of an adapter folder. Raises the errors of `load_adapter`."""
    own = _own_fact(folder, read_facts(folder))
    return _find_base(folder, _base_name(folder, own, read_adapter_config(folder)[1]))[0]


def _find_base(folder: Path, base: str) -> tuple[Path, Path]:
    try:
        found, root = find_folder(base)
    except MissingFileError as error:
        raise MissingFileError(f"{folder} is an adapter, and its base model is missing: {error}") from None
    if is_adapter(found):
        raise ModelFolderError(
            f"{folder} is an adapter on {base}, which is an adapter too: merge that one first (maskwright export "
            "--to folder)."
        )
    return found, root


def _open(folder: Path, root: Path) -> Weights:
    if not (folder / FILE).is_file():
        if (folder / PICKLE).is_file():
            raise ModelFolderError(
                f"{folder} contains its adapter as a pickle ({PICKLE}), which can run code when it is opened: save it "
                "again as safetensors."
            )
        raise CorruptFileError(f"{folder} has no {FILE}: the weights of the adapter are missing.")
    return Weights(folder, root, FILE)


def _plain(name: str) -> str:
    """Returns transformers' name of a stored tensor."""
    return re.sub(r"\.modules_to_save(\.default)?\.", ".", name.removeprefix(PREFIX))


def _head(
    facts: Mapping[str, Any],
    own: Mapping[str, Any],
    values: Mapping[str, Any],
    stored: FolderConfig,
    names: Mapping[str, str],
    file: Weights,
) -> tuple[str | None, Any]:
    """Returns the head of an adapter, and its labels: their names, their number, or None."""
    if "head" in facts:
        return facts["head"], own.get("labels") if facts["head"] in LABELED_HEADS else None
    family, own_head, kind = stored.family, stored.head_or_none(), values.get("task_type")
    head = next((head for head, known in TASK_TYPES.items() if known == kind), None)
    if kind not in TASK_TYPES.values():  # PEFT need not know the task: the tensors show it
        head = family.classes[family.predict_class(family.canonical(name) for name in names)]
        if head is None and family.prefix and any(name.startswith(family.prefix) for name in names):
            head = own_head
    is_alike = own_head is not None and head is not None and family.heads.get(own_head) == family.heads.get(head)
    head = own_head if is_alike else head
    if head not in LABELED_HEADS:
        return head, None
    classifier = names.get(family.their_names("head.classifier.weight", head)[0])
    count = len(stored.labels) if classifier is None else next(iter(file.shapes[classifier]), 0)
    if count > MOST_LABELS:
        raise ModelFolderError(
            f"{file.folder / FILE}: {classifier} has {count:,} labels; {MOST_LABELS:,} is the limit."
        )
    return head, stored.labels if len(stored.labels) == count else count


def _load_updates(model: Model, config: LoraConfig, names: Mapping[str, str], file: Weights, base: str) -> set[str]:
    """Add the stored low-rank updates to `model`; returns the names of their tensors."""
    pairs: dict[str, dict[str, str]] = {}
    for name in names:
        if found := _LORA.fullmatch(name):
            pairs.setdefault(found[1], {})[found[2]] = name
    parts = linear_parts(model)
    unknown = sorted(set(pairs) - set(parts))
    if unknown:
        raise ModelFolderError(_no_place(file.folder, unknown, model.head_name, base))
    if not pairs:
        raise ModelFolderError(f"{file.folder / FILE} contains no LoRA weights (lora_A, lora_B).")
    for theirs, pair in pairs.items():
        part = parts[theirs]
        in_size = model.get_parameter(f"{part.module}.weight").shape[1]
        wanted = {"A": (config.rank, in_size), "B": (part.size, config.rank)}
        for side, shape in wanted.items():
            found_shape = file.shapes[names[pair[side]]] if side in pair else None
            if found_shape != shape:
                has = "is missing" if found_shape is None else f"has shape {list(found_shape)}"
                raise ModelFolderError(
                    f"{file.folder}: {theirs}.lora_{side}.weight {has}; {base} requires {list(shape)} at rank "
                    f"{config.rank}."
                )
    add_lora(model, [parts[theirs] for theirs in pairs], config, seed=0)
    with torch.no_grad():
        for theirs, pair in pairs.items():
            module = model.get_submodule(parts[theirs].module)
            assert isinstance(module, LoraLinear)
            update = module.update(parts[theirs].name)
            update.A.copy_(file.read(names[pair["A"]]))
            up = file.read(names[pair["B"]])
            update.B.copy_(base_family(model).by_head(f"{parts[theirs].module}.weight", up, back=True))
    return {name for pair in pairs.values() for name in pair.values()}


def _no_place(folder: Path, names: Sequence[str], head: str | None, base: str) -> str:
    """Says that the base has no place for layers or tensors of an adapter, and why."""
    embeddings = [name for name in names if "lora_embedding_" in name]
    if embeddings:
        return f"{folder} contains {listed(embeddings)}: LoRA of an embedding is not supported, only of linear layers."
    what = "the encoder" if head is None else f"the model with the head '{head}'"
    return (
        f"{folder} contains {listed(names)}, but {what} of {base} has no such linear layer or parameter: the adapter "
        "was trained with another head, or on another base."
    )


def _load_modules(model: Model, names: Mapping[str, str], file: Weights) -> set[str]:
    """Load the stored trained modules into `model`; returns the names of their tensors."""
    family, used = base_family(model), set()
    for name, parameter in model.named_parameters():
        theirs = stored_in_base(family, name, model)
        if not theirs or not all(part in names for part in theirs):
            continue
        first, *others = family.stored_shape(name, tuple(parameter.shape))
        for part in theirs:
            found, wanted = file.shapes[names[part]], (first // len(theirs), *others)
            if found != wanted:
                raise ModelFolderError(
                    f"{file.folder}: {part} has shape {list(found)}, but the base requires {list(wanted)}."
                )
        tensor = torch.cat([file.read(names[part]) for part in theirs])
        parameter.data = family.from_stored(name, tensor, tuple(parameter.shape))
        parameter.requires_grad_(True)
        used.update(theirs)
    return used
