"""Compares methods for class imbalance: each method with each seed, scored on the same test rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import precision_recall_curve

from ..core import storage
from ..core.config import settings_of
from ..core.errors import InputError, RowError, RowErrors
from ..core.progress import note, warn
from ..core.randomness import generator
from ..core.registry import unknown_name
from ..core.util import plural
from ..hub.folders import load_model
from ..inference.ready import compute_in
from ..models.model import Model, tokenizer_of
from ..report import Command, Facts, Table
from ..report.charts import Chart, Curves, Series
from ..report.numbers import percent
from ..tasks.anomaly import Anomaly
from ..tasks.classification import Classification, balanced_weights
from ..tasks.evaluation.rare import PRECISION, RareClass, choose_threshold, row_key
from ..tasks.examples import Examples
from ..tasks.report import error_histograms
from ..tasks.sequence import SequenceTask
from ..text.readers.tables import Row, read_table
from ..train.finetuning.config import FinetuneConfig
from ..train.finetuning.finetune import fit
from ..train.run import RunFolder
from .config import RareLabConfig
from .ladder import joined, word_counts
from .runner import Experiment, ExperimentResult, Part, Shown, run_experiment

REST, RARE = LABELS = ["rest", "rare"]
METRICS = ("pr_auc", "f1", "recall_at_precision_90")
SAMPLES = 1000
FOLLOWS_LENGTH = 0.3  # correlation from which the page mentions it
SHARE = 0.2  # of the rows are for dev, and as many for test
LEAST = 2  # minimum rows of the class per split
# Title, what it does, and the settings of `finetune` that do the same (None: not by fine-tuning a classifier).
METHODS: dict[str, tuple[str, str, Callable[[RareLabConfig], dict[str, Any]] | None]] = {
    "plain": ("plain fine-tuning", "cross-entropy; rare above 0.5", lambda config: {}),
    "class-weights": ("class weights", "each class counts the same in the loss; rare above 0.5",
                      lambda config: {"class_weight": "balanced"}),
    "focal": ("focal loss", "(1 - p)^gamma before the cross-entropy; rare above 0.5",
              lambda config: {"focal": config.focal}),
    "resampling": ("resampling", "rare rows sampled as often as the others; rare above 0.5",
                   lambda config: {"resample": "balanced"}),
    "threshold": ("plain, threshold", "the plain model; threshold with the best F1 on dev",
                  lambda config: {"threshold_for": config.rare_class}),
    "autoencoder": ("autoencoder", "reconstruction error on frozen features, trained on the rest; threshold from dev",
                    None),
    "tfidf": ("TF-IDF, logistic regression", "unigrams and bigrams, class weights; rare above 0.5", None),
}  # fmt: skip


# -- samples of train, dev and test with a minority class at a given rate ----------------------------------------------


@dataclass(frozen=True)
class Splits:
    """Rows relabeled as RARE or REST. test_classes: original labels of the test rows."""

    train: list[Row]
    dev: list[Row]
    test: list[Row]
    test_classes: list[str]


class MinorityClassSampler:
    """Samples distinct rows, with the rare class or the rest downsampled to the rate.

    The test rows are sampled once with `seed`; `splits` samples the others with their own seed.
    """

    def __init__(
        self, rows: Sequence[Row], rare_class: str, rate: float, *, max_train_rows: int | None = None, seed: int = 0
    ) -> None:
        """Raises InputError if the class or other classes are missing, or the rate leaves too few rows of the class."""
        distinct = list({row_key(row.text, row.text_pair): row for row in reversed(rows)}.values())[::-1]
        self.num_repeated = len(rows) - len(distinct)
        rare, rest = _two_kinds(distinct, rare_class)
        num_rare = min(len(rare), round(len(rest) * rate / (1 - rate)))
        num_rest = min(len(rest), round(len(rare) * (1 - rate) / rate))
        test = int((num_rare + num_rest) * SHARE)
        sizes = [num_rare + num_rest - 2 * test, test, test]
        if max_train_rows is not None:
            limits = (max_train_rows, max_train_rows, 2 * max_train_rows)
            sizes = [min(size, limit) for size, limit in zip(sizes, limits, strict=True)]
        self.sizes = [(int(size * rate), size - int(size * rate)) for size in sizes]  # rare and other rows of each
        if min(rare_rows for rare_rows, _ in self.sizes) < LEAST:
            raise InputError(
                f"At a rate of {rate:g} the class '{rare_class}' ({len(rare):,} rows and {len(rest):,} others) has "
                f"{', '.join(str(rare_rows) for rare_rows, _ in self.sizes)} rows in train, dev and test, too few to "
                f"train and score: raise the rate or --max-train-rows, or pass more rows."
            )
        pools = [
            _shuffled(kind, seed, f"rare pool {name}")[:count]
            for kind, name, count in ((rare, RARE, num_rare), (rest, REST, num_rest))
        ]
        self._test = [pool[:count] for pool, count in zip(pools, self.sizes[2], strict=True)]
        self._others = [pool[count:] for pool, count in zip(pools, self.sizes[2], strict=True)]

    def splits(self, seed: int) -> Splits:
        """The splits for a seed; the test rows are the same for all seeds."""
        drawn = [_shuffled(pool, seed, f"rare parts {place}") for place, pool in enumerate(self._others)]
        train, dev, _ = self.sizes
        return Splits(
            _named(*(rows[:count] for rows, count in zip(drawn, train, strict=True))),
            _named(*(rows[skip : skip + count] for rows, skip, count in zip(drawn, train, dev, strict=True))),
            _named(*self._test),
            [str(row.label) for kind in self._test for row in kind],
        )


def _two_kinds(rows: Sequence[Row], rare_class: str) -> tuple[list[Row], list[Row]]:
    missing = [RowError(row.file, row.line, "label", "is missing") for row in rows if row.label is None]
    if missing:
        raise RowErrors(missing)
    classes = sorted({str(row.label) for row in rows})
    if rare_class not in classes:
        raise InputError(unknown_name("class", rare_class, classes[:20]))
    if len(classes) == 1:
        raise InputError(f"All rows are of the class '{rare_class}': also pass rows of another class.")
    return [row for row in rows if row.label == rare_class], [row for row in rows if row.label != rare_class]


def _shuffled(rows: Sequence[Row], seed: int, purpose: str) -> list[Row]:
    return [rows[place] for place in generator(seed, purpose).permutation(len(rows)).tolist()]


def _named(rare: Sequence[Row], rest: Sequence[Row]) -> list[Row]:
    return [replace(row, label=RARE) for row in rare] + [replace(row, label=REST) for row in rest]


# -- bootstrap intervals of the metrics and of paired differences: a sample is a count per row (how often it was drawn),
#    so with the rows sorted once by value, precision and recall at every cut of all samples are sums of counts


@dataclass(frozen=True)
class Predictions:
    """Predictions of one method with one seed. values: float64 [test rows], higher for the rare class; given: bool
    [test rows], its decisions; dev_values: float64 [dev rows].
    """

    values: np.ndarray
    given: np.ndarray
    dev_values: np.ndarray


def draw_counts(num_rows: int, num_seeds: int, samples: int = SAMPLES, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Bootstrap samples of rows and seeds as counts: int16 [samples, rows], int16 [samples, seeds].

    Use the same samples for all methods, so that differences are paired. A sample depends only on its number.
    """
    draws = [generator(seed, "rare-bootstrap", number) for number in range(samples)]
    counts = [
        [np.bincount(rng.integers(size, size=size), minlength=size).astype(np.int16) for size in (num_rows, num_seeds)]
        for rng in draws
    ]
    return np.stack([rows for rows, _ in counts]), np.stack([seeds for _, seeds in counts])


def sample_scores(gold: np.ndarray, found: Predictions, counts: np.ndarray) -> np.ndarray:
    """METRICS of each sample: float64 [samples, 3], 0 without a row of the class.

    gold: bool [rows]; counts: int [samples, rows].
    """
    blocks = range(0, len(counts), 200)  # to limit memory
    return np.concatenate([_some_scores(gold, found, counts[start : start + 200].astype(float)) for start in blocks])


def _some_scores(gold: np.ndarray, found: Predictions, counts: np.ndarray) -> np.ndarray:
    order = np.argsort(-found.values, kind="stable")
    ordered = found.values[order]
    ends = np.flatnonzero(np.concatenate([ordered[1:] != ordered[:-1], [True]]))  # equal values stay together
    drawn = counts[:, order]
    right = np.cumsum(drawn * gold[order], axis=1)[:, ends]  # [samples, cuts]
    given = np.cumsum(drawn, axis=1)[:, ends]
    precision = _ratio(right, given)
    recall = _ratio(right, np.broadcast_to(right[:, -1:], right.shape))
    pr_auc = (np.diff(recall, axis=1, prepend=0.0) * precision).sum(axis=1)
    at_precision = np.where(precision >= PRECISION, recall, 0.0).max(axis=1)
    hits = counts @ (gold & found.given).astype(float)  # [samples]
    called = counts @ (gold.astype(float) + found.given)
    return np.stack([pr_auc, _ratio(2 * hits, called), at_precision], axis=1)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


@dataclass(frozen=True)
class MethodScores:
    """METRICS of one method. observed: float64 [seeds, 3]; sampled: float64 [samples, 3], mean over drawn seeds."""

    observed: np.ndarray
    sampled: np.ndarray

    def interval(self, metric: str) -> dict[str, float]:
        """{"mean", "low", "high"}: over seeds, with the 95% percentile interval."""
        column = METRICS.index(metric)
        return _interval(float(self.observed[:, column].mean()), self.sampled[:, column])

    def minus(self, other: MethodScores, metric: str) -> dict[str, Any]:
        """The paired difference from `other`, and whether it is "beyond_noise": its interval does not contain zero."""
        column = METRICS.index(metric)
        observed = float((self.observed[:, column] - other.observed[:, column]).mean())
        found = _interval(observed, self.sampled[:, column] - other.sampled[:, column])
        return {**found, "beyond_noise": found["low"] > 0 or found["high"] < 0}


def _interval(mean: float, drawn: np.ndarray) -> dict[str, float]:
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"mean": mean, "low": float(low), "high": float(high)}


def method_scores(
    gold: np.ndarray, by_seed: Sequence[Predictions], row_counts: np.ndarray, seed_counts: np.ndarray
) -> MethodScores:
    """Scores of one method over its seeds. gold: bool [rows]; row_counts, seed_counts: of `draw_counts`."""
    once = np.ones((1, len(gold)))
    observed = np.concatenate([sample_scores(gold, found, once) for found in by_seed])
    sampled = np.stack([sample_scores(gold, found, row_counts) for found in by_seed], axis=1)  # [samples, seeds, 3]
    weights = seed_counts / seed_counts.sum(axis=1, keepdims=True)
    return MethodScores(observed, (sampled * weights[:, :, None]).sum(axis=1))


def mean_curve(gold: np.ndarray, by_seed: Sequence[Predictions], points: int = 61) -> dict[str, list[float]]:
    """{"recall", "precision"}: the highest precision at each recall or beyond, mean over seeds."""
    grid, heights = np.linspace(0, 1, points), []
    for found in by_seed:
        precision, recall, _ = precision_recall_curve(gold, found.values)
        precision[-1] = 0.0  # scikit-learn's own last point
        heights.append([precision[recall >= wanted - 1e-12].max() for wanted in grid])
    return {"recall": grid.tolist(), "precision": np.mean(heights, axis=0).tolist()}


# -- the methods -------------------------------------------------------------------------------------------------------


class MethodRunner:
    """Runs the methods on the splits of one seed. plain: the predictions of plain fine-tuning, for `threshold`."""

    def __init__(self, config: RareLabConfig, splits: Splits, seed: int, plain: Callable[[], Predictions]) -> None:
        self.config, self.splits, self.seed, self.plain = config, splits, seed, plain

    def judge(self, method: str) -> Predictions:
        """Run a method of METHODS."""
        splits = self.splits
        if method == "threshold":  # the scores of plain fine-tuning with the threshold of the best F1 on dev
            other, keys = self.plain(), [row_key(row.text, row.text_pair) for row in splits.dev]
            threshold = choose_threshold(other.dev_values, np.array([row.label == RARE for row in splits.dev]), keys)
            return replace(other, given=other.values > threshold.value)
        if method == "autoencoder":
            return self._reconstruct()
        if method == "tfidf":
            texts, gold = zip(*((joined(row), row.label == RARE) for row in splits.train), strict=True)
            model = word_counts(class_weight="balanced", random_state=self.seed).fit(texts, gold)
            dev_values, values = (
                model.predict_proba(list(map(joined, rows)))[:, 1] for rows in (splits.dev, splits.test)
            )
            return Predictions(values, values > 0.5, dev_values)
        how = METHODS[method][2]
        options = {} if how is None else how(self.config)
        if options.pop("class_weight", None):
            counts = [sum(row.label == label for row in splits.train) for label in LABELS]
            options["class_weights"] = balanced_weights(counts, len(splits.train))
        return self._classify(**options)

    def _classify(self, **options: Any) -> Predictions:
        """Fine-tune a classifier; the best epoch is the one with the best pr_auc on dev."""
        task = Classification(LABELS, rare=RareClass(RARE), **options)
        model = self._model(task)
        rows = (self.splits.train, self.splits.dev, self.splits.test)
        train, dev, test = (self._examples(task, model, part) for part in rows)
        task.init_from_counts(model, train)
        fit(model, task, train, dev, epochs=self.config.epochs, lr=self.config.lr, **self._shared())
        dev_values, values = (
            task.probabilities(task.logits(model, part)).double().numpy()[:, 1] for part in (dev, test)
        )
        return Predictions(values, values > 0.5, dev_values)

    def _reconstruct(self) -> Predictions:
        """Train an autoencoder on the rest class; the threshold is chosen on dev."""
        task = Anomaly(REST)
        task.main_metric = "pr_auc"
        model = self._model(task)
        rows = [task.learns_from(self.splits.train), self.splits.dev, self.splits.test]
        train, dev, test = (task.prepare(model, self._examples(task, model, part)) for part in rows)
        task.init_from_counts(model, train)
        usual = settings_of(FinetuneConfig)
        epochs, lr = (usual[name].default_of(task.name) for name in ("epochs", "lr"))
        fit(model, task, train, dev, epochs=epochs, lr=lr, **self._shared())
        task.tune_threshold(task.logits(model, dev), dev)
        assert task.threshold is not None
        dev_values, values = (task.logits(model, part).squeeze(-1).double().numpy() for part in (dev, test))
        return Predictions(values, values > task.threshold.value, dev_values)

    def _shared(self) -> dict[str, Any]:
        return {"batch_size": self.config.batch_size, "seed": self.seed, "precision": self.config.precision}

    def _model(self, task: SequenceTask) -> Model:
        model, _ = load_model(
            self.config.model, task.head, labels=task.labels or None, problem_type=task.problem_type, seed=self.seed
        )
        compute_in(model, self.config.precision)
        return model.to(self.config.device)

    def _examples(self, task: SequenceTask, model: Model, rows: list[Row]) -> Examples:
        return task.examples(rows, tokenizer_of(model), self.config.max_length)


# -- the experiment ----------------------------------------------------------------------------------------------------


def rare_lab(config: RareLabConfig, *, restart: bool = False) -> ExperimentResult:
    """Run `config`, or resume it; see `run_experiment`. Raises InputError for an unknown class or an impossible rate.

    The facts of its result: "rows", for each method {"method", "title", metric: {"mean", "low", "high", "deviation"},
    "minus_plain": {metric: {"mean", "low", "high", "beyond_noise"}}}; "parts", rows of train, dev, test.
    """
    return run_experiment(RareLab, config, restart=restart)


class RareLab(Experiment):
    """Loads the rows of a comparison, runs its methods, and scores them."""

    config: RareLabConfig

    def __init__(self, config: RareLabConfig, run: RunFolder) -> None:
        super().__init__(config, run)
        table = read_table(config.data, columns=config.columns or None, skip_bad_rows=config.skip_bad_rows)
        if table.num_skipped:
            warn(f"{config.data}: {plural(table.num_skipped, 'bad row is', 'bad rows are')} skipped.")
        self.pool = MinorityClassSampler(
            table.rows, config.rare_class, config.rate, max_train_rows=config.max_train_rows, seed=config.seed
        )
        if self.pool.num_repeated:
            note(f"{plural(self.pool.num_repeated, 'duplicate row is', 'duplicate rows are')} skipped.")
        model, _ = load_model(config.model, None)
        tokenizer_of(model, config.model)
        model.config.check_length(config.max_length, "the model")

    def measure(self) -> dict[str, Any]:
        config = self.config
        parts = [
            Part(f"{method}-{seed}", f"{METHODS[method][0]}, seed {seed}", partial(self._judge, method, seed))
            for seed in config.all_seeds
            for method in METHODS
        ]
        found = {name: _predictions(facts) for name, facts in self.run_parts(parts).items()}
        by_method = {method: [found[f"{method}-{seed}"] for seed in config.all_seeds] for method in METHODS}
        test = self.pool.splits(config.seed)
        gold, classes = np.array([row.label == RARE for row in test.test]), np.array(test.test_classes, dtype=object)
        counts = draw_counts(len(gold), config.seeds, seed=config.seed)
        scores = {method: method_scores(gold, own, *counts) for method, own in by_method.items()}
        errors = np.mean([own.values for own in by_method["autoencoder"]], axis=0)
        words = np.array([len(joined(row).split()) for row in test.test])
        names = sorted(set(classes), key=lambda name: (name == config.rare_class, name))
        return {
            "rows": [_row(method, scores) for method in METHODS],
            "parts": {
                name: {"rows": rare + rest, "rare": rare}
                for name, (rare, rest) in zip(("train", "dev", "test"), self.pool.sizes, strict=True)
            },
            "curves": {method: mean_curve(gold, own) for method, own in by_method.items() if method != "threshold"},
            "errors": {str(name): errors[classes == name].tolist() for name in names},
            "errors_by_length": errors_by_length(errors, words, gold),
        }

    def _judge(self, method: str, seed: int) -> dict[str, Any]:
        def plain() -> Predictions:
            return _predictions(storage.read_json(self.keeper.folder / f"plain-{seed}.json"))

        found = MethodRunner(self.config, self.pool.splits(seed), seed, plain).judge(method)
        return {name: values.tolist() for name, values in vars(found).items()}

    @classmethod
    def show(cls, recipe: Mapping[str, Any], facts: dict[str, Any]) -> Shown:
        rows, curves, seeds = facts["rows"], facts["curves"], recipe["seeds"]
        best = int(np.argmax([row["pr_auc"]["mean"] for row in rows]))
        gaps = [(row["title"], row["minus_plain"]["pr_auc"]) for row in rows if "minus_plain" in row]
        better, worse = (
            [title for title, gap in gaps if gap["beyond_noise"] and sign * gap["mean"] > 0] for sign in (1, -1)
        )
        said = [f"Best PR-AUC: {rows[best]['title']}, {rows[best]['pr_auc']['mean']:.3f}."]
        said.append(f"Above plain fine-tuning beyond noise: {', '.join(better) or 'nothing'}.")
        said += [f"Below it: {', '.join(worse)}."] if worse else []
        names = [metric.replace("_", " ") for metric in METRICS]
        note_text = "With the 95% interval of 1,000 bootstrap samples of the test rows"
        note_text += f" and seeds; means over {seeds} seeds." if seeds > 1 else (
            ". With one seed, it excludes the variation over samples of rows and initial weights."
        )  # fmt: skip
        cells = [[row["title"], *(_shown(row[metric]) for metric in METRICS), row["about"]] for row in rows]
        differences = [
            [row["title"], *(_shown(row["minus_plain"][metric], "+") for metric in METRICS)]
            for row in rows
            if "minus_plain" in row
        ]
        errors = [
            [name, len(values), *(f"{np.quantile(values, at):.4f}" for at in (0.1, 0.5, 0.9))]
            for name, values in facts["errors"].items()
        ]
        share = facts["parts"]["test"]["rare"] / facts["parts"]["test"]["rows"]
        lines = [
            Series(METHODS[method][0], curve["recall"], curve["precision"], smooth=False)
            for method, curve in curves.items()
        ]
        quantiles = ["10% quantile", "median", "90% quantile"]
        by_length = length_sentence(facts["errors_by_length"])
        tables = [
            Table(
                ["method", *names, "what it does"],
                cells,
                title="The methods",
                note=note_text,
                right=names,
                strong=[best],
            ),
            Table(
                ["method", *names],
                differences,
                title="Minus plain fine-tuning",
                note="Paired bootstrap. * marks what differs beyond noise: the interval does not contain zero.",
                right=names,
            ),
            Table(
                ["class", "test rows", *quantiles],
                errors,
                title="Errors of the autoencoder by class",
                note=f"It is trained without rows of '{recipe['rare_class']}'. {by_length}",
                right=["test rows", *quantiles],
            ),
        ]
        chart = Chart(
            "Highest precision at each recall or beyond", lines, x_label="recall", baselines={"random order": share}
        )
        sizes = {name: f"{part['rows']:,} rows, {part['rare']:,} rare" for name, part in facts["parts"].items()}
        tuned = [row for row in rows if METHODS[row["method"]][2] is not None]
        use = max(tuned, key=lambda row: (row["f1"]["mean"], row["pr_auc"]["mean"]))
        how = METHODS[use["method"]][2]
        options = {} if how is None else how(RareLabConfig(**recipe))
        about = f"train with what had the best F1 here: {use['title']}"
        values = {"model": recipe["model"], "train": "train.tsv", "output": "runs/rare-model", **options}
        title = f"'{recipe['rare_class']}' at {percent(recipe['rate'])} of {recipe['data']}"
        histograms = error_histograms({name: np.array(values) for name, values in facts["errors"].items()})
        blocks = [*histograms, Curves([chart], title="Precision over recall"), Facts(sizes, title="The splits")]
        return Shown(title, said, tables, blocks, [Command.suggest(about, "finetune", **values)])


def _predictions(facts: Mapping[str, Any]) -> Predictions:
    arrays = {name: np.array(facts[name]) for name in ("values", "given", "dev_values")}
    return Predictions(**arrays)


def _row(method: str, scores: dict[str, MethodScores]) -> dict[str, Any]:
    """The row of a method in the results."""
    own = scores[method]
    row: dict[str, Any] = {"method": method, "title": METHODS[method][0], "about": METHODS[method][1]}
    for column, metric in enumerate(METRICS):
        deviation = float(own.observed[:, column].std(ddof=1)) if len(own.observed) > 1 else None
        row[metric] = {**own.interval(metric), "deviation": deviation}
    if method != "plain":
        row["minus_plain"] = {metric: own.minus(scores["plain"], metric) for metric in METRICS}
    return row


def errors_by_length(errors: np.ndarray, words: np.ndarray, rare: np.ndarray) -> dict[str, Any]:
    """Whether the error of the autoencoder follows the length of a text instead of its class.

    errors: float [rows]; words: int [rows]; rare: bool [rows]. Returns {"correlation": Spearman correlation of error
    and number of words in the rest, None where undefined, "rare_words", "rest_words": median number of words}.
    """
    varies = len(set(words[~rare])) > 1 and len(set(errors[~rare])) > 1
    return {
        "correlation": float(spearmanr(errors[~rare], words[~rare]).statistic) if varies else None,
        "rare_words": float(np.median(words[rare])),
        "rest_words": float(np.median(words[~rare])),
    }


def length_sentence(found: Mapping[str, Any]) -> str:
    """A warning that the error follows the length of a text, or nothing."""
    if found["correlation"] is None or abs(found["correlation"]) < FOLLOWS_LENGTH:
        return ""
    return (
        f"The error follows the length of a text (Spearman correlation {found['correlation']:.2f} in the rest); the "
        f"rare class has {found['rare_words']:.0f} words, the rest {found['rest_words']:.0f} (medians)."
    )


def _shown(score: Mapping[str, Any], sign: str = "") -> str:
    mark = " *" if score.get("beyond_noise") else ""
    return f"{score['mean']:{sign}.3f} ({score['low']:{sign}.3f} to {score['high']:{sign}.3f}){mark}"
