// Type-checks Grafana dashboards with @grafana/schema: node check_dashboards.mjs FILE.json...
// Unknown fields and wrong types are refused. Values of enums are text in JSON and are left out.
import {execFileSync} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {basename, dirname, join} from "node:path";
import {fileURLToPath} from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = mkdtempSync(join(here, ".types-"));
try {
  const files = process.argv.slice(2).map((file, i) => {
    const board = JSON.parse(readFileSync(file, "utf8"));
    const {panels, templating, ...rest} = board;
    const out = join(folder, `${i}-${basename(file, ".json")}.ts`);
    writeFileSync(out, [
      `import type {Dashboard, Panel, VariableModel} from "@grafana/schema";`,
      `export const board: Dashboard = ${JSON.stringify(rest)};`,
      `export const panels: Panel[] = [];`,
      ...panels.map((panel) => `panels.push(${JSON.stringify(panel)});`),
      `export const variables: Omit<VariableModel, "hide" | "type">[] = [];`,
      ...templating.list.map(({hide, type, ...variable}) =>
          `variables.push(${JSON.stringify(variable)});`),
    ].join("\n"));
    return out;
  });
  execFileSync(join(here, "node_modules/.bin/tsc"),
               ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext",
                "--moduleResolution", "bundler", "--target", "es2022", ...files],
               {encoding: "utf8", cwd: here});
  console.log(`${files.length} dashboards fit @grafana/schema`);
} catch (error) {
  console.log(error.stdout ?? error);
  process.exitCode = 1;
} finally {
  rmSync(folder, {recursive: true});
}
