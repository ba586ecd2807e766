// Tag: entities of a text with their types, or a tag for every word.

import { ask, live, Missing } from "../lib/ask.js";
import { fixed, make, refill } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { examplesField, firstExample, modelField, page } from "../lib/page.js";
import { section, table } from "../lib/show.js";
import { marked, tints } from "../lib/spans.js";
import { writeState } from "../lib/state.js";
import { why, WHY } from "../lib/why.js";

const NAMES = { text: "text" };

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, ...firstExample(models, { text: "Ada Lovelace met Charles Babbage in London in June 1833 ." }, NAMES), word: "", ...WHY }, () => update());
  const reading = make("div", { "aria-live": "polite" });
  const found = table("Spans", [
    { name: "type", kind: "word" }, { name: "text" }, { name: "from", kind: "number" }, { name: "to", kind: "number" }, { name: "probability", kind: "number" },
  ], { file: "spans" });
  const words = table("Every word", [{ name: "word", kind: "word" }, { name: "tag", kind: "word" }, { name: "from", kind: "number" }, { name: "to", kind: "number" }], { file: "tags" });
  const which = form.choice("word", "Word to explain", [[form.state.word, form.state.word]]);
  const reasons = why(form, models, { field: which });
  const shown = make("div", { class: "result" }, reading, make("div", { class: "columns" }, found, words));
  root.append(section("Text", modelField(form, models), form.area("text", "Text"), examplesField(form, models, NAMES)), section("Found", shown), reasons);

  update = live(async (signal) => {
    const { model, text } = form.state;
    if (!text.trim()) reasons.update(null);
    if (!text.trim()) throw new Missing("The prediction appears here as soon as there is a text.");
    const { answer, spans, note } = await ask("/api/tag", { model, text }, signal);
    const entities = answer.entities ?? spans.map(([start, end], index) => ({ type: answer.tags[index], text: answer.tokens[index], start, end, score: answer.scores[index] }));
    const tint = tints(entities.map((one) => one.type));
    const drawn = entities.map((one) => ({ ...one, kind: one.type, tint: tint.get(one.type), hint: `${one.type}, ${fixed(one.score)}` }));
    refill(reading, marked(text, drawn, { large: true }), make("p", { class: "note", text: [entities.length ? "" : "No entities in this text.", note].join(" ").trim() }));
    found.update(entities.map((one) => [one.type, one.text, one.start, one.end, { text: fixed(one.score), value: one.score }]));
    words.update(spans.map(([start, end], index) => ({ cells: [answer.tokens[index], answer.tags[index], start, end], class: answer.tags[index] === "O" ? null : "chosen" })));
    reasons.update({ model, text, start: explained(form, answer, spans, entities) });
  }, shown);
  writeState(form.state);
  update();
});

/** The first character of the word to explain: the selected one, else the first of an entity. The words become options. */
function explained(form, answer, spans, entities) {
  const control = form.controls.word;
  refill(control, spans.map(([start], index) => make("option", { value: String(start), text: `${answer.tokens[index]}: ${answer.tags[index]}` })));
  const known = spans.some(([start]) => String(start) === form.state.word);
  const start = known ? Number(form.state.word) : (entities[0]?.start ?? spans[0][0]);
  control.value = String(start);
  return start;
}
