// Layers: the change of each token's vector from layer to layer.

import { ask, live } from "../lib/ask.js";
import { closeScale, heat } from "../lib/charts/heat.js";
import { lines } from "../lib/charts/lines.js";
import { fixed, make, refill, roving } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const WHAT = {
  changes: ["Change by layer", "1 − cosine similarity to the previous layer: 0 if the layer keeps the direction of a token."],
  nearness: ["Similarity to one token", "Cosine similarity to the selected token in the same layer. Select the token above, or in the picture."],
  norms: ["Norm", "The norm of the vector after each layer."],
};

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, text: "He sat down on the bank of the river and opened an account at the bank.", what: "nearness", token: "6" }, () => update());
  const tokens = make("ol", { class: "pieces", "aria-label": "Tokens; arrow keys move among them, Enter selects one" });
  const about = make("p", { class: "note" });
  const matrix = picture("Layers and tokens", { file: "layers" });
  const curves = picture("Mean over tokens", { file: "layers-mean" });
  const shown = make("div", { class: "result" }, tokens, about, matrix, curves);
  const place = make("div");
  shown.append(place);
  root.append(
    section("Text", modelField(form, models), form.area("text", "Text"), make("div", { class: "fields few" }, form.choice("what", "Show", Object.entries(WHAT).map(([value, [name]]) => [value, name])))),
    section("Layer by layer", shown),
  );

  update = live(async (signal) => {
    const { model, text, what, token } = form.state;
    const found = await ask("/api/layers", { model, text, what, token: /^\d+$/.test(token) ? Number(token) : 0 }, signal);
    const isNear = what === "nearness";
    choices(tokens, found, form, isNear);
    about.textContent = `${WHAT[what][1]} ${found.read}`;
    const rows = found.layers.map((layer) => (layer ? `layer ${layer}` : "embeddings"));
    const flat = found.values.flat();
    const most = isNear ? 1 : Math.max(...flat);
    const low = Math.min(...flat);
    const from = low < -0.05 ? -1 : isNear ? closeScale(low) : 0;
    const name = isNear ? `Cosine similarity to ${found.tokens[found.token]} in every layer` : WHAT[what][0];
    matrix.rename(name);
    matrix.update(heat(rows.toReversed(), found.tokens, found.values.toReversed(), { from, to: most, name, square: false, onpick: (_, column) => isNear && form.set("token", String(column)) }));
    const mean = found.values.map((row) => row.reduce((sum, value) => sum + value, 0) / row.length);
    curves.update(lines([{ name: "mean", xs: found.layers, ys: mean }], { unit: "layer", height: 160, name: `${name}: mean over tokens` }));
    const columns = [{ name: "layer", kind: "number" }, ...found.tokens.map((one) => ({ name: one, kind: "number" }))];
    const own = table("As a table", columns, { file: "layers" });
    own.update(found.values.map((row, index) => [found.layers[index], ...row.map((value) => ({ text: fixed(value, 3), value }))]));
    refill(place, own);
  }, shown);
  writeState(form.state);
  update();
});

/** The tokens as buttons; the selected one is pressed. */
function choices(list, found, form, isNear) {
  const focused = [...list.querySelectorAll("button")].indexOf(document.activeElement);
  list.hidden = !isNear;
  const buttons = found.tokens.map((token, index) => make("button", {
    type: "button", class: `piece ${index === found.token ? "tint0" : "special"}`, "aria-pressed": index === found.token ? "true" : "false",
    text: token, on: { click: () => form.set("token", String(index)) },
  }));
  refill(list, buttons.map((button) => make("li", {}, button)));
  roving(list, buttons);
  if (focused >= 0) buttons[focused]?.focus();
}
