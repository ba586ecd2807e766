"""`maskwright experiment ladder`: from bag of words to BERT on one labeled file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...experiments.ladder.config import LadderConfig
from ..common import JsonFlag, print_json, print_table, print_text
from ..settings import RestartFlag, takes_settings, tell_if_finished

if TYPE_CHECKING:
    from ...experiments.ladder.run import LadderResult


@takes_settings(LadderConfig, has_recipe=True)
def ladder(recipe: LadderConfig, restart: RestartFlag = False, json: JsonFlag = False) -> None:
    """Compare bag of words, static embeddings, LSTM, BiLSTM, ELMo, GPT and BERT on one labeled file.

    One table: score, training time, latency, size, memory. Rerun the same command to resume.

    Examples:

        maskwright experiment ladder --data train.tsv --dev dev.tsv -o runs/ladder

        maskwright experiment ladder --data train.tsv --dev dev.tsv --corpus text/ --model minilm --seeds 5 -o runs/l

        maskwright experiment ladder --data train.tsv --corpus text/ --only static --only elmo --only gpt --only bert \
--static-method cbow -o runs/lineage --json
    """
    from ...experiments.ladder.run import ladder as run_ladder

    _show(run_ladder(recipe, restart=restart), json)


def _show(result: LadderResult, json: bool) -> None:
    from ...experiments.ladder.run import COLUMNS, cells, headline

    if json:
        print_json(
            {
                "run": str(result.output),
                "report": str(result.report),
                "metric": result.metric,
                "rungs": result.rows,
                "left_out": result.left_out,
            }
        )
        return
    tell_if_finished(result.already_finished)
    print_table(COLUMNS, [cells(row) for row in result.rows], right=COLUMNS[1:])
    print_text(headline(result.rows, result.metric))
    print_text(f"report: {result.report}")
