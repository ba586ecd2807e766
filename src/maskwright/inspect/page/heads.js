// Head functions: known patterns, word to word, and attention changes between two texts.

const SHOWN_HEADS = 6;

function heads(reading, map, panel) {
  panel.append(h("section", {}, h("h3", {}, "Known patterns"),
    map.patterns.length
      ? h("div", { class: "wide" }, h("table", {},
        h("thead", {}, h("tr", {}, ["pattern", "top heads", "even"].map((name, i) => h("th", { scope: "col", class: i === 2 ? "number" : null }, name)))),
        h("tbody", {}, map.patterns.map((one) => h("tr", {},
          h("th", { scope: "row" }, `${SIGNS[one.pattern] || ""} ${one.pattern}`, h("span", { class: "tag" }, one.meaning)),
          h("td", {}, ranked(map, one.scores)),
          h("td", { class: "number" }, percent(one.even)),
        )))))
      : h("p", { class: "note" }, "No known pattern applies to this text."),
    h("p", { class: "note" }, "The score is the mean fraction of attention that follows the pattern, over the query tokens to which it applies; “even” is the score of uniform attention."),
    button("Save CSV", () => saveCsv("heads.csv", patternRows(map)), { class: "quiet" })));
  panel.append(wordToWord(map));
}

function patternRows(map) {
  const rows = [["pattern", "layer", "head", "score", "even"]];
  for (const one of map.patterns) map.layers.forEach((layer, row) => map.heads.forEach((head, column) => rows.push([one.pattern, layer, head, one.scores[row][column], one.even])));
  return rows;
}

// The top heads of a table [layers][heads] as buttons that select them.
function ranked(map, scores, view = "lines") {
  const flat = scores.flat();
  return h("ul", { class: "ranked" }, best(flat, SHOWN_HEADS).map((place) => {
    const [row, column] = [Math.floor(place / map.heads.length), place % map.heads.length];
    return h("li", {}, headButton(map, row, column, percent(flat[place]), view));
  }));
}

// A head of a table of the whole model: selects it if the page has it.
function headOf(map, { layer, head }) {
  const [row, column] = [map.layers.indexOf(layer), map.heads.indexOf(head)];
  return row < 0 || column < 0 ? `${layer}·${head}` : headButton(map, row, column, "");
}

function headButton(map, row, column, text, view = "lines") {
  return h("button", { type: "button", class: "pick", onclick: () => change({ view, layer: row, heads: [column] }) },
    h("b", {}, `${map.layers[row]}·${map.heads[column]}`), text && ` ${text}`, h("span", { class: "unseen" }, ` (layer ${map.layers[row]}, head ${map.heads[column]})`));
}

function wordToWord(map) {
  const from = at(map).token;
  const to = at(map).key >= 0 ? at(map).key : Math.min(2, map.keys.labels.length - 1);
  const isSelf = map.kind !== "cross";
  const others = [...map.queries.labels.keys()].filter((query) => !(isSelf && query === to) && !(map.causal && query < to));
  const queries = from >= 0 || !others.length ? [Math.max(from, 0)] : others;
  const mean = (valueOf) => queries.reduce((sum, query) => sum + valueOf(query), 0) / queries.length;
  const scores = map.layers.map((_, row) => map.heads.map((_, column) => mean((query) => map.weights.get(row, column, query, to))));
  const even = mean((query) => 1 / (map.causal ? query + 1 : map.keys.labels.length));
  return h("section", {}, h("h3", {}, "From token to token"),
    h("div", { class: "fields" },
      tokenSelect(map.queries, "from", from, (index) => change({ token: index }), "all other tokens"),
      tokenSelect(map.keys, "to", to, (index) => change({ key: index }))),
    ranked(map, scores),
    headGrid(map, scores, Math.max(even, ...scores.flat())),
    h("p", { class: "note" }, `Each square is a head; uniform attention has ${percent(even)}.`));
}

// A square for each head, layers as rows.
function headGrid(map, scores, full, view = "lines") {
  const colors = theme();
  const box = h("div", { class: "squares" });
  box.style.setProperty("--heads", map.heads.length);
  map.layers.forEach((layer, row) => {
    box.append(h("span", { class: "layer" }, layer));
    map.heads.forEach((head, column) => {
      const one = h("button", { type: "button", class: "square", tabindex: -1, title: `layer ${layer}, head ${head}: ${percent(scores[row][column])}`, "aria-label": `layer ${layer}, head ${head}: ${percent(scores[row][column])}`, onclick: () => change({ view, layer: row, heads: [column] }) });
      one.style.background = css(shade(colors, scores[row][column] / full));
      box.append(one);
    });
  });
  return box;
}

// Attention changes between the two texts of the page.
function moved(panel) {
  const map = data.readings[0].maps[data.readings[0].maps.length - 1];
  const found = data.moves;
  panel.append(h("section", {}, h("h3", {}, found.word === null ? "Heads with the largest attention change between the two texts" : h("span", {}, "Heads whose attention of ", h("q", { dir: "auto" }, found.word), " changes most between the two texts")),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, ["head", "moved", "largest changes"].map((name, i) => h("th", { scope: "col", class: i === 1 ? "number" : null }, name)))),
      h("tbody", {}, found.heads.slice(0, 10).map((one) => h("tr", {},
        h("td", {}, headOf(map, one)),
        h("td", { class: "number" }, percent(one.distance)),
        h("td", {}, h("ul", { class: "shifts" }, one.shifts.filter((shift) => Math.abs(shift.after - shift.before) >= 0.005).map((shift) => h("li", {},
          h("span", { dir: "auto" }, shift.token), ` ${percent(shift.before)} → ${percent(shift.after)}`)))),
      ))))),
    h("p", { class: "note" }, "Change is the fraction of attention that differs (total variation): 0% for equal attention, 100% for no overlap."),
    button("Save CSV", () => saveCsv("moved.csv", [["layer", "head", "moved"], ...found.heads.map((one) => [one.layer, one.head, one.distance])]), { class: "quiet" })));
}

// Two models: alignment of layers, and similar heads.
function compared(panel) {
  const found = data.comparison;
  const [first, second] = data.readings;
  const map = first.maps[0];
  const names = (count) => ({ labels: Array.from({ length: count }, (_, i) => (i ? `layer ${i}` : "embeddings")), texts: new Array(count).fill(0), writes: [] });
  const rows = found.layers.map((row) => Float32Array.from(row));
  const heads = [...found.heads].sort((a, b) => b.nearest.distance - a.nearest.distance).slice(0, 8);
  panel.append(h("section", {}, h("h3", {}, "Similar layers"),
    heat(panel, { rows, down: names(rows.length), across: names(rows[0].length), name: "alignment of layers" }),
    h("p", { class: "note" }, `Linear centered kernel alignment over ${found.tokens} tokens: ${first.name} as rows, ${second.name} as columns. With few tokens it is high for any two models.`)),
  h("section", {}, h("h3", {}, "Heads without a similar head"),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, [`head of ${first.name}`, `nearest of ${second.name}`, "apart", "same number"].map((name, i) => h("th", { scope: "col", class: i > 1 ? "number" : null }, name)))),
      h("tbody", {}, heads.map((one) => h("tr", {},
        h("td", {}, headOf(map, one)),
        h("td", {}, `${one.nearest.layer}·${one.nearest.head}`),
        h("td", { class: "number" }, percent(one.nearest.distance)),
        h("td", { class: "number" }, one.same_place === undefined ? "" : percent(one.same_place))))))),
    button("Save CSV", () => saveCsv("partners.csv", [["layer", "head", "nearest layer", "nearest head", "apart"], ...found.heads.map((one) => [one.layer, one.head, one.nearest.layer, one.nearest.head, one.nearest.distance])]), { class: "quiet" })));
}
