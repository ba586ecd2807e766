// Generate: an editor with suggestions, and longer continuations with the selected decoding options.

import { ask, live, Rejection } from "../lib/ask.js";
import { fixed, make, refill, say } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

page(({ root, models }) => {
  let [update, changed] = [() => {}, () => {}];
  const form = new Form(
    { model: models[0].name, text: "Neurocomputing is", k: "3", length: "8", tokens: "40", how: "draw", temperature: "0.8", top_k: "40", seed: "0", written: "no" },
    (_, name) => {
      if (!name || ["model", "text", "k", "length"].includes(name)) update();
      if (!["k", "length", "written"].includes(name)) changed(name);
    },
  );
  const editor = form.area("text", "Text", { rows: 4, "aria-autocomplete": "list", "aria-controls": "suggestions" });
  root.append(section("Editor", modelField(form, models), editor, ...suggesting(form, (run) => (update = run))));
  root.append(writing(form, (onchange) => (changed = onchange)));
  writeState(form.state);
  update();
});

/** The list below the editor. Arrow keys select, Enter accepts, Escape cancels. */
function suggesting(form, ready) {
  const area = form.controls.text;
  const list = make("ul", { id: "suggestions", class: "suggestions", role: "listbox", "aria-label": "Suggestions" });
  const note = make("p", { class: "note" });
  const keys = make("p", { class: "note" }, make("kbd", { text: "↓" }), " ", make("kbd", { text: "↑" }), " select, ", make("kbd", { text: "Enter" }), " accepts the suggestion, ", make("kbd", { text: "Esc" }), " cancels.");
  const best = table("Suggestions with their scores", [{ name: "text", kind: "code" }, { name: "log probability", kind: "number" }, { name: "tokens", kind: "number" }], { file: "suggestions" });
  let [found, chosen, caret] = [[], -1, 0];

  const mark = (index) => {
    chosen = index;
    [...list.children].forEach((item, place) => item.setAttribute("aria-selected", place === index ? "true" : "false"));
    if (index >= 0) area.setAttribute("aria-activedescendant", `suggestion-${index}`);
    else area.removeAttribute("aria-activedescendant");
  };
  const close = () => {
    found = [];
    refill(list);
    mark(-1);
  };
  const take = (index) => {
    const text = form.state.text;
    const added = found[index].text;
    const here = caret + added.length;
    form.set("text", text.slice(0, caret) + added + text.slice(caret));
    area.focus();
    area.setSelectionRange(here, here);
    close();
  };
  const run = live(async (signal) => {
    const { model, text, k, length } = form.state;
    caret = document.activeElement === area ? area.selectionStart : text.length;
    const asked = { model, text: text.slice(0, caret), k: whole(k, 1, 10, 3), max_new_tokens: whole(length, 1, 32, 8) };
    const answer = await ask("/api/complete", asked, signal);
    found = answer.suggestions;
    note.textContent = answer.note;
    refill(list, found.map((one, index) => make("li", { id: `suggestion-${index}`, role: "option", on: { mousedown: (event) => { event.preventDefault(); take(index); } } }, one.text)));
    mark(found.length ? 0 : -1);
    best.update(found.map((one) => [one.text, { text: fixed(one.score, 3), value: one.score }, one.num_tokens]));
  }, list);

  area.addEventListener("keydown", (event) => {
    if (!found.length) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") mark((chosen + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length);
    else if (event.key === "Enter" && chosen >= 0 && !event.shiftKey) take(chosen);
    else if (event.key === "Escape") close();
    else return;
    event.preventDefault();
  });
  ready(run);
  const fields = make("div", { class: "fields few" }, form.number("k", "Suggestions", { min: 1, max: 10 }), form.number("length", "Suggestion length in tokens", { min: 1, max: 32 }));
  return [list, note, keys, make("details", {}, make("summary", { text: "Settings and scores" }), fields, best)];
}

/** Longer continuations, on request. */
function writing(form, ready) {
  const results = make("div", { class: "result", "aria-live": "polite" });
  const go = make("button", { type: "button", class: "main", text: "Generate" });
  const all = table("Continuations", [{ name: "text" }, { name: "log probability", kind: "number" }, { name: "tokens", kind: "number" }, { name: "ended by", kind: "word" }], { file: "continuations" });
  const write = async () => {
    const { model, text, tokens, how, temperature, top_k: most, seed } = form.state;
    const isDrawn = how === "draw";
    go.disabled = true;
    form.set("written", "yes"); // so that the address reproduces these texts
    try {
      const found = await ask("/api/generate", {
        model, text, max_new_tokens: whole(tokens, 1, 300, 40), temperature: isDrawn ? Math.max(Number(temperature) || 1, 0.01) : null,
        top_k: isDrawn && most ? whole(most, 1, 1e6, 40) : null, seed: whole(seed, 0, 2 ** 32 - 1, 0),
      });
      say("");
      refill(results, found.continuations.map((one) => make("p", { class: "reading continuation" }, make("span", { class: "given", text: one.prompt }), one.text)), all);
      all.update(found.continuations.map((one) => [one.text, { text: fixed(one.score, 2), value: one.score }, one.num_tokens, one.ended_by]));
    } catch (error) {
      if (!(error instanceof Rejection)) throw error;
      form.set("written", "no");
      say(error.message);
    } finally {
      results.classList.toggle("stale", form.state.written !== "yes");
      go.disabled = false;
    }
  };
  go.addEventListener("click", () => write().then(() => go.focus()));
  ready((name) => {
    if (form.state.written !== "yes") return;
    if (!name) return write(); // another address
    form.set("written", "no");
    results.classList.add("stale");
  });
  const fields = make(
    "div", { class: "fields" },
    form.choice("how", "Next token", [["draw", "sampled: three texts"], ["greedy", "greedy: the most probable"]]),
    form.number("tokens", "Maximum tokens", { min: 1, max: 300 }), form.number("temperature", "Temperature", { min: 0.01, max: 10, step: 0.1 }),
    form.number("top_k", "Top-k", { min: 1 }), form.number("seed", "Seed", { min: 0 }),
  );
  if (form.state.written === "yes") write();
  return section("Longer texts", fields, make("div", { class: "buttons" }, go), results);
}

const whole = (text, least, most, otherwise) => (/^\d+$/.test(text) ? Math.min(Math.max(Number(text), least), most) : otherwise);
