"""`maskwright experiment layers` as typed."""

from __future__ import annotations

import json

from train.test_layer_lab import save
from train.test_tagging import tagged


def words_of(folder, *more):
    model = save(folder / "model", num_hidden_layers=4)
    train, dev = tagged(folder / "train.conll", 16, 1), tagged(folder / "dev.conll", 8, 2)
    fast = ("--epochs", 1, "--max-length", 16, "--precision", "fp32", "--columns", "token=0,tag=2")
    return ("experiment", "layers", model, "--train", train, "--dev", dev, *fast, "-o", folder / "layers", *more)


def test_it_prints_the_table_the_mix_the_order_and_what_is_next(maskwright, tmp_path):
    words = words_of(tmp_path, "--seeds", 2)
    code, out, err = maskwright(*words)
    assert code == 0, err
    for part in ("concat-last-4", "learned-mix", "published", "0.961", "Scalar-mix weights by layer: 0:"):
        assert part in out, part
    assert "The published order" in out and ("holds here" in out or "does not hold here" in out)
    assert "next:   maskwright embed" in out and " ± " in out
    assert "14/14 learned-mix, seed 1: entity_f1" in err
    code, out, _ = maskwright(*words)
    assert code == 0 and out.startswith("This run is finished")


def test_json_is_all_there_is_on_standard_output(maskwright, tmp_path):
    code, out, _ = maskwright(*words_of(tmp_path, "--seeds", 1, "--json"))
    found = json.loads(out)
    assert code == 0 and len(out.splitlines()) == 1
    assert found["metric"] == "entity_f1" and len(found["rows"]) == 7
    assert set(found["order"]) == {"holds", "steps"} and found["finetuned"] is None
