"""Options of `finetune` alone, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

TaskArgument = Annotated[
    str | None,
    typer.Argument(
        help="classification, regression, tagging, qa, choice, similarity, translation, generation, anomaly."
    ),
]
ModelOption = Annotated[str | None, typer.Option(help="The model folder to start from.")]
PresetOption = Annotated[str | None, typer.Option(help="Start from scratch with this network instead.")]
TokenizerOption = Annotated[Path | None, typer.Option(help="The tokenizer of a start from scratch.")]
TargetTokenizerOption = Annotated[
    Path | None, typer.Option(help="Of translations, where they have a vocabulary of their own.")
]
TrainOption = Annotated[
    list[Path] | None,
    typer.Option(help="Labelled rows to learn from; translation also takes two text files, line by line."),
]
DevOption = Annotated[
    list[Path] | None,
    typer.Option(
        help="Rows to choose the best epoch; translation: or two text files; with --multi-task a file for each task."
    ),
]
MultiTaskOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[TASK:]FILE ...",
        help="Instead of --train: files that are a task each, learnt together on one encoder.",
    ),
]
EpochsOption = Annotated[int | None, typer.Option(help="Times that every row is seen.")]
TokensOfStepOption = Annotated[
    int | None,
    typer.Option("--batch-tokens", help="Translation: tokens of one step, both sides counted.  [default: 4096]"),
]
LabelSmoothingOption = Annotated[
    float | None,
    typer.Option(help="Translation: part of the probability that is spread over all tokens.  [default: 0.1]"),
]
AverageCheckpointsOption = Annotated[
    int | None, typer.Option(help="Translation: the model is the mean of the weights after so many last epochs.")
]
BatchSizeOption = Annotated[int | None, typer.Option(help="Rows of one step.")]
PatienceOption = Annotated[int | None, typer.Option(help="Stop after so many epochs without gain; 0: never.")]
SeedsOption = Annotated[int | None, typer.Option(help="Repeat with so many seeds; mean and deviation.")]
MetricOption = Annotated[
    str | None, typer.Option(help="The dev metric that chooses the best epoch, such as matthews or f1.")
]
ClassWeightOption = Annotated[Literal["balanced"] | None, typer.Option(help="Weigh rare classes up.")]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN", help='Generation: the token between source and target, as "<to-fr>", new where it is.'
    ),
]
CrfFlag = Annotated[bool, typer.Option("--crf", help="Tagging: judge the tags of a sentence together.")]
CalibrateFlag = Annotated[
    bool,
    typer.Option("--calibrate", help="Fit a temperature on the dev rows: probabilities that mean what they say."),
]
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
ScoreRangeOption = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Regression: rows whose score is not between these are bad rows."),
]
NormalOption = Annotated[
    str | None, typer.Option(metavar="CLASS", help="Anomaly: the class to learn.  [default: the commonest]")
]
NormalQuantileOption = Annotated[
    float | None, typer.Option(help="Anomaly: part of normal dev rows below the threshold.  [default: 0.95]")
]
AverageSeedsFlag = Annotated[
    bool, typer.Option("--average-seeds", help="The model is the mean of the seeds' weights, not the best seed.")
]
FreezeEncoderFlag = Annotated[bool, typer.Option("--freeze-encoder", help="Train the pooler and the head only.")]
BothOrdersFlag = Annotated[
    bool, typer.Option("--both-orders", help="Read each pair as A B and as B A, for what has no order: similarity.")
]
MultiLabelFlag = Annotated[bool, typer.Option("--multi-label", help="Rows may have several labels, a|b, or none.")]
ContrastiveFlag = Annotated[
    bool, typer.Option("--contrastive", help="Regression: train vectors of sentences, compared by cosine.")
]
