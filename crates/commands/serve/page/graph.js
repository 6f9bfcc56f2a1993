// Draws nodes and what goes between them. A list has the same for readers.

import { element } from "./format.js";
import { color } from "./theme.js";
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

const colors = () => Object.fromEntries(["good", "warn", "bad", "soft", "text", "back", "second"].map((name) => [name, color(`--${name}`)]));

/** A line; a curve for each further one between the same nodes; a loop for a node that talks to itself. */
function path({ source, target, nth }) {
  const [x, y] = [source.x.toFixed(1), source.y.toFixed(1)];
  if (source === target) return `M${x},${y}c${-50 - 14 * nth},${-40 - 10 * nth} ${-50 - 14 * nth},${40 + 10 * nth} 0,0`;
  const end = `${target.x.toFixed(1)},${target.y.toFixed(1)}`;
  if (!nth) return `M${x},${y}L${end}`;
  const [dx, dy] = [target.x - source.x, target.y - source.y];
  const off = (28 * nth) / (Math.hypot(dx, dy) || 1);
  return `M${x},${y}Q${((source.x + target.x) / 2 - dy * off).toFixed(1)},${((source.y + target.y) / 2 + dx * off).toFixed(1)} ${end}`;
}

/**
 * style: { width(edge), tone(edge) -> name of a colour, dashed(edge), words(edge), isMinor(node), open(node) -> function or undefined }
 */
export class Graph {
  #places = new Map();

  constructor(parent, label) {
    this.label = label;
    this.picture = element("div", { class: "picture" });
    this.list = element("ul", { class: "edges" });
    parent.append(this.picture, element("details", { class: "as-list" }, element("summary", {}, "As a list"), this.list));
  }

  clear() {
    this.picture.replaceChildren();
    this.list.replaceChildren();
  }

  /** The picture as a file. */
  svg() {
    return this.picture.firstChild && new XMLSerializer().serializeToString(this.picture.firstChild);
  }

  draw(data, style) {
    const paint = colors();
    const { nodes, links } = this.#layout(data);
    const words = ({ source, target, edge }) => `${source.label} → ${target.label}: ${style.words(edge)}`;
    const lines = links.map((link) => {
      const dash = style.dashed?.(link.edge) ? { "stroke-dasharray": "7 6" } : {};
      const line = shape("path", { d: path(link), fill: "none", stroke: paint[style.tone(link.edge)], "stroke-width": style.width(link.edge), "stroke-opacity": 0.75, "stroke-linecap": "butt", ...dash });
      line.append(shape("title", {}, words(link)));
      return line;
    });
    const dots = nodes.map((node) => {
      const isMinor = style.isMinor(node);
      const dot = shape("g", { transform: `translate(${node.x},${node.y})` }, shape("circle", { r: isMinor ? 6 : 9, fill: isMinor ? paint.soft : paint.second }),
        shape("text", { x: 12, y: 4, "font-size": 13, "font-family": "system-ui, sans-serif", fill: paint.text, stroke: paint.back, "stroke-width": 3, "paint-order": "stroke" }, node.label));
      const open = style.open(node);
      if (open) makeLink(dot, node.label, open);
      return dot;
    });
    this.picture.replaceChildren(shape("svg", { xmlns: SVG, viewBox: this.#frame(nodes).join(" "), role: "group", "aria-label": this.label }, ...lines, ...dots));
    this.list.replaceChildren(...links.map((link) => element("li", {}, words(link))));
  }

  /** Places nodes; those that were there before stay about where they were. */
  #layout(data) {
    const key = (node) => `${node.kind} ${node.label}`;
    const nodes = data.nodes.map((node) => ({ ...node, ...this.#places.get(key(node)) }));
    const seen = new Map();
    const links = data.edges.map((edge) => {
      const ends = `${edge.client_node} ${edge.server_node}`;
      const nth = seen.get(ends) ?? 0;
      seen.set(ends, nth + 1);
      return { source: edge.client_node, target: edge.server_node, edge, nth };
    });
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

function makeLink(dot, label, open) {
  dot.setAttribute("tabindex", "0");
  dot.setAttribute("role", "link");
  dot.setAttribute("aria-label", label);
  dot.addEventListener("click", open);
  dot.addEventListener("keydown", (event) => event.key === "Enter" && open());
}
