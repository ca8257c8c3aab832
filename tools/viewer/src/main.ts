// Reads the trace out of the page, makes the panels, and draws them when something changes, once a frame.
import * as address from "./address";
import { beginFrame, readTable } from "./blocks";
import { HeatMap, swatch } from "./heat_map";
import { choose, onLook, theme } from "./look";
import { Overview } from "./overview";
import { Residency } from "./residency";
import { Story } from "./story";
import { AllocationTable } from "./table";
import { Timeline } from "./timeline";
import { Trace, traceName } from "./trace";
import * as units from "./units";
import { View } from "./view";

function by<T extends HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

const kKeys: [string, string][] = [
  ["wheel, pinch, W S, + −", "zoom around the pointer or the middle"],
  ["drag, shift and wheel, A D, ← →", "pan"],
  ["shift and drag", "zoom to a stretch of time"],
  ["alt and wheel", "zoom the rows of the heat map; drag moves them"],
  ["double click", "zoom in; on an allocation: its rows"],
  ["0", "the whole run"],
  ["click", "the story of an allocation, a move or a launch"],
  ["N, P", "the next or previous decision of what is selected"],
  ["F", "show what is selected"],
  ["/", "search the allocations; ↑ ↓ go through the table"],
  ["[ ]", "the previous or next trace, where the page has more than one"],
  ["Esc", "select nothing"],
  ["T", "light or dark"],
];

// What the timeline's rows of kernels show, and of how much.
function kernelNote(trace: Trace): string {
  const { kernels, launches } = trace.directory.timeline;
  if (kernels === 0) return "kernel times were not recorded: launches stand where the program made them, and gaps say nothing about the device";
  const sampled = kernels < launches * 0.95 ? ` – sampled: ${units.count(kernels)} of ${units.count(launches)} were timed, gaps between them say nothing` : "";
  return `kernels above, the calls that launched them below${sampled}`;
}

function legend(trace: Trace): void {
  const item = (picture: Node, text: string) => {
    const span = document.createElement("span");
    span.append(picture, text);
    return span;
  };
  const glyph = (text: string) => {
    const span = document.createElement("b");
    span.textContent = text;
    return span;
  };
  by("legend").replaceChildren(
    item(swatch("device"), "in device memory"), item(swatch("host"), "on the host"), item(swatch("unplaced"), "not placed yet"),
    item(swatch("plain"), "plain device memory"), item(swatch("arriving"), "arriving"),
    item(glyph("▲"), "moved in"), item(glyph("▼"), "moved out"), item(glyph("┄"), "budget"));
  by("timeline-note").textContent = kernelNote(trace);
}

function header(trace: Trace): void {
  const of = trace.directory;
  const name = (of.arguments[0] || of.program || of.trace).split("/").pop() ?? "";
  document.title = `${of.trace} – Spillway`;
  const run = by("run");
  run.replaceChildren();
  const bold = document.createElement("strong");
  bold.textContent = name;
  const rest = document.createElement("span");
  rest.textContent = [of.trace, of.host, of.rank ? `rank ${of.rank}` : "", of.devices[0]?.name].filter((text) => text).join(" · ");
  run.append(bold, rest);
  run.title = of.arguments.join(" ");
  const problems: string[] = [];
  if (!of.whole) problems.push(`incomplete: ${of.completeness}`);
  if (of.dropped > 0) problems.push(`${units.plural(of.dropped, "event")} dropped by the recorder`);
  if (of.unknown_records > 0) problems.push(`${units.count(of.unknown_records)} records of a newer Spillway are not shown`);
  if (of.timeline.launches_left_out > 0) problems.push(`single launches of the last ${units.count(of.timeline.launches_left_out)} are not in the page, only how many`);
  if (of.moves.left_out > 0) problems.push(`the last ${units.count(of.moves.left_out)} moves are only counted`);
  if (of.decisions.left_out > 0) problems.push(`the last ${units.count(of.decisions.left_out)} decisions are not told`);
  by("simulated").hidden = !trace.simulated;
  const state = by("state");
  state.className = problems.length > 0 ? "state warning" : "state";
  state.textContent = problems.length > 0 ? `⚠ ${problems.join("; ")}` : "✓ whole trace";
}

function devices(trace: Trace, view: View, redo: () => void): void {
  const holder = by("devices");
  if (trace.directory.devices.length < 2) return;
  holder.replaceChildren(...trace.directory.devices.map((device) => {
    const button = document.createElement("button");
    button.textContent = `device ${device.index}`;
    button.setAttribute("aria-pressed", String(device.index === view.device));
    button.addEventListener("click", () => {
      view.device = device.index;
      redo();
    });
    return button;
  }));
}

// Another trace of the folder: the page begins anew with it, at the same time and order.
function chooseTrace(which: number): void {
  const parts = new URLSearchParams(location.hash.slice(1));
  for (const of of ["at", "rows", "device", "trace"]) parts.delete(of);
  if (which > 0) parts.set("trace", String(which));
  history.replaceState(null, "", parts.size > 0 ? `#${parts.toString()}` : location.pathname + location.search);
  location.reload();
}

function traces(trace: Trace): void {
  if (trace.all.length < 2) return;
  const select = by<HTMLSelectElement>("trace");
  select.replaceChildren(...trace.all.map((each, which) => {
    const option = document.createElement("option");
    option.value = String(which);
    option.textContent = traceName(each);
    option.selected = which === trace.which;
    return option;
  }));
  select.addEventListener("change", () => chooseTrace(Number(select.value)));
  by("traces").hidden = false;
}

function start(): void {
  let view: View | null = null;
  const trace = Trace.read(() => view?.changed("data"));
  const bands = trace.directory.heat_map.bands;
  view = new View(trace.duration, Math.max(1, bands.length > 0 ? bands[bands.length - 1].to : 1), trace.directory.whole, trace.firstSeen);
  const shown = view;
  header(trace);
  traces(trace);
  const overview = new Overview(by("overview"), shown, trace);
  const timeline = new Timeline(by("timeline"), shown, trace);
  const heat = new HeatMap(by("heat"), shown, trace);
  const residency = new Residency(by("residency"), shown, trace);
  const story = new Story(by("story"), shown, trace, chooseTrace);
  const table = new AllocationTable(by("table"), shown, trace);
  const lanes = trace.directory.timeline.lanes;
  timeline.lanes.rankFunctions(lanes.map((lane) => readTable(lane.launch_levels[lane.launch_levels.length - 1])));

  let frame = 0;
  const drawNow = () => {
    overview.draw();
    timeline.draw();
    heat.draw();
    residency.draw();
  };
  const draw = () => {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      beginFrame();
      drawNow();
      document.documentElement.dataset.frames = String(Number(document.documentElement.dataset.frames ?? 0) + 1);
    });
  };
  let slow = 0;
  const later = () => {
    window.clearTimeout(slow);
    slow = window.setTimeout(() => {
      table.refresh();
      address.write(shown, trace);
    }, 140);
  };
  shown.on((change) => {
    draw();
    if (change === "window" || change === "rows") later();
    if (change === "search") {
      table.refresh();
      later();
    }
    if (change === "selection") {
      story.render();
      table.show();
      table.scrollToSelected();
      by("spoken").textContent = by("story").querySelector("h3")?.textContent ?? "";
      later();
    }
  });
  const look = () => {
    legend(trace);
    residency.rebuild();
    draw();
  };
  onLook(look);
  const chooseDevice = () => {
    devices(trace, shown, chooseDevice);
    residency.rebuild();
    story.render();
    shown.changed("rows");
  };
  connect(shown, trace, story);
  document.addEventListener("keydown", (event) => {
    const step = event.key === "]" ? 1 : event.key === "[" ? -1 : 0;
    const which = trace.which + step;
    if (step !== 0 && trace.all[which] && !(event.target instanceof HTMLInputElement)) chooseTrace(which);
  });
  Object.assign(globalThis, { spillway: { trace, view: shown } });  // for the curious, and for what takes pictures
  address.read(shown, trace);
  by<HTMLInputElement>("search").value = shown.search;
  by<HTMLInputElement>("all-rows").checked = shown.allRows;
  window.addEventListener("hashchange", () => address.read(shown, trace));
  devices(trace, shown, chooseDevice);
  table.refresh();
  // At once, and whole: who takes a picture of the page as soon as it is loaded gets all of it.
  timeline.fit();
  heat.fit();
  drawNow();
  requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.dataset.ready = String(performance.now()))));
}

function connect(view: View, trace: Trace, story: Story): void {
  const search = by<HTMLInputElement>("search");
  search.addEventListener("input", () => {
    view.search = search.value;
    view.changed("search");
  });
  by<HTMLInputElement>("all-rows").addEventListener("change", (event) => {
    view.allRows = (event.target as HTMLInputElement).checked;
    view.changed("search");
  });
  const help = by<HTMLDialogElement>("help");
  const list = document.createElement("dl");
  list.className = "facts keys";
  for (const [key, what] of kKeys) {
    const [term, text] = [document.createElement("dt"), document.createElement("dd")];
    term.textContent = key;
    text.textContent = what;
    list.append(term, text);
  }
  const close = document.createElement("button");
  close.textContent = "Close";
  close.addEventListener("click", () => help.close());
  const title = document.createElement("h3");
  title.textContent = "Keys and gestures";
  help.append(title, list, close);
  const switchTheme = () => {
    choose(theme() === "dark" ? "light" : "dark");
    view.changed("rows");
  };
  by("theme").addEventListener("click", switchTheme);
  by("fit").addEventListener("click", () => view.whole());
  by("help-button").addEventListener("click", () => help.showModal());
  const reveal = () => {
    const selection = view.selection;
    if (selection?.kind === "allocation") view.setWindow(trace.allocations.asked[selection.row], trace.freedAt(selection.row));
    else if (selection?.kind === "decision") story.stepBy(0);
    else if (selection?.kind === "launch") view.reveal(selection.time, selection.time + selection.duration);
  };
  const keys: Record<string, () => void> = {
    ArrowLeft: () => view.pan(-0.15), ArrowRight: () => view.pan(0.15), a: () => view.pan(-0.15), d: () => view.pan(0.15),
    ArrowUp: () => view.zoom(0.7), ArrowDown: () => view.zoom(1 / 0.7), w: () => view.zoom(0.7), s: () => view.zoom(1 / 0.7),
    "+": () => view.zoom(0.7), "=": () => view.zoom(0.7), "-": () => view.zoom(1 / 0.7),
    "0": () => view.whole(), Home: () => view.whole(), f: reveal, n: () => story.stepBy(1), p: () => story.stepBy(-1),
    t: switchTheme, "?": () => help.showModal(), Escape: () => view.select(null),
    "/": () => search.focus(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    const typing = event.target instanceof HTMLInputElement && event.target.type !== "checkbox";
    if (typing) {
      if (event.key === "Escape") search.blur();
      return;
    }
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

try {
  start();
} catch (error: unknown) {
  const state = by("state");
  state.className = "state warning";
  state.textContent = `⚠ this page cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
  console.error(error);
}
