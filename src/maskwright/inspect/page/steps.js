// One layer step by step: input, split into heads, attention, concatenation, W_O.

function steps(reading, map, panel) {
  const own = reading.steps;
  if (!own || !map.neurons || map.kind === "cross" || map.kind === "decoder") {
    panel.append(h("p", { class: "note" }, own ? "The steps are those of the encoder: select source to source above." : "Steps are only in pages of shorter texts with all heads, because of their size. Write the page with only a few layers."));
    return;
  }
  const { layer, heads } = at(map);
  const token = focus(map);
  const size = map.neurons.query.width;
  const count = own.inputs.width / size;
  const colors = theme();
  const width = Math.min((panel.clientWidth || 340) - 60, 860);
  const label = map.queries.labels[token];
  const weights = map.heads.map((_, head) => map.weights.row(layer, head, token));
  const joined = own.joined.row(layer, token);
  const all = (table) => map.heads.flatMap((_, head) => [...table.row(layer, head, token)]);
  const strip = (values, marked) => vectorStrip(values, width, colors, marked ? { size, heads: map.heads, chosen: heads } : null);
  const parts = [
    [strip(own.inputs.row(layer, token), false), `${own.inputs.width} dimensions of ${label}, the input of layer ${map.layers[layer]}.`],
    [h("div", { class: "three" }, ["q", "k", "v"].map((name, i) => h("div", {}, h("b", {}, name), strip(all([map.neurons.query, map.neurons.key, own.value][i]), true)))),
      `Three matrix products compute query, key and value, which are split into ${count} parts of ${size}, one for each head.`],
    [h("div", { class: "weightrows" }, weights.map((row, head) => h("div", { class: heads.includes(head) ? "on" : null }, h("span", {}, map.heads[head]), vectorStrip(row, width - 40, colors, null, 10, 1, `weights of head ${map.heads[head]}`)))),
      "Every head has its own weights for the tokens (a row each, a square for each token), and computes the weighted mean of their values."],
    [strip(joined, true), `The outputs of all heads, concatenated: ${joined.length} dimensions again.`],
    [strip(own.output.row(layer, token), false), "Another matrix product, W_O, mixes the heads. The result is added to the input."],
  ];
  const way = h("ol", { class: "way" }, own.formulas.map(([name, formula, axes], i) => h("li", {}, h("h3", {}, name, " ", h("code", {}, formula), " ", h("span", { class: "tag" }, axes)), parts[i][0], h("p", { class: "note" }, parts[i][1]))));
  panel.append(headChips(map, map.heads.length, colors),
    h("div", {}, way),
    h("p", { class: "note" }, "Blue is above 0, orange below; each strip is scaled to its largest value. The selected heads are underlined."),
    saves("steps", () => drawn(way.parentElement)));
}

// Numbers as a strip of cells; with heads, separated by head.
function vectorStrip(values, width, colors, pieces, height = 18, full = 0, label = null) {
  const most = full || Math.max(1e-9, ...Array.from(values, Math.abs));
  if (!pieces) return stripOf(Float32Array.from(values), most, width, colors, label || `${values.length} dimensions`, height);
  const each = Math.max(4, Math.floor((width - 3 * pieces.heads.length) / pieces.heads.length));
  return h("div", { class: "pieces" }, pieces.heads.map((head, i) => h("span", { class: pieces.chosen.includes(i) ? "on" : null, title: `head ${head}` },
    stripOf(Float32Array.from(values.slice(i * pieces.size, (i + 1) * pieces.size)), most, each, colors, `head ${head}`, height))));
}
