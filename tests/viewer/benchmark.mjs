// How long a page takes to open, and how many frames a second it draws while it is panned: figures, never a pass or fail.
//   node tests/viewer/benchmark.mjs [PAGE.html]      (environment: support.mjs; without a page: ten million events)
import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { launch, makePages, out, settled, show, spot } from "./support.mjs";

let name = "long.html";
if (process.argv[2]) name = resolve(process.argv[2]);
else makePages(10_000_000);
const browser = await launch();
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1];
const file = name.startsWith("/") ? name : join(out, name);
console.log(`${file}: ${(statSync(file).size / 1048576).toFixed(1)} MiB`);

const opened = [];
for (let i = 0; i < 5; i++) {
  const { page } = await show(browser, name);
  opened.push(await page.evaluate(() => Number(document.documentElement.dataset.ready)));
  await page.context().close();
}
console.log(`open, until the first picture: median ${Math.round(median(opened))} ms of 5 (${opened.map(Math.round).join(", ")})`);

const { page } = await show(browser, name);
for (const zoom of [0, 2, 4, 7, 10, 14, 24, 34, 44]) {
  await page.keyboard.press("0");
  const middle = await spot(page, "timeline", 0.5);
  await page.mouse.move(middle.x, middle.y);
  for (let i = 0; i < zoom; i++) await page.mouse.wheel(0, -200);
  await settled(page);
  // A wheel event a frame, as a trackpad sends them.
  const { frames, longest, width } = await page.evaluate(async () => {
    const canvas = document.querySelector("#timeline canvas");
    const before = Number(document.documentElement.dataset.frames);
    const start = performance.now();
    let last = start;
    let longest = 0;
    let way = 1;
    while (performance.now() - start < 3000) {
      canvas.dispatchEvent(new WheelEvent("wheel", { deltaX: 12 * way, bubbles: true, cancelable: true }));
      await new Promise((done) => requestAnimationFrame(done));
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
      if (performance.now() - start > 1500) way = -1;
    }
    const seconds = (performance.now() - start) / 1000;
    const shown = /t=(-?\d+)-(-?\d+)/.exec(location.hash);
    return { frames: (Number(document.documentElement.dataset.frames) - before) / seconds, longest, width: shown ? shown[2] - shown[1] : NaN };
  });
  console.log(`pan at ${zoom === 0 ? "the whole run" : `${(width / 1e6).toFixed(3)} ms in view`}: ${frames.toFixed(1)} frames/s, longest ${longest.toFixed(0)} ms`);
}
await browser.close();
