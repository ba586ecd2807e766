"""`maskwright finetune`: fine-tune a pre-trained model on labeled rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from ..core import registry
from ..core.config import default_of, flag_of, kind_of, read_toml, settings_of
from ..core.errors import ConfigError
from ..hub.published import ENGLISH
from ..train.finetuning.config import DEFAULT_TASK, FinetuneConfig, MultiTaskConfig
from .common import Part, Result
from .evaluate import EvaluateSettings
from .settings import (
    FINISHED,
    RestartFlag,
    SettingsCommand,
    help_of,
    load_recipe,
    next_command,
    takes_settings,
    tell_default,
    with_rare,
)

if TYPE_CHECKING:
    from ..train.finetuning.finetune import FinetuneResult
    from ..train.finetuning.multi_task import MultiTaskResult


MOST_EXAMPLES = 5  # paragraphs of the help of a task: the heading and four examples


class FinetuneCommand(SettingsCommand):
    """The `finetune` command; its help covers one task where the command line names it."""

    task: str | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        self.words = registry.names("task")
        self.task = next((word for word in args if word in self.words), None)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: of a task, only its own options, defaults and examples."""
        if self.task is None:
            super().format_help(ctx, formatter)
            return
        own = copy.copy(self)
        settings, own.params = settings_of(FinetuneConfig), []
        defaults = {one.name: default_of(one) for one in fields(FinetuneConfig)}
        hints = get_type_hints(FinetuneConfig)
        rare = [name for name, one in settings.items() if one.recipe_only and one.is_for(self.task)]
        settings["network"] = with_rare(settings["network"], rare)
        for param in self.params:
            setting = settings.get(param.name)
            if setting is None:
                own.params.append(param)
            elif setting.is_for(self.task):
                shown: Any = copy.copy(param)
                shown.help = help_of(setting, kind_of(hints[param.name]), defaults[param.name], self.task)
                own.params.append(shown)
        head, *examples = (self.help or "").split("\n\n")
        kept = [one for one in examples if "maskwright finetune " not in one or f"finetune {self.task} " in one]
        own.help = "\n\n".join([head, *kept[:MOST_EXAMPLES]])
        super(FinetuneCommand, own).format_help(ctx, formatter)


def _recipe(path: Path | None, given: Mapping[str, Any]) -> FinetuneConfig | MultiTaskConfig:
    """Returns the recipe of one task, or a multi-task recipe."""
    if "multi_task" in given or (path is not None and "multi_task" in read_toml(path)):
        if "train" in given:
            raise ConfigError("--train (one task) and --multi-task (several tasks) exclude each other.")
        own = settings_of(FinetuneConfig).keys() - settings_of(MultiTaskConfig).keys()
        alone = [flag_of(name, settings_of(FinetuneConfig)[name]) for name in sorted(own) if name in given]
        if alone:
            raise ConfigError(f"{', '.join(alone)} does not go with --multi-task (similarity:FILE trains vectors).")
        return load_recipe(MultiTaskConfig, path, given)
    files: dict[str, Path] = {}
    takes_two = settings_of(FinetuneConfig)["train_target"].is_for(given.get("task", DEFAULT_TASK))
    for name in ("train", "dev"):
        several = given.get(name, [])
        if len(several) > 2 or (len(several) == 2 and not takes_two):
            raise ConfigError(
                f"--{name} has {len(several)} files; one task takes one, translation also two that belong together "
                "line by line (several --dev go with --multi-task)."
            )
        files |= dict(zip((name, f"{name}_target"), several, strict=False))
    recipe: FinetuneConfig = load_recipe(FinetuneConfig, path, {**given, **files})
    if recipe.model == ENGLISH and "model" not in given:
        tell_default("choose another one with --model")
    return recipe


@takes_settings(
    FinetuneConfig,
    MultiTaskConfig,
    several=("train", "dev"),
    read=_recipe,
    has_recipe=True,
    command_class=FinetuneCommand,
)
def finetune(recipe: FinetuneConfig | MultiTaskConfig, restart: RestartFlag = False) -> Iterator[Result]:
    """Fine-tune a model on labeled rows. Rerun the same command to resume.

    Examples:

        maskwright finetune classification --model runs/a/model --train train.tsv --dev dev.tsv -o runs/b

        maskwright finetune classification --model runs/a/model --train train.tsv --seeds 3 -o runs/b

        maskwright finetune classification --model runs/a/model --adapter lora --train train.tsv -o runs/adapter

        maskwright finetune regression --model runs/a/model --train pairs.tsv --columns label=score -o runs/c

        maskwright finetune regression --model runs/a/model --train stsb.tsv --score-range 0 5 -o runs/sts

        maskwright finetune similarity --model runs/a/model --train pairs.tsv --dev dev.tsv -o runs/s

        maskwright finetune classification --model runs/a/model --train docs.csv --long windows --set pool=max -o runs/l

        maskwright finetune tagging --model runs/a/model --train train.conll --dev dev.conll --crf -o runs/n

        maskwright finetune qa --model runs/a/model --train train.json --dev dev.json --max-length 384 -o runs/q

        maskwright finetune classification --model runs/a/model --train train.tsv --threshold-for spam -o runs/r

        maskwright finetune anomaly --model runs/a/model --train train.tsv --dev dev.tsv -o runs/anomaly

        maskwright finetune classification --model runs/a/model --multi-task a.tsv regression:b.tsv -o runs/x

        maskwright finetune generation --model runs/g/model --train pairs.tsv --set delimiter="<to-fr>" -o runs/fr

        maskwright finetune translation --preset transformer-mini --tokenizer tok/ --train a.de b.en -o runs/t

        maskwright finetune choice --model runs/a/model --train train.jsonl --dev dev.jsonl -o runs/m

        maskwright finetune classification --preset bert-mini --tokenizer tok/ --train train.csv --seeds 5 -o runs/d
    """
    if isinstance(recipe, MultiTaskConfig):
        from ..train.finetuning.multi_task import finetune_tasks

        yield _of_tasks(finetune_tasks(recipe, restart=restart))
        return
    from ..tasks.specs import readers_of
    from ..train.finetuning.finetune import finetune as run_finetuning

    test = {"file": readers_of(recipe.task)[0].example_file}
    if recipe.train_target is not None:
        test = {"file": "TEST-FILE", "target": "TRANSLATIONS"}
    yield _of_one(run_finetuning(recipe, restart=restart), test)


def _of_tasks(result: MultiTaskResult) -> Result:
    from ..train.against_baseline import health_line

    found = {
        "run": str(result.output),
        "report": str(result.report),
        "tasks": {name: {"model": str(result.models[name]), **own} for name, own in result.tasks.items()},
        "mean_score": result.mean["mean_score"],
        "deviation": result.deviation,
        "seeds": result.seeds,
        "average": result.average,
        "baselines": {name: one.to_json() for name, one in result.baselines.items()},
    }
    over = f", over {len(result.seeds)} seeds" if len(result.seeds) > 1 else ""
    return found, (
        FINISHED if result.already_finished else None,
        *(part for name, own in result.tasks.items() for part in (f"{name}{over}:", own["metrics"])),
        health_line(result.baselines) if result.baselines else None,
        f"models: {', '.join(map(str, result.models.values()))}\nreport: {result.report}",
        next_command(EvaluateSettings, model=str(next(iter(result.models.values()))), file="TEST-FILE"),
    )


def _of_one(result: FinetuneResult, test: Mapping[str, str]) -> Result:
    found = {
        "run": str(result.output),
        "model": str(result.model),
        "report": str(result.report),
        "metrics": result.mean,
        "deviation": result.deviation,
        "seeds": result.seeds,
        "average": result.average,
        "calibration": result.calibration,
        "final": result.final,
        "signatures": result.signatures,
        "baseline": None if result.baseline is None else result.baseline.to_json(),
    }
    return found, _scores(result, test)


def _scores(result: FinetuneResult, test: Mapping[str, str]) -> Iterator[Part]:
    from ..train.against_baseline import health_line

    yield FINISHED if result.already_finished else None
    if len(result.seeds) > 1:
        width = max(map(len, result.mean))
        for name, value in result.mean.items():
            yield f"{name:<{width}}  {value:.4f} ± {result.deviation[name]:.4f}"
        which = f"is the one with the best dev {result.main_metric}"
        if result.average is not None:
            which = f"is the mean of their weights, dev {result.main_metric} {result.average[result.main_metric]:.4f}"
        yield f"over {len(result.seeds)} seeds; model/ {which}"
    else:
        yield result.mean
    if result.signatures:
        yield "the model, written with beams:"
        yield result.final
        yield from result.signatures.values()
    if (fitted := result.calibration) is not None:
        yield (
            f"temperature {fitted['temperature']:.3f}: calibration error {fitted['ece_before']:.4f} as trained, "
            f"{fitted['ece']:.4f} with it (cross-fitted on two halves of the dev examples)"
        )
    if result.baseline is not None:
        yield health_line([result.baseline])
    yield f"model:  {result.model}\nreport: {result.report}"
    yield next_command(EvaluateSettings, model=str(result.model), **test)
