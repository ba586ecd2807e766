// Runs: all runs of the folder, curves side by side, differences of settings and results.

import { ask, live, Missing } from "../lib/ask.js";
import { traces } from "../lib/charts/series.js";
import { make, refill } from "../lib/dom.js";
import { COMPARED, modelsOfRuns } from "../lib/checkpoints.js";
import { Form } from "../lib/form.js";
import { page } from "../lib/page.js";
import { chartOf, comparable, isTraining, measures, reportOf, shortNumber, stateOf, wordsOf } from "../lib/runs.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const MOST = 6;
const FIRST = 4; // compared at first
const EVERY_MS = 3000; // while a run trains
const UNITS = [["h", 3600, 7200], ["min", 60, 180], ["s", 1, 0]]; // of the time axis: name, seconds, used from

page(async ({ root }) => {
  let update = () => {};
  let { runs: listedRuns, folder } = await ask("/api/runs");
  const readable = () => listedRuns.filter((run) => !run.error);
  const first = readable().length ? comparable(readable(), FIRST).map((run) => run.name).join(",") : "";
  const form = new Form({ runs: first, measure: "", axis: "step", smooth: "yes", log: "no", ...COMPARED }, () => update());
  if (!listedRuns.length) {
    root.append(make("p", { class: "reading" }, "There are no runs in ", make("code", { text: folder }), " yet. The commands pretrain, finetune and distill, and the page Train, create runs."));
    return;
  }
  const list = listed((name) => toggle(name));
  list.show(listedRuns);
  const legend = make("ul", { class: "legend" });
  const drawn = picture("Curves", { file: "curves" });
  drawn.querySelector(".canvas").before(legend);
  const choice = form.choice("measure", "Curve", [[form.state.measure, wordsOf(form.state.measure)]]);
  const axis = form.choice("axis", "Horizontal axis", [["step", "steps"], ["time", "time"]]);
  const options = make("div", { class: "buttons" }, form.check("smooth", "Smooth long curves"), form.check("log", "Logarithmic axis"));
  const note = make("p", { class: "note" });
  const values = make("details", {}, make("summary", { text: "Values of the curves" }));
  const place = make("div");
  const shown = make("div", { class: "result" }, make("div", { class: "fields few" }, choice, axis), options, drawn, note, values, place);
  const models = modelsOfRuns(form);
  root.append(section(`${listedRuns.length} ${listedRuns.length === 1 ? "run" : "runs"} in ${folder}`, list), section("Side by side", shown), models);

  const chosen = () => form.state.runs.split(",").filter((name) => readable().some((run) => run.name === name)).slice(0, MOST);
  const toggle = (name) => {
    const names = chosen();
    const next = names.includes(name) ? names.filter((one) => one !== name) : [...names, name].slice(-MOST);
    form.set("runs", next.join(","));
  };

  update = live(async (signal) => {
    const names = chosen();
    if (!names.length) models.update([]);
    for (const box of list.querySelectorAll("input")) box.checked = names.includes(box.value);
    if (!names.length) throw new Missing("Select a run above to see its curves, results and settings.");
    const found = (await ask("/api/runs", { names }, signal)).runs;
    models.update(found);
    const known = measures(found);
    const measure = known.includes(form.state.measure) ? form.state.measure : (known[0] ?? "");
    refill(form.controls.measure, known.map((name) => make("option", { value: name, text: wordsOf(name) })));
    form.controls.measure.value = measure;
    drawn.hidden = !measure;
    values.hidden = note.hidden = !measure;
    const isLog = form.state.log === "yes";
    if (measure) {
      const { measured, dropped } = measuredOf(found, measure, form.state, isLog);
      const lines = traces(measured, isLog).filter((one) => one.xs.length);
      const [unit, seconds] = form.state.axis === "step" ? ["step", 1] : unitOf(lines);
      const scaled = ({ xs, ...rest }) => ({ ...rest, xs: xs.map((x) => x / seconds) });
      const series = lines.map((one) => ({ ...scaled(one), behind: one.behind.map(scaled) }));
      drawn.rename(`${wordsOf(measure)} over ${form.state.axis === "step" ? "steps" : "time"}`);
      drawn.update(chartOf(series, measure, { legend, unit, isLog }));
      note.textContent = [noteOf(lines), dropped && `${dropped} values that are not ${isLog ? "positive" : "finite"} are not drawn.`].filter(Boolean).join(" ");
      refill(values, values.firstChild, valuesOf(series, unit));
    }
    refill(place, make("div", { class: "columns" }, results(found), settings(found)));
  }, shown);
  writeState(form.state);
  update();

  setInterval(async () => {
    const wereTraining = listedRuns.filter(isTraining).map((run) => run.name);
    if (document.hidden || !wereTraining.length) return;
    try {
      listedRuns = (await ask("/api/runs")).runs;
    } catch {
      return; // the studio ended: the next input reports it
    }
    list.show(listedRuns, chosen());
    if (chosen().some((name) => wereTraining.includes(name))) update();
  }, EVERY_MS);
});

/** One series for each seed of each run, on the chosen axis, and how many values a logarithmic axis cannot have. */
function measuredOf(runs, measure, { axis, smooth }, isLog) {
  const isNumber = (value) => typeof value === "number";
  let dropped = 0;
  const measured = runs.flatMap((run, color) => Object.values(run.curves).map((records) => {
    const start = axis === "time" ? Math.min(...records.map((record) => record.time).filter(isNumber)) : 0;
    const all = records.filter((record) => isNumber(record[measure]) && isNumber(record[axis]));
    const kept = all.filter((record) => !isLog || record[measure] > 0);
    dropped += all.length - kept.length;
    return { name: run.name, color, smooth: smooth === "yes" ? undefined : false, xs: kept.map((record) => record[axis] - start), ys: kept.map((record) => record[measure]) };
  }));
  return { measured, dropped };
}

/** The unit of a time axis, and its seconds. */
function unitOf(lines) {
  const most = Math.max(0, ...lines.map((one) => one.xs.at(-1)));
  return UNITS.find(([, , from]) => most >= from);
}

/** What the thin lines are. */
function noteOf(lines) {
  const isMean = lines.some((one) => one.seeds > 1);
  const isSmooth = lines.some((one) => one.behind.length && one.seeds === 1);
  return [isSmooth && "Thin lines are the logged values.", isMean && "Thick lines are means over seeds, thin ones the seeds."].filter(Boolean).join(" ");
}

/** The drawn points as a table. */
function valuesOf(series, unit) {
  const made = table("Drawn values", [{ name: "run", kind: "word" }, { name: unit, kind: "number" }, { name: "value", kind: "number" }], { file: "curves" });
  const number = (value) => ({ text: shortNumber(value), value });
  made.update(series.flatMap((one) => one.xs.map((x, index) => [one.name, number(x), number(one.ys[index])])));
  return made;
}

/** All runs, each with a checkbox for the comparison; an unreadable folder shows its error. `show(runs, chosen)` fills it. */
function listed(toggle) {
  const columns = ["run", "task", "state", "result", "begun", "report"];
  const made = table("All runs", columns.map((name) => ({ name, kind: "word" })), { file: "runs" });
  made.show = (runs, chosen = []) => {
    const focused = made.contains(document.activeElement) ? document.activeElement.value : null;
    made.update(runs.map((run) => rowOf(run, toggle, chosen.includes(run.name))));
    if (focused) [...made.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
  };
  return made;
}

function rowOf(run, toggle, checked) {
  if (run.error) return [run.name, "", run.state, run.error, "", ""];
  const box = make("input", { type: "checkbox", value: run.name, checked, "aria-label": `Compare ${run.name}`, on: { change: () => toggle(run.name) } });
  const report = run.has_report && make("a", { href: reportOf(run.name), target: "_blank", rel: "noopener", text: "report" });
  const main = run.main ? `${wordsOf(run.main.name)} ${shortNumber(run.main.value)}` : "";
  const name = { text: run.name, node: make("label", { class: "check" }, box, run.name) };
  return [name, run.task, stateOf(run), main, run.started ?? "", { text: report ? reportOf(run.name) : "", node: report || "" }];
}

/** All results, a column for each run. */
function results(found) {
  const names = [...new Set(found.flatMap((run) => Object.keys(run.result)))].filter((name) => !name.startsWith("weights"));
  const made = table("Results", [{ name: "figure" }, ...found.map((run) => ({ name: run.name, kind: "number" }))], { file: "results" });
  made.update(names.map((name) => [wordsOf(name), ...found.map((run) => ({ text: shortNumber(run.result[name]), value: run.result[name] ?? null }))]));
  return made;
}

/** The settings that differ; for a single run, all settings. */
function settings(found) {
  const names = [...new Set(found.flatMap((run) => Object.keys(run.settings)))];
  const text = (run, name) => (run.settings[name] === undefined ? "–" : typeof run.settings[name] === "object" ? JSON.stringify(run.settings[name]) : String(run.settings[name]));
  const differing = found.length === 1 ? names : names.filter((name) => new Set(found.map((run) => text(run, name))).size > 1);
  const made = table(found.length === 1 ? "Settings" : "Settings that differ", [{ name: "setting", kind: "word" }, ...found.map((run) => ({ name: run.name, kind: "code" }))], { file: "settings" });
  made.classList.add("paths");  // the longest settings, which may wrap anywhere
  made.update(differing.map((name) => [name, ...found.map((run) => text(run, name))]));
  if (!differing.length) made.append(make("p", { class: "note", text: "The settings of all these runs are equal." }));
  return made;
}
