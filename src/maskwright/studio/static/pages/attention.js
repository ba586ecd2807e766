// Attention: one head as lines or as a matrix, all heads, the computation of a weight, head functions.

import { ask, live, Missing } from "../lib/ask.js";
import { heat } from "../lib/charts/heat.js";
import { headGrid, headLines } from "../lib/charts/heads.js";
import { neurons } from "../lib/charts/neurons.js";
import { fixed, make, refill, roving } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { matrixTable, picker, picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const EXAMPLE = "The animal didn't cross the street because it was too tired.";
const ITSELF = "self-attention";

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, text: EXAMPLE, pair: "", kind: "", layer: "", head: "", view: "lines", token: "" }, () => update());
  const kind = form.choice("kind", "Attention", [[form.state.kind, form.state.kind || ITSELF]]);
  const [layer, head] = [form.choice("layer", "Layer", numbered(form.state.layer)), form.choice("head", "Head", numbered(form.state.head))];
  const view = form.choice("view", "Show", [["lines", "lines between tokens"], ["matrix", "the matrix"], ["neurons", "query and key, elementwise"]]);
  const finding = make("p", { class: "finding" });
  const source = make("p", { class: "note" });
  const tokens = make("ol", { class: "pieces", "aria-label": "Tokens; arrow keys move among them, Enter selects one" });
  const legend = make("ul", { class: "legend" });
  const drawn = picture("One head", { file: "head" });
  const overview = picture("All heads; select one", { file: "heads" });
  const patterns = table("Head functions", [{ name: "pattern" }, { name: "tokens", kind: "number" }, { name: "best head", kind: "word" }, { name: "share", kind: "number" }, { name: "evenly", kind: "number" }, { name: "next best" }], { file: "patterns", scroll: false });
  const weights = matrixTable("Weights as a table", "weights");
  const both = make("div", {}, drawn, overview);
  const shown = make("div", { class: "result" }, finding, source, tokens, legend, both, weights, patterns);
  const second = make("details", { open: Boolean(form.state.pair) }, make("summary", { text: "With a second text (for a translation model: the target)" }), form.area("pair", "Second text"));
  root.append(
    section("Text", modelField(form, models), form.area("text", "Text"), second),
    section("Weights", make("div", { class: "fields" }, kind, layer, head, view), shown),
  );

  update = live(async (signal) => {
    const asked = { model: form.state.model, text: form.state.text, pair: form.state.pair || null, kind: form.state.kind, layer: Number(form.state.layer) || 0, head: Number(form.state.head) || 0, token: /^\d{1,4}$/.test(form.state.token) ? Number(form.state.token) : null };
    if (!asked.text.trim()) throw new Missing("The weights appear here as soon as there is a text.");
    const found = await ask("/api/attention", asked, signal);
    const token = asked.token !== null && asked.token < found.queries.length ? asked.token : -1;
    const isSelf = found.kind !== "cross";
    choicesOf(form, found);
    finding.textContent = found.finding;
    source.textContent = found.source + (found.is_given ? " " : " The model generated the target. ") + found.read;
    looking(tokens, found, token, form);
    const name = `Layer ${found.layer}, head ${found.head}`;
    drawn.rename(name);
    both.className = form.state.view === "lines" ? "columns" : "";
    const pick = (index) => form.set("token", index === token ? "" : String(index));
    if (form.state.view === "matrix") drawn.update(heat(found.queries, found.keys, found.weights, { name, chosen: token, onpick: pick }));
    else if (form.state.view === "lines") drawn.update(headLines(found.queries, found.keys, found.weights, { token, isSelf, onpick: pick, name }));
    else await elements(drawn, { ...asked, kind: found.kind, layer: found.layer, head: found.head, token: Math.max(token, 0) }, found, signal);
    refill(legend, token >= 0 && form.state.view === "lines" && ["from", "to"].slice(0, isSelf ? 2 : 1).map((side, color) => make("li", {}, make("span", { class: `key key${color}` }), `${side} “${found.queries[token]}”`)));
    weights.update(found.queries, found.keys, found.weights, `${name}: weights as a table`);
    const all = atob(found.all);
    const [rows, columns] = [found.queries.length, found.keys.length];
    const weightOf = (own, other, query, key) => all.charCodeAt(((own * found.heads + other) * rows + query) * columns + key);
    const choose = (own, other) => {
      form.state.head = String(other + 1);
      form.set("layer", String(own + 1));
    };
    overview.update(headGrid(found.layers, found.heads, rows, columns, weightOf, { chosen: [found.layer - 1, found.head - 1], onpick: choose }));
    patterns.update(found.patterns.map((one) => patternRow(one, found, choose)));
  }, shown);
  writeState(form.state);
  update();
});

const numbered = (value) => [[value, value]];

/** A pattern with its best heads; a click on a head selects it. */
function patternRow({ meaning, tokens, heads: [best, ...next] }, { layer, head: chosen }, choose) {
  const named = (one) => `${one.layer}·${one.head}`;
  const head = (one) => picker(named(one), one.layer === layer && one.head === chosen, () => choose(one.layer - 1, one.head - 1), `layer ${one.layer}, head ${one.head}`);
  const others = next.map((one) => [head(one), ` (${fixed(one.score, 2)}) `]);
  return [
    meaning, tokens, { text: named(best), node: head(best) }, { text: fixed(best.score, 2), value: best.score }, { text: fixed(best.even, 2), value: best.even },
    { text: next.map((one) => `${named(one)} (${fixed(one.score, 2)})`).join(", "), node: make("span", {}, others.flat()) },
  ];
}

/** The options of this model: kinds of attention, layers, heads. */
function choicesOf(form, found) {
  const refresh = (name, choices, value) => {
    const control = form.controls[name];
    if (control.options.length !== choices.length || [...control.options].some((option, index) => option.value !== choices[index][0])) {
      refill(control, choices.map(([own, text]) => make("option", { value: own, text })));
    }
    control.value = value;
    form.state[name] = value;
  };
  const count = (most) => Array.from({ length: most }, (_, index) => [String(index + 1), String(index + 1)]);
  refresh("layer", count(found.layers), String(found.layer));
  refresh("head", count(found.heads), String(found.head));
  refresh("kind", found.kinds.length > 1 ? found.kinds.map((one) => [one.kind, one.kind]) : [["", ITSELF]], found.kinds.length > 1 ? found.kind : "");
}

/** The tokens as buttons: one of them can be selected. */
function looking(list, found, token, form) {
  const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  const buttons = found.queries.map((text, index) => make("button", {
    type: "button", class: `piece ${index === token ? "tint0" : "special"}`, "aria-pressed": index === token ? "true" : "false", text,
    on: { click: () => form.set("token", index === token ? "" : String(index)) },
  }));
  refill(list, buttons.map((button) => make("li", {}, button)));
  roving(list, buttons);
  if (focused >= 0) buttons[focused]?.focus();
}

async function elements(drawn, asked, found, signal) {
  const own = await ask("/api/attention/neurons", asked, signal);
  drawn.rename(`Layer ${own.layer}, head ${own.head}: the query “${found.queries[own.token]}”`);
  drawn.update(neurons(own, found.queries[own.token]));
}
