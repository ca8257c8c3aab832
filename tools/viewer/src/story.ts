// The story of what is selected, in sentences; of the run, if nothing is.
import { outcomeText, placeName } from "./moves";
import { kNote, type Trace, traceName } from "./trace";
import * as units from "./units";
import type { View } from "./view";

const kPage = 60;  // decisions put into the document at a time

type Child = Node | string;

function element(tag: string, className = "", ...children: Child[]): HTMLElement {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function link(text: string, action: () => void, className = "link"): HTMLElement {
  const button = element("button", className, text);
  button.addEventListener("click", action);
  return button;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export class Story {

  constructor(private readonly holder: HTMLElement, private readonly view: View, private readonly trace: Trace,
    private readonly chooseTrace: (which: number) => void) {}

  render(): void {
    const selection = this.view.selection;
    this.holder.replaceChildren();
    if (selection === null) return this.run();
    this.holder.append(element("div", "head", link("‹ the run", () => this.view.select(null), "link back")));
    if (selection.kind === "launch") return this.launch(selection);
    const row = selection.kind === "allocation" ? selection.row : this.trace.decisions.allocation[selection.index];
    if (row < 0) return this.runDecision(selection.kind === "decision" ? selection.index : 0);
    this.allocation(row, selection.kind === "decision" ? selection.index : -1);
  }

  // Stays in sight while the rest is scrolled.
  private head(): HTMLElement {
    return this.holder.querySelector<HTMLElement>(".head") ?? this.holder;
  }

  private facts(rows: [string, Child][]): HTMLElement {
    const list = element("dl", "facts");
    for (const [name, value] of rows) list.append(element("dt", "", name), element("dd", "", value));
    return list;
  }

  private moment(time: number): string {
    return units.moment(time, Math.max(1000, this.view.duration / 1e5));
  }

  private run(): void {
    const of = this.trace.directory;
    const device = of.devices[this.view.device];
    this.holder.append(element("h3", "", "The run"));
    const rows: [string, Child][] = [
      ["program", this.program()],
      ["started", `${of.start || "unknown"}${of.host ? ` on ${of.host}` : ""}${of.rank ? `, rank ${of.rank}` : ""}, pid ${of.pid}`],
      ["took", units.duration(this.view.duration)],
      ["launches", units.count(of.timeline.launches)],
      ["iterations", of.iterations_text],
      ["decisions", units.count(of.decision_count)],
    ];
    if (device) {
      rows.push(["device", `${device.name || `device ${device.index}`}, ${units.bytes(device.total)}`],
        ["budget", device.budget > 0 ? units.bytes(device.budget) : "not in this trace"],
        ["resident at most", `${units.bytes(device.resident_peak)} of managed memory`],
        ["moved in, out", `${units.bytes(device.moved_in)}, ${units.bytes(device.moved_out)}`]);
    }
    if (of.refused > 0) rows.push(["refused", units.plural(of.refused, "allocation")]);
    rows.push(["driver, Spillway", `${of.driver || "unknown"}, ${of.build || "unknown"}`]);
    this.holder.append(this.facts(rows));
    this.ranks();
    this.topMovers();
    this.notes();
    const settings = element("details", "", element("summary", "", "Settings"));
    settings.append(this.facts(of.settings.map(([key, value]) => [key, value === "" ? "–" : value])));
    this.holder.append(settings);
  }

  // Files without their folders, which are in the tooltip.
  private program(): HTMLElement {
    const { arguments: given, program } = this.trace.directory;
    const bare = given.map((each) => (/^\/[^\s]+$/.test(each) ? each.split("/").pop() || each : each));
    const shown = element("span", "", bare.join(" ") || program || "unknown");
    shown.title = given.join(" ");
    return shown;
  }

  // All traces of the page beside each other.
  private ranks(): void {
    const { all, which, directory } = this.trace;
    if (all.length < 2) return;
    this.holder.append(element("h4", "", `All ${all.length} traces`));
    const list = element("ol", "list ranks");
    for (const [index, each] of all.entries()) {
      const stall = directory.link_in > 0 && each.named_on_host > 0 ? `, stalled for ${units.duration((each.named_on_host / directory.link_in) * 1e9)} at most` : "";
      list.append(element("li", index === which ? "shown" : "", link(traceName(each), () => this.chooseTrace(index)),
        `: ${units.duration(each.duration)}, ${units.plural(each.launches, "launch", "launches")}, ${units.bytes(each.moved_in)} in, ${units.bytes(each.moved_out)} out${stall}${each.whole ? "" : ", incomplete"}`));
    }
    this.holder.append(list);
  }

  private topMovers(): void {
    const of = this.trace.allocations;
    const rows = [...of.id.keys()].filter((row) => of.moved_in[row] + of.moved_out[row] > 0)
      .sort((a, b) => of.moved_in[b] + of.moved_out[b] - of.moved_in[a] - of.moved_out[a]).slice(0, 6);
    this.holder.append(element("h4", "", "What moved most"));
    if (rows.length === 0) {
      const { devices } = this.trace.directory;
      const faulted = devices.reduce((sum, device) => sum + device.moved_in + device.moved_out, 0);
      this.holder.append(element("p", "empty", faulted > 0
        ? `${units.bytes(faulted)} moved by page faults, which are not decisions: of no allocation here.`
        : "Nothing crossed the link: memory stayed where it was first put."));
      return;
    }
    const list = element("ol", "list");
    for (const row of rows) {
      const item = element("li", "", link(`allocation ${of.id[row]}`, () => this.view.select({ kind: "allocation", row })),
        `, ${of.span_class[row] > 0 ? this.trace.className(row) + ", " : ""}${units.bytes(of.bytes[row])}: ${units.bytes(of.moved_in[row])} in, ${units.bytes(of.moved_out[row])} out`);
      list.append(item);
    }
    this.holder.append(list);
  }

  private notes(): void {
    const kinds = this.trace.decisions.kind;
    const notes = (this.trace.decisionsOf.get(-1) ?? []).filter((index) => kinds[index] === kNote);
    this.holder.append(element("h4", "", "What the policy noted"));
    if (notes.length === 0) {
      this.holder.append(element("p", "empty", "Nothing: the run was short, or the mode takes no notes."));
      return;
    }
    this.pages(notes, -1);
  }

  private runDecision(index: number): void {
    this.holder.append(element("h3", "", "A note on the run"));
    this.pages([index], index);
  }

  // Decisions as a list that grows on demand, beginning near the chosen one.
  private pages(decisions: number[], chosen: number): void {
    const list = element("ol", "decisions");
    const at = Math.max(0, decisions.indexOf(chosen));
    let from = Math.max(0, at - kPage / 2);
    let to = Math.min(decisions.length, from + kPage);
    const earlier = link("", () => {
      const before = Math.max(0, from - kPage);
      for (let i = from - 1; i >= before; i--) list.prepend(this.decision(decisions[i], chosen));
      from = before;
      label();
    });
    const later = link("", () => {
      const end = Math.min(decisions.length, to + kPage);
      for (let i = to; i < end; i++) list.append(this.decision(decisions[i], chosen));
      to = end;
      label();
    });
    const label = () => {
      earlier.textContent = `${units.count(from)} earlier`;
      earlier.hidden = from === 0;
      later.textContent = `${units.count(decisions.length - to)} later`;
      later.hidden = to === decisions.length;
    };
    for (let i = from; i < to; i++) list.append(this.decision(decisions[i], chosen));
    label();
    this.holder.append(earlier, list, later);
    list.querySelector(".chosen")?.scrollIntoView({ block: "center" });
  }

  private decision(index: number, chosen: number): HTMLElement {
    const { id, time, launch } = this.trace.decisions;
    const item = element("li", index === chosen ? "decision chosen" : "decision");
    const when = link(this.moment(time[index]), () => {
      const move = this.trace.moveOfDecision.get(id[index]);
      const end = move === undefined ? time[index] : this.trace.moves.start[move] + this.trace.moves.took[move];
      this.view.select({ kind: "decision", index });
      this.view.reveal(time[index], end);
    }, "when");
    when.title = "Select this decision, and show its time";
    item.append(when, element("p", "", `${capital(this.trace.sentence(index))}.`));
    const move = this.trace.moveOfDecision.get(id[index]);
    const details: string[] = [];
    if (move !== undefined) details.push(outcomeText(this.trace, move));
    if (launch[index] > 0 && index === chosen) details.push(`asked for by launch ${units.count(launch[index])}`);
    if (details.length > 0) item.append(element("p", "detail", details.join("; ")));
    if (index === chosen) item.setAttribute("aria-current", "true");
    return item;
  }

  private caller(row: number): HTMLElement {
    const path = this.trace.caller(row);
    const name = element("span", "", path.split("/").pop() || "an unknown caller");
    name.title = path;
    return name;
  }

  // Decisions are about parts of it, and say what they took those for at the time: that may be another class.
  private classText(row: number): string {
    const of = this.trace.allocations;
    if (of.span_class[row] === 0) return "no decision named one";
    const others = this.trace.directory.allocations.other_classes[String(row)];
    return `${this.trace.className(row)}: in ${of.share[row]}% of the bytes that decisions named${others ? `; some took a part of it for ${others}` : ""}`;
  }

  private allocation(row: number, chosen: number): void {
    const of = this.trace.allocations;
    this.head().append(element("h3", "", `Allocation ${of.id[row]}`));
    const lead = [units.bytes(of.bytes[row]), this.trace.managed(row) ? "managed memory" : "plain device memory"];
    if (of.span_class[row] > 0) lead.push(this.trace.className(row));
    this.head().append(element("p", "lead", lead.join(" · ")));
    const freed = of.freed[row];
    const rows: [string, Child][] = [
      ["asked for", `${this.moment(of.asked[row])}${freed >= 0 ? `, freed at ${this.moment(freed)}` : `, ${this.trace.end(row)}`}`],
      ["by", this.caller(row)],
      ["kind", `${this.trace.kind(row)}, device ${of.device[row]}${of.address[row] > 0 ? `, at 0x${of.address[row].toString(16)}` : ""}`],
      ["class", this.classText(row)],
      ["used by", this.trace.evidence[row] ?? ""],
      ["launches", of.launches[row] < 0 ? "not recorded" : units.count(of.launches[row])],
      ["moved in, out", `${units.bytes(of.moved_in[row])}, ${units.bytes(of.moved_out[row])}`],
      ["first placed", units.bytes(of.populated[row])],
    ];
    this.holder.append(this.facts(rows));
    this.holder.append(element("p", "", link("show its life", () => {
      this.view.setWindow(of.asked[row], this.trace.freedAt(row));
      const from = this.trace.places[row];
      if (from >= 0) this.view.setRows(from - of.bytes[row] * 0.1, from + of.bytes[row] * 1.1);
    })));
    const decisions = this.trace.decisionsOf.get(row) ?? [];
    const heading = element("h4", "", units.plural(decisions.length, "decision"));
    if (decisions.length > 1) {
      const at = decisions.indexOf(chosen);
      heading.append(link("‹", () => this.step(decisions, at - 1), "step"), link("›", () => this.step(decisions, at + 1), "step"));
    }
    this.holder.append(heading);
    if (decisions.length === 0) {
      this.holder.append(element("p", "empty", this.trace.directory.decisions.left_out > 0
        ? "None among those that the page holds; the trace has more." : "None: this memory was never decided about."));
      return;
    }
    this.pages(decisions, chosen);
  }

  step(decisions: number[], to: number): void {
    const index = decisions[Math.max(0, Math.min(decisions.length - 1, to))];
    this.view.select({ kind: "decision", index });
    const move = this.trace.moveOfDecision.get(this.trace.decisions.id[index]);
    const time = this.trace.decisions.time[index];
    this.view.reveal(time, move === undefined ? time : this.trace.moves.start[move] + this.trace.moves.took[move]);
  }

  // The next or previous decision of what is selected.
  stepBy(by: number): void {
    const selection = this.view.selection;
    if (selection === null || selection.kind === "launch") return;
    const row = selection.kind === "allocation" ? selection.row : this.trace.decisions.allocation[selection.index];
    const decisions = this.trace.decisionsOf.get(row) ?? [];
    if (decisions.length === 0) return;
    const at = selection.kind === "decision" ? decisions.indexOf(selection.index) : by > 0 ? -1 : decisions.length;
    this.step(decisions, at + by);
  }

  private launch(of: { number: number; code: number; time: number; lane: number; duration: number }): void {
    const id = this.trace.functionOf(of.code);
    this.head().append(element("h3", "", of.number > 0 ? `Launch ${units.count(of.number)}` : "A kernel"),
      element("p", "lead", this.trace.functionName(id)));
    const rows: [string, Child][] = [["in full", this.trace.functionName(id, "full")], ["at", this.moment(of.time)],
      ["on", this.trace.directory.timeline.lanes[of.lane]?.name ?? ""]];
    if (of.duration > 0) rows.push(["took", units.duration(of.duration)]);
    const facts = this.facts(rows);
    this.holder.append(facts);
    if (of.code % 2 === 1) {
      this.holder.append(element("p", "empty", "A graph of kernels: one launch."));
      return;
    }
    const { threads, touches } = this.trace.shape(of.code / 2);
    facts.append(element("dt", "", "threads"), element("dd", "", units.count(threads)));
    this.holder.append(element("h4", "", "Memory it was given"));
    if (touches.length === 0) this.holder.append(element("p", "empty", "No pointer into memory that this page lists."));
    const list = element("ol", "list");
    for (const { row, argument } of touches) {
      const place = this.trace.managed(row) ? placeName(this.trace.placementAt(row, 0, of.time).placement) : "plain";
      list.append(element("li", "", `argument ${argument}: `, link(`allocation ${this.trace.allocations.id[row]}`, () => this.view.select({ kind: "allocation", row })),
        `, ${units.bytes(this.trace.allocations.bytes[row])}, its beginning ${place}`));
    }
    this.holder.append(list);
  }
}
