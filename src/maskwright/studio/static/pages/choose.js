// Choose: the most probable of several choices.

import { ask, live, Missing } from "../lib/ask.js";
import { bars } from "../lib/charts/bars.js";
import { fixed, make, refill } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, text: "Tom was hungry. He", question: "", choices: "ate an apple.\nslept.\nclosed the window." }, () => update());
  const chosen = make("p", { class: "reading large", "aria-live": "polite" });
  const drawn = picture("Probabilities", { file: "choices" });
  const all = table("As a table", [{ name: "choice" }, { name: "probability", kind: "number" }], { file: "choices" });
  const note = make("p", { class: "note" });
  const shown = make("div", { class: "result" }, chosen, note, make("div", { class: "columns" }, drawn, all));
  root.append(
    section("Text", modelField(form, models), form.area("text", "Context"), form.area("question", "Question (optional)"), form.area("choices", "Choices, one per line")),
    section("Choice", shown),
  );

  update = live(async (signal) => {
    const { model, text, question } = form.state;
    const choices = form.state.choices.split("\n").map((line) => line.trim()).filter(Boolean);
    if (!text.trim() || choices.length < 2) throw new Missing("The prediction appears here as soon as there are a context and two choices.");
    const { answer, note: told } = await ask("/api/choose", { model, text, question, choices }, signal);
    refill(chosen, `${text} `, make("mark", { text: answer.choice }));
    note.textContent = told;
    const rows = answer.choices.map((label, index) => ({ label, value: answer.probabilities[index], shown: fixed(answer.probabilities[index]), strong: index === answer.label }));
    drawn.update(bars(rows));
    all.update(rows.map((row) => ({ cells: [row.label, { text: fixed(row.value, 6), value: row.value }], class: row.strong ? "chosen" : null })));
  }, shown);
  writeState(form.state);
  update();
});
