// What differs between the two texts or models of the page, drawn above both: second minus first.

const SHOWN_DIFFERENCES = 14;
const DIFFERENCES = { overview: headsApart, matrix: weightsApart, layers: statesApart, predictions: predictionsApart, attributions: attributionsApart };

function differ(name, panel) {
  const part = DIFFERENCES[name] && DIFFERENCES[name](panel);
  if (part) panel.append(h("div", { class: "moves" }, h("section", {}, part)));
}

// The tokens of the first text that have a partner in the second, as a side.
function partners(first, second) {
  const labels = data.aligned.map(([one, other]) => (first.labels[one] === second.labels[other] ? first.labels[one] : `${first.labels[one]} / ${second.labels[other]}`));
  return { labels, texts: data.aligned.map(([one]) => first.texts[one]), writes: [] };
}

// The two maps of the selected kind, if their heads and tokens have partners.
function mapsApart() {
  const [first, second] = data.readings.map((reading) => reading.maps[Math.min(state.kind, reading.maps.length - 1)]);
  const same = first.layers.join() === second.layers.join() && first.heads.join() === second.heads.join();
  return same && data.aligned.length && !["cross", "decoder"].includes(first.kind) ? [first, second] : null;
}

function headsApart() {
  const maps = mapsApart();
  if (!maps) return null;
  const [first, second] = maps;
  const lone = [0, 1].map((side) => maps[side].keys.labels.map((_, key) => key).filter((key) => !data.aligned.some((pair) => pair[side] === key)));
  const distance = (layer, head) => {
    let sum = 0;
    for (const [query, other] of data.aligned) {
      const [own, its] = [first.weights.row(layer, head, query), second.weights.row(layer, head, other)];
      for (const [key, partner] of data.aligned) sum += Math.abs(its[partner] - own[key]);
      for (const key of lone[0]) sum += own[key];
      for (const key of lone[1]) sum += its[key];
    }
    return sum / (2 * data.aligned.length);
  };
  const scores = first.layers.map((_, layer) => first.heads.map((_, head) => distance(layer, head)));
  const full = Math.max(1e-9, ...scores.flat());
  return [h("h3", {}, "How much each head differs"), ranked(first, scores, "matrix"), headGrid(first, scores, full, "matrix"),
    h("p", { class: "note" }, `The fraction of its attention that differs (total variation), mean over the tokens of both: at most ${percent(full)}. A square opens the difference of a head.`),
    button("Save CSV", () => saveCsv("heads-apart.csv", [["layer", "head", "differs"], ...first.layers.flatMap((layer, row) => first.heads.map((head, column) => [layer, head, scores[row][column]]))]), { class: "quiet" })];
}

function weightsApart(panel) {
  const maps = mapsApart();
  if (!maps) return null;
  const [first, second] = maps;
  const { layer, heads } = at(first);
  const side = partners(first.keys, second.keys);
  const rows = data.aligned.map(([query, other]) => {
    const [own, its] = [first.weights.row(layer, heads[0], query), second.weights.row(layer, heads[0], other)];
    return Float32Array.from(data.aligned, ([key, partner]) => its[partner] - own[key]);
  });
  const name = `difference of layer ${first.layers[layer]}, head ${first.heads[heads[0]]}`;
  return [h("h3", {}, "Difference of the weights"), h("p", { class: "note" }, `Blue: more attention in ${nameOfReading(1)}; orange: in ${nameOfReading(0)}.`), signedHeat(panel, rows, side, side, name)];
}

function statesApart(panel) {
  const [first, second] = data.readings.map((reading) => reading.states);
  if (!data.aligned.length || first.norms.shape[0] !== second.norms.shape[0]) return null;
  const steps = first.norms.shape[0] - 1;
  const rows = data.aligned.map(([token, other]) => Float32Array.from({ length: steps }, (_, step) => second.turns.get(step, other) - first.turns.get(step, token)));
  const across = { labels: Array.from({ length: steps }, (_, i) => `layer ${i + 1}`), texts: new Array(steps).fill(0), writes: [] };
  return [h("h3", {}, "Difference of the change of each token by layer"), signedHeat(panel, rows, partners(first.tokens, second.tokens), across, "difference of turns")];
}

function predictionsApart() {
  const [first, second] = data.readings.map((reading) => reading.predictions);
  if (!first || !second || first.vocabulary.length !== second.vocabulary.length || !first.vocabulary.every((token, id) => token === second.vocabulary[id])) return null;
  const place = Math.min(first.places.includes(state.place) ? first.places.indexOf(state.place) : first.places.length - 1, second.places.length - 1);
  const [own, its] = [first.probabilities.row(place), second.probabilities.row(place)];
  const order = best(own.map((value, id) => Math.abs(its[id] - value)), SHOWN_DIFFERENCES);
  return [h("h3", {}, "Difference of the predictions"), tableApart("token", order.map((id) => [first.vocabulary[id], own[id], its[id]]), "predictions-apart.csv")];
}

function attributionsApart() {
  const [first, second] = data.readings.map((reading) => reading.attributions);
  if (!first?.length || !second?.length || !data.aligned.length) return null;
  const own = first[shownAnswer(data.readings[0])];
  const its = second.find((one) => one.answer === own.answer);
  if (!its) return null;
  const side = partners(own.tokens, its.tokens);
  const rows = data.aligned.map(([token, other], i) => [side.labels[i], own.values[token], its.values[other]]);
  rows.sort((one, other) => Math.abs(other[2] - other[1]) - Math.abs(one[2] - one[1]));
  return [h("h3", {}, "Difference of the attributions to ", h("q", { dir: "auto" }, own.answer)), tableApart("token", rows.slice(0, SHOWN_DIFFERENCES), "attributions-apart.csv")];
}

const nameOfReading = (index) => (data.readings[0].name === data.readings[1].name ? ["the first text", "the second text"][index] : data.readings[index].name);

// rows: [name, first, second].
function tableApart(kind, rows, file) {
  const full = Math.max(1e-9, ...rows.map(([, own, its]) => Math.abs(its - own)));
  const heads = [kind, nameOfReading(0), nameOfReading(1), "difference"];
  return [h("div", { class: "wide" }, h("table", { class: "found" }, h("thead", {}, h("tr", {}, heads.map((name, i) => h("th", { scope: "col", class: i && i < 3 ? "number" : null }, name)))),
    h("tbody", {}, rows.map(([name, own, its]) => h("tr", {}, h("th", { scope: "row", dir: "auto" }, name), h("td", { class: "number" }, number(own)), h("td", { class: "number" }, number(its)),
      h("td", { class: its < own ? "other" : null }, barOf(Math.abs(its - own) / full), h("span", { class: "value" }, `${its < own ? "−" : "+"}${number(Math.abs(its - own))}`))))))),
  button("Save CSV", () => saveCsv(file, [heads, ...rows.map(([name, own, its]) => [name, own, its, its - own])]), { class: "quiet" })];
}

function signedHeat(panel, rows, down, across, name) {
  return heat(panel, { rows, down, across, name, isSigned: true, full: Math.max(1e-9, ...rows.map((row) => Math.max(...row.map(Math.abs)))) });
}
