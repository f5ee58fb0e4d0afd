// A folder or files that were dropped or chosen.
import { baseOf, stemOf, UnusableFolder, type Capture, type Files, type FolderFile } from "./capture";
import { isFilm, isOfTheSystem, isPhotograph } from "./names";
import { photographsOf } from "./photographs";
import { posedCapture } from "./posed";

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
  const first = files.find(({ path }) => isPhotograph(path) || isFilm(path));
  return (first && stemOf(baseOf(first.path))) || looseName;
}

// What <input type="file"> holds, of a folder (webkitdirectory) or of files.
export function chosenFiles(list: FileList): { name: string; files: FolderFile[] } {
  const files = Array.from(list, (file) => ({ path: file.webkitRelativePath || file.name, file }));
  const name = files[0]?.path.includes("/") ? files[0].path.split("/")[0]! : nameOfLoose(files);
  const isBelow = files.every(({ path }) => path.startsWith(`${name}/`));
  return { name, files: isBelow ? files.map(({ path, file }) => ({ path: path.slice(name.length + 1), file })) : files };
}

// Picks what a scene of this folder is made of, or what a pose job gets. Errors: UnusableFolder.
export async function readCapture(name: string, all: FolderFile[]): Promise<Capture> {
  const files: Files = new Map(all.filter(({ path }) => !isOfTheSystem(path)).map((file) => [file.path, file]));
  if (files.size === 0) throw new UnusableFolder("The folder is empty.", "Choose photographs, or the folder that holds them.");
  return (await posedCapture(name, files)) ?? photographsOf(name, files);
}
