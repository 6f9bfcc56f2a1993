// Numbers and times as text, and elements with text. Text from outside becomes text, never markup.

/** The text of what is not known. */
export const UNKNOWN = "–";

const UNITS = ["", "k", "M", "G", "T", "P"];

/** Returns a number with a decimal unit: 1.2M. Unknown is a dash. */
export function short(value) {
  if (value === undefined || value === null) return UNKNOWN;
  let unit = 0;
  while (Math.abs(value) >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 && Number.isInteger(value) ? 0 : Math.abs(value) < 9.95 ? 1 : 0;
  return value.toFixed(digits) + UNITS[unit];
}

/** Returns a number with its noun: 1 node, 2 nodes. */
export const counted = (count, one, many = `${one}s`) => `${count} ${Number(count) === 1 ? one : many}`;

/** Returns bytes per second. */
export const byteRate = (value) => (value === undefined || value === null ? UNKNOWN : short(value) + "B/s");

/** Returns a time that is given in microseconds. */
export function duration(us) {
  if (us === undefined || us === null) return UNKNOWN;
  if (us < 1000) return `${Math.round(us)} µs`;
  if (us < 1e6) return `${(us / 1000).toFixed(us < 1e4 ? 1 : 0)} ms`;
  return `${(us / 1e6).toFixed(1)} s`;
}

/** Returns the time of day. */
export function clock(us) {
  const pad = (number) => String(number).padStart(2, "0");
  const time = new Date(us / 1000);
  return `${pad(time.getHours())}:${pad(time.getMinutes())}:${pad(time.getSeconds())}`;
}

/** Returns the time of day, with the date if it is another one than today. */
export function when(us) {
  const pad = (number) => String(number).padStart(2, "0");
  const [time, today] = [new Date(us / 1000), new Date()];
  if (time.toDateString() === today.toDateString()) return clock(us);
  return `${time.getFullYear()}-${pad(time.getMonth() + 1)}-${pad(time.getDate())} ${clock(us)}`;
}

/** Returns an address with its port, both as names where they are known. */
export function endpoint(end) {
  if (!end) return "many";
  const host = end.host ?? (end.ip?.includes(":") ? `[${end.ip}]` : end.ip);
  const port = end.service ?? end.port;
  return `${host ?? "many"}:${port ?? "many"}`;
}

/** Returns processes as text: `nginx(812)`, each name once. */
export function processes(owners) {
  if (!owners) return UNKNOWN;
  const names = new Map();
  for (const { comm, pid } of owners) names.set(comm ?? "", [...(names.get(comm ?? "") ?? []), pid]);
  return [...names].map(([name, pids]) => (pids.length > 2 ? `${name}(${pids.length})` : `${name}(${pids.join(",")})`)).join(" ");
}

/** Creates an element with attributes and children; children that are strings become text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children);
  return made;
}
