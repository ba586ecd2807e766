// Data set: a labeled file with predictions. Slices, confusions, sortable rows, corrected labels.

import { ask, live, Missing, Rejection } from "../lib/ask.js";
import { heat } from "../lib/charts/heat.js";
import { fixed, grouped, make, refill, say } from "../lib/dom.js";
import { chooser, refused } from "../lib/files.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { download } from "../lib/save.js";
import { picker, picture, section, table } from "../lib/show.js";
import { confusion, corrected, partsBy, SLICES, tally, unitsOf } from "../lib/slices.js";
import { writeState } from "../lib/state.js";

const SHOWN_ROWS = 100;
const COLUMNS = [
  { name: "line", kind: "number", value: (row) => row.line },
  { name: "text", kind: "text", value: (row) => row.text },
  { name: "label", kind: "labels", value: goldText },
  { name: "prediction", kind: "labels", value: predictedText },
  { name: "probability", kind: "number", value: (row) => row.score },
  { name: "loss", kind: "number", value: (row) => (row.isFixed ? null : row.loss) },
  { name: "tokens", kind: "number", value: (row) => row.tokens },
];

page(({ root, models, studio }) => {
  let update = () => {};
  const form = new Form({ model: models[0].name, file: "", columns: "", skip: "no", show: "errors", slice: "label", part: "", gold: "", predicted: "", find: "", sort: "loss", down: "yes", fixes: "" }, (_, name) => {
    if (["model", "file"].includes(name)) for (const one of ["part", "gold", "predicted", "fixes"]) form.state[one] = "";
    if (name === "slice") form.state.part = "";
    writeState(form.state);
    update();
  });
  const loaded = { key: "", rows: [], total: 0, facts: {} };
  const summary = make("p", { class: "reading", "aria-live": "polite" });
  const bar = make("progress", { max: 1, "aria-label": "Rows predicted", hidden: true });
  const origin = make("p", { class: "note" });
  const bad = make("div", { "aria-live": "polite" });
  const slices = table("Slices", [{ name: "part", kind: "part" }, { name: "rows", kind: "number" }, { name: "right", kind: "number" }, { name: "fraction" }, { name: "mean loss", kind: "number" }], { file: "slices" });
  const matrix = picture("Confusion matrix", { file: "confusion" });
  const pairs = table("Confusions", [{ name: "label, prediction", kind: "part" }, { name: "count", kind: "number" }], { file: "confusions" });
  const filters = make("div", { class: "buttons", role: "group", "aria-label": "Filters" });
  const fixing = make("div", { class: "buttons" });
  const list = table("Rows", [...COLUMNS, { name: "open", kind: "word", isFixed: true }], { file: "predictions", scroll: false, most: SHOWN_ROWS, onsort: (index) => {
    const { name } = COLUMNS[index];
    form.state.down = form.state.sort === name && form.state.down === "yes" ? "no" : "yes";
    form.set("sort", name);
  } });
  const both = make("div", { class: "columns" }, make("div", {}, matrix), make("div", {}, make("div", { class: "fields few" }, form.choice("slice", "Slices by", Object.entries(SLICES))), slices, pairs));
  const shown = make("div", { class: "result" }, summary, both);
  const rowsPart = make("div", { class: "result" }, make("div", { class: "fields few" }, form.choice("show", "Show", [["errors", "errors"], ["all", "all rows"]]), form.line("find", "Text contains")), filters, fixing, list);
  root.append(
    section(
      "File", modelField(form, models), make("div", { class: "fields top" }, chooser(form, "file", "Labeled file")),
      make("details", { open: Boolean(form.state.columns) || form.state.skip === "yes" }, make("summary", { text: "Columns and bad rows" }), make("div", { class: "fields few" }, form.line("columns", "Column mapping", { placeholder: "text=body,label=kind" }), form.check("skip", "Skip bad rows"))),
      origin, bad, bar,
    ),
    section("Where it is right", shown),
    section("Rows", rowsPart),
  );

  /** Predict the rows that are missing, part by part. */
  async function load(signal) {
    const { model, file, columns, skip } = form.state;
    const asked = { model, file, columns, skip_bad_rows: skip === "yes" };
    const key = JSON.stringify(asked);
    if (loaded.key !== key) Object.assign(loaded, { key, rows: [], total: 0, facts: {} });
    while (!loaded.total || loaded.rows.length < loaded.total) {
      const part = await ask("/api/data", { ...asked, start: loaded.rows.length }, signal);
      if (loaded.key !== key) return;
      if (!part.total) {
        rowsPart.hidden = true;
        throw new Missing("The errors appear here as soon as there is a labeled file.");
      }
      loaded.rows.push(...part.rows);
      loaded.total = part.total;
      loaded.facts = part;
      bar.hidden = loaded.rows.length >= loaded.total;
      bar.value = loaded.rows.length / loaded.total;
      display();
    }
  }

  /** The cluster of every row, by the embeddings of the model: also computed part by part. */
  async function loadClusters(signal) {
    if (loaded.rows[0]?.cluster) return;
    const { model, file, columns, skip } = form.state;
    const rows = loaded.rows;
    for (let found = { groups: null }; !found.groups;) {
      found = await ask("/api/data/clusters", { model, file, columns, skip_bad_rows: skip === "yes" }, signal);
      bar.hidden = Boolean(found.groups);
      bar.value = found.done / rows.length;
      found.groups?.forEach((group, index) => (rows[index].cluster = found.names[group]));
    }
  }

  update = live(async (signal) => {
    refill(bad);
    try {
      await load(signal);
    } catch (error) {
      bar.hidden = true;
      if (!(error instanceof Rejection)) throw error; // a newer request, or no file
      refill(bad, refused(error));
      rowsPart.hidden = true;
      throw new Missing("The errors appear here as soon as the file can be read.");
    }
    if (form.state.slice === "cluster") {
      try {
        await loadClusters(signal);
      } catch (error) {
        if (!(error instanceof Rejection)) throw error;
        refill(bad, make("p", { class: "note", text: error.message })); // too few texts: everything else is shown
      }
    }
    display();
  }, shown);

  function display() {
    const { facts } = loaded;
    const fixes = readFixes(form.state.fixes);
    const rows = loaded.rows.map((row) => corrected(facts.numbers ? { ...row, predicted: fixed(row.score) } : row, fixes));
    rowsPart.hidden = false;
    origin.textContent = facts.sample ? `The sample ${facts.sample} of the package, as no file is selected. Files: .csv, .tsv, .jsonl or .conll.` : "";
    summary.textContent = summarize(rows, loaded);
    both.hidden = facts.numbers;
    const parts = partsBy(form.state.slice, rows);
    if (!facts.numbers) {
      showSlices(rows, parts);
      showConfusion(rows);
    }
    showRows(rows, parts, fixes);
  }

  function showSlices(rows, parts) {
    const { slice, part } = form.state;
    slices.update(tally(rows, parts).map((one) => [
      { text: one.name, node: picker(one.name, one.name === part, () => form.set("part", one.name === part ? "" : one.name)) },
      one.rows, { text: percent(one.right / one.units), value: one.right / one.units }, { text: "", node: share(one.right / one.units) }, { text: fixed(one.loss, 3), value: one.loss },
    ]));
    slices.querySelector("h3").textContent = `Slices by ${SLICES[slice]}`;
  }

  function showConfusion(rows) {
    const found = confusion(rows);
    matrix.hidden = pairs.hidden = !found.all.length;
    if (matrix.hidden) return;
    const choose = (gold, predicted) => {
      const isChosen = form.state.gold === gold && form.state.predicted === predicted;
      Object.assign(form.state, { gold: isChosen ? "" : gold, show: gold === predicted ? "all" : form.state.show });
      form.controls.show.value = form.state.show;
      form.set("predicted", isChosen ? "" : predicted);
    };
    const { labels, counts } = found;
    const shares = counts.map((row) => row.map((count) => (count ? count / row.reduce((sum, one) => sum + one, 0) : 0)));
    const worst = found.pairs[0];
    const name = worst ? `Label in rows, prediction in columns; most common error: ${worst.gold} predicted as ${worst.predicted}` : "Label in rows, prediction in columns; no errors";
    matrix.update(heat(labels, labels, shares, { name, shown: (value) => percent(value, 0), label: (row, column) => grouped(counts[row][column]), onpick: (row, column) => choose(labels[row], labels[column]) }));
    pairs.update(found.pairs.map((one) => {
      const text = `${one.gold} → ${one.predicted}`;
      return [{ text, node: picker(text, form.state.gold === one.gold && form.state.predicted === one.predicted, () => choose(one.gold, one.predicted)) }, one.count];
    }));
  }

  function showRows(rows, parts, fixes) {
    const { show, part, gold, predicted, find, sort, down } = form.state;
    const isIn = (row) => {
      if (show === "errors" && row.right && !row.isFixed) return false;
      if (part && !parts(row).some(([name]) => name === part)) return false;
      if ((gold || predicted) && !row.isFixed && !unitsOf(row).some((unit) => unit.gold === gold && unit.predicted === predicted)) return false;
      return !find || `${row.text} ${row.pair ?? ""}`.toLowerCase().includes(find.toLowerCase());
    };
    const chosen = Math.max(COLUMNS.findIndex((column) => column.name === sort), 0);
    const value = COLUMNS[chosen].value;
    const compare = (one, other) => (typeof value(one) === "string" ? value(one).localeCompare(value(other)) : (value(one) ?? -Infinity) - (value(other) ?? -Infinity));
    const kept = rows.filter(isIn).sort((one, other) => (down === "yes" ? compare(other, one) : compare(one, other)));
    list.order(chosen, down === "yes");
    list.querySelector("h3").textContent = `${grouped(kept.length)} of ${grouped(rows.length)} rows`;
    list.update(kept.map((row) => ({ cells: [...cellsOf(row), { text: "", node: links(row) }], class: row.isFixed ? "chosen" : null })));
    const clear = (text, names) => make("button", { type: "button", class: "quiet", text: `${text} ✕`, "aria-label": `Remove the filter ${text}`, on: { click: () => { for (const name of names) form.state[name] = ""; form.set(names[0], ""); } } });
    refill(filters, part && clear(`${SLICES[form.state.slice]}: ${part}`, ["part"]), (gold || predicted) && clear(`${gold} → ${predicted}`, ["gold", "predicted"]));
    filters.hidden = !filters.children.length;
    const count = Object.keys(fixes).length;
    refill(
      fixing,
      make("button", { type: "button", class: "main", text: count ? `Save the file with ${grouped(count)} corrected ${count === 1 ? "label" : "labels"}` : "Save the corrected file", disabled: !count, on: { click: () => saveFile(fixes) } }),
      count ? make("button", { type: "button", text: "Undo all", on: { click: () => form.set("fixes", "") } }) : make("span", { class: "note", text: "Click a label to correct it." }),
    );
  }

  function cellsOf(row) {
    const text = make("span", {}, make("span", { dir: "auto", text: row.text }), row.pair && make("span", { class: "pair", dir: "auto", text: row.pair }));
    return COLUMNS.map((column) => {
      const value = column.value(row);
      if (column.name === "text") return { text: row.pair ? `${row.text}\t${row.pair}` : row.text, node: text };
      if (column.name === "label") return { text: value, node: labelsOf(row) };
      if (column.name === "prediction") return { text: value, node: make("span", {}, unitsToShow(row).map(([, , predicted]) => make("span", { class: "pair", text: predicted }))) };
      return column.name === "loss" || column.name === "probability" ? { text: fixed(value, 3), value } : value;
    });
  }

  /** The label, or the labels of words that are wrong or corrected, as buttons that open a selection. */
  function labelsOf(row) {
    return make("span", {}, unitsToShow(row).map(([word, gold, , key]) => {
      const text = word === null ? gold : `${word}: ${gold}`;
      const button = make("button", { type: "button", class: "link", text, "aria-label": `Correct the label ${text} of line ${row.line}` });
      button.addEventListener("click", () => open(button, row, gold, key));
      return button;
    }));
  }

  function open(button, row, gold, key) {
    const keep = (label) => {
      const fixes = readFixes(form.state.fixes);
      const original = key.includes(":") ? originalOf(row.line).pairs[Number(key.split(":")[1])][0] : (originalOf(row.line).pairs[0]?.[0] ?? originalOf(row.line).gold);
      if (label === original) delete fixes[key];
      else fixes[key] = label;
      form.set("fixes", Object.keys(fixes).length ? JSON.stringify(fixes) : "");
    };
    const { labels, numbers } = loaded.facts;
    const name = `New label of line ${row.line}`;
    const isFree = numbers || !labels.includes(gold);
    const control = isFree
      ? make("input", { type: numbers ? "number" : "text", step: "any", value: gold, "aria-label": name, on: { change: (event) => keep(event.target.value) } })
      : make("select", { "aria-label": name, on: { change: (event) => keep(event.target.value) } }, labels.map((one) => make("option", { value: one, text: one })));
    control.value = gold;
    button.replaceWith(control);
    control.focus();
  }

  const originalOf = (line) => loaded.rows.find((row) => row.line === line);

  /** The other pages with the text of a row. */
  function links(row) {
    const state = new URLSearchParams({ model: form.state.model, text: row.text, ...(row.pair ? { pair: row.pair } : {}), why: "yes" });
    const targets = [["classify", "Why"], ["tag", "Why"], ["inspect", "Inspect"]].filter(([name]) => studio.pages[name]?.includes(form.state.model));
    return make("span", {}, targets.flatMap(([name, text], index) => [index ? " " : "", make("a", { href: `/${name}#${state}`, text, "aria-label": `${text}: line ${row.line}` })]));
  }

  async function saveFile(fixes) {
    const { model, file, columns, skip } = form.state;
    const labels = Object.entries(fixes).map(([key, label]) => {
      const [line, word] = key.split(":").map(Number);
      return { line, word: word ?? null, label };
    });
    const answer = await fetch("/api/data/corrected", { method: "POST", credentials: "same-origin", headers: { "content-type": "application/json" }, body: JSON.stringify({ model, file, columns, skip_bad_rows: skip === "yes", labels }) }).catch(() => null);
    if (!answer?.ok) return say(answer ? (await answer.json()).error : "The studio does not answer: is it still running?");
    const name = file || loaded.facts.sample;
    download(`corrected${/\.[^.]*$/.exec(name)?.[0] ?? ""}`, await answer.blob());
    say("");
  }

  writeState(form.state);
  update();
});

function readFixes(text) {
  try {
    const found = JSON.parse(text || "{}");
    return Object.fromEntries(Object.entries(found).filter(([key, label]) => /^\d+(:\d+)?$/.test(key) && typeof label === "string"));
  } catch {
    return {}; // an address that was edited by hand
  }
}

/** [word, gold, predicted, key] of what a row shows: its label, or of its words those that are wrong or corrected. */
function unitsToShow(row) {
  if (!row.words.length) return [[null, row.pairs[0]?.[0] ?? row.gold, row.pairs[0]?.[1] ?? row.predicted, String(row.line)]];
  const all = row.pairs.map(([gold, predicted], index) => [row.words[index], gold, predicted, `${row.line}:${index}`]);
  const wrong = all.filter(([, gold, predicted]) => gold !== predicted);
  return wrong.length ? wrong : all.filter(([, gold]) => gold !== "O").slice(0, 3);
}

function goldText(row) {
  return unitsToShow(row).map(([word, gold]) => (word === null ? gold : `${word}: ${gold}`)).join(", ");
}

function predictedText(row) {
  return unitsToShow(row).map(([, , predicted]) => predicted).join(", ");
}

function summarize(rows, { total, facts }) {
  const partly = rows.length < total ? ` of ${grouped(total)}` : "";
  if (facts.numbers) {
    const errors = rows.map((row) => Math.abs(Number(row.gold) - row.score));
    return `${grouped(rows.length)}${partly} rows; mean absolute error ${fixed(errors.reduce((sum, one) => sum + one, 0) / rows.length, 3)}.`;
  }
  const units = rows.flatMap(unitsOf);
  const right = units.filter((unit) => unit.right).length;
  const what = rows.some((row) => row.words.length) ? `words in ${grouped(rows.length)}${partly} sentences` : `${partly ? `predicted${partly} ` : ""}rows`;
  const worst = confusion(rows).pairs[0];
  const common = worst ? ` Most common error: ${worst.gold} predicted as ${worst.predicted} (${grouped(worst.count)}).` : "";
  return `${grouped(right)} of ${grouped(units.length)} ${what} are right (${percent(right / units.length)}).${common}`;
}

const percent = (value, digits = 1) => `${(100 * value).toFixed(digits)}%`;

function share(value) {
  const inner = make("span");
  inner.style.width = `${100 * value}%`;
  return make("span", { class: "share" }, inner);
}
