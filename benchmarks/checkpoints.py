"""Hold every family and head against transformers and write the largest differences to docs/results/checkpoints.md.

python benchmarks/checkpoints.py
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from importlib import metadata
from pathlib import Path

import torch

from maskwright.core.storage import write_text
from maskwright.hub.family import family_named
from maskwright.hub.folders import load_model, save_model

REPOSITORY = Path(__file__).parents[1]
PAGE = REPOSITORY / "docs" / "results" / "checkpoints.md"
sys.path.insert(0, str(REPOSITORY / "tests"))

from parity.checkpoints import HEADS, SETTINGS, checkpoint, labels_for, padded_rows, their_class  # noqa: E402
from parity.comparing import compare  # noqa: E402
from parity.exact import exact  # noqa: E402

HEAD = """# Comparison with transformers

Written by `python benchmarks/checkpoints.py`. For every family and head, transformers {transformers} creates small
random checkpoints with non-default settings; every parameter, including norms and biases, has a standard deviation
of 0.25. Both libraries process six rows: right padding, left padding, gaps in the mask, one token. A cell is the
largest difference of logits, hidden states, attention maps, the loss, and the gradient of every parameter (relative
to its largest entry if that is above 1).

*Load*: a folder written by transformers, loaded here. *Save*: the same weights saved here, loaded there. In
float64, only differences of the computation remain.

| family | class | head | load, float32 | load, float64 | save, float32 |
| --- | --- | --- | --- | --- | --- |
"""
NOTES = """
BigBird's rows are short, so transformers uses full attention, whatever the attention type;
tests/parity/test_big_bird.py compares its sparse rows with the same bounds. ModernBERT in float64: transformers
computes rotary embeddings, the softmax and the cross-entropy in float32; for this table they are computed in
float64 (tests/parity/exact.py). Losses of `rtd` in float64 are skipped: transformers converts its labels to float32
there, and everything computed from them.

[Checkpoint settings](../reference/checkpoint-settings.md) lists the supported, rejected and ignored settings of
`config.json`.
"""


def main() -> None:
    """Measure and write the page."""
    lines = [line for name in SETTINGS for line in rows_of(name)]
    text = HEAD.format(transformers=metadata.version("transformers")) + "\n".join(lines) + "\n" + NOTES
    write_text(PAGE, text)
    print(f"Wrote {PAGE}: {len(lines)} rows.")


def rows_of(name: str) -> Iterator[str]:
    """One line of the table for each head of a family."""
    family = family_named(name)
    for head in HEADS[name]:
        cells = [f"{differences(name, head, *case):.0e}" for case in (("load", 32), ("load", 64), ("save", 32))]
        yield f"| {family.title} | `{family.class_of(head)}` | {head or 'none'} | {' | '.join(cells)} |"


def differences(name: str, head: str | None, direction: str, bits: int) -> float:
    """The largest difference over all settings of a family."""
    return max(largest(name, head, settings, direction, bits) for settings in SETTINGS[name])


def largest(name: str, head: str | None, settings: Mapping[str, object], direction: str, bits: int) -> float:
    """The largest difference of one checkpoint."""
    dtype = torch.float64 if bits == 64 else torch.float32
    with tempfile.TemporaryDirectory() as folder:
        theirs = checkpoint(name, head, **settings)
        theirs.save_pretrained(f"{folder}/theirs")
        ours, _ = load_model(f"{folder}/theirs")
        if direction == "save":
            save_model(ours, f"{folder}/ours")
            theirs = their_class(name, head).from_pretrained(f"{folder}/ours", attn_implementation="eager").eval()
    rows = padded_rows(theirs.config, head)
    labels = labels_for(head, rows, name)
    if head == "regression":
        labels = {"labels": labels["labels"].to(dtype)}
    with exact(name) if bits == 64 else nullcontext():
        found = compare(ours.to(dtype), theirs.to(dtype), name, head, rows, labels)
    if head == "rtd" and bits == 64:
        found.pop("loss")
    return max(found.values())


if __name__ == "__main__":
    main()
