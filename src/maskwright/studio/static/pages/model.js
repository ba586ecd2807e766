// Model: blocks with shapes and FLOPs, the distribution of a parameter, differences to another model.

import { ask, live, Missing, Rejection } from "../lib/ask.js";
import { heat } from "../lib/charts/heat.js";
import { histogram } from "../lib/charts/histogram.js";
import { lines } from "../lib/charts/lines.js";
import { fixed, grouped, make, refill } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { picker, picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const EXAMPLE = "The animal didn't cross the street because it was too tired.";
const BASE = "(base)"; // the choice of what an adapter was trained on

page(({ root, models }) => {
  let update = () => {};
  let change = () => {};
  const form = new Form({ model: models[0].name, text: EXAMPLE, block: "", weight: "", other: "" }, (_, name) => {
    if (name === "model") Object.assign(form.state, { block: "", weight: "", other: "" });
    writeState(form.state);
    update();
  });
  const figures = make("dl", { class: "figures" });
  const flow = make("ol", { class: "flow" });
  const note = make("p", { class: "note" });
  const stats = make("dl", { class: "figures" });
  const spread = picture("Histogram", { file: "weights" });
  const singular = picture("Singular values", { file: "singular-values" });
  const summary = make("p", { class: "reading", "aria-live": "polite" });
  const matrix = picture("Relative change", { file: "changes" });
  const changes = table("Every weight", [{ name: "weight", kind: "code" }, { name: "shape", kind: "word" }, { name: "parameters", kind: "number" }, { name: "change", kind: "number" }], { file: "weights" });
  changes.classList.add("paths");
  const weightName = make("h3");
  const one = make("div", { class: "beside-flow" }, weightName, stats, spread, singular);
  const shown = make("div", { class: "result" }, figures, make("div", { class: "columns" }, make("div", {}, flow, note), one));
  const other = form.choice("other", "Compare with", [[form.state.other, form.state.other]]);
  const compared = make("div", { class: "result" }, summary, matrix, changes);
  root.append(
    section("Text", modelField(form, models), form.area("text", "Text that flows through the model")),
    section("Blocks", shown),
    section("What differs", make("div", { class: "fields few" }, other), compared),
  );

  update = live(async (signal) => {
    const { model, text } = form.state;
    if (!text.trim()) throw new Missing("The blocks appear here as soon as there is a text.");
    const found = await ask("/api/model", { model, text }, signal);
    const all = found.blocks.flatMap((block) => block.parts.flatMap((part) => part.weights));
    const first = found.blocks.find((block) => block.name.includes(".layers.")) ?? found.blocks[0];
    const open = found.blocks.some((block) => block.name === form.state.block) || form.state.block === "none" ? form.state.block : first.name;
    const chosen = all.some((weight) => weight.name === form.state.weight) ? form.state.weight : (found.blocks.find((block) => block.name === open) ?? first).parts.find((part) => part.weights.length).weights[0].name;
    const figure = (name, value) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }));
    refill(figures, figure("Parameters", short(found.parameters)), figure("Memory", `${(found.bytes / 1e6).toFixed(1)} MB`), figure("Tokens of the text", grouped(found.tokens.length)), found.counts_flops && figure("FLOPs of the text", short(found.flops)));
    drawFlow(found, open, chosen);
    note.textContent = `Shapes are tokens × size. Bars: parameters and FLOPs as fractions of the model.${found.counts_flops ? "" : " FLOPs inside recurrent kernels are not counted."} ${found.note}`;
    await showWeight(chosen, signal);
    offerOthers(found);
    change(found, all);
  }, shown);

  const differ = live(async (signal) => {
    const { model, other: named } = form.state;
    const { found, all } = latest;
    const known = await ask("/api/model/differences", { model, other: named === BASE ? "" : named }, signal);
    const rows = found.blocks.filter((block) => block.parts.some((part) => part.weights.some((weight) => weight.name in known.changes)));
    const worth = (part) => Math.max(...part.weights.map((weight) => known.changes[weight.name] ?? -1));
    const titles = [...new Set(rows.flatMap((block) => block.parts.filter((part) => worth(part) >= 0).map(titleOf)))];
    const cells = rows.map((block) => titles.map((title) => {
      const part = block.parts.find((candidate) => titleOf(candidate) === title);
      return part && worth(part) >= 0 ? worth(part) : null;
    }));
    const most = Math.max(...cells.flat().filter((value) => value !== null), 0);
    const changed = all.filter((weight) => known.changes[weight.name] > 0);
    const top = changed.reduce((best, weight) => (!best || known.changes[weight.name] > known.changes[best.name] ? weight : best), null);
    const base = named === BASE ? `its base, ${found.base}` : named;
    summary.textContent = changed.length
      ? `Compared with ${base}, ${grouped(changed.length)} of ${grouped(Object.keys(known.changes).length)} common weights differ, most of all ${top.name} (${percent(known.changes[top.name])}).${known.alone.length ? ` Only this model has ${known.alone.slice(0, 3).join(", ")}${known.alone.length > 3 ? " and others" : ""}.` : ""}`
      : `All ${grouped(Object.keys(known.changes).length)} common weights equal those of ${base}.`;
    matrix.hidden = !most;
    const pick = (row, column) => {
      const part = rows[row].parts.find((candidate) => titleOf(candidate) === titles[column]);
      if (!part) return;
      form.state.block = rows[row].name;
      form.set("weight", part.weights[0].name);
    };
    if (most) matrix.update(heat(rows.map((block) => block.title), titles, cells, { to: most, shown: (value) => percent(value, 0), name: `Relative change of each block: ${summary.textContent}`, square: false, onpick: pick }));
    listWeights(all, known.changes);
  }, compared);

  let latest = null;
  change = (found, all) => {
    const key = JSON.stringify([form.state.model, form.state.other]);
    const isNew = latest?.key !== key;
    latest = { found, all, key };
    if (form.state.other) {
      if (isNew) differ();
      return;
    }
    summary.textContent = "No other model of these sizes is loaded to compare with.";
    matrix.hidden = true;
    listWeights(all, {});
  };

  function listWeights(all, known) {
    changes.update(all.map((weight) => [{ text: weight.name, node: picker(weight.name, weight.name === form.state.weight, () => choose(weight.name)) }, weight.shape.join(" × "), { text: grouped(weight.size), value: weight.size }, { text: weight.name in known ? percent(known[weight.name]) : "–", value: known[weight.name] ?? null }]));
  }

  const choose = (name) => {
    const block = latest.found.blocks.find((candidate) => candidate.parts.some((part) => part.weights.some((weight) => weight.name === name)));
    form.state.block = block.name;
    form.set("weight", name);
  };

  /** The base of an adapter, and the loaded models with its sizes. */
  function offerOthers(found) {
    const own = models.find((model) => model.name === form.state.model);
    const others = models.filter((model) => model !== own && model.hidden === own.hidden && model.layers === own.layers).map((model) => [model.name, model.name]);
    const choices = [...(found.base ? [[BASE, `its base, ${found.base.split("/").at(-1)}`]] : []), ...others];
    refill(form.controls.other, choices.map(([value, text]) => make("option", { value, text })));
    if (!choices.some(([value]) => value === form.state.other)) form.state.other = choices[0]?.[0] ?? "";
    form.controls.other.value = form.state.other;
    form.controls.other.closest(".fields").hidden = !choices.length;
  }

  function drawFlow(found, open, chosen) {
    const focused = document.activeElement?.dataset?.key;
    refill(flow, found.blocks.map((block) => {
      const isOpen = block.name === open;
      const head = make("button", { type: "button", class: "block", "data-key": block.name, "aria-expanded": isOpen ? "true" : "false", on: { click: () => form.set("block", isOpen ? "none" : block.name) } },
        make("span", { class: "title", text: block.calls > 1 ? `${block.title} (used ${block.calls} times)` : block.title }),
        make("span", { class: "shape", text: shapeOf(block.output) }),
        gauge("parameters", block.parameters, found.parameters), found.counts_flops && gauge("FLOPs", block.flops, found.flops));
      const parts = isOpen && make("ol", { class: "parts" }, block.parts.map((part) => make("li", {},
        make("span", { class: "title", text: part.title }),
        make("span", { class: "shape", text: part.output.length ? `${shapeOf(part.input) || "IDs"} → ${shapeOf(part.output)}` : "not used for this text" }),
        make("span", { class: "own" }, part.weights.flatMap((weight) => [" ", picker(`${weight.name.slice(part.name.length + 1)} ${weight.shape.join(" × ")}`, weight.name === chosen, () => form.set("weight", weight.name), weight.name)])),
        found.counts_flops && make("span", { class: "note", text: part.flops ? `${short(part.flops)} FLOPs` : "" }),
      )));
      return make("li", {}, head, parts);
    }));
    if (focused) [...flow.querySelectorAll("button")].find((button) => button.dataset.key === focused)?.focus();
  }

  let shownWeight = "";
  async function showWeight(name, signal) {
    const key = JSON.stringify([form.state.model, name]);
    if (shownWeight === key) return;
    const found = await ask("/api/model/weight", { model: form.state.model, name }, signal);
    shownWeight = key;
    weightName.textContent = `${found.name}: ${found.shape.join(" × ")}`;
    const figure = (title, value) => make("div", {}, make("dt", { text: title }), make("dd", { text: value }));
    refill(stats, figure("Mean", number(found.mean)), figure("Deviation", number(found.deviation)), figure("Least", number(found.least)), figure("Most", number(found.most)), figure("Norm", number(found.norm)));
    const ending = found.name.split(".").slice(-2).join(".");
    spread.rename(`Histogram of ${ending}`);
    spread.update(histogram(found.edges, found.counts, { name: `Histogram of ${found.name}: mean ${number(found.mean)}, standard deviation ${number(found.deviation)}` }));
    singular.hidden = !found.singular.length;
    const rank = Math.min(...found.shape);
    if (found.singular.length) singular.update(lines([{ name: "singular value", xs: found.singular.map((_, index) => 1 + Math.round((index * (rank - 1)) / Math.max(found.singular.length - 1, 1))), ys: found.singular }], { unit: "rank", height: 180, name: `Singular values of ${found.name}, from ${number(found.singular[0])} to ${number(found.singular.at(-1))}` }));
  }

  writeState(form.state);
  update();
});

/** The name of a part in the matrix of changes: its last name, as titles such as "layer norm" occur twice in a layer. */
const titleOf = (part) => part.name.replace(/^.*?layers\.\d+\./, "").replace(/^encoder\.|^decoder\./, "");

const shapeOf = (shape) => shape.join(" × ");

const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)}%`;

const number = (value) => (Math.abs(value) >= 1e-3 || value === 0 ? fixed(value, Math.abs(value) >= 100 ? 0 : 3) : value.toExponential(1));

function short(value) {
  const [size, unit] = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([least]) => value >= least) ?? [1, ""];
  return `${size === 1 ? value : (value / size).toFixed(value / size >= 100 ? 0 : 1)}${unit && ` ${unit}`}`;
}

/** A bar of a fraction of the whole model. */
function gauge(what, value, all) {
  const inner = make("span");
  inner.style.width = `${(100 * value) / (all || 1)}%`;
  return make("span", { class: "gauge" }, make("span", { class: "share" }, inner), make("span", { text: `${percent(value / (all || 1))} of ${what}` }));
}
