"""Lessons in a real browser: each is run when it is chosen, and shown as its own page has it."""

from __future__ import annotations

import pytest

from browser.reading import saved, settled
from maskwright.lessons import catalog
from studio.serving import serving


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1400])
def test_lessons_are_listed_run_and_shown(visit, tmp_path, width, scheme):
    known = list(catalog.lessons().values())
    with serving(tmp_path / "runs") as served:
        opened = visit(served, "/lessons", width, scheme)
        page = opened.page
        frame = page.frame_locator("iframe.lesson")
        assert page.locator(".lessons a").all_text_contents() == [one.title for one in known]
        frame.locator("h1", has_text=known[0].title).wait_for(timeout=30_000)
        assert "checks pass, computed in" in page.locator("p.reading").text_content()
        page.locator(".lessons a").nth(1).click()
        frame.locator("h1", has_text=known[1].title).wait_for(timeout=30_000)
        settled(page)
        assert f"lesson={known[1].name}" in page.evaluate("location.href")
        assert page.locator(".lessons a[aria-current]").text_content() == known[1].title
        assert opened.ask("document.documentElement.scrollWidth") <= width
        inside = page.frames[-1].evaluate("getComputedStyle(document.body).backgroundColor")
        assert inside == opened.ask("getComputedStyle(document.body).backgroundColor")
        assert opened.complaints == [] and opened.requests == []


def test_pictures_and_tables_of_a_lesson_are_saved(visit, tmp_path):
    with serving(tmp_path / "runs") as served:
        opened = visit(served, "/lessons#lesson=big-bird")
        page = opened.page
        page.frame_locator("iframe.lesson").locator("svg[role=img]").first.wait_for(timeout=30_000)
        page.get_by_text("Save its pictures and tables").click()
        pictures = page.locator(".kept button", has_text="SVG")
        assert pictures.count() == page.frames[-1].locator("svg[role=img]").count() > 2
        assert page.locator(".kept button", has_text="CSV").count() == page.frames[-1].locator("table, ul.bars").count()
        name = pictures.first.get_attribute("aria-label")
        picture = saved(page, name).decode()
        assert picture.startswith("<svg") and 'width="' in picture and "var(" not in picture
        assert saved(page, name.replace("as SVG", "as PNG")).startswith(b"\x89PNG")
        numbers = saved(page, "Save the table The lesson's numbers as CSV").decode().splitlines()
        assert numbers[0].split(",")[1:3] == ["the slide", "computed"]
        assert len(numbers) == 1 + len(served.studio.lessons["/lesson/big-bird"].checks)
        assert opened.complaints == [] and opened.requests == []


def test_another_site_cannot_frame_a_lesson(tmp_path):
    with serving(tmp_path / "runs") as served:
        name = next(iter(catalog.lessons()))
        assert served.get(f"/lesson/{name}").status == 404
        assert served.post("/api/lessons/run", {"name": name}).json()["name"] == name
        headers = served.get(f"/lesson/{name}").headers
        assert "frame-ancestors 'self'" in headers["content-security-policy"]
        assert "script-src" not in headers["content-security-policy"]
        assert served.post("/api/lessons/run", {"name": "nothing"}).status == 422


def test_a_lesson_runs_on_your_own_numbers_and_text(visit, tmp_path):
    with serving(tmp_path / "runs") as served:
        opened = visit(served, "/lessons#lesson=weighted-sum")
        page = opened.page
        frame = page.frame_locator("iframe.lesson")
        frame.locator("h1").wait_for(timeout=30_000)
        page.get_by_label("Words; a Chinese or Japanese character is one").fill("机器翻译")
        frame.locator("td", has_text="weights of 机 器 翻 译").wait_for(timeout=30_000)
        page.get_by_label("Score of each word, in one row").fill("2 2 0 0")
        frame.locator("td", has_text="Vec = 0.44·机 + 0.44·器 + 0.06·翻").wait_for(timeout=30_000)
        page.get_by_role("button", name="Use the slide's values").click()
        frame.locator("td", has_text="Vec = 0.50·深").first.wait_for(timeout=30_000)
        settled(page)
        assert page.evaluate("location.hash") == "#lesson=weighted-sum"
        page.locator(".lessons a[data-name=rome]").click()
        page.locator(".instruments").wait_for(state="hidden", timeout=30_000)
        assert opened.complaints == [] and opened.requests == []


def test_own_input_is_checked_and_never_read_as_a_path(tmp_path):
    with serving(tmp_path / "runs") as served:
        path = tmp_path / "scores.txt"
        path.write_text("1 2\n", encoding="utf-8")
        answer = served.post("/api/lessons/run", {"name": "saturation", "values": {"matrix": str(path)}})
        assert answer.status == 422 and b"not a number" in answer.body
        answer = served.post("/api/lessons/run", {"name": "rome", "values": {"text": "x"}})
        assert answer.status == 422 and b"has no inputs" in answer.body
        answer = served.post("/api/lessons/run", {"name": "warm-up", "values": {"warmup": "1"}})
        assert answer.status == 422 and b"warmup is 1; pass an integer from 100 to 20,000" in answer.body
        found = served.post("/api/lessons/run", {"name": "weighted-sum", "values": {"text": "机器翻译"}}).json()
        assert found["ok"] and found["is_own"]
        assert "机 器".encode() in served.get(found["page"]).body
        assert served.get("/lesson/weighted-sum?text=x").status == 404
