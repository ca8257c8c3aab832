// Numbers for people: sizes in powers of two, rates in powers of ten, times in the unit that fits.

const kSizes = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

function trimmed(value: number): string {
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/\.?0+$/, (zeros) => (zeros.includes(".") ? "" : zeros));
}

export function bytes(value: number): string {
  let unit = 0;
  let size = Math.abs(value);
  while (size >= 1024 && unit + 1 < kSizes.length) {
    size /= 1024;
    unit++;
  }
  return `${value < 0 ? "−" : ""}${trimmed(size)} ${kSizes[unit]}`;
}

export function rate(bytesMoved: number, nanoseconds: number): string {
  return nanoseconds > 0 ? `${trimmed(bytesMoved / nanoseconds)} GB/s` : "";
}

const kTimes: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

export function duration(nanoseconds: number): string {
  for (const [size, name] of kTimes) {
    if (Math.abs(nanoseconds) >= size) return `${trimmed(nanoseconds / size)} ${name}`;
  }
  return "0 ns";
}

// A moment, as exact as a step of `step` nanoseconds needs; in the unit that fits `scale`, so that an axis has one.
export function moment(nanoseconds: number, step: number, scale = nanoseconds): string {
  const [size, name] = kTimes.find(([unit]) => Math.abs(scale) >= unit) ?? kTimes[3];
  const digits = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / size) - 1e-9)));
  const value = Math.abs(nanoseconds) < step / 1000 ? 0 : nanoseconds / size;  // no −0
  return `${count(value, digits)} ${name}`;
}

export function count(value: number, digits = 0): string {
  return value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function plural(value: number, one: string, many = one + "s"): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

// Round steps for an axis: 1, 2 or 5 times a power of ten, about `most` of them.
export function ticks(start: number, end: number, most: number): { step: number; at: number[] } {
  const raw = Math.max(1e-9, (end - start) / Math.max(1, most));
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= raw * 0.999) ?? raw;
  const at: number[] = [];
  for (let i = Math.ceil(start / step); i * step <= end && at.length < 200; i++) at.push(i * step);
  return { step, at };
}
