"""`maskwright doctor`: what this machine can do, and what is wrong with data or a model folder before work begins."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..core.errors import ConfigError
from ..core.plural import plural
from ..core.progress import note
from .common import (
    ColumnsOption,
    DebugFlag,
    DeviceOption,
    JsonFlag,
    PrecisionOption,
    QuietFlag,
    SeedOption,
    SkipBadRowsFlag,
    ThreadsOption,
    parse_columns,
    print_json,
    print_table,
    print_text,
    set_threads,
)

if TYPE_CHECKING:
    from ..doctor.clinic import Diagnosis

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
WORST = 20  # doubtful rows that are shown
Task = Literal["classification", "regression", "tagging", "qa", "choice"]


@app.callback()
def machine(context: typer.Context, json: JsonFlag = False, quiet: QuietFlag = False, debug: DebugFlag = False) -> None:
    """Say what this machine and installation can do; with a command, what is wrong with data or a model folder.

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
        *[(f"training: {name}", f"{one['picked']}: {one['why']}") for name, one in facts["training"].items()],
        *[(name, value or "missing") for name, value in facts["versions"].items()],
        *[(f"extra [{name}]", _extra(name, missing)) for name, missing in facts["extras"].items()],
    ]
    print_table(("what", "here"), rows)


def _extra(name: str, missing: list[str]) -> str:
    return f"lacks {', '.join(missing)}: pip install 'maskwright[{name}]'" if missing else "installed"


@app.command()
def model(
    folder: Annotated[str, typer.Argument(help="A model folder, or a name of the hub.")],
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Look into a model folder: files, sizes, heads, whether its parts belong together, and what loading would say.

    Problems are told, not raised: the exit code is 0 when there is such a folder.

    Examples:

        maskwright doctor model runs/b/model

        maskwright doctor model runs/b/model --json
    """
    from ..doctor.model import examine_model

    facts = examine_model(folder)
    if json:
        print_json(facts)
        return
    print_table(
        ("file", "bytes", "sha256"),
        [(one["file"], f"{one['bytes']:,}", one["sha256"][:16]) for one in facts["files"]],
        right=("bytes",),
    )
    left_out = ("files", "problems", "folder")
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


@app.command()
def data(
    train: Annotated[Path, typer.Argument(help="Labelled rows to train on, of any task.")],
    dev: Annotated[Path | None, typer.Option(help="The rows to score on: what is in both is found.")] = None,
    task: Annotated[Task | None, typer.Option(help="What they are for.  [default: as the file looks]")] = None,
    columns: ColumnsOption = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A tokenizer or model folder: lengths in its tokens, and what is cut.")
    ] = None,
    fix: Annotated[
        Path | None, typer.Option(help="Write a copy of TRAIN without duplicates, leaks, conflicts and bad rows.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="With --mislabelled: the encoder to judge labels with.")] = None,
    mislabelled: Annotated[
        bool, typer.Option("--mislabelled", help="List the rows whose label is most likely wrong.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A page (.html), or the doubtful rows (.tsv, .csv, .jsonl).")
    ] = None,
    seed: SeedOption = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = "auto",
    threads: ThreadsOption = None,
    skip_bad_rows: SkipBadRowsFlag = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """Look for what would harm training: repeats, leaks, conflicting labels, bad rows, odd characters, uneven classes.

    Findings are told, not raised: the exit code is 0 unless nothing can be read.

    Examples:

        maskwright doctor data train.tsv --dev dev.tsv -o data.html

        maskwright doctor data train.tsv --dev dev.tsv --fix train.fixed.tsv

        maskwright doctor data train.conll --dev dev.conll --tokenizer runs/a/model --json

        maskwright doctor data train.tsv --mislabelled --model runs/a/model -o doubtful.tsv
    """
    set_threads(threads)
    if mislabelled:
        if model is None:
            raise ConfigError("--mislabelled needs --model: the encoder whose features judge the labels.")
        if dev is not None or fix is not None or tokenizer is not None:
            raise ConfigError("--mislabelled looks at the labels of one file; leave --dev, --fix and --tokenizer out.")
        _mislabelled(train, task, columns, model, output, seed or 0, device, precision, skip_bad_rows, json)
        return
    if model is not None:
        raise ConfigError("--model goes with --mislabelled; lengths in tokens come from --tokenizer.")
    from ..doctor.clinic import examine
    from ..doctor.fix import check_fix, write_fixed
    from ..doctor.report import next_steps, write_diagnosis

    if output is not None and output.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"{output} must end in .html: the examination is written as a page.")
    if fix is not None:
        check_fix(train, fix)
    words = None
    if tokenizer is not None:
        from ..text.tokenizer import Tokenizer

        words = Tokenizer.load(tokenizer)
    found = examine(train, dev, task=task, columns=parse_columns(columns), tokenizer=words)
    result = found.to_json()
    if fix is not None:
        result["fixed"] = {"file": str(fix), **write_fixed(found, fix)}
    if output is not None:
        write_diagnosis(output, found, shlex.join(["maskwright", *sys.argv[1:]]))
        result["report"] = str(output)
    if json:
        print_json(result)
        return
    _show(found, result)
    for command, about in next_steps(found)[-1:] if fix else next_steps(found)[:1]:
        print_text(f"next:   {command}   ({about})")


def _show(found: Diagnosis, result: dict[str, Any]) -> None:
    for facts in result["files"]:
        numbers = [
            f"{name} {value:.1%}" if "share" in name else f"{name} {value:,.0f}"
            for name, value in facts.items()
            if name != "file"
        ]
        print_text(f"{facts['file']} ({result['task']}): {', '.join(numbers).replace('_', ' ')}")
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


def _mislabelled(
    train: Path,
    task: str | None,
    columns: str | None,
    model: str,
    output: Path | None,
    seed: int,
    device: str,
    precision: str,
    skip_bad_rows: bool,
    json: bool,
) -> None:
    if task not in (None, "classification"):
        raise ConfigError(f"Doubtful labels are looked for among classes of texts, not for {task}.")
    from ..api import open_embedder
    from ..doctor.mislabelled import suspect_rows
    from ..inference.answers_file import check_output, write_answers
    from ..tasks.examples import content_of
    from ..text.tables import read_table

    if output is not None:
        check_output(output)
    table = read_table(train, columns=parse_columns(columns) or None, skip_bad_rows=skip_bad_rows)
    encoder = open_embedder(model, device=device, precision=precision)
    note(f"features of {plural(len(table), 'row')}")
    texts = [content_of(row) for row in table.rows]
    rows = suspect_rows(table.rows, encoder.vectors(texts), seed=seed)
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
    print_text(f"{len(rows):,} of {plural(len(table), 'row')} {have} a label that the others do not bear out.")
    print_text(f"all of them, worst first: {output}" if output is not None else "next:   the same with -o doubtful.tsv")
