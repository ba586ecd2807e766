// Fill mask: predictions for a mask; a click on a word masks it.

import { ask, live, Rejection } from "../lib/ask.js";
import { fixed, grouped, make, refill, roving } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { bars } from "../lib/charts/bars.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";
import { why, WHY } from "../lib/why.js";

page(({ root, models }) => {
  const maskOf = () => models.find((model) => model.name === form.state.model)?.mask ?? "[MASK]";
  let update = () => {};
  const form = new Form({ model: models[0].name, text: `She drank a cup of ${models[0].mask} .`, top_k: "8", words: "", place: "0", ...WHY }, () => update());
  const words = make("ol", { class: "pieces", "aria-label": "Words; arrow keys move among them, Enter masks one or restores it" });
  const which = form.choice("place", "Mask to explain", [[form.state.place, ""]]);
  const reasons = why(form, models, { field: which });
  const shown = make("div", { class: "result" });
  const insert = make("button", { type: "button", text: "Insert a mask", on: { click: () => insertMask(form, maskOf()) } });
  const before = []; // the original words of the masks

  root.append(section(
    "Text with masks",
    modelField(form, models),
    form.area("text", "Text"),
    make("div", { class: "buttons" }, insert),
    make("p", { class: "note", text: "Or click a word to mask it:" }),
    words,
  ));
  root.append(section(
    "Predictions",
    make("div", { class: "fields few" }, form.number("top_k", "Predictions per mask", { min: 1, max: 1000 }), form.line("words", "Score these words", { placeholder: "clear cold deep" })),
    shown,
  ), reasons);

  const run = live(async (signal) => {
    const { model, text, top_k: count, words: asked } = form.state;
    if (!text.includes(maskOf())) {
      reasons.update(null);
      refill(shown, make("p", { class: "note", text: `The text has no mask: put ${maskOf()} in the place of the word to predict.` }));
      return;
    }
    if (!/^\d+$/.test(count) || Number(count) < 1 || Number(count) > 1000) throw new Rejection("Predictions per mask: a number from 1 to 1000.", {});
    const found = await ask("/api/fill-mask", { model, text, top_k: Number(count), words: asked.split(/\s+/).filter(Boolean) }, signal);
    refill(shown, filled(found), found.masks.map((mask, index) => gap(mask, index, found)));
    shown.dispatchEvent(new CustomEvent("drawn", { bubbles: true }));
    reasons.update({ model, text, place: maskNumber(form, which, found.masks.length) });
  }, shown);

  update = () => {
    clickable(words, form, maskOf(), before);
    run();
  };
  writeState(form.state);
  update();
});

/** The number of the mask to explain; with several, they become options. */
function maskNumber(form, field, count) {
  field.hidden = count < 2;
  refill(form.controls.place, Array.from({ length: count }, (_, index) => make("option", { value: String(index), text: `mask ${index + 1}` })));
  const place = Math.min(Number(form.state.place) || 0, count - 1);
  form.controls.place.value = String(place);
  return place;
}

function insertMask(form, mask) {
  const area = form.controls.text;
  const text = form.state.text;
  const here = area.selectionStart ?? text.length;
  const end = area.selectionEnd ?? here;
  form.set("text", text.slice(0, here) + mask + text.slice(end));
  area.focus();
  area.setSelectionRange(here + mask.length, here + mask.length);
}

/** The words of the text as buttons. A mask remembers its original word. */
function clickable(list, form, mask, before) {
  const parts = form.state.text.split(/(\s+)/);
  const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  const buttons = [];
  parts.forEach((part, index) => {
    if (!part.trim()) return;
    const isGap = part.includes(mask);
    const swap = () => {
      if (!isGap) before[index] = part;
      const bare = isGap ? (before[index] ?? "") : /^([^\p{L}\p{N}]*)(.*?)([^\p{L}\p{N}]*)$/u.exec(part).slice(1);
      const next = isGap ? bare : bare[1] ? `${bare[0]}${mask}${bare[2]}` : mask;
      if (!next) return;
      form.set("text", parts.toSpliced(index, 1, next).join(""));
    };
    buttons.push(make("button", { type: "button", class: `piece ${isGap ? "gap" : "special"}`, "aria-pressed": isGap ? "true" : "false", text: part, on: { click: swap } }));
  });
  refill(list, buttons.map((button) => make("li", {}, button)));
  roving(list, buttons);
  if (focused >= 0) buttons[focused]?.focus();
}

/** The text with the most probable token for each mask. */
function filled(found) {
  const letters = [...found.text];
  const parts = [];
  let end = 0;
  for (const mask of found.masks) {
    parts.push(letters.slice(end, mask.start).join(""), make("mark", { text: mask.predictions[0]?.token_str ?? "" }));
    end = mask.end;
  }
  parts.push(letters.slice(end).join(""));
  return make("p", { class: "reading large", "aria-label": "Filled text" }, parts);
}

function gap(mask, index, found) {
  const title = found.masks.length > 1 ? `Mask ${index + 1}` : "Most probable tokens";
  const drawn = picture(title, { file: `gap-${index + 1}` });
  const rows = mask.predictions.map((one, place) => ({ label: one.token_str, value: one.score, shown: fixed(one.score), strong: !place }));
  const columns = [{ name: "rank", kind: "number" }, { name: "token", kind: "code" }, { name: "probability", kind: "number" }, { name: "id", kind: "number" }, { name: "filled text" }];
  const cells = (one) => [one.rank, one.token_str, { text: fixed(one.score, 6), value: one.score }, one.token, one.sequence];
  const several = found.masks.length > 1;
  const all = table(several ? `${title} as a table` : "As a table", columns, { file: `gap-${index + 1}` });
  all.update(mask.predictions.map(cells));
  const block = make("div", { class: "columns" }, drawn, make("div", {}));
  if (mask.asked.length) {
    const own = table(`Your words${several ? ` for mask ${index + 1}` : ""}, among all ${grouped(found.vocabulary)} tokens`, columns, { file: `words-${index + 1}` });
    own.update(mask.asked.map(cells));
    block.lastChild.append(own);
  }
  block.lastChild.append(all);
  queueMicrotask(() => drawn.update(bars(rows.slice(0, 30), { name: `${title}: ${rows.slice(0, 5).map((row) => `${row.label} ${row.shown}`).join(", ")}` })));
  return block;
}
