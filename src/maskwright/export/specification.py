"""The entry "export" of maskwright.json: what a program in any language needs to run the graph."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

from ..core import registry
from ..models.heads import ChoiceHead, SequenceClassificationHead, SpanHead, TokenClassificationHead
from ..models.losses import REGRESSION
from ..models.model import Model
from ..models.pretraining_heads import MaskedLanguageModelHead, NextSentenceHead, PretrainingHead, ReplacedTokenHead
from .config import ExportConfig
from .format import Format
from .network import EMBEDDING, POOLED, STATES, PaddedNetwork, Pooling
from .padding import TYPES
from .program import AXES


def specification(
    network: PaddedNetwork,
    config: ExportConfig,
    files: list[str],
    max_length: int,
    longest: int,
    left_out: Sequence[str] = (),
) -> dict[str, Any]:
    """Describes a graph.

    files: its files, the graph first; max_length, longest: usual and greatest sequence length in tokens; left_out:
    products that are not quantized.
    """
    model, axes = network.model, list(AXES[network.rank])
    inputs = [{"name": name, "dtype": "int64", "axes": axes} for name in network.inputs]
    outputs = [{"name": name, "dtype": "float32", "axes": _axes(name, model)} for name in network.outputs]
    found: dict[str, Any] = {
        "format": config.to,
        "precision": config.precision,
        "graphs": {"model": {"file": files[0], "data": files[1:], "inputs": inputs, "outputs": outputs}},
    }
    form: Format = registry.resolve("export_format", config.to)
    conversion = form.conversions.get(config.precision)
    packages = (*form.packages, *(() if conversion is None else conversion.packages))
    if conversion is not None and conversion.facts:
        found["quantization"] = {**conversion.facts, "products_in_float32": list(left_out)}
    return found | {
        **{name: getattr(config, name) for name in form.settings},
        "head": model.head_name,
        "max_length": max_length,
        "longest": longest,
        "preprocessing": _preprocessing(model, TYPES in network.inputs),
        "postprocessing": _postprocessing(model, network.pooling),
        "versions": {name: metadata.version(name) for name in ("maskwright", "torch", *packages)},
    }


def _axes(output: str, model: Model) -> list[str | int]:  # noqa: PLR0911  # one line per kind of output
    """The axes of an output; a number is a fixed size."""
    if output == STATES:
        return ["batch", "sequence", model.config.hidden_size]
    if output in (EMBEDDING, POOLED):
        return ["batch", model.config.hidden_size]
    if output in ("start_logits", "end_logits") or isinstance(model.head, ReplacedTokenHead):
        return ["batch", "sequence"]
    if isinstance(model.head, ChoiceHead):
        return ["batch", "choices"]
    if isinstance(model.head, TokenClassificationHead):
        return ["batch", "sequence", model.num_labels]
    if isinstance(model.head, MaskedLanguageModelHead) or output == "prediction_logits":
        return ["batch", "sequence", model.config.vocab_size]
    if isinstance(model.head, NextSentenceHead | PretrainingHead):
        return ["batch", 2]
    return ["batch", model.num_labels or 1]


def _preprocessing(model: Model, has_types: bool) -> dict[str, Any]:
    tokenizer, pad = model.tokenizer, model.config.pad_token_id
    files = [] if tokenizer is None else list(tokenizer.files())
    own = None if tokenizer is None else tokenizer.pad_id
    types = "0 for the tokens of the first text and its special tokens, 1 for those of the second text of a pair"
    return {
        "tokenizer": "tokenizer.json" if "tokenizer.json" in files else None,
        "tokenizer_files": files,
        "special_tokens": "added by the post-processor of tokenizer.json",
        "truncation": {"max_length": "max_length", "strategy": "longest_first", "side": "right"},
        "padding": {"side": "right", "id": next((one for one in (own, pad) if one is not None), 0)},
        "attention_mask": "1 for tokens, 0 for padding",
        **({"token_type_ids": types} if has_types else {}),
    }


def _postprocessing(model: Model, pooling: Pooling) -> dict[str, Any]:  # noqa: PLR0911  # one per kind of head
    head = model.head
    if head is None:
        method = {"cls": "the vector of the first token", "mean": "the mean of the vectors of all tokens"}
        return {
            "sentence_embedding": {
                "pooling": pooling.method,
                "normalize": pooling.normalize,
                "meaning": f"{method.get(pooling.method, 'the maximum of each dimension over all tokens')}, special "
                f"tokens included, padding excluded{'; scaled to length 1' if pooling.normalize else ''}; done in the "
                "graph",
            }
        }
    if isinstance(head, TokenClassificationHead):
        return {
            "labels": list(model.labels),
            "function": "softmax over the labels",
            "words": "the label of a word is that of its first subword token; special tokens have none",
        }
    if isinstance(head, SpanHead):
        return {
            "function": "softmax of start_logits and of end_logits over the tokens of the sequence, padding excluded",
            "answer": "start <= end, both in the second text, with the greatest sum of logits; the first token at both "
            "ends means no answer",
            "offsets": "character offsets of the tokens from the tokenizer",
        }
    if isinstance(head, ChoiceHead):
        return {"function": "softmax over the choices of a question"}
    if isinstance(head, SequenceClassificationHead):
        if model.problem_type == REGRESSION:
            function = "none: the logits are the predicted numbers"
        elif model.problem_type == "multi_label_classification":
            function = "sigmoid of each label"
        else:
            function = "softmax over the labels"
        return {"labels": list(model.labels), "function": function}
    if isinstance(head, ReplacedTokenHead):
        return {"function": "sigmoid: the probability that a token was replaced"}
    if isinstance(head, NextSentenceHead):
        return {"function": "softmax over 0 (the second text follows) and 1 (it does not)"}
    if isinstance(head, MaskedLanguageModelHead | PretrainingHead):
        return {"function": "softmax over the vocabulary at the positions of the mask token"}
    return {"function": "none: the logits are the reconstruction errors"}
