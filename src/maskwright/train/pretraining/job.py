"""Pre-training as a job of the training loop: batches from token shards, and scores on held-out text."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import nn

from ...core import registry
from ...core.config import check
from ...core.errors import ConfigError, InputError
from ...core.util import cpp_compiler
from ...data.batch import Batch, Deal, everything
from ...data.shards import TextsInMemory, TokenShards
from ...models.config import ModelConfig
from ...models.model import Model
from ...models.transformer import Layer
from ...nn.layers import preserve_generators, seed_generators
from ...objectives.base import Objective
from ...objectives.masked import MASK_RATE
from ...objectives.outcome import LossSums
from ...objectives.selection import make_recipe
from ...text.tokenizers.tokenizer import Tokenizer
from ..loop import LoopSettings, Window, train
from ..steps import Prefetcher

EVALUATION_SEQUENCES = 256

Probe = Callable[[Model], dict[str, float]]


class HeldOut:
    """A fixed set of held-out batches.

    shards, documents: the held-out text; examples and masks are sampled once, from `seed`.
    """

    def __init__(self, shards: TokenShards, documents: np.ndarray, objective: Objective, seed: int, size: int) -> None:
        self.batches = objective.held_out(shards, documents, seed=seed, sequences=size, most=EVALUATION_SEQUENCES)
        if not self.batches:
            raise InputError("The held-out text has no example: its documents are too short for this objective.")
        self.objective = objective
        self.tokens = sum(batch.num_tokens for batch in self.batches)

    @torch.inference_mode()
    def score(self, model: nn.Module, device: torch.device) -> dict[str, float]:
        """Mean losses and accuracies of `model`, which must be in evaluation mode."""
        window = Window()
        for batch in self.batches:
            window.add(self.objective.outcome(model, batch.to(device)))
        return window.means()


class PretrainJob:
    """Supplies batches to the loop. One step is `accumulation` micro-batches of `sequences` examples each.

    model: the module that the objective trains, a Model or a pair of them; held_out: None if no text is held out;
    probes: functions that return additional scores of the model.
    """

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        shards: TokenShards,
        documents: np.ndarray,
        *,
        tokenizer: Tokenizer,
        sequences: int,
        accumulation: int,
        seed: int,
        device: torch.device,
        held_out: HeldOut | None = None,
        probes: Sequence[Probe] = (),
    ) -> None:
        self.model, self.objective, self.shards, self.device = model, objective, shards, device
        self.sequences, self.accumulation, self.seed = sequences, accumulation, seed
        self.tokenizer, self.held_out, self.probes = tokenizer, held_out, probes
        self.documents = documents
        self._deal: Deal = everything
        self.stream = objective.batches(shards, documents, seed=seed, sequences=sequences, accumulation=accumulation)
        self.position = self.stream.state()  # after the batches in use; the stream itself may be one step ahead
        self._next = Prefetcher(self._make, ahead=device.type == "cuda")

    @property
    def carries_state(self) -> bool:
        """Whether a batch continues the previous one, so only one process can train the model."""
        return self.objective.carries_state

    @property
    def deal(self) -> Deal:
        """Chooses the micro-batches of this process. Changing it discards what was prefetched."""
        return self._deal

    @deal.setter
    def deal(self, deal: Deal) -> None:
        """Choose other micro-batches from the next step on."""
        self._deal = deal
        self._next.forget()
        self.stream.restore(self.position)

    def micro_batches(self, step: int) -> list[Batch]:
        """The masked batches of step `step`; advances the stream."""
        return [batch for _, batch in self.numbered(step)]

    def numbered(self, step: int) -> list[tuple[int, Batch]]:
        batches, self.position = self._next.take(step)
        return batches

    def fingerprint(self) -> str:
        chosen = hashlib.sha256(np.ascontiguousarray(self.documents).data).hexdigest()
        return f"{self.shards.num_documents} documents, {self.shards.num_tokens} tokens, {chosen[:16]}"

    def _make(self, step: int) -> tuple[list[tuple[int, Batch]], dict[str, int]]:
        """The batches of a step with their numbers, on the device, and the position of the stream after them."""
        if self._deal is everything:
            found = [(number, self.stream.batch(step, number)) for number in range(self.accumulation)]
        else:
            found = self.stream.dealt(step, self.accumulation, self._deal)
        return [(number, batch.to(self.device)) for number, batch in found], self.stream.state()

    def counts(self, batch: Batch) -> dict[str, int]:
        return self.objective.counts(batch)

    def outcome(self, batch: Batch) -> LossSums:
        return self.objective.outcome(self.model, batch)

    def evaluate(self, step: int) -> dict[str, float]:
        scores = self.held_out.score(self.model, self.device) if self.held_out is not None else {}
        for probe in self.probes:
            scores |= probe(self.objective.final_model(self.model))
        return scores

    def should_stop(self) -> bool:
        return False

    def state(self) -> dict[str, Any]:
        return {"stream": self.position}

    def restore(self, state: dict[str, Any]) -> None:
        self._next.forget()
        self.stream.restore(state["stream"])
        self.position = self.stream.state()


# -- Pre-training on a few texts in memory, in seconds and without a run folder: for lessons, notebooks and tests
#
# Objective, batches and loop are those of a full run; there are no files, held-out text or checkpoints.


def pretrain_small(
    documents: Sequence[Sequence[str]],
    tokenizer: Tokenizer,
    objective: str = "mlm",
    *,
    steps: int = 200,
    lr: float = 2e-3,
    batch_size: int = 16,
    max_length: int = 32,
    mask_rate: float = MASK_RATE,
    hidden_size: int = 64,
    num_layers: int = 2,
    seed: int = 0,
) -> Model:
    """Train a small network on these documents.

    documents: the sentences of each; tokenizer: with [CLS], [SEP] and [MASK]; objective: "mlm", "mlm+nsp" or "clm";
    max_length: in tokens, special tokens included. No dropout; attention heads of size 16. Raises ConfigError for
    another objective, InputError for text that is too short.
    """
    check(objective in ("mlm", "mlm+nsp", "clm"), f"objective is {objective!r}; here it is mlm, mlm+nsp or clm.")
    texts = TextsInMemory.encode(documents, tokenizer)
    kind = registry.resolve("objective", objective)
    task = kind(make_recipe(kind, tokenizer, max_length, mask_rate=mask_rate))
    task.check(len(texts))
    config = ModelConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=max(hidden_size // 16, 1),
        intermediate_size=2 * hidden_size,
        max_position_embeddings=max_length,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        initializer_range=0.06,  # at a width of 64 the published 0.02 keeps scores flat for a thousand steps
        **kind.network_settings,
    )
    model = task.network(config, seed)
    job = PretrainJob(
        model,
        task,
        texts,  # type: ignore[arg-type]  # has the interface of shards
        np.arange(len(texts)),
        tokenizer=tokenizer,
        sequences=batch_size,
        accumulation=1,
        seed=seed,
        device=torch.device("cpu"),
    )
    settings = LoopSettings(
        steps, lr, 0.1, "linear", 0.01, 1.0, seed, log_every=steps, checkpoint_every=steps, evaluate_every=steps
    )
    train(job, settings, name="small pre-training")
    kept: Model = task.final_model(model)
    kept.tokenizer = tokenizer
    return kept.eval()


# -- Decides whether training compiles its layers (torch.compile): by the setting, the compiler and the number of steps


WORTH_STEPS = 1000  # on a GPU: fewer steps do not save the minute that compilation takes
CHOICES = ("auto", "on", "off")
_TRIED_TOKENS = 64


@dataclass(frozen=True)
class Choice:
    """compiles: the decision; why: the reason, as `maskwright doctor` prints it."""

    compiles: bool
    why: str


def choose_compiling(wanted: str, device: torch.device, steps: int) -> Choice:
    """Decide for a run of `steps` steps. wanted: "auto", "on" or "off".

    Raises ConfigError for "on" without a compiler.
    """
    if wanted == "off":
        return Choice(False, "it was switched off")
    lacking = missing_compiler(device)
    if wanted == "on":
        if lacking is not None:
            raise ConfigError(f"--set compile=on is not available: {lacking}. Use compile=auto or off.")
        return Choice(True, "it was switched on")
    if lacking is not None:
        return Choice(False, lacking)
    if device.type != "cuda":
        return Choice(False, "on a CPU it is not known to save its compilation time; --set compile=on tries")
    if steps < WORTH_STEPS:
        return Choice(False, f"fewer than {WORTH_STEPS:,} steps do not save the minute that compilation takes")
    return Choice(True, "fewer and larger kernels between the matrix products")


def missing_compiler(device: torch.device) -> str | None:
    """Why torch.compile cannot generate kernels for this device; None if it can."""
    if device.type == "cuda":
        return None if find_spec("triton") is not None else "Triton is not installed (torch for Linux brings it)"
    if device.type != "cpu":
        return f"torch.compile is not used on {device.type}"
    if sys.platform == "win32" or cpp_compiler() is None:
        return "there is no C++ compiler on the path"
    return None


def compile_layers(model: nn.Module, dtype: torch.dtype, must: bool = False) -> str | None:
    """Compile the layers of a model in training, after a test of one layer, forward and backward.

    dtype: of the hidden states. If the test fails, the layers stay uncompiled and the reason is returned; must: raise
    ConfigError instead.
    """
    layers = [module for module in model.modules() if isinstance(module, Layer)]
    for layer in layers:
        layer.compiles = True
    failure = _try(layers[0], dtype) if layers else "there are no layers"
    if failure is None:
        return None
    for layer in layers:
        layer.compiles = False
    if must:
        raise ConfigError(f"Compilation failed: {failure}. Use --set compile=off.")
    return failure


def _try(layer: Layer, dtype: torch.dtype) -> str | None:
    """One forward and backward pass over random numbers; torch's generators and the layer's gradients are unchanged."""
    parameter = next(layer.parameters())
    device, size = parameter.device, layer.ffn_norm.weight.shape[0]
    was_training = layer.training
    with preserve_generators(device):
        seed_generators(0, device)
        hidden = torch.randn(_TRIED_TOKENS, size, device=device, dtype=dtype, requires_grad=True)
        try:
            layer.train()
            result = layer.add(hidden, hidden * 0.5)
            inputs = [hidden, *(one for one in layer.parameters() if one.requires_grad)]
            gradients = torch.autograd.grad(result.float().square().mean(), inputs, allow_unused=True)
        except Exception as error:  # torch.compile fails in many ways; all of them are reported
            return f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200] if str(error) else ''}"
        finally:
            layer.train(was_training)
    fine = all(bool(one.isfinite().all()) for one in gradients if one is not None)
    return None if fine and bool(result.isfinite().all()) else "compiled layers returned values that are not finite"
