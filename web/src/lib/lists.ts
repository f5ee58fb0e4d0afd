// The texts of files that list photographs, as far as the names in them.

// As editors and exporters leave it: UTF-8, UTF-16 with its mark, or Latin-1.
export async function textOf(file: File): Promise<string> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const utf16 = bytes[0] === 0xff && bytes[1] === 0xfe ? "utf-16le" : bytes[0] === 0xfe && bytes[1] === 0xff ? "utf-16be" : "";
  try {
    return new TextDecoder(utf16 || "utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("latin1").decode(bytes);
  }
}

// JSON as the engine takes it (engine/scene/files/json_text.cc): with comments, commas before a closing bracket and numbers that
// are none. Throws SyntaxError for what is no JSON even so.
function parsed(text: string): unknown {
  const quoted = String.raw`("(?:\\.|[^"\\])*")|`; // stays as it is
  const withoutComments = text.replace(new RegExp(quoted + String.raw`//[^\n]*|/\*[^]*?\*/`, "g"), (_, kept) => kept ?? " ");
  const others = new RegExp(quoted + String.raw`,(?=\s*[\]}])|[-+]?\b(?:nan|inf(?:inity)?)\b(?:\(ind\))?`, "gi");
  return JSON.parse(withoutComments.replace(others, (match, kept) => kept ?? (match === "," ? "" : "0")));
}

// The objects in a file's list, which is all of it or what it has under the key. Null: it is no JSON with such a list.
export async function entriesIn(file: File, key?: string): Promise<Record<string, unknown>[] | null> {
  try {
    const root = parsed(await textOf(file));
    const list = key ? (root as Record<string, unknown>)[key] : root;
    return Array.isArray(list) ? list.filter((entry) => typeof entry === "object" && entry !== null) : null;
  } catch {
    return null;
  }
}

// The names in COLMAP's images.bin: a count, then for each image its id, seven doubles, the camera's id, its name up to a zero
// byte, and its points, each of 24 bytes. What is damaged ends the list.
export function namesOfBinary(buffer: ArrayBuffer): string[] {
  const bytes = new Uint8Array(buffer);
  const view = new DataView(buffer);
  const names: string[] = [];
  if (bytes.length < 8) return names;
  const nImages = Number(view.getBigUint64(0, true));
  const decoder = new TextDecoder();
  for (let at = 8; names.length < nImages && at + 64 <= bytes.length; ) {
    const end = bytes.indexOf(0, at + 64);
    if (end < 0 || end + 9 > bytes.length) break;
    names.push(decoder.decode(bytes.subarray(at + 64, end)));
    at = end + 9 + 24 * Number(view.getBigUint64(end + 1, true));
  }
  return names;
}

// The names in images.txt: two lines for each image, of which the first ends with the name and the second may be empty.
export function namesOfText(text: string): string[] {
  const names: string[] = [];
  let isPoints = false;
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (line.startsWith("#") || (line === "" && !isPoints)) continue;
    const name = isPoints ? undefined : /^(?:\S+\s+){9}(.+)$/.exec(line)?.[1];
    if (name) names.push(name);
    isPoints = !isPoints;
  }
  return names;
}
