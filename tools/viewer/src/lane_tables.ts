// The tables that a lane draws from: by need, of the window that is in view.
import type { BlockInfo, Table } from "./blocks";
import { kGutter, type Panel } from "./panel";
import type { Trace } from "./trace";
import type { View } from "./view";

const kMostItems = 400_000;   // single launches that a frame may walk through

export interface Found {
  info: BlockInfo;
  table: Table;
}

export class LaneTables {
  constructor(private readonly panel: Panel, private readonly view: View, private readonly trace: Trace) {}

  // Blocks of single items in the window if there are few enough of them and all are unpacked.
  near(blocks: BlockInfo[]): Found[] | null {
    let rows = 0;
    const wanted = blocks.filter((block) => (block.first ?? 0) <= this.view.end && (block.last ?? 0) >= this.view.start);
    for (const block of wanted) rows += block.rows;
    if (rows > kMostItems) return null;
    const found: Found[] = [];
    let whole = true;
    for (const info of wanted) {
      const table = this.trace.items.get(info);
      if (table) found.push({ info, table });
      else whole = false;
    }
    return whole ? found : null;
  }

  // A level whose bins are about a pixel wide, or the finest.
  level(levels: BlockInfo[]): Found | null {
    const pixel = (this.view.end - this.view.start) / this.panel.plotWidth;
    let info = levels[0];
    for (const each of levels) if ((each.width ?? 0) <= pixel) info = each;
    const table = this.trace.levels.get(info);
    return table ? { info, table } : null;
  }

  // A column of a level, added up by pixel.
  byPixel(level: Found, column: ArrayLike<number>): Float64Array {
    const width = level.info.width ?? 1;
    const first = Math.max(0, Math.floor(this.view.start / width));
    const last = Math.min(column.length - 1, Math.floor(this.view.end / width));
    const sums = new Float64Array(this.panel.plotWidth + 1);
    for (let i = first; i <= last; i++) {
      if (column[i] === 0) continue;
      const x = Math.max(0, Math.floor(this.panel.x(i * width) - kGutter));
      if (x < sums.length) sums[x] += column[i];
    }
    return sums;
  }

  // Pixels that a bin of this level is wide.
  wide(level: Found): number {
    return ((level.info.width ?? 1) / (this.view.end - this.view.start)) * this.panel.plotWidth;
  }
}
