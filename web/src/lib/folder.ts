// A folder or files that were dropped or chosen, and which of them a scene or a pose job needs. The rules are those of the reader
// on the workers (engine/scene): what is left out here would be missing there.
import { below, largestModel, type ColmapModel } from "./colmap";
import { baseOf, film, folderOf, isOfTheSystem, maskOf, normalized, OtherNames, photograph, stemOf, type Files } from "./names";
import { photographsOf } from "./photographs";

export interface FolderFile {
  path: string; // below the folder
  file: File;
  mask?: File | undefined; // of a photograph without poses
}

export interface Capture {
  name: string; // of the folder
  files: FolderFile[]; // those to send
  nPictures: number;
  nFilms: number;
  hasPoses: boolean; // else a pose job finds them
  source: string; // "transforms.json" and its like, "COLMAP (sparse/0)" or "poses_bounds.npy"
  note: string; // what is left out; empty: nothing
}

// Why a folder cannot be trained on, and what to do.
export class UnusableFolder extends Error {
  constructor(
    message: string,
    readonly advice: string,
  ) {
    super(message);
  }
}

const endings = ["", ".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"]; // that a camera file may leave off
const llffFile = "poses_bounds.npy";
const llffFolders = ["images/", "images_2/", "images_4/", "images_8/"];
const looseName = "photographs"; // of files without a folder that are none

async function filesBelow(entry: FileSystemEntry, path: string, files: FolderFile[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    files.push({ path, file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  for (;;) {
    // A batch of at most 100 a call.
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return;
    for (const child of entries) await filesBelow(child, path ? `${path}/${child.name}` : child.name, files);
  }
}

// What a drop event holds. Entries must be taken before the first await.
export async function droppedFiles(transfer: DataTransfer): Promise<{ name: string; files: FolderFile[] }> {
  const entries = Array.from(transfer.items, (item) => item.webkitGetAsEntry()).filter((entry) => entry !== null);
  const loose = Array.from(transfer.files, (file) => ({ path: file.webkitRelativePath || file.name, file }));
  const files: FolderFile[] = [];
  const only = entries.length === 1 && entries[0]!.isDirectory ? entries[0]! : undefined;
  if (only) await filesBelow(only, "", files);
  else for (const entry of entries) await filesBelow(entry, entry.name, files);
  return { name: only?.name ?? nameOfLoose(loose), files: files.length > 0 ? files : loose };
}

// Of files without a folder the first photograph or film names the scene.
function nameOfLoose(files: FolderFile[]): string {
  const first = files.find(({ path }) => photograph.test(path) || film.test(path));
  return (first && stemOf(baseOf(first.path))) || looseName;
}

// What <input type="file"> holds, of a folder (webkitdirectory) or of files.
export function chosenFiles(list: FileList): { name: string; files: FolderFile[] } {
  const files = Array.from(list, (file) => ({ path: file.webkitRelativePath || file.name, file }));
  const name = files[0]?.path.includes("/") ? files[0].path.split("/")[0]! : nameOfLoose(files);
  const isBelow = files.every(({ path }) => path.startsWith(`${name}/`));
  return { name, files: isBelow ? files.map(({ path, file }) => ({ path: path.slice(name.length + 1), file })) : files };
}

// Picks what a scene of this folder is made of, or what a pose job gets.
export async function readCapture(name: string, all: FolderFile[]): Promise<Capture> {
  const files: Files = new Map(all.filter(({ path }) => !isOfTheSystem(path)).map((file) => [file.path, file]));
  if (files.size === 0) throw new UnusableFolder("The folder is empty.", "Choose photographs, or the folder that holds them.");
  const [train, val, test, whole] = ["_train", "_val", "_test", ""].map((part) => files.get(`transforms${part}.json`));
  if (train) return fromTransforms(name, [train, test ?? val].filter((file) => file !== undefined), files);
  if (whole) return fromTransforms(name, [whole], files);
  if (val ?? test) throw new UnusableFolder("transforms_train.json is missing: there is nothing to train on.", "Choose the folder that holds transforms_train.json, too.");
  const model = await largestModel(files);
  if (model) return fromColmap(name, model, files);
  if (files.has(llffFile)) return fromLlff(name, files);
  if ([...files.keys()].some((path) => polycamCamera.test(path))) return fromPolycam(name, files);
  return photographsOf(name, files);
}

function findPicture(path: unknown, files: Files): FolderFile | undefined {
  const exact = typeof path === "string" ? normalized(path) : null;
  if (!exact) return undefined;
  return endings.map((ending) => files.get(exact + ending)).find((file) => file !== undefined);
}

// `lists` and `pictures` with the pictures' masks. named: masks and depth files that the lists name.
function captureOf(name: string, source: string, note: string, lists: FolderFile[], pictures: FolderFile[], files: Files, named: FolderFile[] = []): Capture {
  const found = pictures.map(({ path }) => maskOf(path, files)).filter((file) => file !== undefined);
  const unique = new Map([...pictures, ...named, ...found, ...lists].map((file) => [file.path, file]));
  return { name, files: [...unique.values()], nPictures: new Set(pictures).size, nFilms: 0, hasPoses: true, source, note };
}

interface Frame {
  file_path?: unknown;
  mask_path?: unknown;
  depth_file_path?: unknown;
  depth_path?: unknown;
}

// Camera files may have comments, which JSON does not know. Text in quotes stays.
const withoutComments = (text: string) => text.replace(/("(?:\\.|[^"\\])*")|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (_, quoted: string | undefined) => quoted ?? " ");

async function framesOf({ path, file }: FolderFile): Promise<Frame[]> {
  try {
    const { frames } = JSON.parse(withoutComments(await file.text())) as { frames: Frame[] };
    if (Array.isArray(frames)) return frames.filter((frame) => typeof frame === "object" && frame !== null);
  } catch {
    // Told below.
  }
  throw new UnusableFolder(`${path} is not a camera file: it is no JSON with a list "frames".`, "Export the camera file again.");
}

async function fromTransforms(name: string, transforms: FolderFile[], files: Files): Promise<Capture> {
  const pictures: FolderFile[] = [];
  const named: FolderFile[] = [];
  const missing: string[] = [];
  const others = new OtherNames(files.values());
  let nFound = 0;
  for (const list of transforms) {
    for (const { file_path, mask_path, depth_file_path, depth_path } of await framesOf(list)) {
      const exact = findPicture(file_path, files);
      const found = exact ? [exact] : typeof file_path === "string" ? others.pictures(file_path) : [];
      pictures.push(...found);
      if (found.length > 0) ++nFound;
      else if (typeof file_path === "string") missing.push(file_path);
      for (const path of [mask_path, depth_file_path ?? depth_path]) {
        const file = findPicture(path, files);
        if (file) named.push(file);
        else if (typeof path === "string") named.push(...others.companions(path));
      }
    }
  }
  const source = transforms.map(({ path }) => path).join(", ");
  const nListed = nFound + missing.length;
  if (missing.length > 0 && pictures.length === 0) {
    throw new UnusableFolder(
      `None of the ${nListed} pictures that ${source} lists is in the folder, such as ${missing[0]}.`,
      "Paths in the camera file are relative to the folder that it lies in. Choose that folder, with the pictures in it.",
    );
  }
  return captureOf(name, source, noteOf(missing, nListed), transforms, pictures, files, named);
}

const noteOf = (missing: string[], nListed: number) =>
  missing.length > 0 ? `${missing.length} of ${nListed} listed pictures ${missing.length === 1 ? "is" : "are"} not in the folder and left out, such as ${missing[0]}.` : "";

function fromColmap(name: string, model: ColmapModel, files: Files): Capture {
  const { folder, ending, names } = model;
  const fileOf = (part: string) => files.get(below(folder, `${part}.${ending}`));
  for (const part of ["cameras", "images"]) {
    if (!fileOf(part)) throw new UnusableFolder(`${below(folder, `${part}.${ending}`)} is missing in the COLMAP model.`, "Choose a folder with the whole model.");
  }
  const lists = ["cameras", "images", "points3D"].map(fileOf).filter((file) => file !== undefined);
  const pictures: FolderFile[] = [];
  const missing: string[] = [];
  const others = new OtherNames(files.values());
  for (const each of names) {
    const exact = model.pictureFolders.map((pictureFolder) => files.get(below(pictureFolder, each))).filter((file) => file !== undefined);
    const found = exact.length > 0 ? exact : others.pictures(each);
    pictures.push(...found);
    if (found.length === 0) missing.push(each);
  }
  // A list that cannot be read here: the engine says what is wrong with it.
  if (names.length === 0) pictures.push(...[...files.values()].filter(({ path }) => /(^|\/)(images|input)\//.test(path) && photograph.test(path)));
  if (pictures.length === 0) throw new UnusableFolder("A COLMAP model, but none of its pictures, as in images/.", "Choose the folder that holds both images/ and sparse/.");
  return captureOf(name, folder ? `COLMAP (${folder})` : "COLMAP", noteOf(missing, names.length), lists, pictures, files);
}

function fromLlff(name: string, files: Files): Capture {
  const picturesIn = (folder: string) => [...files.values()].filter(({ path }) => path.startsWith(folder) && !path.slice(folder.length).includes("/") && photograph.test(path));
  const pictures = llffFolders.map(picturesIn).find((found) => found.length > 0);
  if (!pictures) throw new UnusableFolder(`${llffFile}, but no pictures in images/.`, "Choose the folder that holds both.");
  return captureOf(name, llffFile, "", [files.get(llffFile)!], pictures, files);
}

const polycamCamera = /^keyframes\/(corrected_)?cameras\/[^/]*\.json$/;

// Polycam's raw export: a file for each camera, named after its picture.
function fromPolycam(name: string, files: Files): Capture {
  const all = [...files.values()];
  const cameras = all.filter(({ path }) => polycamCamera.test(path));
  const pictures = all.filter(({ path }) => ["keyframes/corrected_images", "keyframes/images"].includes(folderOf(path)) && photograph.test(path));
  if (pictures.length === 0) throw new UnusableFolder("Polycam's cameras, but no pictures in keyframes/images/.", "Choose the folder of the whole raw export.");
  return captureOf(name, "keyframes (Polycam)", "", cameras, pictures, files);
}
