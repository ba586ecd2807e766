// Translate: each line as it is typed, with alternatives, scores, and the attention of each target word.

import { ask, live, Missing } from "../lib/ask.js";
import { heat } from "../lib/charts/heat.js";
import { fixed, make, refill } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { examplesField, firstExample, modelField, page } from "../lib/page.js";
import { matrixTable, picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const NAMES = { text: "text" };

page(({ root, models }) => {
  let [update, align, found] = [() => {}, () => {}, null];
  const defaults = { model: models[0].name, ...firstExample(models, { text: "The river rose after the rain ." }, NAMES), beams: "4", results: "3", penalty: "1", to: "", looks: "1.1" };
  const form = new Form(defaults, (_, name) => (name === "looks" ? align() : update()));
  const reading = make("div", { "aria-live": "polite" });
  const all = table("All translations", [{ name: "text" }, { name: "place", kind: "number" }, { name: "translation" }, { name: "score", kind: "number" }, { name: "", kind: "word" }], { file: "translations" });
  const note = make("p", { class: "note" });
  const shown = make("div", { class: "result" }, reading, note, all);
  const language = form.line("to", "Target language");
  language.hidden = !form.state.to;  // a language that the model rejects can be removed
  const looks = form.choice("looks", "Translation", [[form.state.looks, form.state.looks]]);
  const source = make("p", { class: "note" });
  const matrix = picture("Attention of each target word", { file: "alignment" });
  const weights = matrixTable("Alignment as a table", "alignment");
  const aligned = make("div", { class: "result" }, looks, source, matrix, weights);
  root.append(
    section(
      "Text", modelField(form, models), form.area("text", "Texts, one per line"), examplesField(form, models, NAMES),
      make("div", { class: "fields few" }, form.number("beams", "Beam size", { min: 1, max: 16 }), form.number("results", "Translations per text", { min: 1, max: 16 }), form.number("penalty", "Length penalty", { min: 0, max: 5, step: 0.1 }), language),
    ),
    section("Translation", shown),
    section("Alignment", aligned),
  );

  update = live(async (signal) => {
    const texts = form.state.text.split("\n").map((line) => line.trim()).filter(Boolean).slice(0, 50);
    if (!texts.length) {
      found = null;
      align();
      throw new Missing("The translation appears here as soon as there is a text.");
    }
    const { model, beams, results, penalty, to } = form.state;
    const asked = { model, texts, beams: within(beams, 1, 16, 4), num_results: within(results, 1, 16, 3), length_penalty: Math.min(Math.max(Number(penalty) || 0, 0), 5), to };
    const answer = await ask("/api/translate", asked, signal);
    found = { model, to, ...answer };
    language.hidden = !found.languages.length;
    note.textContent = found.note;
    refill(reading, found.texts.map((one) => make("p", { class: "reading large", dir: "auto", text: one.translations[0].text })));
    all.update(found.texts.flatMap((one) => one.translations.map((other, index) => ({
      cells: [index ? "" : one.text, index + 1, other.text, { text: fixed(other.score), value: other.score }, other.is_ended ? "" : "truncated"],
      class: index ? null : "chosen",
    }))));
    choices(form, found.texts);
    align();
  }, shown, 250);

  align = live(async (signal) => {
    if (!found) throw new Missing("The alignment appears here as soon as there is a translation.");
    looks.hidden = matrix.hidden = weights.hidden = found.unaligned !== null;
    if (found.unaligned) {
      source.textContent = found.unaligned;
      return;
    }
    const [line, rank] = form.state.looks.split(".").map((number) => Number(number) - 1);
    const { text, translations } = found.texts[line];
    const own = await ask("/api/translate/alignment", { model: found.model, text, translation: translations[rank].text, to: found.to }, signal);
    const cut = own.most ? ` The first ${own.most} words of each side are shown; a row's sum lacks the weights of the others.` : "";
    source.textContent = `Rows are target words, columns source words; a row sums to 1. ${own.source}${cut}`;
    matrix.update(heat(own.written, own.read, own.weights, { name: `Attention of each word of “${translations[rank].text}”` }));
    weights.update(own.written, own.read, own.weights);
  }, aligned);
  writeState(form.state);
  update();
});

/** Line and rank of every translation, to select one for the alignment. */
function choices(form, texts) {
  const all = texts.flatMap((one, line) => one.translations.map((other, index) => [`${line + 1}.${index + 1}`, `${line + 1}.${index + 1}  ${other.text}`]));
  refill(form.controls.looks, all.map(([value, text]) => make("option", { value, text })));
  form.state.looks = all.some(([value]) => value === form.state.looks) ? form.state.looks : "1.1";
  form.controls.looks.value = form.state.looks;
  writeState(form.state);
}

const within = (text, least, most, otherwise) => (/^\d+$/.test(text) ? Math.min(Math.max(Number(text), least), most) : otherwise);
