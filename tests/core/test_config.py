"""Settings: typed, nearest key named, flags over file, the same after a round trip through TOML."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import tomli_w

from maskwright.core import config
from maskwright.core.errors import ConfigError


@dataclass(frozen=True)
class Sample:
    corpus: tuple[str, ...]
    output: Path
    steps: int = 10
    lr: float = 0.1
    schedule: Literal["linear", "cosine"] = "linear"
    tokenizer: Path | None = None
    quick: bool = False
    model: dict[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config.fit_types(self)


def test_assignments_are_toml_values_or_plain_words():
    read = {
        "positions=rotary": ("positions", "rotary"),
        "hidden-size=64": ("hidden_size", 64),
        "gated=true": ("gated", True),
        "rotary_theta = 1e4": ("rotary_theta", 10_000.0),
        'family="bert"': ("family", "bert"),
        "note=a b=c": ("note", "a b=c"),
        "sizes=64,128": ("sizes", [64, 128]),
        "words=a,b": ("words", "a,b"),
    }
    assert config.assignments(list(read)) == dict(read.values())
    for wrong in ("positions", "=rotary", ""):
        with pytest.raises(ConfigError, match="name=value"):
            config.assignments([wrong])


def test_flags_win_over_the_file_and_none_is_not_a_value(tmp_path: Path):
    path = tmp_path / "run.toml"
    path.write_text('corpus = ["a.txt"]\noutput = "runs/a"\nsteps = 5\nlr = 1\n')
    loaded = config.load(Sample, path, {"steps": 7, "lr": None})
    assert (loaded.steps, loaded.lr, loaded.output) == (7, 1.0, Path("runs/a"))


def test_a_round_trip_through_toml_changes_nothing():
    sample = Sample(("a", "b"), Path("runs/a"), lr=3e-4, quick=True)
    assert config.from_dict(Sample, tomllib.loads(config.to_toml(sample))) == sample


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stepz": 3}, "Unknown setting 'stepz'.*Did you mean 'steps'"),
        ({"steps": "many"}, "Setting 'steps' is 'many'; it must be int"),
        ({"steps": True}, "Setting 'steps' is True; it must be int"),
        ({"schedule": "cubic"}, "'linear' | 'cosine'"),
        ({"corpus": 3}, "Setting 'corpus' is 3"),
    ],
)
def test_wrong_settings_are_named(values: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        config.from_dict(Sample, {"corpus": ["a"], "output": "b", **values})


def test_a_config_made_in_python_is_brought_to_its_types():
    made = Sample("corpus.txt", "runs/a", steps=np.int64(3), lr=1, tokenizer="tok")  # type: ignore[arg-type]
    assert made == Sample(("corpus.txt",), Path("runs/a"), steps=3, lr=1.0, tokenizer=Path("tok"))
    assert type(made.steps) is int and type(made.lr) is float
    assert Sample([Path("a"), "b"], Path("x")).corpus == ("a", "b")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"steps": "3"}, {"corpus": [1]}, {"output": None}, {"lr": "fast"}, {"quick": 1}])
def test_a_wrong_type_is_named_whoever_makes_the_config(wrong: dict[str, object]):
    with pytest.raises(ConfigError, match=f"Setting '{next(iter(wrong))}'"):
        Sample(**{"corpus": ("a",), "output": Path("b"), **wrong})  # type: ignore[arg-type]


def test_broken_toml_names_file_and_line(tmp_path: Path):
    path = tmp_path / "bad.toml"
    path.write_text("steps = \n")
    with pytest.raises(ConfigError, match=r"bad\.toml is not valid TOML.*line 1"):
        config.load(Sample, path)


DEEP = {
    "lists": "a = " + "[" * 5000 + "]" * 5000,
    "lists that Python's parser reads": "a = " + "[" * 20 + "]" * 20,
    "tables": "a = " + "{b=" * 5000 + "1" + "}" * 5000,
    "a dotted key": ".".join("a" * 200_000) + " = 1",  # whose parts would need gigabytes
    "the head of a table": "[" + " . ".join("a" * 5000) + "]",
    "quoted parts": ".".join(['"a\'"', "'b\"'"] * 3000) + " = 1",
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_a_file_that_is_nested_too_deeply_is_refused_at_once(tmp_path, text):
    path = tmp_path / "deep.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"deep\.toml is not valid TOML: it is nested more than 16 levels deep\.$"):
        config.read_toml(path)


def test_a_number_of_too_many_digits_is_refused(tmp_path):
    path = tmp_path / "long.toml"
    path.write_text("a = " + "1" * 10_000, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"long\.toml is not valid TOML: Exceeds the limit"):
        config.read_toml(path)


def test_points_and_sixteen_levels_are_read(tmp_path):
    values = {"stop": "." * 100, "paths": [f"data/part.{number}.a.b.c.txt" for number in range(100)], "points": 1.5}
    path = tmp_path / "fine.toml"
    path.write_text(tomli_w.dumps({**values, "deep": "x"}), encoding="utf-8")
    assert config.read_toml(path) == {**values, "deep": "x"}
    path.write_text("a = " + "[" * 14 + "1" + "]" * 14, encoding="utf-8")
    assert str(config.read_toml(path)["a"]) == "[" * 14 + "1" + "]" * 14
