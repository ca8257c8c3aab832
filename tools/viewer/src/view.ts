// What is being looked at: the window of time, the rows of the heat map, what is selected, where the pointer is. All
// panels show it; the address keeps it, so that a link brings it back.

export type Selection =
  | { kind: "allocation"; row: number }
  | { kind: "decision"; index: number }
  | { kind: "launch"; number: number; code: number; time: number; lane: number; duration: number }
  | null;

export type Change = "window" | "rows" | "selection" | "hover" | "look" | "data" | "search";

export class View {
  start = 0;
  end: number;
  rowsFrom = 0;          // of the heat map's stack, in bytes
  rowsTo: number;
  selection: Selection = null;
  hover: number | null = null;   // a time
  device = 0;
  search = "";
  sort = "moved";
  descending = true;
  allRows = false;
  private listeners: ((change: Change) => void)[] = [];

  constructor(readonly duration: number, readonly stack: number, readonly complete = true, private readonly firstSeen = 0) {
    this.end = duration;
    this.rowsTo = stack;
  }

  on(listener: (change: Change) => void): void {
    this.listeners.push(listener);
  }

  changed(change: Change): void {
    for (const listener of this.listeners) listener(change);
  }

  // What is shown at first: the run, without a beginning in which nothing happened if that is a large part of it.
  get opening(): [number, number] {
    const { firstSeen, duration } = this;
    return firstSeen < duration * 0.15 ? [0, duration] : [firstSeen - (duration - firstSeen) * 0.03, duration];
  }

  // Keeps the window inside the run, with a little room at both ends, and no narrower than a microsecond.
  setWindow(start: number, end: number): void {
    const room = this.duration * 0.02;
    const least = Math.min(1000, this.duration);
    let width = Math.min(Math.max(end - start, least), this.duration + 2 * room);
    if (width > this.duration) width = Math.min(width, this.duration + 2 * room);
    const middle = (start + end) / 2;
    let from = end - start === width ? start : middle - width / 2;
    from = Math.max(-room, Math.min(from, this.duration + room - width));
    if (width >= this.duration) from = Math.max(-room, Math.min(from, 0));
    this.start = from;
    this.end = from + width;
    this.changed("window");
  }

  zoom(factor: number, around = (this.start + this.end) / 2): void {
    this.setWindow(around - (around - this.start) * factor, around + (this.end - around) * factor);
  }

  pan(share: number): void {
    const by = (this.end - this.start) * share;
    this.setWindow(this.start + by, this.end + by);
  }

  setRows(from: number, to: number): void {
    const height = Math.min(this.stack, Math.max(to - from, Math.min(65536, this.stack)));
    const at = Math.max(0, Math.min(from, this.stack - height));
    this.rowsFrom = at;
    this.rowsTo = at + height;
    this.changed("rows");
  }

  zoomRows(factor: number, around: number): void {
    this.setRows(around - (around - this.rowsFrom) * factor, around + (this.rowsTo - around) * factor);
  }

  whole(): void {
    this.rowsFrom = 0;
    this.rowsTo = this.stack;
    this.setWindow(0, this.duration);
    this.changed("rows");
  }

  // Brings a stretch of time into view with room around it, unless it is well in view already.
  reveal(start: number, end: number): void {
    const width = this.end - this.start;
    const seen = start >= this.start && end <= this.end && end - start > width / 50;
    if (seen) return;
    const room = Math.max((end - start) * 4, Math.min(width, this.duration / 50));
    this.setWindow((start + end) / 2 - room / 2, (start + end) / 2 + room / 2);
  }

  select(selection: Selection): void {
    this.selection = selection;
    this.changed("selection");
  }

  setHover(time: number | null): void {
    if (this.hover === time) return;
    this.hover = time;
    this.changed("hover");
  }
}
