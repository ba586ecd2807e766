"""Compares methods for class imbalance: each method with each seed, scored on the same test rows.

Finished parts (one method, one seed) are kept in parts/, so rerunning the same command resumes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from ...core import storage
from ...core.config import command_line, settings_of
from ...core.errors import InputError, RunError
from ...core.progress import note, warn
from ...core.util import plural
from ...hub.folders import load_model
from ...inference.ready import compute_in
from ...models.device import resolve_device, resolve_precision
from ...models.model import Model, tokenizer_of
from ...report import (
    Block,
    Chart,
    Command,
    Comparison,
    Curves,
    Facts,
    NextSteps,
    Report,
    RunMetadata,
    Score,
    Section,
    Series,
    System,
    Table,
    write_report,
)
from ...report.numbers import percent
from ...tasks.anomaly import Anomaly
from ...tasks.classification import Classification, balanced_weights
from ...tasks.evaluation.rare import (
    METRICS,
    RARE,
    REST,
    Curve,
    MethodScores,
    MinorityClassSampler,
    Parts,
    RareClass,
    SeedPredictions,
    choose_threshold,
    draw_counts,
    mean_curve,
    method_scores,
    row_key,
)
from ...tasks.examples import Examples
from ...tasks.report import error_histograms
from ...tasks.sequence import SequenceTask
from ...text.readers.tables import Row, read_table
from ...train.finetuning.config import FinetuneConfig
from ...train.finetuning.finetune import fit
from ...train.run import RunFolder, open_run_of
from .config import RareLabConfig

# -- The compared methods for class imbalance: each trains on the splits of one seed and predicts the test rows ------


LABELS = [REST, RARE]


@dataclass(frozen=True)
class Method:
    """title: in the results; about: a short description; needs: the method whose scores it reuses."""

    title: str
    about: str
    needs: str | None = None


METHODS: dict[str, Method] = {
    "plain": Method("plain fine-tuning", "cross-entropy; rare above 0.5"),
    "class-weights": Method("class weights", "each class counts the same in the loss; rare above 0.5"),
    "focal": Method("focal loss", "(1 - p)^gamma before the cross-entropy; rare above 0.5"),
    "resampling": Method("resampling", "rare rows sampled as often as the others; rare above 0.5"),
    "threshold": Method("plain, threshold", "the plain model; threshold with the best F1 on dev", needs="plain"),
    "autoencoder": Method(
        "autoencoder", "reconstruction error on frozen features, trained on the rest; threshold from dev"
    ),
    "tfidf": Method("TF-IDF, logistic regression", "unigrams and bigrams, class weights; rare above 0.5"),
}


@dataclass(frozen=True)
class MethodPredictions:
    """Predictions of a method: scores and decisions for the test rows; dev_values: dev scores, float64 [rows]."""

    test: SeedPredictions
    dev_values: np.ndarray


class MethodRunner:
    """Runs the methods on the splits of one seed. finished: predictions of earlier methods of the same seed."""

    def __init__(self, config: RareLabConfig, parts: Parts, seed: int, finished: dict[str, MethodPredictions]) -> None:
        self.config, self.parts, self.seed, self.finished = config, parts, seed, finished

    def judge(self, method: str) -> MethodPredictions:
        """Run a method of METHODS."""
        return _RUN[method](self)

    def classify(self, **options: Any) -> MethodPredictions:
        """Fine-tune a classifier; the best epoch is the one with the best pr_auc on dev."""
        config = self.config
        task = Classification(LABELS, rare=RareClass(RARE), **options)
        model = self._model(task)
        train, dev, test = (self._examples(task, model, rows) for rows in self._rows())
        task.init_from_counts(model, train)
        fit(model, task, train, dev, epochs=config.epochs, lr=config.lr, **self._shared())
        values = [task.probabilities(task.logits(model, examples)).numpy()[:, 1] for examples in (dev, test)]
        return MethodPredictions(SeedPredictions(values[1], values[1] > 0.5), values[0])

    def reconstruct(self) -> MethodPredictions:
        """Train an autoencoder on the rest class; the threshold is chosen on dev."""
        task = Anomaly(REST, main_metric="pr_auc")
        model = self._model(task)
        rows = [task.learns_from(self.parts.train), self.parts.dev, self.parts.test]
        train, dev, test = (task.prepare(model, self._examples(task, model, part)) for part in rows)
        task.init_from_counts(model, train)
        usual = settings_of(FinetuneConfig)
        epochs, lr = (usual[name].default_of(task.name) for name in ("epochs", "lr"))
        fit(model, task, train, dev, epochs=epochs, lr=lr, **self._shared())
        task.tune_threshold(task.logits(model, dev), dev)
        values = [task.logits(model, examples).squeeze(-1).double().numpy() for examples in (dev, test)]
        assert task.threshold is not None
        return MethodPredictions(SeedPredictions(values[1], values[1] > task.threshold.value), values[0])

    def with_threshold(self, method: str) -> MethodPredictions:
        """The scores of another method with the threshold of the best F1 on dev."""
        other = self.finished[method]
        keys = [row_key(row.text, row.text_pair) for row in self.parts.dev]
        gold = np.array([row.label == RARE for row in self.parts.dev])
        threshold = choose_threshold(other.dev_values, gold, keys)
        return MethodPredictions(
            SeedPredictions(other.test.values, other.test.values > threshold.value), other.dev_values
        )

    def count_words(self) -> MethodPredictions:
        """TF-IDF of unigrams and bigrams, and logistic regression with balanced class weights."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        texts, gold = zip(*((_joined(row), row.label == RARE) for row in self.parts.train), strict=True)
        model = make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            LogisticRegression(class_weight="balanced", max_iter=1000, random_state=self.seed),
        ).fit(texts, gold)
        values = [
            model.predict_proba([_joined(row) for row in rows])[:, 1] for rows in (self.parts.dev, self.parts.test)
        ]
        return MethodPredictions(SeedPredictions(values[1], values[1] > 0.5), values[0])

    def _shared(self) -> dict[str, Any]:
        return {"batch_size": self.config.batch_size, "seed": self.seed, "precision": self.config.precision}

    def _rows(self) -> tuple[list[Row], list[Row], list[Row]]:
        return self.parts.train, self.parts.dev, self.parts.test

    def _model(self, task: SequenceTask) -> Model:
        model, _ = load_model(
            self.config.model, task.head, labels=task.labels or None, problem_type=task.problem_type, seed=self.seed
        )
        compute_in(model, self.config.precision)
        return model.to(self.config.device)

    def _examples(self, task: SequenceTask, model: Model, rows: list[Row]) -> Examples:
        return task.examples(rows, tokenizer_of(model), self.config.max_length)


def _weighted(runner: MethodRunner) -> MethodPredictions:
    counts = [sum(row.label == label for row in runner.parts.train) for label in LABELS]
    return runner.classify(class_weights=balanced_weights(counts, len(runner.parts.train)))


_RUN: dict[str, Callable[[MethodRunner], MethodPredictions]] = {
    "plain": MethodRunner.classify,
    "class-weights": _weighted,
    "focal": lambda runner: runner.classify(focal=runner.config.focal),
    "resampling": lambda runner: runner.classify(resample="balanced"),
    "threshold": lambda runner: runner.with_threshold("plain"),
    "autoencoder": MethodRunner.reconstruct,
    "tfidf": MethodRunner.count_words,
}


def _joined(row: Row) -> str:
    return row.text if row.text_pair is None else f"{row.text} {row.text_pair}"


# -- The HTML report of a comparison of methods for class imbalance --------------------------------------------------


RECALLS = (0.25, 0.5, 0.75)
FOLLOWS_LENGTH = 0.3  # correlation from which the report mentions it
# Settings of `finetune` by method.
SETTINGS: dict[str, Callable[[RareLabConfig], dict[str, Any]]] = {
    "class-weights": lambda config: {"class_weight": "balanced"},
    "focal": lambda config: {"focal": config.focal},
    "resampling": lambda config: {"resample": "balanced"},
    "threshold": lambda config: {"threshold_for": config.rare_class},
    "plain": lambda config: {},
}


@dataclass(frozen=True)
class ComparisonData:
    """The test rows of a comparison and what the methods found.

    gold: bool [rows], rare or not; classes: the original label of each test row; sizes: number of rows and of rare rows
    of train, dev and test; num_repeated: removed duplicates; curves: by method; errors: `mean_errors`; words: length of
    each test row, int [rows].
    """

    config: RareLabConfig
    gold: np.ndarray
    classes: np.ndarray
    sizes: Mapping[str, Mapping[str, int]]
    num_repeated: int
    num_seeds: int
    curves: Mapping[str, Curve]
    errors: np.ndarray
    words: np.ndarray

    @property
    def rows_by_class(self) -> dict[str, np.ndarray]:
        """Which test rows have each original class, bool [rows]; the rare class last."""
        names = sorted(set(self.classes), key=lambda name: (name == self.config.rare_class, name))
        return {str(name): self.classes == name for name in names}


def write_rare_lab_report(run: RunFolder, data: ComparisonData, rows: list[dict[str, Any]]) -> None:
    """Write report.html of a run. rows: the table, as in its result."""
    config = data.config
    share = float(data.gold.mean())
    blocks: list[Block] = [
        _table(rows, share, data.num_seeds),
        _differences(rows),
        Curves([_curves(data, share)], title="Precision over recall"),
        _precisions(data),
        Section(
            "Errors of the autoencoder, by class",
            error_histograms({name: data.errors[rows] for name, rows in data.rows_by_class.items()}, title="Test rows"),
            lead=f"It is trained without rows of '{config.rare_class}'. Where the histograms overlap, the error does "
            f"not separate the classes; the last bar contains the largest 1%. {length_sentence(data)}",
        ),
        Facts(
            {
                **{f"{name} rows": f"{size['rows']:,}, {size['rare']:,} rare" for name, size in data.sizes.items()},
                "seeds": data.num_seeds,
                "skipped duplicate texts": data.num_repeated,
            },
            title="The rows",
            note="The test rows are the same for all methods and seeds; train and dev are resampled for each seed.",
        ),
        RunMetadata(
            command_line(RareLabConfig, run.recipe),
            {key: str(value) for key, value in run.recipe.items()},
            run.facts(),
        ),
        _next(data, rows),
    ]
    title = f"'{config.rare_class}' at {percent(config.rate)} on {config.data.name}"
    write_report(run.path / "report.html", Report(title, headline(rows), None, blocks, run.facts()["started"]))


def headline(rows: list[dict[str, Any]]) -> str:
    """The best method by PR-AUC, and the significant differences from plain fine-tuning."""
    best = max(rows, key=lambda row: row["pr_auc"]["mean"])
    better, worse = verdicts(rows, "pr_auc")
    parts = [f"Best PR-AUC: {best['title']}, {best['pr_auc']['mean']:.3f}."]
    parts.append(f"Above plain fine-tuning beyond noise: {', '.join(better) or 'nothing'}.")
    if worse:
        parts.append(f"Below it: {', '.join(worse)}.")
    return " ".join(parts)


def verdicts(rows: list[dict[str, Any]], metric: str) -> tuple[list[str], list[str]]:
    """Titles of the methods significantly above plain fine-tuning, and of those significantly below."""
    gaps = [(row["title"], row["minus_plain"][metric]) for row in rows if "minus_plain" in row]
    sure = [(title, gap["mean"]) for title, gap in gaps if gap["beyond_noise"]]
    return [title for title, gap in sure if gap > 0], [title for title, gap in sure if gap < 0]


def _table(rows: list[dict[str, Any]], share: float, seeds: int) -> Section:
    shown = [[row["title"], *(_with_interval(row[metric]) for metric in METRICS), row["about"]] for row in rows]
    names = [metric.replace("_", " ") for metric in METRICS]
    best = int(np.argmax([row["pr_auc"]["mean"] for row in rows]))
    note = (
        f"Mean over {seeds} seeds with the 95% interval of 1,000 bootstrap samples of test rows and seeds."
        if seeds > 1
        else "With the 95% interval of 1,000 bootstrap samples of the test rows. With one seed, it excludes the "
        "variation over samples of rows and initial weights."
    )
    table = Table(["method", *names, "what it does"], shown, right=names, strong=[best], note=note)
    systems = [
        System(row["title"], {metric: Score(row[metric]["mean"], row[metric]["deviation"]) for metric in METRICS})
        for row in rows
    ]
    random = System("random order", {"pr_auc": share}, source="baseline")
    return Section(
        "The methods",
        [table, Comparison([*systems, random], metrics=METRICS, title="", note="± over seeds." if seeds > 1 else "")],
    )


def _differences(rows: list[dict[str, Any]]) -> Table:
    shown = [
        [
            row["title"],
            *(
                _with_interval(row["minus_plain"][metric], "+")
                + (" *" if row["minus_plain"][metric]["beyond_noise"] else "")
                for metric in METRICS
            ),
        ]
        for row in rows
        if "minus_plain" in row
    ]
    names = [metric.replace("_", " ") for metric in METRICS]
    return Table(
        ["method", *names],
        shown,
        title="Minus plain fine-tuning",
        right=names,
        note="Paired bootstrap. * marks significant differences: the interval does not contain zero.",
    )


def _curves(data: ComparisonData, share: float) -> Chart:
    lines = [
        Series(METHODS[method].title, curve.recall.tolist(), curve.precision.tolist(), smooth=False)
        for method, curve in data.curves.items()
    ]
    return Chart(
        "Precision at each recall",
        lines,
        x_label="recall",
        baselines={"random order": share},
        note="The highest precision at this recall or beyond, mean over seeds.",
    )


def _precisions(data: ComparisonData) -> Table:
    """The curves at three values of recall, with intervals."""
    shown = []
    for method, curve in data.curves.items():
        cells = []
        for recall in RECALLS:
            at = int(np.abs(curve.recall - recall).argmin())
            cells.append(_with_interval({"mean": curve.precision[at], "low": curve.low[at], "high": curve.high[at]}))
        shown.append([METHODS[method].title, *cells])
    names = [f"recall {percent(recall)}" for recall in RECALLS]
    note = "Mean over seeds with the 95% bootstrap interval over test rows and seeds."
    return Table(["method", *names], shown, title="Precision by recall", right=names, note=note)


def mean_errors(by_seed: Sequence[SeedPredictions]) -> np.ndarray:
    """Mean error of the autoencoder over seeds for each test row: float64 [rows]."""
    return np.mean([judged.values for judged in by_seed], axis=0)


def errors_by_length(data: ComparisonData) -> dict[str, Any]:
    """Whether the error of the autoencoder follows the length of a text instead of its class.

    Returns {"correlation": Spearman correlation of error and number of words in the rest, "rare_words", "rest_words":
    median number of words, "auc": ROC-AUC of the error, "long_words", "long_auc": of the texts of at least so many
    words, which nine of ten rare rows have}; None where undefined.
    """
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    words, rare = data.words, data.gold
    longest = int(np.quantile(words[rare], 0.1))
    long = words >= longest
    varies = len(set(words[~rare])) > 1 and len(set(data.errors[~rare])) > 1
    return {
        "correlation": float(spearmanr(data.errors[~rare], words[~rare]).statistic) if varies else None,
        "rare_words": float(np.median(words[rare])),
        "rest_words": float(np.median(words[~rare])),
        "auc": float(roc_auc_score(rare, data.errors)),
        "long_words": longest,
        "long_auc": float(roc_auc_score(rare[long], data.errors[long])) if not rare[long].all() else None,
    }


def length_sentence(data: ComparisonData) -> str:
    """A warning that the error follows the length of a text, or nothing."""
    found = errors_by_length(data)
    if found["correlation"] is None or abs(found["correlation"]) < FOLLOWS_LENGTH:
        return ""
    return (
        f"The error follows the length of a text (Spearman correlation {found['correlation']:.2f} in the rest), and "
        f"'{data.config.rare_class}' has {found['rare_words']:.0f} words, the rest {found['rest_words']:.0f} (medians)."
    )


def _with_interval(score: dict[str, Any], sign: str = "") -> str:
    return f"{score['mean']:{sign}.3f} ({score['low']:{sign}.3f} to {score['high']:{sign}.3f})"


def _next(data: ComparisonData, rows: list[dict[str, Any]]) -> NextSteps:
    config = data.config
    tuned = [row for row in rows if row["method"] in SETTINGS]
    best = max(tuned, key=lambda row: (row["f1"]["mean"], row["pr_auc"]["mean"]))
    values = {"model": config.model, "train": "train.tsv", "output": "runs/rare-model"}
    about = f"train with what had the best F1 here: {best['title']}"
    return NextSteps([Command.suggest(about, "finetune", **values, **SETTINGS[best["method"]](config))])


@dataclass(frozen=True)
class RareLabResult:
    """Paths and results: for each method {"method", "title", metric: {"mean", "low", "high",
    "deviation"}, "minus_plain": {metric: {"mean", "low", "high", "beyond_noise"}}}; parts: rows of train, dev, test.
    """

    output: Path
    rows: list[dict[str, Any]]
    parts: dict[str, dict[str, int]]
    already_finished: bool = False

    @property
    def report(self) -> Path:
        """The HTML report."""
        return self.output / "report.html"


def rare_lab(config: RareLabConfig, *, restart: bool = False) -> RareLabResult:
    """Run `config`, or resume it; a finished run is returned unchanged.

    Raises InputError for an unknown class or an impossible rate, RunError when the folder contains another run or the
    rows have changed, RowErrors for bad rows, ModelFolderError for an unreadable model.
    """
    device = resolve_device(config.device)
    config = config.resolved(str(device), resolve_precision(config.precision, device, training=True))
    with open_run_of(config, restart=restart) as run:
        if run.result is not None:
            return RareLabResult(run.path, run.result["rows"], run.result["parts"], already_finished=True)
        lab = RareLab(config, run)
        lab.run_parts()
        result = lab.conclude()
        run.finish(result)
        return RareLabResult(run.path, result["rows"], result["parts"])


class RareLab:
    """Loads the rows of a comparison, runs its parts, and scores them."""

    def __init__(self, config: RareLabConfig, run: RunFolder) -> None:
        self.config, self.run = config, run
        table = read_table(config.data, columns=config.columns or None, skip_bad_rows=config.skip_bad_rows)
        if table.num_skipped:
            warn(f"{config.data}: {plural(table.num_skipped, 'bad row is', 'bad rows are')} skipped.")
        self.pool = MinorityClassSampler(
            table.rows, config.rare_class, config.rate, max_train_rows=config.max_train_rows, seed=config.seed
        )
        if self.pool.num_repeated:
            note(f"{plural(self.pool.num_repeated, 'duplicate row is', 'duplicate rows are')} skipped.")
        self._check_model()
        self.seeds = [config.seed + number for number in range(config.seeds)]
        test = self.pool.parts(config.seed)
        self.gold = np.array([row.label == RARE for row in test.test])
        self.classes = np.array(test.test_classes, dtype=object)
        self.words = np.array([len(row.text.split()) + len((row.text_pair or "").split()) for row in test.test])
        self.sizes = {
            name: {"rows": rare + rest, "rare": rare}
            for name, (rare, rest) in zip(("train", "dev", "test"), self.pool.sizes, strict=True)
        }
        keys = "".join(row_key(row.text, row.text_pair) for row in test.test)
        self.digest = blake2b(keys.encode(), digest_size=16).hexdigest()
        self.found: dict[str, dict[int, MethodPredictions]] = {method: {} for method in METHODS}

    def run_parts(self) -> None:
        """Run the unfinished parts, seed by seed, with progress messages."""
        todo = [(method, seed) for seed in self.seeds for method in METHODS]
        started, done = time.monotonic(), 0
        for number, (method, seed) in enumerate(todo, start=1):
            path = self.run.path / "parts" / f"{method}-{seed}.json"
            if path.exists():
                self.found[method][seed] = self._read(path)
                continue
            left = f"; about {_minutes((time.monotonic() - started) / done * (len(todo) - number + 1))}" if done else ""
            note(f"Part {number} of {len(todo)}: {METHODS[method].title}, seed {seed}{left}.")
            finished = {name: by_seed[seed] for name, by_seed in self.found.items() if seed in by_seed}
            found = MethodRunner(self.config, self.pool.parts(seed), seed, finished).judge(method)
            self.run.check_inputs()  # of the model, which each part loads
            path.parent.mkdir(exist_ok=True)
            storage.write_json(path, self._as_json(found))
            self.found[method][seed] = found
            done += 1

    def conclude(self) -> dict[str, Any]:
        """Score all methods and write the report; returns the result of the run."""
        counts = draw_counts(len(self.gold), len(self.seeds), seed=self.config.seed)
        scores = {method: method_scores(self.gold, self.predictions_of(method), *counts) for method in METHODS}
        rows = [_row(method, scores) for method in METHODS]
        predictions = {method: self.predictions_of(method) for method in METHODS}
        curves = {  # the other methods have the scores of the method that they need
            method: mean_curve(self.gold, found, *counts)
            for method, found in predictions.items()
            if METHODS[method].needs is None
        }
        data = ComparisonData(
            self.config,
            self.gold,
            self.classes,
            self.sizes,
            self.pool.num_repeated,
            len(self.seeds),
            curves,
            mean_errors(predictions["autoencoder"]),
            self.words,
        )
        write_rare_lab_report(self.run, data, rows)
        return {
            "rows": rows,
            "parts": self.sizes,
            "curves": {method: curve.to_json() for method, curve in curves.items()},
            "errors": {name: data.errors[rows].tolist() for name, rows in data.rows_by_class.items()},
            "errors_by_length": errors_by_length(data),
        }

    def predictions_of(self, method: str) -> list[SeedPredictions]:
        """The predictions of a method for the test rows, seed by seed."""
        return [self.found[method][seed].test for seed in self.seeds]

    def _check_model(self) -> None:
        """Raise an error before training if the model is unsuitable."""
        model, _ = load_model(self.config.model, None)
        if model.tokenizer is None:
            raise InputError(f"{self.config.model} has no tokenizer: copy its tokenizer.json or vocab.txt to it.")
        positions = model.config.max_position_embeddings
        if self.config.max_length > positions:
            raise InputError(f"Setting 'max_length' is {self.config.max_length}; the model has {positions} positions.")

    def _as_json(self, found: MethodPredictions) -> dict[str, Any]:
        return {
            "test_rows": self.digest,
            "values": found.test.values.tolist(),
            "given": found.test.given.tolist(),
            "dev_values": found.dev_values.tolist(),
        }

    def _read(self, path: Path) -> MethodPredictions:
        facts = storage.read_json(path)
        if facts["test_rows"] != self.digest:
            raise RunError(
                f"{path} was made with other rows: {self.config.data} has changed. Restore the rows, or restart from "
                "scratch with --restart."
            )
        judged = SeedPredictions(np.array(facts["values"]), np.array(facts["given"], dtype=bool))
        return MethodPredictions(judged, np.array(facts["dev_values"]))


def _row(method: str, scores: dict[str, MethodScores]) -> dict[str, Any]:
    """The row of a method in the results."""
    own = scores[method]
    row: dict[str, Any] = {"method": method, "title": METHODS[method].title, "about": METHODS[method].about}
    several = len(own.observed) > 1
    for column, metric in enumerate(METRICS):
        deviation = float(own.observed[:, column].std(ddof=1)) if several else None
        row[metric] = {**own.interval(metric).to_json(), "deviation": deviation}
    if method != "plain":
        gaps = {metric: own.minus(scores["plain"], metric) for metric in METRICS}
        row["minus_plain"] = {
            metric: {**gap.to_json(), "beyond_noise": gap.is_beyond_noise} for metric, gap in gaps.items()
        }
    return row


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min remaining" if seconds >= 90 else f"{seconds:.0f} s remaining"
