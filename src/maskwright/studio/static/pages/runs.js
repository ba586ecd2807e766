// Runs: all runs of the folder, curves side by side, differences of settings and results.

import { ask, live, Missing } from "../lib/ask.js";
import { make, refill } from "../lib/dom.js";
import { COMPARED, modelsOfRuns } from "../lib/checkpoints.js";
import { Form } from "../lib/form.js";
import { page } from "../lib/page.js";
import { curveOf, measures, reportOf, shortNumber, wordsOf } from "../lib/runs.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const MOST = 6;

page(async ({ root }) => {
  let update = () => {};
  const { runs: listedRuns, folder } = await ask("/api/runs");
  const runs = listedRuns.filter((run) => !run.error);
  const form = new Form({ runs: runs.slice(0, 2).map((run) => run.name).join(","), measure: "", ...COMPARED }, () => update());
  if (!listedRuns.length) {
    root.append(make("p", { class: "reading" }, "There are no runs in ", make("code", { text: folder }), " yet. The commands pretrain, finetune and distill, and the page Train, create runs."));
    return;
  }
  const list = listed(listedRuns, (name) => toggle(name));
  const legend = make("ul", { class: "legend" });
  const drawn = picture("Curves", { file: "curves" });
  drawn.querySelector(".canvas").before(legend);
  const choice = form.choice("measure", "Curve", [[form.state.measure, wordsOf(form.state.measure)]]);
  const place = make("div");
  const shown = make("div", { class: "result" }, make("div", { class: "fields few" }, choice), drawn, place);
  const models = modelsOfRuns(form);
  root.append(section(`${listedRuns.length} ${listedRuns.length === 1 ? "run" : "runs"} in ${folder}`, list), section("Side by side", shown), models);

  const chosen = () => form.state.runs.split(",").filter((name) => runs.some((run) => run.name === name)).slice(0, MOST);
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
    drawn.rename(`${wordsOf(measure)} over steps`);
    if (measure) drawn.update(curveOf(found, measure, legend));
    refill(place, make("div", { class: "columns" }, results(found), settings(found)));
  }, shown);
  writeState(form.state);
  update();
});

/** All runs, each with a checkbox for the comparison; an unreadable folder shows its error. */
function listed(runs, toggle) {
  const columns = ["run", "task", "state", "result", "begun", "report"];
  const made = table("All runs", columns.map((name) => ({ name, kind: "word" })), { file: "runs" });
  made.update(runs.map((run) => {
    if (run.error) return [run.name, "", run.state, run.error, "", ""];
    const box = make("input", { type: "checkbox", value: run.name, "aria-label": `Compare ${run.name}`, on: { change: () => toggle(run.name) } });
    const report = run.has_report && make("a", { href: reportOf(run.name), target: "_blank", rel: "noopener", text: "report" });
    const main = run.main ? `${wordsOf(run.main.name)} ${shortNumber(run.main.value)}` : "";
    const name = { text: run.name, node: make("label", { class: "check" }, box, run.name) };
    return [name, run.task, run.state, main, run.started ?? "", { text: report ? reportOf(run.name) : "", node: report || "" }];
  }));
  return made;
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
