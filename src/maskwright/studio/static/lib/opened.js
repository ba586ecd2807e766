// The lessons that were opened in this browser: their names in local storage, nowhere else.

const KEY = "maskwright-lessons";

/** Names of the opened lessons. Local storage may be unavailable or hold anything. */
export function openedLessons() {
  try {
    const names = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return new Set(Array.isArray(names) ? names : []);
  } catch {
    return new Set();
  }
}

/** Add a lesson. */
export function markOpened(name) {
  const names = openedLessons().add(name);
  try {
    localStorage.setItem(KEY, JSON.stringify([...names]));
  } catch {
    // progress is not kept where storage is blocked or full
  }
}

/** Forget all of them. */
export function clearOpened() {
  try {
    localStorage.removeItem(KEY);
  } catch {
    // nothing was kept
  }
}
