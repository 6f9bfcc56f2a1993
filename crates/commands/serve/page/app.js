// Starts the page: which view is shown, the filter, the timeline, downloads and keys.

import { json, url } from "./api.js";
import { Details } from "./details.js";
import { Findings } from "./findings.js";
import { FleetMap } from "./fleet.js";
import { Flows } from "./flows.js";
import { counted, when } from "./format.js";
import { ServiceMap } from "./map.js";
import { Sockets } from "./sockets.js";
import { change, current, link, onChange } from "./state.js";
import { Timeline } from "./timeline.js";

const $ = (id) => document.getElementById(id);
const say = (text) => ($("status").textContent = text);

const timeline = new Timeline(refuse);
const details = new Details();
const views = {
  flows: new Flows($("view-flows"), {
    onPage: (page) => {
      refuse("");
      say(flowsLine(page));
      if (current().at) $("moment").textContent = when(page.time_us);
    },
    onError: (message) => {
      refuse(message);
      // Of a time of which nothing is known, nothing is counted.
      if (message && current().at) say("");
    },
  }),
  map: new ServiceMap($("view-map"), { onStatus: say, onError: refuse }),
  sockets: new Sockets($("view-sockets"), { onStatus: say, onError: refuse }),
  findings: new Findings($("view-findings"), { onStatus: say }),
  fleet: new FleetMap($("view-fleet"), { onStatus: say, onError: refuse }),
};

function refuse(message) {
  $("filter-error").textContent = message;
  $("filter-error").hidden = !message;
  $("filter").setAttribute("aria-invalid", Boolean(message) && !current().at);
}

function flowsLine(page) {
  const of = page.flows_matching === page.flows_total ? "" : ` of ${page.flows_total}`;
  const undecided = page.flows_undecided ? `; ${counted(page.flows_undecided, "other")} may have connections that match: the view of connections tests each` : "";
  return of ? `${page.flows_matching}${of} flows${undecided}` : `${counted(page.flows_matching, "flow")}${undecided}`;
}

function show(state, before) {
  document.querySelectorAll("nav [data-view]").forEach((tab) => {
    tab.href = link({ view: tab.dataset.view, socket: "" });
    tab.dataset.view === state.view ? tab.setAttribute("aria-current", "page") : tab.removeAttribute("aria-current");
  });
  // It is about connections of this host.
  $("filter-form").hidden = state.view === "fleet";
  for (const name of Object.keys(views)) $(`view-${name}`).hidden = name !== state.view;
  if (!before || before.filter !== state.filter) $("filter").value = state.filter;
  downloads(state);
  details.show();
  const changed = (...keys) => !before || keys.some((key) => before[key] !== state[key]);
  // What another view said is not about this one.
  if (before && changed("view")) {
    refuse("");
    say("");
  }
  if (changed("view")) for (const name of Object.keys(views)) if (name !== state.view && (name === before?.view || name === "flows")) views[name].stop();
  if (changed("view", "filter", "sort", "at", "by", "color") || (state.view === "fleet" && changed("range", "nodes", "edges"))) (views[state.view] ?? views.flows).show();
  if (state.at && changed("at")) $("moment").textContent = when(Number(state.at));
  if (changed("filter", "at", "series", "range")) timeline.refresh();
}

function downloads({ view, filter, sort, at }) {
  const files = {
    flows: { json: ["/api/flows", { filter, sort, at, download: "json" }], csv: ["/api/flows", { filter, sort, at, download: "csv" }] },
    sockets: { json: ["/api/sockets", { filter, at, download: "json" }], csv: ["/api/sockets", { filter, at, download: "csv" }] },
    findings: { json: ["/api/findings", { at }] },
    fleet: {},
    map: { json: ["/api/map", { filter, at, by: current().by }] },
  }[view] ?? {};
  for (const format of ["json", "csv"]) {
    const place = $(`download-${format}`);
    place.hidden = !files[format];
    if (files[format]) place.href = url(...files[format]);
    place.download = `${view}.${format}`;
  }
  $("download-svg").hidden = !views[view]?.svg;
}

$("download-svg").addEventListener("click", (event) => {
  const picture = views[current().view].svg?.();
  if (!picture) return event.preventDefault();
  const file = URL.createObjectURL(new Blob([picture], { type: "image/svg+xml" }));
  Object.assign($("download-svg"), { href: file, download: `${current().view}.svg` });
  setTimeout(() => URL.revokeObjectURL(file), 10_000);
});

$("filter-form").addEventListener("submit", (event) => {
  event.preventDefault();
  change({ filter: $("filter").value.trim() });
});

addEventListener("keydown", (event) => {
  if (event.target.closest("input, select, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
  const act = { "/": () => $("filter").focus(), "[": () => timeline.step(-1), "]": () => timeline.step(1), "{": () => timeline.leap(-1), "}": () => timeline.leap(1), l: () => change({ at: "" }) }[event.key];
  const view = { 1: "flows", 2: "map", 3: "sockets", 4: "findings", 5: hasFleet && "fleet" }[event.key];
  if (!act && !view) return;
  event.preventDefault();
  act ? act() : change({ view });
});

// One stream for the whole page: each sample moves what is live.
views.flows.onSample = (page) => {
  $("host").textContent = page.document.host ?? "";
  if (current().at) return;
  $("moment").textContent = when(page.time_us);
  timeline.tick();
  if (["map", "findings"].includes(current().view)) views[current().view].show();
};

let hasFleet = false;
json("/api/fleet").then((found) => {
  hasFleet = found !== undefined;
  document.querySelector("nav [data-view=fleet]").hidden = !hasFleet;
});

onChange(show);
show(current());
document.body.dataset.ready = "";
