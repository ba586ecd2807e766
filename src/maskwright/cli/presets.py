"""`maskwright presets`: named model configurations."""

from __future__ import annotations

from typing import Annotated

import typer

from .common import DebugFlag, JsonFlag, QuietFlag, print_json, print_table


def presets(
    vocab_size: Annotated[
        int | None, typer.Option(min=1, help="Vocabulary size to count parameters with.  \\[default: as published]")
    ] = None,
    models: Annotated[
        bool, typer.Option("--models", help="List the models that have a short name, such as english.")
    ] = False,
    json: JsonFlag = False,
    quiet: QuietFlag = False,
    debug: DebugFlag = False,
) -> None:
    """List model presets with exact parameter counts, or models by short name.

    Examples:

        maskwright presets

        maskwright presets --vocab-size 8000 --json

        maskwright presets --models
    """
    if models:
        _show_models(json)
        return
    from ..models.describe import parameter_count
    from ..models.presets import PRESETS, preset

    rows = []
    for name in PRESETS:
        config = preset(name) if vocab_size is None else preset(name, vocab_size=vocab_size)
        rows.append(
            {
                "preset": name,
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
    print_table(columns, cells, right=columns[1:])


def _show_models(json: bool) -> None:
    """Print the short names, what they mean and whether the model is on this machine."""
    from ..hub.published import MANIFESTS, PUBLISHED, built_in_folder, installed_folder

    rows = [{"name": name, "model": "built in", "folder": str(built_in_folder(name))} for name in MANIFESTS]
    for name, model in PUBLISHED.items():
        folder = installed_folder(name)
        rows.append({"name": name, "model": model.hub_id, "folder": "not installed" if folder is None else str(folder)})
    if json:
        print_json(rows)
        return
    print_table(list(rows[0]), [list(row.values()) for row in rows])
