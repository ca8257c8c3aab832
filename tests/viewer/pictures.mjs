// The pictures of docs/read_a_trace.md, of any trace:
//   node tests/viewer/pictures.mjs TRACE NAME FOLDER      (environment: support.mjs)
// writes FOLDER/NAME-run.png (the whole run), NAME-near.png (where most moves are close together), NAME-story.png (the
// decision behind one of them) and NAME-dark.png. What to zoom to is found in the trace, so that no picture is arranged.
import { join, resolve } from "node:path";
import { mkdirSync } from "node:fs";
import { launch, makePage, out, settled, show } from "./support.mjs";

const [trace, name, folder] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node tests/viewer/pictures.mjs TRACE NAME FOLDER");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const made = join(out, `${name}.html`);
makePage(resolve(trace), made);
const browser = await launch();

async function take(which, hash) {
  const { page, trouble } = await show(browser, made, { hash, viewport: { width: 1440, height: 960 } });
  await settled(page);
  await page.screenshot({ path: join(folder, `${name}-${which}.png`) });
  if (trouble.length > 0) throw new Error(trouble.join("\n"));
  return page;
}

// The moves, as the page has them.
const first = await take("run", "#theme=light");
const { start, end, decision } = await first.evaluate(() => {
  const moves = globalThis.spillway.trace.moves;
  const crossed = [...moves.start.keys()].filter((i) => moves.crossed[i] === 1).sort((a, b) => moves.start[a] - moves.start[b]);
  const all = crossed.length > 0 ? crossed : [...moves.start.keys()];
  const together = Math.min(12, all.length);
  let best = 0;
  for (let i = 0; i + together <= all.length; i++) {
    const wide = (at) => moves.start[all[at + together - 1]] - moves.start[all[at]];
    if (wide(i) < wide(best)) best = i;
  }
  const [from, to] = [all[best], all[best + together - 1]];
  return { start: moves.start[from], end: moves.start[to] + moves.took[to], decision: moves.decision[all[best + (together >> 1)]] };
});
const room = Math.max(1000, (end - start) / 4);
const time = `t=${Math.round(start - room)}-${Math.round(end + room)}`;
await take("near", `#${time}&theme=light`);
await take("story", `#${time}&at=d${decision}&theme=light`);
await take("dark", `#${time}&at=d${decision}&theme=dark`);
await browser.close();
