"""Settings are defined once: options, help, recipes and the command of a report say the same."""

import dataclasses
import inspect
import json
import re
import typing

import pytest
import typer.main
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conventions.test_flags import commands
from maskwright.cli.app import whole_app
from maskwright.cli.doctor import DoctorSettings
from maskwright.cli.embed import EmbedSettings, SearchSettings
from maskwright.cli.evaluate import EvaluateSettings
from maskwright.cli.export import FolderSettings, PushSettings
from maskwright.cli.generate import GenerateSettings, TranslateSettings
from maskwright.cli.predict import AnswerSettings, FillMaskSettings, PredictSettings
from maskwright.cli.settings import takes_settings
from maskwright.core import registry
from maskwright.core.config import command_words, default_of, from_dict, kind_of, length_of, settings_of, to_dict
from maskwright.core.errors import ConfigError
from maskwright.experiments.config import BenchmarkConfig, LadderConfig, LayerLabConfig, RareLabConfig
from maskwright.speed.plan_config import PlanConfig
from maskwright.tasks.specs import spec_of
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.finetuning.config import FinetuneConfig, MultiTaskConfig
from maskwright.train.pretraining.config import PretrainConfig, StaticConfig

ROWS = {"train": "rows.tsv", "output": "runs/a"}
SCRATCH = ROWS | {"preset": "bert-tiny", "tokenizer": "tok"}
# Of every command with a recipe, configurations to change at random.
STARTS = [
    (PretrainConfig, {"corpus": ("a.txt", "b"), "output": "runs/a"}),
    (PretrainConfig, {"corpus": ("-",), "output": "runs/a", "objective": "rtd"}),
    *((FinetuneConfig, ROWS | {"task": task, "model": "m"}) for task in registry.names("task")),
    (FinetuneConfig, SCRATCH | {"task": "translation"}),
    (FinetuneConfig, SCRATCH | {"task": "classification"}),
    (MultiTaskConfig, {"multi_task": ("a.tsv", "regression:b.tsv", "tagging:c"), "output": "o", "model": "m"}),
    (DistillConfig, {"teacher": "m", "corpus": ("a.txt",), "output": "runs/a"}),
    (DistillConfig, {"teacher": "m", "train": "a.tsv", "output": "runs/a"}),
    (LayerLabConfig, ROWS | {"model": "m"}),
    (RareLabConfig, {"data": "a.tsv", "model": "m", "rare_class": "spam", "output": "runs/a"}),
    (LadderConfig, {"data": "a.tsv", "output": "runs/a"}),
    (BenchmarkConfig, {"benchmark": "glue", "data": "glue", "model": "m", "output": "runs/a"}),
    (PlanConfig, {}),
]
# The same of other commands that messages and reports suggest.
TEXTS = {"model": "m", "texts": ("a b", "c")}
PLAIN_STARTS = [
    (AnswerSettings, {"model": "m", "question": ("Who?", "-"), "context": "a b"}),
    (DoctorSettings, {"path": "a.tsv", "mislabeled": True, "model": "m"}),
    (EmbedSettings, TEXTS),
    (EmbedSettings, {"model": "m", "input": "a.txt"}),
    (EvaluateSettings, {"model": "m", "file": "a.tsv"}),
    (FillMaskSettings, TEXTS),
    (FolderSettings, {"model": "m", "output": "o", "to": "folder"}),
    (GenerateSettings, {"model": "m", "prompts": ("-a", "b")}),
    (PredictSettings, TEXTS | {"pair": ("-c", "d")}),
    (PushSettings, {"folder": "m", "name": "a/b"}),
    (SearchSettings, {"model": "m", "folder": "texts", "queries": ("a", "b")}),
    (StaticConfig, {"corpus": ("a.txt",), "output": "o"}),
    (TranslateSettings, TEXTS),
]
CHANGES = {"positions": "rotary", "attention": "window", "hidden_size": 64, "rotary_base": 1e5, "tie": True, "x": "a b"}
PRESETS = {"preset": ("bert-tiny", "bert-mini", "distilbert-base"), "task": registry.names("task")}
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=8)


def values_of(name, kind):  # noqa: PLR0911
    if name in PRESETS:
        return st.sampled_from(PRESETS[name])
    if typing.get_origin(kind) is typing.Literal:
        return st.sampled_from(typing.get_args(kind))
    if typing.get_origin(kind) is dict:
        if typing.get_args(kind)[1] is str:
            return st.dictionaries(st.sampled_from(("text", "label", "token")), WORDS, max_size=3)
        return st.sets(st.sampled_from(sorted(CHANGES))).map(lambda names: {one: CHANGES[one] for one in names})
    if typing.get_origin(kind) is tuple:
        items = values_of("", typing.get_args(kind)[0])
        if length_of(kind):
            return st.tuples(*[items] * length_of(kind))
        return st.lists(items, max_size=3, unique=True).map(tuple)
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.one_of(st.integers(0, 5), st.integers(0, 100_000))
    if kind is float:
        return st.one_of(st.floats(0, 1), st.floats(-10, 1e5, allow_nan=False))
    return WORDS


@st.composite
def configurations(draw, cls, start):
    values, hints, about = dict(start), typing.get_type_hints(cls), settings_of(cls)
    required = {one.name for one in dataclasses.fields(cls) if default_of(one) is dataclasses.MISSING}
    for name in draw(st.lists(st.sampled_from(list(about)), unique=True, max_size=15)):
        value, (least, most) = draw(values_of(name, kind_of(hints[name]))), (about[name].minimum, about[name].maximum)
        is_missing = value == () and name in required
        if is_missing or (least is not None and value < least) or (most is not None and value > most):
            continue
        try:
            from_dict(cls, values | {name: value})
        except ConfigError:
            continue
        values[name] = value
    return from_dict(cls, values)


@pytest.fixture(scope="module")
def command():
    return typer.main.get_command(whole_app())


@pytest.mark.parametrize(("cls", "start"), STARTS, ids=lambda one: getattr(one, "__name__", ""))
def test_the_command_of_a_report_gives_the_same_settings_again(cls, start, command, capsys):
    @settings(max_examples=6, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(config=configurations(cls, start))
    def check(config):
        words = command_words(cls, to_dict(config))
        capsys.readouterr()
        command.main([*words[1:], "--print-config", "--json"], standalone_mode=False)
        assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(to_dict(config))), words

    check()


@pytest.mark.parametrize(("cls", "start"), PLAIN_STARTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_printed_command_is_parsed_as_the_same_settings(cls, start, monkeypatch):
    monkeypatch.setattr("torch.set_num_threads", lambda threads: None)
    parsed = []

    @takes_settings(cls)
    def keep(settings):
        parsed.append(settings)

    own = typer.Typer(add_completion=False)
    own.command()(keep)
    command = typer.main.get_command(own)

    @settings(max_examples=8, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
    @given(config=configurations(cls, start))
    def check(config):
        _, *words = command_words(cls, to_dict(config))
        names = cls.COMMAND.split()
        assert words[: len(names)] == names
        command.main(words[len(names) :], standalone_mode=False)
        assert parsed.pop() == config, words

    check()


@pytest.mark.parametrize("task", registry.names("task"))
def test_the_options_of_a_task_are_those_that_the_task_takes(task):
    own = FinetuneConfig(train="a", output="b", task=task, model="c").of_task(task).keys()
    assert set(spec_of(task).read_settings) <= own
    assert all(settings_of(FinetuneConfig)[name].is_for(task) for name in own)
    takes = inspect.signature(registry.resolve("task", task).from_rows).parameters
    is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in takes.values())
    assert is_open or own <= takes.keys()


# -- help --------------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def shown_help(command, capsys, *words):
    """The help of a command at 80 columns, as one line of words."""
    capsys.readouterr()
    command.main([*words, "--help"], standalone_mode=False)
    return re.sub(r"[\s│]+", " ", capsys.readouterr().out)


MOST_OPTIONS = {"finetune": 45, "pretrain": 40}  # shown
MOST_COMMANDS = 34


def test_there_are_few_commands_with_few_options_and_a_default_of_each(command, capsys):
    assert len(commands()) <= MOST_COMMANDS
    for path, one in commands().items():
        words = path.split()
        text = shown_help(command, capsys, *words)
        options = [one for one in one.params if one.param_type_name == "option" and not one.hidden]
        assert len(options) <= MOST_OPTIONS.get(words[0], 42), words
        for param in options:
            assert next(name for name in param.opts if name.startswith("--")) in text, (words, param.opts)


@pytest.mark.parametrize("task", registry.names("task"))
def test_the_help_of_a_task_has_only_its_options_and_examples(task, command, capsys):
    text = shown_help(command, capsys, "finetune", task)
    for name, setting in settings_of(FinetuneConfig).items():
        flag = setting.flag or "--" + name.replace("_", "-")
        if setting.recipe_only:
            assert bool(re.search(rf"Also takes [^.]*\b{name}\b", text)) == setting.is_for(task), (task, name)
        elif not setting.is_argument:
            assert bool(re.search(rf"{flag}( /|,)? (-|<|[A-Z\[])", text)) == setting.is_for(task), (task, flag)
    assert {name for name in registry.names("task") if f"maskwright finetune {name} " in text} <= {task}
    assert shown_help(command, capsys, "finetune", "--epochs", "2", task) == text, "options may precede the task"


def test_an_earlier_name_of_an_option_is_read_and_not_shown(command, capsys):
    assert "--utilisation" not in shown_help(command, capsys, "plan")
    capsys.readouterr()
    command.main(["plan", "--utilisation", "0.5", "--print-config", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["utilization"] == 0.5


def test_a_rare_setting_is_set_by_name_or_by_its_deprecated_option(command, capsys):
    start = ["pretrain", "corpus.txt", "-o", "run", "--print-config", "--json"]
    by_name, by_option = ["--set", "keep=5", "--set", "positions=rotary"], ["--keep", "5", "--set", "positions=rotary"]
    found = []
    for words in (by_name, by_option):
        command.main([*start, *words], standalone_mode=False)
        shown = capsys.readouterr()
        found.append(json.loads(shown.out))
        assert ("--set keep=VALUE" in shown.err) == ("--keep" in words)
    assert found[0] == found[1] and (found[0]["keep"], found[0]["model"]) == (5, {"positions": "rotary"})
    assert "--keep " not in shown_help(command, capsys, "pretrain")
    with pytest.raises(ConfigError, match="--set keep is 0"):
        command.main([*start, "--set", "keep=0"], standalone_mode=False)
