// Inspect: the page that `maskwright inspect` writes as a file, for a text as it is typed.

import { ask, live, Missing } from "../lib/ask.js";
import { make } from "../lib/dom.js";
import { Form } from "../lib/form.js";
import { modelField, page } from "../lib/page.js";
import { download } from "../lib/save.js";
import { button, section } from "../lib/show.js";
import { writeState } from "../lib/state.js";
import { draw, readAddress, settle, show } from "../inspect/page.js";

const EXAMPLE = "The animal didn't cross the street because it was too tired.";
// The state of the views, in the words of their own address.
const VIEW = { view: "", layer: "", heads: "", kind: "", token: "", key: "", source: "", place: "", answer: "", part: "", shade: "" };

page(async ({ root, models }) => {
  let update = () => {};
  let shownFor = ""; // the request whose data is shown
  const form = new Form({ model: models[0].name, text: EXAMPLE, pair: "", against: "", beside: "", ...VIEW }, () => update());
  const host = make("div");
  const tree = host.attachShadow({ mode: "open" }); // its style sheet is that of the file
  const app = make("div", { id: "app" });
  const sheet = make("link", { rel: "stylesheet", href: "/static/inspect/page.css" });
  const styled = new Promise((done) => sheet.addEventListener("load", done));
  tree.append(sheet, app);
  const save = button("Save as HTML file", "Save as HTML file: all views, without the studio", async () => {
    const { html } = await ask("/api/inspect/file", { ...request(), with_attributions: true });
    download("inspect.html", html, "text/html");
  });
  const shown = make("div", { class: "result" }, make("div", { class: "buttons" }, save), host);
  const second = make("details", { open: Boolean(form.state.pair) }, make("summary", { text: "With a second text (for a translation model: the target)" }), form.area("pair", "Second text"));
  const others = [["", "none"], ...models.map((model) => [model.name, model.name])];
  const compare = make("details", { open: Boolean(form.state.against || form.state.beside) }, make("summary", { text: "Compare with another text or model" }),
    form.area("against", "Other text"), make("div", { class: "fields few" }, form.choice("beside", "Other model", others)));
  root.append(section("Text", modelField(form, models), form.area("text", "Text"), second, compare), section("Views", shown));

  const request = () => {
    const { model, text, pair, against, beside, view } = form.state;
    return { model, text, pair: pair || null, against: against.trim() ? against : null, beside: beside || null, with_attributions: view === "attributions" };
  };
  const covers = (asked) => shownFor === JSON.stringify(asked) || shownFor === JSON.stringify({ ...asked, with_attributions: true });

  settle({
    root: app, tree, isPart: true,
    address: {
      read: () => new URLSearchParams(Object.keys(VIEW).filter((name) => form.state[name]).map((name) => [name, form.state[name]])),
      write: (own) => {
        for (const name of Object.keys(VIEW)) form.state[name] = own.get(name) ?? "";
        writeState(form.state);
        if (shownFor && !covers(request())) update();
      },
    },
  });
  await styled;
  window.addEventListener("themechange", () => shownFor && draw());

  update = live(async (signal) => {
    const asked = request();
    if (!asked.text.trim()) throw new Missing("The views appear here as soon as there is a text.");
    if (covers(asked)) {
      readAddress();
      draw();
      return;
    }
    const data = await ask("/api/inspect", asked, signal);
    await show(data);
    shownFor = JSON.stringify(asked);
  }, shown);
  writeState(form.state);
  update();
});
