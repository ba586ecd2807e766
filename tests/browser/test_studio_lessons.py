"""Lessons in a real browser: each is run when it is chosen, and shown as its own page has it."""

from __future__ import annotations

import pytest

from browser.reading import barriers, saved, settled
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


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1400, "light")])
def test_a_slider_changes_the_lesson_and_its_address_opens_the_same(visit, tmp_path, width, scheme):
    with serving(tmp_path / "runs") as served:
        opened = visit(served, "/lessons#lesson=distillation&set.temperature=2", width, scheme)
        page = opened.page
        frame = page.frame_locator("iframe.lesson")
        frame.locator("h2", has_text="Teacher distribution at temperature 2").wait_for(timeout=30_000)
        page.get_by_label("Temperature, as a slider").press("ArrowRight")
        frame.locator("h2", has_text="Teacher distribution at temperature 2.5").wait_for(timeout=30_000)
        page.locator("p.reading", has_text="The slide's numbers do not apply").wait_for()
        assert page.get_by_label("Temperature", exact=True).input_value() == "2.5"
        page.get_by_label("Temperature", exact=True).fill("99")
        page.locator("#status", has_text="temperature is 99; pass a number from 0.5 to 20.").wait_for()
        page.get_by_label("Temperature", exact=True).fill("3")
        frame.locator("h2", has_text="Teacher distribution at temperature 3").wait_for(timeout=30_000)
        settled(page)
        assert barriers(page) == []
        assert opened.ask("document.documentElement.scrollWidth") <= width
        another = visit(served, "/lessons" + page.evaluate("location.hash"), width, scheme).page
        another.frame_locator("iframe.lesson").locator("h2", has_text="at temperature 3").wait_for(timeout=30_000)
        assert another.get_by_label("Temperature, as a slider").input_value() == "3"
        assert [one for one in opened.complaints if "status of 422" not in one] == []


def test_lessons_are_found_by_their_words_and_inputs(visit, tmp_path):
    with serving(tmp_path / "runs") as served:
        page = visit(served, "/lessons#find=warmup").page
        count = page.locator(".choose-lesson .note").first
        count.get_by_text(f"1 of {len(catalog.lessons())} lessons found.").wait_for()
        page.locator(".lessons a:visible", has_text="Learning rate with warmup and decay").wait_for()
        page.get_by_label("Search the lessons").fill("LSTM gates cell")
        page.locator(".lessons a[data-name=lstm-gates]").wait_for(state="visible")
        page.locator(".lessons a[data-name=warm-up]").wait_for(state="hidden")
        page.get_by_label("Search the lessons").fill("no such words anywhere")
        count.get_by_text(f"0 of {len(catalog.lessons())} lessons found.").wait_for()
        page.get_by_label("Search the lessons").fill("")
        page.locator(".lessons a[data-name=warm-up]").wait_for(state="visible")


def test_opened_lessons_are_marked_until_the_progress_is_cleared(visit, tmp_path):
    whole = len(catalog.lessons())
    with serving(tmp_path / "runs") as served:
        opened = visit(served, "/lessons#lesson=perplexity")
        page = opened.page
        page.get_by_text(f"1 of {whole} lessons opened.").wait_for(timeout=30_000)
        page.locator(".lessons a[data-name=window]").click()
        page.get_by_text(f"2 of {whole} lessons opened.").wait_for(timeout=30_000)
        page.reload()
        page.locator(".lessons a[data-name=perplexity][data-opened]").wait_for(timeout=30_000)
        settled(page)
        clear = page.get_by_role("button", name="Clear progress")
        clear.focus()
        page.keyboard.press("Enter")
        page.get_by_text(f"0 of {whole} lessons opened.").wait_for()
        clear.wait_for(state="hidden")
        assert page.evaluate("localStorage.getItem('maskwright-lessons')") is None
        assert page.evaluate("document.activeElement.name") == "find"
        page.evaluate("localStorage.setItem('maskwright-lessons', '{')")
        page.reload()
        page.get_by_text(f"1 of {whole} lessons opened.").wait_for(timeout=30_000)
        assert opened.complaints == []


@pytest.mark.parametrize(("width", "scheme"), [(375, "dark"), (1400, "light")])
def test_teachers_mode_shows_a_lesson_step_by_step(visit, tmp_path, width, scheme):
    with serving(tmp_path / "runs") as served:
        opened = visit(served, "/lessons#lesson=distillation", width, scheme)
        page = opened.page
        page.frame_locator("iframe.lesson").locator("h1").wait_for(timeout=30_000)
        page.get_by_role("button", name="Teacher's mode").click()
        inside = page.frame_locator(".stage iframe")
        inside.locator("h1").wait_for(timeout=30_000)
        place = page.locator(".stage .bar [role=status]")
        place.get_by_text("1 of 7", exact=True).wait_for()
        page.keyboard.press("ArrowRight")
        inside.locator("h2", has_text="Teacher distribution at temperature 4").wait_for()
        inside.locator("h1").wait_for(state="hidden")
        page.get_by_label("Temperature, as a slider").press("ArrowRight")  # changes the value, not the step
        inside.locator('td:text-is("Temperature")').wait_for(state="attached", timeout=30_000)
        inside.locator("h1").wait_for(state="hidden")
        page.get_by_role("button", name="Use the slide's values").click()
        inside.locator("h2", has_text="Teacher distribution at temperature 4").wait_for(timeout=30_000)
        assert barriers(page) == []
        assert opened.ask("document.querySelector('.stage').scrollWidth") <= width
        page.get_by_role("button", name="Next").focus()
        for _ in range(3):
            page.keyboard.press("PageDown")
        inside.locator("details.folded").wait_for()
        place.get_by_text("5 of 7", exact=True).wait_for()
        page.keyboard.press("ArrowRight")
        inside.locator("details.folded[open]").wait_for()
        assert page.evaluate("location.hash") == "#lesson=distillation&step=5"
        inside.locator("body").press("End")  # keys reach it from the frame, too
        place.get_by_text("7 of 7", exact=True).wait_for()
        inside.locator("body").press("Escape")
        page.locator("dialog.stage").wait_for(state="hidden")
        page.wait_for_function("() => location.hash === '#lesson=distillation'")
        page.locator(".result .instruments").wait_for()
        assert page.evaluate("document.activeElement.textContent") == "Teacher's mode"
        shared = visit(served, "/lessons#lesson=distillation&step=4", width, scheme).page
        shared.locator(".stage .bar [role=status]").get_by_text("5 of 7", exact=True).wait_for(timeout=30_000)
        assert opened.complaints == [] and opened.requests == []
