"""Write docs/reference/{cli,config,api}/*.md and the pages of presets, HTTP parameters and compatibility from the code.

python tools/reference.py            write the pages (what `make reference` runs)
python tools/reference.py --check    list the pages that are stale, and exit with 1 if there are any
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import inspect
import json
import re
import sys
import typing
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "src"))

import typer.main  # noqa: E402

import maskwright as mw  # noqa: E402
from maskwright.cli.app import COMMANDS, whole_app  # noqa: E402
from maskwright.core.config import (  # noqa: E402
    MISSING,
    PANELS,
    Setting,
    default_of,
    default_text,
    flag_of,
    kind_of,
    settings_of,
    typed_name,
)
from maskwright.core.storage import write_text  # noqa: E402
from maskwright.experiments.config import BenchmarkConfig, LadderConfig, RareLabConfig  # noqa: E402
from maskwright.models.presets import PRESETS  # noqa: E402
from maskwright.models.sizes import parameter_count  # noqa: E402
from maskwright.objectives.fitting import fitting_objectives, usual_objective  # noqa: E402
from maskwright.serve.dialects import hf as hf_bodies  # noqa: E402
from maskwright.serve.dialects import tei as tei_bodies  # noqa: E402
from maskwright.serve.dialects.routing import Body, Unsupported  # noqa: E402
from maskwright.serve.settings import ServeSettings  # noqa: E402
from maskwright.speed.plan_config import PlanConfig  # noqa: E402

FOLDER = REPOSITORY / "docs" / "reference"
BUILT = ("cli/", "config/", "api/")  # not stored in the repository: `make docs` writes them
HEAD = "<!-- Written by tools/reference.py (make reference); do not edit. -->\n\n"

# Configurations by page; those of one command are in its order.
CONFIGS: dict[str, tuple[type, str]] = {
    "pretrain": (mw.PretrainConfig, "Pre-training"),
    "finetune": (mw.FinetuneConfig, "Fine-tuning"),
    "multi-task": (mw.MultiTaskConfig, "Multi-task fine-tuning"),
    "distill": (mw.DistillConfig, "Distillation"),
    "experiment-layers": (mw.LayerLabConfig, "Comparison of layers"),
    "experiment-rare": (RareLabConfig, "Comparison of methods for class imbalance"),
    "experiment-ladder": (LadderConfig, "Comparison of model sizes"),
    "experiment-benchmark": (BenchmarkConfig, "Benchmark tasks"),
    "plan": (PlanConfig, "Cost estimates"),
    "serve": (ServeSettings, "Server"),
}

# Public names by page of the API reference.
API: dict[str, tuple[str, tuple[str, ...]]] = {
    "models": ("Models", ("load", "pipeline", "evaluate", "build", "preset", "ModelConfig", "Batch")),
    "tokenizer": ("Tokenizer", ("Tokenizer",)),
    "estimators": (
        "Estimators",
        (
            "TextClassifier",
            "TextRegressor",
            "TokenTagger",
            "QuestionAnswerer",
            "MultipleChoice",
            "AnomalyDetector",
            "Embedder",
            "FillMask",
            "Generator",
            "Translator",
        ),
    ),
    "embeddings": ("Semantic similarity", ("similarity", "search", "cluster", "zero_shot")),
    "training": (
        "Training",
        (
            "pretrain",
            "PretrainConfig",
            "finetune",
            "FinetuneConfig",
            "MultiTaskConfig",
            "distill",
            "DistillConfig",
            "Callback",
            "layer_lab",
            "LayerLabConfig",
        ),
    ),
    "inspection": ("Inspection", ("inspect",)),
    "errors": ("Errors", ("MaskwrightError",)),
}


def pages() -> dict[str, str]:
    """Returns the generated pages: text by path below docs/reference."""
    root = typer.main.get_command(whole_app())
    found = {"cli/index.md": cli_index(root), "config/index.md": config_index(), "config/model.md": model_page()}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        found[f"cli/{name}.md"] = command_page(name, command)
    found |= {f"config/{page}.md": config_page(cls, title) for page, (cls, title) in CONFIGS.items()}
    found |= {f"api/{page}.md": api_page(title, names) for page, (title, names) in API.items()}
    return found | {
        "api/index.md": api_index(),
        "presets.md": presets_page(),
        "http-parameters.md": http_page(),
        "compatibility.md": compatibility_page(),
        "families.md": families_page(),
    }


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    check, expected = parser.parse_args().check, pages()
    stale = stale_pages(expected) if check else write_pages(expected)
    for name in stale:
        print((FOLDER / name).relative_to(REPOSITORY))
    sys.exit(1 if check and stale else 0)


def write_pages(expected: dict[str, str], only: tuple[str, ...] = ("",)) -> list[str]:
    """Writes the stale pages and removes those without a source; returns them. only: starts of names."""
    stale = [name for name in stale_pages(expected) if name.startswith(only)]
    for name in stale:
        if name in expected:
            write_text(FOLDER / name, expected[name])
        else:
            (FOLDER / name).unlink(missing_ok=True)
    return stale


def stale_pages(expected: dict[str, str]) -> list[str]:
    """Returns the generated pages that differ from the code, are missing, or have no source any more."""
    present = {path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.md")}
    changed = [name for name, text in expected.items() if present.get(name) != text]
    return changed + [name for name, text in present.items() if text.startswith(HEAD) and name not in expected]


def next_line(*links: tuple[str, str]) -> str:
    """Returns the last line of a page."""
    return "\nNext: " + ", ".join(f"[{text}]({target})" for text, target in links) + ".\n"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a Markdown table; vertical bars of the cells are escaped."""
    header = list(header)
    lines = [header, ["---"] * len(header), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


# The command line.


def cli_index(root: Any) -> str:
    """The list of all commands, by panel of --help."""
    parts = [f"{HEAD}# Command line\n\n{root.help}\n"]
    for panel, commands in COMMANDS.items():
        rows = []
        for name in commands:
            first = (root.commands[name].help or "").partition("\n")[0]
            rows.append((f"[`maskwright {name}`]({name}.md)", first))
        parts.append(f"\n## {panel}\n\n{table(('command', 'purpose'), rows)}")
    common = (
        "\n## Conventions\n\n"
        "Exit codes: 0 success, 1 internal error, 2 invalid input or usage, 130 interrupted. Results are written to "
        "standard output, progress and logs to standard error. `maskwright --version` prints the version.\n"
    )
    return "".join(parts) + common + next_line(("quickstart", "../../quickstart.md"), ("presets", "../presets.md"))


def command_page(name: str, command: Any) -> str:
    """The page of a command, or of a group with a section for each of its commands."""
    children = getattr(command, "commands", None)
    links = [(config_title(page), f"../config/{page}.md") for page in config_pages(name)]
    links += [("all commands", "index.md")]
    if not children:
        return f"{HEAD}# maskwright {name}\n\n{command_body(name, command, 2)}{next_line(*links)}"
    parts = [f"{HEAD}# maskwright {name}\n\n{described(command)[0]}\n"]
    if command.invoke_without_command:
        parts.append(f"\n## maskwright {name}\n\n{command_body(name, command, 3)}")
    for child, one in children.items():
        path = f"{name} {child}"
        parts.append(f"\n## maskwright {path}\n\n{command_body(path, one, 3)}")
    return "".join(parts) + next_line(*links)


def config_pages(command: str) -> list[str]:
    """The configuration pages of a command, or of the commands of a group."""
    return [page for page, (cls, _) in CONFIGS.items() if cls.COMMAND.split()[0] == command]  # type: ignore[attr-defined]


def config_title(page: str) -> str:
    """The text of a link to a configuration page."""
    return f"configuration of {page.replace('-', ' ', 1) if page.startswith('experiment') else page}"


def command_body(path: str, command: Any, level: int) -> str:
    """Description, usage, examples and all options of a command. level: of its headings."""
    command = getattr(command, "documented", command)
    about, examples = described(command)
    hints = typing.get_type_hints(inspect.unwrap(command.callback), include_extras=True)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    usage = " ".join(["maskwright", path, *map(typed_argument, arguments), "[OPTIONS]"])
    parts = [f"{about}\n\n```sh\n{examples}\n```\n\nUsage: `{usage}`\n"]
    panels: dict[str, list[Any]] = {}
    for param in command.params:
        if not getattr(param, "hidden", False) and param.name != "help":
            panels.setdefault(getattr(param, "rich_help_panel", None) or "", []).append(param)
    known = sorted(panels, key=lambda panel: PANELS.index(panel) if panel in PANELS else len(PANELS))
    for panel in known:
        parts.append(f"\n{'#' * level} {panel or 'Options'}\n")
        parts += [option_entry(path, one, hints.get(one.name), level + 1) for one in panels[panel]]
    return "".join(parts)


def described(command: Any) -> tuple[str, str]:
    """The description of a command, and its examples, one per line."""
    about, _, examples = inspect.cleandoc(command.help or "").partition("Examples:")
    return about.strip(), "\n".join(filter(None, map(str.strip, examples.splitlines())))


def typed_argument(param: Any) -> str:
    """A positional argument as in the usage line."""
    name = param.name.upper() + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def option_entry(path: str, param: Any, hint: Any, level: int) -> str:
    """One option: its names and type, its meaning, its default, and the setting behind it."""
    kind = kind_of(typing.get_args(hint)[0]) if hint is not None else str
    choices = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    text = (param.help or "").replace("\\[", "[")
    found = re.fullmatch(r"(.*?)\s*\[(?:default: (.*)|required)\]", text, flags=re.DOTALL)
    about = found[1] if found else text
    default = found[2] if found else shown_default(param)
    if choices:
        about = about.replace(f" ({', '.join(choices)})", "") + f" One of: {', '.join(f'`{one}`' for one in choices)}."
    facts = ["Required." if default is None else f"Default: {default}."]
    for cls, name, setting in settings_behind(path, param.name):
        facts.append(f"Config: `{name}`.")
        facts += [f"Tasks: {', '.join(setting.tasks)}."] if setting.tasks else []
        facts += [f"Python: `{cls.__name__}.{name}`."] if cls.__name__ in mw.__all__ else []
        break
    return (
        f"\n{'#' * level} {names_of(param, kind, default == 'off')}\n\n{escaped(about)}\n\n{escaped(' '.join(facts))}\n"
    )


def escaped(text: str) -> str:
    """Text in which < of a word such as <s> is not taken as HTML."""
    return text if "`" in text else text.replace("<", "\\<")


def shown_default(param: Any) -> str | None:
    """The default of an option whose help text does not have one; None if the option is required."""
    if param.required:
        return None
    if param.default is None or param.default == ():
        return "none"
    if isinstance(param.default, bool):
        return "on" if param.default else "off"
    return f"`{param.default}`"


def names_of(param: Any, kind: Any, is_off: bool) -> str:
    """The heading of an option: "-o, --output PATH"; the --no-flag is shown only if the option is on by default."""
    if param.param_type_name == "argument":
        return f"`{typed_argument(param)}`"
    long = [one for one in param.opts if one.startswith("--")][:1]
    short = [one for one in param.opts if not one.startswith("--")]
    off = [f" / {one}" for one in param.secondary_opts if one.startswith("--") and not is_off]
    value = "" if kind is bool else f" {param.metavar or type_text(kind)}"
    return f"`{', '.join([*short, *long])}{''.join(off)}{value}`"


def settings_behind(path: str, name: str) -> Iterator[tuple[type, str, Setting]]:
    """Yields the configurations of a command that have a setting."""
    for cls, _ in CONFIGS.values():
        own = settings_of(cls)
        if cls.COMMAND in (path, path.removeprefix("bench ")) and name in own:  # type: ignore[attr-defined]
            yield cls, name, own[name]


def type_text(kind: Any) -> str:
    """A type as shown after an option: PATH, INTEGER, ..."""
    origin, items = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Literal:
        return "NAME"
    if origin in (list, tuple):
        if origin is tuple and Ellipsis not in items:
            return " ".join(map(type_text, items))
        return type_text(items[0])
    if origin is dict:
        return "NAME=VALUE"
    return {int: "INTEGER", float: "FLOAT", str: "TEXT", Path: "PATH"}.get(kind, "VALUE")


# Configuration.


def config_index() -> str:
    """How recipe files work, and the list of configurations."""
    rows = []
    for page, (cls, title) in CONFIGS.items():
        python = f"`mw.{cls.__name__}`" if cls.__name__ in mw.__all__ else ""
        rows.append((f"[{title}]({page}.md)", f"`maskwright {cls.COMMAND}`", python))  # type: ignore[attr-defined]
    return (
        f"{HEAD}# Configuration\n\n"
        "A setting has one name, which is the key of a TOML recipe, the field of a dataclass, and, with hyphens, the "
        "option of the command. `--config run.toml` reads a recipe; options override it; `--print-config` prints the "
        "resolved recipe and stops. An unknown key is an error that shows the closest known one.\n\n"
        f"{table(('configuration', 'command', 'Python'), rows)}\n"
        "The architecture of a model has [its own settings](model.md), which `--set NAME=VALUE` changes.\n"
        + next_line(("command line", "../cli/index.md"), ("run directory", "../run-directory.md"))
    )


def config_page(cls: Any, title: str) -> str:
    """The keys of one configuration as a table."""
    hints = typing.get_type_hints(cls)
    rows = []
    for one in dataclasses.fields(cls):
        setting = one.metadata["setting"]
        default = default_text(setting, default_of(one)) or "required"
        is_rare = setting.is_argument or setting.recipe_only
        flag = typed_name(one.name, setting) if is_rare else flag_of(one.name, setting)
        about = setting.help
        if typing.get_origin(kind_of(hints[one.name])) is typing.Literal:
            about = f"{about} One of: {', '.join(typing.get_args(kind_of(hints[one.name])))}."
        rows.append(
            (f"`{one.name}`", toml_type(kind_of(hints[one.name])), escaped(default), f"`{flag}`", escaped(about))
        )
    command = cls.COMMAND
    page = "plan" if command == "plan" else command.split()[0]
    public = f" In Python: `mw.{cls.__name__}`." if cls.__name__ in mw.__all__ else ""
    return (
        f"{HEAD}# {title}\n\nKeys of a recipe for `maskwright {command}`.{public}\n\n"
        + table(("key", "type", "default", "option", "meaning"), rows)
        + next_line((f"maskwright {page}", f"../cli/{page}.md"), ("configuration", "index.md"))
    )


def toml_type(kind: Any) -> str:
    """The TOML type of a setting."""
    origin, items = typing.get_origin(kind), typing.get_args(kind)
    if origin in (list, tuple):
        inner = toml_type(items[0])
        count = "" if Ellipsis in items or origin is list else f"{len(items)} "
        return f"array of {count}{inner}s"
    if origin is dict:
        return "table"
    return {bool: "boolean", int: "integer", float: "float"}.get(kind, "string")


def model_page() -> str:
    """The settings of a model's architecture."""
    hints = typing.get_type_hints(mw.ModelConfig)
    rows = []
    for one in dataclasses.fields(mw.ModelConfig):
        default = default_of(one)
        value = str(default).lower() if isinstance(default, bool) else str(default)
        shown = "required" if default is MISSING else "none" if default is None else f"`{value}`"
        rows.append((f"`{one.name}`", toml_type(kind_of(hints[one.name])), shown))
    return (
        f"{HEAD}# Model architecture\n\nFields of `mw.ModelConfig`; the defaults are BERT-Base. A command changes them "
        "with `--set NAME=VALUE`, and a recipe in its table `[network]`. "
        "[ModelConfig](../api/models.md#maskwright.ModelConfig) explains each.\n\n"
        + table(("field", "type", "default"), rows)
        + next_line(("presets", "../presets.md"), ("configuration", "index.md"))
    )


def presets_page() -> str:
    """The sizes of all presets."""
    rows = []
    for name, config in PRESETS.items():
        layers = str(config.num_hidden_layers)
        if config.num_decoder_layers:
            layers += f" + {config.num_decoder_layers}"
        has_heads = config.recurrent is None and config.num_hidden_layers
        sizes = (config.num_attention_heads, config.intermediate_size) if has_heads else ("", "")
        numbers = (layers, config.hidden_size, *sizes, config.max_position_embeddings, config.vocab_size)
        shown = [f"{one:,}" if isinstance(one, int) else one for one in (*numbers, parameter_count(config))]
        objective = usual_objective(config) if fitting_objectives(config) else ""
        rows.append((f"`{name}`", config.family, objective, *shown))
    header = ("preset", "family", "objective", "layers", "hidden", "heads", "feed-forward", "max length", "vocabulary",
              "parameters")  # fmt: skip
    return (
        f"{HEAD}# Presets\n\nModel configurations by name, for `--preset` and `mw.preset`. Sizes and parameter counts "
        "are those of the published vocabulary. Layers of an encoder-decoder are shown as encoder + decoder. Without "
        "`--objective`, `pretrain` uses that of the table.\n\n"
        + table(header, rows)
        + "\n`bag-small` has static word embeddings. In `bilstm-small` and `elmo-small`, the hidden size is that of "
        "both directions together. [RNN, LSTM and ELMo](../explanation/rnn-lstm-elmo.md) describes the recurrent "
        "presets, [Encoder-decoder models](../explanation/encoder-decoder.md) those with a decoder.\n"
        + next_line(("maskwright pretrain", "cli/pretrain.md"), ("model architecture", "config/model.md"))
    )


# The server.


def http_page() -> str:
    """The parameters of the routes that existing clients use: what each does, or why it is refused."""
    parts = [
        f"{HEAD}# HTTP parameters\n\nWhat the server does with each parameter of a request: it works, or it is refused "
        "by its name (422) with the reason. What follows a semicolon is the default.\n"
    ]
    by_method = {f"InferenceClient.{name}": kind for name, kind in hf_bodies.METHODS.items()}
    for title, kind in by_method.items():
        same = next((one for one, other in by_method.items() if other is kind), title)
        parts.append(f"\n## `{title}`\n\n")
        if same != title:
            parts.append(f"As [`{same}`](#{same.replace('.', '').lower()}).\n")
        else:
            parts.append(parameter_table(kind) or "It has no parameters.\n")
    for path, kind in TEI_BODIES.items():
        parts.append(f"\n## `{path}`\n\n{parameter_table(kind)}")
    return "".join(parts) + next_line(
        ("use the server from existing clients", "../how-to/serve-clients.md"), ("serve models", "../how-to/serve.md")
    )


TEI_BODIES: dict[str, type[Body]] = {
    "/embed": tei_bodies.EmbedBody,
    "/embed_sparse": tei_bodies.TextsBody,
    "/embed_all": tei_bodies.TextsBody,
    "/predict": tei_bodies.PredictBody,
    "/rerank": tei_bodies.RerankBody,
    "/similarity": tei_bodies.SimilarityParameters,
    "/tokenize": tei_bodies.TokenizeBody,
    "/decode": tei_bodies.DecodeBody,
}


def parameter_table(kind: type[Body]) -> str:
    """The parameters of a request body that it describes, "" without any."""
    properties = kind.model_json_schema()["properties"]
    rows = []
    for name, one in kind.model_fields.items():
        refusal = next((part for part in one.metadata if isinstance(part, Unsupported)), None)
        about = one.description or ""
        if refusal is not None:
            only = f"Only `{json.dumps(refusal.allowed[0])}`" if refusal.allowed else "Refused"
            about = f"{only}: {refusal.why}."
        if about:
            rows.append((f"`{name}`", "" if refusal else value_text(properties[name]), escaped(about)))
    return table(("parameter", "value", "meaning"), rows) if rows else ""


def value_text(schema: dict[str, Any]) -> str:
    """What a parameter may be, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(text for one in schema["anyOf"] if (text := value_text(one)))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum")
    span = "" if low is None else f" from {low:g}" if high is None else f" {low:g} to {high:,g}"
    kind = schema.get("type", "object")
    names = {"array": "list", "boolean": "true or false", "string": "text", "null": ""}
    return names.get(kind, kind) + span


# What other libraries do.


def compatibility_rows() -> list[tuple[str, str, str, str]]:
    """Returns library and version, its behavior, ours and the test, of each test with the marker `compatibility`."""
    rows = []
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "mark.compatibility(" in text else ():
            for mark in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.compatibility":
                    behavior = {one.arg: ast.literal_eval(one.value) for one in mark.keywords}
                    place = f"`{path.relative_to(REPOSITORY).as_posix()}::{node.name}`"
                    rows.append((ast.literal_eval(mark.args[0]), behavior["theirs"], behavior["ours"], place))
    return sorted(rows, key=lambda row: (row[0].lower(), row[3]))


def compatibility_page() -> str:
    """What libraries and formats do that one would not expect, and what Maskwright does."""
    return (
        f"{HEAD}# Compatibility\n\nBehavior of libraries, tools and formats that is easily overlooked, what Maskwright "
        "does there, and the test that holds it. The scripts in `findings/` reproduce what the libraries do, without "
        "Maskwright: `make findings`.\n\n"
        + table(("library and version", "its behavior", "Maskwright", "test"), compatibility_rows())
        + next_line(("file formats", "file-formats.md"), ("coming from transformers", "../from-transformers.md"))
    )


def families_page() -> str:
    """What works with every family and head, as tests/parity/coverage.py measured it."""
    stored = json.loads((REPOSITORY / "tests/parity/coverage.json").read_text(encoding="utf-8"))
    columns = list(next(iter(next(iter(stored.values())).values())))
    reasons: dict[str, int] = {}

    def cell(value: float | str) -> str:
        if isinstance(value, str):
            return f"[{reasons.setdefault(value, len(reasons) + 1)}]"
        return f"{value:.0e}"

    rows = [
        (f"`{name}`", head, *(cell(found[column]) for column in columns))
        for name, heads in stored.items()
        for head, found in heads.items()
    ]
    notes = "".join(f"{number}. {reason}\n" for reason, number in reasons.items())
    return (
        f"{HEAD}# Families and heads\n\nThe largest difference of each use, in float32, with small random weights and "
        "settings that are not the defaults. **open**: a folder of transformers opened here; **save**: our folder "
        "opened by transformers; **pack**: texts of one pack against each alone; **engine**: the inference engine; "
        "**LoRA**: our adapter opened by PEFT; **ONNX**, **OpenVINO**: the graph in their runtimes. All of these but "
        "packs compare outputs with transformers'. **bf16**, **int8**: the engine in this precision, the norm of the "
        "difference of the hidden states to float32, as part of theirs. **server**: its answers against those of the "
        "library. "
        "`PYTHONPATH=src:tests python -m parity.coverage` measures again.\n\n"
        + table(("family", "head", *columns), rows)
        + (f"\n{notes}" if notes else "")
        + next_line(("compatibility", "compatibility.md"), ("presets", "presets.md"))
    )


# The API.


def api_index() -> str:
    """The list of all public names."""
    parts = [f"{HEAD}# Python API\n\n`import maskwright as mw`\n"]
    for page, (title, names) in API.items():
        rows = [(f"[`mw.{name}`]({page}.md#maskwright.{name})", summary(name)) for name in names]
        parts.append(f"\n## {title}\n\n{table(('name', 'purpose'), rows)}")
    return "".join(parts) + next_line(("quickstart", "../../quickstart.md"), ("command line", "../cli/index.md"))


def api_page(title: str, names: tuple[str, ...]) -> str:
    """Entries that the site fills from the docstrings."""
    parts = [f"{HEAD}# {title}\n", *(f"\n::: maskwright.{name}\n" for name in names)]
    if "TextClassifier" in names:
        shared = ("base.FineTuned", "base.WholeText", "pretrained.Pretrained")
        parts += ["\n## Parameters that they share\n", *(f"\n::: maskwright.estimators.{name}\n" for name in shared)]
    if "MaskwrightError" in names:
        tree = (import_module("maskwright.core.errors").__doc__ or "").split("\n\n")[1]
        parts.append(f"\n## All errors\n\n```text\n{inspect.cleandoc(tree)}\n```\n")
    return "".join(parts) + next_line(("all names", "index.md"), ("command line", "../cli/index.md"))


def summary(name: str) -> str:
    """The first sentence of the docstring of a public name."""
    text = inspect.getdoc(getattr(mw, name)) or ""
    return escaped(re.split(r"(?<=[.])\s", text.split("\n\n")[0].replace("\n", " "))[0])


if __name__ == "__main__":
    main()
