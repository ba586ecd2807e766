"""The cell explorer: rules by hand, values as the formulas give them, a planted unit found and confirmed."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from maskwright.core.errors import ConfigError, InputError
from maskwright.inspect import cells
from maskwright.inspect.cells import (
    CONFIRMED,
    RULES,
    ReadText,
    UnitActivations,
    documents_of,
    find_units,
    read_cells,
    rule_values,
    tokens_of,
    untrained_like,
)
from maskwright.inspect.reports import headline, write_cells
from maskwright.nn.recurrent import CELLS
from maskwright.text.tokenizers.tokenizer import Tokenizer
from models.recurrent_models import model


def said(rule: str, text: str) -> str:
    """What a rule says of each character, as a string of digits."""
    return "".join(str(int(value)) for value in RULES[rule][0](text))


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("quotes", 'a "bc" d', "00011100"),
        ("quotes", "“a” b", "01100"),
        ("quotes", '"a\n\nb" c', "01110011"),
        ("line", "ab\ncde", "012012"),
        ("depth", "a(b[c])d)", "011221000"),
        ("capitals", "A DUKE, Duke I4 ÉTÉ", "0011110000000000111"),
        ("heading", "a: b\nFirst c:\nd\ne:", "000001111111100011"),
        ("comment", "a # b\nc /* d */ e", "00111000111111100"),
        ("condition", "x if ab: c", "0011111000"),
    ],
)
def test_rules_by_hand(rule: str, text: str, expected: str):
    assert said(rule, text) == expected


def tokenizer() -> Tokenizer:
    return Tokenizer.train_from_iterator(
        ['abc def ghi jkl mno pqr stu vwx yz "quoted words" (in) 0123'], kind="char", vocab_size=60
    )


def read(text: str) -> ReadText:
    return tokens_of([text], tokenizer())


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_values_are_what_the_formulas_remember(cell: str):
    made = model(recurrent=cell)
    text = read("abc def ghi")
    values = read_cells(made, text).values
    assert values.shape == (11, 2, 12)
    hidden = made.encoder.embeddings(torch.from_numpy(text.ids), torch.arange(len(text.ids)), None, torch.float32)
    for depth, layer in enumerate(made.encoder.stack.layers):
        state = tuple(torch.zeros(1, 12) for _ in range(CELLS[cell].num_states))
        outputs = []
        for place, x in enumerate(hidden):
            state = CELLS[cell].step(layer.weights(), x[None], state)
            outputs.append(state[0])
            expected = state[1].tanh() if cell == "lstm" else state[0]
            if 0 < place <= 11:  # after [CLS]
                np.testing.assert_allclose(values[place - 1, depth], expected[0].detach(), atol=1e-5)
        hidden = torch.cat(outputs)


def test_streams_warm_up_with_the_text_before_them(monkeypatch: pytest.MonkeyPatch):
    made, text = model(), read("abc def ghi jkl mno pqr stu vwx yz " * 4)
    whole = read_cells(made, text).values
    monkeypatch.setattr(cells, "STREAM", 20)
    monkeypatch.setattr(cells, "WARM_UP", 200)
    np.testing.assert_allclose(read_cells(made, text).values, whole, atol=1e-5)


def planted(noise: float = 0.1) -> UnitActivations:
    """A text whose unit 3 of layer 2 follows quotes."""
    rng = np.random.default_rng(0)
    text = 'he said "come here" and she "did not" go ' * 20
    values = rng.normal(size=(len(text), 2, 6)).astype(np.float32)
    values[:, 1, 3] = -RULES["quotes"][0](text) + noise * rng.normal(size=len(text))
    return UnitActivations(text, np.arange(1, len(text) + 1), values, False)


def noise_like(readings: UnitActivations, units: int = 6) -> UnitActivations:
    """The same text read by a network that knows nothing of it."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=(len(readings.ends), 2, units)).astype(np.float32)
    return UnitActivations(readings.text, readings.ends, values, False)


def test_a_unit_is_named_only_where_random_weights_do_not_follow_the_rule_as_well():
    trained, weaker = planted(), planted(noise=1.0)
    assert find_units(trained, "quotes", noise_like(trained), top=1)[0].is_confirmed
    best = find_units(weaker, "quotes", trained, top=1)[0]
    assert best.strength > CONFIRMED and best.random > 0.9 and not best.is_confirmed
    assert headline([best]).startswith("No unit is confirmed") and f"{best.random:.2f} with random" in headline([best])
    assert best.to_json()["is_confirmed"] is False and best.to_json()["random"] == best.random


def test_random_weights_are_those_of_the_same_network():
    made = model(recurrent="lstm")
    untrained = untrained_like(made)
    assert untrained.config == made.config and untrained.tokenizer is made.tokenizer
    names = dict(made.named_parameters())
    assert any(not torch.equal(one, names[name]) for name, one in untrained.named_parameters())


def test_a_planted_unit_is_found_on_one_half_and_confirmed_on_the_other():
    best, second = find_units(planted(), "quotes", noise_like(planted()), top=2)
    assert (best.layer, best.unit) == (2, 3)
    assert best.searched < -0.9 and best.confirmed < -0.9
    assert abs(second.confirmed) < 0.3
    assert "Unit 3 of layer 2" in headline([best])


def test_a_unit_that_fits_by_chance_is_not_confirmed():
    readings = planted()
    rng = np.random.default_rng(1)
    noise = rng.normal(size=(len(readings.ends), 2, 500)).astype(np.float32)
    chance = UnitActivations(readings.text, readings.ends, noise, False)
    best = find_units(chance, "line", noise_like(readings), top=1)[0]
    assert abs(best.confirmed) < abs(best.searched)


def test_a_rule_that_never_changes_finds_nothing_and_an_unknown_one_names_the_nearest():
    assert find_units(planted(), "depth", planted()) == []
    with pytest.raises(ConfigError, match="quotes"):
        rule_values(planted(), "qoutes")


def test_a_page_colours_the_text_and_holds_no_markup_of_it(tmp_path):
    readings = planted()
    marked = UnitActivations(readings.text.replace("come", "<b>x"), readings.ends, readings.values, True)
    write_cells(tmp_path / "c.html", marked, find_units(marked, "quotes", noise_like(marked)), [(1, 0)], "m")
    page = (tmp_path / "c.html").read_text()
    assert "Layer 2, unit 3" in page and "Layer 1, unit 0" in page and "shaded below" in page
    assert "<b>x" not in page and "was truncated" in page


def test_documents_are_read_as_in_training(tmp_path):
    (tmp_path / "t.txt").write_text("abc\ndef\n\nghi\n")
    documents = documents_of(str(tmp_path / "t.txt"))
    assert documents == ["abc\ndef", "ghi"]
    text = tokens_of(documents, tokenizer())
    tok = tokenizer()
    assert text.text == "abc\ndef\n\nghi"
    assert text.ids[0] == tok.cls_id and text.ids[-1] == tok.sep_id and (text.ends < 0).sum() == 4
    shown = [text.text[end - 1 : end] for end in text.ends.tolist() if end >= 0]
    assert "".join(shown).replace("\n", " ") == "abc defghi"
    cut = text.first(3)
    assert len(cut.ids) == 3 and cut.text == "ab"


def test_what_has_no_cells_is_refused():
    with pytest.raises(InputError, match="unidirectional"):
        read_cells(model("bilstm-small", None), read("abc def"))
    with pytest.raises(InputError, match="fewer than 4"):
        read_cells(model(), read("a"))
