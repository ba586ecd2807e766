"""The recipe of the character language model at a tiny size: it resumes, and searches two networks."""

from __future__ import annotations

import json
import random
from importlib import import_module
from pathlib import Path

import pytest

from conventions.sources import REPOSITORY
from recipe_runs import run


def speech_text(speeches: int, seed: int) -> str:
    """Speeches of two speakers."""
    draws = random.Random(seed)
    names, words = ("KING", "Fool"), ("the", "crown", "is", "a", "heavy", "HAT", "sir")
    said = (
        f"{draws.choice(names)}:\n" + "\n".join(" ".join(draws.choices(words, k=5)) for _ in range(draws.randint(1, 3)))
        for _ in range(speeches)
    )
    return "\n\n".join(said) + "\n"


@pytest.mark.slow
def test_cells_are_searched_in_a_trained_and_an_untrained_network(tmp_path: Path):
    data = tmp_path / "shared/char_lm"
    data.mkdir(parents=True)
    (data / "tinyshakespeare_train.txt").write_text(speech_text(300, 1), encoding="utf-8")
    (data / "tinyshakespeare_dev.txt").write_text(speech_text(40, 2), encoding="utf-8")
    how = [
        "--minutes",
        0.01,
        "--hidden",
        16,
        "--streams",
        4,
        "--stretch",
        20,
        "-o",
        tmp_path / "out",
        "--device",
        "cpu",
    ]
    tables = []
    for _ in range(2):  # the second time it is all there
        found = run("char_lm.py", *how, MASKWRIGHT_DATA=str(tmp_path / "shared"))
        assert found.returncode == 0, found.stderr
        assert "temperature 0.8\nKING" in found.stdout and "untrained" in found.stdout
        tables.append(json.loads((tmp_path / "out/table.json").read_text(encoding="utf-8")))
    assert tables[0] == tables[1]
    (only,) = tables[0]["runs"]
    assert {one["rule"] for one in only["cells"]} == {"line", "capitals", "heading"}  # nobody quotes
    assert only["cells"] != only["untrained"] and 1 < only["perplexity"] < 261
    assert "Units by rule" in (tmp_path / "out/cells.html").read_text(encoding="utf-8")


def test_code_for_the_search_is_not_trained_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.syspath_prepend(str(REPOSITORY / "recipes"))
    recipe = import_module("char_lm")
    library = tmp_path / "library"
    (library / "json").mkdir(parents=True)
    for number in range(60):
        text = f"# module {number}\nif ready({number}):\n    pass\n"
        (library / ("json" if number % 2 else "") / f"m{number}.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(recipe.sysconfig, "get_path", lambda name: str(library))
    (tmp_path / "code").mkdir()
    recipe.write_code(tmp_path / "code")
    parts = [(tmp_path / f"code/{name}.txt").read_text(encoding="utf-8") for name in ("train", "dev")]
    train, dev = ({line for line in text.splitlines() if line.startswith("#")} for text in parts)
    assert len(train) + len(dev) == 60 and len(dev) == 3 and not train & dev
