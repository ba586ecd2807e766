"""Pre-training from corpus to model folder: tokenizer, shards, network, training, report.

Each stage is complete or absent in the run folder, so rerunning the same command resumes an interrupted run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ...core import registry, storage
from ...core.errors import InputError, RowErrors
from ...core.object_store import is_remote
from ...core.progress import note, warn
from ...data.prepare import prepare
from ...data.shards import TokenShards
from ...data.streamed import StreamedShards
from ...hub.adapters import attach_adapter
from ...hub.folders import load_model, merged, save_model
from ...hub.published import inherited_settings
from ...models.config import ModelConfig
from ...models.device import DTYPES, resolve_device, resolve_precision
from ...models.model import Model, tokenizer_of
from ...models.presets import preset, special_token_settings
from ...objectives.audit import AuditedSequence
from ...objectives.base import Objective, Recipe
from ...objectives.fitting import GENERATOR_SHARE, RTD_WEIGHT, check_fits
from ...objectives.selection import make_recipe, objective_for
from ...objectives.stream import split_documents
from ...text.formats.files import HUB, STDIN, expand, open_bytes, reject_binary
from ...text.readers.corpus import FOLDER_FORMATS
from ...text.tokenizers.tokenizer import Tokenizer
from ..callbacks import Callback
from ..loop import LoopSettings, train
from ..run import RunFolder, RunResult, open_training
from .config import PretrainConfig, network_here
from .health import Baseline, RunHealth, baseline_of, is_labeled, judge, linear_probe, named_baseline
from .job import HeldOut, PretrainJob, choose_compiling, compile_layers
from .report import write_pretrain_report

# -- Continued pre-training: from a trained model, with its network and tokenizer, on the text of a domain -----------


class StartModel:
    """The model that a run starts from, with the head of its objective; a head that it lacks is new.

    network: its configuration. Raises InputError for a network that does not fit the recipe.
    """

    def __init__(self, config: PretrainConfig) -> None:
        self.config, self.name = config, str(config.start)
        objective = registry.resolve("objective", config.objective)
        network = network_here(self.name)
        if network is not None:  # before its weights are read
            check_fits(config.objective, network, self.name, is_trained=True)
        self.model, self.report = load_model(self.name, objective.head, seed=config.seed)
        self.report.log_weight_mismatch(self.name)
        self.network = self.model.config
        check_fits(config.objective, self.network, self.name, is_trained=True)
        self.network.check_length(config.max_length, self.name)

    @property
    def tokenizer(self) -> Tokenizer:
        """Raises ModelFolderError if it has none."""
        return tokenizer_of(self.model, self.name)

    def fill(self, model: nn.Module) -> None:
        """Give `model` the start model's weights and, if the recipe trains one, an adapter on them."""
        assert isinstance(model, Model)
        model.load_state_dict(self.model.state_dict())
        if self.config.adapter is not None:
            attach_adapter(model, self.name, self.config.lora, self.report.new, self.config.seed, {})


GENERATOR = "generator"  # the generator's subfolder in the model folder of a discriminator
MANY_UNKNOWN = 0.05  # fraction of the tokens; far above that of a tokenizer trained on similar text


@dataclass(frozen=True)
class PretrainResult(RunResult):
    """Paths and scores of a run. scores: on held-out text (on training text if none is held out)."""

    scores: dict[str, float]
    baseline: Baseline
    verdict: RunHealth
    steps: int


def pretrain(config: PretrainConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> PretrainResult:
    """Pre-trains a model, or resumes the run in `config.output`, as the command does.

    Args:
        config: Settings of the run.
        restart: Discard the run folder and restart from scratch.
        callbacks: Objects that are called during training; see `Callback`.

    Returns:
        The paths and scores of the run; those of a finished run unchanged.

    Raises:
        RunError: If the run folder is in use, or has a run with other settings.
        Interrupted: After a signal.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    check_preset(config)
    with open_training(config, device, restart=restart, callbacks=callbacks) as run:
        if finished := run.finished():
            return _result(run, finished, already_finished=True)
        setup = run.group.main_first(lambda: PretrainingSetup(config, run, device))
        job = setup.job()
        run.check_inputs()
        setup.compile(job.model)
        train(job, setup.loop_settings(), run, name="pre-training")
        result = run.group.from_main(lambda: setup.conclude(job))
        run.finish(result)
        return _result(run, result)


def check_preset(config: PretrainConfig) -> None:
    """Raise ConfigError for a wrong name or size, InputError if the objective needs another kind of network."""
    if config.start is not None:
        return
    settings = registry.resolve("objective", config.objective).network_settings
    check_fits(config.objective, preset(str(config.preset), **config.model), str(config.preset))
    for name, value in settings.items():
        if config.model.get(name, value) != value:
            raise InputError(
                f"Objective {config.objective} needs {name}={value}: remove --set {name}={config.model[name]}."
            )


def first_batch(config: PretrainConfig, *, restart: bool = False) -> list[AuditedSequence]:
    """The first batch of a run, decoded. Prepares tokenizer and shards as the run does, without training."""
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    check_preset(config)
    with open_training(config, device, restart=restart) as run:
        setup = run.group.main_first(lambda: PretrainingSetup(config, run, device))
        job = setup.job()
        job.model.eval()
        tokenizer = setup.tokenizer
        return setup.objective.shown(
            job.model, job.micro_batches(0)[0], lambda index: str(tokenizer.id_to_token(index))
        )


class PretrainingSetup:
    """Builds the components of a run from its recipe: tokenizer, shards, objective, network, job."""

    job_type: ClassVar[type[PretrainJob]] = PretrainJob
    title: str = ""  # name of the network in messages; "" for the preset's name

    def __init__(self, config: PretrainConfig, run: RunFolder, device: torch.device) -> None:
        self.config, self.run, self.device = config, run, device
        self.title = self.title or config.start or str(config.preset)
        self.start = None if config.start is None else StartModel(config)
        self.corpus = save_piped_input(config.corpus, run.path, "corpus")
        self.eval = save_piped_input(config.eval, run.path, "eval")
        with name_piped_sources((*config.corpus, *config.eval), (*self.corpus, *self.eval)):
            self.tokenizer = self._tokenizer()
            self.network = self._network()
            self.shards = self._shards(self.corpus, "data")
            self._check_vocabulary()
            self.objective = self._objective()
            self.training, self.held_out = self._split()

    def job(self) -> PretrainJob:
        config = self.config
        network = self.network
        if config.dropout is not None:
            network = replace(network, hidden_dropout=config.dropout, attention_dropout=config.dropout)
        model = self.objective.network(network, config.seed)
        if self.start is not None:
            self.start.fill(model)
        model = model.to(self.device)
        for part in (self.objective.final_model(model), self.objective.token_predictor(model)):
            part.compute_dtype = DTYPES[config.precision]
            part.tokenizer = self.tokenizer
            part.recomputes = config.activation_checkpointing
        count = sum(parameter.numel() for parameter in model.parameters())
        note(
            f"{self.title}: {count:,} parameters, {config.precision} on {config.device}, "
            f"{config.steps:,} steps of {config.sequences * config.accumulation} sequences of at "
            f"most {config.max_length} tokens"
        )
        return self.job_type(
            model,
            self.objective,
            self.shards,
            self.training,
            tokenizer=self.tokenizer,
            sequences=config.sequences,
            accumulation=config.accumulation,
            seed=config.seed,
            device=self.device,
            held_out=self.held_out,
            probes=[
                linear_probe(source, self.tokenizer, config.max_length, config.seed, self.device)
                for source in self.eval
                if is_labeled(source)
            ],
        )

    def compile(self, model: nn.Module) -> None:
        """Compile the layers if the recipe requires it, or leaves the choice and it saves time on this machine."""
        config = self.config
        if config.shard:
            return
        choice = choose_compiling(config.compile, self.device, config.steps)
        if choice.compiles:
            failed = compile_layers(model, DTYPES[config.precision], must=config.compile == "on")
            note("Layers are compiled." if failed is None else f"Layers are not compiled: {failed}")

    def loop_settings(self) -> LoopSettings:
        return LoopSettings.of(self.config)

    def conclude(self, job: PretrainJob) -> dict[str, Any]:
        """Score the trained model and write its folder and the report; returns the result of the run."""
        job.model.eval()
        logged = [record for record in self.run.records() if "loss" in record]
        losses = [record["loss"] for record in logged]
        scores = job.evaluate(self.config.steps)
        if not scores:
            endings = ("loss", "_accuracy", "_baseline")
            scores = {key: value for key, value in logged[-1].items() if key.endswith(endings)}
        baseline = baseline_of(scores)
        verdict = judge(scores, baseline, losses)
        result = {
            "steps": self.config.steps,
            "scores": scores,
            "held_out": self.held_out is not None,
            "baseline": vars(baseline),
            "verdict": {"level": verdict.level, "reasons": list(verdict.reasons)},
        }
        facts = {
            "task": "pretraining",
            "objective": self.config.objective,
            "training": {**self.run.recipe, **result, "baseline": named_baseline(scores, vars(baseline))},
            **inherited_settings(self.config.start),
        }
        model, generator = self._final_models(job.model)
        save_model(model, self.run.path / "model", facts=facts, replace=True)
        if generator is not model:
            facts = {**facts, "task": "generator"}
            save_model(generator, self.run.path / "model" / GENERATOR, facts=facts, replace=True)
        write_pretrain_report(self.run, job, baseline, verdict, scores)
        return result

    def _final_models(self, trained: nn.Module) -> tuple[Model, Model]:
        """The trained weights in the network of the preset (with its own dropout), and the model that predicts masked
        tokens: the same one, except for an objective with a generator.
        """
        if self.config.adapter is not None and not self.config.merge:
            return self.objective.final_model(trained), self.objective.token_predictor(trained)
        if isinstance(trained, Model):
            merged(trained)
        model = self.objective.make(self.network, self.config.generator_share or GENERATOR_SHARE)
        model.load_state_dict(trained.state_dict())
        kept, guesser = self.objective.final_model(model), self.objective.token_predictor(model)
        kept.tokenizer = guesser.tokenizer = self.tokenizer
        return kept, guesser

    # -- stages ----------------------------------------------------------------------------------------------------

    def _tokenizer(self) -> Tokenizer:
        config, own = self.config, self.run.path / "tokenizer"
        if self.start is not None:
            return self.start.tokenizer
        if config.tokenizer is not None:
            return Tokenizer.load(config.tokenizer)
        if is_remote(self.corpus[0]):
            raise InputError(
                f"{self.corpus[0]} contains token ids: pass the tokenizer that made them with --tokenizer."
            )
        prepared = _prepared(self.corpus)
        if prepared is not None:
            raise InputError(
                f"{prepared} contains token ids: pass the tokenizer that made them, as in "
                f"--tokenizer {prepared.parent / 'tokenizer'}."
            )
        if not own.exists():
            note(f"Training a WordPiece tokenizer with a vocabulary of {config.vocab_size:,} tokens.")
            trained = Tokenizer.train(
                list(self.corpus),
                kind="wordpiece",
                vocab_size=config.vocab_size,
                lowercase=config.lowercase,
                skip_bad_rows=config.skip_bad_rows,
            )
            trained.save(own)
        return Tokenizer.load(own)

    def _shards(self, sources: Sequence[str], name: str) -> TokenShards:
        if any(map(is_remote, sources)):
            if len(sources) > 1:
                raise InputError(f"{', '.join(sources)}: token shards in an object store are the only corpus of a run.")
            return StreamedShards.open_remote(sources[0], self.tokenizer, self.config.shard_cache)
        prepared = _prepared(sources)
        if prepared is not None:
            return TokenShards.open(prepared, self.tokenizer, verify=self.run.group.is_main)
        if not self.run.group.is_main:  # the first process has prepared them
            return TokenShards.open(self.run.path / name, self.tokenizer, verify=False)
        return prepare(
            list(sources),
            self.tokenizer,
            self.run.path / name,
            skip_bad_rows=self.config.skip_bad_rows,
            keep_duplicates=self.config.keep_duplicates,
            joint=registry.resolve("objective", self.config.objective).line_separator(self.tokenizer),
        )

    def _check_vocabulary(self) -> None:
        """Raise InputError when all tokens are unknown; warn when many are."""
        unknown, tokens = self.shards.counts["unknown_tokens"], self.shards.counts["tokens"]
        if unknown == tokens:
            raise InputError(
                "All tokens of the corpus are unknown to the tokenizer: train one on this text (remove --tokenizer)."
            )
        if unknown > MANY_UNKNOWN * tokens:
            warn(f"{unknown:,} of {tokens:,} tokens of the corpus are unknown to the tokenizer: train one on it.")

    def _objective(self) -> Objective:
        config = self.config
        cls: type[Objective] = registry.resolve("objective", config.objective)
        return objective_for(cls, self.network, carries=not config.reset_state)(self._recipe(cls))

    def _recipe(self, objective: type[Objective]) -> Recipe:
        config = self.config
        return make_recipe(
            objective,
            self.tokenizer,
            config.max_length,
            short_share=config.short_share,
            token_counts=self.shards.unigram_counts(),
            mask_rate=config.mask_rate,
            whole_words=config.whole_words,
            generator_share=config.generator_share or GENERATOR_SHARE,
            rtd_weight=config.rtd_weight or RTD_WEIGHT,
        )

    def _split(self) -> tuple[np.ndarray, HeldOut | None]:
        """The training documents, and the held-out ones: the --eval text, or a fraction of the corpus."""
        config = self.config
        texts = [source for source in self.eval if not is_labeled(source)]
        lengths = self.shards.document_lengths()
        if texts:
            shards, training = self._shards(texts, "eval-data"), np.arange(len(lengths))
            kept = np.arange(shards.num_documents)
            self.objective.check(len(kept))
        else:
            shards = self.shards
            training, kept = split_documents(lengths, config.holdout, config.seed, self.shards.windows)
        self.objective.check(len(training))
        if len(kept) == 0:
            note("No text is held out (the corpus has fewer than 8 documents): scores are on training text.")
            return training, None
        return training, HeldOut(shards, kept, self.objective, config.seed, config.sequences)

    def _network(self) -> ModelConfig:
        if self.start is not None:
            return self.start.network
        return preset(str(self.config.preset), vocab_size=self.tokenizer.vocab_size, **self._network_settings())

    def _network_settings(self) -> dict[str, Any]:
        decided = registry.resolve("objective", self.config.objective).network_settings
        published = preset(str(self.config.preset))
        pad = self.tokenizer.pad_id if published.pad_token_id is None else self.tokenizer.pad_id or 0
        settings = {
            "pad_token_id": pad,
            **decided,
            **special_token_settings(published, self.tokenizer),
            **self.config.model,
        }
        if settings.get("attention", published.attention) == "big_bird":
            settings.setdefault("attention_seed", self.config.seed)  # random blocks depend on the seed of the run
        positions = settings.get("max_position_embeddings") or published.max_position_embeddings
        return {**settings, "max_position_embeddings": max(positions, self.config.max_length)}


def _prepared(sources: Sequence[str]) -> Path | None:
    """The folder of token shards if the corpus is one, else None."""
    folder = Path(sources[0])
    return folder if len(sources) == 1 and (folder / "shards.json").is_file() else None


def _result(run: RunFolder, result: dict[str, Any], already_finished: bool = False) -> PretrainResult:
    verdict = RunHealth(result["verdict"]["level"], tuple(result["verdict"]["reasons"]))
    baseline = Baseline(**result["baseline"])
    return PretrainResult.of(run, result, baseline=baseline, verdict=verdict, already_finished=already_finished)


# -- The dry run of a pre-training: its plan, without training or writing --------------------------------------------


def pretraining_plan(config: PretrainConfig) -> dict[str, Any]:
    """Network, exact parameter count, steps, tokens and corpus size of a recipe; reads no text and writes nothing."""
    device = resolve_device(config.device)
    check_preset(config)
    start = None if config.start is None else StartModel(config)
    if start is not None:
        vocab_size = start.tokenizer.vocab_size
    elif config.tokenizer is not None:
        vocab_size = Tokenizer.load(config.tokenizer).vocab_size
    else:
        vocab_size = config.vocab_size
    objective = registry.resolve("objective", config.objective)
    changes = {**objective.network_settings, **config.model}
    network = preset(str(config.preset), vocab_size=vocab_size, **changes) if start is None else start.network
    with torch.device("meta"):
        trained = objective.make(network, config.generator_share or GENERATOR_SHARE)
    local = [name for name in config.corpus if not is_remote(name)]
    files = [Path(name) for name in expand(local, FOLDER_FORMATS)] if local else []
    return {
        "preset": config.start or config.preset,
        "parameters": trained.num_parameters,
        "vocab_size": vocab_size,
        "objective": config.objective,
        "device": str(device),
        "precision": resolve_precision(config.precision, device, training=True),
        "steps": config.steps,
        "sequences_per_step": config.sequences * config.accumulation,
        "tokens_at_most": config.steps * config.sequences * config.accumulation * config.max_length,
        "corpus_files": len(files),
        "corpus_bytes": sum(path.stat().st_size for path in files if path.is_file()),
        "output": str(config.output),
    }


# -- Copies text that can be read only once (standard input, a pipe) to the run folder, for all stages and resuming


_CHUNK_BYTES = 1 << 20


def save_piped_input(sources: Sequence[str], folder: Path, name: str) -> tuple[str, ...]:
    """The sources, each pipe replaced by a copy `folder`/`name`-N.txt that is made once.

    Raises InputError for binary data.
    """
    return tuple(
        str(_keep(source, folder / f"{name}-{number}.txt")) if _is_read_once(source) else source
        for number, source in enumerate(sources)
    )


@contextmanager
def name_piped_sources(sources: Sequence[str], kept: Sequence[str]) -> Iterator[None]:
    """Name the source instead of its copy in error messages, because the copy may be deleted by then."""
    names = {copy: _shown(source) for source, copy in zip(sources, kept, strict=True) if copy != source}
    try:
        yield
    except RowErrors as error:
        raise RowErrors([replace(row, file=names.get(row.file, row.file)) for row in error.rows]) from None
    except InputError as error:
        message = str(error)
        for copy, name in names.items():
            message = message.replace(copy, name)
        raise type(error)(message) from None


def _is_read_once(source: str) -> bool:
    if source == STDIN:
        return True
    path = Path(source)
    return not source.startswith(HUB) and path.exists() and not path.is_file() and not path.is_dir()


def _keep(source: str, copy: Path) -> Path:
    if copy.is_file():
        return copy
    with open_bytes(source) as handle, storage.open_new(copy) as written:
        reject_binary(handle.peek(_CHUNK_BYTES)[:_CHUNK_BYTES], _shown(source))
        while data := handle.read(_CHUNK_BYTES):
            storage.fs.write(written, data)
    return copy


def _shown(source: str) -> str:
    return "standard input" if source == STDIN else source
