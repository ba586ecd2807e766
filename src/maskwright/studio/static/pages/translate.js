// Translate: each line as it is typed, with the runners-up and their scores.

import { ask, live } from "../lib/ask.js";
import { fixed, make, refill } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, text: "The river rose after the rain .", beams: "4", results: "3", penalty: "1", to: "" }, () => update());
  const reading = make("div", { "aria-live": "polite" });
  const all = table("All translations", [{ name: "text" }, { name: "place", kind: "number" }, { name: "translation" }, { name: "score", kind: "number" }, { name: "", kind: "word" }], { file: "translations" });
  const shown = make("div", { class: "result" }, reading, all);
  const language = form.line("to", "Language to write");
  language.hidden = true;
  root.append(
    section(
      "Text", modelField(form, models), form.area("text", "Texts, one a line"),
      make("div", { class: "fields few" }, form.number("beams", "Beams", { min: 1, max: 16 }), form.number("results", "Translations of each", { min: 1, max: 16 }), form.number("penalty", "Length penalty", { min: 0, max: 5, step: 0.1 }), language),
    ),
    section("Translation", shown),
  );

  update = live(async (signal) => {
    const texts = form.state.text.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, 50);
    if (!texts.length) return;
    const { model, beams, results, penalty, to } = form.state;
    const asked = { model, texts, beams: within(beams, 1, 16, 4), num_results: within(results, 1, 16, 3), length_penalty: Math.min(Math.max(Number(penalty) || 0, 0), 5), to };
    const found = await ask("/api/translate", asked, signal);
    language.hidden = !found.languages.length;
    refill(reading, found.texts.map((one) => make("p", { class: "reading large", dir: "auto", text: one.translations[0].text })));
    all.update(found.texts.flatMap((one) => one.translations.map((other, index) => ({
      cells: [index ? "" : one.text, index + 1, other.text, { text: fixed(other.score), value: other.score }, other.is_ended ? "" : "cut off"],
      class: index ? null : "chosen",
    }))));
  }, shown, 250);
  writeState(form.state);
  update();
});

const within = (text, least, most, otherwise) => (/^\d+$/.test(text) ? Math.min(Math.max(Number(text), least), most) : otherwise);
