// The view of who talks to whom. Width: bytes per second; colour: retransmits or round trip time. A list has the same for readers.

import { json } from "./api.js";
import { byteRate, duration, element, short } from "./format.js";
import { change, current } from "./state.js";
import { color, onTheme } from "./theme.js";
import { forceCollide, forceLink, forceManyBody, forceSimulation, forceX, forceY } from "./vendor/d3-force.js";

const SVG = "http://www.w3.org/2000/svg";
const SIZE = [1200, 800];
const STEPS = 250;

function shape(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const width = (edge) => 1 + Math.min(9, Math.log10(1 + (edge.transferred_bytes_per_s ?? 0)) * 1.1);
const colors = () => Object.fromEntries(["good", "warn", "bad", "soft", "text", "back", "second"].map((name) => [name, color(`--${name}`)]));

function tone(edge, by, paint) {
  const value = by === "rtt" ? edge.rtt_us : edge.retrans_segs_per_s;
  const [warn, bad] = by === "rtt" ? [10_000, 100_000] : [0.01, 1];
  if (value === undefined) return paint.soft;
  return value >= bad ? paint.bad : value >= warn ? paint.warn : paint.good;
}

/** A line, or a loop for a node that talks to itself. */
function path({ source, target }) {
  const [x, y] = [source.x.toFixed(1), source.y.toFixed(1)];
  return source === target ? `M${x},${y}c-50,-40 -50,40 0,0` : `M${x},${y}L${target.x.toFixed(1)},${target.y.toFixed(1)}`;
}

const inWords = (edge) => `${short(edge.connections)} connections, ${byteRate(edge.transferred_bytes_per_s)}, ${short(edge.retrans_segs_per_s)} retransmits/s, rtt ${duration(edge.rtt_us)}`;

export class ServiceMap {
  #places = new Map();
  #abort = new AbortController();

  constructor(parent, { onStatus, onError }) {
    Object.assign(this, { onStatus, onError });
    const choice = (key, label, options) => {
      const select = element("select", { id: `map-${key}` }, ...Object.entries(options).map(([value, text]) => element("option", { value }, text)));
      select.addEventListener("change", () => change({ [key]: select.value }));
      this[key] = select;
      return [element("label", { for: select.id }, label), select];
    };
    const bar = element("div", { class: "bar" },
      ...choice("by", "Nodes", { owner: "processes", container: "containers", port: "ports" }),
      ...choice("color", "Colour", { retrans: "retransmits", rtt: "round trip time" }));
    this.legend = element("span", { class: "legend" });
    bar.append(this.legend);
    this.picture = element("div", { class: "picture" });
    this.list = element("ul", { class: "edges" });
    parent.append(bar, this.picture, element("details", { class: "as-list" }, element("summary", {}, "As a list"), this.list));
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
      const left = this.data.edges_left_out ? `; ${this.data.edges_left_out} with fewer bytes are left out` : "";
      this.onStatus(`${this.data.nodes.length} nodes, ${this.data.edges.length} edges${left}`);
    } catch (error) {
      if (signal.aborted) return;
      // No picture of another moment stays.
      if (at) this.picture.replaceChildren();
      this.onError(error.message);
    }
  }

  stop() {
    this.#abort.abort();
  }

  /** The picture as a file. */
  svg() {
    return this.picture.firstChild && new XMLSerializer().serializeToString(this.picture.firstChild);
  }

  #draw() {
    if (!this.data) return;
    const paint = colors();
    const { nodes, links } = this.#layout();
    const by = current().color;
    this.legend.textContent = by === "rtt" ? "green below 10 ms, yellow below 100 ms, red above; width: bytes per second" : "green none, yellow up to 1 per second, red above; width: bytes per second";
    const lines = links.map((link) => {
      const line = shape("path", { d: path(link), fill: "none", stroke: tone(link.edge, by, paint), "stroke-width": width(link.edge), "stroke-opacity": 0.75, "stroke-linecap": "round" });
      line.append(shape("title", {}, `${link.source.label} → ${link.target.label}: ${inWords(link.edge)}`));
      return line;
    });
    const dots = nodes.map((node) => {
      const fill = node.kind === "peer" ? paint.soft : paint.second;
      const dot = shape("g", { transform: `translate(${node.x},${node.y})` }, shape("circle", { r: node.kind === "peer" ? 6 : 9, fill }),
        shape("text", { x: 12, y: 4, "font-size": 13, "font-family": "system-ui, sans-serif", fill: paint.text, stroke: paint.back, "stroke-width": 3, "paint-order": "stroke" }, node.label));
      this.#makeLink(dot, node);
      return dot;
    });
    const picture = shape("svg", { xmlns: SVG, viewBox: this.#frame(nodes).join(" "), role: "group", "aria-label": "Map of who talks to whom" }, ...lines, ...dots);
    this.picture.replaceChildren(picture);
    this.list.replaceChildren(...links.map(({ source, target, edge }) => element("li", {}, `${source.label} → ${target.label}: ${inWords(edge)}`)));
  }

  /** A node shows its connections. */
  #makeLink(dot, node) {
    const filter = { owner: (label) => `owner = "${label}"`, peer: (label) => `dst ${label.split(" ")[0]}`, port: (label) => `sport = :${label.split("/")[0]}` }[node.kind];
    if (!filter || node.label === "many" || node.label === "unknown process" || /["\\]/.test(node.label)) return;
    dot.setAttribute("tabindex", "0");
    dot.setAttribute("role", "link");
    dot.setAttribute("aria-label", node.label);
    const open = () => change({ view: "flows", filter: filter(node.label) });
    dot.addEventListener("click", open);
    dot.addEventListener("keydown", (event) => event.key === "Enter" && open());
  }

  /** Places nodes; those that were there before stay about where they were. */
  #layout() {
    const key = (node) => `${node.kind} ${node.label}`;
    const nodes = this.data.nodes.map((node) => ({ ...node, ...this.#places.get(key(node)) }));
    const links = this.data.edges.map((edge) => ({ source: edge.client_node, target: edge.server_node, edge }));
    const known = nodes.filter((node) => node.x !== undefined).length;
    const simulation = forceSimulation(nodes)
      .force("link", forceLink(links).distance(110))
      .force("charge", forceManyBody().strength(-260).distanceMax(500))
      .force("collide", forceCollide(26))
      .force("x", forceX(0).strength(0.06))
      .force("y", forceY(0).strength((0.06 * SIZE[0]) / SIZE[1]))
      .stop();
    if (known > nodes.length / 2) simulation.alpha(0.1);
    simulation.tick(known === nodes.length ? 20 : STEPS);
    this.#places = new Map(nodes.map((node) => [key(node), { x: node.x, y: node.y }]));
    return { nodes, links };
  }

  #frame(nodes) {
    // Not larger than the screen: what is few stays small.
    const [wide, high] = [this.picture.clientWidth / 2, this.picture.clientHeight / 2];
    const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
    const [left, right, top, bottom] = [Math.min(...xs.map((x) => x - 30), -wide), Math.max(...xs.map((x) => x + 150), wide), Math.min(...ys.map((y) => y - 30), -high), Math.max(...ys.map((y) => y + 30), high)];
    return [left, top, right - left, bottom - top].map(Math.round);
  }
}
