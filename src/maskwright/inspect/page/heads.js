// Heads by what they do: known patterns, from word to word, and which head moved between two texts.

const SHOWN_HEADS = 6;

function heads(reading, map, panel) {
  panel.append(h("section", {}, h("h3", {}, "Known patterns"),
    map.patterns.length
      ? h("div", { class: "wide" }, h("table", {},
        h("thead", {}, h("tr", {}, ["pattern", "heads that look there most", "even"].map((name, i) => h("th", { scope: "col", class: i === 2 ? "number" : null }, name)))),
        h("tbody", {}, map.patterns.map((one) => h("tr", {},
          h("th", { scope: "row" }, `${SIGNS[one.pattern] || ""} ${one.pattern}`, h("span", { class: "tag" }, one.meaning)),
          h("td", {}, ranked(map, one.scores)),
          h("td", { class: "number" }, percent(one.even)),
        )))))
      : h("p", { class: "note" }, "No known pattern speaks of this text."),
    h("p", { class: "note" }, "A number is the mean part of attention that goes there, over the tokens that the pattern speaks of; “even” is what a head would give that looks everywhere alike."),
    button("Save CSV", () => saveCsv("heads.csv", patternRows(map)), { class: "quiet" })));
  panel.append(wordToWord(map));
}

function patternRows(map) {
  const rows = [["pattern", "layer", "head", "score", "even"]];
  for (const one of map.patterns) map.layers.forEach((layer, row) => map.heads.forEach((head, column) => rows.push([one.pattern, layer, head, one.scores[row][column], one.even])));
  return rows;
}

// The best heads of a table [layers][heads] as buttons that show them.
function ranked(map, scores, view = "lines") {
  const flat = scores.flat();
  return h("ul", { class: "ranked" }, best(flat, SHOWN_HEADS).map((place) => {
    const [row, column] = [Math.floor(place / map.heads.length), place % map.heads.length];
    return h("li", {}, headButton(map, row, column, percent(flat[place]), view));
  }));
}

function headButton(map, row, column, text, view = "lines") {
  return h("button", { type: "button", class: "pick", onclick: () => change({ view, layer: row, heads: [column] }), "aria-label": `layer ${map.layers[row]}, head ${map.heads[column]}: ${text}` },
    h("b", {}, `${map.layers[row]}·${map.heads[column]}`), ` ${text}`);
}

function wordToWord(map) {
  const from = focus(map);
  const to = at(map).key >= 0 ? at(map).key : Math.min(2, map.keys.labels.length - 1);
  const scores = map.layers.map((_, row) => map.heads.map((_, column) => map.weights.get(row, column, from, to)));
  const even = 1 / (map.causal ? from + 1 : map.keys.labels.length);
  return h("section", {}, h("h3", {}, "From token to token"),
    h("div", { class: "fields" },
      tokenSelect(map.queries, "from", from, (index) => change({ token: index })),
      tokenSelect(map.keys, "to", to, (index) => change({ key: index }))),
    ranked(map, scores),
    headGrid(map, scores, Math.max(even, ...scores.flat())),
    h("p", { class: "note" }, `Each square is a head; even attention would give ${percent(even)}.`));
}

// A square for each head, layers down.
function headGrid(map, scores, full) {
  const colors = theme();
  const box = h("div", { class: "squares" });
  box.style.setProperty("--heads", map.heads.length);
  map.layers.forEach((layer, row) => {
    box.append(h("span", { class: "layer" }, layer));
    map.heads.forEach((head, column) => {
      const one = h("button", { type: "button", class: "square", tabindex: -1, title: `layer ${layer}, head ${head}: ${percent(scores[row][column])}`, "aria-label": `layer ${layer}, head ${head}: ${percent(scores[row][column])}`, onclick: () => change({ view: "lines", layer: row, heads: [column] }) });
      one.style.background = css(shade(colors, scores[row][column] / full));
      box.append(one);
    });
  });
  return box;
}

// Which heads moved between the two texts of the page.
function moved(panel) {
  const map = data.readings[0].maps[data.readings[0].maps.length - 1];
  const found = data.moves;
  panel.append(h("section", {}, h("h3", {}, found.word === null ? "Heads that move most between the two texts" : h("span", {}, "Heads whose attention of ", h("q", { dir: "auto" }, found.word), " moves most between the two texts")),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, ["head", "moved", "what gained and lost"].map((name, i) => h("th", { scope: "col", class: i === 1 ? "number" : null }, name)))),
      h("tbody", {}, found.heads.slice(0, 10).map((one) => h("tr", {},
        h("td", {}, headButton(map, map.layers.indexOf(one.layer), map.heads.indexOf(one.head), "")),
        h("td", { class: "number" }, percent(one.distance)),
        h("td", {}, h("ul", { class: "shifts" }, one.shifts.filter((shift) => Math.abs(shift.after - shift.before) >= 0.005).map((shift) => h("li", {},
          h("span", { dir: "auto" }, shift.token), ` ${percent(shift.before)} → ${percent(shift.after)}`)))),
      ))))),
    h("p", { class: "note" }, "Moved is the part of attention that went elsewhere (total variation): 0 % for the same attention, 100 % for none in common."),
    button("Save CSV", () => saveCsv("moved.csv", [["layer", "head", "moved"], ...found.heads.map((one) => [one.layer, one.head, one.distance])]), { class: "quiet" })));
}

// Two models: which layers hold the same, which heads look the same way.
function compared(panel) {
  const found = data.comparison;
  const [first, second] = data.readings;
  const map = first.maps[0];
  const names = (count) => ({ labels: Array.from({ length: count }, (_, i) => (i ? `layer ${i}` : "embeddings")), texts: new Array(count).fill(0), writes: [] });
  const rows = found.layers.map((row) => Float32Array.from(row));
  const heads = [...found.heads].sort((a, b) => b.nearest.distance - a.nearest.distance).slice(0, 8);
  panel.append(h("section", {}, h("h3", {}, "Layers that hold the same"),
    heat(panel, { rows, down: names(rows.length), across: names(rows[0].length), name: "alignment of layers" }),
    h("p", { class: "note" }, `Linear centered kernel alignment over ${found.tokens} tokens: ${first.name} down, ${second.name} across. With few tokens it is high for any two networks.`)),
  h("section", {}, h("h3", {}, "Heads that found no partner"),
    h("div", { class: "wide" }, h("table", {},
      h("thead", {}, h("tr", {}, [`head of ${first.name}`, `nearest of ${second.name}`, "apart", "same number"].map((name, i) => h("th", { scope: "col", class: i > 1 ? "number" : null }, name)))),
      h("tbody", {}, heads.map((one) => h("tr", {},
        h("td", {}, map.layers.includes(one.layer) && map.heads.includes(one.head) ? headButton(map, map.layers.indexOf(one.layer), map.heads.indexOf(one.head), "") : `${one.layer}·${one.head}`),
        h("td", {}, `${one.nearest.layer}·${one.nearest.head}`),
        h("td", { class: "number" }, percent(one.nearest.distance)),
        h("td", { class: "number" }, one.same_place === undefined ? "" : percent(one.same_place))))))),
    button("Save CSV", () => saveCsv("partners.csv", [["layer", "head", "nearest layer", "nearest head", "apart"], ...found.heads.map((one) => [one.layer, one.head, one.nearest.layer, one.nearest.head, one.nearest.distance])]), { class: "quiet" })));
}
