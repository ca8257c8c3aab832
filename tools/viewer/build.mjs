// Bundles src/ into page.html: one file with the style and the script in it, and a mark where a trace's data belongs.
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";

async function bundle(entry) {
  const result = await build({
    entryPoints: [entry], bundle: true, minify: true, write: false, format: "iife", target: "es2022",
    legalComments: "inline", logLevel: "warning",
  });
  return result.outputFiles[0].text.trim();
}

// A function as replacement: text of ours may hold what replace() would take for a pattern.
const style = (await bundle("src/style.css")).replaceAll("</", "<\\/");
const script = (await bundle("src/main.ts")).replaceAll("</script", "<\\/script");
const page = (await readFile("src/index.html", "utf8"))
  .replace("/* style */", () => style)
  .replace("/* script */", () => script);
await writeFile("page.html", page);
