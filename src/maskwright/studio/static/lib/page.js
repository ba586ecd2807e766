// The start of every page: its models, its root element, and the model selection.

import { ask, Rejection } from "./ask.js";
import { grouped, make, refill, say } from "./dom.js";

const name = location.pathname.split("/")[1];

/** Build a page: `build({ root, models, studio })`, models are those that the page supports. */
export async function page(build) {
  const root = document.getElementById("page");
  try {
    const studio = await ask("/api/studio");
    const models = studio.pages[name].map((key) => studio.models[key]);
    root.replaceChildren();
    await build({ root, models, studio });
    document.body.dataset.ready = "yes";
  } catch (error) {
    if (!(error instanceof Rejection)) throw error;
    say(error.message);
  }
}

/** The model selection, and a line about the model. */
export function modelField(form, models) {
  const line = make("p", { class: "note" });
  const field = form.choice("model", "Model", models.map((model) => [model.name, model.name]));
  const show = () => {
    const model = models.find((one) => one.name === form.state.model);
    if (model) refill(line, describe(model));
  };
  show();
  form.controls.model.addEventListener("input", show);
  window.addEventListener("hashchange", show);
  return make("div", { class: "model" }, field, line);
}

/**
 * Buttons that fill in an example of the selected model, usually from its held-out data. names: the control of each entry of an example. If the page
 * still shows an example of the model before, a new selection shows one of its own.
 */
export function examplesField(form, models, names = { text: "text", text_pair: "pair" }) {
  const list = make("div", { class: "buttons", role: "group", "aria-label": "Examples" });
  let known = [];
  const matches = (example) => Object.entries(names).every(([entry, control]) => form.state[control] === (example[entry] ?? ""));
  const fill = (example) => {
    for (const [entry, control] of Object.entries(names)) form.state[control] = example[entry] ?? "";
    form.set(names.text, example.text);
    for (const control of Object.values(names)) if (form.controls[control]) form.show(form.controls[control], form.state[control]);
  };
  const show = () => {
    const examples = models.find((one) => one.name === form.state.model)?.examples ?? [];
    const isOld = known.length && known !== examples && known.some(matches);
    known = examples;
    list.hidden = !examples.length;
    refill(list, make("span", { class: "note", text: "Examples:" }), ...examples.map((one) => make("button", {
      type: "button", class: "quiet", text: one.text.length > 48 ? `${one.text.slice(0, 47)}…` : one.text, title: one.label ? `${one.text} (${one.label})` : one.text, on: { click: () => fill(one) },
    })));
    if (isOld && examples.length) fill(examples[0]);
  };
  show();
  form.controls.model.addEventListener("input", show);
  return list;
}

/** The values of a form for the first example of the first model, or `otherwise`. */
export function firstExample(models, otherwise, names = { text: "text", text_pair: "pair" }) {
  const example = models[0].examples[0];
  return example ? Object.fromEntries(Object.entries(names).map(([entry, control]) => [control, example[entry] ?? ""])) : otherwise;
}

function describe(model) {
  const millions = model.parameters < 1e6 ? grouped(model.parameters) : `${(model.parameters / 1e6).toFixed(1)} million`;
  return `${model.what}; ${model.layers} layers of ${model.hidden}, ${millions} parameters`;
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("work").focus();
});
document.querySelector(".side nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
