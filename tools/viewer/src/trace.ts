// The trace as the panels read it: the directory, the tables that are always needed, and answers to common questions.
import { type BlockInfo, element, LazyTables, openTrace, readTable, readTexts, type Table } from "./blocks";

export interface Lane {
  name: string;
  launches: number;
  kernels: number;
  launch_levels: BlockInfo[];
  kernel_levels: BlockInfo[];
}

export interface Device {
  index: number;
  name: string;
  total: number;
  budget: number;
  resident_peak: number;
  moved_in: number;
  moved_out: number;
  residency: BlockInfo[];
}

export interface Directory {
  trace: string;
  file_bytes: number;
  program: string;
  arguments: string[];
  pid: number;
  host: string;
  rank: string;
  start: string;
  driver: string;
  build: string;
  settings: [string, string][];
  whole: boolean;
  completeness: string;
  end_reason: string;
  dropped: number;
  unknown_records: number;
  duration: number;
  link_in: number;        // bytes a second, by the trace's cost table
  named_on_host: number;  // bytes that launches named and that were on the host, all added up
  decision_count: number;
  refused: number;
  classes: string[];
  rules: string[];   // of the policy file, by number from 1
  reasons: { name: string; text: string }[];
  devices: Device[];
  timeline: {
    lanes: Lane[];
    time_unit: number;
    launches: number;
    kernels: number;
    launch_blocks: BlockInfo[];
    kernel_blocks: BlockInfo[];
    copy_blocks: BlockInfo[];
    launches_left_out: number;
    kernels_left_out: number;
    copies: number;
    copies_left_out: number;
  };
  iterations: BlockInfo;
  iterations_text: string;
  allocations: {
    table: BlockInfo;
    evidence: BlockInfo;
    not_listed: number;
    not_listed_bytes: number;
    function_ids: BlockInfo;
    function_names: BlockInfo;
    shapes: { table: BlockInfo; touches: BlockInfo; left_out: number };
    graphs: BlockInfo;
    callers: Record<string, string>;
    other_classes: Record<string, string>;  // by row
  };
  heat_map: {
    places: BlockInfo;
    pieces: BlockInfo;
    changes: BlockInfo;
    bands: { name: string; from: number; to: number }[];
  };
  moves: BlockInfo & { left_out: number; open: number; traffic: BlockInfo[] };
  decisions: BlockInfo & { sentences: number[]; sentences_each: number; left_out: number };
}

// Of each trace in the page, whichever is shown.
export interface Listed {
  trace: string;
  rank: string;
  whole: boolean;
  launches: number;
  duration: number;
  moved_in: number;
  moved_out: number;
  named_on_host: number;
}

export function traceName(of: Listed): string {
  return of.rank === "" ? of.trace : `rank ${of.rank}`;
}

export const enum Placement { Unplaced = 0, Device = 1, Host = 2, Both = 3 }
export const enum Outcome { Done = 0, Failed = 1, Cancelled = 2 }
export const kBlocking = 2;
export const kNote = 5;
const kKinds = ["linear", "pitched", "stream-ordered", "program's managed", "physical", "imported", "array", "unspillable", "stretchable", "pool arena"];
const kEnds = ["lives at the end", "freed", "refused", "failed"];

// First position whose value is above `value`.
export function upper(sorted: ArrayLike<number>, value: number, from = 0, to = sorted.length): number {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (sorted[middle] <= value) from = middle + 1;
    else to = middle;
  }
  return from;
}

export class Trace {
  readonly items: LazyTables;
  readonly levels: LazyTables;
  private sentences = new Map<number, string[]>();
  private touches: Table | undefined;
  functions = new Map<number, { full: string; bare: string }>();
  movesOf: number[][] = [];      // by allocation: positions in moves
  decisionsOf = new Map<number, number[]>();  // by allocation, -1 the run: positions in decisions
  moveOfDecision = new Map<number, number>();
  rowOfId = new Map<number, number>();
  private readonly shapeRow = new Map<number, number>();  // by id
  firstPieceOf: Int32Array;      // by allocation, and one more; pieces of an allocation are next to each other

  private constructor(
    readonly directory: Directory, readonly allocations: Table, readonly evidence: string[], readonly places: Float64Array,
    readonly pieces: Table, readonly changes: Table, readonly moves: Table, readonly decisions: Table,
    readonly iterations: Table, readonly shapes: Table, readonly all: Listed[], readonly which: number, ready: () => void) {
    this.items = new LazyTables(48, ready);
    this.levels = new LazyTables(400, ready);
    const rows = allocations.id.length;
    for (let row = 0; row < rows; row++) {
      this.movesOf.push([]);
      this.rowOfId.set(allocations.id[row], row);
    }
    for (let i = 0; i < moves.allocation.length; i++) {
      this.movesOf[moves.allocation[i]].push(i);
      this.moveOfDecision.set(moves.decision[i], i);
    }
    for (let i = 0; i < decisions.allocation.length; i++) {
      const row = decisions.allocation[i];
      const list = this.decisionsOf.get(row);
      if (list) list.push(i);
      else this.decisionsOf.set(row, [i]);
    }
    shapes.id.forEach((id, row) => this.shapeRow.set(id, row));
    this.firstPieceOf = new Int32Array(rows + 1);
    for (let row = 0, piece = 0; row <= rows; row++) {
      while (piece < pieces.allocation.length && pieces.allocation[piece] < row) piece++;
      this.firstPieceOf[row] = piece;
    }
  }

  static read(ready: () => void): Trace {
    const all = JSON.parse(element("traces-in-page")) as Listed[];
    const wanted = Number(new URLSearchParams(location.hash.slice(1)).get("trace") ?? 0);
    const which = all[wanted] ? wanted : 0;
    openTrace(which);
    const directory = JSON.parse(element(`directory-${which}`)) as Directory;
    const of = directory.allocations;
    const { heat_map } = directory;
    const trace = new Trace(directory, readTable(of.table), readTexts(of.evidence), readTable(heat_map.places).from,
      readTable(heat_map.pieces), readTable(heat_map.changes), readTable(directory.moves), readTable(directory.decisions),
      readTable(directory.iterations), readTable(of.shapes.table), all, which, ready);
    const ids = readTable(of.function_ids);
    const names = readTexts(of.function_names);
    for (let i = 0; i < ids.id.length; i++) {
      trace.functions.set(ids.id[i], { full: names[2 * i], bare: names[2 * i + 1] });
    }
    return trace;
  }

  // When the run first did something that is shown. Programs may load and read for long before.
  get firstSeen(): number {
    let first = this.duration;
    for (const blocks of [this.directory.timeline.launch_blocks, this.directory.timeline.copy_blocks]) {
      if (blocks.length > 0) first = Math.min(first, blocks[0].first ?? 0);
    }
    for (const times of [this.decisions.time, this.allocations.asked]) if (times.length > 0) first = Math.min(first, times[0]);
    return Math.max(0, first);
  }

  // Whether the time between two boundaries, `i` and the next, is one iteration.
  isIteration(i: number): boolean {
    return i >= 0 && i + 1 < this.iterations.found.length && this.iterations.found[i + 1] === 0;
  }

  // As the tables of stats name them; the trace may end in the middle of the last.
  iterationName(i: number): string {
    return `${i + 1}${this.iterations.whole[i + 1] === 0 ? " (not whole)" : ""}`;
  }

  get simulated(): boolean {
    return this.directory.devices.some((device) => /simulated/i.test(device.name));
  }

  get duration(): number {
    return this.directory.duration;
  }

  // The function of a launch code; graphs count as negative numbers of their own.
  functionOf(code: number): number {
    if (code % 2 === 1) return -((code - 1) / 2) - 1;
    return this.shapes.function[this.shapeRow.get(code / 2) ?? -1] ?? 0;
  }

  functionName(id: number, which: "bare" | "full" = "bare"): string {
    if (id < 0) return `graph ${-id - 1}`;
    return this.functions.get(id)?.[which] || `function ${id}`;
  }

  // `rule "adam moments" (training.toml:4)`, or its number in a trace from before rules had names.
  ruleName(rule: number): string {
    return `rule ${this.directory.rules[rule - 1] ?? rule}`;
  }

  className(row: number): string {
    return this.directory.classes[this.allocations.span_class[row]] ?? "unknown";
  }

  managed(row: number): boolean {
    return this.allocations.backing[row] === 1;
  }

  kind(row: number): string {
    return kKinds[this.allocations.kind[row]] ?? "of a newer kind";
  }

  end(row: number): string {
    return kEnds[this.allocations.end[row]] ?? "";
  }

  reasonName(reason: number): string {
    return reason < 0 ? "" : (this.directory.reasons[reason]?.name ?? "(newer)").replaceAll("_", " ");
  }

  caller(row: number): string {
    return this.directory.allocations.callers[String(this.allocations.caller[row])] ?? "";
  }

  freedAt(row: number): number {
    return this.allocations.freed[row] < 0 ? this.duration : this.allocations.freed[row];
  }

  livesIn(row: number, start: number, end: number): boolean {
    return this.allocations.asked[row] <= end && this.freedAt(row) >= start;
  }

  // The piece of an allocation that holds `offset`; -1 if it never moved.
  pieceAt(row: number, offset: number): number {
    const first = this.firstPieceOf[row];
    const end = this.firstPieceOf[row + 1];
    return first === end ? -1 : Math.max(first, upper(this.pieces.offset, offset, first, end) - 1);
  }

  // Its changes: positions [from, to) in `changes`.
  changesOf(piece: number): [number, number] {
    const first = this.pieces.first;
    return [first[piece], piece + 1 < first.length ? first[piece + 1] : this.changes.time.length];
  }

  placementAt(row: number, offset: number, time: number): { placement: Placement; change: number } {
    if (!this.managed(row)) return { placement: Placement.Device, change: -1 };
    const piece = this.pieceAt(row, offset);
    if (piece < 0) return { placement: Placement.Unplaced, change: -1 };
    const [from, to] = this.changesOf(piece);
    const at = upper(this.changes.time, time, from, to) - 1;
    return at < from ? { placement: Placement.Unplaced, change: -1 } : { placement: this.changes.to[at], change: at };
  }

  sentence(decision: number): string {
    const each = this.directory.decisions.sentences_each;
    const block = Math.floor(decision / each);
    let texts = this.sentences.get(block);
    if (!texts) {
      texts = readTexts({ id: this.directory.decisions.sentences[block], rows: each });
      this.sentences.set(block, texts);
    }
    return texts[decision % each] ?? "";
  }

  // What a shape touches, as it was resolved last: allocation rows and argument numbers.
  shape(id: number): { threads: number; touches: { row: number; argument: number }[] } {
    const touches = (this.touches ??= readTable(this.directory.allocations.shapes.touches));
    const row = this.shapeRow.get(id);
    if (row === undefined) return { threads: 0, touches: [] };
    const { first, threads } = this.shapes;
    const found: { row: number; argument: number }[] = [];
    const end = row + 1 < first.length ? first[row + 1] : touches.allocation.length;
    for (let i = first[row]; i < end; i++) found.push({ row: touches.allocation[i], argument: touches.argument[i] });
    return { threads: threads[row], touches: found };
  }
}
