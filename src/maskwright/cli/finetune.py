"""`maskwright finetune`: fine-tune a pre-trained model on labeled rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from ..core import registry
from ..core.config import default_of, flag_of, kind_of, read_toml, settings_of
from ..core.errors import ConfigError
from ..hub.published import ENGLISH
from ..train.finetuning.config import DEFAULT_TASK, FinetuneConfig, MultiTaskConfig
from .common import JsonFlag, SeveralValues, print_json, print_metrics, print_text
from .evaluate import EvaluateSettings
from .pages import tell_default
from .settings import (
    RestartFlag,
    SettingsCommand,
    help_of,
    load_recipe,
    print_next,
    takes_settings,
    tell_if_finished,
    with_rare,
)

if TYPE_CHECKING:
    from ..train.finetuning.finetune import FinetuneResult
    from ..train.finetuning.multi_task import MultiTaskResult


class FinetuneCommand(SettingsCommand, SeveralValues):
    """The `finetune` command; its help covers one task where the command line names it."""

    task: str | None = None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line."""
        self.task = next((word for word in args if word in registry.names("task")), None)
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
        own.help = "\n\n".join([head, *kept])
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


@takes_settings(FinetuneConfig, MultiTaskConfig, several=("train", "dev"), read=_recipe, has_recipe=True)
def finetune(recipe: FinetuneConfig | MultiTaskConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
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

        _show_tasks(finetune_tasks(recipe, restart=restart), json)
        return
    from ..tasks.specs import readers_of
    from ..train.finetuning.finetune import finetune as run_finetuning

    test = {"file": readers_of(recipe.task)[0].example_file}
    if recipe.train_target is not None:
        test = {"file": "TEST-FILE", "target": "TRANSLATIONS"}
    _show_result(run_finetuning(recipe, restart=restart), json, test)


def _show_tasks(result: MultiTaskResult, json: bool) -> None:
    from ..train.against_baseline import health_line

    if json:
        print_json(
            {
                "run": str(result.output),
                "report": str(result.report),
                "tasks": {name: {"model": str(result.models[name]), **own} for name, own in result.tasks.items()},
                "mean_score": result.mean["mean_score"],
                "deviation": result.deviation,
                "seeds": result.seeds,
                "average": result.average,
                "baselines": {name: one.to_json() for name, one in result.baselines.items()},
            }
        )
        return
    tell_if_finished(result.already_finished)
    for name, own in result.tasks.items():
        print_text(f"{name}, over {len(result.seeds)} seeds:" if len(result.seeds) > 1 else f"{name}:")
        print_metrics(own["metrics"])
    if result.baselines:
        print_text(health_line(result.baselines))
    print_text(f"models: {', '.join(map(str, result.models.values()))}\nreport: {result.report}")
    print_next(EvaluateSettings, model=str(next(iter(result.models.values()))), file="TEST-FILE")


def _show_result(result: FinetuneResult, json: bool, test: Mapping[str, str]) -> None:
    from ..train.against_baseline import health_line

    if json:
        print_json(
            {
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
        )
        return
    tell_if_finished(result.already_finished)
    if len(result.seeds) > 1:
        width = max(map(len, result.mean))
        for name, value in result.mean.items():
            print_text(f"{name:<{width}}  {value:.4f} ± {result.deviation[name]:.4f}")
        which = f"is the one with the best dev {result.main_metric}"
        if result.average is not None:
            which = f"is the mean of their weights, dev {result.main_metric} {result.average[result.main_metric]:.4f}"
        print_text(f"over {len(result.seeds)} seeds; model/ {which}")
    else:
        print_metrics(result.mean)
    if result.signatures:
        print_text("the model, written with beams:")
        print_metrics(result.final)
        print_text("\n".join(result.signatures.values()))
    if result.calibration is not None:
        found = result.calibration
        print_text(
            f"temperature {found['temperature']:.3f}: calibration error {found['ece_before']:.4f} as trained, "
            f"{found['ece']:.4f} with it (cross-fitted on two halves of the dev examples)"
        )
    if result.baseline is not None:
        print_text(health_line([result.baseline]))
    print_text(f"model:  {result.model}\nreport: {result.report}")
    print_next(EvaluateSettings, model=str(result.model), **test)


finetune.command_class = FinetuneCommand  # type: ignore[attr-defined]  # read where commands are registered
