// Lessons: the lectures' numbers and demonstrations, each computed when it is selected.

import { ask, live } from "../lib/ask.js";
import { make } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { keeping } from "../lib/lesson.js";
import { page } from "../lib/page.js";
import { writeState } from "../lib/state.js";

page(async ({ root }) => {
  let update = () => {};
  const { lessons } = await ask("/api/lessons");
  const form = new Form({ lesson: lessons[0].name, matrix: "", text: "", dim: "64" }, () => update());
  const list = make("nav", { class: "lessons", "aria-label": "Lessons" });
  const verdict = make("p", { class: "reading", role: "status" });
  const frame = make("iframe", { class: "lesson", title: "The lesson" });
  const kept = keeping();
  const inputs = make("details", { class: "own", hidden: true }, make("summary", { text: "Run it on your own numbers or text" }),
    form.line("text", "Words (any script)", { maxlength: 2000, placeholder: "Hi how are you" }),
    form.area("matrix", "Scores or weights, one row per line", { maxlength: 2000, rows: 4, placeholder: "27 10 12\n89 31 67\n31 91 54" }),
    form.number("dim", "Divide scores by the square root of", { min: 1, max: 65536 }));
  inputs.open = Boolean(form.state.matrix || form.state.text);
  const shown = make("div", { class: "result" }, inputs, verdict, kept, frame);
  const fit = () => {
    const inside = frame.contentDocument?.documentElement;
    if (inside) frame.style.height = `${Math.ceil(inside.getBoundingClientRect().height) + 4}px`;
  };
  frame.addEventListener("load", () => {
    fit();
    if (frame.contentDocument) kept.update(frame.contentDocument, form.state.lesson);
    frame.contentDocument?.addEventListener("toggle", fit, true);
  });
  new ResizeObserver(fit).observe(shown);

  let part = "";
  for (const lesson of lessons) {
    if (lesson.part !== part) list.append(make("h2", { text: (part = lesson.part) }), make("ul"));
    const link = make("a", { href: `#lesson=${encodeURIComponent(lesson.name)}`, text: lesson.title, title: `${lesson.lecture}, ${lesson.topic}`, "data-name": lesson.name });
    list.lastChild.append(make("li", {}, link));
  }
  root.append(make("div", { class: "beside" }, list, shown));

  update = live(async (signal) => {
    const chosen = lessons.find((one) => one.name === form.state.lesson) ?? lessons[0];
    for (const link of list.querySelectorAll("a")) {
      if (link.dataset.name !== chosen.name) link.removeAttribute("aria-current");
      else {
        link.setAttribute("aria-current", "true");
        bringIntoView(list, link);
      }
    }
    inputs.hidden = !chosen.accepts.length;
    verdict.textContent = "Computing …";
    const own = chosen.accepts.length ? { matrix: form.state.matrix, text: form.state.text, head_dim: Number(form.state.dim) || 64 } : {};
    const found = await ask("/api/lessons/run", { name: chosen.name, ...own }, signal).catch((error) => {
      verdict.textContent = "";
      throw error;
    });
    const holding = found.checks.filter((check) => check.ok).length;
    verdict.textContent = found.ok ? `All ${holding} checks pass, computed in ${found.seconds.toFixed(2)} s.` : `${found.checks.length - holding} of ${found.checks.length} checks fail. ${found.error ?? ""}`;
    frame.title = found.title;
    frame.contentWindow.location.replace(`/lesson/${encodeURIComponent(chosen.name)}?${Date.now()}`);
  }, shown);
  writeState(form.state);
  update();
});

/** Scroll the list, and not the page, until one of its links is visible. */
function bringIntoView(list, link) {
  const below = link.getBoundingClientRect().top - list.getBoundingClientRect().top;
  if (below < 0 || below > list.clientHeight - link.offsetHeight) list.scrollTop += below - list.clientHeight / 2;
}
