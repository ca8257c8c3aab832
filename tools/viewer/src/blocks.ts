// The data that `spillway view` put into the page (tools/view/blocks.hpp): a directory, and deflated blocks that are
// unpacked when they are first needed.

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

async function unpack(id: number): Promise<Uint8Array> {
  const text = document.getElementById(`block-${opened}-${id}`)?.textContent ?? "";
  const packed = fromBase64(text);
  const stream = new Blob([packed as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
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

export async function readTable(info: BlockInfo): Promise<Table> {
  return decode(await unpack(info.id), info.columns, info.rows);
}

export async function readTexts(info: { id: number; rows: number }): Promise<string[]> {
  if (info.rows === 0) return [];
  return new TextDecoder().decode(await unpack(info.id)).split("\n");
}

// Blocks by need. `get` answers at once, with nothing if the block is still being unpacked; `ready` is called then.
export class LazyTables {
  private tables = new Map<number, Table>();
  private asked = new Set<number>();
  constructor(private most: number, private ready: () => void) {}

  get(info: BlockInfo): Table | undefined {
    const table = this.tables.get(info.id);
    if (table) {
      this.tables.delete(info.id);  // the latest used goes last
      this.tables.set(info.id, table);
      return table;
    }
    if (!this.asked.has(info.id)) {
      this.asked.add(info.id);
      void readTable(info).then((read) => {
        this.asked.delete(info.id);
        this.tables.set(info.id, read);
        for (const old of this.tables.keys()) {
          if (this.tables.size <= this.most) break;
          this.tables.delete(old);
        }
        this.ready();
      });
    }
    return undefined;
  }
}
