// The timeline: iterations, each stream's launches or kernels, what crosses the link each way, and who waited.
import type { Band, Told } from "./band";
import { LaneTables } from "./lane_tables";
import { LaunchLanes } from "./launch_lanes";
import { LinkLanes } from "./link_lanes";
import { look } from "./look";
import { MoveLane } from "./moves";
import { kEdge, kGutter, Panel, type Spot } from "./panel";
import { kBlocking, Outcome, Placement, type Trace, upper } from "./trace";
import { hideTip, showTip } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

export class Timeline extends Panel {
  private bands: Band[] = [];
  readonly lanes: LaunchLanes;
  private readonly links: LinkLanes;
  private readonly inward: MoveLane;
  private readonly outward: MoveLane;
  private readonly waits: MoveLane;

  constructor(holder: HTMLElement, view: View, private readonly trace: Trace) {
    super(holder, view, "Timeline of launches, moves and copies. Arrow keys pan and zoom.");
    const moves = trace.moves;
    const toDevice = (i: number) => moves.to[i] === Placement.Device || moves.to[i] === Placement.Both;
    this.inward = new MoveLane(trace, (i) => toDevice(i));
    this.outward = new MoveLane(trace, (i) => !toDevice(i));
    this.waits = new MoveLane(trace, (i) => moves.urgency[i] === kBlocking && moves.outcome[i] === Outcome.Done);
    const tables = new LaneTables(this, view, trace);
    this.lanes = new LaunchLanes(this, tables, view, trace);
    this.links = new LinkLanes(this, tables, view, trace);
    this.layOut();
    const pixels = this.bands.length === 0 ? 60 : this.bands[this.bands.length - 1].top + this.bands[this.bands.length - 1].height + 6;
    holder.style.height = `${pixels}px`;
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
    const height = lanes.length > 6 ? 18 : directory.timeline.kernels > 0 ? 40 : 30;
    for (const [index, lane] of lanes.entries()) {
      const detail = height < 30 ? "" : lane.kernels > 0 ? `${units.count(lane.kernels)} kernels` : units.plural(lane.launches, "launch", "launches");
      add({ height, name: lane.name, detail, draw: (band) => this.lanes.draw(band, lane, index), at: (spot, band) => this.lanes.at(band, spot, lane, index) });
    }
    const link = (name: string, moves: MoveLane, inward: boolean): void =>
      add({ height: 26, name, detail: units.plural(moves.order.length, "move"), draw: (band) => this.links.drawMoves(band, moves, inward), at: (spot) => this.links.atMove(spot, moves, inward) });
    link("to the device", this.inward, true);
    link("to the host", this.outward, false);
    if (directory.named_on_host > 0 && directory.link_in > 0) {
      add({ height: 14, name: "stalled at most", detail: "", draw: (band) => this.links.drawStalls(band), at: (spot) => this.links.atStalls(spot) });
    }
    if (this.waits.order.length > 0) {
      add({ height: 14, name: "calls that waited", detail: "", draw: (band) => this.links.drawWaits(band, this.waits), at: (spot) => this.links.atMove(spot, this.waits, null) });
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
    let last = Math.min(times.length, upper(times, this.view.end) + 1);
    const ends = last - first - 1;
    if (ends < 1) return;
    const wide = (this.x(times[last - 1]) - this.x(times[first])) / ends;
    context.textAlign = "left";
    const middle = band.top + band.height / 2 + 0.5;
    if (wide < 4) {
      if (this.trace.iterations.whole[last - 1] === 0) last--;
      const found = last - first - 1;
      if (found < 1) return;
      context.fillStyle = look().unplaced;
      const [from, to] = [Math.max(kGutter, this.x(times[first])), Math.min(this.width - kEdge, this.x(times[last - 1]))];
      context.fillRect(from, band.top, to - from, band.height);
      context.fillStyle = look().faint;
      context.fillText(`${units.plural(found, "iteration")} of ${units.duration((times[last - 1] - times[first]) / found)} on average`, from + 6, middle);
      return;
    }
    for (let i = first; i + 1 < last; i++) {
      if (!this.trace.isIteration(i)) continue;
      const [x, next] = [this.x(times[i]), this.x(times[i + 1])];
      // Neighbours differ, and none looks like a gap.
      context.fillStyle = look().unplaced;
      context.globalAlpha = i % 2 === 0 ? 1 : 0.5;
      context.fillRect(x, band.top, next - x, band.height);
      context.globalAlpha = 1;
      context.fillStyle = look().line;
      context.fillRect(x, band.top, 1, band.height);
      context.fillRect(next - 1, band.top, 1, band.height);
      context.fillStyle = look().faint;
      if (next - x > 30) context.fillText(wide > 110 ? `${this.trace.iterationName(i)}: ${units.duration(times[i + 1] - times[i])}` : String(i + 1), Math.max(x, kGutter) + 5, middle);
    }
  }

  private atIteration(spot: Spot): Told | null {
    const { time, launches } = this.trace.iterations;
    const i = upper(time, spot.time) - 1;
    if (!this.trace.isIteration(i)) return { lines: [{ text: "No iteration was found here", kind: "faint" }] };
    return {
      lines: [{ text: `Iteration ${this.trace.iterationName(i)}`, kind: "title" }, units.duration(time[i + 1] - time[i]),
        units.plural(launches[i + 1] - launches[i], "launch", "launches"), { text: "click to zoom", kind: "faint" }],
      click: () => this.view.setWindow(time[i], time[i + 1]),
    };
  }

  private atSpot(spot: Spot): Told | null {
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
