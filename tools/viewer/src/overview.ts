// The whole run in a strip: what crossed the link, and the window that the panels show. Drag the window, its edges, or a
// new one.
import { look, theme } from "./look";
import { kEdge, kGutter } from "./panel";
import type { Trace } from "./trace";
import { hideTip } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

export class Overview {
  private readonly canvas = document.createElement("canvas");
  private drag: { kind: "move" | "start" | "end" | "new"; from: number; start: number; end: number } | null = null;

  constructor(private readonly holder: HTMLElement, private readonly view: View, private readonly trace: Trace) {
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", "Overview of the run. Drag to choose the time that is shown.");
    holder.append(this.canvas);
    new ResizeObserver(() => view.changed("data")).observe(holder);
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.moved(event));
    this.canvas.addEventListener("pointerup", () => (this.drag = null));
    this.canvas.addEventListener("dblclick", () => view.setWindow(0, view.duration));
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      view.zoom(Math.exp(event.deltaY * 0.002), this.time(event));
    }, { passive: false });
  }

  private wide = 1;
  private backdrop: HTMLCanvasElement | null = null;  // the strip without its window: the same from frame to frame
  private backdropOf = "";

  private x(time: number): number {
    return kGutter + (time / this.view.duration) * this.wide;
  }

  private time(event: MouseEvent): number {
    return ((event.clientX - this.canvas.getBoundingClientRect().left - kGutter) / this.wide) * this.view.duration;
  }

  draw(): void {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [this.holder.clientWidth, this.holder.clientHeight];
    const context = this.canvas.getContext("2d", { alpha: false });
    if (!context || width === 0) return;
    this.wide = Math.max(1, width - kGutter - kEdge);
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const levels = this.trace.directory.moves.traffic;
    const table = levels.length > 0 ? this.trace.levels.get(levels[levels.length - 1]) : undefined;
    const key = `${this.canvas.width} ${this.canvas.height} ${theme()} ${table !== undefined}`;
    if (this.backdropOf !== key) {
      this.backdropOf = key;
      this.backdrop ??= document.createElement("canvas");
      this.backdrop.width = this.canvas.width;
      this.backdrop.height = this.canvas.height;
      const behind = this.backdrop.getContext("2d", { alpha: false });
      behind?.setTransform(ratio, 0, 0, ratio, 0, 0);
      if (behind) this.drawBackdrop(behind, width, height);
    }
    context.setTransform(1, 0, 0, 1, 0, 0);
    if (this.backdrop) context.drawImage(this.backdrop, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.window(context, height);
  }

  private drawBackdrop(context: CanvasRenderingContext2D, width: number, height: number): void {
    context.fillStyle = look().ground;
    context.fillRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillStyle = look().ink;
    context.fillText("whole run", kGutter - 10, height / 2 - 6);
    context.fillStyle = look().faint;
    context.fillText(units.duration(this.view.duration), kGutter - 10, height / 2 + 7);
    context.fillStyle = look().unplaced;
    context.fillRect(kGutter, 0, this.wide, height);
    this.traffic(context, height);
  }

  // In upwards, out downwards, from the middle.
  private traffic(context: CanvasRenderingContext2D, height: number): void {
    const levels = this.trace.directory.moves.traffic;
    const info = levels[levels.length - 1];
    const table = info ? this.trace.levels.get(info) : undefined;
    if (!info || !table) return;
    const width = info.width ?? 1;
    const sums = [new Float64Array(this.wide + 1), new Float64Array(this.wide + 1)];
    for (let i = 0; i < table.in.length; i++) {
      const x = Math.floor(((i * width) / this.view.duration) * this.wide);
      if (x >= sums[0].length) break;
      sums[0][x] += table.in[i];
      sums[1][x] += table.out[i];
    }
    let most = 1;
    for (const sum of sums) for (const each of sum) most = Math.max(most, each);
    const half = height / 2;
    const wide = Math.max(1.5, (width / this.view.duration) * this.wide);
    sums.forEach((sum, outward) => {
      context.fillStyle = outward ? look().hostLine : look().device;
      for (let x = 0; x < sum.length; x++) {
        if (sum[x] === 0) continue;
        const tall = Math.max(2, Math.sqrt(sum[x] / most) * (half - 3));
        context.fillRect(kGutter + x, outward ? half : half - tall, wide, tall);
      }
    });
  }

  private window(context: CanvasRenderingContext2D, height: number): void {
    const from = Math.max(kGutter, this.x(this.view.start));
    const to = Math.min(kGutter + this.wide, this.x(this.view.end));
    context.fillStyle = look().ground;
    context.globalAlpha = 0.65;
    context.fillRect(kGutter, 0, from - kGutter, height);
    context.fillRect(to, 0, kGutter + this.wide - to, height);
    context.globalAlpha = 1;
    context.strokeStyle = look().ink;
    context.lineWidth = 1;
    context.strokeRect(from + 0.5, 0.5, Math.max(2, to - from - 1), height - 1);
    context.fillStyle = look().ink;
    for (const x of [from, to - 3]) context.fillRect(x, height / 2 - 7, 3, 14);
    if (this.view.hover !== null) {
      context.fillStyle = look().faint;
      context.fillRect(Math.round(this.x(this.view.hover)), 0, 1, height);
    }
  }

  private kindAt(event: PointerEvent): "move" | "start" | "end" | "new" {
    const x = event.clientX - this.canvas.getBoundingClientRect().left;
    const [from, to] = [this.x(this.view.start), this.x(this.view.end)];
    if (Math.abs(x - from) < 7) return "start";
    if (Math.abs(x - to) < 7) return "end";
    const whole = this.view.end - this.view.start >= this.view.duration * 0.99;
    return x > from && x < to && !whole ? "move" : "new";
  }

  private down(event: PointerEvent): void {
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { kind: this.kindAt(event), from: this.time(event), start: this.view.start, end: this.view.end };
    hideTip();
  }

  private moved(event: PointerEvent): void {
    const drag = this.drag;
    if (!drag) {
      const kind = this.kindAt(event);
      this.canvas.style.cursor = kind === "move" ? "grab" : kind === "new" ? "crosshair" : "ew-resize";
      return;
    }
    const time = this.time(event);
    const by = time - drag.from;
    if (drag.kind === "move") this.view.setWindow(drag.start + by, drag.end + by);
    else if (drag.kind === "start") this.view.setWindow(Math.min(drag.start + by, drag.end - 1), drag.end);
    else if (drag.kind === "end") this.view.setWindow(drag.start, Math.max(drag.end + by, drag.start + 1));
    else if (Math.abs(by) > this.view.duration / this.wide * 3) this.view.setWindow(Math.min(drag.from, time), Math.max(drag.from, time));
  }
}

