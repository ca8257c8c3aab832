// The view in the page's address, after the #: a link brings back the window, the selection, search, order and theme.
import { choose, chosenTheme } from "./look";
import { type Trace, upper } from "./trace";
import type { Selection, View } from "./view";

function selectionText(view: View, trace: Trace): string {
  const selection = view.selection;
  if (selection === null) return "";
  if (selection.kind === "allocation") return `a${trace.allocations.id[selection.row]}`;
  if (selection.kind === "decision") return `d${trace.decisions.id[selection.index]}`;
  return `l${selection.number},${selection.code},${Math.round(selection.time)},${selection.lane},${Math.round(selection.duration)}`;
}

function readSelection(text: string, trace: Trace): Selection {
  const number = Number(text.slice(1));
  if (text.startsWith("a")) {
    const row = trace.rowOfId.get(number);
    return row === undefined ? null : { kind: "allocation", row };
  }
  if (text.startsWith("d")) {
    const index = upper(trace.decisions.id, number) - 1;
    return index >= 0 && trace.decisions.id[index] === number ? { kind: "decision", index } : null;
  }
  const parts = text.slice(1).split(",").map(Number);
  if (!text.startsWith("l") || parts.length !== 5 || !parts.every(Number.isFinite)) return null;
  return { kind: "launch", number: parts[0], code: parts[1], time: parts[2], lane: parts[3], duration: parts[4] };
}

export function write(view: View, trace: Trace): void {
  const parts = new URLSearchParams();
  if (trace.which > 0) parts.set("trace", String(trace.which));
  const [start, end] = view.opening;
  const opening = start === 0 ? view.start <= 0 && view.end >= end : Math.abs(view.start - start) < 1 && Math.abs(view.end - end) < 1;
  if (!opening) parts.set("t", `${Math.round(view.start)}-${Math.round(view.end)}`);
  if (view.rowsFrom > 0 || view.rowsTo < view.stack) parts.set("rows", `${Math.round(view.rowsFrom)}-${Math.round(view.rowsTo)}`);
  const selected = selectionText(view, trace);
  if (selected) parts.set("at", selected);
  if (view.search) parts.set("q", view.search);
  if (view.sort !== "moved" || !view.descending) parts.set("sort", `${view.sort}${view.descending ? "" : "-up"}`);
  if (view.allRows) parts.set("all", "1");
  if (view.device > 0) parts.set("device", String(view.device));
  const theme = chosenTheme();
  if (theme) parts.set("theme", theme);
  const text = parts.toString();
  history.replaceState(null, "", text ? `#${text}` : location.pathname + location.search);
}

function pair(text: string | null): [number, number] | null {
  const match = /^(-?\d+)-(-?\d+)$/.exec(text ?? "");
  if (!match) return null;
  const [from, to] = [Number(match[1]), Number(match[2])];
  return from < to ? [from, to] : null;
}

export function read(view: View, trace: Trace): void {
  const parts = new URLSearchParams(location.hash.slice(1));
  const theme = parts.get("theme");
  choose(theme === "light" || theme === "dark" ? theme : null);
  const device = Number(parts.get("device") ?? 0);
  if (Number.isInteger(device) && trace.directory.devices[device]) view.device = device;
  const sort = /^([a-z]+)(-up)?$/.exec(parts.get("sort") ?? "moved");
  if (sort) [view.sort, view.descending] = [sort[1], sort[2] === undefined];
  view.search = parts.get("q") ?? "";
  view.allRows = parts.get("all") === "1";
  const time = pair(parts.get("t"));
  view.setWindow(...(time ?? view.opening));
  const rows = pair(parts.get("rows"));
  view.setRows(...(rows ?? [0, view.stack]));
  view.select(readSelection(parts.get("at") ?? "", trace));
}
