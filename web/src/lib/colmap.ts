// COLMAP's models in a folder: where they are, and the photographs that they list (engine/scene/read/colmap_folders.cc, colmap_model.cc).
import { folderOf, photograph, type Files } from "./names";

export interface ColmapModel {
  folder: string; // "" is the folder itself
  ending: "bin" | "txt";
  names: string[]; // of the photographs that it lists; empty where it cannot be read
  pictureFolders: string[]; // that hold most of them; several where they hold as many
  nPresent: number;
}

const usualFolders = ["sparse/0", "sparse", "colmap/sparse/0"];
const maxDepth = 4;
const maxModels = 64;
// How the names of folders begin that programs make on the way to a model.
const modelFolder = /^(\d+$|sparse|dense|colmap|distorted|undistorted|model|output|reconstruction|export|result|text|txt|bin|sfm|hloc|manual|align|triangulated)/i;

export const below = (folder: string, name: string) => (folder && name ? `${folder}/${name}` : folder || name);

// Folders that hold a model, those in usual places first.
function modelFoldersUnder(root: string, files: Files): string[] {
  const has = (folder: string, name: string) => files.has(below(folder, name));
  // In a usual place one of the two files is enough: that the other is missing is then said.
  const holdsModel = (folder: string, isUsual: boolean) =>
    ["bin", "txt"].some((ending) => {
      const [cameras, images] = [has(folder, `cameras.${ending}`), has(folder, `images.${ending}`)];
      return (cameras && images) || (isUsual && (cameras || images));
    });
  const isBelow = (folder: string) => root === "" || folder.startsWith(`${root}/`);
  const candidates = new Set<string>();
  for (const path of files.keys()) {
    if (/(^|\/)(cameras|images)\.(bin|txt)$/.test(path) && isBelow(path)) candidates.add(folderOf(path));
  }
  const partsOf = (folder: string) => folder.slice(root ? root.length + 1 : 0).split("/");
  // Sorted part by part, a folder before those in it.
  const inOrder = [...candidates]
    .filter((folder) => folder !== root && partsOf(folder).length <= maxDepth && partsOf(folder).every((part) => modelFolder.test(part)))
    .filter((folder) => holdsModel(folder, folder.startsWith("sparse/")))
    .sort((a, b) => (a.replaceAll("/", "\0") < b.replaceAll("/", "\0") ? -1 : 1));
  const usual = usualFolders.map((folder) => below(root, folder)).filter((folder) => holdsModel(folder, true));
  return [...new Set([...usual, ...(holdsModel(root, false) ? [root] : []), ...inOrder])].slice(0, maxModels);
}

// The names in images.bin: a count, then for each image its id, seven doubles, the camera's id, its name up to a zero byte, and
// its points, each of 24 bytes. What is damaged ends the list.
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

async function readModel(folder: string, files: Files): Promise<ColmapModel> {
  const has = (...names: string[]) => names.every((name) => files.has(below(folder, name)));
  const ending = has("cameras.bin", "images.bin") || !has("cameras.txt", "images.txt") ? "bin" : "txt";
  const list = files.get(below(folder, `images.${ending}`))?.file;
  const names = !list ? [] : ending === "bin" ? namesOfBinary(await list.arrayBuffer()) : namesOfText(await list.text());
  let nPresent = 0;
  let pictureFolders: string[] = [];
  for (let above = folder; ; above = folderOf(above)) {
    for (const name of ["images", "input", ""]) {
      const pictures = below(above, name);
      const n = names.filter((each) => files.has(below(pictures, each))).length;
      if (n > nPresent) pictureFolders = [];
      if (n > 0 && n >= nPresent) pictureFolders.push(pictures);
      nPresent = Math.max(n, nPresent);
    }
    if (above === "") break;
  }
  return { folder, ending, names, pictureFolders: [...new Set(pictureFolders)], nPresent };
}

// The model of which most photographs are there; of several the one that lists most, then the first. Null without a model.
export async function largestModel(files: Files): Promise<ColmapModel | null> {
  let folders = modelFoldersUnder("", files);
  if (folders.length === 0) {
    // A project in a folder of its own.
    const children = new Set([...files.keys()].filter((path) => path.includes("/")).map((path) => path.split("/")[0]!));
    const hasPhotographs = [...files.keys()].some((path) => ["", "images"].includes(folderOf(path)) && photograph.test(path));
    if (children.size === 1 && !hasPhotographs) folders = modelFoldersUnder([...children][0]!, files);
  }
  let largest: ColmapModel | null = null;
  for (const folder of folders) {
    const model = await readModel(folder, files);
    const isLarger = !largest || model.nPresent > largest.nPresent || (model.nPresent === largest.nPresent && model.names.length > largest.names.length);
    if (isLarger) largest = model;
  }
  return largest;
}
