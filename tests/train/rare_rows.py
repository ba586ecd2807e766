"""Labeled rows with a rare class that can be read off one word, and a tiny encoder to start from."""

import random

from inference.samples import tiny


def rare_file(path, rare, rest, seed=1):
    """`rare` rows of the class "spam" and `rest` of two others, every text distinct."""
    rng = random.Random(seed)
    lines = []
    for number in range(rare + rest):
        label = "spam" if number < rare else rng.choice(["ham", "ham", "news"])
        word = "milk ! milk" if label == "spam" else rng.choice(["cat", "dogs", "garden"])
        lines.append(f"the {word} {number} sat {rng.choice(['in', 'on'])} the mat\t{label}")
    rng.shuffle(lines)
    path.write_text("\n".join(["text\tlabel", *lines]) + "\n", encoding="utf-8")
    return path


def encoder(folder):
    if not (folder / "encoder").exists():
        tiny().save(folder / "encoder")
    return folder / "encoder"
