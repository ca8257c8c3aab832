// The one tooltip: lines of text beside the pointer. Text only, so that a name in a trace stays a name.

export type Line = string | { text: string; kind: "title" | "faint" };

const box = (): HTMLElement => document.getElementById("tooltip") as HTMLElement;

export function showTip(event: PointerEvent, lines: Line[]): void {
  const tip = box();
  tip.replaceChildren(...lines.map((line) => {
    const element = document.createElement("div");
    element.textContent = typeof line === "string" ? line : line.text;
    if (typeof line !== "string") element.className = line.kind;
    return element;
  }));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = event.clientX + 16 + width > window.innerWidth ? event.clientX - 12 - width : event.clientX + 16;
  const top = event.clientY + 18 + height > window.innerHeight ? event.clientY - 12 - height : event.clientY + 18;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

export function hideTip(): void {
  box().hidden = true;
}
