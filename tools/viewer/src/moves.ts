// Moves as several panels need them: those in view, and what is said of one.
import { kBlocking, Outcome, Placement, type Trace, upper } from "./trace";
import type { Line } from "./tooltip";
import * as units from "./units";
import type { View } from "./view";

// Moves of one direction by start, with the latest end so far, so that those in view are found at once.
export class MoveLane {
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
