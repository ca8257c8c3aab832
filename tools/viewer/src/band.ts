// A band of the timeline: one row under the other, each drawn and asked about by who makes it.
import type { Spot } from "./panel";
import type { Line } from "./tooltip";

export interface Told {
  lines: Line[];
  click?: () => void;
}

export interface Band {
  top: number;
  height: number;
  name: string;
  detail: string;
  draw(band: Band): void;
  at?(spot: Spot, band: Band): Told | null;
}
