"""Reads and writes the embedding settings of sentence-transformers folders, of its versions 2 to 6.

`modules.json` lists the modules: the transformer (in the folder itself or a subfolder), a pooling, and optionally dense
layers and layer norms of the pooled vector, and normalization to length 1, of the tokens before pooling or of the
result. Where several places say the same thing, the
first one holds, as in sentence-transformers 6.2:

- maximum sequence length: in `sentence_bert_config.json` (or an older name, such as `sentence_roberta_config.json`)
  `processing_kwargs` (`max_length` of `common`, then of `text`), `model_max_length` of `processor_kwargs` or
  `tokenizer_args`, `max_seq_length`; then `model_max_length` or `max_len` of `tokenizer_config.json`. More than the
  model takes is cut to that.
- lower case: a tokenizer that lower-cases by itself, then `do_lower_case` of `sentence_bert_config.json`; see
  `text.tokenizers.tokenizer_files`.
- dimensions: what the caller asks for, then `truncate_dim` of `config_sentence_transformers.json`: the first numbers of
  the embedding that the modules give, which is not normalized again unless the caller asks for it.
- prompt: the one that `default_prompt_name` of `config_sentence_transformers.json` names, before every text.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_safetensors
from torch import nn

from ..core.errors import ModelFolderError
from ..core.storage import MODEL_CONFIG, inside, read_json
from ..models.model import SentenceSettings
from ..models.pooling import ACTIVATIONS, POOLINGS, Dense, Projection, UnitLength, VectorNorm
from ..text.tokenizers.tokenizer_files import CONFIG as TOKENIZER_CONFIG
from ..text.tokenizers.tokenizer_files import SENTENCE_CONFIGS, sentence_config
from .weights import FILE as WEIGHTS
from .weights import Weights

MODULES, LENGTH, PROMPTS = "modules.json", SENTENCE_CONFIGS[0], "config_sentence_transformers.json"
SIGMOID, IDENTITY = "Sigmoid", "Identity"  # activations of a cross-encoder's one output
_LIMIT_BYTES = 1 << 20
_POOLING_FLAGS = {  # in the order of their results
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_TOKENS, _RESULT = "token_embeddings", "sentence_embedding"  # what a Normalize module may change
_TYPES = (None, "SentenceTransformer", "CrossEncoder", "SparseEncoder")  # model_type of folders with a vector per text
_NETWORKS = ("Transformer", "MLMTransformer")
_NO_EFFECT = (*_NETWORKS, "Dropout")  # modules without a setting for inference
_SPLADE_LOGS = {"relu": 1, "log1p_relu": 2}
_POOLED = ("Pooling", "StaticEmbedding")  # modules that make one vector of a text; the mean in the second one
_PROJECTIONS = ("Dense", "LayerNorm")  # modules of the pooled vector, with weights
MOST_TOKENS = 1 << 31  # transformers writes 10**30 for "no limit"


def declared_by(folder: Path | str) -> SentenceSettings:
    """Read the embedding settings of a folder; defaults if it has none.

    Raises ModelFolderError for an unsupported pooling or module, and for a setting of another type.
    """
    folder = Path(folder)
    if not (folder / MODULES).is_file():
        return SentenceSettings()
    own, network = _object(folder / PROMPTS), network_folder(folder)
    if own.get("model_type") not in _TYPES:
        raise ModelFolderError(
            f"{folder / PROMPTS}: model_type is {own['model_type']!r}; only models with one vector per text are "
            f"supported ({', '.join(filter(None, _TYPES))})."
        )
    prompts, default = _prompts(folder / PROMPTS, own)
    modules = modules_of(folder)
    kinds = [kind for kind, _ in modules]
    pooled_by = max((index for index, kind in enumerate(kinds) if kind in _POOLED), default=-1)
    projected_by = max((index for index, kind in enumerate(kinds) if kind in _PROJECTIONS), default=-1)
    pooling, normalize, normalize_tokens, sparse, logs = "mean", False, False, None, 1
    for index, (kind, module) in enumerate(modules):
        path = inside(folder, str(module.get("path") or "")) / "config.json"
        if index == pooled_by and kind == "Pooling":
            pooling = _pooling(path, has_prompt=bool(default and prompts[default]))
        elif kind == "Normalize":  # before the pooling there is no result; after it, the tokens do not matter
            of_tokens = _normalized(path) == _TOKENS
            normalize_tokens |= of_tokens and (index < pooled_by or pooled_by < 0)
            normalize |= not of_tokens and index > max(pooled_by, projected_by)
        elif kind == "SpladePooling":
            sparse, logs = _splade(path)
        elif kind in _PROJECTIONS and not 0 <= pooled_by < index:
            raise ModelFolderError(f"{folder / MODULES}: the module '{kind}' before the pooling is not supported.")
        elif kind not in (*_NO_EFFECT, *_PROJECTIONS, *_POOLED):
            raise ModelFolderError(f"{folder / MODULES} lists the module '{kind}', which is not supported.")
    return SentenceSettings(
        pooling,
        normalize,
        _max_length(network),
        normalize_tokens,
        _whole_number(folder / PROMPTS, own, "truncate_dim"),
        prompts,
        default,
        sentence_config(network).get("do_lower_case") is True,
        sparse,
        logs,
    )


def projection_of(folder: Path, root: Path | None = None) -> Projection | None:
    """Returns the modules after the pooling with their weights; None without any but a last normalization.

    root: as in `Weights`. Raises ModelFolderError for an unsupported module or activation, and for other weights than
    its config.json describes.
    """
    modules = modules_of(folder) if (folder / MODULES).is_file() else []
    kinds = [kind for kind, _ in modules]
    if not set(kinds) & set(_PROJECTIONS):
        return None
    begin = 1 + max(index for index, kind in enumerate(kinds) if kind in _POOLED)
    end = 1 + max(index for index, kind in enumerate(kinds) if kind in _PROJECTIONS)
    layers: list[nn.Module] = []
    for kind, module in modules[begin:end]:
        own = inside(folder, str(module.get("path") or ""))
        if kind == "Normalize" and _normalized(own / "config.json") == _RESULT:
            layers.append(UnitLength())
        elif kind in _PROJECTIONS:
            layers.append(_filled(_layer(kind, own / "config.json"), own, root))
    return Projection(*layers)


def _layer(kind: str, path: Path) -> nn.Module:
    """Returns an untrained module of a configuration."""
    config = _object(path)
    if kind == "LayerNorm":
        return VectorNorm(_needed(path, config, "dimension"))
    source, target = (config.get(f"module_{side}_name") for side in ("input", "output"))
    if source not in (None, _RESULT) or target not in (None, _RESULT):
        raise ModelFolderError(f"{path} changes {source!r} to {target!r}; only {_RESULT}, in place, is supported.")
    package, _, activation = str(config.get("activation_function", "torch.nn.Tanh")).rpartition(".")
    if not package.startswith("torch.nn") or activation not in ACTIVATIONS:
        raise ModelFolderError(
            f"{path}: activation_function is {config['activation_function']!r}; supported are {', '.join(ACTIVATIONS)} "
            "of torch.nn."
        )
    inputs, size = (_needed(path, config, f"{side}_features") for side in ("in", "out"))
    return Dense(inputs, size, config.get("bias", True) is not False, activation, config.get("use_residual") is True)


def _needed(path: Path, config: Mapping[str, Any], name: str) -> int:
    """A size of at most 65,536 in a configuration."""
    value = _whole_number(path, config, name)
    if value is None or value > 1 << 16:
        raise ModelFolderError(f"{path}: {name} is {value}; it must be a number from 1 to 65,536.")
    return value


def _filled(layer: nn.Module, folder: Path, root: Path | None) -> nn.Module:
    """The layer with the weights of its folder."""
    wanted = dict(layer.named_parameters())
    with Weights(folder, root) as stored:
        if stored.shapes != {name: tuple(one.shape) for name, one in wanted.items()}:
            raise ModelFolderError(
                f"{folder}: its weights ({', '.join(sorted(stored.shapes)[:5])}) are not those of its config.json."
            )
        with torch.no_grad():
            for name, parameter in wanted.items():
                parameter.copy_(stored.read(name))
    return layer


def prompts_of(folder: Path) -> dict[str, str]:
    """Returns the prompts of a folder by name: what can be put before a text, on request.

    Raises ModelFolderError if the folder leaves the tokens of prompts out of its pooling.
    """
    prompts = _object(folder / PROMPTS).get("prompts")
    named = {str(name): text for name, text in prompts.items() if isinstance(text, str)} if prompts else {}
    for kind, module in modules_of(folder) if named and (folder / MODULES).is_file() else ():
        if kind == "Pooling":
            _pooling(inside(folder, str(module.get("path") or "")) / "config.json", has_prompt=any(named.values()))
    return named


def activation_of(folder: Path) -> str:
    """Returns the activation of a cross-encoder with one output: "Sigmoid", also without a declaration, or "Identity".

    It is declared by `config_sentence_transformers.json`, else by `config.json`: `activation_fn` of
    `sentence_transformers`, and `sbert_ce_default_activation_function` in folders of versions before 4. Raises
    ModelFolderError for another one.
    """
    config = _object(network_folder(folder) / MODEL_CONFIG)
    newer = config.get("sentence_transformers")
    stored = (
        _object(folder / PROMPTS).get("activation_fn")
        or (newer.get("activation_fn") if isinstance(newer, dict) else None)
        or config.get("sbert_ce_default_activation_function")
        or f"torch.nn.{SIGMOID}"
    )
    package, _, name = str(stored).rpartition(".")
    if package.partition(".")[0] != "torch" or name not in (SIGMOID, IDENTITY):
        raise ModelFolderError(
            f"{PROMPTS} or {MODEL_CONFIG} declares the activation {stored!r} for one output; only {SIGMOID} and "
            f"{IDENTITY} of torch.nn are supported."
        )
    return name


def network_folder(folder: Path) -> Path:
    """Returns the folder with the transformer: the folder itself, or the subfolder listed in modules.json.

    Raises InputError for a path outside the folder.
    """
    if not (folder / MODULES).is_file():
        return folder
    paths = [str(module.get("path") or "") for kind, module in modules_of(folder) if kind in _NETWORKS]
    return inside(folder, paths[0]) if paths and paths[0] else folder


def module_folders(folder: Path) -> list[Path]:
    """Returns the subfolders listed in modules.json, one for each module with its own files.

    Raises InputError for a path outside the folder.
    """
    if not (folder / MODULES).is_file():
        return []
    paths = [str(module.get("path") or "") for _, module in modules_of(folder)]
    return [inside(folder, path) for path in paths if path]


def declaration_files(
    declared: SentenceSettings, hidden_size: int, max_length: int, projection: Projection | None = None
) -> dict[str, Any]:
    """Returns the files, as relative path -> JSON content or bytes, that `declared_by` and `projection_of` read.

    hidden_size: of the model; max_length: maximum sequence length in tokens.
    """
    if declared.sparse is not None:
        return _sparse_files(declared, max_length)
    layers = list(projection or ())
    names = {Dense: "Dense", VectorNorm: "LayerNorm", UnitLength: "Normalize"}
    kinds = ["Transformer", "Pooling", *(names[type(layer)] for layer in layers)]
    kinds += ["Normalize"] if declared.normalize else []
    if declared.normalize_tokens:
        kinds.insert(1, "Normalize")
    paths = ["" if index == 0 else f"{index}_{kind}" for index, kind in enumerate(kinds)]
    modules = [
        {"idx": index, "name": str(index), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for index, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    poolings = declared.pooling.split("+")
    flags: dict[str, Any] = {flag: name in poolings for flag, name in _POOLING_FLAGS.items()}
    if poolings != [name for name in _POOLING_FLAGS.values() if name in poolings]:
        flags = {"pooling_mode": poolings}  # in another order, which only version 6 knows
    pooled_by = kinds.index("Pooling")
    files: dict[str, Any] = {
        MODULES: modules,
        f"{paths[pooled_by]}/config.json": {"word_embedding_dimension": hidden_size, **flags},
        LENGTH: {"max_seq_length": declared.max_length or max_length, "do_lower_case": declared.lower_case},
    }
    for path, layer in zip(paths[pooled_by + 1 :], layers, strict=False):
        if tensors := {name: one.detach().float().cpu().contiguous() for name, one in layer.named_parameters()}:
            files[f"{path}/config.json"] = _configuration(layer)
            files[f"{path}/{WEIGHTS}"] = to_safetensors(tensors, metadata={"format": "pt"})
    if declared.normalize_tokens:
        files[f"{paths[1]}/config.json"] = {"module_input_name": _TOKENS, "module_output_name": _TOKENS}
    own = {
        "prompts": dict(declared.prompts),
        "default_prompt_name": declared.default_prompt,
        "truncate_dim": declared.dimensions,
    }
    return files | ({PROMPTS: own} if any(own.values()) else {})


def _sparse_files(declared: SentenceSettings, max_length: int) -> dict[str, Any]:
    """The files of a sparse encoder."""
    activation = next(name for name, logs in _SPLADE_LOGS.items() if logs == declared.logs)
    files = _logits_files("SparseEncoder", "fill-mask", _TOKENS, declared.max_length or max_length, declared)
    pooling = {
        "idx": 1,
        "name": "1",
        "path": "1_SpladePooling",
        "type": "sentence_transformers.sparse_encoder.modules.SpladePooling",
    }
    files[MODULES].append(pooling)
    return files | {
        "1_SpladePooling/config.json": {"pooling_strategy": declared.sparse, "activation_function": activation}
    }


def cross_encoder_files(max_length: int) -> dict[str, Any]:
    """Returns the files that declare a cross-encoder whose one output is log odds, as those of `declaration_files`."""
    files = _logits_files("CrossEncoder", "sequence-classification", "scores", max_length, SentenceSettings())
    files[PROMPTS]["activation_fn"] = f"torch.nn.modules.activation.{SIGMOID}"
    return files


def _logits_files(kind: str, task: str, output: str, max_length: int, declared: SentenceSettings) -> dict[str, Any]:
    """The files of a model of which the logits are used. kind, task, output: names of theirs."""
    transformer = "sentence_transformers.base.modules.transformer.Transformer"
    return {
        MODULES: [{"idx": 0, "name": "0", "path": "", "type": transformer}],
        LENGTH: {
            "max_seq_length": max_length,
            "do_lower_case": declared.lower_case,
            "transformer_task": task,
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": output,
        },
        PROMPTS: {
            "model_type": kind,
            "prompts": dict(declared.prompts),
            "default_prompt_name": declared.default_prompt,
        },
    }


def _configuration(layer: nn.Module) -> dict[str, Any]:
    """The config.json of a module with weights."""
    if not isinstance(layer, Dense):
        return {"dimension": layer.size}
    linear, activation = layer.linear, type(getattr(nn, layer.activation)())
    return {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    } | ({"use_residual": True} if layer.residual is not None else {})


def modules_of(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Returns the modules with the last component of their class, in order."""
    modules = read_json(folder / MODULES, _LIMIT_BYTES)
    if not isinstance(modules, list):
        raise ModelFolderError(f"{folder / MODULES} is not a list of modules.")
    whole = [module if isinstance(module, dict) else {} for module in modules]
    return [(str(module.get("type", "")).rpartition(".")[2], module) for module in whole]


def _object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; {} without the file."""
    content = read_json(path, _LIMIT_BYTES) if path.is_file() else {}
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path} is not a JSON object.")
    return content


def _pooling(path: Path, has_prompt: bool) -> str:
    config = _object(path)
    chosen = [name for flag, name in _POOLING_FLAGS.items() if config.get(flag)]
    if "pooling_mode" in config:  # since version 6; the flags of older versions do not matter beside it
        named = config["pooling_mode"]
        chosen = list(named) if isinstance(named, list) else [named]
    unknown = [key for key, value in config.items() if key.startswith("pooling_mode_") and value is True]
    unknown = [key for key in unknown if key not in _POOLING_FLAGS and "pooling_mode" not in config]
    chosen = chosen or ["mean"]
    if unknown or not all(name in _POOLING_FLAGS.values() for name in chosen):
        raise ModelFolderError(f"{path} requires a pooling that is not supported; known: {', '.join(POOLINGS)}.")
    if has_prompt and config.get("include_prompt") is False:
        raise ModelFolderError(
            f"{path}: include_prompt is false, so the tokens of a prompt are not pooled, which is not supported: embed "
            f"texts without one (no default_prompt_name in {PROMPTS}, no prompt_name)."
        )
    return "+".join(chosen)


def _splade(path: Path) -> tuple[str, int]:
    """How a SpladePooling combines the weights of the tokens, and the number of its logarithms."""
    config = _object(path)
    strategy, activation = config.get("pooling_strategy", "max"), config.get("activation_function", "relu")
    if strategy not in ("max", "sum") or activation not in _SPLADE_LOGS:
        raise ModelFolderError(
            f"{path}: pooling_strategy is {strategy!r} and activation_function {activation!r}; supported are "
            f"max and sum, and {' and '.join(_SPLADE_LOGS)}."
        )
    return strategy, _SPLADE_LOGS[activation]


def _normalized(path: Path) -> str:
    """Returns what a Normalize module changes."""
    config = _object(path)
    source = config.get("module_input_name") or _RESULT
    if source not in (_TOKENS, _RESULT) or config.get("module_output_name") not in (None, source):
        raise ModelFolderError(
            f"{path} normalizes {source!r} to {config.get('module_output_name')!r}; only {_RESULT} and {_TOKENS}, each "
            "in place, are supported."
        )
    return str(source)


def _prompts(path: Path, own: Mapping[str, Any]) -> tuple[dict[str, str], str | None]:
    """Returns the prompts by name, and the name of the default one or None."""
    prompts, default = own.get("prompts") or {}, own.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(isinstance(text, str | None) for text in prompts.values()):
        raise ModelFolderError(f"{path}: prompts must be an object of texts by name.")
    if default is not None and default not in ("query", "document", *prompts):
        raise ModelFolderError(f"{path}: default_prompt_name is {default!r}, which prompts does not contain.")
    return {name: text or "" for name, text in prompts.items()}, default if default in prompts else None


def _max_length(folder: Path) -> int | None:
    """The maximum sequence length that a folder with a transformer declares, in tokens."""
    path = next((folder / name for name in SENTENCE_CONFIGS if (folder / name).is_file()), folder / LENGTH)
    own, tokenizer = sentence_config(folder), folder / TOKENIZER_CONFIG
    by_input, arguments = _dict(own, "processing_kwargs"), _dict(own, "processor_kwargs", "tokenizer_args")
    found = (
        _whole_number(path, _dict(by_input, "common"), "max_length"),
        _whole_number(path, _dict(by_input, "text"), "max_length"),
        _whole_number(path, arguments, "model_max_length"),
        _whole_number(path, own, "max_seq_length"),
        _whole_number(tokenizer, _object(tokenizer), "model_max_length"),
        _whole_number(tokenizer, _object(tokenizer), "max_len"),  # its name before transformers 3
    )
    return next((length if length < MOST_TOKENS else None for length in found if length is not None), None)


def _dict(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The first of some objects in a JSON object; {} without one."""
    return next((values[name] for name in names if isinstance(values.get(name), dict)), {})


def _whole_number(path: Path, values: Mapping[str, Any], name: str) -> int | None:
    """A positive number of a JSON object, or None. Raises ModelFolderError for another value."""
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1 or value != int(value):
        raise ModelFolderError(f"{path}: {name} is {value!r}; it must be a positive whole number.")
    return int(value)
