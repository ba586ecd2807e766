// Train: select and validate a file, fine-tune in a separate process, follow the curves.

import { ask, Rejection } from "../lib/ask.js";
import { grouped, make, refill, say } from "../lib/dom.js";
import { chooser, refused } from "../lib/files.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { curveOf, isTraining, measures, reportOf, shortNumber, stateOf, wordsOf } from "../lib/runs.js";
import { picture, section, table } from "../lib/show.js";
import { writeState } from "../lib/state.js";

const EVERY_MS = 1000;

page(async ({ root, models }) => {
  const { tasks, models: suited } = await ask("/api/train/form");
  const names = [...new Set(Object.values(tasks).flatMap((task) => task.settings.map((one) => one.name)))];
  const form = new Form(
    {
      ...Object.fromEntries(names.map((name) => [name, ""])),
      model: models[0].name, task: "", file: "", dev: "", columns: "", skip: "no", name: "", run: "",
    },
    (state, name) => changed(name),
  );
  const choices = () => (suited[form.state.model] ?? []).map((name) => [name, tasks[name].title]);
  const go = make("button", { type: "button", class: "main", text: "Start training", disabled: true, on: { click: () => begin(form, tasks, go) } });
  const [rows, checkRows] = checking(form, (isGood) => (go.disabled = !isGood));
  const [run, watch] = watching(form);
  const settings = make("div");
  const showSettings = () => refill(settings, settingFields(form, tasks[form.state.task]?.settings ?? []));

  function changed(name) {
    if (name === "model") {
      refill(form.controls.task, choices().map(([value, text]) => make("option", { value, text })));
      if (!choices().some(([value]) => value === form.state.task)) form.state.task = choices()[0]?.[0] ?? "";
      form.controls.task.value = form.state.task;
    }
    if (["model", "task", undefined].includes(name)) showSettings();
    if (["model", "task", "file", "columns", "skip", undefined].includes(name)) checkRows();
    if (name === "run" || name === undefined) watch();
  }

  root.append(
    section(
      "Data", modelField(form, models),
      make("div", { class: "fields top" }, form.choice("task", "Task", choices()), chooser(form, "file", "Labeled file"), chooser(form, "dev", "Dev file (default: 10% held out)")),
      make("details", { open: Boolean(form.state.columns) || form.state.skip === "yes" }, make("summary", { text: "Columns and bad rows" }), make("div", { class: "fields few" }, form.line("columns", "Column mapping", { placeholder: "text=body,label=kind" }), form.check("skip", "Skip bad rows"))),
      rows,
    ),
    section(
      "Training",
      make("div", { class: "fields" }, form.line("name", "Run name", { placeholder: "tickets-1" })),
      settings,
      make("div", { class: "buttons" }, go),
    ),
    run,
  );
  showSettings();
  writeState(form.state);
  checkRows();
  watch();
});

/** A control for each setting of a task: the common ones, then the others by panel. An empty control is the default. */
function settingFields(form, settings) {
  const panels = [...new Set(settings.map((one) => one.panel))];
  return panels.map((panel) => {
    const own = settings.filter((one) => one.panel === panel);
    const fields = make("div", { class: "fields" }, own.map((one) => settingField(form, one)));
    const isUsed = own.some((one) => form.state[one.name]);
    return panel ? make("details", { open: isUsed }, make("summary", { text: panel }), fields) : fields;
  });
}

function settingField(form, { name, label, help, kind, choices, minimum, maximum, default: usual }) {
  if (kind === "check") {
    const field = form.check(name, label);
    field.title = help;
    return field;
  }
  if (kind === "select") {
    const field = form.choice(name, label, [["", `default (${usual})`], ...choices.map((one) => [one, one])]);
    field.title = help;
    return field;
  }
  const options = { placeholder: usual, title: help };
  if (kind === "text" || kind === "numbers") return form.line(name, label, options);
  return form.number(name, label, { ...options, step: kind === "number" ? "any" : 1, min: minimum, max: maximum });
}

/** The value of a control as the setting's type; null leaves the default. */
function valueOf(text, { kind, choices }) {
  if (text === "" || (kind === "check" && text === "no")) return null;
  if (kind === "check" || (kind === "select" && choices.join() === "yes,no")) return text === "yes";
  if (kind === "numbers") return text.trim().split(/[\s,]+/).map(Number);
  return kind === "integer" || kind === "number" ? Number(text) : text;
}

/** A preview of the file, or all of its bad rows. */
function checking(form, settled) {
  const place = make("div", { class: "result", "aria-live": "polite" });
  let newest = 0;
  const check = async () => {
    const own = (newest += 1);
    settled(false);
    const { file, task, columns, skip } = form.state;
    if (!file) return refill(place);
    try {
      const found = await ask("/api/train/check", { file, task, columns, skip_bad_rows: skip === "yes" });
      if (own !== newest) return;
      refill(place, seen(found));
      settled(true);
    } catch (error) {
      if (!(error instanceof Rejection)) throw error;
      if (own === newest) refill(place, refused(error));
    }
  };
  return [place, check];
}

function seen(found) {
  const first = table("First rows", [{ name: "text" }, { name: "second text" }, { name: "label" }], { file: "rows", scroll: false });
  first.update(found.first);
  const skipped = found.skipped ? `, ${grouped(found.skipped)} bad rows skipped` : "";
  const labels = found.labels.length ? ` ${grouped(found.num_labels)} labels: ${found.labels.map(([label, count]) => `${label} ${grouped(count)}`).join(", ")}${found.num_labels > found.labels.length ? ", …" : ""}.` : "";
  return [make("p", { class: "reading", text: `${grouped(found.rows)} rows${skipped}.${labels}` }), first];
}

async function begin(form, tasks, go) {
  const { name, model, task, file, dev, columns, skip } = form.state;
  go.disabled = true;
  try {
    const asked = { name, model, task, file, dev: dev || null, columns, skip_bad_rows: skip === "yes" };
    for (const one of tasks[task].settings) asked[one.name] = valueOf(form.state[one.name], one);
    const found = await ask("/api/train/start", asked);
    say("");
    mark(form, null);
    form.set("run", found.name); // which starts polling it
  } catch (error) {
    if (!(error instanceof Rejection)) throw error;
    const all = [...tasks[task].settings, { name: "name", label: "Run name" }, { name: "columns", label: "Column mapping" }];
    const at = all.find((one) => new RegExp(`\\b${one.name}\\b`).test(error.message));
    const message = at ? error.message.replace(new RegExp(`(Setting )?'?\\b${at.name}\\b'?`), at.label) : error.message;
    say(message);
    mark(form, at?.name, message);
  } finally {
    go.disabled = false;
  }
}

/** The error of one control, next to it; that of the others is removed. */
function mark(form, name, message) {
  for (const [own, control] of Object.entries(form.controls)) {
    control.parentElement.querySelector(".warning")?.remove();
    control.toggleAttribute("aria-invalid", false);
    if (own !== name) continue;
    control.setAttribute("aria-invalid", "true");
    control.parentElement.append(make("p", { class: "warning", text: message }));
    control.closest("details")?.setAttribute("open", "");
    control.focus();
  }
}

/** The run that was started here last: its state, curves, buttons. Polled every second while it runs. */
function watching(form) {
  const state = make("p", { class: "reading", role: "status" });
  const bar = make("progress", { max: 1, "aria-label": "Progress of the run", hidden: true });
  const buttons = make("div", { class: "buttons" });
  const loss = picture("loss over steps", { file: "loss" });
  const score = picture("dev score over steps", { file: "score" });
  const output = make("pre", { class: "code", tabindex: "0", "aria-label": "Last output of the process" });
  const part = section("Run", state, bar, buttons, make("div", { class: "columns" }, loss, score), make("details", {}, make("summary", { text: "Output of the process" }), output));
  let [timer, newest] = [0, 0];
  part.hidden = true;

  const act = (path) => async () => {
    try {
      const found = await ask(path, { name: form.state.run });
      say(path.endsWith("open") ? `${found.model} is loaded: its pages are in the menu after a reload.` : "");
      if (path.endsWith("open")) return location.reload();
      watch();
    } catch (error) {
      if (!(error instanceof Rejection)) throw error;
      say(error.message);
    }
  };
  const button = (text, path, kind = null) => make("button", { type: "button", class: kind, text, on: { click: act(path) } });

  async function watch() {
    clearTimeout(timer);
    const own = (newest += 1);
    const name = form.state.run;
    if (!name) return (part.hidden = true);
    let run = null;
    try {
      run = (await ask("/api/train/watch", { name })).run;
    } catch (error) {
      if (!(error instanceof Rejection)) throw error;
      say(error.message);
    }
    if (!run || own !== newest) return;
    part.hidden = false;
    show(run);
    if (isTraining(run)) timer = setTimeout(watch, EVERY_MS);
  }

  function show(run) {
    const known = measures([run]);
    const scored = run.main ? `eval_${run.main.name}` : known.find((one) => one.startsWith("eval_") && one !== "eval_loss");
    const steps = Math.max(0, ...Object.values(run.curves).flat().map((record) => record.step ?? 0));
    const progress = run.state === "running" ? progressOf(run.lines) : null;
    state.textContent = [sentence(run, steps, scored), progress?.text].filter(Boolean).join(" ");
    bar.hidden = !progress;
    if (progress) bar.value = progress.share;
    for (const [drawn, measure] of [[loss, "loss"], [score, scored]]) {
      drawn.hidden = !measure || !known.includes(measure);
      if (drawn.hidden) continue;
      drawn.rename(`${wordsOf(measure)} over steps`);
      drawn.update(curveOf([run], measure));
    }
    output.textContent = run.lines.join("\n");
    const focused = document.activeElement?.textContent;
    refill(
      buttons,
      run.state === "running" && button("Stop and save", "/api/train/stop"),
      run.state === "unfinished" && run.exit !== 2 && button("Resume", "/api/train/resume", "main"),
      run.has_report && make("a", { href: reportOf(run.name), target: "_blank", rel: "noopener", text: "Open the report" }),
      run.state === "finished" && run.has_model && button("Show the model in the studio", "/api/train/open"),
    );
    [...buttons.children].find((one) => one.textContent === focused)?.focus();
  }
  return [part, watch];
}

/** How far the process is, from its last line of progress. */
function progressOf(lines) {
  const parts = lines.map((line) => /^(.*?): ([\d,]+)\/([\d,]+) (\w+), ([\d.,]+\/s), ([\d:]+) left/.exec(line)).findLast(Boolean);
  if (!parts) return null;
  const [, what, done, total, unit, rate, left] = parts;
  const number = (text) => Number(text.replaceAll(",", ""));
  return { share: number(done) / number(total), text: `${what}: ${done} of ${total} ${unit}, ${rate}, ${left} left.` };
}

function sentence(run, steps, scored) {
  const last = (measure) => Object.values(run.curves).flat().filter((record) => Number.isFinite(record[measure])).at(-1)?.[measure];
  if (run.state === "finished") return `${run.name} is finished${run.main ? `: dev ${wordsOf(run.main.name)} ${shortNumber(run.main.value)}` : ""}.`;
  if (run.state === "running") return steps ? `${run.name} is at step ${grouped(steps)}, loss ${shortNumber(last("loss"))}${scored && last(scored) !== undefined ? `, ${wordsOf(scored)} ${shortNumber(last(scored))}` : ""}.` : `${run.name} is starting.`;
  if (run.state === "training") return `${run.name} trains in another process, which can stop it: ${stateOf(run)}.`;
  if (run.exit === 2) return `${run.name} was rejected: ${run.lines.findLast((line) => line.startsWith("error:"))?.slice(7) ?? "see below"}`;
  return `${run.name} stopped at step ${grouped(steps)}; its checkpoint is saved.`;
}
