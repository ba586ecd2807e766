"""`maskwright doctor`: checks of the machine, of a data file or of a model folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..core import registry
from ..core.config import check, check_name, command_line, option, to_dict
from ..core.progress import note
from ..core.util import plural
from ..tasks.specs import task_for
from ..train.settings import SEED
from .common import Part, Result, Table
from .settings import takes_settings
from .using import AnnotatedRows, Hardware

if TYPE_CHECKING:
    from ..doctor.clinic import Diagnosis

WORST = 20  # likely label errors to show
DATA_FILES = (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".txt", ".conll", ".gz", ".xz", ".zst")


@dataclass(frozen=True, kw_only=True)
class DoctorSettings(Hardware, AnnotatedRows):
    """Settings of `maskwright doctor`. Raises ConfigError for options that exclude each other."""

    COMMAND: ClassVar[str] = "doctor"

    path: str | None = option(
        None, "Training file of any task, or a model.", is_argument=True, default_help="this machine"
    )
    dev: Path | None = option(None, "Dev file; checked for overlap with the training file.")
    task: str | None = option(None, "Task of the data.", default_help="detected from the file")
    tokenizer: Path | None = option(None, "Tokenizer or model folder, to report token lengths and truncation.")
    fix: Path | None = option(None, "Write a copy of the file without duplicates, leaks, conflicts and bad rows.")
    model: str | None = option(None, "With --mislabeled: encoder that embeds the texts.")
    mislabeled: bool = option(
        False,
        "List the rows whose label is most likely wrong.",
        old_flag="--mislabelled",  # terms: ok
    )
    accept: bool = option(False, "Of a model: show which files have changed, and record them in the manifest.")
    output: Path | None = option(
        None, "Write an HTML page, or the likely label errors (.tsv, .csv, .jsonl).", short="-o"
    )
    seed: int = option(0, SEED)

    @property
    def is_data(self) -> bool:
        """Whether the path is one of a data file, or of a folder of annotations."""
        if self.path is None:
            return False
        path = Path(self.path)
        if path.is_dir():
            from ..text.annotations.reader import annotation_format

            return annotation_format(path) is not None
        return path.is_file() or path.suffix.lower() in DATA_FILES

    def __post_init__(self) -> None:
        of_data = {
            "--dev": self.dev, "--task": self.task, "--tokenizer": self.tokenizer, "--fix": self.fix,
            "--model": self.model, "--mislabeled": self.mislabeled or None, "--output": self.output,
        }  # fmt: skip
        if not self.is_data:
            given = [flag for flag, value in of_data.items() if value is not None]
            check(not given, f"{', '.join(given)} goes with a data file, as in maskwright doctor train.tsv.")
            check(self.path is not None or not self.accept, "--accept goes with a model folder.")
            return
        check(not self.accept, "--accept goes with a model folder.")
        if self.task is not None:
            check_name("task", "task", self.task, registry.names("task"))
        if not self.mislabeled:
            check(self.model is None, "--model goes with --mislabeled; lengths in tokens come from --tokenizer.")
            is_page = self.output is None or self.output.suffix.lower() in (".html", ".htm")
            check(is_page, f"{self.output} must end in .html: the report is an HTML page.")
            return
        check(self.model is not None, "--mislabeled needs --model: an encoder for text features.")
        is_alone = self.dev is None and self.fix is None and self.tokenizer is None
        check(is_alone, "--mislabeled looks at the labels of one file; remove --dev, --fix and --tokenizer.")
        is_text = self.task in (None, task_for("texts"))
        check(is_text, f"--mislabeled finds label errors in text classification, not in {self.task}.")


@takes_settings(DoctorSettings)
def doctor(settings: DoctorSettings) -> Iterator[Result]:
    """Check this machine and installation, a data file, or a model folder.

    A data file is checked for duplicates, leakage, conflicting labels, invalid rows, odd characters and class
    imbalance; a model for its files, sizes, heads, consistency, and loading. Problems are reported, not raised: the
    exit code is 0 unless the file cannot be read.

    Examples:

        maskwright doctor

        maskwright doctor train.tsv --dev dev.tsv -o data.html

        maskwright doctor train.tsv --dev dev.tsv --fix train.fixed.tsv

        maskwright doctor train.conll --dev dev.conll --tokenizer runs/a/model --json

        maskwright doctor train.tsv --mislabeled --model runs/a/model -o doubtful.tsv

        maskwright doctor runs/b/model --accept
    """
    if settings.path is None:
        yield _machine()
    elif not settings.is_data:
        yield _model(settings.path, settings.accept)
    else:
        yield (_mislabeled if settings.mislabeled else _data)(settings, Path(settings.path))


def _machine() -> Result:
    from ..doctor.machine import machine_facts

    facts = machine_facts()
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
        *[(f"layers in {name}", f"{one['products']}: {one['why']}") for name, one in facts["layers"].items()],
        *[(f"--executor {name}", said) for name, said in facts["executors"].items()],
        *[(f"training: {name}", f"{one['picked']}: {one['why']}") for name, one in facts["training"].items()],
        *[(name, value or "missing") for name, value in facts["versions"].items()],
    ]
    for name, missing in facts["extras"].items():
        lacks = f"lacks {', '.join(missing)}: pip install 'maskwright[{name}]'"
        rows.append((f"extra [{name}]", lacks if missing else "installed"))
    return facts, (Table(("what", "here"), rows),)


def _model(folder: str, accept: bool) -> Result:
    from ..doctor.model import accept_model, examine_model

    accepted = accept_model(folder) if accept else {}
    facts = examine_model(folder) | ({"accepted": accepted} if accept else {})
    for name, change in accepted.items():
        note(f"accepted: {name} {change}")
    if accept and not accepted:
        note("Nothing has changed since the manifest was written.")
    files = [(one["file"], f"{one['bytes']:,}", one["sha256"][:16]) for one in facts["files"]]
    left_out = ("files", "problems", "folder", "accepted")
    return facts, (
        Table(("file", "bytes", "sha256"), files, right=("bytes",)),
        Table(("what", "here"), [(name, _worded(value)) for name, value in facts.items() if name not in left_out]),
        *(f"problem: {found['part']}: {found['problem']}" for found in facts["problems"]),
        None if facts["problems"] else "No problem was found.",
    )


def _worded(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_worded(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value[:12])) + (f" and {len(value) - 12} more" if len(value) > 12 else "") or "-"
    return f"{value:,}" if isinstance(value, int) else "-" if value is None else str(value)


def _data(settings: DoctorSettings, train: Path) -> Result:
    from ..doctor.clinic import examine, next_steps, write_diagnosis
    from ..doctor.fix import check_fix, write_fixed

    fix, output = settings.fix, settings.output
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
        write_diagnosis(output, found, command_line(DoctorSettings, to_dict(settings)))
        result["report"] = str(output)
    step = next_steps(found)[-1 if fix else 0]
    return result, (*_findings(found, result), f"next:   {step.command}   ({step.about})")


def _findings(found: Diagnosis, result: dict[str, Any]) -> Iterator[Part]:
    for facts in result["files"]:
        numbers = [
            f"{name} {value:.1%}" if "share" in name else f"{name} {value:,.0f}"
            for name, value in facts.items()
            if not isinstance(value, str)
        ]
        kind = f"{facts['format']}, {result['task']}" if facts["format"] else result["task"]
        yield f"{facts['file']} ({kind}): {', '.join(numbers).replace('_', ' ')}"
        if "read" in facts:
            yield facts["read"]
    if not found.findings:
        yield "Nothing was found that would harm training."
    for finding in found.findings:
        yield f"\n{finding.severity}: {finding.sentence} {finding.advice}".rstrip()
        for place in finding.places:
            yield f"  {place.file}:{place.line}  {place.detail}"
        if len(finding.places) < finding.count and finding.places:
            yield f"  and {finding.count - len(finding.places):,} more"
    yield f"\n{found.seconds:.1f} s"
    if "fixed" in result:
        kinds = result["fixed"]
        repeats = f"{plural(kinds['duplicates'], 'duplicate')}, {plural(kinds['leaks'], 'leak')}"
        yield (
            f"copy:   {kinds['file']} with {plural(kinds['kept'], 'row')}; left out: {repeats}, "
            f"{kinds['conflicts']:,} in conflict, {kinds['bad_rows']:,} bad"
        )
    if "report" in result:
        yield f"report: {result['report']}"


def _mislabeled(settings: DoctorSettings, train: Path) -> Result:
    """The rows whose label is most likely wrong, worst first."""
    from ..api import open_embedder
    from ..doctor.clinic import suspect_rows
    from ..inference.output_files import check_output, write_answers
    from ..tasks.examples import content_of
    from ..text.readers.tables import read_table

    output = settings.output
    if output is not None:
        check_output(output)
    table = read_table(train, columns=settings.roles or None, skip_bad_rows=settings.skip_bad_rows)
    encoder = open_embedder(str(settings.model), device=settings.device, precision=settings.precision)
    note(f"features of {plural(len(table), 'row')}")
    texts = [content_of(row) for row in table.rows]
    rows = suspect_rows(table.rows, encoder.vectors(texts), seed=settings.seed)
    if output is not None:
        write_answers(output, rows)
    shown = [
        (row["line"], row["label"], row["likely"], f"{row['margin']:.3f}", " ".join(row["text"].split())[:60])
        for row in rows[:WORST]
    ]
    columns, have = ("line", "label", "likely", "margin", "text"), "has" if len(rows) == 1 else "have"
    file = str(output) if output else None
    return {"rows": len(table), "suspects": len(rows), "file": file, "worst": rows[:WORST]}, (
        Table(columns, shown, right=("line", "margin")),
        f"{len(rows):,} of {plural(len(table), 'row')} {have} a label that is probably wrong.",
        f"all of them, worst first: {output}" if output else "next:   the same with -o doubtful.tsv",
    )
