// Where the memory was: allocations stacked in bands by class, time to the right, each row of pixels coloured by where its
// bytes were. Drawn pixel by pixel from the pieces' changes, so that it is exact at every zoom.
import { hatch, look, pixel } from "./look";
import { kEdge, kGutter, Panel, type Spot } from "./panel";
import { describeMove, placeName, selectMove } from "./moves";
import { Placement, type Trace, upper } from "./trace";
import { hideTip, type Line, showTip } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

const kMostMarks = 1500;

export class HeatMap extends Panel {
  private image: ImageData | null = null;
  private readonly order: number[] = [];  // rows that are shown, from the bottom
  private readonly marks: { x: number; y: number; change: number }[] = [];

  constructor(holder: HTMLElement, view: View, private readonly trace: Trace) {
    super(holder, view, "Heat map: where each allocation's memory was over time. Alt and wheel zoom the rows.");
    for (let row = 0; row < trace.places.length; row++) if (trace.places[row] >= 0) this.order.push(row);
    this.order.sort((a, b) => trace.places[a] - trace.places[b]);
  }

  private y(stacked: number): number {
    return this.height - ((stacked - this.view.rowsFrom) / (this.view.rowsTo - this.view.rowsFrom)) * this.height;
  }

  private stacked(y: number): number {
    return this.view.rowsFrom + ((this.height - y) / this.height) * (this.view.rowsTo - this.view.rowsFrom);
  }

  protected override dragRows(pixels: number, from: number, to: number): void {
    const by = (pixels / this.height) * (to - from);
    if (to - from < this.view.stack) this.view.setRows(from + by, to + by);
  }

  protected override zoomRows(factor: number, y: number): void {
    this.view.zoomRows(factor, this.stacked(y));
  }

  override doubleClick(spot: Spot): void {
    const row = this.rowAt(spot);
    if (row < 0) return this.view.whole();
    const from = this.trace.places[row];
    const size = this.trace.allocations.bytes[row];
    this.view.setRows(from - size * 0.1, from + size * 1.1);
  }

  draw(): void {
    this.begin();
    const ratio = window.devicePixelRatio || 1;
    if (this.order.length === 0) return this.drawEmpty();
    const left = Math.round(kGutter * ratio);
    const wide = Math.round(this.plotWidth * ratio);
    const tall = this.canvas.height;
    if (!this.image || this.image.width !== wide || this.image.height !== tall) this.image = this.context.createImageData(wide, tall);
    const pixels = new Uint32Array(this.image.data.buffer);
    pixels.fill(pixel(look().ground));
    this.marks.length = 0;
    this.paint(pixels, wide, tall);
    this.context.putImageData(this.image, left, 0);
    this.drawMarks();
    this.drawNames();
    this.drawSelection();
    this.drawBands();
    this.finish();
  }

  private drawEmpty(): void {
    this.context.textAlign = "center";
    this.context.fillStyle = look().faint;
    this.context.fillText("This trace has no memory to show: nothing of 64 KiB or more was allocated.", kGutter + this.plotWidth / 2, this.height / 2);
  }

  // Rows whose place is in view; `visit` gets the range of pixel rows whose centre each covers.
  private visible(tall: number, visit: (row: number, first: number, end: number) => void): void {
    const { rowsFrom, rowsTo, start, end } = this.view;
    const perPixel = (rowsTo - rowsFrom) / tall;
    for (const row of this.order) {
      const from = this.trace.places[row];
      if (from > rowsTo) break;
      const to = from + this.trace.allocations.bytes[row];
      if (to < rowsFrom || !this.trace.livesIn(row, start, end)) continue;
      const first = Math.max(0, Math.ceil((rowsTo - to) / perPixel - 0.5));
      const last = Math.min(tall, Math.ceil((rowsTo - from) / perPixel - 0.5));
      if (last > first) visit(row, first, last);
    }
  }

  private paint(pixels: Uint32Array, wide: number, tall: number): void {
    const { view, trace } = this;
    const colours = look();
    const fills = [pixel(colours.unplaced), pixel(colours.device), pixel(colours.host), pixel(colours.both)];
    const lines = [0, 0, pixel(colours.hostLine), pixel(colours.device)];
    const plain = pixel(colours.plain);
    const gap = pixel(colours.ground);
    const scale = wide / (view.end - view.start);
    const step = Math.max(4, Math.round(6 * (window.devicePixelRatio || 1)));
    const perPixel = (view.rowsTo - view.rowsFrom) / tall;
    const column = (time: number) => Math.max(0, Math.min(wide, Math.round((time - view.start) * scale)));
    const span = (y: number, from: number, to: number, place: number) => {
      if (to <= from) return;
      const at = y * wide;
      pixels.fill(fills[place], at + from, at + to);
      if (place < Placement.Host) return;
      for (let x = from + ((step - ((from + y) % step)) % step); x < to; x += step) pixels[at + x] = lines[place];
    };
    const { time, to } = trace.changes;
    this.visible(tall, (row, first, end) => {
      const begin = column(trace.allocations.asked[row]);
      const stop = Math.max(begin + 1, column(trace.freedAt(row)));
      const separated = end - first > 8;
      let lastPiece = -2;
      let source = 0;
      for (let y = first; y < end; y++) {
        if (separated && y === first) {
          pixels.fill(gap, y * wide + begin, y * wide + Math.min(wide, stop));
          continue;
        }
        if (!trace.managed(row)) {
          pixels.fill(plain, y * wide + begin, y * wide + Math.min(wide, stop));
          continue;
        }
        const offset = view.rowsTo - (y + 0.5) * perPixel - trace.places[row];
        const piece = trace.pieceAt(row, offset);
        // Hatching is two rows' only difference, and it is drawn by row: rows of one piece are painted alike.
        if (piece !== lastPiece) source = y;
        lastPiece = piece;
        if (piece < 0) {
          span(y, begin, Math.min(wide, stop), Placement.Unplaced);
          continue;
        }
        const [from, past] = trace.changesOf(piece);
        let at = upper(time, view.start, from, past);
        let place = at > from ? to[at - 1] : Placement.Unplaced;
        let x = begin;
        for (; at < past && time[at] <= view.end; at++) {
          const next = Math.min(stop, column(time[at]));
          span(y, x, next, place);
          if (source === y && this.marks.length <= kMostMarks) this.marks.push({ x: next, y, change: at });
          x = Math.max(x, next);
          place = to[at];
        }
        span(y, x, Math.min(wide, stop), place);
      }
    });
  }

  // The moves themselves, where they are few enough to be told apart.
  private drawMarks(): void {
    if (this.marks.length > kMostMarks) return;
    const ratio = window.devicePixelRatio || 1;
    const context = this.context;
    const { start, end } = this.view;
    context.fillStyle = look().ink;
    let lastX = -9;
    let lastY = -9;
    for (const mark of this.marks) {
      const time = this.trace.changes.time[mark.change];
      if (time < start || time > end) continue;
      const x = kGutter + mark.x / ratio;
      const y = mark.y / ratio + 7;
      if (Math.abs(x - lastX) < 5 && Math.abs(y - lastY) < 8) continue;
      [lastX, lastY] = [x, y];
      const inward = this.trace.changes.to[mark.change] !== Placement.Host;
      context.beginPath();
      context.moveTo(x, inward ? y - 4 : y + 4);
      context.lineTo(x - 3.5, inward ? y + 3 : y - 3);
      context.lineTo(x + 3.5, inward ? y + 3 : y - 3);
      context.closePath();
      context.fill();
      context.strokeStyle = look().ground;
      context.lineWidth = 1;
      context.stroke();
    }
  }

  private box(row: number): { x: number; y: number; wide: number; tall: number } {
    const from = this.trace.places[row];
    const x = Math.max(kGutter, this.x(this.trace.allocations.asked[row]));
    const right = Math.min(this.width - kEdge, this.x(this.trace.freedAt(row)));
    const bottom = this.y(from);
    const top = this.y(from + this.trace.allocations.bytes[row]);
    return { x, y: top, wide: right - x, tall: bottom - top };
  }

  private drawNames(): void {
    const context = this.context;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    this.visible(this.canvas.height, (row) => {
      const { x, y, wide, tall } = this.box(row);
      if (tall < 16 || wide < 90) return;
      const text = `#${this.trace.allocations.id[row]}  ${units.bytes(this.trace.allocations.bytes[row])}`;
      const size = context.measureText(text).width;
      context.fillStyle = look().ground;
      context.globalAlpha = 0.85;
      context.beginPath();
      context.roundRect(x + 5, Math.max(2, y + 3), size + 10, 15, 3);
      context.fill();
      context.globalAlpha = 1;
      context.fillStyle = look().ink;
      context.fillText(text, x + 10, Math.max(2, y + 3) + 8);
    });
    context.font = "12px system-ui, sans-serif";
  }

  private drawSelection(): void {
    const selection = this.view.selection;
    const row = selection?.kind === "allocation" ? selection.row
      : selection?.kind === "decision" ? this.trace.decisions.allocation[selection.index] : -1;
    if (row < 0 || this.trace.places[row] < 0 || !this.trace.livesIn(row, this.view.start, this.view.end)) return;
    const { x, y, wide, tall } = this.box(row);
    const context = this.context;
    context.save();
    context.beginPath();
    context.rect(kGutter - 2, 0, this.plotWidth + 4, this.height);
    context.clip();
    context.strokeStyle = look().accent;
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - 1, wide + 2, Math.max(3, tall + 2));
    const move = selection?.kind === "decision" ? this.trace.moveOfDecision.get(this.trace.decisions.id[selection.index]) : undefined;
    if (move !== undefined) {
      const from = this.trace.places[row] + this.trace.moves.offset[move];
      const at = this.x(this.trace.moves.start[move] + this.trace.moves.took[move]);
      const [bottom, top] = [this.y(from), this.y(from + this.trace.moves.bytes[move])];
      context.lineWidth = 4;
      context.beginPath();
      context.moveTo(at, top);
      context.lineTo(at, bottom);
      context.stroke();
    }
    context.restore();
  }

  private drawBands(): void {
    const context = this.context;
    let free = this.height;
    for (const band of this.trace.directory.heat_map.bands) {
      const bottom = Math.min(this.height, this.y(band.from));
      const top = Math.max(0, this.y(band.to));
      if (bottom < 0 || top > this.height) continue;
      context.fillStyle = look().faint;
      context.fillRect(kGutter - 6, top + 1, 2, Math.max(1, bottom - top - 2));
      const middle = Math.min((top + bottom) / 2, free - 8);
      if (middle < 7) continue;
      const roomy = bottom - top > 30;
      this.name(band.name, middle, roomy ? units.bytes(band.to - band.from) : "");
      free = middle - (roomy ? 14 : 8);
    }
  }

  private rowAt(spot: Spot): number {
    const at = this.stacked(spot.y);
    for (const row of this.order) {
      const from = this.trace.places[row];
      if (from > at) break;
      if (at < from + this.trace.allocations.bytes[row] && this.trace.livesIn(row, spot.time, spot.time)) return row;
    }
    return -1;
  }

  private changeNear(row: number, spot: Spot): number {
    const piece = this.trace.pieceAt(row, this.stacked(spot.y) - this.trace.places[row]);
    if (piece < 0) return -1;
    const [from, to] = this.trace.changesOf(piece);
    const reach = (5 / this.plotWidth) * (this.view.end - this.view.start);
    const at = upper(this.trace.changes.time, spot.time + reach, from, to) - 1;
    return at >= from && this.trace.changes.time[at] >= spot.time - reach ? at : -1;
  }

  point(spot: Spot | null, event: PointerEvent | null): void {
    const row = spot && spot.x >= kGutter ? this.rowAt(spot) : -1;
    this.canvas.style.cursor = row >= 0 ? "pointer" : "default";
    if (!spot || !event || row < 0) return hideTip();
    const near = this.changeNear(row, spot);
    const offset = this.stacked(spot.y) - this.trace.places[row];
    const { placement, change } = this.trace.placementAt(row, offset, spot.time);
    const lines: Line[] = [
      { text: `Allocation ${this.trace.allocations.id[row]}, ${units.bytes(this.trace.allocations.bytes[row])}`, kind: "title" },
      this.trace.managed(row) ? `${this.trace.className(row)}, at offset ${units.bytes(offset)}` : "plain device memory",
    ];
    if (this.trace.managed(row)) {
      lines.push(placeName(placement) + (change >= 0 ? `, for ${units.duration(spot.time - this.trace.changes.time[change])}` : ""));
    }
    lines.push({ text: units.moment(spot.time, (this.view.end - this.view.start) / 200), kind: "faint" });
    if (near >= 0) lines.push({ text: " ", kind: "faint" }, ...describeMove(this.trace, this.trace.changes.move[near]));
    showTip(event, lines);
  }

  click(spot: Spot): void {
    const row = spot.x >= kGutter ? this.rowAt(spot) : -1;
    if (row < 0) return this.view.select(null);
    const near = this.changeNear(row, spot);
    if (near >= 0) selectMove(this.trace, this.view, this.trace.changes.move[near]);
    else this.view.select({ kind: "allocation", row });
  }
}

// Swatches of the legend, drawn as the panels draw.
export function swatch(kind: "device" | "host" | "both" | "unplaced" | "plain" | "arriving"): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  const ratio = Math.max(1, window.devicePixelRatio || 1);
  canvas.width = 22 * ratio;
  canvas.height = 12 * ratio;
  canvas.style.width = "22px";
  canvas.style.height = "12px";
  canvas.setAttribute("aria-hidden", "true");
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  context.scale(ratio, ratio);
  const colours = look();
  context.fillStyle = kind === "host" ? hatch(context, colours.host, colours.hostLine)
    : kind === "both" ? hatch(context, colours.both, colours.device) : colours[kind];
  context.fillRect(0, 0, 22, 12);
  return canvas;
}
