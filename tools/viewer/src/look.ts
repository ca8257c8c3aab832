// Colours, by theme. Places differ in lightness and pattern, not in hue alone: device memory is solid and stands out, host
// memory is hatched.

export type Theme = "light" | "dark";

export interface Look {
  ink: string;
  faint: string;
  line: string;
  ground: string;
  accent: string;
  budget: string;
  device: string;
  host: string;
  hostLine: string;
  both: string;
  unplaced: string;
  plain: string;
  arriving: string;
  waiting: string;
  functions: string[];
  other: string;
}

const kLooks: Record<Theme, Look> = {
  light: {
    ink: "#1d2126", faint: "#6a727c", line: "#e3e5e8", ground: "#ffffff", accent: "#c2255c", budget: "#1d2126",
    device: "#1f5a99", host: "#f6d592", hostLine: "#c48413", both: "#5fa8a0", unplaced: "#eceef0", plain: "#98a1ab",
    arriving: "#8db8e3", waiting: "#c2255c",
    functions: ["#1f5a99", "#d98a1f", "#2f8f83", "#8e5aa8", "#7fb2e5", "#b9603a", "#5c6b2f", "#d59ac0"], other: "#a9b0b8",
  },
  dark: {
    ink: "#e6e8eb", faint: "#939ba5", line: "#2a2f36", ground: "#15181c", accent: "#ff7aa5", budget: "#e6e8eb",
    device: "#6db0f7", host: "#5c431a", hostLine: "#d9a03f", both: "#3f8f86", unplaced: "#22262b", plain: "#6b7480",
    arriving: "#355f8c", waiting: "#ff7aa5",
    functions: ["#6db0f7", "#e0a040", "#4fb3a5", "#b98ad3", "#37689c", "#d98560", "#9db05a", "#e3b4d2"], other: "#5b636d",
  },
};

const media = window.matchMedia("(prefers-color-scheme: dark)");
let chosen: Theme | null = null;
let listener: () => void = () => {};

export function theme(): Theme {
  return chosen ?? (media.matches ? "dark" : "light");
}

export function chosenTheme(): Theme | null {
  return chosen;
}

export function look(): Look {
  return kLooks[theme()];
}

export function choose(next: Theme | null): void {
  chosen = next;
  document.documentElement.dataset.theme = theme();
  listener();
}

export function onLook(callback: () => void): void {
  listener = callback;
  media.addEventListener("change", () => choose(chosen));
}

// "#rrggbb" as a pixel of an ImageData's buffer (little-endian).
export function pixel(colour: string): number {
  const value = parseInt(colour.slice(1), 16);
  return (0xff000000 | ((value & 255) << 16) | (value & 0xff00) | (value >> 16)) >>> 0;
}

const patterns = new Map<string, CanvasPattern>();

// Host memory's hatching, as a fill for canvases.
export function hatch(context: CanvasRenderingContext2D, ground: string, line: string): CanvasPattern | string {
  const ratio = Math.max(1, Math.round(window.devicePixelRatio));
  const key = `${ground}${line}${ratio}`;
  const known = patterns.get(key);
  if (known) return known;
  const size = 6 * ratio;
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const draw = tile.getContext("2d");
  if (!draw) return ground;
  draw.fillStyle = ground;
  draw.fillRect(0, 0, size, size);
  draw.strokeStyle = line;
  draw.lineWidth = 1.4 * ratio;
  draw.beginPath();
  for (const shift of [-size, 0, size]) {
    draw.moveTo(shift - ratio, size + ratio);
    draw.lineTo(shift + size + ratio, -ratio);
  }
  draw.stroke();
  const pattern = context.createPattern(tile, "repeat");
  if (!pattern) return ground;
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  patterns.set(key, pattern);
  return pattern;
}
