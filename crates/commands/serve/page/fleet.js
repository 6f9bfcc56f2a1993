// The view of many hosts: which services, or hosts, use which, as both ends of each edge recorded it. Width: the root of bytes; dashes: one end sent
// nothing.

import { json } from "./api.js";
import { counted, duration, element, short, when } from "./format.js";
import { Graph } from "./graph.js";
import { choice, tone, widths } from "./map.js";
import { change, current } from "./state.js";
import { onTheme } from "./theme.js";
import { RANGES } from "./window.js";

// The longest time that the tables keep, for a range without an end.
const ALL_US = 400 * 86400e6;
// Bytes of a full segment on Ethernet: the share of segments that were sent again is not sent itself.
const SEGMENT = 1448;

const bytes = (edge) => edge.request_bytes + edge.response_bytes;
const lost = (edge) => (bytes(edge) ? (edge.retrans_segs * SEGMENT) / bytes(edge) : edge.retrans_segs ? 1 : 0);
const seen = (edge) => (edge.pairs_of_both === edge.pairs ? "seen by both ends" : edge.pairs_of_both ? `${edge.pairs - edge.pairs_of_both} of ${edge.pairs} pairs one-sided` : "one-sided");

function inWords(edge) {
  return `port ${edge.port}, ${counted(short(edge.connections_max), "connection")}, ${short(edge.request_bytes)}B there, ${short(edge.response_bytes)}B back, ${counted(short(edge.retrans_segs), "retransmit")}, rtt ${duration(edge.rtt_us_mean)}, ${seen(edge)}`;
}

/** A node shows its edges alone. */
function open({ label }) {
  if (/["\s()=!]/.test(label) || label === "other") return undefined;
  const isAddress = /^[0-9.]+$|:/.test(label);
  const word = isAddress ? "address" : current().nodes;
  return () => change({ edges: `${word} = ${label}` });
}

export class FleetMap {
  #abort = new AbortController();

  constructor(parent, { onStatus, onError }) {
    Object.assign(this, { onStatus, onError });
    const bar = element("div", { class: "bar" },
      ...choice(this, "fleet-nodes", "nodes", "Nodes", { service: "services", host: "hosts" }),
      ...choice(this, "fleet-color", "color", "Colour", { retrans: "retransmits", rtt: "round trip time" }));
    this.filter = element("input", { id: "fleet-filter", type: "text", spellcheck: "false", autocapitalize: "off", autocomplete: "off", placeholder: "port = 5432 and not host = web1" });
    const form = element("form", { class: "fleet-filter" }, element("label", { for: "fleet-filter" }, "Edges"), this.filter, element("button", { type: "submit" }, "Apply"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      change({ edges: this.filter.value.trim() });
    });
    this.legend = element("span", { class: "legend" });
    bar.append(form, this.legend);
    parent.append(bar);
    this.graph = new Graph(parent, "Map of many hosts");
    onTheme(() => current().view === "fleet" && this.#draw());
  }

  async show() {
    const { at, range, edges, nodes, color } = current();
    [this.nodes.value, this.color.value, this.filter.value] = [nodes, color, edges];
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    const until = at ? Number(at) : undefined;
    const from = Math.round(Math.max(0, (until ?? Date.now() * 1000) - (RANGES[range] ?? ALL_US)));
    try {
      const data = await json("/api/fleet/map", { by: nodes, filter: edges, from, until }, signal);
      this.data = data;
      this.#draw();
      this.onError("");
      const cut = data.is_cut ? "; others with fewer bytes are left out" : "";
      this.onStatus(`${counted(data.nodes.length, nodes)}, ${counted(data.edges.length, "edge")} from ${when(data.from_us)} to ${when(data.to_us)}${cut}`);
    } catch (error) {
      if (signal.aborted) return;
      this.data = undefined;
      this.graph.clear();
      this.onStatus("");
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
    const { nodes, edges } = this.data;
    const { width, most } = widths(edges.map(bytes));
    const tones = byTime ? "green below 10 ms, yellow below 100 ms, red above" : "green below 0.1 % of the bytes, yellow below 1 %, red above";
    this.legend.textContent = `${tones}; width: root of bytes, up to ${short(most)}B; dashes: one end sent nothing`;
    // Who sends no rows has an address for a name.
    const isSeen = new Set(edges.filter((edge) => edge.pairs_of_both).flatMap((edge) => [nodes[edge.client_node].label, nodes[edge.server_node].label]));
    this.graph.draw(this.data, {
      width: (edge) => width(bytes(edge)),
      tone: (edge) => (byTime ? tone(edge.rtt_us_mean, [10_000, 100_000]) : tone(lost(edge), [0.001, 0.01])),
      dashed: (edge) => edge.pairs_of_both < edge.pairs,
      words: inWords,
      isMinor: (node) => !isSeen.has(node.label),
      open,
    });
  }
}
