"""Options of `finetune` alone, each declared once."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

FocalOption = Annotated[float | None, typer.Option(help="Focal loss with this gamma, as in 2.")]
ResampleOption = Annotated[
    Literal["balanced", "sqrt"] | None, typer.Option(help="Draw rows of rare classes more often.")
]
ThresholdForOption = Annotated[
    str | None, typer.Option(metavar="CLASS", help="Choose the threshold of this class on dev, for the best F1.")
]
ThresholdPrecisionOption = Annotated[
    float | None, typer.Option(help="Choose it for this precision instead, with the most recall.")
]
NormalOption = Annotated[
    str | None, typer.Option(metavar="CLASS", help="Anomaly: the class to learn.  [default: the commonest]")
]
NormalQuantileOption = Annotated[
    float | None, typer.Option(help="Anomaly: part of normal dev rows below the threshold.  [default: 0.95]")
]
TaskArgument = Annotated[
    str | None, typer.Argument(help="classification, regression, tagging, qa, similarity or anomaly.")
]
AverageSeedsFlag = Annotated[
    bool, typer.Option("--average-seeds", help="The model is the mean of the seeds' weights, not the best seed.")
]
FreezeEncoderFlag = Annotated[bool, typer.Option("--freeze-encoder", help="Train the pooler and the head only.")]
MultiLabelFlag = Annotated[bool, typer.Option("--multi-label", help="Rows may have several labels, a|b, or none.")]
ContrastiveFlag = Annotated[
    bool, typer.Option("--contrastive", help="Regression: train vectors of sentences, compared by cosine.")
]
