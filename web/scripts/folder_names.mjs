// The tables of engine/base/folder_names.h as a module of the page: kFilmEndings is filmEndings there.
import { readFileSync } from "node:fs";
import { join } from "node:path";

export function folderNames(source) {
  const header = readFileSync(join(source, "engine/base/folder_names.h"), "utf8");
  const tables = [...header.matchAll(/std::array<std::string_view, (\d+)> k(\w)(\w+) =\s*\{([^}]*)\};/g)];
  return tables.map(([, n, first, rest, values]) => {
    if (values.split(",").length !== Number(n)) throw new Error(`k${first}${rest} has not ${n} texts`);
    return `export const ${first.toLowerCase()}${rest} = [${values.replaceAll(/\s+/g, " ")}];\n`;
  }).join("");
}
