// What is shown, all of it in the fragment of the URL: a link to it shows the same.

const DEFAULTS = { view: "flows", filter: "", sort: "-connections", at: "", by: "owner", color: "retrans", series: "rates", range: "15m", socket: "", nodes: "service", edges: "" };

const listeners = [];
let state = read();

function read() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(Object.entries(DEFAULTS).map(([key, value]) => [key, fields.get(key) ?? value]));
}

function hash(of) {
  const fields = new URLSearchParams();
  for (const [key, value] of Object.entries(of)) if (value !== DEFAULTS[key]) fields.set(key, value);
  return "#" + fields;
}

/** Returns what is shown. */
export const current = () => state;

/** Returns what a value that is not there is called: a recorded moment has no more than was recorded. */
export const missing = () => (state.at ? "not recorded" : "not known");

/** Returns the link to what is shown, with changes. */
export const link = (changes) => hash({ ...state, ...changes });

/** Changes what is shown. `replace`: without a step for the browser's "back". */
export function change(changes, replace = false) {
  const next = hash({ ...state, ...changes });
  if (next === hash(state)) return;
  history[replace ? "replaceState" : "pushState"](null, "", next);
  update();
}

/** Calls `listener` with the new and the old state after each change. */
export function onChange(listener) {
  listeners.push(listener);
}

function update() {
  const before = state;
  state = read();
  for (const listener of listeners) listener(state, before);
}

addEventListener("popstate", update);
addEventListener("hashchange", () => hash(read()) !== hash(state) && update());
