"""The page of `inspect` in a real browser: every view, both themes, a phone and a wide screen, keys, hostile text."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from browser.reading import barriers
from browser.test_report_page import CONTRASTS, ENOUGH
from inference.samples import tiny
from looked_at import TEXT, network, translator
from maskwright.inspect import AttentionChanges, Inspection, compare_models, head_moves, look, render
from maskwright.inspect.compare import ModelComparison

SVG = "{http://www.w3.org/2000/svg}"
VIEWS = ("overview", "lines", "matrix", "neurons", "steps", "heads", "flow", "layers", "predictions", "attributions")
HOSTILE = "</script><script>document.title='taken'</script> <img src=x onerror=document.title='taken'> \u2028 & \" '"
LABELS = ["no", HOSTILE]

Page = tuple[list[Inspection], AttentionChanges | None, ModelComparison | None]


@cache
def pages() -> dict[str, Page]:
    masked = look(tiny("mlm"), "the cat [MASK] on the mat .", name="masked")
    judged = look(tiny("classification", labels=LABELS), (TEXT, "dogs and cats"), name="judge")
    one, other = look(tiny(), "the cat sat on the mat"), look(tiny(), "the cat sat in the mat")
    return {
        "masked": ([masked], None, None),
        "pair": ([judged], None, None),
        "translation": ([look(translator(), TEXT, target="rain fell on dogs")], None, None),
        "left to right": ([look(network("GPT-2"), TEXT, name="left to right")], None, None),
        "two texts": ([one, other], head_moves(one.attention.main, other.attention.main, "cat"), None),
        "two models": ([one, look(network("BERT"), TEXT)], None, compare_models(tiny(), network("BERT"), [TEXT])),
    }


def view(opened: Any, name: str) -> None:
    opened.page.click(f"#tab-{name}")
    opened.page.wait_for_selector(f"main.{name}")


@pytest.fixture
def open_look(open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Opens a page of `pages` by name, or looks that are given, and waits until it is drawn."""

    def opener(which: str | Page, *options: Any, **more: Any) -> Any:
        opened = open_page(render(*(pages()[which] if isinstance(which, str) else which)), *options, **more)
        opened.page.wait_for_selector("main")
        return opened

    return opener


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [("masked", 375, "dark"), ("pair", 1400, "light"), ("translation", 320, "light"), ("left to right", 1400, "dark"),
     ("two texts", 375, "light"), ("two models", 1600, "dark")],
)  # fmt: skip
def test_every_view_is_quiet_fits_and_can_be_read(open_look: Any, name: str, width: int, scheme: str):
    opened = open_look(name, width, scheme)
    tabs = opened.ask("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.id.slice(4))")
    assert set(VIEWS[:8]) <= set(tabs) <= set(VIEWS)
    for one in tabs:
        view(opened, one)
        assert opened.ask("document.documentElement.scrollWidth") == width, one
        contrasts = opened.ask(CONTRASTS)
        assert [entry for entry in contrasts if entry[0] < ENOUGH] == [], one
        assert barriers(opened.page) == [], one
    assert opened.complaints == [] and opened.requests == []


def test_the_page_holds_the_weights_that_python_has(open_look: Any):
    opened = open_look("masked")
    map = pages()["masked"][0][0].attention.main
    view(opened, "matrix")
    opened.page.click("[data-key=chip-2]")
    opened.page.click("[data-key=layer-up]")
    opened.page.focus("canvas[tabindex]")
    for _ in range(3):
        opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("ArrowDown")
    shown = opened.ask("document.querySelector('.readout').textContent")
    expected = map.of(2, 3)[1, 3]
    assert shown.startswith(f"{map.queries.labels[1]} → {map.keys.labels[3]}")
    assert float(shown.split()[-1]) == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize("width", [375, 1400])
def test_hostile_text_stays_text_in_every_view(open_look: Any, width: int):
    judge = look(tiny("classification", labels=LABELS), (HOSTILE, HOSTILE), name=HOSTILE)
    labels = tuple(f"{HOSTILE} {index}" for index in range(len(judge.attention.main.keys)))
    side = replace(judge.attention.main.keys, labels=labels)
    map = replace(judge.maps[0].map, queries=side, keys=side)
    shown = replace(judge, maps=(replace(judge.maps[0], map=map),), states=replace(judge.states, tokens=side))
    opened = open_look(([shown], None, None), width)
    for name in (*VIEWS[:8], "attributions"):
        view(opened, name)
        assert opened.ask("document.scripts.length") == 2 and opened.ask("document.images.length") == 0, name
        assert opened.ask("document.documentElement.scrollWidth") == width, name
    assert opened.ask("document.title").startswith("</script><script>")
    assert opened.complaints == [] and opened.requests == []


def test_no_other_script_or_style_may_run(open_look: Any):
    """What is put into the page later is stopped by its policy."""
    opened = open_look("masked")
    opened.ask(
        "() => { const own = document.createElement('script'); own.textContent = 'document.title = `taken`';"
        " document.body.append(own); }"
    )
    assert opened.ask("document.title") != "taken" and any(
        "Content Security Policy" in one for one in opened.complaints
    )


def test_pictures_and_tables_are_saved_as_files(open_look: Any):
    opened = open_look("masked")
    for name, label, suffix in (
        ("overview", "Save PNG", "png"),
        ("lines", "Save PNG", "png"),
        ("layers", "Save SVG", "svg"),
        ("neurons", "Save CSV", "csv"),
        ("lines", "Save SVG", "svg"),
        ("matrix", "Save PNG", "png"),
        ("matrix", "Save CSV", "csv"),
    ):
        view(opened, name)
        with opened.page.expect_download() as download:
            opened.page.click(f"text={label}")
        data = download.value.path().read_bytes()
        assert download.value.suggested_filename.endswith(suffix) and len(data) > 200
        if suffix == "svg":
            assert b"cat" in data and b"<script" not in data
        if suffix == "png":
            assert data.startswith(b"\x89PNG")
        if suffix == "csv" and name == "matrix":
            rows = data.decode().splitlines()
            assert len(rows) == 10 and float(rows[1].split(",")[1]) == pytest.approx(
                float(pages()["masked"][0][0].attention.main.of(1, 1)[0, 0]), abs=1e-3
            )
