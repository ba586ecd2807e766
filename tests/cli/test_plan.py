"""`maskwright plan` from outside."""

from __future__ import annotations

import json


def test_the_example_is_a_table_with_its_assumptions(maskwright):
    code, out, _ = maskwright("plan", "--preset", "bert-base", "--tokens", "3.3e9", "--gpu", "h100", "--gpus", "8")
    assert code == 0
    assert "109,482,240" in out and "NVIDIA H100" in out and "minutes" in out
    assert (
        "assumption" in out
        and "unknown without --price-per-hour" in out
        and "maskwright pretrain --output runs/a --preset bert-base --vocab-size 30522 " in out
    )


def test_the_next_command_is_the_planned_run(maskwright):
    words = ("--objective", "rtd", "--mask-rate", "0.2", "--set", "positions=rotary", "--gpu", "h100")
    code, out, _ = maskwright("plan", "--preset", "bert-small", "--vocab-size", "8000", *words)
    line = out.splitlines()[-1]
    assert code == 0 and all(part in line for part in ("rtd", "--mask-rate 0.2", "--set positions=rotary"))
    code, out, _ = maskwright(*line.split()[2:], "--print-config", "--json")
    assert code == 0 and json.loads(out)["objective"] == "rtd" and json.loads(out)["vocab_size"] == 8000


def test_the_plan_of_a_translation_names_its_command(maskwright):
    arguments = ("--preset", "transformer-mini", "--objective", "translation", "--gpu", "a100", "--gpus", "8")
    code, out, _ = maskwright("plan", *arguments, "--tokens", "1e9", "--set", "hidden_dropout=0.2")
    wanted = "finetune translation --train train.tsv --output runs/a --preset transformer-mini --tokenizer tok"
    assert code == 0 and f"next:   maskwright {wanted} --set hidden_dropout=0.2 --accumulation 8" in out
