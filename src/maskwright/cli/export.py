"""`maskwright export` and `push`: a model as a graph, as another model folder, or on the Hugging Face Hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from ..core import registry
from ..core.config import flag_of, option, settings_of
from ..core.errors import ConfigError
from ..core.progress import note
from ..core.util import plural
from ..export.config import ExportConfig
from .common import Result, Table
from .settings import Given, load_recipe, next_command, takes_settings

FOLDER = "folder"  # the value of --to for a model folder
if TYPE_CHECKING:
    Target = str
else:
    Target = Literal[(*registry.names("export_format"), FOLDER)]


@dataclass(frozen=True, kw_only=True)
class FolderSettings:
    """Settings of `maskwright export --to folder`."""

    COMMAND: ClassVar[str] = "export"

    model: str = option(
        help="Model folder, adapter, or Hugging Face Hub model ID; with --to folder also a pytorch_model.bin.",
        is_argument=True,
    )
    output: Path = option(help="New folder.", short="-o")
    to: Target = option("onnx", "Format of the graph, or a whole safetensors model folder", old_flag="--format")
    weights: str | None = option(
        None,
        "With --to folder: store the weights as fp16 or bf16 (half the size), int8 (a quarter; read only by "
        "Maskwright) or fp32; they load as float32.",
    )
    adapter: str | None = option(
        None, "With --to folder: merge this one of the adapters in the weights file, such as retrieval.query."
    )


def _recipe(path: Path | None, given: Given) -> ExportConfig | FolderSettings:
    """The settings of a graph, or of a model folder."""
    own = settings_of(FolderSettings)
    if given.get("to") == FOLDER:
        if wrong := [
            flag_of(name, one) for name, one in settings_of(ExportConfig).items() if name in given.keys() - own
        ]:
            raise ConfigError(f"{', '.join(wrong)} goes with graphs, not with --to {FOLDER}.")
        folder: FolderSettings = load_recipe(FolderSettings, path, given)
        return folder
    if "weights" in given:
        raise ConfigError(f"--weights goes with --to {FOLDER}; a graph has --precision.")
    if "adapter" in given:
        raise ConfigError(f"--adapter goes with --to {FOLDER}: export the graph of that folder.")
    graph: ExportConfig = load_recipe(ExportConfig, path, given)
    return graph


@takes_settings(FolderSettings, ExportConfig, read=_recipe)
def export(settings: ExportConfig | FolderSettings) -> Iterator[Result]:
    """Export a model as a graph, with its tokenizer and settings, for programs without maskwright.

    The graph has dynamic batch size and length. Before the folder appears, the graph runs on texts of unequal lengths
    and is compared with the model. An adapter is merged. An int8 graph is calibrated on typical texts, and compared on
    others of them, also cut to a few words.

    --to folder writes a whole safetensors model folder: from an adapter, from pickled weights (pytorch_model.bin), or
    with --weights in another format. A pickle can run code when it is opened: it is read without running any, in a
    separate process without network or file access.

    Examples:

        maskwright export runs/a/model -o exported/

        maskwright export runs/a/model --to openvino -o exported/

        maskwright export runs/a/model --precision int8 --calibrate-on texts.txt -o exported/

        maskwright export old-bert/ --to folder -o bert/

        maskwright export runs/a/model --to folder --weights fp16 -o small/

        maskwright export runs/adapter/model --to folder -o merged/
    """
    if isinstance(settings, FolderSettings):
        yield _converted(settings)
        return
    from ..export.card import AGREEMENT, figures_of
    from ..export.export import export_model

    done = export_model(settings, note)
    files = ", ".join(graph["file"] for graph in done.spec["graphs"].values())
    agreement = done.agreement
    rows = [
        [name, f"{one.compared:,}", f"{one.largest_difference:.1e}", *figures_of(asdict(one))]
        for name, one in agreement.outputs.items()
    ]
    columns = ["output", "compared", "largest_difference", *AGREEMENT]
    title = f"agreement with the model on {agreement.num_texts} texts ({agreement.runtime})"
    yield (
        {"folder": str(done.folder), **done.spec},
        (
            f"{done.folder}: {files}, {done.spec['size_bytes'] / 1e6:,.1f} MB, {done.spec['precision']}",
            Table(columns, rows, title, right=columns[1:]),
        ),
    )


def _converted(settings: FolderSettings) -> Result:
    from ..hub.convert import convert, store_as

    model, output, weights = settings.model, settings.output, settings.weights
    if weights is None and settings.adapter is None:
        done = convert(model, output)
    else:
        done = store_as(model, output, weights or "fp32", settings.adapter)
    kinds = ", ".join(f"{count:,} {dtype}" for dtype, count in done.dtypes.items())
    tied = f"Stored once, as loading ties them: {', '.join(done.tied)}" if done.tied else None
    return asdict(done), (f"{done.num_tensors:,} tensors ({kinds}), {done.num_bytes:,} bytes: {done.folder}", tied)


@dataclass(frozen=True, kw_only=True)
class PushSettings:
    """Settings of `maskwright push`."""

    COMMAND: ClassVar[str] = "push"

    folder: Path = option(help="Model folder, adapter or exported folder.", is_argument=True)
    name: str = option(help="Hugging Face Hub model ID: OWNER/NAME.", is_argument=True)
    yes: bool = option(False, "Upload. Without it, the command only lists what it would upload.")
    license: str | None = option(
        None, "License identifier for the uploaded model card, such as apache-2.0.", default_help="that of the card"
    )
    private: bool = option(False, "Create the model as private.")
    message: str = option("Upload model", "Title of the commit.", short="-m")


@takes_settings(PushSettings)
def push(settings: PushSettings) -> Iterator[Result]:
    """Upload a model folder to the Hugging Face Hub, in one commit. Needs the extra 'hub'.

    Without --yes, list the files, the metadata of the model card and its license; nothing is sent.

    The access token is that of huggingface_hub: the environment variable HF_TOKEN, or hf auth login. It is never
    printed.

    Examples:

        maskwright push runs/a/model my-team/tickets

        maskwright push runs/a/model my-team/tickets --license apache-2.0 --yes
    """
    from ..hub.push import plan_push
    from ..hub.push import push as upload

    plan = plan_push(settings.folder, settings.name, settings.license)
    address = upload(plan, private=settings.private, message=settings.message) if settings.yes else None
    rows = [[name, f"{size:,}"] for name, size in plan.files.items()]
    count = plural(plan.num_examples, "text")
    held = f"held-out data: {count} in maskwright.json (examples); to keep them private, remove them first"
    license = settings.license or (None if plan.license else "apache-2.0")
    values = {"folder": str(settings.folder), "name": settings.name, "private": settings.private}
    not_sent = f"Nothing was sent. {plan.size_bytes / 1e6:,.1f} MB would be."
    yield (
        {**plan.to_json(), "uploaded": address},
        (
            Table(["file", "bytes"], rows, f"{plan.folder} as {plan.name}", right=["bytes"]),
            f"model card:\n{plan.metadata}" if plan.metadata else "model card: no metadata",
            f"license: {plan.license or 'none: add --license ID'}",
            held if plan.num_examples else None,
            f"uploaded: {address}" if address else not_sent,
            None if address else next_command(PushSettings, **values, license=license, yes=True),
        ),
    )
