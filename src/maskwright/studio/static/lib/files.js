// Files that are uploaded to the studio, and what it says about bad ones.

import { Rejection } from "./ask.js";
import { grouped, make, say } from "./dom.js";
import { table } from "./show.js";

/** A file input; the file is uploaded immediately. */
export function chooser(form, name, label, accept = ".csv,.tsv,.jsonl,.json,.conll,.txt") {
  const control = make("input", { type: "file", accept, name });
  const told = make("span", { class: "note", text: form.state[name] ? "already uploaded" : "" });
  control.addEventListener("change", async () => {
    const [file] = control.files;
    if (!file) return;
    form.set(name, ""); // the rows of the file before are not those of this one
    told.textContent = `uploading ${file.name} …`;
    try {
      const ending = /\.[^.]*$/.exec(file.name)?.[0] ?? "";
      const answer = await fetch(`/api/train/upload?ending=${encodeURIComponent(ending)}`, { method: "POST", body: file, credentials: "same-origin" });
      const found = await answer.json();
      if (!answer.ok) throw new Rejection(found.error, found);
      told.textContent = `${file.name}, ${grouped(file.size)} bytes`;
      say("");
      form.set(name, found.file);
    } catch (error) {
      told.textContent = "";
      control.value = "";
      say(error instanceof Rejection ? error.message : "The upload failed: the file is too large, or the studio has ended.");
    }
  });
  return make("div", {}, form.field(label, control), told);
}

/** The error of a file, with all of its bad rows. */
export function refused(error) {
  const sentence = make("p", { class: "warning", text: error.message });
  if (!error.details.rows) return [sentence];
  const bad = table("Bad rows", [{ name: "line", kind: "number" }, { name: "column", kind: "word" }, { name: "reason" }], { file: "bad-rows" });
  bad.update(error.details.rows.map((row) => [row.line, row.column ?? "", row.reason]));
  return [sentence, bad];
}
