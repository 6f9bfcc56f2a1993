"use strict";
(async () => {
  const $ = (id) => document.getElementById(id);
  const head = JSON.parse($("head").textContent);
  const canvas = $("graph"), pen = canvas.getContext("2d"), tip = $("tip");

  // --- Points: columns of numbers, as packed differences from the one before.
  let bytes, at = 0;
  try {
    const text = atob($("points").textContent.trim());
    const packed = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  } catch (error) {
    $("error").hidden = false;
    $("error").textContent = "This browser cannot unpack the points (" + error + ").";
    return;
  }
  $("points").textContent = "";
  const number = () => {
    let value = 0, worth = 1;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * worth;
      if (byte < 128) return value;
      worth *= 128;
    }
  };
  const signed = () => {
    const value = number();
    return value % 2 ? -(value + 1) / 2 : value / 2;
  };
  const column = (count, read) => {
    const values = new Float64Array(count);
    for (let i = 0; i < count; i++) values[i] = read(i, i ? values[i - 1] : 0);
    return values;
  };
  const rising = (count) => column(count, (i, before) => before + number());
  const moving = (count) => column(count, (i, before) => before + signed());
  const plain = (count) => column(count, number);

  // --- Numbers in words
  const units = {
    // Minutes from three on, hours and days likewise
    time: [[864e11, "d", 3], [36e11, "h", 3], [6e10, "min", 3], [1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]],
    bytes: [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "KB"], [1, "B"]],
    rate: [[1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "Kbit/s"], [1, "bit/s"]],
  };
  const unitOf = (quantity, high) => units[quantity].find(([worth, , least]) => high >= worth * (least || 1)) || units[quantity].at(-1);
  const say = (quantity, value) => {
    const [worth, name] = unitOf(quantity, Math.abs(value));
    return +(value / worth).toPrecision(4) + name;
  };

  const directions = head.directions.map((direction) => {
    const n = direction.counts;
    const time = rising(n.segments), gap = column(n.segments, signed), len = plain(n.segments);
    const flags = Uint16Array.from({ length: n.segments }, number), frame = moving(n.segments);
    const start = new Float64Array(n.segments), sent = new Float64Array(n.segments + 1);
    const odd = [];
    for (let i = 0, end = 0; i < n.segments; i++) {
      start[i] = end + gap[i];
      end = start[i] + len[i];
      sent[i + 1] = sent[i] + len[i];
      if (flags[i] & head.odd) odd.push(i);
    }
    const acks = { time: rising(n.acks), value: moving(n.acks) };
    const isDuplicate = Uint8Array.from({ length: n.acks }, number);
    const duplicates = { time: acks.time.filter((_, i) => isDuplicate[i]), value: acks.value.filter((_, i) => isDuplicate[i]) };
    acks.up = new Float64Array(n.acks + 1);
    for (let i = 0, top = acks.value[0] || 0; i < n.acks; i++) {
      acks.up[i + 1] = acks.up[i] + Math.max(0, acks.value[i] - top);
      top = Math.max(top, acks.value[i]);
    }
    const windows = { time: rising(n.windows), value: moving(n.windows) };
    const marks = { time: rising(n.marks), seq: moving(n.marks), len: plain(n.marks), kind: Uint8Array.from({ length: n.marks }, number) };
    const flight = { time: rising(n.in_flight), value: moving(n.in_flight) };
    const rtt = { time: rising(n.rtt), value: moving(n.rtt) };
    const announced = { time: windows.time, value: new Float64Array(n.windows) };
    for (let i = 0, k = 0, top = 0; i < n.windows; i++) {
      while (k < n.acks && acks.time[k] <= windows.time[i]) top = Math.max(top, acks.value[k++]);
      announced.value[i] = Math.max(0, windows.value[i] - top);
    }
    const seg = { time, start, len, flags, frame, sent, odd };
    const estimates = { time: rising(n.estimates), lasts: plain(n.estimates), value: moving(n.estimates) };
    const fields = { time: rising(n.events), lasts: plain(n.events), frame: moving(n.events), kind: plain(n.events), number: plain(n.events), why: plain(n.events) };
    const events = Array.from(fields.time, (time, i) => {
      const { word, name, paint } = head.kinds[fields.kind[i]];
      const value = word === "loss_burst" ? fields.number[i] : say("time", fields.lasts[i]);
      const many = word !== "loss_burst" && fields.number[i] > 1 ? ` (${fields.number[i]} segments)` : "";
      return { time, until: time + fields.lasts[i], frame: fields.frame[i], kind: word, base: name.includes("{}") ? word.replaceAll("_", " ") : name, name: name.replace("{}", value) + many, paint, evidence: head.evidence[fields.why[i]] };
    });
    return { ...direction, seg, sizes: { time, value: len }, duplicates, estimates, events, spans: events.filter((event) => event.until > event.time).sort((a, b) => (a.kind === "window_closed") - (b.kind === "window_closed")), acks, windows, marks, flight, rtt, announced };
  });
  bytes = null;

  // --- What is looked at
  const whole = [head.from, Math.max(head.to, head.from + 1)], last = whole[1];
  // What begins or ends with the data is not drawn upon the axis.
  const margin = (whole[1] - whole[0]) * 0.01;
  whole[0] -= margin;
  whole[1] += margin;
  const state = { view: [...whole], chosen: null, hover: null, select: null, panels: [], off: new Set() };
  const least = Math.max(10, (whole[1] - whole[0]) / 1e9);
  const show = (from, to) => {
    const span = Math.min(Math.max(to - from, least), whole[1] - whole[0]);
    const middle = (from + to) / 2;
    from = Math.min(Math.max(middle - span / 2, whole[0]), whole[1] - span);
    state.view = [from, from + span];
    drawSoon();
  };
  const zoom = (factor, around = (state.view[0] + state.view[1]) / 2) => {
    const [from, to] = state.view;
    show(around - (around - from) * factor, around + (to - around) * factor);
  };
  const move = (share) => {
    const by = (state.view[1] - state.view[0]) * share;
    show(state.view[0] + by, state.view[1] + by);
  };

  const ticks = (low, high, quantity, wanted) => {
    const [worth, name] = unitOf(quantity, Math.max(Math.abs(low), Math.abs(high)));
    const rough = (high - low) / worth / Math.max(1, wanted);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5].find((factor) => factor * power >= rough * 0.999999) || 10);
    const digits = Math.min(9, Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
    const found = [];
    for (let k = Math.ceil(low / worth / step); k * step * worth <= high && found.length < 60; k++)
      found.push([k * step * worth, k === 0 ? "0" : (k * step).toFixed(digits) + name]);
    return found;
  };
  // A text that is too long for its space ends with dots.
  const fitted = (text, width) => {
    if (pen.measureText(text).width <= width) return text;
    let end = text.length;
    while (end > 0 && pen.measureText(text.slice(0, end) + "…").width > width) end--;
    return end ? text.slice(0, end) + "…" : "";
  };
  const seconds = (time) => (time / 1e9).toFixed(6) + " s";

  // --- Drawing
  const from = (times, time) => {
    let low = 0, high = times.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const kinds = { data: "da", probe: "pr", reordered: "oo", spurious: "sp", again: "re" };
  const kindOf = (flags) => {
    const f = head.flags;
    if (flags & f.spurious) return "spurious";
    if (flags & f.again) return "again";
    if (flags & f.reordered) return "reordered";
    return flags & f.probe ? "probe" : "data";
  };
  let colors = {};
  const LEFT = 84, RIGHT = 14;
  // Kept, since asking the document for each of a million points takes seconds.
  let plot = canvas.clientWidth - LEFT - RIGHT;
  const x = (time) => LEFT + ((time - state.view[0]) / (state.view[1] - state.view[0])) * plot;
  const timeAt = (px) => state.view[0] + ((px - LEFT) / plot) * (state.view[1] - state.view[0]);

  let isWaiting = false;
  // Once a frame, however many events there are.
  const drawSoon = () => {
    if (isWaiting) return;
    isWaiting = true;
    requestAnimationFrame(draw);
  };
  const draw = () => {
    isWaiting = false;
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
    plot = width - LEFT - RIGHT;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const style = getComputedStyle(document.documentElement);
    for (const name of head.paints) colors[name] = style.getPropertyValue("--" + name).trim();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colors.pg;
    pen.fillRect(0, 0, width, height);
    pen.font = "11px system-ui,sans-serif";
    lay(height);
    for (const panel of state.panels) drawPanel(panel, width);
    drawTime(width, height);
    if (state.select) {
      pen.fillStyle = colors.da;
      pen.globalAlpha = 0.18;
      pen.fillRect(Math.min(...state.select), 0, Math.abs(state.select[1] - state.select[0]), height);
      pen.globalAlpha = 1;
    }
    $("range").textContent = seconds(Math.max(0, state.view[0])) + " to " + seconds(Math.min(last, state.view[1])) + ", " + say("time", state.view[1] - state.view[0]);
  };

  const lay = (height) => {
    const wanted = [];
    for (const direction of directions)
      for (const name of head.panels) if (!state.off.has(name)) wanted.push({ direction, name, share: name === "sequence" ? 3.2 : 1 });
    const total = wanted.reduce((sum, panel) => sum + panel.share, 0) || 1;
    const room = height - 34 - wanted.length * 22;
    let top = 0;
    for (const panel of wanted) {
      panel.top = top + 20;
      panel.height = Math.max(24, (room * panel.share) / total);
      top = panel.top + panel.height + 2;
    }
    state.panels = wanted;
  };

  // Of many points those that can be seen: of each of so many cells of time the first, lowest, highest and last; of bars
  // the stretches that they cover. Made when they are first needed, and kept.
  const CELLS = [1 << 13, 1 << 17], MANY = 30000;
  const cells = (times, count, each) => {
    const wide = (whole[1] - whole[0]) / count;
    for (let i = 0; i < times.length; ) {
      const until = whole[0] + (Math.floor((times[i] - whole[0]) / wide) + 1) * wide;
      let end = i + 1;
      while (end < times.length && times[end] < until) end++;
      each(i, end);
      i = end;
    }
  };
  const fewer = ({ time, value }, count) => {
    const few = { time: [], value: [] };
    cells(time, count, (first, end) => {
      let low = first, high = first;
      for (let i = first; i < end; i++) {
        if (value[i] < value[low]) low = i;
        if (value[i] > value[high]) high = i;
      }
      let before = -1;
      for (const i of [first, Math.min(low, high), Math.max(low, high), end - 1]) {
        if (i === before) continue;
        few.time.push(time[i]);
        few.value.push(value[i]);
        before = i;
      }
    });
    return few;
  };
  const fewerBars = ({ time, start, len, flags }, count) => {
    const few = { time: [], start: [], len: [] };
    cells(time, count, (first, end) => {
      let low = 0, high = -1;
      const flush = () => {
        if (high < low) return;
        few.time.push(time[first]);
        few.start.push(low);
        few.len.push(high - low);
      };
      for (let i = first; i < end; i++) {
        if (flags[i] & head.odd) continue;
        const from = start[i], to = from + len[i];
        if (from <= high && to >= low) {
          low = Math.min(low, from);
          high = Math.max(high, to);
          continue;
        }
        flush();
        [low, high] = [from, to];
      }
      flush();
    });
    return few;
  };
  const seen = (line, reduce) => {
    if (line.time.length < MANY) return line;
    const zoom = (whole[1] - whole[0]) / (state.view[1] - state.view[0]);
    const count = CELLS.find((count) => count >= 2 * plot * zoom);
    if (!count) return line;
    line.levels = line.levels || {};
    return line.levels[count] || (line.levels[count] = reduce(line, count));
  };

  const range = (times) => [Math.max(0, from(times, state.view[0]) - 1), Math.min(times.length, from(times, state.view[1]) + 1)];
  const extremes = (low, high, values, [first, last], more) => {
    for (let i = first; i < last; i++) {
      const value = values[i], top = more ? value + more[i] : value;
      if (value < low) low = value;
      if (top > high) high = top;
    }
    return [low, high];
  };
  // At its beginning the connection has not lasted for a whole span.
  const rate = (times, sums, time, span, begin) => time <= begin ? 0 : ((sums[from(times, time)] - sums[from(times, time - span)]) * 8e9) / Math.max(span / 2, Math.min(span, time - begin));

  const drawPanel = (panel, width) => {
    const { direction, name, top, height } = panel;
    const right = width - RIGHT;
    let low = 0, high = 0, lines = [], dots = null, quantity = "bytes", note = "";
    if (name === "sequence") {
      const bars = seen(direction.seg, fewerBars), acks = seen(direction.acks, fewer), windows = seen(direction.windows, fewer);
      [low, high] = extremes(Infinity, -Infinity, bars.start, range(bars.time), bars.len);
      for (let k = from(direction.seg.odd, range(direction.seg.time)[0]); k < direction.seg.odd.length; k++) {
        const i = direction.seg.odd[k];
        if (direction.seg.time[i] > state.view[1]) break;
        low = Math.min(low, direction.seg.start[i]);
        high = Math.max(high, direction.seg.start[i] + direction.seg.len[i]);
      }
      [low, high] = extremes(low, high, acks.value, range(acks.time));
      const [, end] = extremes(low, high, windows.value, range(windows.time));
      if (high >= low) {
        const limit = high + Math.max(1, (high - low) * 0.5);
        if (end > limit) note = "the receive window ends above";
        high = Math.max(high, Math.min(end, limit));
      }
    } else if (name === "in-flight" || name === "window") {
      const announced = seen(direction.announced, fewer), source = name === "window" ? announced : seen(direction.flight, fewer);
      lines = [[name === "window" ? "wi" : "da", source]];
      [, high] = extremes(0, 0, source.value, range(source.time));
      const [, most] = extremes(0, 0, announced.value, range(announced.time));
      // A window much larger than what was in flight is in the note, not drawn.
      if (name === "in-flight" && most > 0 && most <= 3 * high) {
        lines.unshift(["wi", announced]);
        high = Math.max(high, most);
      } else if (name === "in-flight" && most > 0) note = "the peer's window: up to " + say("bytes", most);
    } else if (name === "rtt") {
      dots = seen(direction.rtt, fewer);
      quantity = "time";
      [, high] = extremes(0, 0, dots.value, range(dots.time));
    } else if (name === "segment-size") {
      dots = seen(direction.sizes, fewer);
      [, high] = extremes(0, 0, dots.value, range(dots.time));
    } else {
      quantity = "rate";
      const shown = state.view[1] - state.view[0], span = Math.max(shown / 60, Math.min(2 * direction.round_trip, (whole[1] - whole[0]) / 4));
      note = "over " + say("time", span);
      for (const [color, times, sums] of [["da", direction.seg.time, direction.seg.sent], ["ac", direction.acks.time, direction.acks.up]]) {
        const line = { time: [], value: [] };
        for (let px = LEFT; px <= right; px += 2) {
          line.time.push(timeAt(px));
          line.value.push(rate(times, sums, timeAt(px), span, head.from));
        }
        high = Math.max(high, ...line.value);
        lines.push([color, line]);
      }
    }
    if (!(high > low)) [low, high] = Number.isFinite(low) ? [low, low + 1] : [0, 1];
    high += (high - low) * 0.06;
    panel.low = low;
    panel.high = high;
    const y = (value) => top + height - ((value - low) / (high - low)) * height;
    panel.y = y;

    pen.fillStyle = colors.tx;
    pen.textAlign = "left";
    pen.font = "600 11px system-ui,sans-serif";
    const title = fitted(head.titles[name] + ", " + direction.name, right - LEFT), taken = pen.measureText(title).width;
    pen.fillText(title, LEFT, top - 6);
    pen.font = "11px system-ui,sans-serif";
    pen.fillStyle = colors.fa;
    pen.textAlign = "right";
    if (pen.measureText(note).width + taken + 12 < right - LEFT) pen.fillText(note, right, top - 6);

    pen.save();
    pen.beginPath();
    pen.rect(LEFT, top - 1, right - LEFT, height + 2);
    pen.clip();
    for (const span of direction.spans) {
      if (span.until < state.view[0] || span.time > state.view[1]) continue;
      pen.fillStyle = colors[span.kind === "window_closed" ? "cl" : "st"];
      pen.fillRect(x(span.time), top, Math.max(1, x(span.until) - x(span.time)), height);
    }
    pen.restore();
    for (const [value, label] of ticks(low, high, quantity, height / 46)) {
      pen.fillStyle = colors.gr;
      pen.fillRect(LEFT, Math.round(y(value)), right - LEFT, 1);
      pen.fillStyle = colors.fa;
      pen.fillText(label, LEFT - 6, y(value) + 4);
    }
    for (const [value] of ticks(...state.view, "time", (right - LEFT) / 80)) {
      pen.fillStyle = colors.gr;
      pen.fillRect(Math.round(x(value)), top, 1, height);
    }
    pen.fillStyle = colors.ax;
    pen.fillRect(LEFT - 1, top, 1, height + 1);
    pen.fillRect(LEFT - 1, top + height, right - LEFT + 1, 1);

    pen.save();
    pen.beginPath();
    pen.rect(LEFT, top - 4, right - LEFT, height + 6);
    pen.clip();
    if (state.chosen && state.chosen.direction === direction) {
      pen.fillStyle = colors.ax;
      pen.fillRect(x(state.chosen.event.time) - 0.5, top, 1, height);
    }
    if (state.hover && state.hover.direction === direction) {
      pen.fillStyle = colors.ax;
      pen.fillRect(x(direction.seg.time[state.hover.i]) - 0.5, top, 1, height);
    }
    if (name === "sequence") drawSequence(panel, y);
    for (const [color, line] of lines) stairs(line.time, line.value, y, color);
    if (name === "in-flight") {
      const { time, lasts, value } = direction.estimates;
      pen.fillStyle = colors.es;
      // Of several in one column the highest
      for (let i = Math.max(0, from(time, state.view[0]) - 1), end = from(time, state.view[1]); i < end; ) {
        const at = x(time[i]), column = Math.floor(at);
        let most = value[i], until = x(time[i] + lasts[i]);
        for (i++; i < end && Math.floor(x(time[i])) === column; i++) {
          most = Math.max(most, value[i]);
          until = x(time[i] + lasts[i]);
        }
        pen.fillRect(at, y(most) - 0.9, Math.max(1.2, until - at), 1.8);
      }
    }
    if (dots) {
      pen.fillStyle = colors.da;
      const [first, last] = range(dots.time), dot = last - first < 400 ? 3.4 : 2;
      for (let i = first, px = -1, py = -1; i < last; i++) {
        const nx = Math.round(x(dots.time[i]) * 2) / 2, ny = Math.round(y(dots.value[i]) * 2) / 2;
        if (nx !== px || ny !== py) pen.fillRect((px = nx) - dot / 2, (py = ny) - dot / 2, dot, dot);
      }
    }
    pen.restore();
  };

  // A line as stairs; where there are more points than pixels, of each column the first, lowest, highest and last.
  const stairs = (times, values, y, color) => {
    const [first, last] = range(times), dense = last - first > 2 * plot;
    pen.strokeStyle = colors[color];
    pen.lineWidth = 1.2;
    pen.beginPath();
    let column = null, low = 0, high = 0, end = 0;
    const finish = () => {
      if (column === null || low === high) return;
      for (const py of [low, high, end]) pen.lineTo(column, py);
    };
    for (let i = first; i < last; i++) {
      const at = x(times[i]), px = dense ? Math.round(at * 2) / 2 : at, py = y(values[i]);
      if (px === column) {
        low = Math.min(low, py);
        high = Math.max(high, py);
        end = py;
        continue;
      }
      finish();
      if (column === null) pen.moveTo(px, py);
      else pen.lineTo(px, end);
      pen.lineTo(px, py);
      [column, low, high, end] = [px, py, py, py];
    }
    finish();
    pen.stroke();
  };

  const drawSequence = (panel, y) => {
    const { direction } = panel, seg = direction.seg;
    const windows = seen(direction.windows, fewer), acks = seen(direction.acks, fewer), bars = seen(seg, fewerBars);
    stairs(windows.time, windows.value, y, "wi");
    let [first, last] = range(direction.marks.time);
    const letters = [], isSeen = (time) => time >= state.view[0] && time <= state.view[1];
    pen.fillStyle = colors.sa;
    for (let i = first; i < last; i++) {
      const kind = head.marks[direction.marks.kind[i]];
      const px = x(direction.marks.time[i]), py = y(direction.marks.seq[i]);
      if (kind.text === "") pen.fillRect(px - 0.7, y(direction.marks.seq[i] + direction.marks.len[i]), 1.4, Math.max(1, py - y(direction.marks.seq[i] + direction.marks.len[i])));
      else if (isSeen(direction.marks.time[i])) letters.push([px, py - 3, kind.text, kind.paint]);
    }

    // Bars that touch in one column of pixels are one.
    [first, last] = range(bars.time);
    const dense = last - first > 4 * plot, wide = last - first < 400 && bars === seg ? 2.2 : 1.2;
    pen.fillStyle = colors.da;
    let column = -1e9, runTop = 0, runEnd = 0;
    const flush = () => column > -1e9 && pen.fillRect(column - wide / 2, runTop, wide, Math.max(1, runEnd - runTop));
    const { time, start, len, flags } = bars, odd = head.odd;
    for (let i = first; i < last; i++) {
      if (flags && flags[i] & odd) continue;
      const at = x(time[i]), px = dense ? Math.round(at) : at;
      const barTop = y(start[i] + len[i]), barEnd = y(start[i]);
      if (px === column && barTop <= runEnd + 1 && barEnd >= runTop - 1) {
        runTop = Math.min(runTop, barTop);
        runEnd = Math.max(runEnd, barEnd);
        continue;
      }
      flush();
      [column, runTop, runEnd] = [px, barTop, barEnd];
    }
    flush();
    stairs(acks.time, acks.value, y, "ac");
    pen.fillStyle = colors.ac;
    [first, last] = range(direction.duplicates.time);
    for (let i = first, px = -1, py = -1; i < last; i++) {
      const nx = Math.round(x(direction.duplicates.time[i]) * 2), ny = Math.round(y(direction.duplicates.value[i]));
      if (nx !== px || ny !== py) pen.fillRect((px = nx) / 2 - 0.5, (py = ny), 1, 5);
    }
    [first, last] = range(seg.time);
    for (let k = from(seg.odd, first); k < seg.odd.length && seg.odd[k] < last; k++) {
      const i = seg.odd[k], kind = kindOf(seg.flags[i]);
      const px = x(seg.time[i]), barTop = y(seg.start[i] + seg.len[i]);
      pen.fillStyle = colors[kinds[kind]];
      pen.fillRect(px - Math.max(1, wide / 2), barTop, Math.max(2, wide), Math.max(3, y(seg.start[i]) - barTop));
      const letter = { again: "R", spurious: "R", reordered: "O" }[kind];
      if (letter && isSeen(seg.time[i])) letters.push([px, barTop - 3, letter, kinds[kind]]);
    }
    if (last - first < 300) {
      pen.fillStyle = colors.da;
      for (let i = first; i < last; i++) {
        if (!(seg.flags[i] & head.flags.pushed)) continue;
        pen.beginPath();
        pen.arc(x(seg.time[i]), y(seg.start[i] + seg.len[i]), 2, 0, 7);
        pen.fill();
      }
    }
    // Letters that would lie upon each other become one with a count; different ones give direction upwards.
    pen.textAlign = "center";
    pen.font = "600 10px system-ui,sans-serif";
    const clusters = [];
    for (const [px, py, text, paint] of letters.sort((a, b) => a[0] - b[0])) {
      let found = null;
      for (let k = clusters.length - 1; k >= Math.max(0, clusters.length - 12) && !found; k--) {
        const one = clusters[k];
        if (one.text === text && one.paint === paint && px - one.high < 12 + 6 * String(one.count).length && px - one.low < 60 && Math.abs(py - one.py) < 14) found = one;
      }
      if (found) {
        found.high = px;
        found.py = Math.min(found.py, py);
        found.count++;
      } else clusters.push({ low: px, high: px, py, text, paint, count: 1 });
    }
    const taken = [];
    for (const one of clusters) {
      const label = one.text + (one.count > 1 ? "×" + one.count : ""), half = pen.measureText(label).width / 2 + 1;
      const middle = Math.max(LEFT + half + 2, Math.min((one.low + one.high) / 2, canvas.clientWidth - RIGHT - half - 2));
      const base0 = Math.max(panel.top + 9, one.py);
      let base = base0;
      const hits = () => taken.some(([low, high, at]) => middle + half > low && middle - half < high && Math.abs(base - at) < 10);
      for (let k = 0; k < 6 && base >= panel.top + 9 && hits(); k++) base -= 10;
      pen.fillStyle = colors[one.paint];
      // Where no letter has space, a bar shows the place.
      if (base < panel.top + 9 || hits()) {
        base = base0;
        pen.fillRect(middle - 0.5, base - 7, 1, 8);
      } else {
        taken.push([middle - half, middle + half, base]);
        pen.fillText(label, middle, base);
      }
      if (one.high - one.low > 1) pen.fillRect(one.low, base + 1, one.high - one.low, 0.8);
    }
    pen.font = "11px system-ui,sans-serif";
    if (state.hover && state.hover.direction === direction && state.hover.name === "sequence") {
      const i = state.hover.i, barTop = y(seg.start[i] + seg.len[i]);
      pen.strokeStyle = colors.tx;
      pen.lineWidth = 1;
      pen.strokeRect(x(seg.time[i]) - 3.5, barTop - 2.5, 7, Math.max(1, y(seg.start[i]) - barTop) + 5);
    }
    // What happened, at the panel's foot
    const drawn = new Map();
    for (const event of direction.events) {
      if (event.time < state.view[0] || event.time > state.view[1]) continue;
      const px = Math.round(x(event.time) * 2) / 2;
      if (drawn.get(event.paint) === px) continue;
      drawn.set(event.paint, px);
      pen.fillStyle = colors[event.paint];
      pen.fillRect(px - 1, panel.top + panel.height - 6, 2, 6);
    }
  };

  const drawTime = (width, height) => {
    pen.fillStyle = colors.fa;
    pen.textAlign = "center";
    const foot = state.panels.length ? state.panels.at(-1).top + state.panels.at(-1).height : 0;
    let free = 0;
    for (const [value, label] of ticks(...state.view, "time", (width - LEFT - RIGHT) / 80)) {
      const half = pen.measureText(label).width / 2, middle = Math.min(x(value), width - half - 2);
      if (middle - half < free) continue;
      free = middle + half + 4;
      pen.fillText(label, middle, foot + 15);
    }
  };

  // --- The nearest segment
  const nearest = (px, py) => {
    const panel = state.panels.find((one) => py >= one.top - 8 && py <= one.top + one.height + 4);
    if (!panel || px < LEFT) return null;
    const { seg } = panel.direction, reach = 24, middle = from(seg.time, timeAt(px));
    let best = null, distance = reach * reach;
    const look = (i) => {
      const dx = x(seg.time[i]) - px;
      if (Math.abs(dx) > reach) return false;
      let dy = 0;
      if (panel.name === "sequence") {
        const low = panel.y(seg.start[i]), high = panel.y(seg.start[i] + seg.len[i]);
        dy = py > low ? py - low : py < high ? high - py : 0;
      }
      const far = dx * dx + dy * dy;
      if (far < distance) [best, distance] = [i, far];
      return true;
    };
    for (let i = middle, n = 0; i < seg.time.length && n < 40000 && look(i); i++, n++);
    for (let i = middle - 1, n = 0; i >= 0 && n < 40000 && look(i); i--, n++);
    return best === null ? null : { direction: panel.direction, name: panel.name, i: best };
  };
  const describe = ({ direction, i }) => {
    const { seg } = direction, flags = head.flag_names.filter((_, bit) => seg.flags[i] & (1 << bit));
    if (seg.flags[i] & head.flags.pushed) flags.push("PSH");
    return [
      "frame " + seg.frame[i],
      "time " + (seg.time[i] / 1e9).toFixed(9) + " s",
      "seq " + seg.start[i] + " to " + (seg.start[i] + seg.len[i]),
      "len " + seg.len[i],
      flags.join("\n"),
    ].filter(Boolean).join("\n");
  };
  const hover = (px, py) => {
    const found = nearest(px, py);
    state.hover = found;
    tip.hidden = !found;
    if (found) {
      tip.textContent = describe(found);
      const left = px + 16 + tip.offsetWidth > canvas.clientWidth ? px - 16 - tip.offsetWidth : px + 16;
      tip.style.left = Math.max(0, left) + "px";
      tip.style.top = Math.min(Math.max(0, py + 12), Math.max(0, canvas.clientHeight - tip.offsetHeight)) + "px";
    }
    drawSoon();
  };

  // --- What happened
  const all = directions.flatMap((direction) => direction.events.map((event) => ({ direction, event }))).sort((a, b) => a.event.time - b.event.time);
  let listed = all;
  // Equal events are one row, which opens to show the time of each.
  const GROUPED_MIN = 4, opened = new Set();
  const keyOf = ({ direction, event }) => direction.name + "\n" + event.kind + "\n" + event.evidence;
  let rows = [];
  const arrange = () => {
    const groups = new Map();
    listed.forEach((item, nth) => {
      const key = keyOf(item);
      if (!groups.has(key)) groups.set(key, { key, members: [] });
      groups.get(key).members.push({ ...item, nth });
    });
    const tops = [...groups.values()].flatMap((group) => (group.members.length < GROUPED_MIN ? group.members : [group]));
    tops.sort((a, b) => (a.members ? a.members[0].nth : a.nth) - (b.members ? b.members[0].nth : b.nth));
    rows = tops.flatMap((top) => (top.members && opened.has(top.key) ? [top, ...top.members.map((one) => ({ ...one, isInner: true }))] : [top]));
  };
  // So many are in the document at a time: ten thousand would freeze it.
  const LISTED_MAX = 500;
  let begin = 0;
  const choose = (nth) => {
    const item = listed[nth];
    if (!item) return;
    state.chosen = item;
    const { event } = item, span = Math.min(Math.max((event.until - event.time) * 1.6, head.close), whole[1] - whole[0]);
    const middle = (event.time + event.until) / 2;
    const has = (row) => row.nth === nth;
    if (!rows.some(has)) {
      opened.add(keyOf(item));
      arrange();
      fill(begin);
    }
    const row = rows.findIndex(has);
    if (row < begin || row >= begin + LISTED_MAX) fill(row - LISTED_MAX / 2);
    for (const button of document.querySelectorAll("#events [aria-current]")) button.removeAttribute("aria-current");
    const button = document.querySelector('#events [data-nth="' + nth + '"]');
    if (button) {
      button.setAttribute("aria-current", "true");
      // Only the list moves: the page would scroll the graph away.
      const box = $("events"), above = button.offsetTop - box.offsetTop;
      if (above < box.scrollTop || above + button.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = above - box.clientHeight / 2;
    }
    show(middle - span / 2, middle + span / 2);
  };
  const list = () => {
    const kind = $("kind").value;
    listed = kind ? all.filter((item) => item.event.kind === kind) : all;
    arrange();
    fill(0);
  };
  const fill = (wanted) => {
    begin = Math.max(0, Math.min(Math.floor(wanted), rows.length - LISTED_MAX));
    const end = Math.min(rows.length, begin + LISTED_MAX);
    $("count").textContent = listed.length + (rows.length > LISTED_MAX ? ", rows " + (begin + 1) + " to " + end + " of " + rows.length : "");
    const more = (text, to) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.textContent = text;
      button.className = "more";
      button.addEventListener("click", () => {
        fill(to);
      });
      item.append(button);
      return item;
    };
    const line = (paint, text, more, act) => {
      const item = document.createElement("li"), button = document.createElement("button"), name = document.createElement("b");
      button.style.setProperty("--c", "var(--" + paint + ")");
      name.textContent = text;
      const rest = document.createElement("span");
      rest.className = "faint";
      rest.textContent = more;
      button.append(name, rest);
      button.addEventListener("click", act);
      item.append(button);
      return [item, button];
    };
    const why = (direction, event) => (directions.length > 1 ? ", " + direction.name : "") + (event.evidence ? ": " + event.evidence : "");
    const items = rows.slice(begin, end).map((row) => {
      if (row.members) {
        const [{ direction, event }] = row.members, last = row.members.at(-1).event, isOpen = opened.has(row.key);
        const text = " " + seconds(event.time) + " to " + seconds(last.time) + why(direction, event);
        const [item, button] = line(event.paint, (isOpen ? "▾ " : "▸ ") + row.members.length + " × " + event.base, text, () => {
          const top = $("events").scrollTop;
          if (!opened.delete(row.key)) opened.add(row.key);
          arrange();
          fill(begin);
          $("events").scrollTop = top;
          const again = [...document.querySelectorAll("#events [data-group]")].find((one) => one.dataset.group === row.key);
          if (again) again.focus({ preventScroll: true });
        });
        button.dataset.group = row.key;
        button.setAttribute("aria-expanded", String(isOpen));
        return item;
      }
      const { direction, event, nth, isInner } = row;
      const text = " " + seconds(event.time) + ", frame " + event.frame + (isInner ? "" : why(direction, event));
      const [item, button] = line(event.paint, event.name, text, () => choose(nth));
      button.dataset.nth = nth;
      if (isInner) item.className = "inner";
      if (state.chosen && state.chosen.event === event) button.setAttribute("aria-current", "true");
      return item;
    });
    if (begin > 0) items.unshift(more("earlier ones", begin - LISTED_MAX));
    if (end < rows.length) items.push(more("later ones", end));
    $("events").replaceChildren(...items);
    $("events").scrollTop = 0;
  };
  const names = new Map(all.map(({ event }) => [event.kind, event.kind.replaceAll("_", " ")]));
  const option = (value, text) => {
    const one = document.createElement("option");
    one.value = value;
    one.textContent = text;
    return one;
  };
  $("kind").append(option("", all.length ? "everything" : "nothing"), ...[...names].map(([kind, text]) => option(kind, text)));
  $("kind").addEventListener("change", list);
  list();
  for (const name of head.panels) {
    const label = document.createElement("label"), box = document.createElement("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      if (box.checked) state.off.delete(name);
      else state.off.add(name);
      drawSoon();
    });
    label.append(box, head.titles[name]);
    $("choices").append(label);
  }

  // --- Hands
  const fingers = new Map();
  let drag = null, pinch = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const [px] = place(event);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX || event.deltaY) / 1000);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 400))), timeAt(px));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    const [px] = place(event);
    fingers.set(event.pointerId, px);
    try { canvas.setPointerCapture(event.pointerId); } catch { /* one that is gone already */ }
    tip.hidden = true;
    state.hover = null;
    if (fingers.size === 2) {
      const [a, b] = [...fingers.values()];
      pinch = [timeAt(a), timeAt(b)];
      drag = state.select = null;
      return;
    }
    const pans = event.pointerType === "touch" || event.shiftKey || event.button === 1;
    drag = { pans, px, time: timeAt(px) };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [px, py] = place(event);
    if (fingers.has(event.pointerId)) fingers.set(event.pointerId, px);
    if (pinch && fingers.size === 2) {
      // Each finger stays at the time that it was put down at.
      const [a, b] = [...fingers.values()];
      if (Math.abs(b - a) < 4) return;
      const worth = (pinch[1] - pinch[0]) / (b - a), width = canvas.clientWidth - LEFT - RIGHT;
      if (worth > 0) show(pinch[0] - (a - LEFT) * worth, pinch[0] + (width - (a - LEFT)) * worth);
    } else if (drag && drag.pans) {
      const by = drag.time - timeAt(px);
      show(state.view[0] + by, state.view[1] + by);
    } else if (drag) {
      state.select = [drag.px, px];
      drawSoon();
    } else hover(px, py);
  });
  const release = (event) => {
    const [px] = place(event);
    fingers.delete(event.pointerId);
    pinch = null;
    const select = state.select;
    state.select = null;
    if (drag && !drag.pans && select && Math.abs(px - drag.px) > 4 && event.type === "pointerup")
      show(Math.min(drag.time, timeAt(px)), Math.max(drag.time, timeAt(px)));
    else if (select) drawSoon();
    drag = null;
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => {
    if (state.hover) {
      state.hover = null;
      tip.hidden = true;
      drawSoon();
    }
  });
  canvas.addEventListener("dblclick", () => show(...whole));
  $("reset").addEventListener("click", () => show(...whole));
  $("in").addEventListener("click", () => zoom(0.5));
  $("out").addEventListener("click", () => zoom(2));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
    const now = listed.indexOf(state.chosen);
    const act = {
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": () => show(...whole), Home: () => show(...whole),
      ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), n: () => choose(now + 1), p: () => choose(Math.max(0, now - 1)),
    }[event.key];
    if (act) {
      event.preventDefault();
      act();
    }
  });
  new ResizeObserver(drawSoon).observe(canvas);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawSoon);
  draw();
  window.graph = { state, directions, x, whole, show, draw, nearest };
  document.body.dataset.ready = "1";
})();
