// Shared by the pages Runs and Train: the curves of runs, and their names.

import { lines } from "./charts/lines.js";
import { make, refill } from "./dom.js";

/** The names of all numbers in the logs of these runs, the most important first. */
export function measures(runs) {
  const found = new Set();
  for (const run of runs) for (const records of Object.values(run.curves)) for (const record of records) for (const [name, value] of Object.entries(record)) if (typeof value === "number") found.add(name);
  for (const dull of ["step", "time", "seed"]) found.delete(dull);
  const rank = (name) => (name === "loss" ? 0 : name === "eval_loss" ? 1 : name.startsWith("eval_") ? 2 : name.endsWith("_loss") ? 3 : 4);
  return [...found].sort((one, other) => rank(one) - rank(other) || one.localeCompare(other));
}

/** One series for each run, or for each seed of it. */
export function seriesOf(runs, measure) {
  return runs.flatMap((run, place) => Object.entries(run.curves).flatMap(([seed, records]) => {
    const own = records.filter((record) => Number.isFinite(record[measure]));
    if (!own.length) return [];
    const name = Object.keys(run.curves).length > 1 ? `${run.name}, ${seed}` : run.name;
    return [{ name, xs: own.map((record) => record.step), ys: own.map((record) => record[measure]), color: place }];
  }));
}

/** The chart of a metric. */
export const curveOf = (runs, measure) => chartOf(seriesOf(runs, measure), measure);

/** The chart of series, and a legend in `legend` if there are several. */
export function chartOf(series, measure, { legend = null, ...options } = {}) {
  if (legend) refill(legend, series.length > 1 ? series.map((one) => make("li", { dir: "auto" }, make("span", { class: `key key${one.color % 6}` }), `${one.name} (${shortNumber(one.ys.at(-1))})`)) : []);
  return lines(series, { name: `${wordsOf(measure)}: ${series.map((one) => `${one.name} ends at ${shortNumber(one.ys.at(-1))}`).join(", ")}`, ...options });
}

/** Whether a process trains this run now. */
export const isTraining = (run) => run.state === "running" || run.state === "training";

/** The state of a run, with its step. */
export function stateOf(run) {
  const step = typeof run.step === "number" ? `, step ${run.step.toLocaleString("en-US")}${run.steps ? ` of ${run.steps.toLocaleString("en-US")}` : ""}` : "";
  return `${isTraining(run) ? "training" : run.state}${step}`;
}

/** The newest run, and those before it of the same kind. */
export function comparable(runs, most) {
  const alike = (run) => run.kind === runs[0].kind && run.task === runs[0].task;
  return runs.filter(alike).slice(0, most);
}

/** eval_macro_f1 as dev macro f1. */
export const wordsOf = (measure) => measure.replace(/^eval_/, "dev ").replaceAll("_", " ");

/** Enough digits to compare. */
export const shortNumber = (value) => (value === null || value === undefined ? "–" : Number.isInteger(value) ? value.toLocaleString("en-US") : Math.abs(value) < 1e-3 ? value.toExponential(2) : value.toFixed(4));

/** The address of a run's report. */
export const reportOf = (name) => `/report/${name.split("/").map(encodeURIComponent).join("/")}`;
