"""Hidden states by layer, two models compared, the blocks of a model, and probes."""

from collections import Counter

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from inference.samples import TEXTS, tiny
from looked_at import SWITCHES, TEXT, network, translator
from maskwright.api import open_model
from maskwright.core.errors import ConfigError, InputError, MissingFileError
from maskwright.inference.embed import TextEncoder
from maskwright.inference.fill_mask import MaskFiller
from maskwright.inference.probing import LabeledVectors, control_labels, embed_labeled, fit_and_score, probe_vectors
from maskwright.inspect import compare_models, hidden_states, neighbors, predictions, probe, read, states_of, word_map
from maskwright.inspect.compare import alignment
from maskwright.inspect.states import plane
from maskwright.inspect.structure import describe_weight, model_structure, weight_differences, weights_of
from maskwright.models import sizes as flops
from maskwright.models.adapters import merge_adapter
from maskwright.models.build import build
from maskwright.text.readers.tables import Row
from maskwright.text.words import Sentence
from studio import models as writers

MASKED = "the cat [MASK] on the [MASK] ."


@pytest.mark.parametrize("name", SWITCHES)
def test_states_are_the_layers_of_the_network(name):
    model = network(name)
    found = hidden_states(model, TEXT)
    assert found.vectors.shape == (model.config.num_hidden_layers + 1, len(found.tokens), model.config.hidden_size)
    with torch.no_grad():
        last = model.encode(read(model, TEXT).batch()).hidden.numpy()
    np.testing.assert_allclose(found.vectors[-1], last, atol=1e-4)
    assert found.steps.shape == (model.config.num_hidden_layers, len(found.tokens))


def test_layers_are_named_as_embed_names_them():
    model = tiny()
    found = hidden_states(model, TEXT)
    (expected,) = TextEncoder(model, "concat-last-4", pooling="none").token_vectors([TEXT])
    np.testing.assert_allclose(found.of("concat-last-4"), expected.vectors, atol=1e-4)
    np.testing.assert_allclose(found.of(-1), found.vectors[-1])
    np.testing.assert_allclose(np.diag(found.similarities(2)), 1)
    with pytest.raises(ConfigError, match="is out of range"):
        found.of(9)


def test_both_sides_of_a_translator_have_states():
    reading = read(translator(), TEXT, target="rain fell")
    source, target = states_of(reading), states_of(reading, "decoder")
    assert source.vectors.shape[:2] == (3, len(reading.source))
    assert reading.target is not None and target.vectors.shape[:2] == (4, len(reading.target))
    with pytest.raises(InputError, match="no decoder"):
        states_of(read(tiny(), TEXT), "decoder")


def test_the_nearest_neighbor_of_a_word_is_itself_in_the_same_sentence():
    others = [TEXTS[1], TEXT, TEXTS[4]]
    found = neighbors(tiny(), TEXT, "cat", others, top=30)
    assert (found[0].word, found[0].text) == ("cat", 1) and found[0].cosine == pytest.approx(1)
    assert TEXT[found[0].start : found[0].end] == "cat"
    assert [one.cosine for one in found] == sorted((one.cosine for one in found), reverse=True)
    assert len(found) == sum(len(text.split()) for text in others)
    with pytest.raises(InputError, match="'tree' is not in"):
        neighbors(tiny(), TEXT, "tree", others)


def test_a_map_keeps_distances_that_lie_in_a_plane_and_is_the_same_each_time():
    rng = np.random.default_rng(1)
    flat = rng.normal(size=(7, 2))
    turned = flat @ np.linalg.qr(rng.normal(size=(20, 2)))[0].T + 3
    places, shares = plane(turned)
    distances = [np.linalg.norm(rows[:, None] - rows, axis=-1) for rows in (flat, places)]
    np.testing.assert_allclose(*distances, atol=1e-9)
    assert sum(shares) == pytest.approx(1) and shares[0] >= shares[1]
    np.testing.assert_array_equal(places, plane(turned)[0])


def test_a_map_of_a_word_holds_every_place_where_it_stands():
    found = word_map(tiny(), [TEXT, "the cat and the cat", "rain fell"], "cat")
    assert found.texts == (0, 1, 1) and found.places.shape == (3, 2)
    assert len(word_map(tiny(), [TEXT, "rain fell"]).words) == 9
    assert found.to_json()["words"][2]["start"] == 16
    with pytest.raises(InputError, match="three occurrences of 'rain'"):
        word_map(tiny(), [TEXT, "rain fell"], "rain")


# -- predictions -----------------------------------------------------------------------------------------------------


def test_predictions_for_masks_are_those_of_fill_mask():
    model = tiny("mlm")
    found, filler = predictions(model, MASKED), MaskFiller(model)
    np.testing.assert_allclose(found.probabilities, filler.probabilities(MASKED), atol=1e-6)
    for number, mask in enumerate(filler.fill([MASKED], top_k=4)[0].masks):
        assert [(one.token, one.rank) for one in found.top(number, 4)] == [
            (candidate.token_str, candidate.rank) for candidate in mask.candidates
        ]
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)
    assert found.by_layer is not None and found.by_layer.shape == (5, *found.probabilities.shape)
    np.testing.assert_allclose(found.by_layer[-1], found.probabilities, atol=1e-6)


def test_the_whole_vocabulary_can_be_searched():
    found = predictions(tiny("mlm"), MASKED)
    hits = found.search("CA", 1, count=1000)
    assert {one.token for one in hits} == {token for token in found.vocabulary if "ca" in token.lower()}
    everything = found.search("", 1, count=10_000)
    assert [one.rank for one in everything] == list(range(1, len(found.vocabulary) + 1))
    assert sum(one.probability for one in everything) == pytest.approx(1)


def test_a_causal_model_and_a_decoder_predict_after_every_token():
    config = network("GPT-2").config
    model = build(config, "clm", seed=2).eval()
    model.tokenizer = network("GPT-2").tokenizer
    found = predictions(model, TEXT, layers=False)
    assert found.places == tuple(range(len(found.tokens))) and found.by_layer is None
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([found.tokens.ids])).logits[0]
    np.testing.assert_allclose(found.probabilities, logits.double().softmax(-1).numpy(), atol=1e-5)
    written = predictions(translator(), TEXT)
    assert [written.top(place, 1)[0].id for place in range(len(written.tokens) - 1)] == list(written.tokens.ids[1:])


def test_a_model_without_token_predictions_is_rejected():
    with pytest.raises(InputError, match="masked or causal language model"):
        predictions(tiny(), MASKED)
    with pytest.raises(InputError, match=r"has no \[MASK\]"):
        predictions(tiny("mlm"), TEXT)
    with pytest.raises(InputError, match="no position 2"):
        predictions(tiny("mlm"), MASKED).top(2)


# -- Comparison of two models ----------------------------------------------------------------------------------------

SOME = [text for text in TEXTS if text]


def test_a_model_is_the_same_as_itself_and_unlike_another():
    model = tiny()
    same, other = compare_models(model, model, SOME), compare_models(model, tiny(seed=2), SOME)
    np.testing.assert_allclose(np.diag(same.layers), 1)
    assert same.same_place.max() == 0 and other.same_place.min() > 0.01
    assert same.layers.shape == (5, 5) and same.heads.shape == (4, 4, 4, 4) and same.num_texts == len(SOME)
    assert (other.layers >= 0).all() and (other.layers <= 1 + 1e-9).all()


def test_a_head_that_stands_elsewhere_is_found():
    """Two heads of a layer of the second model are exchanged: queries, keys and values, and what W_O reads."""
    first, second = tiny(), tiny()
    attention = second.encoder.layers[2].attention
    size = 8
    order = torch.arange(32).view(4, size)[[1, 0, 2, 3]].reshape(-1)
    with torch.no_grad():
        rows = torch.cat([order, 32 + order, 64 + order])
        attention.qkv.weight.copy_(attention.qkv.weight[rows])
        attention.qkv.bias.copy_(attention.qkv.bias[rows])
        attention.out.weight.copy_(attention.out.weight[:, order])
    found = compare_models(first, second, SOME)
    assert found.nearest(3, 1)[:2] == (3, 2) and found.nearest(3, 2)[:2] == (3, 1)
    assert found.nearest(3, 1)[2] == pytest.approx(0, abs=1e-5) and found.same_place[2, 0] > 0.01
    np.testing.assert_allclose(np.diag(found.layers), 1, atol=1e-6)


def test_alignment_minds_neither_turn_nor_scale_nor_place_nor_width():
    rng = np.random.default_rng(3)
    one = rng.normal(size=(40, 6))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    wide = np.concatenate([one @ turn * 3 + 5, np.zeros((40, 4))], axis=1)
    assert alignment(one, wide) == pytest.approx(1) and alignment(one, rng.normal(size=(40, 6))) < 0.5


def test_encoders_of_translators_are_compared_and_other_tokens_refused():
    assert compare_models(translator(), translator(), ["rain fell"]).same_place.max() == 0
    with pytest.raises(InputError, match="differently"):
        compare_models(tiny(), translator(), SOME)
    with pytest.raises(InputError, match="No texts"):
        compare_models(tiny(), tiny(), [])


# -- The blocks of a model -------------------------------------------------------------------------------------------

SENTENCE = "the cat sat on the mat ."
KINDS = {
    "masked": writers.write_masked,
    "classes": writers.write_classifier,
    "names": writers.write_tagger,
    "answers": writers.write_answerer,
    "choices": writers.write_chooser,
    "writer": writers.write_writer,
    "translator": writers.write_translator,
    "recurrent": writers.write_recurrent_translator,
}


@pytest.fixture
def load(tmp_path):
    def opener(write):
        return open_model(write(tmp_path / "model"), (), "cpu", "fp32")

    return opener


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_is_in_one_part(load, kind):
    model = load(KINDS[kind])
    found = model_structure(model, SENTENCE)
    weights = {one.name: one.shape for block in found.blocks for part in block.parts for one in part.weights}
    assert weights == {name: tuple(one.shape) for name, one in model.named_parameters()}
    assert found.parameters == sum(one.numel() for one in model.parameters())
    assert all(part.output for block in found.blocks for part in block.parts if part.calls)
    assert found.counts_flops == (kind != "recurrent")


def test_flops_are_those_of_the_formulas(load):
    model = load(writers.write_masked)
    found = model_structure(model, SENTENCE)
    config, count = model.config, len(found.tokens)
    layers = [block.flops for block in found.blocks if ".layers." in block.name]
    assert sum(layers) == count * (flops.linear_flops(config) + flops.attention_flops(config, count))
    assert found.flops == sum(layers) + count * flops.word_head_flops(config)
    parts = {part.name: part for block in found.blocks for part in block.parts}
    assert parts["encoder.layers.0.attention"].flops == 4 * config.hidden_size * count * count
    up = parts["encoder.layers.0.ffn.up"]
    assert (up.input, up.output) == ((count, 32), (count, 64))


def test_a_weight_is_described_by_its_numbers(load):
    model = load(writers.write_masked)
    name = "encoder.layers.1.ffn.up.weight"
    weight = model.get_parameter(name).detach()
    found = describe_weight(model, name)
    assert found["shape"] == list(weight.shape) and sum(found["counts"]) == weight.numel() == found["size"]
    assert found["deviation"] == pytest.approx(float(weight.std(correction=0)))
    assert found["edges"][0] == pytest.approx(found["least"]) and found["edges"][-1] == pytest.approx(found["most"])
    assert found["singular"] == pytest.approx(torch.linalg.svdvals(weight.double()).tolist(), rel=1e-6)
    assert describe_weight(model, "encoder.layers.1.ffn.up.bias")["singular"] == []
    with pytest.raises(MissingFileError, match="no weights named nothing"):
        describe_weight(model, "nothing")


def test_the_change_of_an_adapter_is_that_of_its_merged_weights():
    model, base = open_model("english-spam", (), "cpu", "fp32"), open_model("english", (), "cpu", "fp32")
    found, alone = weight_differences(model, None)
    assert alone == ["encoder.pooler.weight", "encoder.pooler.bias", "head.classifier.weight", "head.classifier.bias"]
    against, _ = weight_differences(model, base)
    assert found == pytest.approx(against)
    own = weights_of(model)
    merge_adapter(model)
    for name, weight in model.named_parameters():
        assert torch.equal(own[name], weight.detach())
    name = "encoder.layers.0.attention.out.weight"
    before, after = base.get_parameter(name).detach(), model.get_parameter(name).detach()
    assert found[name] == pytest.approx(float((after - before).norm() / before.norm())) and found[name] > 0.05
    assert found["encoder.embeddings.word.weight"] == 0


def test_models_that_cannot_be_compared(load):
    masked, other = load(writers.write_masked), open_model("english", (), "cpu", "fp32")
    with pytest.raises(InputError, match="is not an adapter"):
        weight_differences(masked, None)
    with pytest.raises(InputError, match="models of one architecture"):
        weight_differences(masked, other)


# -- Probes ----------------------------------------------------------------------------------------------------------

WORDS = "the cat sat on mat dogs chase cats in garden rain fell she bought milk at store".split()  # noqa: SIM905


def planted(layer, num_things, seed, num_types=40):
    """Noise in four layers, and a label of three that one of them holds; types say nothing of the label."""
    draws = np.random.default_rng(seed)
    labels = draws.integers(3, size=num_things)
    vectors = draws.normal(size=(4, num_things, 12)).astype(np.float32)
    vectors[layer, :, :3] += 4 * np.eye(3, dtype=np.float32)[labels]
    types = [f"w{number}" for number in draws.integers(num_types, size=num_things)]
    return LabeledVectors("words", vectors, [f"L{label}" for label in labels], types)


def sentences(num_rows, seed, holding=None):
    """Eight random words each, tagged by type; with `holding`, by whether their sentence contains that word."""
    draws = np.random.default_rng(seed)
    made = []
    for line in range(1, num_rows + 1):
        words = [WORDS[number] for number in draws.integers(len(WORDS), size=8)]
        if holding is not None:
            words = ["the" if word == holding else word for word in words]
            words[draws.integers(8)] = holding if line % 2 else "the"
        tags = ["EVEN" if WORDS.index(word) % 2 == 0 else "ODD" for word in words]
        made.append(Sentence.of_words(words, tags if holding is None else [f"{line % 2}"] * 8, line, "made.conll"))
    return made


@pytest.mark.parametrize("layer", [0, 2, 3])
def test_a_planted_property_is_found_in_its_layer_and_not_elsewhere(layer):
    found = probe_vectors(planted(layer, 600, 1), planted(layer, 600, 2))
    others = [one.accuracy for one in found.layers if one.layer != layer]
    assert found.best.layer == found.most_selective.layer == layer and found.best.accuracy > 0.95
    assert max(others) < 0.42 and found.majority == pytest.approx(1 / 3, abs=0.06)
    for one in found.layers:  # noise does not depend on the type, so nothing is memorized
        assert one.control == pytest.approx(found.control_majority, abs=0.08)
        assert one.selectivity == one.accuracy - one.control


def test_memorization_is_not_selectivity():
    """A layer that encodes only the type: labels by type and random labels are probed equally well."""
    draws = np.random.default_rng(5)

    def made(num_things):
        types = draws.integers(20, size=num_things)
        vectors = np.stack([draws.normal(size=(num_things, 20)), np.eye(20)[types]]).astype(np.float32)
        return LabeledVectors(
            "words", vectors, ["even" if one % 2 == 0 else "odd" for one in types], [f"w{one}" for one in types]
        )

    noise, types = probe_vectors(made(800), made(800)).layers
    assert types.accuracy == types.control == 1 and types.selectivity == 0 and noise.accuracy < 0.6


def test_what_stands_around_a_word_is_known_above_the_embeddings_alone():
    """In a network with random weights: the word itself is read off the embeddings, its sentence only above them."""
    own = probe(tiny(), sentences(150, 1), sentences(80, 2), penalty=1.0)
    assert own.layers[0].accuracy > 0.99 and own.unit == "words" and own.labels == ("EVEN", "ODD")
    assert own.layers[0].selectivity < 0.1, "the words are memorized, in either task"
    assert len(own.layers) == 5 and own.num_train == 1200 and own.num_dev == 640 and own.known == 1
    model = tiny()
    with torch.no_grad():
        for layer in model.encoder.in_order:  # attention is even, and what it brings outweighs the word itself
            layer.attention.qkv.weight[:64] = 0
            layer.attention.out.weight.mul_(5)
    around = probe(model, sentences(150, 1, "dogs"), sentences(80, 2, "dogs"), penalty=1.0)
    assert around.layers[0].accuracy < 0.65 and max(one.accuracy for one in around.layers[1:]) > 0.8
    assert around.best.layer > 0 and around.majority == pytest.approx(0.5, abs=0.01)


def test_vectors_of_words_are_those_of_their_first_pieces():
    model = tiny()
    row = Sentence.of_words(["an", "unbelievably", "long", "sentence"], ["A", "B", "A", "B"], 1, "x")
    found = embed_labeled(model, [row], "mean", None, 10)
    encoding = model.tokenizer.encode_batch([row.text])[0]
    places = [encoding.word_ids.index(number) for number in range(4)]
    with torch.no_grad():
        states = model(torch.tensor([encoding.ids]), output_hidden_states=True).hidden_states
    expected = np.stack([state[0, places].numpy() for state in states])
    np.testing.assert_allclose(found.vectors, expected, atol=1e-4)
    assert tuple(found.types) == row.words


def test_texts_are_probed_by_their_pooled_vectors():
    rows = [Row(text, None, "pets" if "cat" in text else "other", line, "x") for line, text in enumerate(TEXTS * 6, 1)]
    found = probe(tiny(), rows, rows, pooling="max", penalty=0.1)
    assert found.unit == "texts" and found.best.accuracy == 1 and found.known == 1
    pairs = [Row(row.text, "rain fell", row.label, row.line, row.file) for row in rows]
    assert not np.allclose(
        embed_labeled(tiny(), pairs, "max", None, 9).vectors, embed_labeled(tiny(), rows, "max", None, 9).vectors
    )


def test_the_probe_is_the_minimum_of_another_optimizer():
    train, dev = planted(1, 300, 3), planted(1, 300, 4)
    numbers = {label: number for number, label in enumerate(sorted(set(train.labels)))}
    x, held = (StandardScaler().fit(train.vectors[0]).transform(one.vectors[0]) for one in (train, dev))
    x, held = (torch.tensor(one, dtype=torch.float64) for one in (x, held))
    y = torch.tensor([numbers[label] for label in train.labels])
    weight, bias = torch.zeros(12, 3, dtype=torch.float64, requires_grad=True), torch.zeros(3, dtype=torch.float64)
    bias.requires_grad_()
    solver = torch.optim.LBFGS([weight, bias], max_iter=500, tolerance_grad=1e-10, line_search_fn="strong_wolfe")

    def loss():
        solver.zero_grad()
        own = (
            torch.nn.functional.cross_entropy(x @ weight + bias, y, reduction="sum") + 10.0 / 2 * weight.square().sum()
        )
        own.backward()
        return own

    solver.step(loss)
    guesses = (held @ weight + bias).argmax(dim=1).tolist()
    right = np.mean([guess == numbers[label] for guess, label in zip(guesses, dev.labels, strict=True)])
    accuracy, is_finished = fit_and_score(train.vectors[0], train.labels, dev.vectors[0], dev.labels, 10.0)
    assert is_finished and accuracy == pytest.approx(right, abs=1 / 300 + 1e-9)  # one tie may fall the other way
    theirs = LogisticRegression(C=0.1).fit(x.numpy(), train.labels).coef_.T
    np.testing.assert_allclose(theirs - theirs.mean(axis=1, keepdims=True), weight.detach().numpy(), atol=2e-3)


def test_control_labels_belong_to_types_and_come_as_often_as_labels():
    labels = ["a"] * 70 + ["b"] * 20 + ["c"] * 10
    types = [f"w{number}" for number in range(4000)]
    drawn = control_labels(types, labels, seed=3)
    shares = {label: count / 4000 for label, count in Counter(drawn.values()).items()}
    assert shares == pytest.approx({"a": 0.7, "b": 0.2, "c": 0.1}, abs=0.025)
    assert control_labels(types[::-1][:50] * 2, labels, seed=3).items() <= drawn.items()
    assert control_labels(types, labels, seed=4) != drawn


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], "at least one row"),
        ([Row("a", None, "x", 1, "f"), Sentence.of_words(["a"], ["B"], 1, "f")], "either tagged sentences"),
        ([Row("a", None, None, 4, "f.tsv")], "f.tsv, line 4"),
        ([Row("a", None, "x", 1, "f"), Row("the cat", None, "x", 2, "f")], "All training texts have the label 'x'"),
    ],
)
def test_what_cannot_be_probed_is_refused_in_a_sentence(rows, words):
    with pytest.raises(InputError, match=words):
        probe(tiny(), rows, rows)


def test_parts_that_do_not_belong_together_are_refused_in_a_sentence():
    texts = [Row("the cat", None, "x", 1, "f"), Row("rain", None, "y", 2, "f")]
    with pytest.raises(InputError, match="labels of texts, the dev examples of words"):
        probe(tiny(), texts, sentences(2, 1))
    with pytest.raises(InputError, match="such as 'X', is one of the training texts, such as 'x'"):
        probe(tiny(), texts, [Row("the cat", None, "X", 1, "f")])
    seen = probe(tiny(), texts, [*texts, Row("the dog", None, "z", 3, "f")])
    assert (
        seen.labels == ("x", "y") and max(one.accuracy for one in seen.layers) <= 2 / 3
    )  # what is new counts as wrong


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"most": 0}, "most is 0"), ({"penalty": 0.0}, "penalty is 0"), ({"pooling": "men"}, "mean")],
)
def test_settings_out_of_range_are_refused_whatever_is_probed(settings, words):
    for rows in (sentences(2, 1), [Row("the cat", None, "x", 1, "f"), Row("rain", None, "y", 2, "f")]):
        with pytest.raises(ConfigError, match=words):
            probe(tiny(), rows, rows, **settings)
