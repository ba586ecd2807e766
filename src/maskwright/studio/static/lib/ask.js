// Asking the studio: JSON in, JSON out; the newest question counts.

import { make, say } from "./dom.js";

const SILENT = "The studio does not answer: is it still running?";

/** A refusal: its sentence, and what came with it. */
export class Refusal extends Error {
  constructor(message, details) {
    super(message);
    this.details = details;
  }
}

/** Nothing can be asked yet: the sentence says what is wanted, and stands where the answer would. */
export class Missing extends Error {}

/** Ask with a body (POST) or without one (GET). Throws Refusal. */
export async function ask(path, body, signal) {
  const options = { signal, credentials: "same-origin" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "content-type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let [answer, text] = [null, ""];
  try {
    answer = await fetch(path, options);
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error; // a newer question came
    throw new Refusal(SILENT, {});
  }
  if (!answer.headers.get("content-type")?.startsWith("application/json")) {
    throw new Refusal(text.trim() || `The studio refused (${answer.status}).`, {}); // the guard's own sentence
  }
  const found = JSON.parse(text);
  if (!answer.ok) throw new Refusal(found.error, found);
  return found;
}

/**
 * A function that runs `work(signal)`: at once when nothing runs, else `wait` milliseconds after it was last called,
 * dropping what came before. `where` is dimmed meanwhile, and after a refusal, which is told at the foot of the page:
 * what it shows belongs to an earlier question. What is missing stands in its place.
 */
export function live(work, where, wait = 30) {
  let timer = 0;
  let running = null;
  let newest = null;
  let told = ""; // the refusal of this one, which its next success takes away
  const wanted = make("p", { class: "note" });
  const settle = (error) => {
    const isMissing = error instanceof Missing;
    wanted.textContent = isMissing ? error.message : "";
    if (isMissing) where.before(wanted);
    else wanted.remove();
    where.hidden = isMissing;
    where.classList.toggle("stale", error instanceof Refusal);
    if (told && document.getElementById("status").textContent === told) say("");
    told = error instanceof Refusal ? error.message : "";
    if (told) say(told);
  };
  return () => {
    clearTimeout(timer);
    const own = (newest = new AbortController());
    where.classList.add("busy");
    timer = setTimeout(async () => {
      running?.abort();
      running = own;
      try {
        await work(own.signal);
        if (own === newest) settle(null);
      } catch (error) {
        if (error.name === "AbortError") return;
        if (!(error instanceof Refusal || error instanceof Missing)) throw error;
        if (own === newest) settle(error);
      } finally {
        if (own === newest) {
          running = null;
          where.classList.remove("busy");
          where.dispatchEvent(new CustomEvent("settled", { bubbles: true }));
        }
      }
    }, running ? wait : 0);
  };
}
