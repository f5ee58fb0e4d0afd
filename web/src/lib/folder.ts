// A folder that was dropped or chosen, and which of its files a scene needs. The rules are those of the reader on the workers
// (engine/scene): what is left out here would be missing there.
export interface FolderFile {
  path: string; // below the folder
  file: File;
}

export interface Capture {
  name: string; // of the folder
  files: FolderFile[]; // those to send
  nPictures: number;
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

const picture = /\.(png|jpe?g)$/i;
const endings = ["", ".png", ".jpg", ".jpeg", ".PNG", ".JPG", ".JPEG"]; // that a camera file may leave off
const colmapFolders = ["sparse/0/", "sparse/", "colmap/sparse/0/"];
const llffFile = "poses_bounds.npy";
const llffFolders = ["images/", "images_2/", "images_4/", "images_8/"];

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
  return { name: only?.name ?? "scene", files: files.length > 0 ? files : loose };
}

// What <input type="file" webkitdirectory> holds.
export function chosenFiles(list: FileList): { name: string; files: FolderFile[] } {
  const files = Array.from(list, (file) => ({ path: file.webkitRelativePath || file.name, file }));
  const name = files[0]?.path.includes("/") ? files[0].path.split("/")[0]! : "scene";
  const isBelow = files.every(({ path }) => path.startsWith(`${name}/`));
  return { name, files: isBelow ? files.map(({ path, file }) => ({ path: path.slice(name.length + 1), file })) : files };
}

type Files = Map<string, FolderFile>; // by path

// Picks what a scene of this folder is made of.
export async function readCapture(name: string, all: FolderFile[]): Promise<Capture> {
  const files: Files = new Map(all.filter(({ path }) => !path.split("/").some((part) => part.startsWith("."))).map((file) => [file.path, file]));
  if (files.size === 0) throw new UnusableFolder("The folder is empty.", "Choose the folder that holds the pictures and their camera file.");
  const [train, val, test, whole] = ["_train", "_val", "_test", ""].map((part) => files.get(`transforms${part}.json`));
  if (train) return fromTransforms(name, [train, test ?? val].filter((file) => file !== undefined), files);
  if (whole) return fromTransforms(name, [whole], files);
  if (val ?? test) throw new UnusableFolder("transforms_train.json is missing: there is nothing to train on.", "Choose the folder that holds transforms_train.json, too.");
  const colmap = colmapFolders.find((folder) => ["cameras.bin", "images.bin", "cameras.txt", "images.txt"].some((file) => files.has(folder + file)));
  if (colmap !== undefined) return fromColmap(name, colmap, files);
  if (files.has(llffFile)) return fromLlff(name, files);
  const nPictures = [...files.keys()].filter((path) => picture.test(path)).length;
  if (nPictures > 0) {
    throw new UnusableFolder(
      `${nPictures === 1 ? "A picture" : `${nPictures} pictures`}, but nothing says where ${nPictures === 1 ? "it" : "each"} was taken.`,
      "Training needs a camera for every picture. nerfctl train FOLDER finds them with COLMAP (docs/use/photographs.md) and trains; or export transforms.json from the tool that made the pictures and drop the folder again.",
    );
  }
  throw new UnusableFolder("No pictures and no camera file were found.", "A scene is a folder with pictures (PNG or JPEG) and transforms.json, or a COLMAP model in sparse/0.");
}

// A path in the folder, without "." and ".."; null where it leaves the folder.
function normalized(path: string): string | null {
  const parts: string[] = [];
  for (const part of path.replaceAll("\\", "/").split("/")) {
    if (part === ".." && parts.pop() === undefined) return null;
    if (part !== ".." && part !== "." && part !== "") parts.push(part);
  }
  return parts.join("/");
}

function findPicture(path: unknown, files: Files): FolderFile | undefined {
  const exact = typeof path === "string" ? normalized(path) : null;
  if (!exact) return undefined;
  return endings.map((ending) => files.get(exact + ending)).find((file) => file !== undefined);
}

// The mask of images/NAME.EXT: masks/NAME.EXT.png or masks/NAME.png.
function maskOf(path: string, files: Files): FolderFile | undefined {
  if (!path.startsWith("images/")) return undefined;
  const mask = path.replace("images/", "masks/");
  return files.get(`${mask}.png`) ?? files.get(`${mask.slice(0, mask.lastIndexOf("."))}.png`);
}

// `lists` and `pictures` with the pictures' masks. named: masks and depth files that the lists name.
function captureOf(name: string, source: string, note: string, lists: FolderFile[], pictures: FolderFile[], files: Files, named: FolderFile[] = []): Capture {
  const found = pictures.map(({ path }) => maskOf(path, files)).filter((file) => file !== undefined);
  const unique = new Map([...pictures, ...named, ...found, ...lists].map((file) => [file.path, file]));
  return { name, files: [...unique.values()], nPictures: new Set(pictures).size, source, note };
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
  for (const list of transforms) {
    for (const { file_path, mask_path, depth_file_path, depth_path } of await framesOf(list)) {
      const found = findPicture(file_path, files);
      if (found) pictures.push(found);
      else if (typeof file_path === "string") missing.push(file_path);
      for (const path of [mask_path, depth_file_path ?? depth_path]) {
        const file = findPicture(path, files);
        if (file) named.push(file);
      }
    }
  }
  const source = transforms.map(({ path }) => path).join(", ");
  const nListed = pictures.length + missing.length;
  if (missing.length > 0 && pictures.length === 0) {
    throw new UnusableFolder(
      `None of the ${nListed} pictures that ${source} lists is in the folder, such as ${missing[0]}.`,
      "Paths in the camera file are relative to the folder that it lies in. Choose that folder, with the pictures in it.",
    );
  }
  const note = missing.length > 0 ? `${missing.length} of ${nListed} listed pictures ${missing.length === 1 ? "is" : "are"} not in the folder and left out, such as ${missing[0]}.` : "";
  return captureOf(name, source, note, transforms, pictures, files, named);
}

function fromColmap(name: string, folder: string, files: Files): Capture {
  const has = (...names: string[]) => names.every((file) => files.has(folder + file));
  const ending = has("cameras.bin", "images.bin") || !has("cameras.txt", "images.txt") ? "bin" : "txt";
  for (const file of ["cameras", "images"]) {
    if (!has(`${file}.${ending}`)) throw new UnusableFolder(`${folder}${file}.${ending} is missing in the COLMAP model.`, "Choose a folder with the whole model.");
  }
  const model = ["cameras", "images", "points3D"].map((file) => files.get(`${folder}${file}.${ending}`)).filter((file) => file !== undefined);
  const pictures = [...files.values()].filter(({ path }) => path.startsWith("images/") && picture.test(path));
  if (pictures.length === 0) throw new UnusableFolder("A COLMAP model, but no pictures in images/.", "Choose the folder that holds both images/ and sparse/.");
  return captureOf(name, `COLMAP (${folder.slice(0, -1)})`, "", model, pictures, files);
}

function fromLlff(name: string, files: Files): Capture {
  const picturesIn = (folder: string) => [...files.values()].filter(({ path }) => path.startsWith(folder) && !path.slice(folder.length).includes("/") && picture.test(path));
  const pictures = llffFolders.map(picturesIn).find((found) => found.length > 0);
  if (!pictures) throw new UnusableFolder(`${llffFile}, but no pictures in images/.`, "Choose the folder that holds both.");
  return captureOf(name, llffFile, "", [files.get(llffFile)!], pictures, files);
}
