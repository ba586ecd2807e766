// Projector: a map of the texts of a file. Color by label or cluster, search, neighbors, lasso to a CSV.

import { ask, live, Missing, Rejection } from "../lib/ask.js";
import { cloud, styleOf } from "../lib/charts/cloud.js";
import { fixed, grouped, make, refill } from "../lib/dom.js";
import { chooser, refused } from "../lib/files.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { csvText, download } from "../lib/save.js";
import { button, picker, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const SHOWN_NAMES = 24;
const METHODS = { pca: "principal components (PCA)", umap: "UMAP" };

page(({ root, models }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, file: "", columns: "", skip: "no", method: "pca", dimensions: "2", color: "label", clusters: "", find: "", text: "", at: "" }, (_, name) => {
    if (["model", "file", "columns"].includes(name)) form.state.at = "";
    if (name !== "find") encircled = [];
    writeState(form.state);
    update();
  });
  const loaded = { key: "", texts: [], labels: [], lines: [], total: 0 };
  const known = new Map(); // answers to maps, clusters and neighbors of the loaded texts
  let encircled = [];
  const summary = make("p", { class: "reading", "aria-live": "polite" });
  const bar = make("progress", { max: 1, "aria-label": "Texts embedded", hidden: true });
  const origin = make("p", { class: "note" });
  const bad = make("div", { "aria-live": "polite" });
  const note = make("p", { class: "note" });
  const legend = make("ul", { class: "legend" });
  const drawn = cloud({
    name: "Map",
    onpick: (index) => form.set("at", form.state.at === String(index) ? "" : String(index)),
    onlasso: (indices) => {
      encircled = indices;
      update();
    },
  });
  const lasso = make("button", { type: "button", text: "Lasso", "aria-pressed": "false", on: { click: () => {
    drawn.isLasso = !drawn.isLasso;
    lasso.setAttribute("aria-pressed", drawn.isLasso ? "true" : "false");
  } } });
  const turns = [button("⟲", "Turn the map to the left", () => drawn.turn(-0.3)), button("⟳", "Turn the map to the right", () => drawn.turn(0.3))];
  const tools = make("div", { class: "buttons" }, lasso,
    button("+", "Zoom in", () => drawn.zoom(1.4)), button("−", "Zoom out", () => drawn.zoom(1 / 1.4)), ...turns, button("Reset", "Reset the view", () => drawn.reset()),
    button("PNG", "Save the map as PNG", async () => download("map.png", await drawn.png())), button("CSV", "Save the map as CSV", () => download("map.csv", csvText(...everything()), "text/csv")));
  const columns = [{ name: "line", kind: "number" }, { name: "text" }, { name: "label", kind: "word" }, { name: "cluster", kind: "number" }];
  const near = table("Nearest texts", [{ name: "cosine", kind: "number" }, ...columns], { file: "neighbors", scroll: false });
  const selection = table("Selected texts", columns, { file: "selection", most: 100 });
  const groups = table("Clusters", [{ name: "cluster", kind: "number" }, { name: "texts", kind: "number" }, { name: "silhouette", kind: "number" }, { name: "typical words" }, { name: "closest to the center" }], { file: "clusters", scroll: false });
  const shown = make("div", { class: "result" }, summary, legend, tools, drawn, note);
  const nothing = make("p", { class: "note", text: "Click a point for its nearest texts. Search, or draw a lasso, to list texts." });
  const lists = make("div", { class: "result" }, nothing, near, selection, groups);
  root.append(
    section(
      "Texts", modelField(form, models), make("div", { class: "fields top" }, chooser(form, "file", "File of texts", ".csv,.tsv,.jsonl,.txt")),
      make("details", { open: Boolean(form.state.columns) || form.state.skip === "yes" }, make("summary", { text: "Columns and bad rows" }), make("div", { class: "fields few" }, form.line("columns", "Column mapping", { placeholder: "text=body,label=kind" }), form.check("skip", "Skip bad rows"))),
      origin, bad, bar,
    ),
    section("Map",
      make("div", { class: "fields" }, form.choice("method", "Projection", Object.entries(METHODS)), form.choice("dimensions", "Dimensions", [["2", "2"], ["3", "3"]]), form.choice("color", "Color by", [["label", "label"], ["cluster", "cluster"]]), form.number("clusters", "Number of clusters", { min: 2, max: 50, placeholder: "automatic" }), form.line("find", "Search texts")),
      shown),
    section("Texts of the map", lists),
  );

  const asked = () => ({ model: form.state.model, file: form.state.file, columns: form.state.columns, skip_bad_rows: form.state.skip === "yes" });

  /** Embed the texts that are missing, part by part. */
  async function load(signal) {
    const key = JSON.stringify(asked());
    if (loaded.key !== key) {
      Object.assign(loaded, { key, texts: [], labels: [], lines: [], total: 0 });
      known.clear();
      encircled = [];
    }
    const begun = performance.now();
    const before = loaded.texts.length;
    while (!loaded.total || loaded.texts.length < loaded.total) {
      const part = await ask("/api/projector", { ...asked(), start: loaded.texts.length }, signal);
      if (loaded.key !== key) return;
      for (const name of ["texts", "labels", "lines"]) for (const value of part[name]) loaded[name].push(value);
      loaded.total = part.total;
      loaded.facts = part;
      const done = loaded.texts.length;
      bar.hidden = done >= loaded.total;
      bar.value = done / loaded.total;
      const seconds = ((performance.now() - begun) / 1000 / (done - before)) * (loaded.total - done);
      origin.textContent = bar.hidden ? (part.sample ? `The sample ${part.sample} of the package, as no file is selected. Files: .csv, .tsv, .jsonl or .txt, up to 50,000 texts.` : "") : `${grouped(done)} of ${grouped(loaded.total)} texts embedded, ${Math.ceil(seconds)} s left.`;
    }
    if (!loaded.facts.has_umap) {
      for (const option of form.controls.method.options) option.disabled = option.value === "umap";
      form.controls.method.title = "UMAP: pip install 'maskwright[umap]'";
    }
  }

  /** An answer about the loaded texts, asked for once. */
  async function once(path, more, signal) {
    const key = JSON.stringify([path, more]);
    if (!known.has(key)) known.set(key, await ask(path, { ...asked(), ...more }, signal));
    return known.get(key);
  }

  update = live(async (signal) => {
    refill(bad);
    try {
      await load(signal);
    } catch (error) {
      bar.hidden = lists.hidden = true;
      if (!(error instanceof Rejection)) throw error;
      refill(bad, refused(error));
      throw new Missing("The map appears here as soon as the file can be read.");
    }
    lists.hidden = false;
    const dimensions = Number(form.state.dimensions);
    const map = await once("/api/projector/map", { method: form.state.method, dimensions }, signal);
    const hasLabels = loaded.labels.some((label) => label);
    const byCluster = form.state.color === "cluster" || !hasLabels;
    const clusters = byCluster ? await once("/api/projector/clusters", { clusters: Number(form.state.clusters) || 0 }, signal) : null;
    const at = /^\d+$/.test(form.state.at) && Number(form.state.at) < loaded.total ? Number(form.state.at) : -1;
    const neighbors = at >= 0 ? (await once("/api/projector/neighbors", { index: at, count: 10 }, signal)).neighbors : [];
    display(map, dimensions, clusters, at, neighbors);
  }, shown);

  function display(map, dimensions, clusters, at, neighbors) {
    map.floats ??= new Float32Array(Uint8Array.from(atob(map.places), (letter) => letter.charCodeAt(0)).buffer);
    const labels = loaded.labels.map((label) => label ?? "");
    const names = clusters ? clusters.clusters.map((one) => `${one.cluster}: ${one.words.slice(0, 2).join(", ")}`) : [...new Set(labels)].sort();
    const numbers = clusters ? clusters.groups : labels.map(((places) => (label) => places.get(label))(new Map(names.map((label, index) => [label, index]))));
    const { find } = form.state;
    const isFound = find ? loaded.texts.map((text) => text.toLowerCase().includes(find.toLowerCase())) : null;
    const marked = encircled.length ? encircled : isFound ? [...isFound.keys()].filter((index) => isFound[index]) : [];
    for (const one of turns) one.hidden = dimensions === 2;
    form.controls.clusters.closest(".field").hidden = !clusters;
    summary.textContent = summarize(names, numbers, clusters, neighbors, at);
    drawn.update({
      places: map.floats, dimensions, groups: numbers, names, marked, picked: at, near: neighbors.map((one) => one.index),
      faded: (index) => Boolean(isFound && !isFound[index]), hint: (index) => `${names[numbers[index]]} · ${loaded.texts[index]}`, name: summary.textContent,
    });
    const counts = names.map(() => 0);
    for (const number of numbers) counts[number] += 1;
    refill(legend, names.slice(0, SHOWN_NAMES).map((name, index) => {
      const { color, shape } = styleOf(index);
      return make("li", {}, make("span", { class: `mark ${shape} key${color}` }), `${name || "no label"} (${grouped(counts[index])})`);
    }), names.length > SHOWN_NAMES && make("li", { text: `and ${grouped(names.length - SHOWN_NAMES)} more` }));
    note.textContent = [
      map.shares.length ? `Principal components: ${map.shares.map((share) => `${(100 * share).toFixed(0)}%`).join(", ")} of the variance. Points that are close here can be far apart in all dimensions.` : "UMAP keeps neighbors together; distances between groups have no meaning.",
      dimensions === 2 ? "Drag to move, turn the wheel to zoom, click a point for its neighbors; with Lasso or the shift key, drag around points to select them." : "Drag to turn, turn the wheel to zoom, click a point for its neighbors; with Lasso or the shift key, drag around points to select them.",
    ].join(" ");
    const cells = (index) => [loaded.lines[index], { text: loaded.texts[index], node: picker(loaded.texts[index], index === at, () => form.set("at", index === at ? "" : String(index))) }, labels[index], clusters ? numbers[index] + 1 : ""];
    near.hidden = at < 0;
    if (at >= 0) near.update([{ index: at, cosine: 1 }, ...neighbors].map((one) => ({ cells: [{ text: fixed(one.cosine, 3), value: one.cosine }, ...cells(one.index)], class: one.index === at ? "chosen" : null })));
    selection.hidden = !marked.length;
    selection.querySelector("h3").textContent = `${grouped(marked.length)} ${encircled.length ? "selected" : "found"} ${marked.length === 1 ? "text" : "texts"}`;
    if (marked.length) selection.update(marked.map(cells));
    groups.hidden = !clusters;
    nothing.hidden = at >= 0 || marked.length > 0;
    if (clusters) groups.update(clusters.clusters.map((one) => [one.cluster, one.size, { text: fixed(one.silhouette, 3), value: one.silhouette }, one.words.join(", "), one.nearest[0]]));
    current = { map, dimensions, numbers, clusters };
  }

  let current = null;
  function everything() {
    const { map, dimensions, numbers, clusters } = current;
    const axes = ["x", "y", "z"].slice(0, dimensions);
    const rows = loaded.texts.map((text, index) => [loaded.lines[index], ...axes.map((_, axis) => map.floats[index * dimensions + axis]), loaded.labels[index] ?? "", clusters ? numbers[index] + 1 : "", text]);
    return [["line", ...axes, "label", "cluster", "text"], rows];
  }

  function summarize(names, numbers, clusters, neighbors, at) {
    const what = clusters ? `${grouped(loaded.total)} texts in ${names.length} clusters (silhouette ${fixed(clusters.silhouette, 3)}).` : `${grouped(loaded.total)} texts with ${grouped(names.length)} labels.`;
    if (at < 0) return what;
    const same = neighbors.filter((one) => numbers[one.index] === numbers[at]).length;
    return `${what} ${same} of the ${neighbors.length} nearest texts of “${loaded.texts[at]}” have its ${clusters ? "cluster" : "label"}.`;
  }

  writeState(form.state);
  update();
});
