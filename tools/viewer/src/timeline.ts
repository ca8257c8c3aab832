// The timeline: iterations, each stream's launches or kernels, what crosses the link each way, and who waited.
import { hatch, look } from "./look";
import { kEdge, kGutter, Panel, type Spot } from "./panel";
import type { BlockInfo, Table } from "./blocks";
import { kBlocking, type Lane, Outcome, Placement, type Trace, upper } from "./trace";
import { hideTip, type Line, showTip } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

const kMostItems = 400_000;   // single launches that a frame may walk through
const kMostRects = 2_000;     // single moves drawn in a frame

interface Band {
  top: number;
  height: number;
  name: string;
  detail: string;
  draw(band: Band): void;
  at?(spot: Spot, band: Band): { lines: Line[]; click?: () => void } | null;
}

interface Item {
  time: number;
  code: number;
  number: number;  // of the launch; 0: not known
  duration: number;
}

// Moves of one direction by start, with the latest end so far, so that those in view are found at once.
class MoveLane {
  readonly order: number[];
  readonly start: Float64Array;
  readonly latest: Float64Array;
  constructor(trace: Trace, wanted: (move: number) => boolean) {
    const { start, took } = trace.moves;
    this.order = [];
    for (let i = 0; i < start.length; i++) if (wanted(i)) this.order.push(i);
    this.order.sort((a, b) => start[a] - start[b]);
    this.start = Float64Array.from(this.order, (i) => start[i]);
    this.latest = new Float64Array(this.order.length);
    let latest = 0;
    this.order.forEach((i, at) => (this.latest[at] = latest = Math.max(latest, start[i] + took[i])));
  }
  inView(from: number, to: number): [number, number] {
    return [upper(this.latest, from), upper(this.start, to)];
  }
}

export class Timeline extends Panel {
  private bands: Band[] = [];
  private readonly rank = new Map<number, number>();
  private readonly inward: MoveLane;
  private readonly outward: MoveLane;
  private readonly waits: MoveLane;
  readonly timed: boolean;

  constructor(holder: HTMLElement, view: View, private readonly trace: Trace) {
    super(holder, view, "Timeline of launches, moves and copies. Arrow keys pan and zoom.");
    const moves = trace.moves;
    const toDevice = (i: number) => moves.to[i] === Placement.Device || moves.to[i] === Placement.Both;
    this.inward = new MoveLane(trace, (i) => toDevice(i));
    this.outward = new MoveLane(trace, (i) => !toDevice(i));
    this.waits = new MoveLane(trace, (i) => moves.urgency[i] === kBlocking && moves.outcome[i] === Outcome.Done);
    this.timed = trace.directory.timeline.kernels > 0;
    this.layOut();
    const pixels = this.bands.length === 0 ? 60 : this.bands[this.bands.length - 1].top + this.bands[this.bands.length - 1].height + 6;
    holder.style.height = `${pixels}px`;
  }

  // Functions get colours by how often they are launched; the rest share one.
  rankFunctions(levels: Table[]): void {
    const counts = new Map<number, number>();
    for (const level of levels) {
      for (let i = 0; i < level.count.length; i++) {
        if (level.count[i] === 0) continue;
        const id = this.trace.functionOf(level.code[i]);
        counts.set(id, (counts.get(id) ?? 0) + level.count[i]);
      }
    }
    [...counts].sort((a, b) => b[1] - a[1]).forEach(([id], at) => this.rank.set(id, at));
  }

  private colour(code: number): string {
    const rank = this.rank.get(this.trace.functionOf(code)) ?? 99;
    return look().functions[rank] ?? look().other;
  }

  private layOut(): void {
    const directory = this.trace.directory;
    let top = 4;
    const add = (band: Omit<Band, "top">) => {
      this.bands.push({ ...band, top } as Band);
      top += band.height + 4;
    };
    if (this.trace.iterations.time.length > 0) {
      add({ height: 16, name: "iterations", detail: "", draw: (band) => this.drawIterations(band), at: (spot) => this.atIteration(spot) });
    }
    const lanes = directory.timeline.lanes;
    const height = lanes.length > 6 ? 18 : this.timed ? 40 : 30;
    for (const [index, lane] of lanes.entries()) {
      const detail = height < 30 ? "" : lane.kernels > 0 ? `${units.count(lane.kernels)} kernels` : units.plural(lane.launches, "launch", "launches");
      add({ height, name: lane.name, detail, draw: (band) => this.drawLane(band, lane, index), at: (spot, band) => this.atLane(band, spot, lane, index) });
    }
    const link = (name: string, moves: MoveLane, inward: boolean): void =>
      add({ height: 26, name, detail: units.plural(moves.order.length, "move"), draw: (band) => this.drawMoves(band, moves, inward), at: (spot) => this.atMove(spot, moves, inward) });
    link("to the device", this.inward, true);
    link("to the host", this.outward, false);
    if (this.waits.order.length > 0) {
      add({ height: 14, name: "calls that waited", detail: "", draw: (band) => this.drawWaits(band), at: (spot) => this.atMove(spot, this.waits, null) });
    }
  }

  draw(): void {
    this.begin();
    this.grid();
    const context = this.context;
    for (const band of this.bands) {
      context.save();
      context.beginPath();
      context.rect(kGutter, band.top, this.plotWidth, band.height);
      context.clip();
      band.draw(band);
      context.restore();
      this.name(band.name, band.top + band.height / 2, band.detail);
      context.fillStyle = look().line;
      context.fillRect(kGutter, band.top + band.height + 1, this.plotWidth, 1);
    }
    this.finish();
  }

  private drawIterations(band: Band): void {
    const times = this.trace.iterations.time;
    const context = this.context;
    const first = Math.max(0, upper(times, this.view.start) - 1);
    const last = Math.min(times.length, upper(times, this.view.end) + 1);
    const wide = (this.x(times[last - 1]) - this.x(times[first])) / Math.max(1, last - 1 - first);
    context.textAlign = "left";
    const middle = band.top + band.height / 2 + 0.5;
    if (wide < 4) {
      context.fillStyle = look().unplaced;
      const [from, to] = [Math.max(kGutter, this.x(times[first])), Math.min(this.width - kEdge, this.x(times[last - 1]))];
      context.fillRect(from, band.top, to - from, band.height);
      context.fillStyle = look().faint;
      context.fillText(`${units.count(last - first - 1)} iterations of ${units.duration((times[last - 1] - times[first]) / Math.max(1, last - first - 1))} on average`, from + 6, middle);
      return;
    }
    for (let i = first; i + 1 < last; i++) {
      if (!this.trace.isIteration(i)) continue;
      const [x, next] = [this.x(times[i]), this.x(times[i + 1])];
      context.fillStyle = i % 2 === 0 ? look().unplaced : look().ground;
      context.fillRect(x, band.top, next - x, band.height);
      context.fillStyle = look().line;
      context.fillRect(x, band.top, 1, band.height);
      context.fillRect(next - 1, band.top, 1, band.height);
      context.fillStyle = look().faint;
      if (next - x > 30) context.fillText(wide > 110 ? `${i + 1}: ${units.duration(times[i + 1] - times[i])}` : String(i + 1), Math.max(x, kGutter) + 5, middle);
    }
  }

  private atIteration(spot: Spot): { lines: Line[]; click?: () => void } | null {
    const { time, launches } = this.trace.iterations;
    const i = upper(time, spot.time) - 1;
    if (!this.trace.isIteration(i)) return { lines: [{ text: "No iteration was found here", kind: "faint" }] };
    return {
      lines: [{ text: `Iteration ${i + 1}`, kind: "title" }, units.duration(time[i + 1] - time[i]),
        units.plural(launches[i + 1] - launches[i], "launch", "launches"), { text: "click to zoom", kind: "faint" }],
      click: () => this.view.setWindow(time[i], time[i + 1]),
    };
  }

  // Blocks of single items in the window if there are few enough of them and all are unpacked.
  private near(blocks: BlockInfo[]): { info: BlockInfo; table: Table }[] | null {
    let rows = 0;
    const wanted = blocks.filter((block) => (block.first ?? 0) <= this.view.end && (block.last ?? 0) >= this.view.start);
    for (const block of wanted) rows += block.rows;
    if (rows > kMostItems) return null;
    const found: { info: BlockInfo; table: Table }[] = [];
    let whole = true;
    for (const info of wanted) {
      const table = this.trace.items.get(info);
      if (table) found.push({ info, table });
      else whole = false;
    }
    return whole ? found : null;
  }

  // A level whose bins are about a pixel wide, or the finest.
  private level(levels: BlockInfo[]): { info: BlockInfo; table: Table } | null {
    const pixel = (this.view.end - this.view.start) / this.plotWidth;
    let info = levels[0];
    for (const each of levels) if ((each.width ?? 0) <= pixel) info = each;
    const table = this.trace.levels.get(info);
    return table ? { info, table } : null;
  }

  private drawLane(band: Band, lane: Lane, index: number): void {
    const timeline = this.trace.directory.timeline;
    const kernels = lane.kernels > 0;
    const tall = kernels ? Math.round(band.height * 0.7) : band.height;
    if (kernels) {
      const near = timeline.kernels_left_out === 0 ? this.near(timeline.kernel_blocks) : null;
      if (near) this.drawItems(near, index, band.top, tall, true);
      else this.drawBins(lane.kernel_levels, band.top, tall, true);
    }
    const low = kernels ? band.top + tall + 1 : band.top;
    const near = timeline.launches_left_out === 0 ? this.near(timeline.launch_blocks) : null;
    if (near) this.drawItems(near, index, low, band.height - (low - band.top), false);
    else this.drawBins(lane.launch_levels, low, band.height - (low - band.top), false);
  }

  // From afar: how many launches, or how busy, in the colour of what most of them were.
  private drawBins(levels: BlockInfo[], top: number, height: number, busy: boolean): void {
    const level = this.level(levels);
    if (!level) return;
    const width = level.info.width ?? 1;
    const { count, code } = level.table;
    const figure = busy ? level.table.busy : count;
    const first = Math.max(0, Math.floor(this.view.start / width));
    const last = Math.min(count.length - 1, Math.floor(this.view.end / width));
    const pixels = this.plotWidth + 1;
    const sums = new Float64Array(pixels);
    const best = new Float64Array(pixels);
    const codes = new Float64Array(pixels).fill(-1);
    const wide = Math.max(1, Math.ceil((width / (this.view.end - this.view.start)) * this.plotWidth));
    for (let i = first; i <= last; i++) {
      if (count[i] === 0 && figure[i] === 0) continue;
      const x = Math.max(0, Math.floor(this.x(i * width) - kGutter));
      if (x >= pixels) break;
      sums[x] += figure[i];
      if (count[i] >= best[x]) {
        best[x] = count[i];
        codes[x] = code[i];
      }
    }
    let most = 1;
    if (busy) most = Math.max(width, (this.view.end - this.view.start) / this.plotWidth);
    else for (const sum of sums) most = Math.max(most, sum);
    this.bars(sums, codes, most, top, height, wide);
  }

  private bars(sums: Float64Array, codes: Float64Array, most: number, top: number, height: number, wide: number): void {
    const context = this.context;
    for (let x = 0; x < sums.length; x++) {
      if (sums[x] === 0) continue;
      const tall = Math.max(3, Math.min(1, Math.sqrt(sums[x] / most)) * height);
      context.fillStyle = this.colour(codes[x]);
      context.fillRect(kGutter + x, top + height - tall, wide, tall);
    }
  }

  // From near: each by itself; named where there is room.
  private drawItems(blocks: { info: BlockInfo; table: Table }[], lane: number, top: number, height: number, timed: boolean): void {
    const unit = this.trace.directory.timeline.time_unit;
    const { start, end } = this.view;
    const scale = this.plotWidth / (end - start);
    const shown: { x: number; wide: number; code: number }[] = [];
    const pixels = this.plotWidth + 1;
    const sums = new Float64Array(pixels);
    const codes = new Float64Array(pixels).fill(-1);
    let items = 0;
    for (const { table } of blocks) {
      const { time, lane: lanes, code, extra } = table;
      for (let i = 0; i < time.length; i++) {
        if (lanes[i] !== lane) continue;
        const at = time[i] * unit;
        const long = timed ? extra[i] * unit : 0;
        if (at + long < start || at > end) continue;
        items++;
        const x = (at - start) * scale;
        if (items <= 4000) shown.push({ x, wide: long * scale, code: code[i] });
        const pixel = Math.max(0, Math.floor(x));
        sums[pixel] += timed ? long : 1;
        codes[pixel] = code[i];
      }
    }
    if (items > 4000 || (!timed && items > this.plotWidth)) {
      let most = 1;
      if (timed) most = 1 / scale;
      else for (const sum of sums) most = Math.max(most, sum);
      return this.bars(sums, codes, most, top, height, 1);
    }
    const context = this.context;
    shown.sort((a, b) => a.x - b.x);
    shown.forEach((item, at) => {
      const next = at + 1 < shown.length ? shown[at + 1].x : pixels;
      const wide = timed ? Math.max(1, item.wide - (item.wide > 3 ? 1 : 0)) : Math.max(1, Math.min(3, (next - item.x) * 0.7));
      context.fillStyle = this.colour(item.code);
      context.fillRect(kGutter + item.x, top, wide, height);
      const room = timed ? item.wide : next - item.x - 4;
      if (room < 46 || height < 14) return;
      const label = this.trace.functionName(this.trace.functionOf(item.code));
      context.save();
      context.beginPath();
      context.rect(kGutter + item.x, top, room, height);
      context.clip();
      context.textAlign = "left";
      context.fillStyle = timed ? look().ground : look().ink;
      context.font = "11px system-ui, sans-serif";
      context.fillText(label.split("::").pop() ?? label, kGutter + Math.max(item.x, 0) + (timed ? 4 : 6), top + height / 2);
      context.restore();
    });
  }

  // The item of a lane that is nearest to the spot, if one is near, and how many are.
  private nearest(blocks: { info: BlockInfo; table: Table }[], spot: Spot, index: number, timed: boolean): { item: Item; within: number } | null {
    const unit = this.trace.directory.timeline.time_unit;
    const reach = (4 / this.plotWidth) * (this.view.end - this.view.start);
    let nearest = reach;
    let item: Item | null = null;
    let within = 0;
    for (const { info, table } of blocks) {
      for (let i = 0; i < table.time.length; i++) {
        if (table.lane[i] !== index) continue;
        const at = table.time[i] * unit;
        const long = timed ? table.extra[i] * unit : 0;
        const distance = spot.time < at ? at - spot.time : Math.max(0, spot.time - at - long);
        if (distance > reach) continue;
        within++;
        if (distance > nearest) continue;
        nearest = distance;
        item = { time: at, code: table.code[i], number: timed ? 0 : (info.number ?? 0) + i, duration: long };
      }
    }
    return item ? { item, within } : null;
  }

  private atLane(band: Band, spot: Spot, lane: Lane, index: number): { lines: Line[]; click?: () => void } | null {
    const timeline = this.trace.directory.timeline;
    const kernelsFirst = lane.kernels > 0 && spot.y < band.top + band.height * 0.7;
    for (const timed of kernelsFirst ? [true, false] : [false, true]) {
      const found = this.nearest(this.near(timed ? timeline.kernel_blocks : timeline.launch_blocks) ?? [], spot, index, timed);
      if (!found) continue;
      const { item, within } = found;
      const lines: Line[] = [{ text: this.trace.functionName(this.trace.functionOf(item.code)), kind: "title" }];
      if (item.number > 0) lines.push(`launch ${units.count(item.number)}`);
      if (item.duration > 0) lines.push(`ran ${units.duration(item.duration)}`);
      lines.push({ text: `at ${units.moment(item.time, 1000)} on ${lane.name}`, kind: "faint" });
      if (within > 1) lines.push({ text: `${units.count(within)} within 4 pixels`, kind: "faint" });
      return { lines, click: () => this.view.select({ kind: "launch", lane: index, ...item }) };
    }
    if (this.near(timeline.launch_blocks)) return null;
    const level = this.level(lane.launch_levels);
    const width = level?.info.width ?? 1;
    const bin = Math.floor(spot.time / width);
    const many = level?.table.count[bin] ?? 0;
    if (!level || many === 0) return null;
    return { lines: [{ text: units.plural(many, "launch", "launches"), kind: "title" }, `in ${units.duration(width)} from ${units.moment(bin * width, width)}`,
      `most of them ${this.trace.functionName(this.trace.functionOf(level.table.code[bin]))}`, { text: "zoom in for single ones", kind: "faint" }] };
  }

  private drawMoves(band: Band, lane: MoveLane, inward: boolean): void {
    const context = this.context;
    const moves = this.trace.moves;
    const solid = inward ? look().device : hatch(context, look().host, look().hostLine);
    const copies = 6;
    const height = band.height - copies - 1;
    const [from, to] = lane.inView(this.view.start, this.view.end);
    if (to - from > kMostRects) this.drawTraffic(band, inward, height, solid);
    else {
      for (let at = from; at < to; at++) {
        const i = lane.order[at];
        const x = this.x(moves.start[i]);
        const wide = Math.max(1.5, this.x(moves.start[i] + moves.took[i]) - x);
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
    this.context.strokeStyle = look().accent;
    this.context.lineWidth = 2;
    this.context.strokeRect(x - 1, top + 1, wide + 2, height - 2);
  }

  // Bytes in a pixel's time, as height; the tallest in view fills the lane.
  private drawTraffic(band: Band, inward: boolean, height: number, fill: string | CanvasPattern): void {
    const level = this.level(this.trace.directory.moves.traffic);
    if (!level) return;
    this.columns(level, inward ? "in" : "out", band.top, height, fill);
  }

  private drawCopies(top: number, height: number, inward: boolean): void {
    const timeline = this.trace.directory.timeline;
    if (timeline.copies === 0) return;
    const near = timeline.copies_left_out === 0 ? this.near(timeline.copy_blocks) : null;
    if (near) return this.drawSingleCopies(near, top, height, inward);
    const level = this.level(this.trace.directory.moves.traffic);
    if (level) this.columns(level, inward ? "copied_in" : "copied_out", top, height, look().faint);
  }

  private drawSingleCopies(blocks: { table: Table }[], top: number, height: number, inward: boolean): void {
    const unit = this.trace.directory.timeline.time_unit;
    this.context.fillStyle = look().faint;
    let before = -1;
    for (const { table } of blocks) {
      for (let i = 0; i < table.time.length; i++) {
        if (table.code[i] !== (inward ? 0 : 1)) continue;
        const x = Math.round(this.x(table.time[i] * unit));
        if (x === before || x < kGutter || x > this.width) continue;
        before = x;
        this.context.fillRect(x, top, 2, height);
      }
    }
  }

  private columns(level: { info: BlockInfo; table: Table }, name: string, top: number, height: number, fill: string | CanvasPattern): void {
    const width = level.info.width ?? 1;
    const column = level.table[name];
    const first = Math.max(0, Math.floor(this.view.start / width));
    const last = Math.min(column.length - 1, Math.floor(this.view.end / width));
    const sums = new Float64Array(this.plotWidth + 1);
    for (let i = first; i <= last; i++) {
      if (column[i] === 0) continue;
      const x = Math.max(0, Math.floor(this.x(i * width) - kGutter));
      if (x < sums.length) sums[x] += column[i];
    }
    const most = sums.reduce((a, b) => Math.max(a, b), 1);
    const wide = Math.max(1.5, (width / (this.view.end - this.view.start)) * this.plotWidth);
    this.context.fillStyle = fill;
    for (let x = 0; x < sums.length; x++) {
      if (sums[x] === 0) continue;
      const tall = Math.max(2, Math.sqrt(sums[x] / most) * height);
      this.context.fillRect(kGutter + x, top + height - tall, wide, tall);
    }
  }

  private drawWaits(band: Band): void {
    const moves = this.trace.moves;
    const [from, to] = this.waits.inView(this.view.start, this.view.end);
    this.context.fillStyle = look().waiting;
    let before = -1;
    for (let at = from; at < to; at++) {
      const i = this.waits.order[at];
      const x = this.x(moves.start[i]);
      const wide = Math.max(1.5, this.x(moves.start[i] + moves.took[i]) - x);
      if (x + wide < before + 1) continue;
      before = x + wide;
      this.context.fillRect(x, band.top + 2, wide, band.height - 4);
    }
  }

  private atMove(spot: Spot, lane: MoveLane, inward: boolean | null): { lines: Line[]; click?: () => void } | null {
    const moves = this.trace.moves;
    const reach = (3 / this.plotWidth) * (this.view.end - this.view.start);
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

  private atCopies(spot: Spot, inward: boolean): { lines: Line[] } | null {
    const level = this.level(this.trace.directory.moves.traffic);
    if (!level) return null;
    const width = level.info.width ?? 1;
    const reach = Math.max(1, Math.ceil((2 / this.plotWidth) * (this.view.end - this.view.start) / width));
    const bin = Math.floor(spot.time / width);
    let copied = 0;
    let moved = 0;
    for (let i = Math.max(0, bin - reach); i <= bin + reach && i < level.table.in.length; i++) {
      copied += level.table[inward ? "copied_in" : "copied_out"][i];
      moved += level.table[inward ? "in" : "out"][i];
    }
    const lines: Line[] = [];
    if (moved > 0) lines.push(`${units.bytes(moved)} moved by Spillway`);
    if (copied > 0) lines.push(`${units.bytes(copied)} copied by the program`);
    if (lines.length === 0) return null;
    return { lines: [{ text: inward ? "To the device" : "To the host", kind: "title" }, ...lines, { text: `within ${units.duration(width * (2 * reach + 1))}`, kind: "faint" }] };
  }

  private atSpot(spot: Spot): { lines: Line[]; click?: () => void } | null {
    const band = this.bands.find((each) => spot.y >= each.top && spot.y < each.top + each.height);
    return band?.at?.(spot, band) ?? null;
  }

  point(spot: Spot | null, event: PointerEvent | null): void {
    const found = spot && event && spot.x >= kGutter && spot.x <= this.width - kEdge ? this.atSpot(spot) : null;
    this.canvas.style.cursor = found?.click ? "pointer" : "default";
    if (found && event) showTip(event, found.lines);
    else hideTip();
  }

  click(spot: Spot): void {
    const found = this.atSpot(spot);
    if (found?.click) found.click();
    else this.view.select(null);
  }
}

export function placeName(placement: number): string {
  return ["not placed yet", "in device memory", "on the host", "in both"][placement] ?? "somewhere newer";
}

export function outcomeText(trace: Trace, move: number): string {
  const { outcome, took, bytes, crossed } = trace.moves;
  if (outcome[move] === Outcome.Failed) return "the driver refused";
  if (outcome[move] === Outcome.Cancelled) return "cancelled";
  // The simulated device's times are made up: no speed is told from them.
  const speed = crossed[move] === 1 && !trace.simulated ? units.rate(bytes[move], took[move]) : "";
  return `done in ${units.duration(took[move])}${speed ? `, ${speed}` : ""}${crossed[move] === 1 ? "" : ", crossed nothing"}`;
}

export function describeMove(trace: Trace, move: number): Line[] {
  const { bytes, to, allocation, reason, urgency, start, decided } = trace.moves;
  const inward = to[move] === Placement.Device || to[move] === Placement.Both;
  const lines: Line[] = [
    { text: `${units.bytes(bytes[move])} ${inward ? "▲ to the device" : "▼ to the host"}`, kind: "title" },
    `allocation ${trace.allocations.id[allocation[move]]}, ${trace.className(allocation[move])}`,
    outcomeText(trace, move),
    `why: ${trace.reasonName(reason[move])}`,
  ];
  if (urgency[move] === kBlocking) lines.push("a call waited for it");
  if (start[move] - decided[move] > 1e5) lines.push({ text: `decided ${units.duration(start[move] - decided[move])} before`, kind: "faint" });
  return lines;
}

export function selectMove(trace: Trace, view: View, move: number): void {
  const index = upper(trace.decisions.id, trace.moves.decision[move]) - 1;
  if (index >= 0 && trace.decisions.id[index] === trace.moves.decision[move]) view.select({ kind: "decision", index });
  else view.select({ kind: "allocation", row: trace.moves.allocation[move] });
}
