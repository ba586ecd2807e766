// Labeled controls for the state of the page: input is written to the address, and `onchange` is called.

import { make } from "./dom.js";
import { declareState, readState, writeState } from "./state.js";

export class Form {
  constructor(defaults, onchange) {
    declareState(defaults);
    this.state = readState();
    this.controls = {};
    this.onchange = onchange;
    window.addEventListener("hashchange", () => {
      this.state = readState();
      for (const [name, control] of Object.entries(this.controls)) this.show(control, this.state[name]);
      writeState(this.state);
      this.onchange(this.state);
    });
  }

  show(control, value) {
    if (control.type === "checkbox") control.checked = value === "yes";
    else control.value = value;
  }

  /** Set a value by code, as if it were typed. */
  set(name, value) {
    this.state[name] = value;
    if (this.controls[name]) this.show(this.controls[name], value);
    writeState(this.state);
    this.onchange(this.state, name);
  }

  /** Set several values by code at once. */
  setAll(values) {
    for (const [name, value] of Object.entries(values)) {
      this.state[name] = value;
      if (this.controls[name]) this.show(this.controls[name], value);
    }
    writeState(this.state);
    this.onchange(this.state);
  }

  /** Drop controls that are no longer on the page. */
  forget(names) {
    for (const name of names) delete this.controls[name];
  }

  bind(name, control) {
    this.controls[name] = control;
    this.show(control, this.state[name]);
    control.addEventListener("input", () => {
      this.state[name] = control.type === "checkbox" ? (control.checked ? "yes" : "no") : control.value;
      writeState(this.state);
      this.onchange(this.state, name);
    });
    return control;
  }

  field(label, control, extra = "") {
    control.id ||= `field-${control.name}`;
    return make("div", { class: `field ${extra}` }, make("label", { for: control.id, text: label }), control);
  }

  /** Several lines of text. */
  area(name, label, options = {}) {
    const control = make("textarea", { rows: 2, spellcheck: "false", maxlength: 50000, name, ...options });
    return this.field(label, this.bind(name, control), "wide-field");
  }

  /** One line. */
  line(name, label, options = {}) {
    return this.field(label, this.bind(name, make("input", { type: "text", spellcheck: "false", autocomplete: "off", name, ...options })));
  }

  /** A number. */
  number(name, label, options = {}) {
    return this.field(label, this.bind(name, make("input", { type: "number", name, ...options })));
  }

  /** A select. choices: [value, label] pairs. An unknown state becomes the first. */
  choice(name, label, choices) {
    const options = choices.map(([value, words]) => make("option", { value, text: words }));
    if (!choices.some(([value]) => value === this.state[name])) this.state[name] = choices[0]?.[0] ?? "";
    return this.field(label, this.bind(name, make("select", { name }, ...options)));
  }

  /** A checkbox. */
  check(name, label) {
    return make("label", { class: "check" }, this.bind(name, make("input", { type: "checkbox", name })), label);
  }
}
