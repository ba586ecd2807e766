"""A rare class and anomalies: told before training, ranked, and decided by a threshold of other rows."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score
from torch.nn.functional import mse_loss

from inference.samples import TEXTS, tiny, tokenizer
from maskwright.core.errors import ConfigError, InputError, ModelFolderError, RowErrors
from maskwright.core.randomness import generator
from maskwright.models.build import initialize
from maskwright.models.config import ModelConfig
from maskwright.models.probes import AutoencoderHead
from maskwright.tasks.anomaly import Anomaly
from maskwright.tasks.base import task_from_json
from maskwright.tasks.classification import Classification, Imbalance, resample_rows, row_probabilities
from maskwright.tasks.evaluation import compare as comparison
from maskwright.tasks.evaluation import metrics as scores
from maskwright.tasks.evaluation.calibration import Temperature
from maskwright.tasks.evaluation.compare import compare
from maskwright.tasks.evaluation.rare import RareClass, Threshold, choose_threshold, rare_metrics
from maskwright.tasks.evaluation.report import curve_of
from maskwright.tasks.examples import Examples
from maskwright.tasks.windows import LongTexts
from maskwright.text.readers.tables import Row
from maskwright.train.finetuning.finetune import fit
from tasks.standins import Words, row

RANKED = st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=2, max_size=40).filter(
    lambda rows: any(gold for gold, _ in rows)
)


def arrays(rows):
    gold, values = zip(*rows, strict=True)
    return np.array(gold), np.array(values, dtype=float), [f"row {number}" for number in range(len(rows))]


def test_shares_effective_numbers_and_the_constant_answer():
    found = Imbalance(["ham", "spam"], [950, 50], 1000)
    assert found.shares == [0.95, 0.05] and found.constant_accuracy == 0.95
    assert found.effective_numbers[1] == pytest.approx((1 - 0.999**50) / 0.001)
    assert found.rare == ["spam"]
    assert "spam: 50 rows, 5.0 %" in found.summary() and "0.950" in found.summary()


@pytest.mark.parametrize(
    ("counts", "rare"),
    [
        ([90, 10], []),  # a tenth is not below a tenth
        ([91, 9], ["1"]),
        ([10] * 77, []),  # many classes of one size: none is rare among them
        ([10] * 76 + [1], ["76"]),
        ([500, 480, 20], ["2"]),
    ],
)
def test_a_class_is_rare_below_a_tenth_and_below_half_of_its_even_share(counts, rare):
    found = Imbalance([str(place) for place in range(len(counts))], counts, sum(counts))
    assert found.rare == rare and bool(found.summary()) == bool(rare)


def test_training_rows_tell_of_a_rare_class_and_dev_rows_do_not():
    rows = [row("a b", "ham", line=n) for n in range(19)] + [row("a b", "spam", line=20)]
    task = Classification.from_rows(rows)
    examples = task.examples(rows, Words())
    assert any("Rare classes" in told for told in task.notes(examples, "train", 16))
    assert not any("Rare classes" in told for told in task.notes(examples, "dev", 16))
    assert task.main_metric == "macro_f1"
    assert Classification.from_rows(rows[10:] + rows[-1:] * 5).main_metric == "accuracy"


def memberships(counts):
    return np.repeat(np.eye(len(counts), dtype=bool), counts, axis=0)


@pytest.mark.parametrize(("kind", "shares"), [("balanced", [1 / 2, 1 / 2]), ("sqrt", [30 / 40, 10 / 40])])
def test_the_shares_that_are_drawn(kind, shares):
    rows = memberships([900, 100])
    chances = row_probabilities(rows, kind)
    assert chances.sum() == pytest.approx(1.0)
    assert (rows * chances[:, None]).sum(axis=0) == pytest.approx(shares)
    drawn = resample_rows(chances, generator(1, "test"))
    assert len(drawn) == 1000 and drawn.max() < 1000
    assert rows[drawn].mean(axis=0) == pytest.approx(shares, abs=0.0011)


def test_a_row_of_several_classes_is_drawn_for_its_rarest():
    rows = np.array([[1, 0], [1, 0], [1, 1], [0, 0]], dtype=bool)
    chances = row_probabilities(rows, "balanced")
    assert chances / chances[0] == pytest.approx([1, 1, 3, 3])


@given(RANKED)
def test_pr_auc_is_scikit_learns_average_precision(rows):
    gold, values, _ = arrays(rows)
    assert scores.pr_auc(gold, values) == pytest.approx(average_precision_score(gold, values))


def test_recall_at_a_precision_by_hand():
    gold = np.array([1, 1, 0, 1, 0, 0, 0, 1], dtype=bool)
    values = np.array([8, 7, 6, 5, 4, 3, 2, 1], dtype=float)
    assert scores.recall_at_precision(gold, values, 0.9) == 0.5  # the two highest; the third makes it 2 of 3
    assert scores.recall_at_precision(gold, values, 0.75) == 0.75  # 3 of the 4 highest are right
    assert scores.recall_at_precision(gold, values, 0.5) == 1.0
    assert scores.recall_at_precision(gold, -values, 0.9) == 0.25
    assert scores.recall_at_precision(gold, np.where(gold, 0.0, 1.0), 0.9) == 0.0


def test_without_a_row_of_the_class_nothing_is_shown():
    gold, values = np.zeros(3, dtype=bool), np.arange(3.0)
    assert rare_metrics(gold, values, gold) == {"pr_auc": 0.0, "f1": 0.0, "recall_at_precision_90": 0.0}


@settings(max_examples=30)
@given(RANKED)
def test_no_threshold_has_a_better_f1(rows):
    gold, values, keys = arrays(rows)
    threshold = choose_threshold(values, gold, keys)
    best = f1_score(gold, values > threshold.value, zero_division=0)
    others = [f1_score(gold, values > cut, zero_division=0) for cut in np.unique([*values, values.min() - 1])]
    assert best == pytest.approx(max(others))
    assert threshold.seen == set(keys)


@given(RANKED, st.sampled_from([0.3, 0.5, 0.9]))
def test_no_threshold_with_the_precision_has_more_recall(rows, precision):
    gold, values, keys = arrays(rows)
    given_class = values > choose_threshold(values, gold, keys, precision).value
    cuts = [values > cut for cut in np.unique([*values, values.min() - 1])]
    good = [cut for cut in cuts if cut.any() and gold[cut].mean() >= precision]
    if good:
        assert gold[given_class].mean() >= precision
        assert gold[given_class].sum() == max(gold[cut].sum() for cut in good)
    else:
        assert gold[given_class].mean() == max(gold[cut].mean() for cut in cuts if cut.any())


def test_rows_are_never_scored_with_a_threshold_that_they_chose():
    rng = np.random.default_rng(0)
    gold = np.arange(60) % 6 == 0
    values = np.where(gold, 0.6, 0.4) + rng.normal(0, 0.2, 60)
    keys = [f"row {number}" for number in range(60)]
    cuts = RareClass("x", True).thresholds(values, gold, keys)
    assert len(set(cuts)) == 2
    for cut in set(cuts):
        own, others = cuts == cut, cuts != cut
        assert (
            choose_threshold(
                values[others], gold[others], [k for k, other in zip(keys, others, strict=True) if other]
            ).value
            == cut
        )
        assert abs(int(gold[own].sum()) - int(gold[others].sum())) <= 1
    tuned = RareClass("x", True).tuned(values, gold, keys)
    assert (tuned.thresholds(values, gold, keys) == cuts).all()  # these rows chose it
    assert (tuned.thresholds(values, gold, [f"new {key}" for key in keys]) == tuned.threshold.value).all()
    assert len(set(tuned.thresholds(values, gold, [*keys[:1], *[f"new {key}" for key in keys[1:]]]))) == 2


def test_an_unreachable_precision_and_a_class_missing_in_dev_are_reported(capsys):
    gold, values, keys = np.array([True, False]), np.array([0.1, 0.9]), ["a", "b"]
    RareClass("x", True, 0.9).tuned(values, gold, keys)
    assert "No threshold reaches a precision of 0.9" in capsys.readouterr().err
    assert RareClass("x", True).tuned(values, ~gold & False, keys).threshold.value == 0.5
    assert "No dev example is of the class 'x'" in capsys.readouterr().err
    with pytest.raises(InputError, match="rows of the class"):
        choose_threshold(values, ~gold & False, keys)


def scored(task, logits, labels):
    rows = [row(f"text {number}", label, line=number) for number, label in enumerate(labels)]
    examples = task.examples(rows, Words())
    assert isinstance(examples, Examples)
    return examples, task.score(torch.tensor(logits), examples)


def test_the_class_is_given_above_its_threshold_and_else_the_best_of_the_others():
    task = Classification(["a", "b", "c"], rare=RareClass("c", True, threshold=Threshold(0.2)))
    logits = torch.tensor([[0.6, 0.1, 0.3], [0.5, 0.35, 0.15], [0.1, 0.85, 0.05], [0.3, 0.3, 0.4]]).log()
    assert task.decide(logits).tolist() == [2, 0, 1, 2]
    assert [answer["label"] for answer in task.decode(logits)] == ["c", "a", "b", "c"]
    assert task.decide(logits, 0.9).tolist() == [0, 0, 1, 0]
    several = Classification(["a", "b"], True, rare=RareClass("b", True, threshold=Threshold(0.2)))
    assert several.decide(torch.tensor([[0.6, 0.3], [0.4, 0.1]]).logit()).tolist() == [[True, True], [False, False]]


def test_scores_are_about_the_named_class():
    logits = [[2.0, 0.0, 1.0], [0.0, 2.0, 0.5], [0.0, 0.0, 3.0], [0.0, 0.0, 1.0]]
    _, plain = scored(Classification(["a", "b", "c"]), logits, ["a", "b", "c", "a"])
    assert "pr_auc" not in plain.metrics
    _, named = scored(Classification(["a", "b", "c"]).for_class("c"), logits, ["a", "b", "c", "a"])
    assert named.metrics["pr_auc"] == 1.0 and named.metrics["recall_at_precision_90"] == 1.0
    assert named.metrics["f1"] == pytest.approx(2 / 3)
    with pytest.raises(InputError, match="Did you mean 'c'|Known: a, b, c"):
        Classification(["a", "b", "c"]).for_class("cc")


def test_facts_bring_focal_resampling_and_threshold_back():
    rare = RareClass("b", True, 0.9, Threshold(0.25, frozenset({"x", "y"})))
    task = Classification(["a", "b"], focal=2.0, resample="sqrt", rare=rare)
    again = task_from_json(task.to_json())
    assert again.to_json() == task.to_json() and again.rare == rare
    for wrong in ({"label": "z"}, {"label": "b", "tunes": 1}, {"label": "b", "tunes": True, "precision": 2.0}, 3):
        with pytest.raises(ModelFolderError):
            task_from_json({**task.to_json(), "rare": wrong})
    with pytest.raises(ModelFolderError):
        task_from_json({**task.to_json(), "focal": "much"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold_for": "c"}, "Unknown class 'c'"),
        ({"focal": -1.0}, "gamma"),
        ({"focal": float("nan")}, "gamma"),
        ({"resample": "often"}, "Unknown resampling"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        Classification.from_rows([row("a", "a"), row("b", "b")], **options)


# -- A threshold for a rare class combined with temperatures, ensembles, windows and ---------------------------------


@pytest.fixture(autouse=True)
def few_samples(monkeypatch):
    monkeypatch.setattr(comparison, "SAMPLES", 100)


def rows_of(labels):
    return [Row(f"text {number}", None, label, number, "rows.tsv") for number, label in enumerate(labels, start=1)]


def some_logits(rows=40, classes=3, seed=0):
    return torch.tensor(np.random.default_rng(seed).normal(size=(rows, classes)), dtype=torch.float32)


def classifier(labels=("a", "b", "c"), cut=0.2, multi_label=False, temperature=None, seen=()):
    task = Classification(
        labels, multi_label, rare=RareClass(labels[-1], True, threshold=Threshold(cut, frozenset(seen)))
    )
    task.temperature = None if temperature is None else Temperature(temperature)
    return task


@settings(max_examples=40, deadline=None)
@given(st.floats(0.05, 20.0), st.floats(0.01, 0.99), st.booleans(), st.integers(0, 100))
def test_no_temperature_changes_an_answer(temperature, cut, multi_label, seed):
    logits = some_logits(seed=seed)
    name = "labels" if multi_label else "label"
    raw = classifier(cut=cut, multi_label=multi_label).decode(logits)
    warm = classifier(cut=cut, multi_label=multi_label, temperature=temperature).decode(logits)
    assert [answer[name] for answer in raw] == [answer[name] for answer in warm]


def test_a_threshold_chosen_after_calibration_is_the_one_chosen_before():
    logits, gold = some_logits(classes=2), ["a", "b", "a", "a"] * 10
    first, second = (Classification(["a", "b"], rare=RareClass("b", True)) for _ in range(2))
    examples = first.examples(rows_of(gold), Words())
    first.tune_threshold(logits, examples)
    first.calibrate(logits, examples)
    second.calibrate(logits, examples)
    second.tune_threshold(logits, examples)
    assert first.to_json() == second.to_json()
    assert first.temperature is not None and first.temperature.value != 1.0
    unlike = {"ece", "ece_equal_mass"}
    before = Classification(["a", "b"], rare=first.rare).score(logits, examples).metrics
    after = first.score(logits, examples).metrics
    assert {k: v for k, v in before.items() if k not in unlike} == {k: v for k, v in after.items() if k not in unlike}


def test_an_ensemble_has_the_mean_of_the_thresholds_or_none_and_says_so(capsys):
    first, second = classifier(cut=0.2, seen="x"), classifier(cut=0.4, seen="y")
    joined = first.joined([second])
    assert joined.rare.threshold.value == pytest.approx(0.3) and joined.rare.threshold.seen == {"x", "y"}
    assert first.rare.threshold.value == 0.2
    assert not capsys.readouterr().err
    for other in (Classification(["a", "b", "c"]), classifier(temperature=2.0)):
        alone = first.joined([other])
        assert alone.rare == RareClass("c") and "no comparable thresholds" in capsys.readouterr().err
        logits = some_logits()
        assert alone.decide(logits).tolist() == logits.argmax(dim=1).tolist()


def test_confidence_on_the_risk_curve_is_that_of_what_is_answered():
    task = classifier(("a", "b"), cut=0.1)
    logits = torch.tensor([[0.8, 0.2], [0.7, 0.3], [0.95, 0.05]]).log()
    examples = task.examples(rows_of("bba"), Words())
    curve = curve_of(task.decisions(logits, examples), None)
    assert curve.confidence == pytest.approx([0.95, 0.3, 0.2]) and curve.risk.tolist() == [0, 0, 0]


def test_a_model_with_a_rare_class_is_compared_by_it_with_one_without():
    gold = (["a"] * 9 + ["b"]) * 6
    right = torch.tensor([[0.0, 3.0 if label == "b" else -3.0] for label in gold])
    first, second = classifier(("a", "b"), 0.3).on_equal_terms(Classification(["a", "b"]))
    examples = first.examples(rows_of(gold), Words())
    found = compare(first.rate(right, examples), second.rate(some_logits(60, 2), examples))
    assert found.metric == "pr_auc" and found.first == 1.0 > found.second and found.is_significant
    with pytest.raises(InputError, match="Unknown class 'c'"):
        classifier().on_equal_terms(Classification(["a", "b"]))


def test_a_metric_that_is_named_goes_before_that_of_rare_classes():
    rows = rows_of(["a"] * 19 + ["b"])
    assert Classification.from_rows(rows).main_metric == "macro_f1"
    chosen = Classification.from_rows(rows, threshold_for="b")
    assert chosen.main_metric == "pr_auc"
    for metric in ("accuracy", "recall_at_precision_90", "f1"):
        chosen.choose_by(metric)
        assert chosen.main_metric == metric
    with pytest.raises(ConfigError, match="pr_auc"):
        Classification(["a", "b", "c"], rare=RareClass("c")).choose_by("ece")


def test_detectors_are_combined_by_the_mean_of_errors_and_thresholds():
    first, second = Anomaly("a", threshold=Threshold(1.0)), Anomaly("a", threshold=Threshold(3.0))
    joined = first.joined([second])
    united = joined.combine_predictions([torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [2.0]])], [None, None])
    assert [answer["is_rare"] for answer in joined.decode(united)] == [False, True]
    assert joined.threshold.value == 2.0 and first.threshold.value == 1.0
    with pytest.raises(InputError, match="different normal classes"):
        first.joined([Anomaly("b")])


def test_detectors_are_compared_by_how_they_rank():
    task = Anomaly("a", threshold=Threshold(0.5))
    examples = task.examples(rows_of("aaab" * 10), Words())
    assert isinstance(examples, Examples)
    errors = torch.tensor([[0.1], [0.2], [0.1], [0.9]] * 10)
    found = compare(task.rate(errors, examples), task.rate(1 - errors, examples))
    assert found.metric == "pr_auc" and found.first == 1.0 and found.is_significant and found.mcnemar is not None
    normal = task.examples(rows_of("aaaa" * 10), Words())
    assert task.rate(errors, normal).metric == "explained_variance"
    with pytest.raises(InputError, match="'a' as normal and the other 'b'"):
        task.on_equal_terms(Anomaly("b"))


# -- Anomalies -------------------------------------------------------------------------------------------------------

SIZE = 16


def head(seed=1):
    found = AutoencoderHead(ModelConfig(vocab_size=10, hidden_size=SIZE, num_attention_heads=2))
    initialize(found, 0.2, seed)
    return found


def test_its_logits_are_the_mean_squared_error_of_what_is_given_back():
    found, vectors = head(), torch.randn(5, SIZE)
    found.fit_scale(torch.randn(40, SIZE) * 3 + 2)
    scaled = (vectors - found.center) / found.log_scale.exp()
    expected = torch.stack([mse_loss(found.reconstruct(one[None]), one[None]) for one in scaled])
    assert torch.allclose(found(vectors).squeeze(-1), expected, atol=1e-6)


def test_scale_is_mean_and_deviation_and_a_constant_number_stays_small():
    found, vectors = head(), torch.randn(50, SIZE) * 4 - 1
    vectors[:, 3] = 7.0
    found.fit_scale(vectors)
    assert torch.allclose(found.center, vectors.mean(0))
    assert torch.allclose(found.log_scale.exp()[:3], vectors.std(0, correction=0)[:3])
    assert found.log_scale[3] == 0


def labeled_rows(*labels):
    return [row(TEXTS[number % 5], label, line=number + 2) for number, label in enumerate(labels)]


def test_the_most_common_class_is_normal_and_the_only_training_data():
    rows = labeled_rows("a", "b", "b", "c", "b", "a")
    task = Anomaly.from_rows(rows, rows)
    assert task.normal == "b" and task.main_metric == "pr_auc"
    assert [one.label for one in task.learns_from(rows)] == ["b", "b", "b"]
    assert task.examples(rows, tokenizer(), 16).targets.tolist() == [1, 0, 0, 1, 0, 1]
    assert Anomaly.from_rows(rows, normal="c").normal == "c"
    assert Anomaly.from_rows(labeled_rows("b", "a")).normal == "a"


def test_rows_without_classes_are_all_normal():
    rows = labeled_rows(None, None, None)
    task = Anomaly.from_rows(rows, rows)
    assert task.normal is None and task.main_metric == "explained_variance"
    assert task.learns_from(rows) == rows


def test_unusable_training_data_is_rejected():
    with pytest.raises(InputError, match="Did you mean 'spam'"):
        Anomaly.from_rows(labeled_rows("spam", "ham"), normal="spa")
    with pytest.raises(InputError, match="no classes"):
        Anomaly.from_rows(labeled_rows(None, None), normal="ham")
    with pytest.raises(RowErrors, match="is missing"):
        Anomaly.from_rows(labeled_rows("ham", None))
    with pytest.raises(InputError, match="has no row"):
        Anomaly.from_rows([])
    for wrong in ({"quantile": 2.0}, {"normal": 3}, {"threshold": "high"}):
        with pytest.raises(ModelFolderError):
            Anomaly.from_json({"task": "anomaly", **wrong})


def logits_of(*errors):
    return torch.tensor(errors)[:, None]


def test_the_threshold_is_a_quantile_of_normal_errors_or_the_best_f1():
    task = Anomaly.from_rows(labeled_rows("n", "n", "x"))
    errors = logits_of(1.0, 2.0, 3.0, 4.0, 5.0)
    task.tune_threshold(errors, task.examples(labeled_rows("n", "n", "n", "n", "n"), tokenizer(), 16))
    assert task.threshold.value == pytest.approx(np.quantile([1, 2, 3, 4, 5], 0.95))
    task.tune_threshold(errors, task.examples(labeled_rows("n", "n", "n", "x", "x"), tokenizer(), 16))
    assert task.threshold.value == 3.5
    assert [answer["is_rare"] for answer in task.decode(errors)] == [False, False, False, True, True]
    assert Anomaly("n").decode(errors)[0] == {"score": 1.0, "is_rare": None, "threshold": None}


def test_rows_that_chose_the_threshold_are_scored_with_others():
    task = Anomaly.from_rows(labeled_rows("n", "x"), labeled_rows("n", "x"))
    labels = ["x" if number % 5 == 0 else "n" for number in range(40)]
    rows = [row(f"text {number}", label) for number, label in enumerate(labels)]
    examples = task.examples(rows, tokenizer(), 16)
    errors = torch.linspace(0, 1, 40)[:, None] + torch.tensor([label == "x" for label in labels])[:, None] * 0.3
    before = task.score(errors, examples).metrics
    task.tune_threshold(errors, examples)
    assert task.score(errors, examples).metrics == before
    fresh = task.examples([row(f"new {number}", label) for number, label in enumerate(labels)], tokenizer(), 16)
    own = task.score(errors, fresh).metrics
    assert own["pr_auc"] == before["pr_auc"] and own["f1"] > before["f1"]
    assert own["explained_variance"] == pytest.approx(1 - float(errors[[label == "n" for label in labels]].mean()))


@pytest.fixture(scope="module")
def trained():
    rows = [row(text, "n") for text in TEXTS if text] * 3
    task = Anomaly.from_rows(rows)
    model = tiny("anomaly")
    before = {name: tensor.clone() for name, tensor in model.encoder.state_dict().items()}
    examples = task.prepare(model, task.examples(rows, tokenizer(), 24))
    task.init_from_counts(model, examples)
    fit(model, task, examples, epochs=20, lr=1e-2, batch_size=8, precision="fp32")
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.encoder.state_dict().items())
    return task, model, examples


def test_the_encoder_stays_and_known_vectors_give_the_same_errors(trained):
    task, model, examples = trained
    assert examples.features is not None
    plain = task.examples(examples.rows, tokenizer(), 24)
    assert torch.allclose(task.logits(model, examples), task.logits(model, plain), atol=1e-5)
    assert float(task.logits(model, examples).mean()) < 0.5


LONG = " ".join(TEXTS)


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_the_error_of_a_long_text_is_pooled_from_its_windows_by_hand(pool):
    task = Anomaly("n", long=LongTexts(stride=3, pool=pool))
    model, other = tiny("anomaly"), [row("rain fell", "n"), row(LONG, "n", line=2)]
    examples = task.examples(other, tokenizer(), 12)
    model.head.fit_scale(task.features(model, examples))
    alone = torch.cat(
        [model.logits(examples.sequences.batch([index])) for index in range(len(examples.input_ids))]
    ).detach()
    by_hand = alone[1:].mean() if pool == "mean" else alone[1:].max()
    known = task.prepare(model, examples)
    assert known.features.shape == (len(alone), model.config.hidden_size)
    for way in (examples, known):
        found = task.logits(model, way)
        assert torch.allclose(found.flatten(), torch.stack([alone[0, 0], by_hand]), atol=1e-5)
        answer = task.predict(model, way)[1]
        top_window = answer["loudest"]
        assert top_window["windows"] == len(alone) - 1 and top_window["window"] == int(alone[1:].argmax())
        assert top_window["score"] == pytest.approx(float(alone[1:].max()), abs=1e-5)
        assert answer["score"] == pytest.approx(float(by_hand), abs=1e-5)
