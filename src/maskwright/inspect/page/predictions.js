// Predictions at a position: the whole vocabulary, searchable, and predictions from each layer.

const SHOWN_GUESSES = 15;

function predictions(reading, map, panel) {
  const own = reading.predictions;
  if (!own) {
    panel.append(h("p", { class: "note" }, "No predictions: a masked language model predicts at each mask in the text, a causal language model after every token."));
    return;
  }
  const side = own.tokens;
  const place = own.places.includes(state.place) ? own.places.indexOf(state.place) : own.places.length - 1;
  const row = own.probabilities.row(place);
  if (!own.ranks) own.ranks = new Map();
  if (!own.ranks.has(place)) own.ranks.set(place, best(row, row.length));
  const order = own.ranks.get(place);
  const rank = new Uint32Array(row.length);
  order.forEach((id, i) => { rank[id] = i + 1; });
  const picker = h("select", { "aria-label": "place", "data-key": "place", onchange: () => change({ place: Number(picker.value) }) },
    own.places.map((index) => h("option", { value: index, selected: index === own.places[place] }, `${own.fills ? "" : "after "}${index + 1}  ${cut(side.labels[index], 24)}`)));
  const list = h("tbody", {});
  const said = h("p", { class: "note", "aria-live": "polite" });
  const show = () => {
    const wanted = state.part.toLowerCase();
    const found = wanted ? order.filter((id) => own.vocabulary[id].toLowerCase().includes(wanted)) : order;
    list.replaceChildren(...found.slice(0, wanted ? 60 : SHOWN_GUESSES).map((id) => h("tr", {},
      h("td", { class: "number" }, rank[id].toLocaleString("en")), h("th", { scope: "row", dir: "auto" }, own.vocabulary[id] || `id ${id}`),
      h("td", {}, barOf(row[id]), h("span", { class: "value" }, percent(row[id]))))));
    const sum = found.reduce((total, id) => total + row[id], 0);
    said.textContent = wanted ? `${found.length.toLocaleString("en")} of ${order.length.toLocaleString("en")} tokens contain “${state.part}”, ${percent(sum)} in total.` : `All ${order.length.toLocaleString("en")} tokens of the vocabulary can be searched.`;
  };
  const box = h("input", { type: "search", value: state.part, "aria-label": "search the vocabulary", placeholder: "search the vocabulary", "data-key": "search", oninput: () => { state.part = box.value; writeAddress(); show(); } });
  show();
  panel.append(h("section", {}, h("div", { class: "fields" }, h("label", { class: "field" }, h("span", {}, "place"), picker), box), said,
    h("div", { class: "wide" }, h("table", { class: "found" }, h("thead", {}, h("tr", {}, ["rank", "token", "probability"].map((name, i) => h("th", { scope: "col", class: i ? null : "number" }, name)))), list)),
    button("Save CSV", () => saveCsv("predictions.csv", [["rank", "token", "probability"], ...order.map((id, i) => [i + 1, own.vocabulary[id], row[id]])]), { class: "quiet" })));
  if (own.by_layer[place].length) panel.append(h("section", {}, h("h3", {}, "Predictions from each layer"),
    h("div", { class: "wide" }, h("table", { class: "by-layer" }, h("tbody", {}, own.by_layer[place].map((found, layer) => h("tr", {}, h("th", { scope: "row" }, layer === 0 ? "embeddings" : `layer ${layer}`),
      h("td", {}, h("ul", { class: "shifts" }, found.map(([token, part]) => h("li", {}, h("span", { dir: "auto" }, token), ` ${percent(part)}`))))))))),
    h("p", { class: "note" }, "The hidden states of each layer, through the head trained on the last one."),
    button("Save CSV", () => saveCsv("layers.csv", [["layer", "rank", "token", "probability"], ...own.by_layer[place].flatMap((found, layer) => found.map(([token, part], i) => [layer, i + 1, token, part]))]), { class: "quiet" })));
}
