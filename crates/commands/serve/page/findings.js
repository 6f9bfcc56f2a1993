// The view of findings: what is wrong, how that is known, what to do.

import { json } from "./api.js";
import { clock, counted, element, endpoint, processes, when } from "./format.js";
import { change, current } from "./state.js";
import { sections } from "./details.js";

export class Findings {
  constructor(parent, { onStatus }) {
    this.onStatus = onStatus;
    this.list = element("div", { class: "findings" });
    parent.append(this.list);
  }

  async show() {
    const { at } = current();
    try {
      const document = await json("/api/findings", { at });
      if (current().view !== "findings") return;
      if (!document) throw new Error("Nothing was checked yet.");
      const checked = document.checked_us;
      const key = checked ?? document.time;
      if (this.shown !== key) this.list.replaceChildren(...this.#cards(document));
      this.shown = key;
      this.onStatus(`${counted(document.findings.length, "finding")}, checked at ${checked === undefined ? clock(Date.parse(document.time) * 1000) : when(checked)}`);
    } catch (error) {
      this.shown = undefined;
      this.list.replaceChildren(element("p", { class: "empty" }, error.message));
      this.onStatus("");
    }
  }

  stop() {}

  #cards(document) {
    const isRecorded = document.type === "recorded_findings";
    const cards = document.findings.map((finding) => card(isRecorded ? recorded(finding) : finding));
    if (!cards.length) cards.push(element("p", { class: "empty" }, "Nothing is wrong, as far as it was judged."));
    const gaps = document.not_judged ?? [];
    if (gaps.length) cards.push(element("article", {}, element("h2", {}, "Not judged"), element("ul", {}, ...gaps.map((gap) => element("li", {}, gap.text, gap.remedy ? ` – ${gap.remedy}` : "")))));
    return cards;
  }
}

/** A recorded finding in the form of those of now: it is kept in words, and over its time. */
function recorded(finding) {
  const { about, comm, pid, example } = finding;
  return { ...finding, subject: { kind: about, counter: about.match(/^(Tcp|Udp|Ip|Icmp|Mptcp|Sctp)[A-Za-z0-9]+$/)?.[0] }, about, owners: pid === undefined ? [] : [{ pid, comm }], examples: example ? [example] : [] };
}

/** When a recorded finding was there. */
function lasted({ from_us, to_us, last_seen_us, state }) {
  if (from_us === undefined) return [];
  const end = { ended: () => `not found any more at ${when(to_us)}`, there: () => `last found at ${when(last_seen_us)}` }[state] ?? (() => `last found at ${when(last_seen_us)}, then nothing was recorded`);
  return [element("p", { class: "lasted" }, `First found at ${when(from_us)}, ${end()}. The evidence is that of the check in which it was worst.`)];
}

function card(finding) {
  const owner = finding.owners?.length ? ` – ${processes(finding.owners)}` : "";
  const head = element("h2", {}, element("span", { class: "severity", "data-severity": finding.severity }, finding.severity), ` ${finding.rule}: ${finding.about ?? subject(finding.subject)}${owner}`);
  const parts = [head, element("p", {}, finding.meaning), ...lasted(finding)];
  const evidence = element("details", {}, element("summary", {}, `Evidence${finding.sockets ? ` (${counted(finding.sockets, "socket")})` : ""}`), ...sections(finding.facts ?? {}, "facts"));
  for (const example of finding.examples ?? []) {
    evidence.append(element("p", { class: "mono" }, typeof example === "string" ? example : `${example.state} ${endpoint(example.local)} – ${endpoint(example.peer)}`));
  }
  parts.push(evidence);
  if (finding.remedies?.length) {
    parts.push(element("h3", {}, "Remedy"), element("ul", {}, ...finding.remedies.map((one) => element("li", {}, one.command ? element("code", {}, one.command) : one.advice))));
  }
  parts.push(element("p", { class: "actions" }, ...connections(finding), explanation(finding)));
  return element("article", {}, ...parts);
}

function subject(of) {
  const known = of.counter ?? of.device ?? of.table ?? of.ip;
  if (of.local && of.peer) return `${endpoint(of.local)} – ${endpoint(of.peer)}`;
  return of.local ? endpoint(of.local) : (known ?? of.kind);
}

function connections(finding) {
  if (!finding.owners?.length) return [];
  const button = element("button", { type: "button" }, "Its connections");
  button.addEventListener("click", () => change({ view: "sockets", filter: `pid = ${finding.owners[0].pid}` }));
  return [button];
}

/** A button that shows what the dictionary says. */
function explanation(finding) {
  const text = finding.subject.counter ?? finding.rule;
  const place = element("div", { class: "explanation", "aria-live": "polite" });
  const button = element("button", { type: "button" }, `Explain ${text}`);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const { entries, near } = await json("/api/explain", { text });
      place.replaceChildren(...(entries.length ? entries : near).slice(0, 3).flatMap(entry));
    } catch (error) {
      place.replaceChildren(element("p", {}, error.message));
    }
    place.focus();
  });
  return element("span", {}, button, place);
}

function entry(of) {
  const list = (title, items) => (items?.length ? [element("h4", {}, title), element("ul", {}, ...items.map((item) => element("li", {}, item)))] : []);
  return [element("h3", {}, of.name), element("p", {}, of.meaning ?? ""), ...list("Causes", of.causes), ...list("Checks", of.checks), ...list("Remedies", of.remedies)];
}
