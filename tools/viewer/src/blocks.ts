// The data that `spillway view` put into the page (tools/view/blocks.hpp): a directory, and deflated blocks that are
// unpacked when they are first needed. Unpacking is done at once, never later: what the page shows first is whole before
// the browser calls it loaded, and a picture taken then has everything in it.
import { inflateSync } from "fflate";

export interface BlockInfo {
  id: number;
  rows: number;
  columns: string[];
  width?: number;
  first?: number;
  last?: number;
  number?: number;
}

export type Table = Record<string, Float64Array> & { rows?: never };

// A page may hold several traces, each with its blocks; one is read.
let opened = 0;
export function openTrace(which: number): void {
  opened = which;
}

// The text of one of the page's data elements.
export function element(id: string): string {
  return document.getElementById(id)?.textContent ?? "null";
}

function unpack(id: number): Uint8Array {
  return inflateSync(fromBase64(document.getElementById(`block-${opened}-${id}`)?.textContent ?? ""));
}

function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
  return out;
}

// Columns one after the other, each value the zigzag LEB128 of its difference to the one before.
export function decode(raw: Uint8Array, names: string[], rows: number): Table {
  const table: Record<string, Float64Array> = {};
  let at = 0;
  for (const name of names) {
    const column = new Float64Array(rows);
    let value = 0;
    for (let row = 0; row < rows; row++) {
      let byte = raw[at++];
      let bits = byte & 127;
      for (let factor = 128; byte > 127; factor *= 128) {
        byte = raw[at++];
        bits += (byte & 127) * factor;
      }
      value += bits % 2 === 0 ? bits / 2 : -(bits + 1) / 2;
      column[row] = value;
    }
    table[name] = column;
  }
  return table as Table;
}

export function readTable(info: BlockInfo): Table {
  return decode(unpack(info.id), info.columns, info.rows);
}

export function readTexts(info: { id: number; rows: number }): string[] {
  if (info.rows === 0) return [];
  return new TextDecoder().decode(unpack(info.id)).split("\n");
}

// How long a frame may go on unpacking: the first one until all is there, later ones for a share of their time.
const kUnpacking = 8;  // milliseconds
let enough = Infinity;
export function beginFrame(): void {
  enough = performance.now() + kUnpacking;
}

// Blocks by need. `get` answers with nothing where a frame has unpacked enough; `ready` is called for another frame then.
export class LazyTables {
  private tables = new Map<number, Table>();
  private waiting = false;
  constructor(private most: number, private ready: () => void) {}

  get(info: BlockInfo): Table | undefined {
    const known = this.tables.get(info.id);
    if (!known && performance.now() >= enough) {
      if (!this.waiting) setTimeout(() => {
        this.waiting = false;
        this.ready();
      });
      this.waiting = true;
      return undefined;
    }
    const table = known ?? readTable(info);
    this.tables.delete(info.id);  // the latest used goes last
    this.tables.set(info.id, table);
    for (const old of this.tables.keys()) {
      if (this.tables.size <= this.most) break;
      this.tables.delete(old);
    }
    return table;
  }
}
