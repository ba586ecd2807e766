// Models of runs, the final ones and those of checkpoints, opened in the pages: two of them side by side.

import { ask, Rejection } from "./ask.js";
import { make, refill, say } from "./dom.js";
import { section } from "./show.js";

const ANSWERS = ["classify", "tag", "answer", "fill-mask"]; // pages that compare the answers of two models

/** State that the part adds to that of its page. */
export const COMPARED = { one: "", other: "" };

/** The part of the page; `update(runs)` lists the models of these runs, finished ones only. */
export function modelsOfRuns(form) {
  const none = make("p", { class: "note", text: "The models of finished runs can be compared: select one above." });
  const choice = (name, label) => form.choice(name, label, [[form.state[name], form.state[name]]]);
  const fields = make("div", { class: "fields few" }, choice("one", "Model"), choice("other", "Other model"));
  const go = (text, pageOf) => make("button", { type: "button", text, on: { click: () => follow(form, pageOf) } });
  const buttons = make("div", { class: "buttons" }, go("Compare heads and layers", () => "inspect"), go("Compare answers", (pages, model) => ANSWERS.find((name) => pages[name]?.includes(model))));
  const whole = section("Compare models", none, fields, buttons);
  whole.update = (runs) => {
    const names = runs.filter((run) => run.has_model && run.state === "finished").flatMap((run) => [...run.checkpoints.map((step) => `${run.name}@${step}`), run.name]);
    none.hidden = names.length > 0;
    fields.hidden = buttons.hidden = !names.length;
    for (const [name, usual] of [["one", names[0]], ["other", names.at(-1)]]) {
      refill(form.controls[name], names.map((value) => make("option", { value, text: value.replace(/@(\d+)$/, ", step $1") })));
      form.controls[name].value = names.includes(form.state[name]) ? form.state[name] : (usual ?? "");
    }
  };
  return whole;
}

/** Open both models, then the page that compares them. */
async function follow(form, pageOf) {
  try {
    const names = ["one", "other"].map((name) => form.controls[name].value);
    for (const name of new Set(names)) {
      const [, run, step] = /^(.*?)(?:@(\d+))?$/.exec(name);
      await ask("/api/train/open", { name: run, step: step === undefined ? null : Number(step) });
    }
    const { pages } = await ask("/api/studio");
    const page = pageOf(pages, names[0]);
    if (!pages[page]?.includes(names[0])) return say("No page compares models of this kind.");
    const state = new URLSearchParams({ model: names[0], beside: names[1], ...(page === "inspect" ? {} : { why: "yes" }) });
    location.assign(`/${page}#${state}`);
  } catch (error) {
    if (!(error instanceof Rejection)) throw error;
    say(error.message);
  }
  return undefined;
}
