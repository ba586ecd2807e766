"""`maskwright push`: upload a model folder to the Hugging Face Hub."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from ..core.config import option
from ..core.util import plural
from .common import JsonFlag, print_json, print_table, print_text
from .settings import print_next, takes_settings


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
def push(settings: PushSettings, json: JsonFlag = False) -> None:
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
    if json:
        print_json({**plan.to_json(), "uploaded": address})
        return
    rows = [[name, f"{size:,}"] for name, size in plan.files.items()]
    print_table(["file", "bytes"], rows, f"{plan.folder} as {plan.name}", right=["bytes"])
    print_text(f"model card:\n{plan.metadata}" if plan.metadata else "model card: no metadata")
    print_text(f"license: {plan.license or 'none: add --license ID'}")
    if plan.num_examples:
        count = plural(plan.num_examples, "text")
        print_text(f"held-out data: {count} in maskwright.json (examples); to keep them private, remove them first")
    if address:
        print_text(f"uploaded: {address}")
    else:
        print_text(f"Nothing was sent. {plan.size_bytes / 1e6:,.1f} MB would be.")
        license = settings.license or (None if plan.license else "apache-2.0")
        values = {"folder": str(settings.folder), "name": settings.name, "private": settings.private}
        print_next(PushSettings, **values, license=license, yes=True)
