// One connection with everything that is known of it.

import { json } from "./api.js";
import { element, endpoint, processes } from "./format.js";
import { change, current } from "./state.js";

export class Details {
  constructor() {
    this.dialog = document.getElementById("details");
    this.title = document.getElementById("details-title");
    this.body = document.getElementById("details-body");
    document.getElementById("details-close").addEventListener("click", () => this.dialog.close());
    this.dialog.addEventListener("close", () => change({ socket: "" }));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  async show() {
    const { socket, at } = current();
    if (!socket) return this.dialog.open && this.dialog.close();
    if (this.shown === socket + at && this.dialog.open) return;
    this.shown = socket + at;
    const [cookie, netns] = socket.split("@");
    this.title.textContent = "Connection";
    this.body.replaceChildren(element("p", {}, "Reading…"));
    if (!this.dialog.open) this.dialog.showModal();
    const filter = `cookie = ${cookie}${netns ? ` and netns = ${netns}` : ""}`;
    try {
      const found = (await json("/api/sockets", { filter, at, details: 1 })).sockets[0];
      if (current().socket !== socket) return;
      if (!found) this.body.replaceChildren(element("p", {}, at ? "This connection was not there." : "This connection is closed."));
      else this.#fill(found);
    } catch (error) {
      this.body.replaceChildren(element("p", { class: "bad" }, error.message));
    }
  }

  #fill(socket) {
    this.title.textContent = `${endpoint(socket.local)} – ${endpoint(socket.peer)}`;
    const summary = element("p", {}, `${socket.netid} ${socket.state}, ${processes(socket.owners)}`);
    this.body.replaceChildren(summary, ...sections(socket));
  }
}

/** Returns lists of names and values, one for each object in an object. */
export function sections(object, heading = "Socket") {
  const own = element("dl", {});
  const inner = [];
  for (const [key, value] of Object.entries(object)) {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) inner.push(...sections(value, key));
    else own.append(element("dt", {}, key), element("dd", {}, Array.isArray(value) ? value.map(inline).join(", ") : String(value)));
  }
  return own.children.length ? [element("h3", {}, heading), own, ...inner] : inner;
}

const inline = (value) => (value !== null && typeof value === "object" ? Object.entries(value).map(([key, one]) => `${key} ${one}`).join(" ") : String(value));
