"""`maskwright presets`: named model configurations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..core.config import option
from .common import JsonFlag, print_json, print_table
from .settings import takes_settings


@dataclass(frozen=True, kw_only=True)
class PresetsSettings:
    """Settings of `maskwright presets`."""

    COMMAND: ClassVar[str] = "presets"

    vocab_size: int | None = option(
        None, "Vocabulary size to count parameters with.", default_help="as published", minimum=1
    )
    models: bool = option(False, "List the models that have a short name, such as english.")


@takes_settings(PresetsSettings)
def presets(settings: PresetsSettings, json: JsonFlag = False) -> None:
    """List model presets with exact parameter counts, or models by short name.

    Examples:

        maskwright presets

        maskwright presets --vocab-size 8000 --json

        maskwright presets --models
    """
    if settings.models:
        _show_models(json)
        return
    from ..models.presets import PRESETS, preset
    from ..models.sizes import parameter_count
    from ..objectives.fitting import fitting_objectives, usual_objective

    changes = {} if settings.vocab_size is None else {"vocab_size": settings.vocab_size}
    rows = []
    for name in PRESETS:
        config = preset(name, **changes)
        rows.append(
            {
                "preset": name,
                "objective": usual_objective(config) if fitting_objectives(config) else None,
                "vocab_size": config.vocab_size,
                "layers": config.num_hidden_layers,
                "hidden_size": config.hidden_size,
                "heads": config.num_attention_heads if config.recurrent is None else None,
                "feed_forward": config.intermediate_size if config.recurrent is None else None,
                "cells": config.recurrent,
                "max_length": config.max_position_embeddings,
                "parameters": parameter_count(config),
            }
        )
    if json:
        print_json(rows)
        return
    columns = list(rows[0])
    cells = [
        ["" if cell is None else cell if isinstance(cell, str) else f"{cell:,}" for cell in row.values()]
        for row in rows
    ]
    print_table(columns, cells, right=columns[2:])


def _show_models(json: bool) -> None:
    """Print the short names, what they mean and whether the model is on this machine."""
    from ..hub.published import MANIFESTS, PUBLISHED, about, built_in_folder, installed_folder

    rows = [
        {"name": name, "model": "built in", "about": about(name), "folder": str(built_in_folder(name))}
        for name in MANIFESTS
    ]
    for name, model in PUBLISHED.items():
        folder = installed_folder(name)
        where = "not installed" if folder is None else str(folder)
        rows.append({"name": name, "model": model.hub_id, "about": about(name), "folder": where})
    if json:
        print_json(rows)
        return
    print_table(("name", "model", "about"), [(row["name"], row["model"], row["about"]) for row in rows])
