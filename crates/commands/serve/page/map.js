// The view of who talks to whom. Width: the root of bytes per second; colour: retransmits or round trip time.

import { json } from "./api.js";
import { byteRate, counted, duration, element, short } from "./format.js";
import { Graph } from "./graph.js";
import { change, current, missing } from "./state.js";
import { onTheme } from "./theme.js";

// The width of an edge whose bytes are not known, in pixels of the picture; it has dashes.
const UNKNOWN_WIDTH = 2;

/** Returns the colour of a value. */
export function tone(value, [warn, bad]) {
  if (value === undefined) return "soft";
  return value >= bad ? "bad" : value >= warn ? "warn" : "good";
}

/**
 * Returns how wide edges are with these values, and the value of the widest possible one. Four times as much is twice as wide. The scale
 * is that of the largest value, up to the next power of ten: it does not change with each sample.
 */
export function widths(values) {
  const most = 10 ** Math.ceil(Math.log10(Math.max(1000, ...values)));
  return { width: (value) => Math.max(0.6, 11 * Math.sqrt(value / most)), most };
}

/** A choice that is part of what is shown. */
export function choice(of, id, key, label, options) {
  const select = element("select", { id }, ...Object.entries(options).map(([value, text]) => element("option", { value }, text)));
  select.addEventListener("change", () => change({ [key]: select.value }));
  of[key] = select;
  return [element("label", { for: id }, label), select];
}

/** An edge in words. A value that is not known is no zero. */
function inWords(edge) {
  const or = (value, what, text) => (value === undefined ? `${what} ${missing()}` : text(value));
  return [
    counted(short(edge.connections), "connection"),
    or(edge.transferred_bytes_per_s, "bytes", byteRate),
    or(edge.retrans_segs_per_s, "retransmits", (value) => `${short(value)} retransmits/s`),
    or(edge.rtt_us, "rtt", (value) => `rtt ${duration(value)}`),
  ].join(", ");
}

const bytes = (edge) => edge.transferred_bytes_per_s;
const isUnknown = (edge) => bytes(edge) === undefined;

/** A node shows its connections. */
function open(node) {
  const filter = { owner: (label) => `owner = "${label}"`, peer: (label) => `dst ${label.split(" ")[0]}`, port: (label) => `sport = :${label.split("/")[0]}` }[node.kind];
  if (!filter || node.label === "many" || node.label === "unknown process" || /["\\]/.test(node.label)) return undefined;
  return () => change({ view: "flows", filter: filter(node.label) });
}

export class ServiceMap {
  #abort = new AbortController();

  constructor(parent, { onStatus, onError }) {
    Object.assign(this, { onStatus, onError });
    const bar = element("div", { class: "bar" },
      ...choice(this, "map-by", "by", "Nodes", { owner: "processes", container: "containers", port: "ports" }),
      ...choice(this, "map-color", "color", "Colour", { retrans: "retransmits", rtt: "round trip time" }));
    this.legend = element("span", { class: "legend" });
    bar.append(this.legend);
    parent.append(bar);
    this.graph = new Graph(parent, "Map of who talks to whom");
    onTheme(() => current().view === "map" && this.#draw());
  }

  async show() {
    const { at, filter, by, color } = current();
    [this.by.value, this.color.value] = [by, color];
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    try {
      this.data = await json("/api/map", { at, filter, by }, signal);
      this.#draw();
      this.onError("");
      const left = this.data.edges_left_out ? `; ${this.data.edges_left_out} with fewer bytes left out` : "";
      this.onStatus(`${counted(this.data.nodes.length, "node")}, ${counted(this.data.edges.length, "edge")}${left}`);
    } catch (error) {
      if (signal.aborted) return;
      // No picture of another moment stays.
      if (at) {
        this.data = undefined;
        this.graph.clear();
        this.onStatus("");
      }
      this.onError(error.message);
    }
  }

  stop() {
    this.#abort.abort();
  }

  svg() {
    return this.graph.svg();
  }

  #draw() {
    if (!this.data) return;
    const byTime = current().color === "rtt";
    const { width, most } = widths(this.data.edges.map(bytes).filter((value) => value !== undefined));
    const dashes = this.data.edges.some(isUnknown) ? `; dashes: bytes ${missing()}` : "";
    const tones = byTime ? "green below 10 ms, yellow below 100 ms, red above" : "green none, yellow up to 1 per second, red above";
    this.legend.textContent = `${tones}; width: root of bytes per second, up to ${byteRate(most)}${dashes}`;
    this.graph.draw(this.data, {
      // A width of its own: neither that of nothing nor that of much.
      width: (edge) => (isUnknown(edge) ? UNKNOWN_WIDTH : width(bytes(edge))),
      dashed: isUnknown,
      tone: (edge) => (byTime ? tone(edge.rtt_us, [10_000, 100_000]) : tone(edge.retrans_segs_per_s, [0.01, 1])),
      words: inWords,
      isMinor: (node) => node.kind === "peer",
      open,
    });
  }
}
