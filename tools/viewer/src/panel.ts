// A panel that is drawn on a canvas over the common time axis: its size, its pointer, and the gestures that all share.
import { look } from "./look";
import { ticks } from "./units";
import type { View } from "./view";

export const kGutter = 118;   // names to the left; the same in every panel, so that times are in line
export const kEdge = 14;      // to the right

export interface Spot {
  x: number;   // pixels in the panel
  y: number;
  time: number;
}

export abstract class Panel {
  readonly canvas = document.createElement("canvas");
  readonly context: CanvasRenderingContext2D;
  width = 0;   // in pixels, as the context counts
  protected height = 0;
  private drag: { x: number; y: number; start: number; end: number; from: number; to: number; moved: boolean; range: boolean } | null = null;
  protected range: [number, number] | null = null;  // being chosen with shift, in pixels

  constructor(protected readonly holder: HTMLElement, protected readonly view: View, label: string) {
    const context = this.canvas.getContext("2d", { alpha: false });
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", label);
    holder.append(this.canvas);
    new ResizeObserver(() => this.fit()).observe(holder);
    this.canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("pointerdown", (event) => this.down(event));
    this.canvas.addEventListener("pointermove", (event) => this.moved(event));
    this.canvas.addEventListener("pointerup", (event) => this.up(event));
    this.canvas.addEventListener("pointercancel", () => (this.drag = null));
    this.canvas.addEventListener("pointerleave", () => {
      if (!this.drag) {
        this.view.setHover(null);
        this.point(null, null);
      }
    });
    this.canvas.addEventListener("dblclick", (event) => this.doubleClick(this.spot(event)));
  }

  // Draws all of it. The context is scaled to CSS pixels.
  abstract draw(): void;
  // The pointer is over this spot (or has left): show what is there.
  abstract point(spot: Spot | null, event: PointerEvent | null): void;
  abstract click(spot: Spot): void;
  doubleClick(spot: Spot): void {
    this.view.zoom(0.25, spot.time);
  }
  // Rows can be dragged and zoomed only in the heat map.
  protected dragRows(_pixels: number, _from: number, _to: number): void {}
  protected zoomRows(_factor: number, _y: number): void {}

  get plotWidth(): number {
    return Math.max(1, this.width - kGutter - kEdge);
  }

  x(time: number): number {
    return kGutter + ((time - this.view.start) / (this.view.end - this.view.start)) * this.plotWidth;
  }

  time(x: number): number {
    return this.view.start + ((x - kGutter) / this.plotWidth) * (this.view.end - this.view.start);
  }

  fit(): void {
    const ratio = window.devicePixelRatio || 1;
    const wide = Math.max(1, Math.round(this.holder.clientWidth * ratio));
    const tall = Math.max(1, Math.round(this.holder.clientHeight * ratio));
    if (this.width === this.holder.clientWidth && this.canvas.width === wide && this.canvas.height === tall) return;
    this.width = this.holder.clientWidth;
    this.height = this.holder.clientHeight;
    this.canvas.width = wide;
    this.canvas.height = tall;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.draw();  // now: a canvas of another size is black until then
  }

  protected begin(): void {
    const ratio = window.devicePixelRatio || 1;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.context.fillStyle = look().ground;
    this.context.fillRect(0, 0, this.width, this.height);
    this.context.font = "12px system-ui, sans-serif";
    this.context.textBaseline = "middle";
  }

  protected grid(): void {
    const context = this.context;
    context.fillStyle = look().line;
    for (const at of ticks(this.view.start, this.view.end, this.plotWidth / 120).at) {
      context.fillRect(Math.round(this.x(at)), 0, 1, this.height);
    }
  }

  // What lies over everything: the ends of the run, the pointer's time, the range being chosen.
  protected finish(): void {
    const context = this.context;
    context.fillStyle = look().line;
    context.globalAlpha = 0.55;
    const begin = this.x(0);
    const end = this.x(this.view.duration);
    if (begin > kGutter) context.fillRect(kGutter, 0, begin - kGutter, this.height);
    if (end < this.width - kEdge) context.fillRect(end, 0, this.width - kEdge - end, this.height);
    context.globalAlpha = 1;
    if (!this.view.complete && end < this.width) {
      // The trace stops here; the run may not have.
      context.strokeStyle = look().accent;
      context.lineWidth = 2;
      context.setLineDash([4, 4]);
      context.beginPath();
      context.moveTo(Math.min(end, this.width - kEdge) + 1, 0);
      context.lineTo(Math.min(end, this.width - kEdge) + 1, this.height);
      context.stroke();
      context.setLineDash([]);
    }
    if (this.range) {
      context.fillStyle = look().accent;
      context.globalAlpha = 0.15;
      context.fillRect(Math.min(...this.range), 0, Math.abs(this.range[1] - this.range[0]), this.height);
      context.globalAlpha = 1;
    }
    if (this.view.hover !== null) {
      const x = Math.round(this.x(this.view.hover));
      if (x >= kGutter && x <= this.width - kEdge) {
        context.fillStyle = look().faint;
        context.fillRect(x, 0, 1, this.height);
      }
    }
  }

  protected name(text: string, y: number, detail = ""): void {
    const context = this.context;
    context.textAlign = "right";
    context.fillStyle = look().ink;
    context.fillText(text, kGutter - 10, detail ? y - 6 : y, kGutter - 14);
    if (!detail) return;
    context.fillStyle = look().faint;
    context.font = "10.5px system-ui, sans-serif";
    context.fillText(detail, kGutter - 10, y + 7, kGutter - 14);
    context.font = "12px system-ui, sans-serif";
  }

  private spot(event: MouseEvent): Spot {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    return { x, y: event.clientY - box.top, time: this.time(x) };
  }

  private wheel(event: WheelEvent): void {
    event.preventDefault();
    this.point(null, null);
    const scale = event.deltaMode === 1 ? 16 : 1;
    const spot = this.spot(event);
    if (event.altKey) return this.zoomRows(Math.exp(event.deltaY * scale * 0.002), spot.y);
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      return this.view.pan(((event.deltaX || event.deltaY) * scale) / this.plotWidth);
    }
    // A pinch comes as a wheel with ctrl, in smaller steps.
    this.view.zoom(Math.exp(event.deltaY * scale * (event.ctrlKey ? 0.01 : 0.002)), spot.time);
  }

  private down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const { start, end, rowsFrom, rowsTo } = this.view;
    this.drag = { x: event.clientX, y: event.clientY, start, end, from: rowsFrom, to: rowsTo, moved: false, range: event.shiftKey };
    this.canvas.setPointerCapture(event.pointerId);
  }

  private moved(event: PointerEvent): void {
    const spot = this.spot(event);
    const drag = this.drag;
    if (!drag) {
      this.view.setHover(spot.x >= kGutter ? spot.time : null);
      this.point(spot, event);
      return;
    }
    const dx = event.clientX - drag.x;
    const dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    drag.moved = true;
    this.point(null, null);
    if (drag.range) {
      this.range = [spot.x - dx, spot.x];
      this.view.changed("hover");
      return;
    }
    const by = (-dx / this.plotWidth) * (drag.end - drag.start);
    this.view.setWindow(drag.start + by, drag.end + by);
    this.dragRows(dy, drag.from, drag.to);
  }

  private up(event: PointerEvent): void {
    const drag = this.drag;
    this.drag = null;
    const range = this.range;
    this.range = null;
    if (!drag) return;
    if (!drag.moved) return this.click(this.spot(event));
    if (!range) return;
    const [from, to] = [this.time(Math.min(...range)), this.time(Math.max(...range))];
    this.view.setWindow(from, to);
  }
}
