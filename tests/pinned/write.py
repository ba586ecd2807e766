"""Writes networks.json and runs.json from the present code: run only where an answer changes for a stated reason.

python tests/pinned/write.py
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors import safe_open

sys.path.insert(0, str(Path(__file__).parents[1]))

import maskwright as mw
from maskwright.core import registry
from maskwright.models.presets import PRESETS, preset
from pinned.networks import answers, write
from pinned.runs import cases, outcome, write_data

SMALL = {
    "vocab_size": 60,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
OF_OUR_OWN = ("bag-small", "rnn-small", "gru-small", "lstm-small", "bilstm-small", "elmo-small", "seq2seq-small")
HEADS = (None, "mlm", "clm", "classification", "tagging-crf")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        write_data(Path(name))
        store("runs.json", {case: outcome(Path(name), words) for case, words in cases(Path(name)).items()})
    rows = {}
    with tempfile.TemporaryDirectory() as name:
        for kind in [*registry.names("family"), *OF_OUR_OWN]:
            if kind in OF_OUR_OWN:
                config, heads = preset(kind, vocab_size=60, hidden_size=16), HEADS
            else:
                family = registry.resolve("family", kind)()
                mine = [one for one in PRESETS if preset(one).family == kind]
                published = mine and kind != "maskwright"
                config = preset(mine[0], **SMALL) if published else mw.ModelConfig(family=kind, **SMALL)
                heads = tuple(dict.fromkeys(family.classes.values()))
            for head in heads:
                folder = Path(name, f"{kind}-{head}")
                try:
                    mw.build(config, head=head).save(folder)
                except mw.MaskwrightError as error:
                    print("no", kind, head, str(error)[:90])
                    continue
                with safe_open(folder / "model.safetensors", "np") as stored:
                    tensors = {one: list(stored.get_slice(one).get_shape()) for one in stored.keys()}  # noqa: SIM118
                settings = json.loads((folder / "config.json").read_text())
                settings = {key: value for key, value in settings.items() if "version" not in key}
                write(Path(name, "w", folder.name), settings, tensors)
                try:
                    found = answers(Path(name, "w", folder.name))
                except Exception as error:
                    print("fails", kind, head, type(error).__name__, str(error)[:120])
                    continue
                rows[folder.name] = {"config": settings, "tensors": tensors, "answers": found}
    store("networks.json", rows)


def store(name: str, rows: dict[str, Any]) -> None:
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}" for key, value in rows.items())
    Path(__file__).with_name(name).write_text("{\n" + lines + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
