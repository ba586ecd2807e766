"""Short names of models: the ends of their paths that tell them apart."""

from __future__ import annotations

from maskwright.hub.published import short_names


def test_names_of_models_are_the_shortest_that_tell_them_apart(tmp_path):
    assert short_names(["runs/a/model", "runs/b/model"]) == ["a", "b"]
    assert short_names(["x/a", "y/a"]) == ["x/a", "y/a"]
    assert short_names(["bert-base-uncased"]) == ["bert-base-uncased"]
    (tmp_path / "model").mkdir()
    assert short_names([str(tmp_path / "model")]) == [tmp_path.name]
    assert short_names([]) == []
