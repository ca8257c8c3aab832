// What the browser tests, the benchmark and the pictures share: traces, pages, and a browser that is told nothing but files.
// From the environment: SPILLWAY (the command), MAKE_TRACES, CHROMIUM, OUT (a folder with node_modules, for what is made).
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

export const out = process.env.OUT;
export const pictures = join(out, "pictures");
const { chromium } = createRequire(join(out, "x.js"))("playwright-core");
const gutter = 118;  // as in tools/viewer/src/panel.ts
const edge = 14;

export function makePages(events) {
  mkdirSync(pictures, { recursive: true });
  execFileSync(process.env.MAKE_TRACES, [out, String(events)]);
  for (const name of ["sample", "cut", "damaged", "hostile", "late", "faulted", "long"]) makePage(join(out, `${name}.swt`), join(out, `${name}.html`));
  makePage(join(out, "ranks"), join(out, "ranks.html"));
}

export function makePage(trace, page) {
  execFileSync(process.env.SPILLWAY, ["view", trace, "-o", page, "--open", "no"]);
}

export async function launch() {
  if (!process.env.CHROMIUM || process.env.CHROMIUM.endsWith("NOTFOUND")) {
    throw new Error("no chromium: install Debian's package chromium (tools/development/install_dependencies.sh test)");
  }
  return chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });
}

// A page of ours, shown. `trouble` collects what must stay empty: console errors, exceptions, and any request but the page.
export async function show(browser, name, { hash = "", offline = false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1600, height: 1000 }, ...options });
  await context.setOffline(offline);
  const page = await context.newPage();
  const url = name.startsWith("http") ? name : pathToFileURL(resolve(out, name)).href;
  const trouble = [];
  page.on("console", (message) => {
    if (message.type() === "error") trouble.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => trouble.push(`exception: ${error.stack}`));
  page.on("request", (request) => {
    if (!/^(data:|blob:)/.test(request.url()) && request.url().split("#")[0] !== url) trouble.push(`request: ${request.url()}`);
  });
  await page.goto(url + hash);
  await page.waitForFunction(() => document.documentElement.dataset.ready !== undefined);
  return { page, trouble, url };
}

// Where a share (0 to 1) of the time in view is in a panel, in the window's pixels.
export async function spot(page, panel, across, down = 0.5) {
  const box = await page.locator(`#${panel}`).boundingBox();
  return { x: box.x + gutter + across * (box.width - gutter - edge), y: box.y + down * box.height };
}

// Until the picture has settled: the last frame was drawn, and what is done later is done.
export async function settled(page) {
  let frames = -1;
  for (let i = 0; i < 50; i++) {
    const now = await page.evaluate(() => Number(document.documentElement.dataset.frames));
    if (now === frames) return;
    frames = now;
    await page.waitForTimeout(200);
  }
}

// The window of time in the address; null: the whole run.
export function windowOf(page) {
  const match = /[#&]t=(-?\d+)-(-?\d+)/.exec(page.url());
  return match ? [Number(match[1]), Number(match[2])] : null;
}
