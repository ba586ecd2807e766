"""Estimators: scikit-learn's conventions, and models that learn, are saved and come back."""

import pickle

import numpy as np
import pandas
import pytest
import torch
from sklearn.base import clone, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_get_params_invariance, check_no_attributes_set_in_init

import maskwright as mw
from inference.samples import TEXTS, tiny
from maskwright import api, estimators
from maskwright.core.errors import ConfigError, InputError, ModelFolderError
from maskwright.inference.predict import Predictor

ANIMALS = ["cats chase dogs", "the cat sat", "penguins are birds", "dogs in the garden", "flightless birds", "cats"]
SHOPPING = ["a gallon of milk", "she bought milk", "at the store", "bought at the store", "milk !", "the store"]
X = (ANIMALS + SHOPPING) * 2
Y = (["animal"] * 6 + ["shop"] * 6) * 2
QUICK = {"epochs": 6, "lr": 5e-3, "batch_size": 8, "max_length": 16, "precision": "fp32", "device": "cpu"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "encoder"
    tiny("pretraining").save(path)
    return str(path)


@pytest.fixture(scope="module")
def classifier(folder):
    return mw.TextClassifier(folder, **QUICK).fit(X, Y)


# -- conventions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [getattr(estimators, name) for name in estimators.__all__])
def test_parameters_are_stored_as_given_and_can_be_cloned(folder, cls):
    estimator = cls("no/such/folder", precision="int4")
    check_get_params_invariance(cls.__name__, estimator)
    check_no_attributes_set_in_init(cls.__name__, estimator)
    changed = clone(estimator).set_params(device="cpu", precision="fp32")
    assert changed.get_params() == {**estimator.get_params(), "device": "cpu", "precision": "fp32"}
    assert repr(estimator).startswith(cls.__name__)
    assert all(f"{name}: " in cls.__doc__ for name in estimator.get_params())  # help() tells every parameter
    if hasattr(cls, "save"):
        with pytest.raises(NotFittedError):
            estimator.save("nowhere")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"epochs": 1.5}, "epochs"),
        ({"batch_size": 0}, "batch_size"),
        ({"random_state": None}, "random_state"),
        ({"class_weight": "heavy"}, "class_weight"),
        ({"class_weight": {"animals": 2.0}}, "class_weight names"),
        ({"lr": "fast"}, "lr"),
        ({"learning_rate": 1e-4}, "pass lr alone"),
        ({"warmup": -0.1}, "warmup"),
        ({"schedule": "lineer"}, "linear"),
        ({"precision": "int4"}, "precision"),
        ({"device": "abacus"}, "device"),
        ({"columns": ("a", "a")}, "columns"),
        ({"columns": "text"}, "columns"),
        ({"adapter": "lorax"}, "it must be 'lora'"),
        ({"adapter": {"rang": 2}}, "rang"),
        ({"adapter": "lora", "freeze_encoder": True}, "exclude each other"),
        ({"adapter": "lora", "model": tiny()}, "needs the name of its base"),
    ],
)
def test_fit_refuses_parameters_out_of_range(folder, parameters, words):
    with pytest.raises(ConfigError, match=words):
        mw.TextClassifier(**{"model": folder, **QUICK, **parameters}).fit(X, Y)


def test_parameters_decide_the_training(folder, classifier, capsys):
    options = {name: value for name, value in QUICK.items() if name != "lr"} | {"epochs": 1}
    plain = mw.TextClassifier(folder, lr=5e-3, **options).fit(X, Y).predict_proba(X)
    same = mw.TextClassifier(folder, learning_rate=5e-3, **options).fit(X, Y).predict_proba(X)
    assert "learning_rate is deprecated: use lr" in capsys.readouterr().err and np.array_equal(plain, same)
    for other in ({"lr": 1e-3}, {"schedule": "constant"}, {"warmup": 0.5}, {"random_state": 7}):
        found = mw.TextClassifier(folder, **{**options, "lr": 5e-3, **other}).fit(X, Y).predict_proba(X)
        assert not np.allclose(plain, found, atol=1e-4)


# -- classification ------------------------------------------------------------------------------------------------


def test_a_classifier_learns_and_its_probabilities_sum_to_one(classifier):
    assert classifier.score(X, Y) > 0.9
    probabilities = classifier.predict_proba(X)
    assert probabilities.shape == (24, 2) and np.allclose(probabilities.sum(axis=1), 1.0)
    assert classifier.classes_.tolist() == ["animal", "shop"]
    assert (classifier.classes_[probabilities.argmax(axis=1)] == classifier.predict(X)).all()


def test_a_classifier_comes_back_from_its_folder(classifier, tmp_path):
    classifier.save(tmp_path / "saved")
    again = mw.TextClassifier.load(tmp_path / "saved", precision="fp32", device="cpu")
    assert np.allclose(again.predict_proba(X), classifier.predict_proba(X), atol=1e-6)
    assert again.classes_.tolist() == classifier.classes_.tolist() and again.get_params()["epochs"] == 6
    assert again.fit(X, Y).score(X, Y) > 0.9, "it can be trained on"


@pytest.mark.parametrize("labels", [[3, 10], [False, True], [0.0, 1.0]])
def test_classes_keep_their_type_also_in_a_folder(folder, tmp_path, labels):
    y = np.array([labels[0] if name == "animal" else labels[1] for name in Y])
    fitted = mw.TextClassifier(folder, **{**QUICK, "epochs": 1}).fit(X, y)
    fitted.save(tmp_path / "saved")
    again = mw.TextClassifier.load(tmp_path / "saved")
    for estimator in (fitted, again):
        assert estimator.classes_.dtype == y.dtype and estimator.predict(X).dtype == y.dtype
        assert set(estimator.predict(X).tolist()) <= set(labels)


def test_texts_may_be_arrays_columns_or_pairs(folder, classifier, tmp_path):
    expected = classifier.predict(X)
    for texts in (np.array(X), np.array(X, dtype=object), pandas.Series(X), pandas.DataFrame({"text": X})):
        assert (classifier.predict(texts) == expected).all()
    pairs = list(zip(X, reversed(X), strict=True))
    fitted = mw.TextClassifier(folder, **{**QUICK, "epochs": 1}).fit(pairs, pandas.Series(Y))
    expected = fitted.predict_proba(pairs)
    assert expected.shape == (24, 2)
    named = pandas.DataFrame({"text_pair": X[::-1], "text": X})  # by name: the order does not count
    assert (fitted.predict_proba(named) == expected).all()
    fitted.set_params(columns=("body", "reply"))
    frame = pandas.DataFrame({"reply": X[::-1], "label": Y, "body": X})
    assert (fitted.predict_proba(frame) == expected).all()
    fitted.save(tmp_path / "saved")
    assert (mw.TextClassifier.load(tmp_path / "saved").predict_proba(frame) == expected).all()
    fitted.set_params(columns=(0, 1))
    assert (fitted.predict_proba(np.array(pairs)) == expected).all()


FRAMES = {
    "two columns": pandas.DataFrame({"body": X, "reply": X[::-1]}),
    "text and label": pandas.DataFrame({"text": X, "label": Y}),
    "a pair and more": pandas.DataFrame({"text": X, "text_pair": X, "id": range(len(X))}),
    "one name twice": pandas.DataFrame(zip(X, X, strict=True), columns=["text", "text"]),
    "a matrix": np.array(list(zip(X, X, strict=True))),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_table_is_pairs_only_where_it_says_so(folder, classifier, name):
    frame = FRAMES[name]
    calls = [
        lambda: mw.TextClassifier(folder, **QUICK).fit(frame, Y),
        lambda: mw.TextRegressor(folder, **QUICK).fit(frame, [1.0] * len(X)),
        lambda: mw.AnomalyDetector(folder).fit(frame),
        lambda: classifier.predict(frame),
        lambda: mw.Embedder(folder).transform(frame),
        lambda: mw.Embedder(folder).word_vectors(frame),
        lambda: mw.FillMask(folder).predict(frame),
        lambda: api.similarity(folder, frame),
        lambda: api.cluster(folder, frame),
        lambda: classifier.model_.tokenizer.encode_batch(frame),
        lambda: Predictor(classifier.model_, classifier.task_).predict(frame),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"'text' and 'text_pair'.*columns=\(FIRST, SECOND\)"):
            call()
    if name != "a matrix":
        for estimator in (mw.QuestionAnswerer(folder), mw.MultipleChoice(folder), mw.TokenTagger(folder)):
            with pytest.raises(InputError, match="column|frame"):
                estimator.fit(frame, Y)


def test_several_labels_are_a_matrix_in_and_out(folder):
    animal, shop = (np.array(Y) == name for name in ("animal", "shop"))
    gold = np.stack([animal, shop, animal & (np.array([len(text) for text in X]) > 14)], axis=1).astype(int)
    fitted = mw.TextClassifier(folder, **{**QUICK, "epochs": 10}, class_weight="balanced").fit(X, gold)
    assert fitted.predict(X).shape == gold.shape and set(np.unique(fitted.predict(X))) <= {0, 1}
    assert (fitted.predict(X)[:, :2] == gold[:, :2]).mean() > 0.9
    assert fitted.score(X, fitted.predict(X)) == 1.0


def test_class_weights_move_the_answer_to_the_rare_class(folder):
    y = ["animal"] * 24
    y[6] = y[18] = "shop"
    shares = [
        mw.TextClassifier(folder, **{**QUICK, "epochs": 1}, class_weight=weight).fit(X, y).predict_proba(X)[:, 1].mean()
        for weight in (None, "balanced", {"shop": 50.0})
    ]
    assert shares[0] < shares[1] and shares[0] < shares[2]


def test_a_model_in_memory_is_copied_not_changed(folder):
    source = tiny("mlm")
    before = {name: value.clone() for name, value in source.state_dict().items()}
    fitted = mw.TextClassifier(source, **{**QUICK, "epochs": 1}).fit(X, Y)
    assert all((before[name] == value).all() for name, value in source.state_dict().items())
    assert fitted.model_.head_name == "classification"


UNUSABLE = [
    (mw.TextClassifier, ["a", "b"], ["p"], "as many"),
    (mw.TextClassifier, [], [], "empty"),
    (mw.TextClassifier, ["a", "b"], ["p", "p"], "at least two"),
    (mw.TextClassifier, ["a", "b"], ["p", None], "no class for item 1"),
    (mw.TextClassifier, ["a", "b", "c"], ["p", "q", float("nan")], "no class for item 2"),
    (mw.TextClassifier, ["a", "b"], pandas.Series(["p", pandas.NA], dtype="string"), "no class for item 1"),
    (mw.TextClassifier, ["a", "b"], pandas.array([1, None], dtype="Int64"), "no class for item 1"),
    (mw.TextClassifier, ["a", "b"], [[0, 1], [1, pandas.NA]], "no 0 or 1 for item 3"),
    (mw.TextClassifier, ["a", "b"], ["p", 1], "different types"),
    (mw.TextClassifier, ["a", "b"], [0.5, 1.5], "TextRegressor"),
    (mw.TextClassifier, ["a", "b"], np.array(["p", 1], dtype=object), "different types"),
    (mw.TextClassifier, ["a", "b"], [[0, 2], [1, 0]], "0 and 1"),
    (mw.TextClassifier, ["a", "b"], [["p"], "q"], "'q' for item 1"),
    (mw.TextClassifier, ["a", "b"], [["p", "q"], [None]], "missing label for item 1"),
    (mw.TextClassifier, ["a", "b"], [{"p", 1}, {"p"}], "different types"),
    (mw.TextClassifier, ["a", "b"], [["p"], ["p"]], "at least two"),
    (mw.TextClassifier, "ab", ["p", "q"], "list"),
    (mw.TextClassifier, ["a", None], ["p", "q"], "NoneType"),
    (mw.TextRegressor, ["a", "b"], ["a", "b"], "TextClassifier"),
    (mw.TextRegressor, ["a", "b"], [1.0, float("inf")], "finite"),
    (mw.TextRegressor, ["a", "b"], [[1.0], [2.0]], "one finite number"),
    (mw.TokenTagger, [["a", "b"]], [["O"]], "2 words and 1 tags"),
    (mw.TokenTagger, [["a", ""]], [["O", "O"]], "where a word is needed"),
    (mw.TokenTagger, ["a b"], ["O O"], "is not a list of tags"),
    (mw.TokenTagger, [3], [["O"]], "neither a list of words nor a text"),
    (mw.TokenTagger, "a b", [["O"]], "list of lists of words"),
    (mw.TokenTagger, [["a"]], [["O"], ["O"]], "as many"),
    (mw.QuestionAnswerer, ["only a question"], [""], "no pair"),
    (mw.QuestionAnswerer, [("who?", "rain fell")], ["snow"], "Item 0"),
    (mw.MultipleChoice, [("a", "b")], [0], "not a row"),
    (mw.MultipleChoice, [("a", ["b", "c"])], "0", "list of numbers"),
]


@pytest.mark.parametrize(("cls", "x", "y", "words"), UNUSABLE)
def test_unusable_training_data_is_rejected_with_an_error(folder, cls, x, y, words):
    with pytest.raises(InputError, match=words):
        cls(folder, **({} if cls is mw.MultipleChoice else QUICK)).fit(x, y)


@pytest.mark.parametrize("form", [list, tuple, set, pandas.Series])
def test_lists_of_labels_are_multi_label_as_their_indicators(folder, tmp_path, form):
    labels = [["animal"], ["shop", "animal"], [], ["shop"]] * 6
    indicators = [[1, 0], [1, 1], [0, 0], [0, 1]] * 6
    y = pandas.Series(labels) if form is pandas.Series else [form(one) for one in labels]
    settings = {**QUICK, "epochs": 1}
    found = mw.TextClassifier(folder, **settings).fit(X, y)
    assert found.classes_.tolist() == ["animal", "shop"]
    wanted = mw.TextClassifier(folder, **settings).fit(X, indicators)
    np.testing.assert_array_equal(found.predict_proba(X), wanted.predict_proba(X))
    assert found.predict(X).tolist() == wanted.predict(X).tolist()
    assert found.score(X, y) == wanted.score(X, indicators)
    with pytest.raises(InputError, match=r"'bird' for item 0.*animal"):
        found.score(["a robin"], [["bird"]])
    found.save(tmp_path / "m")
    assert mw.TextClassifier.load(tmp_path / "m").classes_.tolist() == ["animal", "shop"]


MISSING = [pandas.NA, pandas.NaT, None, float("nan")]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
@pytest.mark.parametrize(
    ("name", "x", "targets"),
    [
        ("TextRegressor", ["a", "b"], lambda missing: [0.5, missing]),
        ("TokenTagger", [["a", "b"]], lambda missing: [["O", missing]]),
        ("MultipleChoice", [("a", ["b", "c"])] * 2, lambda missing: [0, missing]),
        ("QuestionAnswerer", [("a?", "b")] * 2, lambda missing: ["b", [missing]]),
    ],
)
@pytest.mark.compatibility(
    "pandas 3.1.1",
    theirs="comparing pandas.NA gives NA, whose truth value is a TypeError",
    ours="a missing target of any kind is rejected in a sentence with its item",
)
def test_missing_targets_are_refused_by_every_estimator(folder, name, x, targets, missing):
    with pytest.raises(InputError, match="for item [01]"):
        getattr(mw, name)(folder, **{k: v for k, v in QUICK.items() if k != "max_length"}).fit(x, targets(missing))


# -- inside scikit-learn -------------------------------------------------------------------------------------------


def test_cross_validation_and_grid_search_run(folder):
    quick = mw.TextClassifier(folder, **{**QUICK, "epochs": 8, "lr": 1e-3})
    scores = cross_val_score(quick, X, Y, cv=2)
    assert scores.shape == (2,) and scores.mean() > 0.6
    search = GridSearchCV(quick, {"epochs": [1, 2]}, cv=2).fit(np.array(X), np.array(Y))
    assert search.best_params_["epochs"] in (1, 2) and search.predict(X).shape == (24,)


def test_vectors_feed_a_pipeline_and_its_search(folder):
    pipeline = make_pipeline(mw.Embedder(folder, device="cpu", precision="fp32"), LogisticRegression())
    assert pipeline.fit(X, Y).score(X, Y) > 0.9
    search = GridSearchCV(pipeline, {"embedder__pooling": ["cls", "mean"], "embedder__layers": ["last", "0"]}, cv=2)
    assert search.fit(X, Y).best_score_ > 0.5
    assert cross_val_score(pipeline, pandas.Series(X), Y, cv=2).mean() > 0.5


def test_a_fitted_classifier_travels_between_processes(classifier):
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(X), classifier.predict_proba(X))


# -- regression ----------------------------------------------------------------------------------------------------


def test_a_regressor_learns_numbers_and_comes_back(folder, tmp_path):
    y = np.array([1.0 if name == "animal" else 4.0 for name in Y])
    fitted = mw.TextRegressor(folder, **{**QUICK, "epochs": 15, "lr": 1e-3}).fit(X, y)
    assert fitted.score(X, y) > 0.5 and fitted.predict(X).dtype == np.float64
    fitted.save(tmp_path / "saved")
    again = mw.TextRegressor.load(tmp_path / "saved", device="cpu", precision="fp32")
    assert np.allclose(again.predict(X), fitted.predict(X), atol=1e-5)


# -- vectors and masks ---------------------------------------------------------------------------------------------


def test_an_embedder_needs_no_fit_and_names_its_columns(folder):
    embedder = mw.Embedder(folder, layers="concat-last-4", device="cpu", precision="fp32")
    vectors = embedder.transform(TEXTS)
    assert vectors.shape == (len(TEXTS), 128) and vectors.dtype == np.float32
    assert np.allclose(clone(embedder).fit(TEXTS).transform(np.array(TEXTS)), vectors, atol=1e-6)
    assert embedder.get_feature_names_out()[:2].tolist() == ["embedder0", "embedder1"]
    frame = embedder.set_output(transform="pandas").transform(TEXTS)
    assert frame.shape == (len(TEXTS), 128)


def test_masks_are_filled_and_scored(folder):
    filler = mw.FillMask(folder, top_k=3, device="cpu", precision="fp32")
    texts = ["the [MASK] sat", "rain [MASK] ."]
    found = filler.fill(texts)
    assert [len(text.masks[0].candidates) for text in found] == [3, 3]
    best = [text.masks[0].candidates[0] for text in found]
    assert filler.predict(texts) == [text.filled for text in found]
    assert filler.score(texts, [entry.token_str for entry in best]) == 1.0
    assert filler.score(texts, [found[0].masks[0].candidates[1].token_str, best[1].token_str]) == 0.5
    assert np.allclose(filler.predict_proba(texts)[0].sum(axis=1), 1.0)
    assert filler.fill("one [MASK]")[0].text == "one [MASK]"
    with pytest.raises(InputError, match="pairs"):
        filler.fill([("a [MASK]", "b")])


# -- TokenTagger ---------------------------------------------------------------------------------------------------

SENTENCES = [["the", "cat", "sat"], ["rain", "fell"], ["dogs", "chase", "cats"]] * 6
TAGS = [["O", "B-X", "O"], ["B-X", "O"], ["B-X", "O", "B-X"]] * 6


@pytest.mark.parametrize("crf", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_tagger_learns_saves_and_answers_the_same(folder, tmp_path, crf):
    tagger = mw.TokenTagger(folder, **{**QUICK, "epochs": 12, "lr": 2e-3}, crf=crf).fit(SENTENCES, TAGS)
    assert tagger.score(SENTENCES, TAGS) > 0.9 and tagger.classes_ == ["O", "B-X", "I-X"]
    tagger.save(tmp_path / "saved")
    again = mw.TokenTagger.load(tmp_path / "saved")
    assert again.crf is crf and again.predict(SENTENCES) == tagger.predict(SENTENCES)
    assert again.entities(["rain fell."])[0][0]["text"] == "rain"


@pytest.mark.parametrize("settings", [{"rank": 2, "alpha": 4, "targets": "all-linear", "dropout": 0.1}])
def test_an_adapter_is_trained_saved_and_loaded(settings, tmp_path):
    tiny().save(tmp_path / "base")
    texts, labels = ["the cat", "the mat"] * 12, ["animal", "thing"] * 12
    parameters = {"adapter": settings, "epochs": 8, "lr": 1e-2, "batch_size": 8, "precision": "fp32"}
    classifier = mw.TextClassifier(str(tmp_path / "base"), **parameters).fit(texts, labels)
    assert classifier.score(texts, labels) == 1.0
    classifier.save(tmp_path / "adapter")
    assert not (tmp_path / "adapter" / "model.safetensors").exists()
    again = mw.TextClassifier.load(tmp_path / "adapter")
    assert np.allclose(again.predict_proba(texts), classifier.predict_proba(texts), atol=1e-5)
    further = mw.TextClassifier(again.model_, epochs=1, lr=1e-12).fit(texts, labels)  # from the merged encoder
    updates = again.model_.encoder.layers[0].attention.qkv
    assert torch.allclose(further.model_.encoder.layers[0].attention.qkv.weight, updates.merged().weight)


# -- AnomalyDetector ----------------------------------------------------------------------------------------------

NORMAL = [
    f"the {who} sat on the {where} ." for who in ("cat", "dogs", "a", "she") for where in ("mat", "store", "garden")
]
STRANGE = ["milk ! ! milk gallon penguins", "flightless unbelievably ends", "rain rain rain rain rain rain rain"]
SLOWLY = {**QUICK, "epochs": 40, "lr": 1e-2, "batch_size": 4}


@pytest.fixture(scope="module")
def detector(folder):
    return mw.AnomalyDetector(folder, contamination=0.1, **SLOWLY).fit(NORMAL)


def test_scores_decisions_and_predictions_agree(detector):
    texts = NORMAL + STRANGE
    scores, decided = detector.score_samples(texts), detector.decision_function(texts)
    assert np.allclose(decided, scores - detector.offset_)
    assert (detector.predict(texts) == np.where(decided < 0, -1, 1)).all()
    assert (scores <= 0).all() and is_outlier_detector(detector)


def test_strange_texts_are_outliers_and_few_of_its_own_are(detector):
    assert (detector.predict(STRANGE) == -1).all()
    assert (detector.predict(NORMAL) == -1).mean() == pytest.approx(0.1, abs=1 / len(NORMAL))
    assert detector.score_samples(NORMAL).mean() > detector.score_samples(STRANGE).mean()


def test_a_folder_brings_the_same_decisions_back(detector, tmp_path):
    detector.save(tmp_path / "model")
    loaded = mw.AnomalyDetector.load(tmp_path / "model")
    assert np.allclose(loaded.decision_function(STRANGE), detector.decision_function(STRANGE))
    assert loaded.contamination == 0.1 and loaded.offset_ == detector.offset_
    with pytest.raises(ModelFolderError, match="an anomaly detector"):
        mw.TextClassifier.load(tmp_path / "model")


def test_a_detector_that_cannot_be_fitted_is_refused(folder):
    with pytest.raises(InputError, match="empty"):
        mw.AnomalyDetector(folder, **SLOWLY).fit([])
    for wrong in (0.0, 0.9, "auto"):
        with pytest.raises(ConfigError, match="contamination"):
            mw.AnomalyDetector(folder, **{**SLOWLY, "contamination": wrong}).fit(NORMAL)
