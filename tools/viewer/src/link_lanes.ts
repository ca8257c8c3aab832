// The link's lanes: Spillway's moves and the program's copies each way, the calls that waited for a move, and how long launches
// may have waited for what was on the host.
import type { Band, Told } from "./band";
import type { Table } from "./blocks";
import type { Found, LaneTables } from "./lane_tables";
import { hatch, look } from "./look";
import { describeMove, type MoveLane, selectMove } from "./moves";
import { kGutter, type Panel, type Spot } from "./panel";
import { Outcome, type Trace } from "./trace";
import type { Line } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

const kMostRects = 2_000;     // single moves drawn in a frame

export class LinkLanes {
  constructor(private readonly panel: Panel, private readonly tables: LaneTables, private readonly view: View, private readonly trace: Trace) {}

  drawMoves(band: Band, lane: MoveLane, inward: boolean): void {
    const context = this.panel.context;
    const moves = this.trace.moves;
    const solid = inward ? look().device : hatch(context, look().host, look().hostLine);
    const copies = 6;
    const height = band.height - copies - 1;
    const [from, to] = lane.inView(this.view.start, this.view.end);
    if (to - from > kMostRects) this.drawTraffic(band, inward, height, solid);
    else {
      for (let at = from; at < to; at++) {
        const i = lane.order[at];
        const x = this.panel.x(moves.start[i]);
        const wide = Math.max(1.5, this.panel.x(moves.start[i] + moves.took[i]) - x);
        const done = moves.outcome[i] === Outcome.Done;
        // What only got its first place crossed nothing: half as tall.
        const tall = moves.crossed[i] === 1 ? height : height / 2;
        context.globalAlpha = done ? 1 : 0.35;
        context.fillStyle = done ? solid : look().faint;
        context.fillRect(x, band.top + height - tall, wide, tall);
        context.globalAlpha = 1;
        if (!inward && done && wide > 3) {
          context.strokeStyle = look().hostLine;
          context.lineWidth = 1;
          context.strokeRect(x + 0.5, band.top + height - tall + 0.5, wide - 1, tall - 1);
        }
        if (this.isSelected(i)) this.outline(x, band.top, wide, height);
      }
    }
    this.drawCopies(band.top + height + 1, copies, inward);
  }

  private isSelected(move: number): boolean {
    const selection = this.view.selection;
    if (selection?.kind === "decision") return this.trace.moves.decision[move] === this.trace.decisions.id[selection.index];
    return selection?.kind === "allocation" && this.trace.moves.allocation[move] === selection.row;
  }

  private outline(x: number, top: number, wide: number, height: number): void {
    this.panel.context.strokeStyle = look().accent;
    this.panel.context.lineWidth = 2;
    this.panel.context.strokeRect(x - 1, top + 1, wide + 2, height - 2);
  }

  // Bytes in a pixel's time, as height; the tallest in view fills the lane.
  private drawTraffic(band: Band, inward: boolean, height: number, fill: string | CanvasPattern): void {
    const level = this.tables.level(this.trace.directory.moves.traffic);
    if (!level) return;
    this.columns(level, inward ? "in" : "out", band.top, height, fill);
  }

  private drawCopies(top: number, height: number, inward: boolean): void {
    const timeline = this.trace.directory.timeline;
    if (timeline.copies === 0) return;
    const near = timeline.copies_left_out === 0 ? this.tables.near(timeline.copy_blocks) : null;
    if (near) return this.drawSingleCopies(near, top, height, inward);
    const level = this.tables.level(this.trace.directory.moves.traffic);
    if (level) this.columns(level, inward ? "copied_in" : "copied_out", top, height, look().faint);
  }

  private drawSingleCopies(blocks: { table: Table }[], top: number, height: number, inward: boolean): void {
    const unit = this.trace.directory.timeline.time_unit;
    this.panel.context.fillStyle = look().faint;
    let before = -1;
    for (const { table } of blocks) {
      for (let i = 0; i < table.time.length; i++) {
        if (table.code[i] !== (inward ? 0 : 1)) continue;
        const x = Math.round(this.panel.x(table.time[i] * unit));
        if (x === before || x < kGutter || x > this.panel.width) continue;
        before = x;
        this.panel.context.fillRect(x, top, 2, height);
      }
    }
  }

  // The tallest in view fills the lane.
  private columns(level: Found, name: string, top: number, height: number, fill: string | CanvasPattern): void {
    const sums = this.tables.byPixel(level, level.table[name]);
    const most = sums.reduce((a, b) => Math.max(a, b), 1);
    this.bars(sums.map((sum) => Math.sqrt(sum / most)), this.tables.wide(level), top, height, fill);
  }

  private bars(shares: Float64Array, wide: number, top: number, height: number, fill: string | CanvasPattern): void {
    this.panel.context.fillStyle = fill;
    for (let x = 0; x < shares.length; x++) {
      if (shares[x] === 0) continue;
      const tall = Math.max(2, Math.min(1, shares[x]) * height);
      this.panel.context.fillRect(kGutter + x, top + height - tall, Math.max(1.5, wide), tall);
    }
  }

  drawWaits(band: Band, lane: MoveLane): void {
    const moves = this.trace.moves;
    const [from, to] = lane.inView(this.view.start, this.view.end);
    this.panel.context.fillStyle = look().waiting;
    let before = -1;
    for (let at = from; at < to; at++) {
      const i = lane.order[at];
      const x = this.panel.x(moves.start[i]);
      const wide = Math.max(1.5, this.panel.x(moves.start[i] + moves.took[i]) - x);
      if (x + wide < before + 1) continue;
      before = x + wide;
      this.panel.context.fillRect(x, band.top + 2, wide, band.height - 4);
    }
  }

  atMove(spot: Spot, lane: MoveLane, inward: boolean | null): Told | null {
    const moves = this.trace.moves;
    const reach = (3 / this.panel.plotWidth) * (this.view.end - this.view.start);
    const [from, to] = lane.inView(spot.time - reach, spot.time + reach);
    let best = -1;
    let nearest = Infinity;
    for (let at = Math.max(from, to - 2000); at < to; at++) {
      const i = lane.order[at];
      const distance = spot.time < moves.start[i] ? moves.start[i] - spot.time : Math.max(0, spot.time - moves.start[i] - moves.took[i]);
      if (distance <= reach && distance <= nearest) [best, nearest] = [i, distance];
    }
    if (best >= 0) return { lines: describeMove(this.trace, best), click: () => selectMove(this.trace, this.view, best) };
    if (inward === null) return null;
    return this.atCopies(spot, inward);
  }

  private atCopies(spot: Spot, inward: boolean): Told | null {
    const bin = this.bin(spot);
    if (!bin) return null;
    const copied = bin.sum(inward ? "copied_in" : "copied_out");
    const moved = bin.sum(inward ? "in" : "out");
    const lines: Line[] = [];
    if (moved > 0) lines.push(`${units.bytes(moved)} moved by Spillway`);
    if (copied > 0) lines.push(`${units.bytes(copied)} copied by the program`);
    if (lines.length === 0) return null;
    return { lines: [{ text: inward ? "To the device" : "To the host", kind: "title" }, ...lines, { text: `within ${units.duration(bin.width)}`, kind: "faint" }] };
  }

  // How long the bytes that launches named, and that were on the host, take over the link: no launch need have waited for all of
  // them. As `stats` counts it; full height is all of a pixel's time.
  private stall(bytes: number): number {
    return (bytes / this.trace.directory.link_in) * 1e9;
  }

  drawStalls(band: Band): void {
    const level = this.tables.level(this.trace.directory.moves.traffic);
    if (!level) return;
    const wide = this.tables.wide(level);
    const pixel = Math.max((this.view.end - this.view.start) / this.panel.plotWidth, level.info.width ?? 1);
    const shares = this.tables.byPixel(level, level.table.named_on_host).map((bytes) => this.stall(bytes) / pixel);
    this.bars(shares, wide, band.top, band.height, look().waiting);
  }

  atStalls(spot: Spot): Told | null {
    const bin = this.bin(spot);
    if (!bin) return null;
    const bytes = bin.sum("named_on_host");
    if (bytes === 0) return null;
    return {
      lines: [{ text: `Stalled for ${units.duration(this.stall(bytes))} at most`, kind: "title" },
        `launches named ${units.bytes(bytes)} that was on the host`, "so long takes that over the link, if a kernel reads all of it",
        { text: `within ${units.duration(bin.width)}`, kind: "faint" }],
    };
  }

  // What a level says of the time around a spot.
  private bin(spot: Spot): { width: number; sum: (name: string) => number } | null {
    const level = this.tables.level(this.trace.directory.moves.traffic);
    if (!level) return null;
    const width = level.info.width ?? 1;
    const reach = Math.max(1, Math.ceil((2 / this.panel.plotWidth) * (this.view.end - this.view.start) / width));
    const at = Math.floor(spot.time / width);
    const sum = (name: string) => {
      let total = 0;
      for (let i = Math.max(0, at - reach); i <= at + reach && i < level.table[name].length; i++) total += level.table[name][i];
      return total;
    };
    return { width: width * (2 * reach + 1), sum };
  }
}
