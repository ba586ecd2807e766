"""`maskwright export`: a model as a graph for ONNX Runtime, OpenVINO, transformers.js or torch."""

from __future__ import annotations

from ..core.progress import note
from ..export.config import ExportConfig
from .common import JsonFlag, print_json, print_table, print_text
from .settings import takes_settings


@takes_settings(ExportConfig)
def export(settings: ExportConfig, json: JsonFlag = False) -> None:
    """Export a model as a graph, with its tokenizer and settings, for programs without maskwright.

    The graph has dynamic batch size and length. Before the folder appears, the graph runs on texts of unequal lengths
    and is compared with the model. An adapter is merged. An int8 graph is calibrated on typical texts, and compared on
    others of them, also cut to a few words.

    Examples:

        maskwright export runs/a/model -o exported/

        maskwright export runs/a/model --to openvino -o exported/

        maskwright export runs/a/model --precision int8 --calibrate-on texts.txt -o exported/
    """
    from ..export.card import AGREEMENT, format_or_empty
    from ..export.export import export_model

    done = export_model(settings, note)
    if json:
        print_json({"folder": str(done.folder), **done.spec})
        return
    files = ", ".join(graph["file"] for graph in done.spec["graphs"].values())
    print_text(f"{done.folder}: {files}, {done.spec['size_bytes'] / 1e6:,.1f} MB, {done.spec['precision']}")
    agreement = done.agreement
    rows = [
        [
            name,
            f"{one.compared:,}",
            f"{one.largest_difference:.1e}",
            *(format_or_empty(getattr(one, key), form) for key, form in AGREEMENT.items()),
        ]
        for name, one in agreement.outputs.items()
    ]
    columns = ["output", "compared", "largest_difference", *AGREEMENT]
    title = f"agreement with the model on {agreement.num_texts} texts ({agreement.runtime})"
    print_table(columns, rows, title, right=columns[1:])
