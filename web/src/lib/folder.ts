// A folder that was dropped or chosen, and which of its files a scene needs.
export interface FolderFile {
  path: string; // below the folder
  file: File;
}

export interface Capture {
  name: string; // of the folder
  files: FolderFile[]; // those to send
  nPictures: number;
  source: string; // "transforms.json" and its like, or "COLMAP"
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
const colmapFolders = ["sparse/0/", "sparse/", "colmap/sparse/0/"];

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

// Picks what a scene of this folder is made of.
export async function readCapture(name: string, all: FolderFile[]): Promise<Capture> {
  const files = all.filter(({ path }) => !path.split("/").some((part) => part.startsWith(".")));
  if (files.length === 0) throw new UnusableFolder("The folder is empty.", "Choose the folder that holds the pictures and their camera file.");
  const byPath = new Map(files.map((file) => [file.path, file]));
  const split = ["train", "val", "test"].map((part) => byPath.get(`transforms_${part}.json`)).filter((file) => file !== undefined);
  const whole = byPath.get("transforms.json");
  const transforms = split.length > 0 ? split : whole ? [whole] : [];
  if (transforms.length > 0) return fromTransforms(name, transforms, byPath);
  const colmap = colmapFolders.find((folder) => byPath.has(`${folder}cameras.bin`) || byPath.has(`${folder}cameras.txt`));
  if (colmap !== undefined) return fromColmap(name, colmap, files);
  const nPictures = files.filter(({ path }) => picture.test(path)).length;
  if (nPictures > 0) {
    throw new UnusableFolder(
      `${nPictures === 1 ? "A picture" : `${nPictures} pictures`}, but nothing says where ${nPictures === 1 ? "it" : "each"} was taken.`,
      "Training needs a camera for every picture. nerfctl train FOLDER finds them with COLMAP (docs/photographs.md) and trains; or export transforms.json from the tool that made the pictures and drop the folder again.",
    );
  }
  throw new UnusableFolder("No pictures and no camera file were found.", "A scene is a folder with pictures (PNG or JPEG) and transforms.json, or a COLMAP model in sparse/0.");
}

async function fromTransforms(name: string, transforms: FolderFile[], byPath: Map<string, FolderFile>): Promise<Capture> {
  const wanted = new Map<string, FolderFile>();
  const missing: string[] = [];
  for (const file of transforms) {
    let frames: { file_path?: unknown }[];
    try {
      frames = (JSON.parse(await file.file.text()) as { frames: { file_path?: unknown }[] }).frames;
      if (!Array.isArray(frames)) throw new Error("no frames");
    } catch {
      throw new UnusableFolder(`${file.path} is not a camera file: it is no JSON with a list "frames".`, "Export the camera file again.");
    }
    for (const frame of frames) {
      if (typeof frame.file_path !== "string") continue;
      const path = frame.file_path.replace(/^(\.\/)+/, "");
      const found = [path, `${path}.png`, `${path}.jpg`, `${path}.jpeg`].map((each) => byPath.get(each)).find((each) => each !== undefined);
      if (found) wanted.set(found.path, found);
      else missing.push(path);
    }
  }
  if (missing.length > 0) {
    throw new UnusableFolder(
      `${missing.length} of the pictures that ${transforms.map(({ path }) => path).join(", ")} lists are not in the folder, such as ${missing[0]}.`,
      "Paths in the camera file are relative to the folder that it lies in. Choose that folder, with the pictures in it.",
    );
  }
  const nPictures = wanted.size;
  for (const file of transforms) wanted.set(file.path, file);
  return { name, files: [...wanted.values()], nPictures, source: transforms.map(({ path }) => path).join(", ") };
}

function fromColmap(name: string, folder: string, files: FolderFile[]): Capture {
  const model = files.filter(({ path }) => path.startsWith(folder) && /\/(cameras|images)\.(bin|txt)$/.test(`/${path}`));
  const inImages = files.filter(({ path }) => path.startsWith("images/") && picture.test(path));
  const pictures = inImages.length > 0 ? inImages : files.filter(({ path }) => picture.test(path));
  if (pictures.length === 0) throw new UnusableFolder("A COLMAP model, but no pictures.", "Choose the folder that holds both images/ and sparse/.");
  return { name, files: [...model, ...pictures], nPictures: pictures.length, source: `COLMAP (${folder.slice(0, -1)})` };
}
