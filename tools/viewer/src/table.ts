// The table of allocations: searched, sorted, and only what lives in view unless asked otherwise. What was moved counts
// within the window. Only the rows on screen are in the document.
import { Outcome, Placement, type Trace } from "./trace";
import * as units from "./units";
import type { View } from "./view";

const kRowHeight = 26;

interface ColumnInfo {
  key: string;
  title: string;
  hint: string;
  number: boolean;
  width: string;
  text(row: number): string;
  value(row: number): number | string;
}

export class AllocationTable {
  private readonly body = document.createElement("div");
  private readonly filler = document.createElement("div");
  private readonly head = document.createElement("div");
  private readonly columns: ColumnInfo[];
  private readonly words: string[] = [];
  private rows: number[] = [];
  private readonly movedIn: Float64Array;
  private readonly movedOut: Float64Array;
  private readonly moves: Float64Array;

  constructor(holder: HTMLElement, private readonly view: View, private readonly trace: Trace) {
    const of = trace.allocations;
    const total = of.id.length;
    this.movedIn = new Float64Array(total);
    this.movedOut = new Float64Array(total);
    this.moves = new Float64Array(total);
    const size = (value: number) => (value === 0 ? "–" : units.bytes(value));
    this.columns = [
      { key: "id", title: "#", hint: "Number, in order of request", number: true, width: "52px", text: (r) => String(of.id[r]), value: (r) => of.id[r] },
      { key: "size", title: "Size", hint: "Bytes", number: true, width: "78px", text: (r) => units.bytes(of.bytes[r]), value: (r) => of.bytes[r] },
      { key: "class", title: "Class", hint: "What most of its bytes were found to hold, by the decisions about it", number: false, width: "140px",
        text: (r) => `${trace.className(r)}${of.span_class[r] > 0 && of.share[r] < 100 ? ` ${of.share[r]}%` : ""}`, value: (r) => trace.className(r) },
      { key: "backing", title: "Backing", hint: "Managed memory can spill, plain memory cannot", number: false, width: "78px",
        text: (r) => this.backing(r), value: (r) => this.backing(r) },
      { key: "moved", title: "In and out", hint: "Bytes moved both ways in the time shown", number: true, width: "92px",
        text: (r) => size(this.movedIn[r] + this.movedOut[r]), value: (r) => this.movedIn[r] + this.movedOut[r] },
      { key: "in", title: "In", hint: "Bytes moved to the device in the time shown", number: true, width: "76px", text: (r) => size(this.movedIn[r]), value: (r) => this.movedIn[r] },
      { key: "out", title: "Out", hint: "Bytes moved to the host in the time shown", number: true, width: "76px", text: (r) => size(this.movedOut[r]), value: (r) => this.movedOut[r] },
      { key: "moves", title: "Moves", hint: "Moves done in the time shown, first placements too", number: true, width: "60px", text: (r) => (this.moves[r] === 0 ? "–" : units.count(this.moves[r])), value: (r) => this.moves[r] },
      { key: "launches", title: "Launches, all", hint: "Launches that were given a pointer into it, in the whole run; below 2 MiB they are not recorded", number: true, width: "96px", text: (r) => (of.launches[r] < 0 ? "–" : units.count(of.launches[r])), value: (r) => of.launches[r] },
      { key: "why", title: "Backed so because", hint: "Reason or rule", number: false, width: "132px",
        text: (r) => (of.rule[r] > 0 ? `${trace.ruleName(of.rule[r])}, ` : "") + trace.reasonName(of.reason[r]), value: (r) => of.rule[r] * 100 + of.reason[r] },
      { key: "evidence", title: "Used by", hint: "Kernels that were launched on it, most first: what its class was found from", number: false, width: "minmax(160px, 1fr)",
        text: (r) => trace.evidence[r] ?? "", value: (r) => trace.evidence[r] ?? "" },
    ];
    for (let row = 0; row < total; row++) {
      this.words.push([of.id[row], `#${of.id[row]}`, trace.className(row), trace.kind(row), this.backing(row), trace.caller(row),
        trace.reasonName(of.reason[row]), of.rule[row] > 0 ? trace.ruleName(of.rule[row]) : "", trace.evidence[row], trace.end(row)].join(" ").toLowerCase());
    }
    this.build(holder);
  }

  private backing(row: number): string {
    const end = this.trace.allocations.end[row];
    if (end >= 2) return this.trace.end(row);
    return this.trace.managed(row) ? "managed" : "plain";
  }

  private build(holder: HTMLElement): void {
    holder.setAttribute("role", "grid");
    holder.setAttribute("aria-label", "Allocations");
    holder.style.setProperty("--columns", this.columns.map((column) => column.width).join(" "));
    this.head.className = "head";
    this.head.setAttribute("role", "row");
    for (const column of this.columns) {
      const cell = document.createElement("div");
      cell.setAttribute("role", "columnheader");
      const button = document.createElement("button");
      button.textContent = column.title;
      button.title = column.hint;
      button.className = column.number ? "number" : "";
      button.addEventListener("click", () => this.sortBy(column.key));
      cell.append(button);
      this.head.append(cell);
    }
    this.body.className = "body";
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "rowgroup");
    this.body.append(this.filler);
    this.body.addEventListener("scroll", () => this.show());
    this.body.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.show()).observe(this.body);
    holder.append(this.head, this.body);
  }

  private sortBy(key: string): void {
    if (this.view.sort === key) this.view.descending = !this.view.descending;
    else {
      this.view.sort = key;
      this.view.descending = this.columns.find((column) => column.key === key)?.number ?? false;
    }
    this.view.changed("search");
  }

  // Counts, filters and sorts anew: after another window, search or order.
  refresh(): void {
    const { view, trace } = this;
    const { start, took, allocation, bytes, to, outcome, crossed } = trace.moves;
    for (const column of [this.movedIn, this.movedOut, this.moves]) column.fill(0);
    for (let i = 0; i < start.length; i++) {
      if (outcome[i] !== Outcome.Done || start[i] > view.end || start[i] + took[i] < view.start) continue;
      this.moves[allocation[i]]++;
      if (crossed[i] === 0) continue;
      (to[i] === Placement.Host ? this.movedOut : this.movedIn)[allocation[i]] += bytes[i];
    }
    const wanted = view.search.toLowerCase().split(/\s+/).filter((word) => word !== "");
    this.rows = [];
    for (let row = 0; row < this.words.length; row++) {
      if (!view.allRows && !trace.livesIn(row, view.start, view.end)) continue;
      if (wanted.every((word) => this.words[row].includes(word))) this.rows.push(row);
    }
    const column = this.columns.find((each) => each.key === view.sort) ?? this.columns[0];
    const sign = view.descending ? -1 : 1;
    const keys = new Map(this.rows.map((row) => [row, column.value(row)]));
    const size = trace.allocations.bytes;
    this.rows.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
      return order !== 0 ? order * sign : size[b] - size[a];
    });
    [...this.head.children].forEach((cell, i) => {
      const sorted = this.columns[i].key === view.sort;
      cell.setAttribute("aria-sort", sorted ? (view.descending ? "descending" : "ascending") : "none");
    });
    this.note();
    this.show();
  }

  private note(): void {
    const directory = this.trace.directory.allocations;
    const text = [`${units.count(this.rows.length)} of ${units.count(this.words.length)}`];
    if (directory.not_listed > 0) text.push(`${units.count(directory.not_listed)} more, ${units.bytes(directory.not_listed_bytes)}, are only counted`);
    (document.getElementById("table-note") as HTMLElement).textContent = text.join("; ");
  }

  private selectedRow(): number {
    const selection = this.view.selection;
    if (selection?.kind === "allocation") return selection.row;
    return selection?.kind === "decision" ? this.trace.decisions.allocation[selection.index] : -1;
  }

  show(): void {
    const first = Math.max(0, Math.floor(this.body.scrollTop / kRowHeight) - 2);
    const last = Math.min(this.rows.length, first + Math.ceil(this.body.clientHeight / kRowHeight) + 5);
    this.filler.style.height = `${this.rows.length * kRowHeight}px`;
    this.filler.replaceChildren();
    const selected = this.selectedRow();
    for (let at = first; at < last; at++) {
      const row = this.rows[at];
      const line = document.createElement("div");
      line.className = row === selected ? "row selected" : "row";
      line.setAttribute("role", "row");
      line.setAttribute("aria-selected", String(row === selected));
      line.style.top = `${at * kRowHeight}px`;
      line.dataset.id = String(this.trace.allocations.id[row]);
      for (const column of this.columns) {
        const cell = document.createElement("div");
        cell.setAttribute("role", "gridcell");
        cell.className = column.number ? "number" : "";
        cell.textContent = column.text(row);
        if (column.key === "evidence") cell.title = cell.textContent;
        line.append(cell);
      }
      line.addEventListener("click", () => this.view.select({ kind: "allocation", row }));
      this.filler.append(line);
    }
    if (this.rows.length === 0) {
      const empty = document.createElement("p");
      empty.className = "empty";
      empty.textContent = this.words.length === 0 ? "No allocation is in this trace." : this.view.search !== ""
        ? "No allocation fits this search." : "No allocation lives in the time shown.";
      this.filler.append(empty);
    }
  }

  scrollToSelected(): void {
    const at = this.rows.indexOf(this.selectedRow());
    if (at < 0) return;
    const top = at * kRowHeight;
    if (top < this.body.scrollTop || top + kRowHeight > this.body.scrollTop + this.body.clientHeight) {
      this.body.scrollTop = top - this.body.clientHeight / 2;
    }
  }

  private key(event: KeyboardEvent): void {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step === 0 || this.rows.length === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const at = this.rows.indexOf(this.selectedRow());
    const next = Math.max(0, Math.min(this.rows.length - 1, at + step));
    this.view.select({ kind: "allocation", row: this.rows[next] });
    this.scrollToSelected();
  }
}
