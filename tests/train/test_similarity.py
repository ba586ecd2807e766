"""Contrastive runs as a user meets them: scored pairs, pairs, single texts; the folder; going on after a cut."""

import json
import random
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch

import maskwright as mw
from inference.samples import tiny, tokenizer
from maskwright.api import open_embedder, open_predictor
from maskwright.core import storage
from maskwright.core import storage as sealed
from maskwright.core.errors import ConfigError, InputError
from maskwright.hub.sentence import declared_by
from maskwright.inference.sparse import sparse_encoder_of
from maskwright.tasks.similarity import Similarity
from maskwright.text.readers.tables import Row
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.finetune import finetune, with_negatives
from maskwright.train.finetuning.job import FinetuneJob, MemoryBestModelSaver
from train.runs import continues_exactly, finetuning

ANIMALS, PLACES = ["cat", "dog", "bird"], ["house", "tree", "river"]
COLOURS = ["old", "red", "small", "new"]


def pairs(path, rows, seed, form="scores"):
    """Two texts about an animal or a place; their score is 4 where both are of one kind, else 1."""
    rng = random.Random(seed)
    lines = {"scores": ["sentence1\tsentence2\tscore"], "pairs": ["sentence1\tsentence2"], "texts": []}[form]
    for _ in range(rows):
        kinds = [rng.choice([ANIMALS, PLACES]) for _ in "ab"]
        if form == "pairs":
            kinds[1] = kinds[0]
        first, second = (f"the {rng.choice(COLOURS)} {rng.choice(kind)} was here" for kind in kinds)
        score = 4.0 if kinds[0] is kinds[1] else 1.0
        lines.append({"scores": f"{first}\t{second}\t{score}", "pairs": f"{first}\t{second}", "texts": first}[form])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def contrastive(folder, **changes):
    if not (folder / "tok").exists():
        words = " ".join([*ANIMALS, *PLACES, *COLOURS, "the was here"])
        Tokenizer.train_from_iterator(iter([words] * 3), kind="wordpiece", vocab_size=90).save(folder / "tok")
    own = {"task": "regression", "contrastive": True, "lr": 1e-3, "max_length": 12}
    own |= {"train": pairs(folder / "scored.tsv", 64, 1), "dev": pairs(folder / "scored-dev.tsv", 24, 2)}
    return finetuning(folder, **{**own, **changes})


def test_scored_pairs_are_learned_and_the_folder_makes_sentence_embeddings(tmp_path, maskwright):
    result = finetune(contrastive(tmp_path, epochs=6))
    assert result.main_metric == "spearman" and result.mean["spearman"] > 0.7
    model = mw.load(result.model)
    declared = declared_by(result.model)
    assert model.head_name is None
    assert (declared.pooling, declared.normalize, declared.max_length) == ("mean", True, 12)
    embedder = mw.Embedder(result.model, precision="fp32")
    vectors = embedder.transform(["the old cat was here", "the red dog was here", "a river"])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
    code, out, _ = maskwright("evaluate", result.model, tmp_path / "scored-dev.tsv", "--json", "--precision", "fp32")
    found = json.loads(out)
    assert (code, found["task"], found["examples"]) == (0, "similarity", 24)
    assert found["metrics"]["spearman"] == pytest.approx(result.mean["spearman"], abs=1e-4)
    code, out, _ = maskwright("predict", result.model, "the old cat was here", "--pair", "a river", "--json",
                              "--precision", "fp32")  # fmt: skip
    assert json.loads(out)["score"] == pytest.approx(float(vectors[0] @ vectors[2]), abs=1e-4)
    page = result.report.read_text(encoding="utf-8")
    assert "better than the model before training: " in page and "Pairs with the largest error" in page
    assert "A sentence encoder" in (result.model / "README.md").read_text(encoding="utf-8")


def test_a_regression_is_compared_with_the_cosine_similarity_that_a_sentence_encoder_had_before(tmp_path, capsys):
    """Both texts are read together there, and the new output may be worse than what the model could do already."""
    encoder = finetune(contrastive(tmp_path, epochs=6))
    capsys.readouterr()
    start = {"contrastive": False, "model": encoder.model, "preset": None, "tokenizer": None, "epochs": 1, "lr": 1e-9}
    worse = finetune(contrastive(tmp_path, **start, output=tmp_path / "worse"))
    vectors = open_embedder(encoder.model)
    rows = [line.split("\t") for line in (tmp_path / "scored-dev.tsv").read_text().splitlines()[1:]]
    first, second = (vectors.vectors([row[side] for row in rows]) for side in (0, 1))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    wanted = np.corrcoef(cosines, [float(row[2]) for row in rows])[0, 1]
    assert worse.baseline.baseline == pytest.approx(wanted, abs=1e-4) and worse.baseline.level == "bad"
    assert "finetune similarity starts" in str(worse.baseline)
    assert f"pearson {wanted:.4f} by the cosine similarity" in capsys.readouterr().err
    single = finetune(contrastive(tmp_path, epochs=1, contrastive=False, output=tmp_path / "scratch"))
    assert single.baseline.predictor == "a constant"


def test_pairs_without_scores_learn_to_find_each_other(tmp_path):
    config = contrastive(
        tmp_path, train=pairs(tmp_path / "p.tsv", 64, 3, "pairs"), dev=pairs(tmp_path / "d.tsv", 24, 4, "pairs")
    )
    result = finetune(config)
    assert result.main_metric == "accuracy" and set(result.mean) == {"loss", "accuracy"}


def test_single_texts_need_dev_pairs_and_train_on_dropout_alone(tmp_path):
    texts = pairs(tmp_path / "texts.txt", 32, 5, "texts")
    with pytest.raises(InputError, match="single texts"):
        finetune(contrastive(tmp_path, train=texts, dev=None))
    result = finetune(contrastive(tmp_path, train=texts, epochs=1, output=tmp_path / "simcse"))
    facts = storage.read_json(result.model / "maskwright.json")
    assert (facts["task"], facts["trained_on"]) == ("similarity", "texts")


def labeled_pairs(path, rows, seed):
    """The rows of `pairs` with a label: yes where the second text is about an animal."""
    head, *lines = pairs(path, rows, seed, "pairs").read_text(encoding="utf-8").splitlines()
    labels = ["yes" if any(name in line.partition("\t")[2] for name in ANIMALS) else "no" for line in lines]
    text = "\n".join([f"{head}\tlabel", *(f"{line}\t{label}" for line, label in zip(lines, labels, strict=True)), ""])
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("encoder", "form", "metric", "declared"),
    [
        ("cross", "scores", "spearman", "CrossEncoder"),
        ("cross", "labels", "pr_auc", "CrossEncoder"),
        ("cross", "pairs", "pr_auc", "CrossEncoder"),
        ("sparse", "scores", "spearman", "SparseEncoder"),
        ("sparse", "pairs", "accuracy", "SparseEncoder"),
    ],
)
def test_cross_encoders_and_sparse_encoders_learn_from_the_same_files(
    tmp_path, maskwright, encoder, form, metric, declared
):
    read = labeled_pairs if form == "labels" else lambda *given: pairs(*given, form)
    train, dev = read(tmp_path / "a.tsv", 96, 3), read(tmp_path / "b.tsv", 32, 4)
    config = contrastive(tmp_path, contrastive=False, task="similarity", encoder=encoder, train=train, dev=dev)
    result = finetune(replace(config, epochs=2, lr=2e-3, max_length=24))
    assert result.mean[metric] > {"labels": 0.9, "pairs": 0.05}.get(form, 0.4 if encoder == "sparse" else -1)
    own = storage.read_json(result.model / "config_sentence_transformers.json")
    assert own["model_type"] == declared
    assert storage.read_json(result.model / "sentence_bert_config.json")["max_seq_length"] == 24
    if form != "pairs":
        code, out, _ = maskwright("evaluate", result.model, dev, "--json", "--precision", "fp32")
        assert code == 0 and json.loads(out)["metrics"][metric] == pytest.approx(result.mean[metric], abs=1e-4)
    text, other = "the old cat was here", "the red dog was here"
    code, out, _ = maskwright("predict", result.model, text, "--pair", other, "--json", "--precision", "fp32")
    score = json.loads(out)["score"]
    if encoder == "cross":
        assert score == pytest.approx(float(open_predictor(result.model).logits([(text, other)]).sigmoid()), abs=1e-3)
        return
    first, second = sparse_encoder_of(mw.load(result.model), result.model).vectors([text, other]).toarray()
    length = np.linalg.norm(first) * np.linalg.norm(second) if form == "scores" else 1
    assert score == pytest.approx(first @ second / length, rel=1e-3)


def test_a_sparse_run_goes_on_exactly_after_a_kill(tmp_path, monkeypatch):
    train = pairs(tmp_path / "p.tsv", 48, 3, "pairs")
    config = contrastive(tmp_path, contrastive=False, task="similarity", encoder="sparse", train=train, epochs=2)
    continues_exactly(finetune, config, monkeypatch)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"encoder": "cross", "form": "texts"}, "pairs"),
        ({"encoder": "sparse", "matryoshka": (8,)}, "matryoshka"),
        ({"encoder": "cross", "matryoshka": (8,)}, "matryoshka"),
        ({"hard_negatives": 2}, "without a score"),
        ({"hard_negatives": 2, "form": "pairs", "preset": None, "tokenizer": None, "model": "MLM"}, "miner"),
        ({"task": "classification", "encoder": "cross"}, "encoder"),
        ({"task": "regression", "encoder": None, "hard_negatives": 2}, "encoder"),
        ({"encoder": "sparse", "sparsity": (-1, 0)}, "sparsity"),
        ({"encoder": "dense", "matryoshka": (8, 4096)}, "dimensions"),
    ],
)
def test_what_an_encoder_cannot_be_trained_with_is_refused(tmp_path, changes, word):
    form = changes.pop("form", "scores")
    train = pairs(tmp_path / ("t.txt" if form == "texts" else "t.tsv"), 24, 3, form)
    if changes.get("model"):
        changes["model"] = str(tmp_path / "mlm")
        tiny("mlm").save(changes["model"])
    with pytest.raises((InputError, ConfigError), match=word):
        finetune(contrastive(tmp_path, **({"contrastive": False, "task": "similarity", "train": train} | changes)))
    assert not list(tmp_path.glob("*/run.json"))


class Directions:
    """Encodes texts "0" to "90" as unit vectors with that angle."""

    def vectors(self, texts):
        angles = np.radians([float(text.split()[-1]) for text in texts])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@pytest.mark.parametrize("encoder", [Directions(), None])
def test_negatives_are_near_but_neither_right_nor_nearly_so(encoder):
    rows = [Row("cat 0", "20", None, 1, "f"), Row("cat 0", "21", None, 2, "f")]
    rows += [Row("dog 90", text, None, 3, "f") for text in ("24", "40", "45", "80")]
    found = with_negatives(rows, 2, encoder)
    assert [row.label for row in found[: len(rows)]] == ["1"] * len(rows)
    new = [row for row in found[len(rows) :] if row.text == "cat 0"]
    assert len(new) == 2 and {row.label for row in new} == {"0"}
    # cos(24) is within 5% of cos(21), cos(20) is right
    assert [row.text_pair for row in new] == ["40", "45"] if encoder else {row.text_pair for row in new} <= {
        "24", "40", "45", "80"
    }  # fmt: skip
    task = Similarity.from_rows(found)
    examples = task.examples(found, tokenizer())
    job = FinetuneJob(
        tiny(), task, examples, None, MemoryBestModelSaver(), batch_size=4, seed=1, device=torch.device("cpu")
    )
    texts = [found[row].text for row in job._sample(0)]
    assert sorted(texts) in (texts, texts[::-1])


def long_pairs(path, rows, seed):
    """Pairs as those of `pairs`, whose first text begins with more words than the network takes."""
    lines = pairs(path, rows, seed).read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([lines[0], *(f"{'was here ' * 9}{line}" for line in lines[1:]), ""]), encoding="utf-8")
    return path


def test_long_texts_are_read_in_windows_by_training_and_by_all_that_uses_the_folder(tmp_path, maskwright):
    train, dev = long_pairs(tmp_path / "long.tsv", 48, 7), long_pairs(tmp_path / "held.tsv", 24, 8)
    windows = {"long": "windows", "stride": 2, "max_windows": 2}
    result = finetune(contrastive(tmp_path, train=train, dev=dev, epochs=4, score_range=(0, 5), **windows))
    facts = storage.read_json(result.model / "maskwright.json")
    assert facts["long"] == {"stride": 2, "pool": "mean", "max_windows": 2} and facts["scale"] == [0.0, 5.0]
    page = result.report.read_text(encoding="utf-8")
    assert "training windows of 12 tokens" in page and "training texts with more than the maximum of windows" in page
    code, out, err = maskwright("evaluate", result.model, dev, "--json", "--precision", "fp32")
    found = json.loads(out)
    assert (code, found["truncated"], found["examples"]) == (0, 0, 24) and "held.tsv texts make" in err

    end, other = "the old cat was here", "a river"
    text = f"{'was here ' * 9}{end}"
    code, out, _ = maskwright("predict", result.model, text, "--pair", other, "--json", "--precision", "fp32")
    cosine = json.loads(out)["score"]
    one, two, three = mw.Embedder(result.model, precision="fp32").transform([text, other, text.replace("cat", "tree")])
    assert cosine == pytest.approx(float(one @ two), abs=1e-5) and not np.allclose(one, three, atol=1e-3)
    code, out, err = maskwright("embed", result.model, text, "--json", "--precision", "fp32")
    assert code == 0 and "truncated" not in err and np.allclose(json.loads(out)["vector"], one, atol=1e-5)
    asked = mw.Embedder(result.model, precision="fp32", long="windows", stride=2).transform([text])[0]
    assert np.array_equal(asked, one)
    cut, blind = mw.Embedder(result.model, precision="fp32", long="cut").transform([text, text.replace("cat", "tree")])
    assert np.array_equal(cut, blind)
    code, _, err = maskwright("embed", result.model, text, "--pooling", "none", "--json")
    assert code == 0 and "truncated" in err
    assert open_embedder(result.model, stride=3).long.stride == 3
    shutil.copytree(result.model, tmp_path / "copy")
    code, out, _ = maskwright("ensemble", result.model, tmp_path / "copy", dev, "--json", "--precision", "fp32")
    united = json.loads(out)
    assert code == 0 and united["metrics"]["spearman"] == pytest.approx(found["metrics"]["spearman"], abs=1e-6)


def test_a_folder_that_declares_its_pooling_keeps_it(tmp_path):
    first = finetune(contrastive(tmp_path, epochs=1))
    path = first.model / "1_Pooling" / "config.json"
    pooling = storage.read_json(path)
    changed = {**pooling, "pooling_mode_mean_tokens": False, "pooling_mode_cls_token": True}
    storage.write_json(path, changed)
    sealed.accept(first.model)
    on = {"preset": None, "tokenizer": None, "model": str(first.model), "output": tmp_path / "on", "epochs": 1}
    second = finetune(contrastive(tmp_path, **on))
    assert declared_by(second.model).pooling == "cls"
    assert open_embedder(second.model).pooling == "cls"
