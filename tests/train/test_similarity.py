"""Contrastive runs as a user meets them: scored pairs, pairs, single texts; the folder; going on after a cut."""

import json
import random
import shutil

import numpy as np
import pytest

import maskwright as mw
from maskwright.api import open_embedder
from maskwright.core import storage
from maskwright.core import storage as sealed
from maskwright.core.errors import InputError
from maskwright.hub.sentence import declared_by
from maskwright.text.tokenizers.tokenizer import Tokenizer
from maskwright.train.finetuning.finetune import finetune
from train.runs import finetuning

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


def test_pairs_without_scores_learn_to_find_each_other(tmp_path):
    config = contrastive(
        tmp_path,
        train=pairs(tmp_path / "p.tsv", 64, 3, "pairs"),
        dev=pairs(tmp_path / "d.tsv", 24, 4, "pairs"),
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
