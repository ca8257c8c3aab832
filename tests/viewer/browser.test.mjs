// `spillway view` as a person meets it: pages in Chromium, from files, with no network.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { statSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";
import { launch, makePage, makePages, out, pictures, settled, show, spot, windowOf } from "./support.mjs";

const millisecond = 1e6;
let browser;
before(async () => {
  makePages(10_000_000);
  browser = await launch();
});
after(async () => browser?.close());

async function picture(page, name) {
  await settled(page);
  await page.screenshot({ path: join(pictures, `${name}.png`) });
}

async function done({ page, trouble }) {
  await settled(page);
  assert.deepEqual(trouble, []);
  await page.context().close();
}

test("a golden trace: panels, facts and rows", async () => {
  const shown = await show(browser, "sample.html");
  const { page } = shown;
  assert.equal(await page.title(), "sample.swt – Spillway");
  assert.match(await page.locator("#state").textContent(), /1 event dropped/);
  assert.match(await page.locator("#timeline-note").textContent(), /kernel times were not recorded/);
  const story = await page.locator("#story").textContent();
  for (const fact of ["train --steps 10", "Sample GPU", "4 GiB", "1 allocation", "A note."]) assert.ok(story.includes(fact), fact);
  assert.equal(await page.locator("#table .row").count(), 4);
  for (const panel of ["overview", "timeline", "heat"]) {
    const canvas = page.locator(`#${panel} canvas`);
    assert.ok((await canvas.getAttribute("aria-label")).length > 20);
    assert.equal(await canvas.getAttribute("tabindex"), "0");
    // Something was painted: more than one colour.
    const colours = await canvas.evaluate((element) => {
      const data = element.getContext("2d").getImageData(0, 0, element.width, element.height).data;
      return new Set(new Uint32Array(data.buffer)).size;
    });
    assert.ok(colours > 3, `${panel}: ${colours} colours`);
  }
  assert.match(await page.locator("#residency").getAttribute("aria-label"), /6 MiB of managed memory in a budget of 4 GiB/);
  await picture(page, "golden");
  await done(shown);
});

// `chromium --headless --screenshot` takes its picture when the page calls itself loaded.
test("everything is painted when the page has loaded", async () => {
  for (const name of ["sample.html", "long.html"]) {
    const context = await browser.newContext({ viewport: { width: 1600, height: 1000 } });
    const page = await context.newPage();
    await page.addInitScript(() => window.addEventListener("load", () => {
      globalThis.atLoad = Object.fromEntries(["overview", "timeline", "heat", "residency"].map((panel) => {
        const canvas = document.querySelector(`#${panel} canvas`);
        if (!canvas) return [panel, []];
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        return [panel, [...new Set(new Uint32Array(data.buffer))]];
      }));
      globalThis.rowsAtLoad = document.querySelectorAll("#table .row").length;
    }));
    await page.goto(pathToFileURL(join(out, name)).href);
    const { atLoad, rows } = await page.evaluate(() => ({ atLoad: globalThis.atLoad, rows: globalThis.rowsAtLoad }));
    for (const [panel, colours] of Object.entries(atLoad)) {
      assert.ok(colours.length > 3, `${name}, ${panel}: ${colours.length} colours`);
    }
    assert.ok(rows > 0, `${name}: the table is empty`);
    await context.close();
  }
});

test("what page faults moved is said where no decision moved anything", async () => {
  const shown = await show(browser, "faulted.html");
  const story = await shown.page.locator("#story").textContent();
  assert.match(story, /24 MiB moved by page faults, which are not decisions/);
  assert.ok(!story.includes("Nothing crossed the link"));
  await done(shown);
});

test("the table is searched and sorted", async () => {
  const shown = await show(browser, "sample.html");
  const { page } = shown;
  const ids = () => page.locator("#table .row").evaluateAll((rows) => rows.map((row) => row.dataset.id));
  await page.keyboard.press("/");
  await page.keyboard.type("refused");
  assert.deepEqual(await ids(), ["4"]);
  await page.locator("#search").fill("adam managed");
  assert.deepEqual(await ids(), ["2"]);
  await page.locator("#search").fill("nothing like this");
  assert.match(await page.locator("#table").textContent(), /No allocation fits this search/);
  await page.locator("#search").fill("");
  await page.getByRole("columnheader", { name: "Size" }).getByRole("button").click();
  assert.deepEqual(await ids(), ["4", "2", "3", "1"]);
  await page.getByRole("columnheader", { name: "Size" }).getByRole("button").click();
  assert.deepEqual(await ids(), ["1", "3", "2", "4"]);
  assert.equal(await page.getByRole("columnheader", { name: "Size" }).getAttribute("aria-sort"), "ascending");
  await done(shown);
});

test("zoom and pan by wheel, pointer and keyboard, and the overview's brush", async () => {
  const shown = await show(browser, "sample.html");
  const { page } = shown;
  const middle = await spot(page, "timeline", 0.5);
  await page.mouse.move(middle.x, middle.y);
  await page.mouse.wheel(0, -500);
  await settled(page);
  const zoomed = windowOf(page);
  assert.ok(zoomed && zoomed[1] - zoomed[0] < 30 * millisecond, String(zoomed));
  assert.ok(Math.abs((zoomed[0] + zoomed[1]) / 2 - 31 * millisecond) < millisecond, "around the pointer");
  await page.mouse.down();
  await page.mouse.move(middle.x + 200, middle.y, { steps: 4 });
  await page.mouse.up();
  await settled(page);
  const dragged = windowOf(page);
  assert.ok(dragged[0] < zoomed[0]);
  assert.ok(Math.abs(dragged[1] - dragged[0] - (zoomed[1] - zoomed[0])) < 10);
  await page.keyboard.press("ArrowRight");
  await settled(page);
  assert.ok(windowOf(page)[0] > dragged[0]);
  await page.keyboard.press("w");
  await settled(page);
  assert.ok(windowOf(page)[1] - windowOf(page)[0] < dragged[1] - dragged[0]);
  await page.keyboard.press("0");
  await settled(page);
  assert.equal(windowOf(page), null);
  const [from, to] = [await spot(page, "overview", 0.25), await spot(page, "overview", 0.5)];
  await page.mouse.move(from.x, from.y);
  await page.mouse.down();
  await page.mouse.move(to.x, to.y, { steps: 5 });
  await page.mouse.up();
  await settled(page);
  const brushed = windowOf(page);
  assert.ok(Math.abs(brushed[0] - 15.5 * millisecond) < millisecond && Math.abs(brushed[1] - 31 * millisecond) < millisecond, String(brushed));
  // What moved is counted within the brush: nothing was sent out there.
  const row = page.locator("#table .row[data-id='2']");
  assert.equal(await row.locator("[role=gridcell]").nth(6).textContent(), "–");
  await done(shown);
});

test("a move in the heat map leads to its decision's story", async () => {
  const shown = await show(browser, "sample.html");
  const { page } = shown;
  // 4 MiB of allocation 2 went out at 54 ms of 62; the stack's lowest 5 of 9 MiB are allocation 2.
  const mark = await spot(page, "heat", 54 / 62, 1 - 1 / 9);
  await page.mouse.move(mark.x, mark.y);
  assert.match(await page.locator("#tooltip").textContent(), /4 MiB ▼ to the host/);
  await page.mouse.click(mark.x, mark.y);
  const chosen = page.locator("#story .decision.chosen");
  await chosen.getByText("least recently").waitFor();
  assert.match(await chosen.textContent(), /4 MiB at offset 0 B of allocation 2 goes to the host, in the background, because it was launched on least recently/);
  assert.match(await chosen.textContent(), /done in 1 µs/);
  assert.equal(await page.locator("#table .row.selected").getAttribute("data-id"), "2");
  await page.keyboard.press("n");
  assert.match(await page.locator("#story .decision.chosen").textContent(), /2 MiB at offset 0 B of allocation 2 goes to HBM/);
  // The chosen decision is in sight, however long the list is.
  const [list, item] = [await page.locator(".story").boundingBox(), await page.locator("#story .decision.chosen").boundingBox()];
  assert.ok(item.y >= list.y && item.y + item.height <= list.y + list.height);
  await picture(page, "decision");
  await page.keyboard.press("Escape");
  assert.match(await page.locator("#story").textContent(), /^The run/);
  await done(shown);
});

test("the keyboard goes through the table", async () => {
  const shown = await show(browser, "sample.html");
  const { page } = shown;
  await page.locator("#table .body").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  assert.match(await page.locator("#story h3").textContent(), /^Allocation 4$/);
  assert.match(await page.locator("#spoken").textContent(), /Allocation 4/);
  await page.getByText("is refused").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await done(shown);
});

test("light and dark: what the system prefers, and the switch", async () => {
  const shown = await show(browser, "sample.html", { colorScheme: "dark" });
  const { page } = shown;
  const ground = () => page.locator("#timeline canvas").evaluate((canvas) => canvas.getContext("2d").getImageData(2, 2, 1, 1).data[0]);
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  assert.ok((await ground()) < 60);
  await picture(page, "dark");
  await page.getByRole("button", { name: /light and dark/ }).click();
  await settled(page);
  assert.equal(await page.locator("html").getAttribute("data-theme"), "light");
  assert.ok((await ground()) > 200);
  assert.match(page.url(), /theme=light/);
  await done(shown);
});

test("the address brings the view back", async () => {
  const first = await show(browser, "sample.html", { hash: "#t=20000000-60000000&at=d7&q=managed&sort=size-up&theme=dark" });
  await first.page.locator("#story .decision.chosen").getByText("least recently").waitFor();
  assert.equal(await first.page.locator("#search").inputValue(), "managed");
  assert.equal(await first.page.locator("html").getAttribute("data-theme"), "dark");
  await first.page.keyboard.press("ArrowRight");
  await settled(first.page);
  const second = await show(browser, "sample.html", { hash: new URL(first.page.url()).hash });
  assert.deepEqual(windowOf(second.page), windowOf(first.page));
  assert.equal(await second.page.locator("#story").textContent(), await first.page.locator("#story").textContent());
  await done(first);
  await done(second);
  const odd = await show(browser, "sample.html", { hash: "#t=9-3&at=d99999&sort=%3Cb%3E&theme=pink&rows=a-b&device=7" });
  await settled(odd.page);
  assert.equal(windowOf(odd.page), null);
  await done(odd);
});

test("cut and damaged traces are shown, and marked", async () => {
  const cut = await show(browser, "cut.html");
  assert.match(await cut.page.locator("#state").textContent(), /incomplete: cut at byte \d+; the end of the run is missing/);
  assert.ok((await cut.page.locator("#table .row").count()) > 0);
  await picture(cut.page, "cut");
  await done(cut);
  const damaged = await show(browser, "damaged.html");
  assert.match(await damaged.page.locator("#state").textContent(), /incomplete: 1 damaged piece left out/);
  await done(damaged);
});

test("ten million events, with the network off", async () => {
  const size = statSync(join(out, "long.html")).size;
  assert.ok(size < 30 * 1024 * 1024, `${size} bytes`);
  const shown = await show(browser, "long.html", { offline: true });
  const { page } = shown;
  console.log(`ten million events: a page of ${(size / 1048576).toFixed(1)} MiB, shown after ${Math.round(await page.evaluate(() => Number(document.documentElement.dataset.ready)))} ms`);
  assert.match(await page.locator("#story").textContent(), /9,334,000/);
  assert.match(await page.locator("#timeline-note").textContent(), /kernels above/);
  await picture(page, "long");
  await page.locator("#search").fill("#169");
  await page.locator("#table .row[data-id='169']").click();
  await page.getByText("show its life").waitFor();
  await page.locator("#search").fill("");
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  const middle = await spot(page, "timeline", 0.5, 0.1);
  await page.mouse.move(middle.x, middle.y);
  for (let i = 0; i < 13; i++) await page.mouse.wheel(0, -250);
  await settled(page);
  await picture(page, "long-iterations");
  for (let i = 0; i < 12; i++) await page.mouse.wheel(0, -250);
  await settled(page);
  const [start, end] = windowOf(page);
  assert.ok(end - start < 2 * millisecond, `${end - start} ns in view`);
  // Somewhere in the first stream's lane is a launch to click.
  let told = "";
  for (const down of [0.34, 0.31, 0.36, 0.28]) {
    for (let across = 0.02; across < 0.99 && !told; across += 0.006) {
      const at = await spot(page, "timeline", across, down);
      await page.mouse.click(at.x, at.y);
      if (/^Launch/.test(await page.locator("#story h3").textContent())) told = await page.locator("#story").textContent();
    }
  }
  await picture(page, "long-launches");
  assert.match(told, /Launch [\d,]+kernel_\d+/);
  await page.getByText("Memory it was given").waitFor();
  await picture(page, "long-launches");
  await done(shown);
});

test("a name in a trace stays a name", async () => {
  const shown = await show(browser, "hostile.html");
  const { page } = shown;
  const policy = await page.locator("meta[http-equiv='Content-Security-Policy']").getAttribute("content");
  assert.match(policy, /default-src 'none'/);
  const name = "</script><script>alert(1)</script>";
  page.on("dialog", () => assert.fail("a name was run"));
  await page.locator("#story .decision p").getByText(name).first().waitFor();
  await page.locator("#table .row").click();
  await page.locator("#story .decision p").getByText(name).first().waitFor();
  const lane = await spot(page, "timeline", 0.5, 0.2);
  await page.mouse.move(lane.x, lane.y);
  assert.match(await page.locator("#tooltip").textContent(), /launch 1/);
  await page.mouse.click(lane.x, lane.y);
  await page.getByText("Memory it was given").waitFor();
  assert.ok((await page.locator("#story").textContent()).includes(name));
  assert.equal(await page.locator("img").count(), 0);
  await done(shown);
});

test("a folder of ranks: one page, a switch, the same time in each", async () => {
  const shown = await show(browser, "ranks.html", { hash: "#t=20000000-60000000&at=d7" });
  const { page } = shown;
  const select = page.getByRole("combobox", { name: "Trace" });
  assert.deepEqual(await select.locator("option").allTextContents(), ["rank 0", "rank 2", "rank 10"]);
  assert.match(await page.locator("#run").textContent(), /rank 0/);
  const again = (act) => Promise.all([page.waitForEvent("load"), act()])
    .then(() => page.waitForFunction(() => document.documentElement.dataset.ready !== undefined));
  await again(() => page.keyboard.press("]"));
  assert.match(await page.locator("#run").textContent(), /rank 2/);
  assert.deepEqual(windowOf(page), [20000000, 60000000]);
  assert.doesNotMatch(page.url(), /at=/);  // a decision of the other rank
  await again(() => select.selectOption("rank 10"));
  assert.match(page.url(), /trace=2/);
  assert.match(await page.locator("#run").textContent(), /rank 10/);
  assert.match(await page.locator("#state").textContent(), /incomplete/);
  assert.equal(await page.locator("#table .row").count(), 4);
  await page.keyboard.press("]");  // there is no further one
  const ranks = page.locator("#story .ranks li");
  assert.equal(await ranks.count(), 3);
  assert.match(await ranks.nth(2).textContent(), /^rank 10: .*30 launches, 2 MiB in, 4 MiB out.*incomplete$/);
  assert.match(await ranks.nth(2).getAttribute("class"), /shown/);
  await picture(page, "ranks");
  await again(() => ranks.nth(0).getByRole("button").click());
  assert.match(await page.locator("#run").textContent(), /rank 0/);
  assert.match(await page.locator("#state").textContent(), /1 event dropped/);
  await done(shown);
});

test("one trace needs no switch", async () => {
  const shown = await show(browser, "sample.html", { hash: "#trace=5" });
  assert.equal(await shown.page.getByRole("combobox", { name: "Trace" }).count(), 0);
  assert.match(await shown.page.locator("#story").textContent(), /^The run/);
  await done(shown);
});

test("a long beginning in which nothing happens is left out at first", async () => {
  const shown = await show(browser, "late.html");
  const { page } = shown;
  const inView = () => page.evaluate(() => [globalThis.spillway.view.start, globalThis.spillway.view.end].map(Math.round));
  assert.equal(windowOf(page), null);
  assert.deepEqual(await inView(), [7_940_000_000, 10_000_000_000]);
  await page.keyboard.press("0");
  await settled(page);
  assert.deepEqual(windowOf(page), [0, 10_000_000_000]);
  await page.reload();
  await page.waitForFunction(() => document.documentElement.dataset.ready !== undefined);
  assert.deepEqual(await inView(), [0, 10_000_000_000]);
  await done(shown);
});

test("a run on an H200: kernels were sampled, and the row of stalls tells how long and of what", async () => {
  makePage(fileURLToPath(new URL("../golden/traces/generate_llama.swt", import.meta.url)), join(out, "llama.html"));
  const shown = await show(browser, "llama.html");
  const { page } = shown;
  await settled(page);
  assert.match(await page.locator("#timeline-note").textContent(), /sampled: 1,036 of 17,208 were timed/);
  assert.match(await page.locator("#story").textContent(), /generate_llama\.py --layers 6/);
  assert.doesNotMatch(await page.locator("#story").textContent(), /\/examples\//);  // files without their folders
  // In the middle of making tokens, somewhere in the lowest rows.
  const across = await page.evaluate(() => (7.0e9 - globalThis.spillway.view.start) / (globalThis.spillway.view.end - globalThis.spillway.view.start));
  const at = await spot(page, "timeline", across);
  const box = await page.locator("#timeline").boundingBox();
  let told = "";
  for (let up = 4; up < 60 && !told; up += 5) {
    await page.mouse.move(at.x, box.y + box.height - up);
    const tip = page.locator("#tooltip");
    if (await tip.isVisible() && /^Stalled/.test(await tip.textContent())) told = await tip.textContent();
  }
  assert.match(told, /^Stalled for .+ at most.*launches named .+MiB that was on the host/);
  await picture(page, "llama");
  await done(shown);
});

function get(url, headers = {}) {
  return new Promise((resolve, reject) => {
    http.get(url, { headers }, (answer) => {
      let text = "";
      answer.on("data", (piece) => (text += piece));
      answer.on("end", () => resolve({ status: answer.statusCode, text }));
    }).on("error", reject);
  });
}

test("iterations and classes are told as stats tells them", async () => {
  makePage(fileURLToPath(new URL("../golden/traces/train_gpt2_fused.swt", import.meta.url)), join(out, "gpt2.html"));
  const shown = await show(browser, "gpt2.html");
  const { page } = shown;
  assert.match(await page.locator("#story").textContent(), /20 whole, then 21 \(not whole\)/);
  await page.locator("#search").fill("#55");
  await page.locator("#table .row[data-id='55']").click();
  await page.getByText("show its life").waitFor();
  assert.match(await page.locator("#story").textContent(), /workspace: in 98% of the bytes that decisions named; some took a part of it for kv in [12]%/);
  await done(shown);
});

test("served on loopback, under a path of its own, until it is ended", async (context) => {
  const child = spawn(process.env.SPILLWAY, ["view", join(out, "sample.swt"), "--serve", "--open", "no"]);
  context.after(() => child.kill("SIGKILL"));
  const ended = new Promise((resolve) => child.on("exit", resolve));
  const url = await new Promise((resolve) => child.stdout.once("data", (text) => resolve(String(text).trim())));
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{24}\/$/);
  const shown = await show(browser, url);
  assert.equal(await shown.page.locator("#table .row").count(), 4);
  await done(shown);
  assert.equal((await get(new URL("/", url))).status, 404);
  assert.equal((await get(url, { Host: "example.org" })).status, 404);
  child.kill("SIGTERM");
  assert.equal(await ended, 0);
});
