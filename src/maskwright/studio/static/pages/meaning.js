// Meaning: similarity of one word in several sentences, or of whole sentences, as a matrix and as a map.

import { ask, live, Missing, Rejection } from "../lib/ask.js";
import { closeScale, heat } from "../lib/charts/heat.js";
import { scatter } from "../lib/charts/scatter.js";
import { fixed, make } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const SENTENCES = [
  "He sat down on the bank of the river.", "The boat was tied to the muddy bank.", "They walked along the grassy bank at dawn.",
  "She opened an account at the bank.", "The bank raised its interest rates.", "He robbed a bank in broad daylight.",
].join("\n");

page(({ root, models }) => {
  let update = () => {};
  const layersOf = () => models.find((model) => model.name === form.state.model)?.layers ?? 1;
  const form = new Form({ model: models[0].name, sentences: SENTENCES, word: "bank", layer: "last", table: "no", beside: "" }, (_, name) => {
    if (name === "model") {
      form.controls.layer.replaceChildren(...layerOptions(layersOf()));
      form.state.layer = form.controls.layer.value;
    }
    update();
  });
  const summary = make("p", { class: "reading", "aria-live": "polite" });
  const matrix = picture("Cosine similarities", { file: "similarity" });
  const map = picture("Map", { file: "map" });
  const note = make("p", { class: "note" });
  const difference = picture("Difference of the similarities", { file: "similarity-difference" });
  const all = table("Every pair", [{ name: "one", kind: "number" }, { name: "other", kind: "number" }, { name: "cosine", kind: "number" }, { name: "without context", kind: "number" }, { name: "texts" }], { file: "pairs" });
  const shown = make("div", { class: "result" }, summary, make("div", { class: "columns" }, matrix, make("div", {}, map, note)), difference, all);
  const layer = form.choice("layer", "Layer", layerChoices(layersOf()));
  root.append(
    section(
      "Texts", modelField(form, models), form.area("sentences", "Sentences, one per line", { rows: 6 }),
      make("div", { class: "fields few" }, form.line("word", "Word to compare", { placeholder: "empty: whole sentences" }), layer, form.choice("beside", "Compare with model", [["", "none"], ...models.map((model) => [model.name, model.name])])),
      form.check("table", "Show static word embeddings, without context"),
    ),
    section("Similarity", shown),
  );

  update = live(async (signal) => {
    const texts = form.state.sentences.split("\n").map((line) => line.trim()).filter(Boolean);
    if (!texts.length) throw new Missing("The similarities appear here as soon as there are sentences.");
    if (texts.length > 60) throw new Rejection("At most sixty sentences: the picture has no space for more.", {});
    const { model, word, layer: chosen } = form.state;
    const found = await ask("/api/meaning", { model, texts, word, layer: chosen === "last" ? null : Number(chosen) }, signal);
    const isStatic = form.state.table === "yes" && found.static_matrix;
    const values = isStatic ? found.static_matrix : found.matrix;
    const low = Math.min(...values.flat());
    const from = low < -0.05 ? -1 : closeScale(low);
    const names = found.places.map((place) => `${place.name}. ${around(place)}`);
    const short = found.places.map((place) => place.name);
    summary.textContent = [summarize(found), found.note].join(" ").trim();
    matrix.update(heat(names, short, values, { from, name: summary.textContent }));
    const points = found.plane.map(([x, y], index) => ({ x, y, label: names[index], hint: found.places[index].text }));
    map.update(scatter(points, { axes: found.shares.map((share, index) => `component ${index + 1}: ${(100 * share).toFixed(0)} % of the variance`), name: `Map of ${names.length} occurrences` }));
    note.textContent = "The first two principal components: points that are close in all dimensions are close here, but not vice versa.";
    all.update(pairs(found));
    await compare(difference, found, { model: form.state.beside, texts, word, layer: chosen === "last" ? null : Number(chosen) }, signal, { names, short, model });
  }, shown);
  writeState(form.state);
  update();
});

const layerChoices = (count) => [["last", `${count} (last)`], ...Array.from({ length: count }, (_, index) => [String(count - 1 - index), count - 1 - index ? String(count - 1 - index) : "0 (embeddings)"])];
const layerOptions = (count) => layerChoices(count).map(([value, text]) => make("option", { value, text }));

/** The similarities in another model, minus those of the first. */
async function compare(difference, found, asked, signal, { names, short, model }) {
  difference.hidden = !asked.model;
  if (!asked.model) return;
  const other = await ask("/api/meaning", asked, signal);
  const values = other.matrix.map((row, index) => row.map((value, place) => value - found.matrix[index][place]));
  const most = Math.max(0.01, ...values.flat().map(Math.abs));
  difference.rename(`Difference of the similarities: ${asked.model} minus ${model}`);
  difference.update(heat(names, short, values, { from: -most, to: most, shown: (value) => (Math.round(100 * value) / 100 || 0).toFixed(2), name: `Difference of the cosine similarities, ${asked.model} minus ${model}, at most ${fixed(most, 2)}` }));
}

/** Some words before and after an occurrence. */
function around(place) {
  if (place.start === undefined) return place.text;
  const letters = [...place.text];
  const before = letters.slice(0, place.start).join("").split(/\s+/).slice(-3).join(" ");
  const after = letters.slice(place.end).join("").split(/\s+/).slice(0, 3).join(" ");
  return `${before}[${letters.slice(place.start, place.end).join("")}]${after}`.trim();
}

function summarize(found) {
  const count = found.places.length;
  if (count < 2) return "Only one text: add another sentence for the comparison.";
  const list = found.matrix.flatMap((row, index) => row.slice(index + 1).map((value, other) => [value, index, index + 1 + other]));
  const near = list.reduce((best, one) => (one[0] > best[0] ? one : best));
  const far = list.reduce((best, one) => (one[0] < best[0] ? one : best));
  const name = (one) => `${found.places[one[1]].name} and ${found.places[one[2]].name} (${fixed(one[0], 2)})`;
  return `Most similar: ${name(near)}. Least similar: ${name(far)}.`;
}

const pairs = (found) => found.matrix.flatMap((row, index) =>
  row.slice(index + 1).map((value, step) => {
    const other = index + 1 + step;
    const without = found.static_matrix?.[index][other];
    return [found.places[index].name, found.places[other].name, { text: fixed(value), value }, { text: fixed(without), value: without ?? null }, `${found.places[index].text} | ${found.places[other].text}`];
  }),
);
