"""How fast the studio is in a real browser: the first view of a page, and a page after a key.

    python benchmarks/studio.py [--model FOLDER] [--keys 40] [--json]

It starts a studio of the model and the system's Chromium, opens each page that shows text, waits until the first result
is drawn, then types into a text of 30 tokens and takes the time from each key to the frame that has the new result.
At the end it sends requests for tokens, layers and attention, and compares the memory of the process after all of them
with that after a tenth, when buffers have their size.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "recipes"), str(HERE.parent / "src")]

from commands import browser_program, minilm_folder  # noqa: E402

from maskwright.http.connections import listen  # noqa: E402
from maskwright.studio.guard import KEY, Keys  # noqa: E402
from maskwright.studio.model_registry import Studio, load_models  # noqa: E402
from maskwright.studio.pages import models_of, offered  # noqa: E402
from maskwright.studio.server import server_config  # noqa: E402

if TYPE_CHECKING:
    from playwright.sync_api import Page

FIRST_VIEW_SECONDS, KEY_SECONDS, MEMORY_GROWTH = 1.0, 0.150, 1.2
TYPED = ("tokens", "fill-mask", "classify", "tag", "answer", "generate", "meaning", "layers", "attention")
WORDS = "the water of the river was high after the rain and "

# Every key leaves the milliseconds between its event and the second frame after the result was put into the page.
LISTEN = """() => {
  window.took = [];
  let pressed = null;
  document.addEventListener("input", () => { pressed = performance.now(); }, true);
  document.addEventListener("settled", () => {
    if (pressed === null) return;
    const since = pressed;
    pressed = null;
    requestAnimationFrame(() => requestAnimationFrame(() => window.took.push(performance.now() - since)));
  });
}"""


@contextmanager
def serving(model: str, runs: Path) -> Iterator[tuple[Studio, str, Keys]]:
    """A studio in a thread: itself, its origin, its keys."""
    studio = Studio(load_models([model]), runs)
    listening = listen(0)
    port, keys = listening.getsockname()[1], Keys()
    server = uvicorn.Server(server_config(studio, port, keys))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield studio, f"http://127.0.0.1:{port}", keys
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


def text_of(studio: Studio, num_tokens: int) -> str:
    """Return words with about N tokens, including a mask if the model has one."""
    shelved = next(iter(studio.models.values()))
    mask = shelved.tokenizer.special_tokens.get("mask")
    words = ((f"the {mask} " if mask else "") + WORDS * num_tokens).split()
    while len(shelved.tokenizer(" ".join(words))) > num_tokens:
        words.pop()
    return " ".join(words)


def first_view(page: Page, address: str) -> float:
    """Seconds from asking for the page to the frame with its first result."""
    start = time.perf_counter()
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    page.wait_for_function("() => document.querySelector('main .result') && !document.querySelector('.busy')")
    return time.perf_counter() - start


def typing(page: Page, name: str, text: str, num_keys: int) -> list[float]:
    """Seconds from each key to its result."""
    label = "Sentences, one per line" if name == "meaning" else "Context" if name == "answer" else "Text"
    area = page.get_by_label(label, exact=True)
    area.fill(text)
    page.wait_for_timeout(500)
    page.evaluate(LISTEN)
    area.press("End")
    for number in range(num_keys):
        area.press_sequentially(" " if number % 6 == 5 else "abcde"[number % 5])
        page.wait_for_function("count => window.took.length > count", arg=number)
    return [took / 1000 for took in page.evaluate("window.took")]


def memory_after(page: Page, name: str, num_requests: int) -> dict[str, float]:
    """Resident memory in MiB after a tenth of the requests, and after all; texts of ever new lengths."""
    send = """async ([name, from, to]) => {
      for (let number = from; number < to; number += 1) {
        const text = "the water of the river ".repeat(1 + (number * 7) % 19);
        const path = ["/api/tokens", "/api/layers", "/api/attention"][number % 3];
        const headers = { "content-type": "application/json" };
        const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify({ model: name, text }) });
        if (!answer.ok) throw new Error(await answer.text());
        await answer.arrayBuffer();
      }
    }"""
    tenth = num_requests // 10
    page.evaluate(send, [name, 0, tenth])
    start = _resident()
    page.evaluate(send, [name, tenth, num_requests])
    return {"memory_start_mib": start, "memory_end_mib": _resident(), "requests": num_requests}


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1)


def main() -> int:
    """Measure, print, and report whether the goals are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model folder; default: MiniLM of the installed package")
    parser.add_argument("--keys", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=30)
    parser.add_argument("--requests", type=int, default=1000, help="for the memory; 0: do not measure it")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    program = browser_program()
    model = asked.model or minilm_folder()
    if model is None:
        sys.exit("error: The package that carries MiniLM is not installed: make .venv/.test installs it.")
    results: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(str(model), Path(folder)) as (studio, origin, keys),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        text = text_of(studio, asked.tokens)
        for shown in offered(studio):
            if shown.name not in TYPED or not models_of(shown, studio):
                continue
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(f"{origin}/static/style.css?{KEY}={keys.issue()}")
            first = first_view(page, f"{origin}/{shown.name}")
            own = sorted(typing(page, shown.name, text, asked.keys))
            results.append(
                {
                    "page": shown.name,
                    "first_view_seconds": round(first, 3),
                    "key_median_seconds": round(statistics.median(own), 4),
                    "key_95_seconds": round(own[int(0.95 * (len(own) - 1))], 4),
                }
            )
            page.close()
        memory: dict[str, float] = {}
        if asked.requests and Path("/proc/self/statm").exists():
            page = browser.new_page()
            page.goto(f"{origin}/static/style.css?{KEY}={keys.issue()}")
            memory = memory_after(page, next(iter(studio.models)), asked.requests)
        browser.close()
    _show(results, memory, asked.json)
    slow = [
        one for one in results if one["first_view_seconds"] > FIRST_VIEW_SECONDS or one["key_95_seconds"] > KEY_SECONDS
    ]
    has_grown = bool(memory) and memory["memory_end_mib"] > MEMORY_GROWTH * memory["memory_start_mib"]
    return 1 if slow or has_grown else 0


def _show(results: list[dict[str, Any]], memory: dict[str, float], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"pages": results, **memory}))
        return
    print(f"{'page':<12} {'first view':>10} {'key, median':>12} {'key, 95 %':>10}")
    for one in results:
        first, median, most = (one[name] for name in ("first_view_seconds", "key_median_seconds", "key_95_seconds"))
        print(f"{one['page']:<12} {first:>8.2f} s {1000 * median:>9.0f} ms {1000 * most:>7.0f} ms")
    if memory:
        start, end = memory["memory_start_mib"], memory["memory_end_mib"]
        print(f"memory after {memory['requests']:,.0f} requests: {end:,.0f} MiB, {end / start:.2f} of {start:,.0f} MiB")


if __name__ == "__main__":
    sys.exit(main())
