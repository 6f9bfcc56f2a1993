// The view of flows: a window of rows of one moment, live or kept.

import { Live, json } from "./api.js";
import { byteRate, duration, endpoint, processes, short } from "./format.js";
import { change, current } from "./state.js";
import { Table } from "./table.js";

const PAGE = 200;
const total = (name) => (flow) => flow.totals?.[name];
const rate = (name) => (flow) => flow.rates?.[name];
const column = (key, title, value, format, more = {}) => ({ key, title, sort: key, right: true, cell: (flow) => format(value(flow)), ...more });

const COLUMNS = [
  { key: "local", title: "Local", sort: "local", cell: (flow) => endpoint(flow.local) },
  { key: "direction", title: "", help: "Direction", sort: "direction", cell: (flow) => (flow.direction === "active" ? "→" : "←") },
  { key: "peer", title: "Peer", sort: "peer", cell: (flow) => endpoint(flow.peer) },
  { key: "owners", title: "Process", sort: "owners", minor: true, cell: (flow) => processes(flow.owners) },
  column("connections", "Conns", (flow) => flow.connections, short, { help: "Connections" }),
  column("sent_bytes_per_s", "Sent", rate("sent_bytes_per_s"), byteRate),
  column("received_bytes_per_s", "Received", rate("received_bytes_per_s"), byteRate),
  column("rtt_us_median", "RTT", total("rtt_us_median"), duration, { help: "Round trip time, median" }),
  column("retrans_segs_per_s", "Retrans/s", rate("retrans_segs_per_s"), short, { tone: (flow) => (rate("retrans_segs_per_s")(flow) > 0 ? "bad" : "") }),
  column("opened_per_s", "Opened/s", rate("opened_per_s"), short, { minor: true }),
  column("closed_per_s", "Closed/s", rate("closed_per_s"), short, { minor: true }),
];

/** Returns the filter that selects the connections of a flow. */
export function filterOf(flow) {
  const host = (side, end) => {
    if (!end?.ip) return undefined;
    const ip = end.ip.includes(":") ? `[${end.ip}]` : end.ip;
    return `${side} ${ip}${end.port === undefined ? "" : ":" + end.port}`;
  };
  const netns = flow.netns_inode === undefined ? undefined : `netns = ${flow.netns_inode}`;
  return [host("src", flow.local), host("dst", flow.peer), netns].filter(Boolean).join(" and ");
}

export class Flows {
  #pages = new Map();
  #abort = new AbortController();
  #live;
  #isRefused = false;
  #offset = 0;
  #moved;

  /** `onSample` is called with each sample, also while another view is shown. */
  constructor(parent, { onPage, onError }) {
    Object.assign(this, { onPage, onError, onSample: () => {} });
    this.table = new Table(parent, "Flows", COLUMNS, {
      onSort: ({ sort }) => change({ sort: current().sort === `-${sort}` ? sort : `-${sort}` }),
      onOpen: (flow) => change({ view: "sockets", filter: filterOf(flow) }),
      onMove: () => this.#move(),
    });
    // What is wrong with the stream does not matter to a moment of the past.
    this.#live = new Live((page) => this.#newest(page), (message) => current().at || this.#refuse(message));
  }

  /** Shows what the state says, from the first row on. */
  show() {
    this.table.markSort(current().sort);
    this.#forget();
    this.#offset = 0;
    this.table.body.scrollTop = 0;
    this.#listen();
    this.#fetch(0);
  }

  /** Another view is shown: of the samples only the first row is needed. */
  stop() {
    this.#forget();
    this.#offset = 0;
    this.#listen();
  }

  get #isShown() {
    return !(current().view in { map: 0, sockets: 0, findings: 0, fleet: 0 });
  }

  /** A stream that works takes back only what it said itself: the message may be that of another view. */
  #refuse(message) {
    if (message || this.#isRefused) this.onError(message);
    this.#isRefused = Boolean(message);
  }

  #forget() {
    this.#pages.clear();
    this.#abort.abort();
    this.#abort = new AbortController();
  }

  #listen() {
    const { filter, sort } = current();
    const fields = this.#isShown ? { filter, sort, offset: this.#offset, limit: 2 * PAGE } : { limit: 1 };
    this.#live.open(fields);
  }

  #newest(page) {
    if (this.#isShown && !current().at) {
      this.#forget();
      this.#add(page);
      this.onPage(page);
      this.#needed().forEach((nth) => this.#fetch(nth));
    }
    this.onSample(page);
  }

  #add(page) {
    const rows = page.document.flows;
    for (let from = 0; from === 0 || from < rows.length; from += PAGE) this.#pages.set((page.offset + from) / PAGE, rows.slice(from, from + PAGE));
    this.table.show({ total: page.flows_matching, row: (index) => this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE] });
  }

  #needed() {
    const [first, end] = this.table.range;
    const needed = [];
    for (let nth = Math.floor(first / PAGE); nth * PAGE < end; nth++) if (!this.#pages.has(nth)) needed.push(nth);
    return needed;
  }

  /** After scrolling: fetches what is missing, and has the samples follow. */
  #move() {
    clearTimeout(this.#moved);
    this.#moved = setTimeout(() => {
      if (!this.#isShown) return;
      const offset = Math.floor(this.table.range[0] / PAGE) * PAGE;
      this.#needed().forEach((nth) => this.#fetch(nth));
      if (offset === this.#offset) return;
      this.#offset = offset;
      this.#listen();
    }, 60);
  }

  async #fetch(nth) {
    const { filter, sort, at } = current();
    const { signal } = this.#abort;
    try {
      const page = await json("/api/flows", { filter, sort, at, offset: nth * PAGE, limit: PAGE }, signal);
      if (signal.aborted) return;
      this.#add(page);
      this.onPage(page);
    } catch (error) {
      if (signal.aborted) return;
      // Of a time of which nothing is known no rows of another one stay.
      if (at) this.table.show({ total: 0, row: () => undefined });
      this.onError(error.message);
    }
  }
}
