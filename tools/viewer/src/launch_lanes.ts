// A stream's lane: its launches as the program made them, and its kernels where their times were recorded.
import type { Band, Told } from "./band";
import type { BlockInfo, Table } from "./blocks";
import type { Found, LaneTables } from "./lane_tables";
import { look } from "./look";
import { kGutter, type Panel, type Spot } from "./panel";
import type { Lane, Trace } from "./trace";
import type { Line } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

interface Item {
  time: number;
  code: number;
  number: number;  // of the launch; 0: not known
  duration: number;
}

export class LaunchLanes {
  private readonly rank = new Map<number, number>();

  constructor(private readonly panel: Panel, private readonly tables: LaneTables, private readonly view: View, private readonly trace: Trace) {}

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

  draw(band: Band, lane: Lane, index: number): void {
    const timeline = this.trace.directory.timeline;
    const kernels = lane.kernels > 0;
    const tall = kernels ? Math.round(band.height * 0.7) : band.height;
    if (kernels) {
      const near = timeline.kernels_left_out === 0 ? this.tables.near(timeline.kernel_blocks) : null;
      if (near) this.drawItems(near, index, band.top, tall, true);
      else this.drawBins(lane.kernel_levels, band.top, tall, true);
    }
    const low = kernels ? band.top + tall + 1 : band.top;
    const near = timeline.launches_left_out === 0 ? this.tables.near(timeline.launch_blocks) : null;
    if (near) this.drawItems(near, index, low, band.height - (low - band.top), false);
    else this.drawBins(lane.launch_levels, low, band.height - (low - band.top), false);
  }

  // From afar: how many launches, or how busy, in the colour of what most of them were.
  private drawBins(levels: BlockInfo[], top: number, height: number, busy: boolean): void {
    const level = this.tables.level(levels);
    if (!level) return;
    const width = level.info.width ?? 1;
    const { count, code } = level.table;
    const figure = busy ? level.table.busy : count;
    const first = Math.max(0, Math.floor(this.view.start / width));
    const last = Math.min(count.length - 1, Math.floor(this.view.end / width));
    const pixels = this.panel.plotWidth + 1;
    const sums = new Float64Array(pixels);
    const best = new Float64Array(pixels);
    const codes = new Float64Array(pixels).fill(-1);
    const wide = Math.max(1, Math.ceil((width / (this.view.end - this.view.start)) * this.panel.plotWidth));
    for (let i = first; i <= last; i++) {
      if (count[i] === 0 && figure[i] === 0) continue;
      const x = Math.max(0, Math.floor(this.panel.x(i * width) - kGutter));
      if (x >= pixels) break;
      sums[x] += figure[i];
      if (count[i] >= best[x]) {
        best[x] = count[i];
        codes[x] = code[i];
      }
    }
    let most = 1;
    if (busy) most = Math.max(width, (this.view.end - this.view.start) / this.panel.plotWidth);
    else for (const sum of sums) most = Math.max(most, sum);
    this.bars(sums, codes, most, top, height, wide);
  }

  private bars(sums: Float64Array, codes: Float64Array, most: number, top: number, height: number, wide: number): void {
    const context = this.panel.context;
    for (let x = 0; x < sums.length; x++) {
      if (sums[x] === 0) continue;
      const tall = Math.max(3, Math.min(1, Math.sqrt(sums[x] / most)) * height);
      context.fillStyle = this.colour(codes[x]);
      context.fillRect(kGutter + x, top + height - tall, wide, tall);
    }
  }

  // From near: each by itself; named where there is room.
  private drawItems(blocks: Found[], lane: number, top: number, height: number, timed: boolean): void {
    const unit = this.trace.directory.timeline.time_unit;
    const { start, end } = this.view;
    const scale = this.panel.plotWidth / (end - start);
    const shown: { x: number; wide: number; code: number }[] = [];
    const pixels = this.panel.plotWidth + 1;
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
    if (items > 4000 || (!timed && items > this.panel.plotWidth)) {
      let most = 1;
      if (timed) most = 1 / scale;
      else for (const sum of sums) most = Math.max(most, sum);
      return this.bars(sums, codes, most, top, height, 1);
    }
    const context = this.panel.context;
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
  private nearest(blocks: Found[], spot: Spot, index: number, timed: boolean): { item: Item; within: number } | null {
    const unit = this.trace.directory.timeline.time_unit;
    const reach = (4 / this.panel.plotWidth) * (this.view.end - this.view.start);
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

  at(band: Band, spot: Spot, lane: Lane, index: number): Told | null {
    const timeline = this.trace.directory.timeline;
    const kernelsFirst = lane.kernels > 0 && spot.y < band.top + band.height * 0.7;
    for (const timed of kernelsFirst ? [true, false] : [false, true]) {
      const found = this.nearest(this.tables.near(timed ? timeline.kernel_blocks : timeline.launch_blocks) ?? [], spot, index, timed);
      if (!found) continue;
      const { item, within } = found;
      const lines: Line[] = [{ text: this.trace.functionName(this.trace.functionOf(item.code)), kind: "title" }];
      if (item.number > 0) lines.push(`launch ${units.count(item.number)}`);
      if (item.duration > 0) lines.push(`ran ${units.duration(item.duration)}`);
      lines.push({ text: `at ${units.moment(item.time, 1000)} on ${lane.name}`, kind: "faint" });
      if (within > 1) lines.push({ text: `${units.count(within)} within 4 pixels`, kind: "faint" });
      return { lines, click: () => this.view.select({ kind: "launch", lane: index, ...item }) };
    }
    if (this.tables.near(timeline.launch_blocks)) return null;
    const level = this.tables.level(lane.launch_levels);
    const width = level?.info.width ?? 1;
    const bin = Math.floor(spot.time / width);
    const many = level?.table.count[bin] ?? 0;
    if (!level || many === 0) return null;
    return { lines: [{ text: units.plural(many, "launch", "launches"), kind: "title" }, `in ${units.duration(width)} from ${units.moment(bin * width, width)}`,
      `most of them ${this.trace.functionName(this.trace.functionOf(level.table.code[bin]))}`, { text: "zoom in for single ones", kind: "faint" }] };
  }
}
