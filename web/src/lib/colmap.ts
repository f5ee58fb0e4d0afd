// COLMAP's models in a folder: where they are, and the photographs that they list (engine/scene/read/colmap_folders.cc, colmap_model.cc).
import { modelFolderWords, usualModelFolders } from "../gen/folder_names";
import { below, folderOf, type Files } from "./capture";
import { namesOfBinary, namesOfText, textOf } from "./lists";
import { isPhotograph } from "./names";

export interface ColmapModel {
  folder: string; // "" is the folder itself
  ending: "bin" | "txt";
  names: string[]; // of the photographs that it lists; empty where it cannot be read
  pictureFolders: string[]; // that hold most of them; several where they hold as many
  nPresent: number;
}

const maxDepth = 4;
const maxModels = 64;
const isModelFolder = (part: string) => /^\d+$/.test(part) || modelFolderWords.some((word) => part.toLowerCase().startsWith(word));

// Folders that hold a model, those in usual places first, then the root, then the others in order.
function modelFoldersUnder(root: string, files: Files): string[] {
  const places = [...usualModelFolders, ""];
  const lists = [...files.keys()].filter((path) => /(^|\/)(cameras|images)\.(bin|txt)$/.test(path) && path.startsWith(root && `${root}/`));
  const ranked = [...new Set(lists.map(folderOf))].flatMap((folder) => {
    const parts = folder.slice(root ? root.length + 1 : 0).split("/");
    const place = places.indexOf(parts.join("/"));
    if (place < 0 && (parts.length > maxDepth || !parts.every(isModelFolder))) return [];
    // In a usual place one of the two files is enough: that the other is missing is then said.
    const isUsual = (place >= 0 && place < usualModelFolders.length) || folder.startsWith("sparse/");
    const isWhole = ["bin", "txt"].some((ending) => ["cameras", "images"].every((part) => files.has(below(folder, `${part}.${ending}`))));
    // Sorted part by part, a folder before those in it.
    return isUsual || isWhole ? [{ folder, key: `${place < 0 ? places.length : place}\0${folder.replaceAll("/", "\0")}` }] : [];
  });
  return ranked.sort((a, b) => (a.key < b.key ? -1 : 1)).map(({ folder }) => folder).slice(0, maxModels);
}

async function readModel(folder: string, files: Files): Promise<ColmapModel> {
  const has = (...names: string[]) => names.every((name) => files.has(below(folder, name)));
  const ending = has("cameras.bin", "images.bin") || !has("cameras.txt", "images.txt") ? "bin" : "txt";
  const list = files.get(below(folder, `images.${ending}`))?.file;
  const names = !list ? [] : ending === "bin" ? namesOfBinary(await list.arrayBuffer()) : namesOfText(await textOf(list));
  const around = new Set<string>();
  for (let above = folder; ; above = folderOf(above)) {
    for (const name of ["images", "input", ""]) around.add(below(above, name));
    if (above === "") break;
  }
  const counted = [...around].map((each) => ({ each, n: names.filter((name) => files.has(below(each, name))).length }));
  const nPresent = Math.max(...counted.map(({ n }) => n));
  return { folder, ending, names, pictureFolders: counted.filter(({ n }) => n > 0 && n === nPresent).map(({ each }) => each), nPresent };
}

// The model of which most photographs are there; of several the one that lists most, then the first. Null without a model.
export async function largestModel(files: Files): Promise<ColmapModel | null> {
  let folders = modelFoldersUnder("", files);
  if (folders.length === 0) {
    // A project in a folder of its own.
    const paths = [...files.keys()];
    const children = new Set(paths.filter((path) => path.includes("/")).map((path) => path.split("/")[0]!));
    const hasPhotographs = paths.some((path) => ["", "images"].includes(folderOf(path)) && isPhotograph(path));
    if (children.size === 1 && !hasPhotographs) folders = modelFoldersUnder([...children][0]!, files);
  }
  const models = await Promise.all(folders.map((folder) => readModel(folder, files)));
  return models.sort((a, b) => b.nPresent - a.nPresent || b.names.length - a.names.length)[0] ?? null;
}
