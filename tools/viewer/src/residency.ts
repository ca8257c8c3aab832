// What the device holds, against its budget: stacked upwards; what was spilled to the host hangs below the line.
import uPlot from "uplot";
import type { Table } from "./blocks";
import { hatch, look } from "./look";
import { kEdge, kGutter } from "./panel";
import { type Trace, upper } from "./trace";
import { hideTip, showTip } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

const kMostPoints = 2500;

export class Residency {
  private plot: uPlot | null = null;
  private step = 1;

  constructor(private readonly holder: HTMLElement, private readonly view: View, private readonly trace: Trace) {
    holder.tabIndex = 0;
    holder.setAttribute("role", "img");
    holder.setAttribute("aria-label", this.describe());
    new ResizeObserver(() => {
      this.plot?.setSize({ width: holder.clientWidth, height: holder.clientHeight });
      view.changed("data");
    }).observe(holder);
    holder.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    holder.addEventListener("pointerleave", () => hideTip());
    holder.addEventListener("pointermove", (event) => this.point(event));
  }

  private get device() {
    return this.trace.directory.devices[this.view.device];
  }

  describe(): string {
    const device = this.device;
    if (!device) return "Device memory: no device in this trace";
    return `Device memory over time: at most ${units.bytes(device.resident_peak)} of managed memory` +
      (device.budget > 0 ? ` in a budget of ${units.bytes(device.budget)}` : "");
  }

  // Anew: after another theme or device.
  rebuild(): void {
    this.plot?.destroy();
    this.plot = null;
    this.holder.replaceChildren();
    if (!this.device) {
      const empty = document.createElement("p");
      empty.className = "empty";
      empty.textContent = "No device is named in this trace.";
      this.holder.append(empty);
      return;
    }
    this.plot = new uPlot(this.options(), [[0], [0], [0], [0], [0], [0]], this.holder);
    this.holder.setAttribute("aria-label", this.describe());
  }

  // A moment of the time axis; nothing where it would stand across the right edge.
  private label(time: number): string {
    const { start, end } = this.view;
    const room = ((end - time) / (end - start)) * (this.holder.clientWidth - kGutter - kEdge) + kEdge;
    return room < 28 ? "" : units.moment(time, this.step, Math.max(end, -start));
  }

  private options(): uPlot.Options {
    const colours = look();
    const stepped = uPlot.paths.stepped?.({ align: 1 });
    const area = (label: string, fill: string | ((context: CanvasRenderingContext2D) => string | CanvasPattern)): uPlot.Series => ({
      label, paths: stepped, points: { show: false }, width: 0,
      fill: typeof fill === "string" ? fill : (u: uPlot) => fill(u.ctx) as unknown as CanvasGradient,
    });
    const axis = { stroke: colours.faint, grid: { stroke: colours.line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const y = (values: number[]) => values.map((value) => units.bytes(Math.abs(value)));
    return {
      width: Math.max(50, this.holder.clientWidth), height: Math.max(50, this.holder.clientHeight),
      padding: [18, kEdge, 0, 0],
      legend: { show: false }, cursor: { show: false },
      scales: { x: { time: false, range: () => [this.view.start, this.view.end] }, y: { range: () => this.range() } },
      axes: [
        { ...axis, size: 26, splits: () => {
          const { step, at } = units.ticks(this.view.start, this.view.end, (this.holder.clientWidth - kGutter - kEdge) / 120);
          this.step = step;
          return at;
        }, values: (_, at) => at.map((time) => this.label(time)) },
        { ...axis, size: kGutter, gap: 8, splits: () => this.levels(), values: (_, at) => y(at) },
      ],
      series: [{},
        area("in all", colours.arriving),
        area("without arriving", colours.device),
        area("plain and reserved", colours.plain),
        { label: "on the host", paths: stepped, points: { show: false }, width: 1, stroke: colours.hostLine,
          fill: (u: uPlot) => hatch(u.ctx, colours.host, colours.hostLine) as unknown as CanvasGradient },
        { label: "budget", stroke: colours.budget, width: 1.5, dash: [6, 4], points: { show: false } },
      ],
      hooks: { draw: [(u) => this.overlay(u)] },
    };
  }

  private most = 1;
  private least = 0;

  private range(): [number, number] {
    return [this.least < 0 ? this.least * 1.06 : 0, this.most * 1.04];
  }

  // Round steps of bytes.
  private levels(): number[] {
    const [from, to] = this.range();
    const most = Math.max(2, (this.holder.clientHeight - 44) / 24);
    let step = 2 ** Math.ceil(Math.log2((to - from) / most));
    if (!(step > 0)) step = 1;
    const at: number[] = [];
    for (let value = Math.ceil(from / step) * step; value <= to; value += step) at.push(value);
    // Where most of the height is the host's, the device has one level all the same.
    const above = 2 ** Math.floor(Math.log2(to));
    const pixels = (above / (to - from)) * (this.holder.clientHeight - 44);
    if (!at.some((value) => value > 0) && pixels >= 12) at.push(above);
    return at;
  }

  private level(): Table | null {
    let best: Table | null = null;
    for (const info of [...(this.device?.residency ?? [])].reverse()) {
      const table = this.trace.levels.get(info);
      if (!table) continue;
      const points = upper(table.time, this.view.end) - upper(table.time, this.view.start);
      if (best && points > kMostPoints) break;
      best = table;
    }
    return best;
  }

  draw(): void {
    if (!this.plot) this.rebuild();
    const table = this.level();
    if (!this.plot || !table) return;
    const budget = this.device.budget;
    const { time, plain, reserved, resident, arriving, on_host } = table;
    // From the last point before the window to the first after it, so that the steps reach its edges.
    const first = Math.max(0, upper(time, this.view.start) - 1);
    const last = Math.min(time.length, upper(time, this.view.end) + 1);
    const rows: [number[], number[], number[], number[], number[], number[]] = [[], [], [], [], [], []];
    const add = (at: number, i: number) => {
      const fixed = plain[i] + reserved[i];
      rows[0].push(at);
      rows[1].push(fixed + resident[i] + arriving[i]);
      rows[2].push(fixed + resident[i]);
      rows[3].push(fixed);
      rows[4].push(-on_host[i]);
      rows[5].push(budget);
    };
    if (last > first && time[first] > this.view.start) {
      rows.forEach((row, i) => row.push(i === 0 ? this.view.start : i === 5 ? budget : 0));  // before anything was held
    }
    for (let i = first; i < last; i++) add(Math.max(time[i], this.view.start), i);
    if (last > 0 && rows[0].length > 0) add(Math.max(this.view.end, rows[0][rows[0].length - 1]), last - 1);
    if (rows[0].length === 0) {
      for (const at of [this.view.start, this.view.end]) rows.forEach((row, i) => row.push(i === 0 ? at : i === 5 ? budget : 0));
    }
    this.most = Math.max(budget, 1);
    this.least = 0;
    const whole = this.trace.levels.get(this.device.residency[this.device.residency.length - 1]) ?? table;
    for (let i = 0; i < whole.time.length; i++) {
      this.most = Math.max(this.most, whole.plain[i] + whole.reserved[i] + whole.resident[i] + whole.arriving[i]);
      this.least = Math.min(this.least, -whole.on_host[i]);
    }
    this.plot.setData(rows, true);
  }

  private overlay(u: uPlot): void {
    const context = u.ctx;
    const ratio = uPlot.pxRatio;
    context.save();
    context.font = `${11 * ratio}px system-ui, sans-serif`;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = look().ink;
    const left = u.bbox.left + 8 * ratio;
    if (this.device.budget > 0) {
      context.textBaseline = "bottom";
      context.fillText(`budget ${units.bytes(this.device.budget)}`, left, u.valToPos(this.device.budget, "y", true) - 3 * ratio);
    }
    const zero = u.valToPos(0, "y", true);
    context.fillRect(u.bbox.left, Math.round(zero), u.bbox.width, ratio);
    if (this.view.hover !== null) {
      const x = Math.round(u.valToPos(this.view.hover, "x", true));
      context.fillStyle = look().faint;
      if (x >= u.bbox.left && x <= u.bbox.left + u.bbox.width) context.fillRect(x, u.bbox.top, ratio, u.bbox.height);
    }
    context.restore();
  }

  redrawHover(): void {
    this.plot?.redraw(false, false);
  }

  private timeAt(event: MouseEvent): number {
    const box = this.holder.getBoundingClientRect();
    const wide = Math.max(1, box.width - kGutter - kEdge);
    return this.view.start + ((event.clientX - box.left - kGutter) / wide) * (this.view.end - this.view.start);
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      return this.view.pan((event.deltaX || event.deltaY) / Math.max(1, this.holder.clientWidth - kGutter - kEdge));
    }
    this.view.zoom(Math.exp(event.deltaY * (event.ctrlKey ? 0.01 : 0.002)), this.timeAt(event));
  }

  private drag: { x: number; start: number; end: number } | null = null;

  private point(event: PointerEvent): void {
    if (event.buttons === 1) {
      this.drag ??= { x: event.clientX, start: this.view.start, end: this.view.end };
      const wide = Math.max(1, this.holder.clientWidth - kGutter - kEdge);
      const by = ((this.drag.x - event.clientX) / wide) * (this.drag.end - this.drag.start);
      hideTip();
      return this.view.setWindow(this.drag.start + by, this.drag.end + by);
    }
    this.drag = null;
    const time = this.timeAt(event);
    this.view.setHover(time >= this.view.start ? time : null);
    const table = this.level();
    const i = table ? upper(table.time, time) - 1 : -1;
    if (!table || i < 0 || time < this.view.start) return hideTip();
    const held = table.plain[i] + table.reserved[i] + table.resident[i] + table.arriving[i];
    const budget = this.device.budget;
    const lines = [
      `managed, in device memory: ${units.bytes(table.resident[i])}`,
      ...(table.arriving[i] > 0 ? [`arriving: ${units.bytes(table.arriving[i])}`] : []),
      `plain: ${units.bytes(table.plain[i])}`,
      ...(table.reserved[i] > 0 ? [`Spillway's own: ${units.bytes(table.reserved[i])}`] : []),
      `spilled to the host: ${units.bytes(table.on_host[i])}`,
    ];
    showTip(event, [
      { text: `${units.bytes(held)}${budget > 0 ? ` of ${units.bytes(budget)} (${Math.round((held / budget) * 100)}%)` : ""}`, kind: "title" },
      ...lines, { text: units.moment(time, (this.view.end - this.view.start) / 200), kind: "faint" }]);
  }
}
