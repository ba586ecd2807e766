"""Training in one call: pre-training, fine-tuning, distillation, comparison of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .experiments.config import LayerLabConfig
    from .experiments.runner import ExperimentResult
    from .train.callbacks import Callback
    from .train.distillation.config import DistillConfig
    from .train.distillation.distill import DistillResult
    from .train.finetuning.config import FinetuneConfig
    from .train.finetuning.finetune import FinetuneResult
    from .train.finetuning.multi_task.config import MultiTaskConfig
    from .train.finetuning.multi_task.train import MultiTaskResult
    from .train.pretraining.config import PretrainConfig
    from .train.pretraining.pretrain import PretrainResult

__all__ = ["distill", "finetune", "layer_lab", "pretrain"]


def pretrain(config: PretrainConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> PretrainResult:
    """Pre-trains a model, or resumes the run in `config.output`, as the command does.

    Args:
        config: Settings of the run.
        restart: Discard the run folder and restart from scratch.
        callbacks: Objects that are called during training; see `Callback`.

    Returns:
        The paths and scores of the run.

    Raises:
        RunError: If the run folder is in use, or has a run with other settings.
    """
    from .train.pretraining.pretrain import pretrain as run

    return run(config, restart=restart, callbacks=callbacks)


@overload
def finetune(config: FinetuneConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> FinetuneResult:
    """One task."""


@overload
def finetune(config: MultiTaskConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> MultiTaskResult:
    """Several tasks."""


def finetune(
    config: FinetuneConfig | MultiTaskConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()
) -> FinetuneResult | MultiTaskResult:
    """Fine-tunes for one task or several, or resumes the run in `config.output`, as the command does.

    Args:
        config: Settings of the run; a MultiTaskConfig for several tasks.
        restart: Discard the run folder and restart from scratch.
        callbacks: Objects that are called during training; see `Callback`.

    Returns:
        The paths and scores of the run.

    Raises:
        RowErrors: If the data has invalid rows; all are listed.
        RunError: If the run folder is in use, or has a run with other settings.
    """
    from .train.finetuning.finetune import finetune as run
    from .train.finetuning.multi_task.config import MultiTaskConfig
    from .train.finetuning.multi_task.train import finetune_tasks

    if isinstance(config, MultiTaskConfig):
        return finetune_tasks(config, restart=restart, callbacks=callbacks)
    return run(config, restart=restart, callbacks=callbacks)


def distill(config: DistillConfig, *, restart: bool = False, callbacks: Sequence[Callback] = ()) -> DistillResult:
    """Distills a teacher into a student, or resumes the run in `config.output`, as the command does.

    Args:
        config: Settings of the run.
        restart: Discard the run folder and restart from scratch.
        callbacks: Objects that are called during training; see `Callback`.

    Returns:
        The paths and scores of the run.

    Raises:
        RunError: If the run folder is in use, or has a run with other settings.
    """
    from .train.distillation.distill import distill as run

    return run(config, restart=restart, callbacks=callbacks)


def layer_lab(config: LayerLabConfig, *, restart: bool = False) -> ExperimentResult:
    """Compares the layers of a frozen encoder as features, or resumes the run in `config.output`, as the command does.

    Args:
        config: Settings of the run.
        restart: Discard the run folder and restart from scratch.

    Returns:
        The paths and scores of the run.

    Raises:
        RunError: If the run folder is in use, or has a run with other settings.
    """
    from .experiments.layers import layer_lab as run

    return run(config, restart=restart)
