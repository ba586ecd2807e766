// Requests to the studio: JSON in, JSON out; only the newest request counts.

import { make, say } from "./dom.js";

const SILENT = "The studio does not answer: is it still running?";

/** A rejected request: the error message and further fields. */
export class Rejection extends Error {
  constructor(message, details) {
    super(message);
    this.details = details;
  }
}

/** Input is missing: the message describes it, and is shown instead of the result. */
export class Missing extends Error {}

/** Send a request with a body (POST) or without one (GET). Throws Rejection. */
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
    if (error.name === "AbortError") throw error; // superseded by a newer request
    throw new Rejection(SILENT, {});
  }
  if (!answer.headers.get("content-type")?.startsWith("application/json")) {
    throw new Rejection(text.trim() || `The studio rejected the request (${answer.status}).`, {}); // the message of the guard
  }
  const found = JSON.parse(text);
  if (!answer.ok) throw new Rejection(found.error, found);
  return found;
}

/**
 * A function that runs `work(signal)`: immediately if nothing runs, else `wait` milliseconds after it was last called,
 * dropping what came before. `where` is dimmed meanwhile, and after an error, which is shown at the bottom of the page:
 * its content belongs to an earlier request. Missing input is described in its place.
 */
export function live(work, where, wait = 30) {
  let timer = 0;
  let running = null;
  let newest = null;
  let told = ""; // the error of this request, cleared by its next success
  const wanted = make("p", { class: "note" });
  const settle = (error) => {
    const isMissing = error instanceof Missing;
    wanted.textContent = isMissing ? error.message : "";
    if (isMissing) where.before(wanted);
    else wanted.remove();
    where.hidden = isMissing;
    where.classList.toggle("stale", error instanceof Rejection);
    if (told && document.getElementById("status").textContent === told) say("");
    told = error instanceof Rejection ? error.message : "";
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
        if (!(error instanceof Rejection || error instanceof Missing)) throw error;
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
