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

function describe(model) {
  const millions = model.parameters < 1e6 ? grouped(model.parameters) : `${(model.parameters / 1e6).toFixed(1)} million`;
  return `${model.what}; ${model.layers} layers of ${model.hidden}, ${millions} parameters`;
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("work").focus();
});
document.querySelector(".side nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
