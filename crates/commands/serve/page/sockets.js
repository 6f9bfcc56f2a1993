// The view of connections: all that match the filter, now or at a recorded time, each with a row.

import { text } from "./api.js";
import { rows } from "./csv.js";
import { counted, duration, element, short, UNKNOWN, when } from "./format.js";
import { change, current } from "./state.js";
import { Table } from "./table.js";

const number = (value) => (value === "" ? undefined : Number(value));
const plain = (key, title, more = {}) => ({ key, title, sort: key, cell: (row) => row[key] || UNKNOWN, value: (row) => row[key], ...more });
const count = (key, title, format, more = {}) => ({ key, title, sort: key, right: true, cell: (row) => format(row[key]), value: (row) => row[key] ?? -1, ...more });

const COLUMNS = [
  plain("state", "State"),
  plain("local", "Local"),
  plain("peer", "Peer"),
  plain("owners", "Process", { minor: true }),
  count("recvq", "Recv-Q", short, { minor: true }),
  count("sendq", "Send-Q", short, { minor: true }),
  count("rtt", "RTT", duration),
  count("retrans", "Retrans", short, { help: "Segments sent again since the start", tone: (row) => (row.retrans > 0 ? "bad" : "") }),
  count("sent", "Sent", short, { minor: true }),
  count("received", "Received", short, { minor: true }),
];

/** Returns the rows of CSV that `sockets` writes. */
export function read(csv) {
  const found = [];
  let at;
  const lines = [];
  const header = rows(csv, (fields) => lines.push(fields));
  at = Object.fromEntries(header.map((name, place) => [name, place]));
  const end = (fields, side) => {
    const ip = fields[at[`${side}_ip`]];
    return ip ? `${ip.includes(":") ? `[${ip}]` : ip}:${fields[at[`${side}_port`]]}` : "";
  };
  for (const fields of lines) {
    const get = (name) => fields[at[name]] ?? "";
    found.push({
      state: get("state"),
      local: end(fields, "local"),
      peer: end(fields, "peer"),
      owners: get("owners"),
      recvq: number(get("recv_queue_bytes")),
      sendq: number(get("send_queue_bytes")),
      rtt: number(get("rtt_us")),
      retrans: number(get("total_retrans_segs")),
      sent: number(get("bytes_acked")),
      received: number(get("bytes_received")),
      cookie: get("cookie"),
      netns: get("netns_inode"),
    });
  }
  return found;
}

/** What the rows depend on. */
const asked = () => JSON.stringify([current().filter, current().at]);

export class Sockets {
  #rows = [];
  #sort = "-sent";
  #asked;
  #abort = new AbortController();

  constructor(parent, { onStatus, onError }) {
    Object.assign(this, { onStatus, onError });
    const refresh = element("button", { type: "button" }, "Read again");
    refresh.addEventListener("click", () => this.load());
    this.taken = element("span", {});
    parent.append(element("div", { class: "bar" }, refresh, this.taken));
    this.table = new Table(parent, "Connections", COLUMNS, {
      onSort: (column) => this.#order(this.#sort === `-${column.sort}` ? column.sort : `-${column.sort}`),
      onOpen: (row) => change({ socket: row.netns ? `${row.cookie}@${row.netns}` : row.cookie }),
    });
  }

  show() {
    if (this.#asked !== asked()) this.load();
    else this.onStatus(this.#line());
  }

  stop() {}

  async load() {
    const { filter, at } = current();
    this.#asked = asked();
    this.#abort.abort();
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    this.onStatus("Reading connections…");
    try {
      const csv = await text("/api/sockets", { filter, at }, signal);
      this.#rows = read(csv);
      this.taken.textContent = `as of ${when(at ? Number(at) : Date.now() * 1000)}`;
      this.#order(this.#sort);
      this.onError("");
      this.onStatus(this.#line());
    } catch (error) {
      if (signal.aborted) return;
      this.#asked = undefined;
      this.#rows = [];
      this.table.show({ total: 0, row: () => undefined }, true);
      this.taken.textContent = "";
      this.onStatus("");
      this.onError(error.message);
    }
  }

  #line() {
    return counted(this.#rows.length, "connection");
  }

  #order(sort) {
    this.#sort = sort;
    const column = COLUMNS.find(({ sort: name }) => name === sort.replace(/^-/, ""));
    const sign = sort.startsWith("-") ? -1 : 1;
    const values = new Map(this.#rows.map((row) => [row, column.value(row)]));
    const compare = (a, b) => (a < b ? -sign : a > b ? sign : 0);
    this.#rows.sort((a, b) => compare(values.get(a), values.get(b)));
    this.table.markSort(sort);
    this.table.show({ total: this.#rows.length, row: (index) => this.#rows[index] }, true);
  }
}
