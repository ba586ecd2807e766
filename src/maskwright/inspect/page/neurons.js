// The computation of a weight: a query and each key, their elementwise products, the score, the softmax.

function neurons(reading, map, panel) {
  const head = at(map).heads[0];
  panel.append(headChips(map, map.heads.length, theme(), true));
  if (!map.neurons) {
    panel.append(h("p", { class: "note" }, "Queries and keys of all heads of this long text would make the page too large. Write the page with only a few layers or heads."));
    return;
  }
  const token = focus(map);
  const { query, key, position } = map.neurons;
  const size = query.width;
  const asked = query.row(at(map).layer, head, token);
  const weights = map.weights.row(at(map).layer, head, token);
  const scale = 1 / Math.sqrt(size);
  const seen = [...map.keys.labels.keys()].filter((index) => !(map.causal && index > token));
  const rows = seen.map((index) => {
    const own = key.row(at(map).layer, head, index);
    const product = own.map((value, i) => value * asked[i]);
    const added = position ? position.get(at(map).layer, head, token, index) : 0;
    return { index, own, product, added, score: product.reduce((sum, value) => sum + value, 0) * scale + added, weight: weights[index] };
  });
  const spread = (values) => Math.max(1e-9, ...values.map((value) => Math.abs(value)));
  const full = { key: spread([...asked, ...rows.flatMap((row) => [...row.own])]), product: spread(rows.flatMap((row) => [...row.product])) };
  const colors = theme();
  const strip = clamp(((panel.clientWidth || 340) - 300) / 2, 96, 4 * size);
  const table = h("table", { class: "neurons" },
    h("caption", { class: "unseen" }, `Query of ${map.queries.labels[token]} with every key`),
    h("thead", {}, h("tr", {}, ["key of", "k", "q × k", "score", "weight"].map((name, i) => h("th", { scope: "col", class: i > 2 ? "number" : null }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {},
      h("th", { scope: "row", dir: "auto", class: map.keys.texts[row.index] < 0 ? "special" : null }, cut(map.keys.labels[row.index], 16)),
      h("td", {}, stripOf(row.own, full.key, strip, colors, `key of ${map.keys.labels[row.index]}`)),
      h("td", {}, stripOf(row.product, full.product, strip, colors, `products with the key of ${map.keys.labels[row.index]}`)),
      h("td", { class: "number" }, signed(row.score)),
      h("td", { class: "number weight" }, barOf(row.weight), percent(row.weight)),
    ))));
  const shown = h("div", {},
    h("div", { class: "asked" }, h("b", { dir: "auto" }, map.queries.labels[token]),
      h("div", { class: "strip" }, stripOf(asked, full.key, Math.max(strip, 200), colors, "query", 18), h("span", { class: "note" }, `q: ${size} dimensions, ${signedRange(full.key)}`))),
    h("div", { class: "wide" }, table));
  panel.append(
    shown,
    h("p", { class: "note" }, `score = sum of q × k / √${size}${position ? " + relative position term" : ""}; weight = softmax of the scores over all keys${map.causal ? " that are not masked" : ""}. Blue is above 0, orange below.`),
    button("Save CSV", () => saveCsv("neurons.csv", [
      ["key of", "score", "weight", ...Array.from(asked, (_, i) => `k ${i + 1}`), ...Array.from(asked, (_, i) => `q × k ${i + 1}`)],
      ...rows.map((row) => [map.keys.labels[row.index], row.score, row.weight, ...row.own, ...row.product]),
    ]), { class: "quiet" }),
    saves("neurons", () => drawn(shown)),
  );
}

const signed = (value) => `${value < 0 ? "−" : "+"}${number(Math.abs(value), 2)}`;
const signedRange = (full) => `from −${number(full, 1)} to +${number(full, 1)}`;

function stripOf(values, full, width, colors, label, height = 14) {
  const picture = h("canvas", { width: values.length, height: 1, role: "img", "aria-label": label, class: "cells" });
  Object.assign(picture.style, { width: `${width}px`, height: `${height}px` });
  const context = picture.getContext("2d");
  const image = context.createImageData(values.length, 1);
  values.forEach((value, i) => image.data.set([...shade(colors, value / full), 255], 4 * i));
  context.putImageData(image, 0, 0);
  return picture;
}

function barOf(part) {
  const bar = h("i", {});
  bar.style.width = `${100 * clamp(part, 0, 1)}%`;
  return h("span", { class: "bar", "aria-hidden": "true" }, bar);
}
