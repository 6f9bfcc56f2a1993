// The timeline of memory and of what was recorded: a click, dragging or the buttons choose the moment that all views show.

import { json } from "./api.js";
import { byteRate, clock, duration, element, short, when } from "./format.js";
import { change, current } from "./state.js";
import { color, onTheme } from "./theme.js";
import { RANGES, shown } from "./window.js";

const SERIES = {
  rates: [["sent_bytes_per_s", "sent", byteRate], ["received_bytes_per_s", "received", byteRate]],
  connections: [["connections", "connections", short]],
  retrans: [["retrans_segs_per_s", "retransmits/s", short]],
  rtt: [["rtt_us_median", "round trip time", duration]],
};
const HEIGHT = 110;
// Time between two moments while the pointer is dragged.
const SCRUB_MS = 150;
// Time after which long ranges are read again.
const LONG_MS = 30_000;

/** A time on the axis. */
const tick = (us, { from, until }) => (until - from > RANGES["1d"] ? when(us).slice(5, 16) : clock(us));

export class Timeline {
  #chart;
  #data;
  #busy = false;
  #stale = false;
  #shown;
  #first;
  // How much the clock of the server is ahead of that of the browser.
  #ahead = 0;
  #scrubbed = 0;
  #refreshed = 0;

  constructor(onError) {
    this.onError = onError;
    this.node = document.getElementById("chart");
    this.select = document.getElementById("series");
    this.range = document.getElementById("range");
    document.getElementById("live").addEventListener("click", () => change({ at: "" }));
    document.getElementById("earlier").addEventListener("click", () => this.step(-1));
    document.getElementById("later").addEventListener("click", () => this.step(1));
    this.select.addEventListener("change", () => change({ series: this.select.value }));
    this.range.addEventListener("change", () => change({ range: this.range.value }));
    new ResizeObserver(() => this.#chart?.setSize({ width: this.node.clientWidth, height: HEIGHT })).observe(this.node);
    onTheme(() => this.#draw());
  }

  /** Shows the choice of the state, and asks for what is new. */
  async refresh() {
    const { at, series, range, filter } = current();
    document.getElementById("live").setAttribute("aria-pressed", at === "");
    this.select.value = series;
    this.range.value = range;
    if (this.#busy) {
      this.#stale = true;
      return;
    }
    this.#busy = true;
    this.#refreshed = performance.now();
    try {
      const now = Date.now() * 1000 + this.#ahead;
      this.#shown = shown({ range, at: at ? Number(at) : undefined, now, first: this.#first, before: this.#shown });
      const { from, until } = this.#shown;
      // Without an end it is what is now for the server.
      const document = await json("/api/timeline", { filter, from, until: until === now ? "" : until });
      this.#ahead = Date.parse(document.time) * 1000 - Date.now() * 1000;
      const isKnown = this.#first === document.recorded_from_us;
      this.#first = document.recorded_from_us;
      this.#data = columns(document);
      this.#draw();
      if (range === "all" && !isKnown) this.#stale = true;
    } catch (error) {
      this.onError(error.message);
    }
    this.#busy = false;
    if (this.#stale) {
      this.#stale = false;
      this.refresh();
    }
  }

  /** Shows the sample before or after. */
  async step(by) {
    const { at } = current();
    try {
      const { time_us } = await json("/api/step", { at, by });
      change({ at: time_us === undefined ? "" : String(time_us) });
    } catch (error) {
      this.onError(error.message);
    }
  }

  /** A sample came: a long time changes little by it. */
  tick() {
    const { range, at } = current();
    if (at || (range !== "15m" && performance.now() - this.#refreshed < LONG_MS)) return;
    this.refresh();
  }

  /** Moves by a tenth of what is shown. */
  leap(sign) {
    if (!this.#shown) return;
    const now = Date.now() * 1000 + this.#ahead;
    const at = Number(current().at || now) + (sign * (this.#shown.until - this.#shown.from)) / 10;
    change({ at: at >= now ? "" : String(Math.round(Math.max(at, this.#first ?? 0))) });
  }

  #draw() {
    const data = this.#data;
    if (!data || !window.uPlot) return;
    const lines = SERIES[current().series] ?? SERIES.rates;
    const rows = withGaps(data, lines.map(([key]) => key));
    const names = lines.map(([, name]) => name).join(",");
    const shape = names + color("--text");
    if (this.#chart && this.shape === shape) this.#chart.setData(rows);
    else {
      this.#chart?.destroy();
      this.shape = shape;
      this.#chart = new window.uPlot(this.#options(lines), rows, this.node);
    }
    this.#describe(lines);
  }

  #options(lines) {
    const strokes = [color("--accent"), color("--second")];
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const format = lines[0][2];
    return {
      width: this.node.clientWidth,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { setScale: false, x: false } },
      scales: { x: { range: () => this.#extent() }, y: { range: (_, low, high) => [0, Math.max((high ?? 0) * 1.08, 1)] } },
      series: [{}, ...lines.map(([, label], nth) => ({ label, stroke: strokes[nth], width: 1.5, points: { show: true, size: 3 } }))],
      axes: [{ ...axis, space: 90, size: 26, values: (_, times) => times.map((time) => tick(time * 1e6, this.#shown)) }, { ...axis, size: 62, values: (_, values) => values.map((value) => format(value)) }],
      hooks: {
        drawClear: [(chart) => this.#drawGaps(chart)],
        draw: [(chart) => this.#drawMarks(chart)],
        ready: [(chart) => this.#listen(chart)],
        setCursor: [(chart) => this.#tip(chart, lines)],
      },
    };
  }

  /** What the axis shows: not the time before anything is known. */
  #extent() {
    const { time_us: times } = this.#data;
    const first = Math.min(times[0] ?? Infinity, this.#first ?? Infinity);
    const end = Math.max(this.#shown.until, times.at(-1) ?? 0);
    // Where it begins is seen: before it there is a gap.
    const begin = Math.min(first - (end - first) / 20, end - 60e6, Number(current().at || Infinity) - (end - first) / 50);
    return [Math.max(this.#shown.from, begin) / 1e6, end / 1e6];
  }

  #listen(chart) {
    chart.over.addEventListener("click", () => this.#choose(chart));
    chart.over.addEventListener("pointermove", (event) => {
      if (!(event.buttons & 1) || event.timeStamp - this.#scrubbed < SCRUB_MS) return;
      this.#scrubbed = event.timeStamp;
      this.#choose(chart, true);
    });
  }

  #choose(chart, replace = false) {
    const times = this.#data.time_us;
    const us = chart.posToVal(chart.cursor.left, "x") * 1e6;
    if (!times.length || chart.cursor.left < 0) return;
    const nearest = times.reduce((best, time) => (Math.abs(time - us) < Math.abs(best - us) ? time : best));
    const isNear = Math.abs(chart.valToPos(nearest / 1e6, "x") - chart.cursor.left) < 4;
    const isLast = this.#shown.until >= times.at(-1) && us > times.at(-1) - 1e6 && !(current().at && this.#shown.until < Date.now() * 1000 + this.#ahead - 60e6);
    change({ at: isLast ? "" : String(Math.round(isNear ? nearest : us)) }, replace);
  }

  #drawGaps(chart) {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = color("--gap");
    for (const gap of this.#data.gaps) {
      const [from, to] = [gap.from_us, gap.to_us].map((us) => chart.valToPos(us / 1e6, "x", true));
      ctx.fillRect(from, bbox.top, Math.max(2, to - from), bbox.height);
    }
    ctx.restore();
  }

  #drawMarks(chart) {
    const { ctx, bbox } = chart;
    const tones = { critical: "--bad", warning: "--warn" };
    for (const check of this.#data.checks) {
      if (!check.finding_count || check.time_us < this.#data.time_us[0]) continue;
      ctx.fillStyle = color(tones[check.worst] ?? "--soft");
      ctx.fillRect(chart.valToPos(check.time_us / 1e6, "x", true) - 2, bbox.top, 4, 5);
    }
    const { at } = current();
    if (!at) return;
    ctx.fillStyle = color("--text");
    ctx.fillRect(chart.valToPos(Number(at) / 1e6, "x", true) - 1, bbox.top, 2, bbox.height);
  }

  #tip(chart, lines) {
    const at = chart.cursor.idx;
    const time = at === null || at === undefined ? undefined : chart.data[0][at];
    this.node.title = time === undefined ? "" : [clock(time * 1e6), ...lines.map(([, name, format], nth) => `${name} ${format(chart.data[nth + 1][at])}`)].join("\n");
  }

  /** The same in words, and the gaps with their reasons. */
  #describe(lines) {
    const { time_us: times, gaps } = this.#data;
    const last = lines.map(([key, name, format]) => `${name} ${format(this.#data[key].at(-1))}`).join(", ");
    this.node.setAttribute("aria-label", times.length ? `Timeline from ${when(times[0])} to ${when(times.at(-1))}: ${last}` : "Timeline without samples");
    const { checks } = this.#data;
    const check = checks.findLast((one) => !current().at || one.time_us <= Number(current().at));
    const badge = document.getElementById("finding-count");
    badge.hidden = !check?.finding_count;
    badge.textContent = check?.finding_count ?? "";
    document.getElementById("gaps").replaceChildren(
      ...gaps.slice(-3).map((gap) => element("span", { class: "gap" }, `gap ${when(gap.from_us)}–${when(gap.to_us)}: ${gap.reason}`)),
    );
  }
}

/** Returns the points as a list for each value; what is unknown is null. */
export function columns({ points, gaps, check_times: checks }) {
  const keys = ["time_us", ...Object.values(SERIES).flat().map(([key]) => key)];
  const lists = keys.map((key) => [key, points.map((point) => point[key] ?? null)]);
  return { ...Object.fromEntries(lists), gaps, checks };
}

/** Returns the columns for the chart, with a hole in each gap. */
export function withGaps(data, keys) {
  const lists = [data.time_us.map((us) => us / 1e6), ...keys.map((key) => [...data[key]])];
  for (const gap of data.gaps) {
    const middle = (gap.from_us + gap.to_us) / 2e6;
    const place = lists[0].findIndex((time) => time > middle);
    if (place <= 0) continue;
    lists[0].splice(place, 0, middle);
    for (const list of lists.slice(1)) list.splice(place, 0, null);
  }
  return lists;
}
