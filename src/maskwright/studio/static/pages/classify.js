// Classify: the class, value or error of a text as it is typed, with the probability of every class.

import { ask, live, Missing } from "../lib/ask.js";
import { bars } from "../lib/charts/bars.js";
import { fixed, make, refill } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { examplesField, firstExample, modelField, page } from "../lib/page.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";
import { why, WHY } from "../lib/why.js";

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, ...firstExample(models, { text: "The water of the river was high after the rain.", pair: "" }), ...WHY }, () => update());
  const verdict = make("dl", { class: "figures", "aria-live": "polite" });
  const drawn = picture("Probabilities", { file: "classes" });
  const all = table("As a table", [{ name: "class" }, { name: "probability", kind: "number" }], { file: "classes" });
  const both = make("div", { class: "columns" }, drawn, all);
  const note = make("p", { class: "note" });
  const shown = make("div", { class: "result" }, verdict, note, both);
  const reasons = why(form, models);
  const second = make("details", { open: Boolean(form.state.pair) }, make("summary", { text: "With a second text" }), form.area("pair", "Second text"));
  root.append(section("Text", modelField(form, models), form.area("text", "Text"), examplesField(form, models), second), section("Answer", shown), reasons);

  update = live(async (signal) => {
    const { model, text, pair } = form.state;
    if (!text.trim()) reasons.update(null);
    if (!text.trim()) throw new Missing("The prediction appears here as soon as there is a text.");
    const { answer, note: told } = await ask("/api/classify", { model, text, pair: pair || null }, signal);
    refill(verdict, figuresOf(answer));
    note.textContent = told;
    both.hidden = !answer.probabilities;
    reasons.hidden = "is_rare" in answer; // an error of reconstruction has no reasons among the words
    if (!reasons.hidden) reasons.update({ model, text, pair: pair || null });
    if (!answer.probabilities) return;
    const chosen = new Set(answer.labels ?? [answer.label]);
    const rows = Object.entries(answer.probabilities).sort((one, other) => other[1] - one[1]);
    const drawing = rows.slice(0, 40).map(([label, value]) => ({ label, value, shown: fixed(value), strong: chosen.has(label) }));
    drawn.update(bars(drawing, { name: drawing.slice(0, 5).map((row) => `${row.label} ${row.shown}`).join(", ") }));
    all.update(rows.map(([label, value]) => ({ cells: [label, { text: fixed(value, 6), value }], class: chosen.has(label) ? "chosen" : null })));
  }, shown);
  writeState(form.state);
  update();
});

/** The prediction, by the kind of the task. */
function figuresOf(answer) {
  const figure = (name, value) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }));
  if (answer.labels) return [figure("Labels", answer.labels.join(", ") || "none")];
  if ("is_rare" in answer) {
    const verdict = answer.is_rare === null ? "no threshold yet" : answer.is_rare ? "an anomaly" : "normal";
    return [figure("This text is", verdict), figure("Error", fixed(answer.score)), figure("Threshold", fixed(answer.threshold))];
  }
  if (answer.label !== undefined) return [figure("Class", answer.label), figure("Probability", fixed(answer.score))];
  return [figure("Score", fixed(answer.score))];
}
