"""GraphModel: a model that an exported graph computes, used like any other model.

Tokenization, sorting, pooling, windows and decoding stay those of the library; only the network is another's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
from torch import Tensor

from ..core.errors import InputError, MaskwrightError, ModelFolderError
from ..core.storage import EXPORTED, FACTS, fix_for, read_facts, verify_sealed
from ..data.batch import Batch, order_by_length
from ..hub.assemble import LoadReport
from ..hub.config_file import read_config
from ..hub.folders import target_tokenizer
from ..hub.sentence import MODULES, declared_by, projection_of
from ..models.config import ModelConfig
from ..models.decoding.translation import check_max_new_tokens, start_token
from ..models.encoder_decoder import EncoderDecoder
from ..models.heads import LABELED_HEADS, ChoiceHead, SpanHead
from ..models.model import Model
from ..models.padded import ModelOutput, PaddedRows
from ..models.pretraining_heads import MaskedLanguageModelHead, NextSentenceHead, PretrainingHead
from ..models.transformer import Encoded
from ..text.tokenizers.tokenizer import Tokenizer
from ..text.tokenizers.tokenizer_files import MAIN_FILES
from .network import LOGITS, POOLED, STATES
from .runtimes import (
    DECODER,
    ENCODER,
    MEMORY,
    PRESENT,
    CachedGraph,
    Rows,
    Runtime,
    encode_sources,
    is_cached,
    open_runtimes,
    pad_left,
    pad_rows,
    rectangle,
)

Read = Callable[[list[int]], tuple[CachedGraph, np.ndarray]]

# -- Incremental decoding with exported graphs that have a cache; implements `rules.Decoder` -------------------------
#
# Rows do not affect each other. A dynamic int8 graph scales the activations of a batch together, so each row runs
# alone.


def is_dynamic(spec: Mapping[str, Any]) -> bool:
    """Whether a graph scales the activations of a batch together. spec: the entry "export" of maskwright.json."""
    return bool(spec.get("quantization", {}).get("activations") == "dynamic")


class GraphDecoder:
    """Decodes rows with a cached graph, or with one for each row.

    spec: the entry "export" of maskwright.json; read: starts a graph for some of the rows: the graph, and float32
    logits [rows, ..., vocab]; start_id: the first token of every target.
    """

    def __init__(self, spec: Mapping[str, Any], num_rows: int, read: Read, start_id: int = 0) -> None:
        self._alone, self._num_rows, self._read, self.start_id = is_dynamic(spec), num_rows, read, start_id
        self._graphs: list[CachedGraph] = []

    def start(self) -> Tensor:
        """Reads what the rows begin with: float32 logits [rows, vocab] of the next token."""
        rows = list(range(self._num_rows))
        started = [self._read(own) for own in ([[row] for row in rows] if self._alone else [rows])]
        self._graphs = [graph for graph, _ in started]
        return _last([logits for _, logits in started])

    def step(self, tokens: Tensor) -> Tensor:
        """Appends one token to each row, int64 [rows]: float32 logits [rows, vocab] of the next token."""
        ids = tokens.cpu().numpy()[:, None]
        parts = ids[:, None] if self._alone else ids[None]  # of each graph [rows, 1]
        return _last([graph.add(part) for graph, part in zip(self._graphs, parts, strict=True)])

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        """Keeps only `rows`, int64 [kept], in that order; rows may repeat. same_texts: not needed here."""
        self._num_rows = len(rows)
        if self._alone:
            self._graphs = [copy.copy(self._graphs[row]) for row in rows.tolist()]
        else:
            self._graphs[0].keep(rows.cpu().numpy())


class CausalGraphDecoder(GraphDecoder):
    """Decodes with the graph of a causal language model.

    prompts: token IDs of each row; room: context length in tokens. A row that fills it continues with the last half of
    its tokens in a new window, as in `CausalDecoder`.
    """

    def __init__(self, runtime: Runtime, spec: Mapping[str, Any], prompts: Sequence[Sequence[int]], room: int) -> None:
        def read(rows: list[int]) -> tuple[CachedGraph, np.ndarray]:
            graph = CachedGraph(runtime, spec["graphs"]["model"], len(rows))
            pad_id = int(spec["preprocessing"]["padding"]["id"])
            return graph, graph.add(*pad_left([self._windows[row] for row in rows], pad_id))

        super().__init__(spec, len(prompts), read)
        self._room, self._windows = room, [list(prompt)[-room:] for prompt in prompts]

    def step(self, tokens: Tensor) -> Tensor:
        for window, token in zip(self._windows, tokens.tolist(), strict=True):
            window.append(token)
        if max(map(len, self._windows)) <= self._room:
            return super().step(tokens)
        kept = max(self._room // 2, 1)
        self._windows = [one[-kept:] if len(one) > self._room else one for one in self._windows]
        return self.start()

    def keep(self, rows: Tensor, *, same_texts: bool = False) -> None:
        super().keep(rows)
        self._windows = [list(self._windows[row]) for row in rows.tolist()]


def _last(logits: Sequence[np.ndarray]) -> Tensor:
    """Those of the last token. logits: of each graph, float32 [rows, new, vocab]."""
    return torch.from_numpy(np.concatenate([one[:, -1] for one in logits]))


# -- Models ----------------------------------------------------------------------------------------------------------


MOST_PADDING = 1.1  # tokens of a padded batch, padding included, per token of its texts
USE_THE_MODEL = "use the model that it was exported from."


class _WithoutWeights:
    """What models that graphs compute share."""

    config: ModelConfig

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: nothing in it changes, and a session of a runtime cannot be copied."""
        return self

    @property
    def word_embeddings(self) -> Tensor:
        """No rows, on the CPU: float32 [0, size]."""
        return torch.empty(0, self.config.table_size)


class GraphModel(_WithoutWeights, Model):
    """A model without weights: a graph gives its outputs.

    Its hidden states are those of the last layer, if the graph was exported without a head. What needs weights, such as
    training, other layers or attention, raises ModelFolderError.

    Attributes:
        runtime: the opened graph.
    """

    def __init__(
        self,
        config: ModelConfig,
        head_name: str | None,
        labels: Sequence[str] | None,
        problem_type: str | None,
        spec: Mapping[str, Any],
        runtime: Runtime,
    ) -> None:
        """spec: the entry "export" of maskwright.json."""
        outputs = spec["graphs"]["model"]["outputs"]
        axes = {one["name"]: one["axes"] for one in outputs if not one["name"].startswith(PRESENT)}
        with_pooler = None if head_name is not None else POOLED in axes
        with torch.device("meta"):  # modules without memory, which know their sizes
            super().__init__(config, head_name, labels=labels, problem_type=problem_type, with_pooler=with_pooler)
        self.requires_grad_(False)
        self.runtime, self._spec, self._axes = runtime, spec, axes
        self.graph_precision, self.has_states = str(spec["precision"]), STATES in axes
        self.generates = is_cached(spec)

    # -- packed ----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def run(self, batch: Batch) -> dict[str, Tensor]:
        """Returns the outputs of the graph for a pack, by name: float32 [tokens, ...] or [sequences, ...]."""
        self.check(batch)
        bounds = batch.cu_seqlens.tolist()
        ids = np.split(batch.input_ids.numpy(), bounds[1:-1])
        types = None if batch.token_type_ids is None else np.split(batch.token_type_ids.numpy(), bounds[1:-1])
        found: dict[str, list[np.ndarray]] = {name: [np.zeros(0)] * len(batch) for name in self._axes}
        for chosen in chunks_of(self._spec, batch.lengths):
            own = [ids[row] for row in chosen]
            for name, values in self._run_rows(own, None if types is None else [types[row] for row in chosen]).items():
                for row, value in zip(chosen, values, strict=True):
                    found[name][row] = value[: len(ids[row])] if self._is_by_token(name) else value[None]
        return {name: torch.from_numpy(np.concatenate([self._none(name), *rows])) for name, rows in found.items()}

    def _run_rows(self, ids: Sequence[np.ndarray], types: Sequence[np.ndarray] | None) -> dict[str, np.ndarray]:
        """The outputs of the graph for a batch, by name: [rows, longest row or nothing, ...]."""
        if self.generates:  # no token depends on the later ones, so that padding at the right needs no mask
            graph = CachedGraph(self.runtime, self._spec["graphs"]["model"], len(ids))
            return {LOGITS: graph.add(rectangle(ids, 0)[0])}
        choices = int(isinstance(self.head, ChoiceHead))  # each as a question with one choice
        return self.runtime.run(pad_rows(self._spec, Rows(ids, types, choices)))

    def own_decoder(self, prompts: Sequence[Sequence[int]], window: int | None) -> CausalGraphDecoder:
        """See `decoding.causal.HasDecoder`."""
        return CausalGraphDecoder(self.runtime, self._spec, prompts, window or self.config.max_position_embeddings)

    def encode(
        self, batch: Batch, *, hidden_states: bool = False, attentions: bool = False, row_length: int | None = None
    ) -> Encoded:
        """The last layer; see Model. Raises ModelFolderError for other layers, attention, and a graph with a head."""
        if hidden_states or attentions:
            self._refuse("gives the last layer only, without attention")
        if not self.has_states:
            self._refuse(f"gives {', '.join(self._axes)} and no hidden states", "export it with --head none, or ")
        return Encoded(self.run(batch)[STATES])

    def one_pass(self, batch: Batch) -> Tensor:
        return next(iter(self.run(batch).values()))

    def logits(self, batch: Batch) -> Tensor:
        if isinstance(self.head, SpanHead):
            return torch.stack(list(self.run(batch).values()), dim=-1)
        if LOGITS not in self._axes or isinstance(self.head, MaskedLanguageModelHead):
            return super().logits(batch)
        return self.run(batch)[LOGITS]

    def token_logits(self, batch: Batch, where: Tensor) -> Tensor:
        if not isinstance(self.head, MaskedLanguageModelHead | PretrainingHead):
            return super().token_logits(batch, where)
        return next(iter(self.run(batch).values()))[where]

    def pair_logits(self, batch: Batch) -> Tensor:
        if not isinstance(self.head, NextSentenceHead | PretrainingHead):
            return super().pair_logits(batch)
        return list(self.run(batch).values())[-1]

    def _is_by_token(self, name: str) -> bool:
        return "sequence" in self._axes[name]

    def _none(self, name: str) -> np.ndarray:
        """No row of an output: float32 [0, ...]."""
        sizes = [1 if axis == "choices" else axis for axis in self._axes[name][1:] if axis != "sequence"]
        return np.zeros((0, *sizes), dtype=np.float32)

    def _refuse(self, reason: str, instead: str = "") -> NoReturn:
        raise ModelFolderError(f"This exported graph {reason}: {instead}{USE_THE_MODEL}")

    # -- padded ----------------------------------------------------------------------------------------------

    def forward(  # type: ignore[override]  # no positions, labels, hidden states and attentions
        self, input_ids: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None, **more: Any
    ) -> ModelOutput:
        """See Model. `last_hidden_state` is empty for a graph with a head."""
        if more.pop("output_hidden_states", False) or more.pop("output_attentions", False):
            self._refuse("gives the last layer only, without attention")
        if any(one is not None and one is not False for one in more.values()):
            raise InputError("An exported graph takes no position_ids and has no loss: remove position_ids and labels.")
        shape = input_ids.shape
        mask, types = (None if one is None else one.reshape(-1, shape[-1]) for one in (attention_mask, token_type_ids))
        is_choice = isinstance(self.head, ChoiceHead) and len(shape) == 3
        ids = input_ids.flatten(0, 1) if is_choice else input_ids
        rows = PaddedRows(ids, mask, types, depends_on_padding=True)
        if rows.batch.places is not None:
            raise InputError("An exported graph takes padding at the right only: remove that at the left or between.")
        found = {
            name: rows.spread_tokens(values) if self._is_by_token(name) else rows.spread_sequences(values)
            for name, values in self.run(rows.batch).items()
        }
        if is_choice:
            found = {name: values.reshape(shape[:2]) for name, values in found.items()}
        known = {field.name for field in fields(ModelOutput)}
        named: dict[str, Any] = {name: values for name, values in found.items() if name in known}
        return ModelOutput(**{STATES: torch.zeros(*shape, 0)} | named)


class GraphTranslator(_WithoutWeights, EncoderDecoder):
    """An encoder-decoder without weights: two graphs give the states of the encoder, and the next tokens.

    Attributes:
        runtimes: the opened graphs, by name.
    """

    def __init__(self, config: ModelConfig, spec: Mapping[str, Any], runtimes: Mapping[str, Runtime]) -> None:
        """spec: the entry "export" of maskwright.json."""
        with torch.device("meta"):
            super().__init__(config, spec["head"])
        self.requires_grad_(False)
        self.runtimes, self._spec = runtimes, spec
        self.graph_precision, self.has_states, self.generates = str(spec["precision"]), False, True

    def encode(
        self, batch: Batch, *, hidden_states: bool = False, attentions: bool = False, row_length: int | None = None
    ) -> Encoded:
        """The last layer; see Model. Raises ModelFolderError for other layers and attention."""
        if hidden_states or attentions:
            raise ModelFolderError(f"This exported graph gives the last layer only, without attention: {USE_THE_MODEL}")
        self.check(batch)
        rows = np.split(batch.input_ids.numpy(), batch.cu_seqlens.tolist()[1:-1])
        found = [np.zeros((0, self.config.hidden_size), np.float32)] * len(rows)
        for chosen in chunks_of(self._spec, batch.lengths):
            states_of = encode_sources(self.runtimes[ENCODER], self._spec, [rows[row] for row in chosen])[1][MEMORY]
            for row, states in zip(chosen, states_of, strict=True):
                found[row] = states[: len(rows[row])]
        return Encoded(torch.from_numpy(np.concatenate([np.zeros((0, self.config.hidden_size), np.float32), *found])))

    def decode(self, *inputs: Any, **settings: Any) -> NoReturn:
        """Raises ModelFolderError: whole targets, for training and for attention, need weights."""
        raise ModelFolderError(f"This exported graph translates and does nothing else: {USE_THE_MODEL}")

    def own_target_decoder(self, source: Batch, max_new_tokens: int) -> GraphDecoder:
        """See EncoderDecoder. Raises InputError as `TargetDecoder`."""
        self.check(source)
        check_max_new_tokens(self, max_new_tokens)
        start = start_token(self)
        sources = np.split(source.input_ids.numpy(), source.cu_seqlens.tolist()[1:-1])

        def read(rows: list[int]) -> tuple[CachedGraph, np.ndarray]:
            fixed = encode_sources(self.runtimes[ENCODER], self._spec, [sources[row] for row in rows])[1]
            graph = CachedGraph(self.runtimes[DECODER], self._spec["graphs"][DECODER], len(rows), fixed)
            return graph, graph.add(np.full((len(rows), 1), start))

        return GraphDecoder(self._spec, len(sources), read, start)


def chunks_of(spec: Mapping[str, Any], lengths: Sequence[int]) -> Iterator[list[int]]:
    """Splits sequences, shortest first, into batches with little padding.

    A dynamic graph scales the activations of a batch together: each is alone, so as not to depend on its neighbors.
    """
    alone = is_dynamic(spec)
    chunk: list[int] = []
    tokens = 0
    for row in order_by_length(lengths).tolist():
        padded = (len(chunk) + 1) * lengths[row]
        if chunk and (alone or padded > MOST_PADDING * (tokens + lengths[row])):
            yield chunk
            chunk, tokens = [], 0
        chunk.append(row)
        tokens += lengths[row]
    if chunk:
        yield chunk


def load_exported(folder: Path, root: Path) -> tuple[Model, LoadReport]:
    """Opens an exported folder for inference; root: folder that links of its files may point into.

    Raises:
        CorruptFileError: a file differs from the manifest.
        ModelFolderError: the folder has no manifest, or its graph is not usable.
        MissingExtraError: its runtime needs the extra `export`.
    """
    if not verify_sealed(folder, root=root):
        raise ModelFolderError(f"{folder} has no manifest, so a changed graph cannot be detected. {fix_for(folder)}")
    facts = read_facts(folder)
    spec, stored = facts[EXPORTED], read_config(folder, lambda: ())
    try:
        config = replace(stored.config, max_position_embeddings=int(spec["longest"]))
        runtimes = open_runtimes(folder, spec, torch.get_num_threads())
        labels = stored.labels if spec["head"] in LABELED_HEADS else None
        model: Model
        if DECODER in runtimes:
            model = GraphTranslator(config, spec, runtimes)
            model.target_tokenizer = target_tokenizer(folder, config.target_vocab_size)
        else:
            model = GraphModel(config, spec["head"], labels, stored.problem_type, spec, runtimes["model"])
        model.trained_length = int(spec["max_length"])
    except MaskwrightError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFolderError(f"{folder / FACTS} does not describe its graph ({error!r}). {fix_for(folder)}") from None
    if any((folder / name).is_file() for name in MAIN_FILES):
        model.tokenizer = Tokenizer.load(folder)
    if spec["head"] is None and (folder / MODULES).is_file():
        model.sentence, model.projection = declared_by(folder), projection_of(folder, root)
    model.task_name = facts.get("task")
    return model.train(False), LoadReport([], [], [])
