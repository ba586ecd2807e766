"""`maskwright doctor`: checks of the machine, of data and of model folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import typer

from ..core import registry
from ..core.config import check_name, command_line, option, to_dict
from ..core.errors import ConfigError
from ..core.progress import note
from ..core.util import plural
from ..tasks.specs import task_for
from ..train.settings import SEED
from .common import DebugFlag, JsonFlag, QuietFlag, print_json, print_table, print_text
from .settings import SettingsCommand, takes_settings
from .using import MODEL, AnnotatedRows, Hardware

if TYPE_CHECKING:
    from ..doctor.clinic import Diagnosis

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
WORST = 20  # likely label errors to show


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """Settings of `maskwright doctor model`."""

    COMMAND: ClassVar[str] = "doctor model"

    folder: str = option(help=MODEL)
    accept: bool = option(False, "Show which files have changed, and record them as they are now in the manifest.")


@dataclass(frozen=True, kw_only=True)
class DataSettings(Hardware, AnnotatedRows):
    """Settings of `maskwright doctor data`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "doctor data"

    train: Path = option(help="Training file of any task.", is_argument=True)
    dev: Path | None = option(None, "Dev file; checked for overlap with TRAIN.")
    task: str | None = option(None, "Task of the data.", default_help="detected from the file")
    tokenizer: Path | None = option(None, "Tokenizer or model folder, to report token lengths and truncation.")
    fix: Path | None = option(None, "Write a copy of TRAIN without duplicates, leaks, conflicts and bad rows.")
    model: str | None = option(None, "With --mislabeled: encoder that embeds the texts.")
    mislabeled: bool = option(
        False,
        "List the rows whose label is most likely wrong.",
        old_flag="--mislabelled",  # terms: ok
    )
    output: Path | None = option(
        None, "Write an HTML page, or the likely label errors (.tsv, .csv, .jsonl).", short="-o"
    )
    seed: int = option(0, SEED)

    def __post_init__(self) -> None:
        if self.mislabeled and self.model is None:
            raise ConfigError("--mislabeled needs --model: an encoder for text features.")
        if self.mislabeled and (self.dev is not None or self.fix is not None or self.tokenizer is not None):
            raise ConfigError("--mislabeled looks at the labels of one file; remove --dev, --fix and --tokenizer.")
        if self.task is not None:
            check_name("task", "task", self.task, registry.names("task"))
        if self.mislabeled and self.task not in (None, task_for("texts")):
            raise ConfigError(f"--mislabeled finds label errors in text classification, not in {self.task}.")
        if not self.mislabeled and self.model is not None:
            raise ConfigError("--model goes with --mislabeled; lengths in tokens come from --tokenizer.")
        is_page = self.output is None or self.output.suffix.lower() in (".html", ".htm")
        if not self.mislabeled and not is_page:
            raise ConfigError(f"{self.output} must end in .html: the report is an HTML page.")


@app.callback()
def machine(context: typer.Context, json: JsonFlag = False, quiet: QuietFlag = False, debug: DebugFlag = False) -> None:
    """Check this machine and installation; with a command, check data or a model folder.

    Examples:

        maskwright doctor

        maskwright doctor --json
    """
    if context.invoked_subcommand is not None:
        return
    from ..doctor.machine import machine_facts

    facts = machine_facts()
    if json:
        print_json(facts)
        return
    processor, picked = facts["processor"], facts["picked"]
    memory = facts["memory_bytes"]
    rows = [
        ("system", f"{facts['system']}, Python {facts['python']}"),
        ("cores", f"{processor['cores']}, {processor['usable_cores']} usable; {processor['threads']} threads"),
        ("instruction sets", ", ".join(facts["instruction_sets"]) or "not known"),
        ("memory", "not known" if memory is None else f"{memory / 1e9:.1f} GB"),
        ("devices", ", ".join(f"{one['device']} ({one['name']})" for one in facts["devices"])),
        ("--device auto", f"{picked['device']}: {picked['why_device']}"),
        ("--precision auto", f"{picked['precision']}: {picked['why_precision']}"),
        *[(f"inference in {name}", f"{one['products']}: {one['why']}") for name, one in facts["engine"].items()],
        *[(f"--executor {name}", said) for name, said in facts["executors"].items()],
        *[(f"training: {name}", f"{one['picked']}: {one['why']}") for name, one in facts["training"].items()],
        *[(name, value or "missing") for name, value in facts["versions"].items()],
        *[(f"extra [{name}]", _extra(name, missing)) for name, missing in facts["extras"].items()],
    ]
    print_table(("what", "here"), rows)


def _extra(name: str, missing: list[str]) -> str:
    return f"lacks {', '.join(missing)}: pip install 'maskwright[{name}]'" if missing else "installed"


@app.command(cls=SettingsCommand)
@takes_settings(ModelSettings)
def model(settings: ModelSettings, json: JsonFlag = False) -> None:
    """Check a model folder: files, sizes, heads, consistency, and loading.

    Problems are reported, not raised: the exit code is 0 if the folder exists.

    Examples:

        maskwright doctor model runs/b/model

        maskwright doctor model runs/b/model --json

        maskwright doctor model runs/b/model --accept
    """
    from ..doctor.model import accept_model, examine_model

    folder, accept = settings.folder, settings.accept
    accepted = accept_model(folder) if accept else {}
    facts = examine_model(folder) | ({"accepted": accepted} if accept else {})
    for name, change in accepted.items():
        note(f"accepted: {name} {change}")
    if accept and not accepted:
        note("Nothing has changed since the manifest was written.")
    if json:
        print_json(facts)
        return
    print_table(
        ("file", "bytes", "sha256"),
        [(one["file"], f"{one['bytes']:,}", one["sha256"][:16]) for one in facts["files"]],
        right=("bytes",),
    )
    left_out = ("files", "problems", "folder", "accepted")
    print_table(("what", "here"), [(name, _worded(value)) for name, value in facts.items() if name not in left_out])
    for found in facts["problems"]:
        print_text(f"problem: {found['part']}: {found['problem']}")
    if not facts["problems"]:
        print_text("No problem was found.")


def _worded(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_worded(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value[:12])) + (f" and {len(value) - 12} more" if len(value) > 12 else "") or "-"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)


@app.command(cls=SettingsCommand)
@takes_settings(DataSettings)
def data(settings: DataSettings, json: JsonFlag = False) -> None:
    """Check data for duplicates, leakage, conflicting labels, invalid rows, odd characters and class imbalance.

    Findings are reported, not raised: the exit code is 0 unless the file cannot be read.

    Examples:

        maskwright doctor data train.tsv --dev dev.tsv -o data.html

        maskwright doctor data train.tsv --dev dev.tsv --fix train.fixed.tsv

        maskwright doctor data train.conll --dev dev.conll --tokenizer runs/a/model --json

        maskwright doctor data train.tsv --mislabeled --model runs/a/model -o doubtful.tsv
    """
    if settings.mislabeled:
        _show_mislabeled(settings, json)
        return
    from ..doctor.clinic import examine, next_steps, write_diagnosis
    from ..doctor.fix import check_fix, write_fixed

    train, fix, output = settings.train, settings.fix, settings.output
    if fix is not None:
        check_fix(train, fix)
    words = None
    if settings.tokenizer is not None:
        from ..text.tokenizers.tokenizer import Tokenizer

        words = Tokenizer.load(settings.tokenizer)
    found = examine(train, settings.dev, task=settings.task, columns=settings.roles, tokenizer=words)
    result = found.to_json()
    if fix is not None:
        result["fixed"] = {"file": str(fix), **write_fixed(found, fix)}
    if output is not None:
        write_diagnosis(output, found, command_line(DataSettings, to_dict(settings)))
        result["report"] = str(output)
    if json:
        print_json(result)
        return
    _show(found, result)
    step = next_steps(found)[-1 if fix else 0]
    print_text(f"next:   {step.command}   ({step.about})")


def _show(found: Diagnosis, result: dict[str, Any]) -> None:
    for facts in result["files"]:
        numbers = [
            f"{name} {value:.1%}" if "share" in name else f"{name} {value:,.0f}"
            for name, value in facts.items()
            if not isinstance(value, str)
        ]
        kind = f"{facts['format']}, {result['task']}" if facts["format"] else result["task"]
        print_text(f"{facts['file']} ({kind}): {', '.join(numbers).replace('_', ' ')}")
        if "read" in facts:
            print_text(facts["read"])
    if not found.findings:
        print_text("Nothing was found that would harm training.")
    for finding in found.findings:
        print_text(f"\n{finding.severity}: {finding.sentence} {finding.advice}".rstrip())
        for place in finding.places:
            print_text(f"  {place.file}:{place.line}  {place.detail}")
        if len(finding.places) < finding.count and finding.places:
            print_text(f"  and {finding.count - len(finding.places):,} more")
    print_text(f"\n{found.seconds:.1f} s")
    if "fixed" in result:
        kinds = result["fixed"]
        repeats = f"{plural(kinds['duplicates'], 'duplicate')}, {plural(kinds['leaks'], 'leak')}"
        print_text(
            f"copy:   {kinds['file']} with {plural(kinds['kept'], 'row')}; left out: {repeats}, "
            f"{kinds['conflicts']:,} in conflict, {kinds['bad_rows']:,} bad"
        )
    if "report" in result:
        print_text(f"report: {result['report']}")


def _show_mislabeled(settings: DataSettings, json: bool) -> None:
    """The rows whose label is most likely wrong, worst first."""
    from ..api import open_embedder
    from ..doctor.mislabeled import suspect_rows
    from ..inference.output_files import check_output, write_answers
    from ..tasks.examples import content_of
    from ..text.readers.tables import read_table

    output = settings.output
    if output is not None:
        check_output(output)
    table = read_table(settings.train, columns=settings.roles or None, skip_bad_rows=settings.skip_bad_rows)
    encoder = open_embedder(str(settings.model), device=settings.device, precision=settings.precision)
    note(f"features of {plural(len(table), 'row')}")
    texts = [content_of(row) for row in table.rows]
    rows = suspect_rows(table.rows, encoder.vectors(texts), seed=settings.seed)
    if output is not None:
        write_answers(output, rows)
    if json:
        print_json(
            {"rows": len(table), "suspects": len(rows), "file": str(output) if output else None, "worst": rows[:WORST]}
        )
        return
    shown = [
        (row["line"], row["label"], row["likely"], f"{row['margin']:.3f}", " ".join(row["text"].split())[:60])
        for row in rows[:WORST]
    ]
    print_table(("line", "label", "likely", "margin", "text"), shown, right=("line", "margin"))
    have = "has" if len(rows) == 1 else "have"
    print_text(f"{len(rows):,} of {plural(len(table), 'row')} {have} a label that is probably wrong.")
    print_text(f"all of them, worst first: {output}" if output is not None else "next:   the same with -o doubtful.tsv")
