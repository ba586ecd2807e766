// Asking the studio: JSON in, JSON out; the newest question counts.

import { say } from "./dom.js";

/** A refusal: its sentence, and what came with it. */
export class Refusal extends Error {
  constructor(message, details) {
    super(message);
    this.details = details;
  }
}

/** Ask with a body (POST) or without one (GET). Throws Refusal. */
export async function ask(path, body, signal) {
  const options = { signal, credentials: "same-origin" };
  if (body !== undefined) {
    options.method = "POST";
    options.headers = { "content-type": "application/json" };
    options.body = JSON.stringify(body);
  }
  let answer;
  try {
    answer = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("The studio does not answer: is it still running?", {});
  }
  const found = await answer.json().catch((error) => {
    if (error.name === "AbortError") throw error; // a newer question came while this answer was read
    return {};
  });
  if (!answer.ok) throw new Refusal(found.error ?? `The studio refused (${answer.status}).`, found);
  return found;
}

/**
 * A function that runs `work(signal)` soon after it was last called, and drops what came before. `where` is dimmed while
 * it waits. A refusal is told at the foot of the page.
 */
export function live(work, where, wait = 30) {
  let timer = 0;
  let running = null;
  let newest = null;
  let told = ""; // the refusal of this one, which its next success takes away
  return () => {
    clearTimeout(timer);
    const own = (newest = new AbortController());
    where?.classList.add("busy");
    timer = setTimeout(async () => {
      running?.abort();
      running = own;
      try {
        await work(own.signal);
        if (own === newest && told) {
          if (document.getElementById("status").textContent === told) say("");
          told = "";
        }
      } catch (error) {
        if (error.name === "AbortError") return;
        if (!(error instanceof Refusal)) throw error;
        if (own === newest) say((told = error.message));
      } finally {
        if (own === newest) {
          where?.classList.remove("busy");
          where?.dispatchEvent(new CustomEvent("settled", { bubbles: true }));
        }
      }
    }, wait);
  };
}
