// Lessons: the lectures' numbers and demonstrations, each computed when it is selected or an input of it is changed.

import { ask, live } from "../lib/ask.js";
import { make } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { changedValues, defaultsOf, instruments } from "../lib/instruments.js";
import { keeping } from "../lib/lesson.js";
import { clearOpened, markOpened, openedLessons } from "../lib/opened.js";
import { page } from "../lib/page.js";
import { stage } from "../lib/stage.js";
import { declareState, forgetState, writeState } from "../lib/state.js";

page(async ({ root }) => {
  let update = () => {};
  const { lessons } = await ask("/api/lessons");
  const named = (name) => lessons.find((one) => one.name === name) ?? lessons[0];

  // The inputs of the selected lesson are part of the state, declared before the form reads a new address.
  let form = null;
  let declared = null; // the lesson
  const declare = () => {
    const wanted = named(new URLSearchParams(location.hash.slice(1)).get("lesson"));
    if (wanted === declared) return;
    const old = Object.keys(defaultsOf(declared?.inputs ?? []));
    forgetState(old);
    form?.forget(old);
    declareState(defaultsOf(wanted.inputs));
    declared = wanted;
  };
  declare();
  window.addEventListener("hashchange", declare);
  form = new Form({ lesson: lessons[0].name, find: "", step: "" }, (state, name) => {
    if (name === "find") filter();
    else if (name !== "step") update();
  });

  const find = form.line("find", "Search the lessons", { type: "search", maxlength: 200 });
  const count = make("p", { class: "note", role: "status" });
  const progress = make("p", { class: "note" });
  const clear = make("button", { type: "button", class: "quiet", text: "Clear progress", on: { click: () => { clearOpened(); mark(); form.controls.find.focus(); } } });
  const list = make("nav", { class: "lessons", "aria-label": "Lessons" });
  const verdict = make("p", { class: "reading", role: "status" });
  const frame = make("iframe", { class: "lesson", title: "The lesson" });
  const kept = keeping();
  const teach = make("button", { type: "button", text: "Teacher's mode", on: { click: () => fullScreen().then(() => openStage(0)) } });
  const box = make("div", { class: "sticky" });
  const shown = make("div", { class: "result" }, box, verdict, make("div", { class: "buttons" }, teach), kept, frame);
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
  const dialog = stage((step) => form.set("step", step === null ? "" : String(step)));

  let part = "";
  const texts = new Map(); // of each list item, for the search
  for (const lesson of lessons) {
    if (lesson.part !== part) list.append(make("section", {}, make("h2", { text: (part = lesson.part) }), make("ul")));
    const link = make("a", { href: `#lesson=${encodeURIComponent(lesson.name)}`, text: lesson.title, title: `${lesson.lecture}, ${lesson.topic}`, "data-name": lesson.name });
    const item = make("li", {}, link);
    texts.set(item, searched(lesson));
    list.lastChild.lastChild.append(item);
  }
  const links = [...list.querySelectorAll("a")];
  root.append(make("div", { class: "beside" }, make("div", { class: "choose-lesson" }, find, count, list, make("div", { class: "progress" }, progress, clear)), shown), dialog);

  const filter = () => {
    const words = form.state.find.toLowerCase().split(/\s+/).filter(Boolean);
    for (const [item, text] of texts) item.hidden = !words.every((word) => text.includes(word));
    for (const group of list.children) group.hidden = !group.querySelector("li:not([hidden])");
    const found = [...texts.keys()].filter((item) => !item.hidden).length;
    count.textContent = words.length ? `${found} of ${lessons.length} lessons found.` : "";
  };
  const mark = () => {
    const opened = openedLessons();
    for (const link of links) link.toggleAttribute("data-opened", opened.has(link.dataset.name));
    const number = links.filter((link) => link.hasAttribute("data-opened")).length;
    progress.textContent = `${number} of ${lessons.length} lessons opened.`;
    clear.hidden = !number;
  };

  let controls = null; // of the lesson `controlled`
  let controlled = null;
  let address = "about:blank";
  const openStage = (step) => dialog.start(step, address, controls);
  update = live(async (signal) => {
    const chosen = named(form.state.lesson);
    for (const link of links) {
      if (link.dataset.name !== chosen.name) link.removeAttribute("aria-current");
      else {
        link.setAttribute("aria-current", "true");
        bringIntoView(list, link);
      }
    }
    if (controlled !== chosen) {
      if (dialog.open) dialog.close();
      box.replaceChildren((controls = instruments(form, chosen.inputs)));
      controlled = chosen;
    }
    controls.sync();
    verdict.textContent = "Computing …";
    const found = await ask("/api/lessons/run", { name: chosen.name, values: changedValues(chosen.inputs, form.state) }, signal).catch((error) => {
      verdict.textContent = "";
      throw error;
    });
    verdict.textContent = told(found);
    frame.title = found.title;
    address = found.page;
    frame.contentWindow.location.replace(address);
    dialog.show(address, found.title);
    markOpened(chosen.name);
    mark();
    if (form.state.step && !dialog.open) openStage(Number(form.state.step) || 0);
  }, shown);
  writeState(form.state);
  filter();
  mark();
  update();
});

/** What the checks of a run say. */
function told({ checks, ok, is_own: isOwn, error, seconds }) {
  const valid = checks.filter((check) => check.slide);
  const failed = valid.filter((check) => !check.ok).length;
  if (!ok) return `${failed} of ${valid.length} checks fail. ${error ?? ""}`;
  const time = `computed in ${seconds.toFixed(2)} s`;
  if (isOwn) return `Your values, ${time}. The slide's numbers do not apply; ${valid.length} checks that hold for any value pass.`;
  return `All ${valid.length} checks pass, ${time}.`;
}

/** The words of a lesson that a search looks through. */
function searched({ name, title, part, lecture, topic, about, question, functions, inputs }) {
  return [name, title, part, lecture, topic, about, question, ...functions, ...inputs.map((input) => input.label)].join("\n").toLowerCase();
}

/** Ask for the whole screen; where that is not allowed, the window is used. */
async function fullScreen() {
  try {
    await document.documentElement.requestFullscreen();
  } catch {
    // teacher's mode fills the window
  }
}

/** Scroll the list, and not the page, until one of its links is visible. */
function bringIntoView(list, link) {
  const below = link.getBoundingClientRect().top - list.getBoundingClientRect().top;
  if (below < 0 || below > list.clientHeight - link.offsetHeight) list.scrollTop += below - list.clientHeight / 2;
}
