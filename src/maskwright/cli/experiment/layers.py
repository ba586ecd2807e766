"""`maskwright experiment layers`: a tagger on the features of each layer of a frozen encoder."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from ...experiments.layers.config import LayerLabConfig
from ..common import JsonFlag, print_json, print_table, print_text
from ..settings import RestartFlag, print_steps, takes_settings, tell_if_finished

if TYPE_CHECKING:
    from ...experiments.layers.run import LabRow, LayerLabResult


@takes_settings(LayerLabConfig, has_recipe=True)
def layers(recipe: LayerLabConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
    """Train the same tagger on features of each choice of frozen layers. Rerun the same command to resume.

    Examples:

        maskwright experiment layers minilm --train train.conll --dev dev.conll --columns token=0,tag=3 -o runs/layers

        maskwright experiment layers minilm --train train.conll --dev dev.conll --probe bilstm --seeds 3 -o runs/lstm

        maskwright experiment layers runs/a/model --train train.conll --each-layer --also-finetune -o runs/both
    """
    from ...experiments.layers.run import layer_lab

    _show_result(layer_lab(recipe, restart=restart), json)


def _show_result(result: LayerLabResult, json: bool) -> None:
    tuned = [] if result.finetuned is None else [result.finetuned]
    if json:
        print_json(
            {
                "run": str(result.output),
                "report": str(result.report),
                "metric": result.main_metric,
                "rows": [asdict(row) for row in result.rows],
                "finetuned": asdict(tuned[0]) if tuned else None,
                "order": result.order,
                "published": result.published,
                "left_out": list(result.left_out),
            }
        )
        return
    from ...experiments.layers.run import next_steps, order_sentences, order_verdict

    tell_if_finished(result.already_finished)
    metric, published = result.main_metric, ["published"] if result.published else []
    cells = [
        [row.name, row.size, f"{row.parameters:,}", _score(row, metric), *(_published(result, row) for _ in published)]
        for row in [*result.rows, *tuned]
    ]
    columns = ("features", "size", "parameters", metric, *published)
    print_table(columns, cells, right=columns[1:])
    if published:
        print_text("Published by Devlin et al. 2019 for BERT-base on all of CoNLL-2003; not measured here.")
    for row in result.rows:
        if row.mix is not None:
            shares = ", ".join(f"{number}: {share:.3f}" for number, share in enumerate(row.mix["shares"]))
            print_text(f"Scalar-mix weights by layer: {shares}; scale {row.mix['scale']:.3f}.")
    print_text(order_verdict(result.order))
    for sentence in order_sentences(result.order):
        print_text(f"  {sentence}")
    print_text(f"report: {result.report}")
    from ...core.config import read_toml

    recipe = read_toml(result.output / "config.toml")
    print_steps(next_steps(recipe, [asdict(row) for row in result.rows], result.finetuned, metric))


def _score(row: LabRow, metric: str) -> str:
    mean = f"{row.mean[metric]:.4f}"
    return f"{mean} ± {row.deviation[metric]:.4f}" if len(row.runs) > 1 else mean


def _published(result: LayerLabResult, row: LabRow) -> str:
    value = result.published.get(row.name)
    return "" if value is None else f"{value:.3f}"
