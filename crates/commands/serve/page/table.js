// A table of any number of rows, of which only those on the screen have elements.

import { element, UNKNOWN } from "./format.js";
import { missing } from "./state.js";

const SPARE = 6;
// On a phone a row has two lines: style.css has the same width and heights.
const isNarrow = matchMedia("(max-width: 560px)");
const rowHeight = () => (isNarrow.matches ? 48 : 28);

/**
 * columns: [{ key, title, sort, cell(row), right, minor }]
 * source: { total, row(index) } where row returns undefined while it is on its way
 */
export class Table {
  #columns;
  #pool = new Map();
  #free = [];
  #scheduled = false;

  constructor(parent, label, columns, { onSort, onOpen, onMove }) {
    this.#columns = columns;
    this.source = { total: 0, row: () => undefined };
    Object.assign(this, { onSort, onOpen, onMove, selected: -1, sort: "" });
    this.head = element("div", { class: "row head", role: "row", "aria-rowindex": "1" });
    for (const column of columns) {
      const cell = element("div", { class: kind(column), role: "columnheader", "data-col": column.key });
      const button = element("button", { type: "button", title: column.help }, column.title);
      button.addEventListener("click", () => onSort(column));
      cell.append(button);
      this.head.append(cell);
    }
    this.space = element("div", { class: "space", role: "rowgroup" });
    this.body = element("div", { class: "body", role: "presentation" }, this.space);
    this.grid = element("div", { class: "table", role: "grid", "aria-label": label, tabindex: "0", "aria-readonly": "true" }, this.head, this.body);
    this.body.addEventListener("scroll", () => this.#schedule(), { passive: true });
    this.grid.addEventListener("keydown", (event) => this.#key(event));
    this.space.addEventListener("click", (event) => {
      const row = event.target.closest("[data-index]");
      if (row) this.#open(Number(row.dataset.index));
    });
    new ResizeObserver(() => this.#schedule()).observe(this.body);
    isNarrow.addEventListener("change", () => this.#resize());
    parent.append(this.grid);
  }

  /** The rows that are on the screen, and some around them. */
  get range() {
    const first = Math.floor(this.body.scrollTop / rowHeight());
    const count = Math.ceil(this.body.clientHeight / rowHeight());
    return [Math.max(0, first - SPARE), Math.min(this.source.total, first + count + SPARE)];
  }

  /** Shows other rows. `toTop`: from the first on. */
  show(source, toTop = false) {
    this.source = source;
    this.space.style.height = `${source.total * rowHeight()}px`;
    this.grid.setAttribute("aria-rowcount", source.total + 1);
    if (toTop) {
      this.body.scrollTop = 0;
      this.selected = -1;
      for (const row of this.#pool.values()) row.row = null;
    }
    this.#draw();
  }

  markSort(sort) {
    this.sort = sort;
    const name = sort.replace(/^-/, "");
    this.head.querySelectorAll("[role=columnheader]").forEach((cell, nth) => {
      const is = this.#columns[nth].sort === name;
      cell.setAttribute("aria-sort", !is ? "none" : sort.startsWith("-") ? "descending" : "ascending");
    });
  }

  #schedule() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#draw();
      this.onMove?.(this.range);
    });
  }

  /** The rows have another height. */
  #resize() {
    this.space.style.height = `${this.source.total * rowHeight()}px`;
    for (const [index, row] of this.#pool) row.place(index);
    this.#schedule();
  }

  #draw() {
    const [first, end] = this.range;
    for (const [index, row] of this.#pool) {
      if (index < first || index >= end) {
        this.#pool.delete(index);
        this.#free.push(row);
      }
    }
    for (let index = first; index < end; index++) {
      let row = this.#pool.get(index);
      if (!row) {
        row = this.#free.pop() ?? this.#newRow();
        this.#pool.set(index, row);
        row.place(index);
      }
      row.fill(this.source.row(index), index === this.selected);
    }
    for (const row of this.#free) row.hide();
    const active = this.#pool.get(this.selected);
    if (active) this.grid.setAttribute("aria-activedescendant", active.node.id);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  #newRow() {
    const row = new Row(this.#columns);
    this.space.append(row.node);
    return row;
  }

  #key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / rowHeight()) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.target.closest("button")) return;
    if (event.key === "Enter" && this.selected >= 0) this.#open(this.selected);
    else if (event.key in steps) this.#select(this.selected + steps[event.key]);
    else return;
    event.preventDefault();
  }

  #select(index) {
    this.selected = Math.max(0, Math.min(this.source.total - 1, index));
    const height = rowHeight();
    const top = this.selected * height;
    if (top < this.body.scrollTop) this.body.scrollTop = top;
    if (top + height > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = top + height - this.body.clientHeight;
    this.#draw();
  }

  #open(index) {
    this.#select(index);
    const row = this.source.row(index);
    if (row) this.onOpen(row);
  }
}

const kind = (column) => ["cell", column.right ? "right" : "", column.minor ? "minor" : ""].join(" ").trim();

let rows = 0;

class Row {
  constructor(columns) {
    this.columns = columns;
    this.cells = columns.map((column) => element("div", { class: kind(column), role: "gridcell", "data-col": column.key }));
    // One text node each, whose text changes: nothing is created while scrolling.
    this.texts = this.cells.map((cell) => cell.appendChild(document.createTextNode("")));
    this.node = element("div", { class: "row", role: "row", id: `row-${++rows}` }, ...this.cells);
  }

  place(index) {
    this.node.dataset.index = index;
    this.node.setAttribute("aria-rowindex", index + 2);
    this.node.style.transform = `translateY(${index * rowHeight()}px)`;
    this.node.hidden = false;
    this.row = null;
  }

  fill(row, selected) {
    if (this.selected !== selected) {
      this.selected = selected;
      this.node.setAttribute("aria-selected", selected);
    }
    if (row === this.row) return;
    this.row = row;
    this.node.classList.toggle("waiting", !row);
    this.columns.forEach((column, nth) => {
      const text = row ? column.cell(row) : "";
      if (this.texts[nth].data !== text) this.texts[nth].data = text;
      const title = text === UNKNOWN ? missing() : "";
      if (this.cells[nth].title !== title) this.cells[nth].title = title;
      const tone = row && column.tone?.(row);
      if (this.cells[nth].dataset.tone !== (tone || undefined)) tone ? (this.cells[nth].dataset.tone = tone) : delete this.cells[nth].dataset.tone;
    });
  }

  hide() {
    if (!this.node.hidden) this.node.hidden = true;
  }
}
