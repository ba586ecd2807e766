"""Writes the folder of this version, which every later version must open: run it once per release.

python tests/releases/write.py
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import maskwright as mw
from pinned.runs import write_data

SENTENCES = ["the dog sat near the good tree", "a bird flew on the awful mat"]
NETWORK = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
HERE = {"seed": 3, "device": "cpu", "precision": "fp32"}
STOPPED = 2  # the step after which a pre-training was interrupted
INPUTS = ("corpus.txt", "classes.tsv")


class Interruption(mw.Callback):
    """Ends the training after its first checkpoint."""

    def on_checkpoint(self, facts: Any) -> None:
        raise KeyboardInterrupt


def pretraining(output: str) -> mw.PretrainConfig:
    return mw.PretrainConfig(
        corpus=("corpus.txt",), output=Path(output), preset="bert-tiny", model=NETWORK, vocab_size=60, objective="mlm",
        steps=4, batch_tokens=256, max_length=32, holdout=0.0, checkpoint_every=STOPPED, **HERE,
    )  # fmt: skip


def answers() -> dict[str, Any]:
    """What the models in the present folder answer."""
    classifier = mw.TextClassifier.load("classifier/model", precision="fp32")
    vectors = mw.Embedder("pretraining/model", precision="fp32").fit(SENTENCES).transform(SENTENCES)
    return {
        "classes": list(classifier.classes_),
        "probabilities": classifier.predict_proba(SENTENCES).round(6).tolist(),
        "vectors": vectors[:, :4].round(6).tolist(),
        "ids": mw.Tokenizer.load("classifier/model")(SENTENCES[0]).ids,
    }


def main() -> None:
    folder, target = Path("/var/tmp/maskwright"), Path(__file__).parent / mw.__version__
    shutil.rmtree(folder, ignore_errors=True)  # a fixed place: it is recorded in some files
    folder.mkdir()
    os.chdir(folder)
    write_data(folder)
    for path in folder.iterdir():
        if path.name not in INPUTS:
            path.unlink()
    mw.pretrain(pretraining("pretraining"))
    with suppress(KeyboardInterrupt):
        mw.pretrain(pretraining("interrupted"), callbacks=[Interruption()])
    rows = {"train": Path("classes.tsv"), "dev": Path("classes.tsv")}
    tuning: dict[str, Any] = {"model": "pretraining/model", "epochs": 12, "lr": 3e-3, "batch_size": 8, **HERE}
    mw.finetune(mw.FinetuneConfig(task="classification", output=Path("classifier"), **rows, **tuning))
    adapter = {"adapter": "lora", "rank": 2}
    mw.finetune(mw.FinetuneConfig(task="classification", output=Path("adapter"), **rows, **tuning, **adapter))
    for unread in (*folder.glob("**/.lock"), *folder.glob("*/report.html")):
        unread.unlink()
    for finished in (*folder.glob("*/seed-3"), *folder.glob("pretraining/[cd]*s")):
        shutil.rmtree(finished)
    Path("answers.json").write_text(json.dumps(answers(), indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(folder, target)


if __name__ == "__main__":
    main()
