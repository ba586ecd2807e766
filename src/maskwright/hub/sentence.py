"""Reads and writes the embedding settings of sentence-transformers folders, of its versions 2 to 6.

`modules.json` lists the modules: the transformer (in the folder itself or a subfolder), a pooling, and optionally dense
layers and layer norms of the pooled vector, and normalization to length 1, of the tokens before pooling or of the
result. A model of late interaction has dense layers and normalization of the tokens, and no pooling. A router has the
modules of queries and of the texts that are searched. Where several places say the same thing, the first one holds, as
in sentence-transformers 6.2:

- maximum sequence length: in `sentence_bert_config.json` (or an older name, such as `sentence_roberta_config.json`)
  `processing_kwargs` (`max_length` of `common`, then of `text`), `model_max_length` of `processor_kwargs` or
  `tokenizer_args`, `max_seq_length`; then `model_max_length` or `max_len` of `tokenizer_config.json`. More than the
  model takes is cut to that.
- lower case: a tokenizer that lower-cases by itself, then `do_lower_case` of `sentence_bert_config.json`; see
  `text.tokenizers.tokenizer_files`.
- dimensions: what the caller asks for, then `truncate_dim` of `config_sentence_transformers.json`: the first numbers of
  the embedding that the modules give, which is not normalized again unless the caller asks for it.
- prompt: for queries `query`, for texts that are searched `document`, `passage` or `corpus`, else the one that
  `default_prompt_name` of `config_sentence_transformers.json` names, before every text.
- late interaction: lengths and query expansion in `sentence_bert_config.json`, then, as PyLate writes them, in
  `config_sentence_transformers.json`; the tokens that are skipped in the folder of `MultiVectorMask`, then there.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as to_safetensors
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from torch import nn

from ..core.errors import ModelFolderError
from ..core.storage import MODEL_CONFIG, inside, read_json
from ..models.model import ROLES, LateInteraction, SentenceSettings
from ..models.pooling import ACTIVATIONS, POOLINGS, Dense, Projection, UnitLength, VectorNorm
from ..text.tokenizers.tokenizer import Tokenizer
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
_LATE = ("MultiVectorEncoder", "ColBERT")  # model_type of late interaction, here and in PyLate
_TYPES = (None, "SentenceTransformer", "CrossEncoder", "SparseEncoder", *_LATE)
COLBERT_PROJECTION = "linear.weight"  # in the folders of ColBERT's own program
_MASK, _ROUTER = "MultiVectorMask", "Router"
_PYLATE = (
    *("query_length", "document_length", "query_prefix", "document_prefix", "skiplist_words"),
    *("do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens"),
)
_NETWORKS = ("Transformer", "MLMTransformer")
_NO_EFFECT = (*_NETWORKS, "Dropout")  # modules without a setting for inference
_SPLADE_LOGS = {"relu": 1, "log1p_relu": 2}
_POOLED = ("Pooling", "StaticEmbedding")  # modules that make one vector of a text; the mean in the second one
_PROJECTIONS = ("Dense", "LayerNorm")  # modules of the pooled vector, with weights
MOST_TOKENS = 1 << 31  # transformers writes 10**30 for "no limit"


def declared_by(folder: Path | str, role: str | None = None) -> SentenceSettings:
    """Read the embedding settings of a folder; defaults if it has none. role: see `modules_of`.

    Raises ModelFolderError for an unsupported pooling or module, and for a setting of another type.
    """
    folder = Path(folder)
    if not is_declared(folder):
        return SentenceSettings()
    own, network = _own(folder), network_folder(folder, role)
    if own.get("model_type") not in _TYPES:
        raise ModelFolderError(
            f"{folder / PROMPTS}: model_type is {own['model_type']!r}; supported are {', '.join(filter(None, _TYPES))}."
        )
    prompts, default = _prompts(folder / PROMPTS, own)
    include_prompt = True
    modules = modules_of(folder, role)
    kinds = [kind for kind, _ in modules]
    if own.get("model_type") in _LATE:
        known = (*_NO_EFFECT, *_PROJECTIONS, _MASK, "Normalize")
        if unknown := next((kind for kind in kinds if kind not in known), None):
            raise ModelFolderError(f"{folder / MODULES} lists the module '{unknown}', which is not supported.")
        is_unit = own["model_type"] == "ColBERT" or "Normalize" in kinds[_projected(kinds)[1] :]
        return SentenceSettings(
            max_length=_max_length(network),
            normalize_tokens=is_unit,
            prompts=prompts,
            default_prompt=default,
            lower_case=sentence_config(network).get("do_lower_case") is True,
            late=_late(folder, own, network, dict(modules).get(_MASK)),
        )
    pooled_by = max((index for index, kind in enumerate(kinds) if kind in _POOLED), default=-1)
    projected_by = max((index for index, kind in enumerate(kinds) if kind in _PROJECTIONS), default=-1)
    pooling, normalize, normalize_tokens, sparse, logs = "mean", False, False, None, 1
    for index, (kind, module) in enumerate(modules):
        path = inside(folder, str(module.get("path") or "")) / "config.json"
        if index == pooled_by and kind == "Pooling":
            pooling, include_prompt = _pooling(path)
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
        include_prompt,
    )


def _late(folder: Path, own: dict[str, Any], network: Path, mask: Mapping[str, Any] | None) -> LateInteraction:
    """The settings of late interaction. own: of the folder; mask: the module that says which tokens count, or None."""
    path, stored = folder / PROMPTS, sentence_config(network)
    masked = {} if mask is None else _object(inside(folder, str(mask.get("path") or "")) / "config.json")
    lengths = {name: _whole_number(path, own | stored, name) for name in ("query_length", "document_length")}
    expansion = _dict(own | stored, "query_expansion")
    is_pylate = "query_expansion" not in own | stored and any(name in own for name in _PYLATE)
    if is_pylate and own.get("do_query_expansion") is not False:
        attends = own.get("attend_to_expansion_tokens", own.get("attend_to_mask_tokens"))
        expansion = {"strategy": "fixed", "attend": bool(attends), "length": lengths["query_length"] or 32}
    fill_to = _whole_number(path, expansion, "length")
    skipped = masked.get("skiplist_words", own.get("skiplist_words"))
    if skipped is None:
        skipped = list(string.punctuation) if own.get("model_type") == "ColBERT" else []
    only = masked.get("keep_only_token_ids") or (mask is None and expansion and own.get("model_type") != "ColBERT")
    if (
        only
        or not isinstance(skipped, list)
        or (expansion and (fill_to is None or expansion.get("strategy") not in ("fixed", "min")))
    ):
        raise ModelFolderError(
            f"{folder}: supported are a query_expansion 'fixed' or 'min' of a length, with a {_MASK} that has no "
            "keep_only_token_ids, and skiplist_words in a list."
        )
    if fill_to is not None and (lengths["query_length"] is not None or expansion["strategy"] == "fixed"):
        lengths["query_length"] = max(fill_to, (lengths["query_length"] or 0) if expansion["strategy"] == "min" else 0)
    roles = masked.get("skiplist_tasks") or ["document"]
    return LateInteraction(
        **lengths,
        fill_to=fill_to,
        fill_with=None if expansion.get("token") is None else str(expansion["token"]),
        attends=expansion.get("attend") is True,
        skipped=tuple(map(str, skipped)),
        skipped_of=tuple([roles] if isinstance(roles, str) else map(str, roles)),
        mean=own.get("similarity_fn_name") == "meanmaxsim",
    )


def is_declared(folder: Path) -> bool:
    """Whether a folder says how its embeddings are made: one of sentence-transformers, PyLate or ColBERT."""
    return (folder / MODULES).is_file() or _is_colbert(folder)


def _is_colbert(folder: Path) -> bool:
    """Whether it is a folder of ColBERT's own program, whose projection is among the weights of the network."""
    if (folder / MODULES).is_file() or not (folder / MODEL_CONFIG).is_file():
        return False
    config = read_json(folder / MODEL_CONFIG)
    return isinstance(config, dict) and config.get("architectures") == ["HF_ColBERT"]


def _own(folder: Path) -> dict[str, Any]:
    """The settings of a folder; those of ColBERT's own program under the names of PyLate."""
    if not _is_colbert(folder):
        return _object(folder / PROMPTS)
    told = _object(folder / "artifact.metadata")
    return {
        "model_type": "ColBERT",
        "query_prefix": f"{told.get('query_token_id') or '[unused0]'} ",
        "document_prefix": f"{told.get('doc_token_id') or '[unused1]'} ",
        "query_length": told.get("query_maxlen"),
        "document_length": told.get("doc_maxlen"),
        "attend_to_mask_tokens": told.get("attend_to_mask_tokens"),
        "skiplist_words": None if told.get("mask_punctuation", True) else [],
    }


def keep_marks_whole(folder: Path, tokenizer: Tokenizer) -> None:
    """Makes the prefixes of a PyLate folder ("[Q] ", "[unused0]") single tokens wherever they are in a text."""
    own, backend = _own(folder), tokenizer.backend
    for value in (own.get("query_prefix"), own.get("document_prefix")):
        words = str(value or "").split(maxsplit=1)
        mark = next((one for one in (str(value), *words[:1]) if words and tokenizer.token_to_id(one) is not None), None)
        if mark is None or not isinstance(backend, Backend):
            continue
        if backend.encode(mark, add_special_tokens=False).tokens != [mark]:
            backend.add_special_tokens([AddedToken(mark, normalized=False, special=True)])


def _projected(kinds: Sequence[str]) -> tuple[int, int]:
    """The first of the modules of a projection and the one after its last: those after the pooling, or the network."""
    begin = 1 + max((index for index, kind in enumerate(kinds) if kind in (*_POOLED, *_NETWORKS)), default=-1)
    return begin, 1 + max((index for index, kind in enumerate(kinds) if kind in _PROJECTIONS), default=begin - 1)


def projection_of(folder: Path, root: Path | None = None, role: str | None = None) -> Projection | None:
    """Returns the modules after the pooling with their weights; None without any but a last normalization.

    root: as in `Weights`; role: see `modules_of`. Raises ModelFolderError for an unsupported module or activation, and
    for other weights than its config.json describes.
    """
    if _is_colbert(folder):
        with Weights(folder, root) as stored:
            shape = stored.shapes.get(COLBERT_PROJECTION, ())
            if len(shape) != 2:
                raise ModelFolderError(f"{folder} has no {COLBERT_PROJECTION}, the projection of a ColBERT model.")
            size, inputs = shape
            layer = Dense(inputs, size, bias=False, activation=IDENTITY, residual=False)
            layer.linear.weight = nn.Parameter(stored.read(COLBERT_PROJECTION).float())
        return Projection(layer)
    modules = modules_of(folder, role)
    kinds = [kind for kind, _ in modules]
    if not set(kinds) & set(_PROJECTIONS):
        return None
    begin, end = _projected(kinds)
    changed = _TOKENS if _own(folder).get("model_type") in _LATE else _RESULT
    layers: list[nn.Module] = []
    for kind, module in modules[begin:end]:
        own = inside(folder, str(module.get("path") or ""))
        if kind == "Normalize" and _normalized(own / "config.json") == changed:
            layers.append(UnitLength())
        elif kind in _PROJECTIONS:
            layers.append(_filled(_layer(kind, own / "config.json", changed), own, root))
    return Projection(*layers)


def _layer(kind: str, path: Path, changed: str) -> nn.Module:
    """Returns an untrained module of a configuration. changed: what it changes."""
    config = _object(path)
    if kind == "LayerNorm":
        return VectorNorm(_needed(path, config, "dimension"))
    source, target = (config.get(f"module_{side}_name") for side in ("input", "output"))
    if source not in (None, changed) or target not in (None, changed):
        raise ModelFolderError(f"{path} changes {source!r} to {target!r}; only {changed}, in place, is supported.")
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
    """Returns the prompts of a folder by name: what can be put before a text, on request."""
    prompts = _object(folder / PROMPTS).get("prompts")
    return {str(name): text for name, text in prompts.items() if isinstance(text, str)} if prompts else {}


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


def network_folder(folder: Path, role: str | None = None) -> Path:
    """Returns the folder with the transformer: the folder itself, or the subfolder listed in modules.json.

    role: see `modules_of`. Raises InputError for a path outside the folder.
    """
    paths = [str(module.get("path") or "") for kind, module in modules_of(folder, role) if kind in _NETWORKS]
    return inside(folder, paths[0]) if paths and paths[0] else folder


def module_folders(folder: Path) -> list[Path]:
    """Returns the subfolders listed in modules.json, one for each module with its own files.

    Raises InputError for a path outside the folder.
    """
    paths = [str(module.get("path") or "") for _, module in modules_of(folder)]
    return [inside(folder, path) for path in paths if path]


def declaration_files(
    declared: SentenceSettings, hidden_size: int, max_length: int, projection: Projection | None = None
) -> dict[str, Any]:
    """Returns the files, as relative path -> JSON content or bytes, that `declared_by` and `projection_of` read.

    hidden_size: of the model; max_length: maximum sequence length in tokens.
    """
    length: dict[str, Any] = {
        "max_seq_length": declared.max_length or max_length,
        "do_lower_case": declared.lower_case,
    }
    own: dict[str, Any] = {
        "prompts": dict(declared.prompts),
        "default_prompt_name": declared.default_prompt,
        "truncate_dim": declared.dimensions,
    }
    tokens = {"module_input_name": _TOKENS, "module_output_name": _TOKENS}
    of_tokens: list[_Step] = [("Normalize", tokens, None)] if declared.normalize_tokens else []
    if declared.sparse is not None:
        activation = next(name for name, logs in _SPLADE_LOGS.items() if logs == declared.logs)
        pooling = {"pooling_strategy": declared.sparse, "activation_function": activation}
        steps: list[_Step] = [("SpladePooling", pooling, None)]
        text = {"text": {"method": "forward", "method_output_name": "logits"}}
        length |= {"transformer_task": "fill-mask", "modality_config": text, "module_output_name": _TOKENS}
        own["model_type"] = "SparseEncoder"
    elif declared.late is not None:
        late = declared.late
        mask = {"skiplist_words": list(late.skipped), "skiplist_tasks": list(late.skipped_of)}
        steps = [*(_step(layer, tokens) for layer in projection or ()), (_MASK, mask, None), *of_tokens]
        length |= {"query_length": late.query_length, "document_length": late.document_length}
        if late.fill_to is not None:
            fill = {"attend": late.attends, "token": late.fill_with, "length": late.fill_to}
            strategy = "fixed" if late.query_length == late.fill_to else "min"
            length["query_expansion"] = {"strategy": strategy, **fill}
        length = {name: value for name, value in length.items() if value is not None}
        own |= {"model_type": _LATE[0], "similarity_fn_name": "meanmaxsim" if late.mean else "maxsim"}
    else:
        poolings = declared.pooling.split("+")
        flags: dict[str, Any] = {flag: name in poolings for flag, name in _POOLING_FLAGS.items()}
        if poolings != [name for name in _POOLING_FLAGS.values() if name in poolings]:
            flags = {"pooling_mode": poolings}  # in another order, which only version 6 knows
        flags |= {} if declared.include_prompt else {"include_prompt": False}
        steps = [*of_tokens, ("Pooling", {"word_embedding_dimension": hidden_size, **flags}, None)]
        steps += [_step(layer, {}) for layer in projection or ()]
        steps += [("Normalize", {}, None)] if declared.normalize else []
    kinds = ["Transformer", *(kind for kind, _, _ in steps)]
    paths = ["", *(f"{index}_{kind}" for index, kind in enumerate(kinds[1:], start=1))]
    files: dict[str, Any] = {LENGTH: length} | ({PROMPTS: own} if any(own.values()) else {})
    files[MODULES] = [
        {
            "idx": index,
            "name": str(index),
            "path": path,
            "type": f"sentence_transformers.{_PLACES.get(kind, 'models')}.{kind}",
        }
        for index, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    for path, (_, config, layer) in zip(paths[1:], steps, strict=True):
        if config:
            files[f"{path}/config.json"] = config
        if layer is not None:
            tensors = {name: one.detach().float().cpu().contiguous() for name, one in layer.named_parameters()}
            files[f"{path}/{WEIGHTS}"] = to_safetensors(tensors, metadata={"format": "pt"})
    return files


def cross_encoder_files(max_length: int) -> dict[str, Any]:
    """Returns the files that declare a cross-encoder whose one output is log odds, as those of `declaration_files`."""
    transformer = "sentence_transformers.base.modules.transformer.Transformer"
    return {
        MODULES: [{"idx": 0, "name": "0", "path": "", "type": transformer}],
        LENGTH: {
            "max_seq_length": max_length,
            "transformer_task": "sequence-classification",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
        },
        PROMPTS: {"model_type": "CrossEncoder", "activation_fn": f"torch.nn.modules.activation.{SIGMOID}"},
    }


_Step = tuple[str, dict[str, Any], nn.Module | None]  # a module: kind, config.json, and the layer with its weights
_PLACES = {"SpladePooling": "sparse_encoder.modules", _MASK: "multi_vector_encoder.modules"}  # else: models


def _step(layer: nn.Module, places: dict[str, Any]) -> _Step:
    """A layer of a projection. places: names of what it reads and writes."""
    if isinstance(layer, UnitLength):
        return "Normalize", {**places}, None
    if not isinstance(layer, Dense):
        return "LayerNorm", {"dimension": layer.size}, layer
    linear, activation = layer.linear, type(getattr(nn, layer.activation)())
    config = {
        "in_features": linear.in_features,
        "out_features": linear.out_features,
        "bias": linear.bias is not None,
        "activation_function": f"{activation.__module__}.{activation.__name__}",
    }
    return "Dense", config | places | ({"use_residual": True} if layer.residual is not None else {}), layer


def modules_of(folder: Path, role: str | None = None) -> list[tuple[str, dict[str, Any]]]:
    """Returns the modules with the last component of their class, in order; none without modules.json.

    A router is replaced by its modules for `role`.

    role: "query", "document", or None for neither.
    """
    modules = read_json(folder / MODULES, _LIMIT_BYTES) if (folder / MODULES).is_file() else []
    if not isinstance(modules, list):
        raise ModelFolderError(f"{folder / MODULES} is not a list of modules.")
    whole = [module if isinstance(module, dict) else {} for module in modules]
    found: list[tuple[str, dict[str, Any]]] = []
    for module in whole:
        kind = str(module.get("type", "")).rpartition(".")[2]
        found += _routed(folder, str(module.get("path") or ""), role) if kind == _ROUTER else [(kind, module)]
    return found


def _routed(folder: Path, path: str, role: str | None) -> list[tuple[str, dict[str, Any]]]:
    """The modules of a router for texts of a role, as of `modules_of`. path: its folder in `folder`."""
    own = inside(folder, path) if path else folder
    file = next((own / name for name in ("router_config.json", MODEL_CONFIG) if (own / name).is_file()), own)
    config = _object(file)
    types, structure, given = (_dict(config, name) for name in ("types", "structure", "parameters"))
    mapped = _dict(given, "route_mappings")
    rules = [mapped.get(f"({task}, {kind})") for task in (repr(role), None) for kind in ("'text'", None)]
    names = [*rules, role, "text", given.get("default_route"), *structure]
    ids = structure.get(next((name for name in names if isinstance(name, str) and name in structure), ""))
    if not isinstance(ids, list) or not all(isinstance(types.get(str(one)), str) for one in ids):
        raise ModelFolderError(f"{file} has no list of modules with their types for each route.")
    named = {one: f"{path}/{one}".lstrip("/") for one in map(str, ids)}
    return [(types[one].rpartition(".")[2], {"type": types[one], "path": place}) for one, place in named.items()]


def own_roles(folder: Path) -> list[str]:
    """The roles whose modules are others than those of texts without a role."""
    usual = modules_of(folder)
    return [role for role in ROLES if modules_of(folder, role) != usual]


def _object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; {} without the file."""
    content = read_json(path, _LIMIT_BYTES) if path.is_file() else {}
    if not isinstance(content, dict):
        raise ModelFolderError(f"{path} is not a JSON object.")
    return content


def _pooling(path: Path) -> tuple[str, bool]:
    """The poolings, joined, and whether the tokens of a prompt count."""
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
    return "+".join(chosen), config.get("include_prompt") is not False


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
    found = {name: text or "" for name, text in prompts.items()}
    for role, mark in ((one, own.get(f"{one}_prefix")) for one in ROLES if own.get("model_type") in _LATE):
        if isinstance(mark, str):  # in PyLate before the prompt
            found[role] = mark + found.get(role, "").removeprefix(mark)
    return found, default if default in prompts else None


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
