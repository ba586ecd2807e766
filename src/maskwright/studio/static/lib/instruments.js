// Controls for the inputs of a lesson: sliders, choices, texts, matrices. Their state is `set.NAME` in the address.

import { make } from "./dom.js";

const LONG = 48; // characters of a text that gets several lines

/** The name of an input in the state of the page; an input may be called `text` like the text of another page. */
export const stateName = (input) => `set.${input.name}`;

/** The slide's values, as the state of the page has them. */
export const defaultsOf = (inputs) => Object.fromEntries(inputs.map((input) => [stateName(input), shownDefault(input)]));

/** The values to send: all that are not the slide's. */
export function changedValues(inputs, state) {
  const changed = inputs.filter((input) => state[stateName(input)] !== shownDefault(input));
  return Object.fromEntries(changed.map((input) => [input.name, state[stateName(input)]]));
}

/** One control for each input, and a button for the slide's values. `sync()` shows the state of the form. */
export function instruments(form, inputs) {
  const sliders = [];
  const reset = make("button", { type: "button", text: "Use the slide's values", on: { click: () => form.setAll(defaultsOf(inputs)) } });
  const fields = inputs.map((input) => (input.kind === "number" || input.kind === "integer" ? slider(form, input, sliders) : other(form, input)));
  const whole = make("div", { class: "instruments", role: "group", "aria-label": "Inputs of the lesson" }, make("div", { class: "fields top" }, fields), reset);
  whole.hidden = !inputs.length;
  whole.sync = () => {
    for (const [range, name] of sliders) range.value = form.state[name];
    reset.disabled = !Object.keys(changedValues(inputs, form.state)).length;
  };
  whole.sync();
  return whole;
}

function slider(form, input, sliders) {
  const name = stateName(input);
  const { minimum: min, maximum: max, step } = input;
  const field = form.number(name, input.label, { min, max, step });
  const range = make("input", { type: "range", min, max, step, "aria-label": `${input.label}, as a slider`, value: form.state[name] });
  range.addEventListener("input", () => form.set(name, range.value));
  sliders.push([range, name]);
  field.classList.add("slider");
  field.append(range);
  return field;
}

function other(form, input) {
  const name = stateName(input);
  if (input.kind === "choice") return form.choice(name, input.label, input.choices.map((one) => [one, one]));
  const limits = { maxlength: 2000 };
  if (input.kind === "matrix") return form.area(name, input.label, { ...limits, rows: Math.max(1, shownDefault(input).split("\n").length) });
  return input.default.length > LONG ? form.area(name, input.label, limits) : form.line(name, input.label, limits);
}

/** The default as a control shows it: a matrix with one row per line. */
function shownDefault(input) {
  return input.kind === "matrix" ? input.default.replaceAll("; ", "\n") : input.default;
}
