"""Distillations as a user meets them: of text, of a task, of sentence embeddings; the student's start."""

import copy
from typing import Any

import pytest
import torch

import maskwright as mw
from maskwright.api import open_embedder
from maskwright.core import storage
from maskwright.core.errors import ConfigError, InputError, ModelFolderError, RunError
from maskwright.data.batch import Batch
from maskwright.hub.folders import load_model, read_facts
from maskwright.hub.sentence import declared_by
from maskwright.inference.embed import TextEncoder
from maskwright.inference.engine import operators
from maskwright.models.build import build
from maskwright.models.presets import preset
from maskwright.text.readers.corpus import read_documents
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.distillation.config import DistillConfig
from maskwright.train.distillation.distill import distill
from maskwright.train.distillation.sentences import fill_word_table, make_texts, read_texts
from maskwright.train.distillation.student import (
    chosen_layers,
    drop_top_layers,
    head_importance,
    least_important,
    make_student,
    prune_heads,
    student_config,
)
from maskwright.train.finetuning.finetune import finetune
from maskwright.train.pretraining.pretrain import pretrain
from train.runs import (
    TINY,
    continues_exactly,
    corpus,
    finetuning,
    labeled,
    pretraining,
    records,
    sentence_teacher,
    stopped,
)

DEEP = TINY | {"num_hidden_layers": 2}


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretrained")
    result = pretrain(pretraining(folder, model=DEEP, steps=60, lr=3e-3, checkpoint_every=60, dropout=0.0))
    assert result.scores["mlm_accuracy"] > 0
    return result.model


@pytest.fixture(scope="module")
def opinionated(tmp_path_factory, pretrained):
    """A teacher whose layers differ much, so that its lowest alone says something else than both."""
    folder = tmp_path_factory.mktemp("opinionated") / "model"
    model, _ = load_model(pretrained)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.1 if "embeddings" in name else 0.25, generator=generator)
    model.save(folder)
    return folder


@pytest.fixture(scope="module")
def finetuned(tmp_path_factory):
    result = finetune(finetuning(tmp_path_factory.mktemp("finetuned"), epochs=10, lr=1e-3))
    assert result.mean["accuracy"] > 0.9, "a teacher that knows nothing teaches nothing"
    return result.model


def on_text(folder, teacher, **changes):
    settings: dict[str, Any] = {
        "teacher": str(teacher),
        "output": folder / "run",
        "corpus": (str(corpus(folder)),),
        "steps": 6,
        "batch_tokens": 256,
        "max_length": 32,
        "checkpoint_every": 2,
        "log_every": 1,
        "holdout": 0.15,
        "precision": "fp32",
    }
    return DistillConfig(**{**settings, **changes})


def on_rows(folder, teacher, **changes):
    settings: dict[str, Any] = {
        "teacher": str(teacher),
        "output": folder / "run",
        "train": labeled(folder / "train.tsv", 64, 1),
        "dev": labeled(folder / "dev.tsv", 24, 2),
        "epochs": 2,
        "lr": 1e-3,
        "batch_size": 16,
        "max_length": 24,
        "log_every": 1,
        "precision": "fp32",
    }
    return DistillConfig(**{**settings, **changes})


def test_the_distance_to_a_pre_trained_teacher_falls(tmp_path, opinionated):
    result = distill(on_text(tmp_path, opinionated, steps=80, lr=3e-3, checkpoint_every=20))
    logged = records(tmp_path / "run")
    for part in ("soft_loss", "hidden_loss"):
        training = [record[part] for record in logged if part in record]
        assert sum(training[-5:]) < 0.85 * sum(training[:5]), part
    held_out = [record["eval_soft_loss"] for record in logged if "eval_soft_loss" in record]
    distill(on_text(tmp_path, opinionated, output=tmp_path / "start", steps=1, warmup=0, lr=1e-30, weight_decay=0.0))
    untrained = next(record["eval_soft_loss"] for record in records(tmp_path / "start") if "eval_soft_loss" in record)
    assert max(held_out) < 0.85 * untrained
    first = next(record for record in logged if "loss" in record)
    total = 2 * first["mlm_loss"] + 5 * first["soft_loss"] + first["hidden_loss"]
    assert first["loss"] == pytest.approx(total, rel=1e-9)
    teacher, student = mw.load(opinionated), mw.load(result.model)
    assert (student.head_name, student.config.num_hidden_layers) == ("mlm", 1)
    assert student.num_parameters < teacher.num_parameters
    assert mw.FillMask(result.model).fill(["the [MASK] was here"])
    storage.verify_folder(result.model)


def test_a_student_that_was_not_trained_is_the_teachers_layers(tmp_path, pretrained):
    result = distill(on_text(tmp_path, pretrained, steps=1, warmup=0, lr=1e-30, weight_decay=0.0))
    teacher, student = mw.load(pretrained), mw.load(result.model)
    theirs, ours = dict(teacher.named_parameters()), dict(student.named_parameters())
    for name in (name for name in ours if name.startswith("encoder.")):
        assert torch.equal(ours[name], theirs[name]), name


def test_the_report_compares_teacher_student_and_what_pruning_leaves(tmp_path, pretrained):
    result = distill(on_text(tmp_path, pretrained, prune_heads=0.5))
    rows = {row.name: row for row in result.rows}
    int8 = rows.pop("teacher in int8", None)
    teacher, student, fewer_heads, fewer_layers, factorized, shared = rows.values()
    assert [teacher.name, student.name] == ["teacher", "student"]
    assert "word table of rank" in factorized.name and "share" in shared.name
    assert (int8 is None) == (operators.missing_int8() is not None)  # none if products overflow
    if int8 is not None:
        assert int8.parameters == teacher.parameters and int8.size_bytes < teacher.size_bytes
        assert int8.texts_per_second > 0
    assert factorized.parameters < teacher.parameters and shared.parameters < teacher.parameters
    assert shared.layers == teacher.layers == factorized.layers
    assert fewer_heads.heads == teacher.heads // 2 and fewer_heads.parameters < teacher.parameters
    assert fewer_layers.layers == student.layers == 1
    assert result.score_kept == pytest.approx(student.scores["mlm_accuracy"] / teacher.scores["mlm_accuracy"])
    assert all(row.texts_per_second > 0 and row.size_bytes == 4 * row.parameters for row in rows.values())
    page = result.report.read_text(encoding="utf-8")
    for words in ("Score kept", "least important heads pruned", "top 1 layer removed", "texts/s"):
        assert words in page, words
    again = distill(on_text(tmp_path, pretrained, prune_heads=0.5))
    assert again.already_finished and again.rows == result.rows


def test_an_interrupted_run_on_text_ends_with_the_same_bits(tmp_path, pretrained, monkeypatch):
    continues_exactly(distill, on_text(tmp_path, pretrained), monkeypatch)


def test_a_fine_tuned_teacher_teaches_its_task_and_the_run_continues_exactly(tmp_path, finetuned, monkeypatch):
    result = distill(on_rows(tmp_path, finetuned, output=tmp_path / "whole"))
    student, _ = load_model(result.model)
    assert (student.head_name, student.config.num_hidden_layers) == ("classification", 1)
    assert student.labels == ("animal", "place") and read_facts(result.model)["task"] == "classification"
    training = [record["soft_loss"] for record in records(tmp_path / "whole") if "soft_loss" in record]
    assert sum(training[-4:]) < sum(training[:4])
    assert result.metric == "accuracy" and result.score_kept is not None
    continues_exactly(distill, on_rows(tmp_path, finetuned), monkeypatch, step=5, whole=tmp_path / "whole")


def test_a_run_does_not_go_on_with_another_teacher(tmp_path, finetuned, monkeypatch):
    teacher = tmp_path / "teacher"
    model, _ = load_model(finetuned)
    model.save(teacher, facts=read_facts(finetuned))
    stopped(distill, on_rows(tmp_path, teacher), monkeypatch, 5)
    with torch.no_grad():
        model.word_embeddings.add_(0.01)
    model.save(teacher, facts=read_facts(finetuned), replace=True)
    with pytest.raises(RunError, match=r"teacher/model\.safetensors has changed"):
        distill(on_rows(tmp_path, teacher))


def test_a_teacher_that_does_not_fit_the_data_is_refused_and_leaves_nothing(tmp_path, pretrained, finetuned):
    with pytest.raises(ModelFolderError, match="a classifier"):
        distill(on_text(tmp_path, finetuned))
    with pytest.raises(ModelFolderError, match="pre-trained"):
        distill(on_rows(tmp_path, pretrained))
    with pytest.raises(InputError, match="has 2"):
        distill(on_text(tmp_path, pretrained, layers=3))
    with pytest.raises(InputError, match="positions"):
        distill(on_text(tmp_path, pretrained, max_length=4000, batch_tokens=8000))
    assert not (tmp_path / "run").exists()


# -- Distillation from a sentence encoder ----------------------------------------------------------------------------

STILL = {"steps": 1, "warmup": 0, "lr": 1e-30, "weight_decay": 0.0}  # a run that changes no weight


@pytest.fixture(scope="module")
def teacher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("teacher")
    return sentence_teacher(corpus(folder), folder / "model")


def recipe(folder, teacher, **changes):
    return on_text(folder, teacher, **{"preset": "bert-tiny", "model": TINY, "vocab_size": 80, **changes})


def weights(run):
    return storage.sha256(run / "model" / "model.safetensors")


def test_a_student_with_its_own_network_and_vocabulary_learns_the_teachers_embeddings(tmp_path, teacher):
    result = distill(recipe(tmp_path, teacher, steps=80, checkpoint_every=40, lr=3e-3))
    logged = records(tmp_path / "run")
    losses = [record["embedding_loss"] for record in logged if "embedding_loss" in record]
    assert sum(losses[-5:]) < 0.5 * sum(losses[:5])
    first = next(record for record in logged if "loss" in record)
    assert first["loss"] == pytest.approx(first["embedding_loss"] + 0.1 * first["mlm_loss"], rel=1e-9)
    assert result.metric == "cosine" and [row.name for row in result.rows][:2] == ["teacher", "student"]
    assert result.rows[0].scores["cosine"] == pytest.approx(1.0, abs=1e-4)  # what was kept is what it gives now
    assert result.rows[1].scores["cosine"] == pytest.approx(1 - logged[-1]["eval_embedding_loss"])
    texts = ["the red cat sees a tree .", "it was here and then the dog"]
    ours, theirs = (open_embedder(folder, precision="fp32").vectors(texts) for folder in (result.model, teacher))
    assert (ours * theirs).sum(axis=1).min() > 0.7
    student = mw.load(result.model)
    assert (student.head_name, student.tokenizer.vocab_size) == ("mlm", 80)
    assert declared_by(result.model).pooling == "mean" and declared_by(result.model).normalize
    assert mw.FillMask(result.model).fill(["the [MASK] was here"])
    page = result.report.read_text(encoding="utf-8")
    assert "Distance to the teacher" in page and "maskwright embed" in page


def test_the_word_table_is_initialized_with_the_teachers_embeddings_of_the_tokens(tmp_path, teacher):
    model, _ = load_model(teacher)
    encoder = TextEncoder(model, normalize=True)
    result = distill(recipe(tmp_path, teacher, **STILL))
    student = mw.load(result.model)
    drawn = build(student.config, "mlm", seed=0).word_embeddings
    expected = drawn.detach().clone()
    fill_word_table(expected, student.tokenizer, encoder)
    assert torch.allclose(student.word_embeddings, expected, atol=1e-6)
    special = sorted(student.tokenizer.special_ids)
    assert torch.equal(expected[special], drawn[special])
    ordinary = [index for index in range(80) if index not in student.tokenizer.special_ids]
    assert expected[ordinary].std() == pytest.approx(0.04, rel=1e-3)
    assert expected[ordinary].mean(dim=0).abs().max() < 1e-6
    index = next(index for index in ordinary if student.tokenizer.id_to_token(index).startswith("##"))
    alone = torch.from_numpy(encoder.vectors([student.tokenizer.id_to_token(index)[2:]]))[0]
    other = torch.from_numpy(encoder.vectors(["the cat"]))[0]
    centered = expected[index] - expected[ordinary].mean(dim=0)
    assert torch.dot(centered, alone) > torch.dot(centered, other)


def test_a_student_of_another_width_is_trained_with_a_projection_that_is_not_saved(tmp_path, teacher):
    result = distill(recipe(tmp_path, teacher, model=TINY | {"hidden_size": 16}, steps=40, lr=3e-3))
    losses = [record["embedding_loss"] for record in records(tmp_path / "run") if "embedding_loss" in record]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])
    student = mw.load(result.model)
    assert student.config.hidden_size == 16
    assert not [name for name, _ in student.named_parameters() if "projection" in name]


def test_an_interrupted_run_ends_with_the_same_bits(tmp_path, teacher, monkeypatch):
    continues_exactly(distill, recipe(tmp_path, teacher), monkeypatch)


def test_a_damaged_part_is_computed_again(tmp_path, teacher, capsys):
    cache = tmp_path / "embeddings"
    distill(recipe(tmp_path, teacher, embeddings=cache))
    part = next(cache.glob("*/vectors.bin"))
    whole = part.read_bytes()
    part.write_bytes(b"\0" + whole[1:])
    distill(recipe(tmp_path, teacher, embeddings=cache, output=tmp_path / "again"))
    assert part.read_bytes() == whole
    assert "computed again" in capsys.readouterr().err
    assert weights(tmp_path / "again") == weights(tmp_path / "run")


def test_a_cache_of_another_teacher_is_rejected(tmp_path, teacher):
    cache = tmp_path / "embeddings"
    distill(recipe(tmp_path, teacher, embeddings=cache))
    model, _ = load_model(teacher)
    with torch.no_grad():
        model.word_embeddings.add_(0.01)
    model.save(tmp_path / "other")
    with pytest.raises(RunError, match="another teacher"):
        distill(recipe(tmp_path, tmp_path / "other", embeddings=cache, output=tmp_path / "again"))


def test_every_sentence_is_in_one_text_and_the_kinds_have_their_shares(tmp_path):
    sentences = [f"word{index} is here ." for index in range(4000)]
    lines = ["\n".join(sentences[start : start + 40]) for start in range(0, 4000, 40)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    tokenizer = Tokenizer.train_from_iterator(["word is here . 0 1 2 3 4 5 6 7 8 9"] * 3, vocab_size=60)
    texts = make_texts([str(tmp_path / "corpus.txt")], tmp_path / "texts", tokenizer, 64, 0, False)
    documents = [document for path in texts.files for document in read_documents(path)]
    assert texts.count == len(documents)
    found = " ".join(text for path in texts.files for text in read_texts(path))
    assert found.split() == " ".join(sentences).split()
    pairs = sum(2 for document in documents if len(document.sentences) == 2)
    sizes = [document.sentences[0].count(" .") for document in documents if len(document.sentences) == 1]
    windows = sum(size for size in sizes if size > 1)
    assert pairs / 4000 == pytest.approx(0.10, abs=0.03)
    assert windows / 4000 == pytest.approx(0.15, abs=0.04)
    again = make_texts([str(tmp_path / "corpus.txt")], tmp_path / "again", tokenizer, 64, 0, False)
    assert [path.read_bytes() for path in again.files] == [path.read_bytes() for path in texts.files]
    (tmp_path / "corpus.txt").write_text("something else\n", encoding="utf-8")
    with pytest.raises(RunError, match="not the one"):
        make_texts([str(tmp_path / "corpus.txt")], tmp_path / "texts", tokenizer, 64, 0, False)


def test_a_teacher_without_sentence_embeddings_or_a_suitable_head_is_rejected(tmp_path, teacher):
    model, _ = load_model(teacher)
    model.sentence = None
    model.save(tmp_path / "bare")
    changes = {"preset": "half", "model": {}, "vocab_size": None}
    with pytest.raises(ModelFolderError, match="encoder without a head"):
        distill(recipe(tmp_path, tmp_path / "bare", **changes))
    with pytest.raises(ConfigError, match="modules.json"):
        distill(recipe(tmp_path, tmp_path / "bare"))
    with pytest.raises(InputError, match="positions"):
        distill(recipe(tmp_path, teacher, **changes, max_length=4000, batch_tokens=8000))
    assert not (tmp_path / "run").exists()


# -- The student's initial weights, and pruning ----------------------------------------------------------------------

SMALL = {
    "vocab_size": 60,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 24,
}
ROWS = [[5, 6, 7, 8, 9], [12, 13, 14], [15, 7], [16, 17, 18, 19, 20]]


def lively(config, head, **options):
    model = build(config, head, **options).eval()  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2, generator=generator)
    return model


def batch(dtype=torch.float32):
    targets = torch.tensor([0, 1, 1, 0])
    return Batch.from_sequences(ROWS).with_labels(sequence=targets)


@pytest.mark.parametrize(
    ("teacher", "student", "layers"),
    [
        (12, 6, (0, 2, 4, 6, 8, 10)),
        (6, 3, (0, 2, 4)),
        (6, 6, (0, 1, 2, 3, 4, 5)),
        (5, 2, (0, 2)),
        (12, 4, (0, 3, 6, 9)),
    ],
)
def test_a_student_begins_as_evenly_spread_layers(teacher, student, layers):
    assert chosen_layers(teacher, student) == layers


@pytest.mark.parametrize(
    ("family", "head"), [("bert-tiny", "pretraining"), ("roberta-base", "mlm"), ("albert-base", "mlm")]
)
def test_every_weight_of_the_student_is_the_teachers(family, head):
    sizes = SMALL | ({"embedding_size": 16} if family.startswith("albert") else {})
    teacher = lively(preset(family, **sizes), head)
    student = make_student(teacher, student_config(teacher.config), "mlm")
    assert student.layers == (0, 2) and not student.new
    theirs = dict(teacher.named_parameters())
    for name, parameter in student.model.named_parameters():
        source = name.replace("head.", "head.predictions.", 1) if head == "pretraining" else name
        if teacher.config.num_hidden_groups is None:
            source = source.replace("layers.1.", "layers.2.")
        assert torch.equal(parameter, theirs[source]), name


@pytest.mark.parametrize("name", ["half", "distilbert"])
def test_a_student_of_all_layers_answers_as_the_teacher(name):
    teacher = lively(preset("bert-tiny", **SMALL), "pretraining")
    student = make_student(teacher, student_config(teacher.config, name, 4), "mlm")
    with torch.no_grad():
        ours, theirs = (model.mlm_logits(model.encode(batch()).hidden) for model in (student.model.eval(), teacher))
    assert torch.allclose(ours, theirs, atol=1e-5)


def test_a_classifier_keeps_its_judge_labels_and_problem_type():
    teacher = lively(
        preset("bert-tiny", **SMALL),
        "classification",
        labels=["a", "b", "c"],
        problem_type="multi_label_classification",
    )
    student = make_student(teacher, student_config(teacher.config, layers := "half", 4))
    assert layers == "half" and student.model.labels == teacher.labels
    assert student.model.problem_type == teacher.problem_type
    with torch.no_grad():
        assert torch.allclose(student.model.eval().logits(batch()), teacher.logits(batch()), atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "name", "layers", "message"),
    [
        ({}, "half", 5, "has 4"),
        ({}, "bert-mini", None, "hidden_size 256 .teacher 32."),
        ({"positions": "offset", "pad_token_id": 1}, "distilbert", None, "positions absolute .teacher offset."),
        ({"num_hidden_groups": 2}, "half", None, "share 2 sets"),
        ({"num_hidden_groups": 1}, "distilbert", None, "num_hidden_groups None .teacher 1."),
    ],
)
def test_a_student_that_does_not_fit_is_refused(changes, name, layers, message):
    with pytest.raises(InputError, match=message):
        student_config(preset("bert-tiny", **{**SMALL, **changes}), name, layers)


def test_dropping_the_highest_layers_gives_the_hidden_states_below():
    teacher = lively(preset("bert-tiny", **SMALL), "mlm")
    with torch.no_grad():
        states = teacher.encode(batch(), hidden_states=True).hidden_states
        assert states is not None
        for count in (1, 3):
            assert torch.allclose(drop_top_layers(teacher, count).encode(batch()).hidden, states[4 - count], atol=1e-6)
    with pytest.raises(InputError, match="4 layers"):
        drop_top_layers(teacher, 4)


def silence(model, heads, factor=0.0):
    """The same model with these heads' parts of the output multiplied by `factor`."""
    changed, size = copy.deepcopy(model), model.config.head_dim
    with torch.no_grad():
        for layer, numbers in heads.items():
            for head in numbers:
                changed.encoder.layers[layer].attention.out.weight[:, head * size : (head + 1) * size] *= factor
    return changed


def test_a_pruned_head_is_one_that_says_nothing():
    model, heads = lively(preset("bert-tiny", **SMALL), "classification", labels=2), {0: [1, 3], 2: [0], 3: [0, 1, 2]}
    pruned = prune_heads(model, heads)
    with torch.no_grad():
        assert torch.allclose(pruned.logits(batch()), silence(model, heads).logits(batch()), atol=1e-5)
        assert not torch.allclose(pruned.logits(batch()), model.logits(batch()), atol=1e-3)
    assert pruned.num_parameters == model.num_parameters - 6 * (3 * 8 * 33 + 8 * 32)
    assert [layer.attention.num_heads for layer in model.encoder.in_order] == [4, 4, 4, 4], "the original changed"
    with pytest.raises(InputError, match="no attention head left"):
        prune_heads(model, {0: [0, 1, 2, 3]})


def test_importance_is_the_derivative_of_each_texts_loss_at_the_mask():
    model = lively(preset("bert-tiny", **SMALL), "classification", labels=2).double()

    def loss(network, one):
        return torch.nn.functional.cross_entropy(network.logits(one), one.labels["sequence"], reduction="sum")

    found = head_importance(model, [batch()], loss)
    by_hand, step = torch.zeros(4, 4, dtype=torch.float64), 1e-5
    for layer in range(4):
        for head in range(4):
            up, down = (silence(model, {layer: [head]}, 1 + sign * step) for sign in (1, -1))
            for row, label in zip(ROWS, [0, 1, 1, 0], strict=True):
                one = Batch.from_sequences([row]).with_labels(sequence=torch.tensor([label]))
                with torch.no_grad():
                    by_hand[layer, head] += abs(float(loss(up, one) - loss(down, one)) / (2 * step))
    assert torch.allclose(found.double(), by_hand / by_hand.norm(dim=1, keepdim=True), atol=1e-4)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_least_important_heads_go_and_every_layer_keeps_one():
    importance = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.9, 0.8, 0.7, 0.05]])
    assert least_important(importance, 0.25) == {0: [0], 1: [3]}
    most = least_important(importance, 0.99)
    assert {layer: len(heads) for layer, heads in most.items()} == {0: 3, 1: 3}
    assert 3 not in most[0] and 0 not in most[1]
    assert least_important(importance, 0.1) == {}
