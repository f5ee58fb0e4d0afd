// Kinds of files by their names, and which file of a folder is meant by a name that another tool wrote. The engine decides
// (engine/scene/read/listed_names.cc): what is found here may be too much, never too little.
import { companionFolders, filmEndings, impliedEndings, otherPictureEndings, photographEndings } from "../gen/folder_names";
import { baseOf, below, folderOf, stemOf, type Files, type FolderFile } from "./capture";

const endsWithOne = (endings: string[]) => (path: string) => endings.includes(/\.[^./]*$/.exec(path.toLowerCase())?.[0] ?? "");
export const isPhotograph = endsWithOne(photographEndings);
export const isFilm = endsWithOne(filmEndings);
export const isOtherPicture = endsWithOne(otherPictureEndings);

// Hidden files and what systems write beside those that people keep.
export const isOfTheSystem = (path: string) => /(^|\/)(\.|(__MACOSX|@eaDir|\$RECYCLE\.BIN|System Volume Information)(\/|$))/.test(path);

// Whether it lies in a folder of masks, depths and the like.
export const isCompanion = (path: string) =>
  folderOf(path).toLowerCase().split("/").some((part) => companionFolders.some((word) => part.startsWith(word)));

// A path in the folder, without "." and ".."; null where it leaves the folder.
function normalized(path: string): string | null {
  const parts: string[] = [];
  for (const part of path.replaceAll("\\", "/").split("/")) {
    if (part === ".." && parts.pop() === undefined) return null;
    if (part !== ".." && part !== "." && part !== "") parts.push(part);
  }
  return parts.join("/");
}

// Names that differ only in case, Unicode's normal form or .jpeg for .jpg are one.
const folded = (name: string) => name.normalize("NFC").toLowerCase().replace(/\.jpeg$/, ".jpg");

// The ends of a name behind each separator that tools put in place of a folder.
function endsOf(name: string): string[] {
  return [...name.matchAll(/[_\- ]+/g)].map(({ index, 0: separator }) => name.slice(index + separator.length)).filter((end) => end !== "");
}

// Finds the files that lists name.
export class ListedNames {
  private readonly byName = new Map<string, FolderFile[]>(); // and by stem

  constructor(private readonly files: Files) {
    for (const file of files.values()) {
      const name = folded(baseOf(file.path));
      for (const key of new Set([name, stemOf(name), ...endsOf(name)])) {
        const known = this.byName.get(key);
        if (known) known.push(file);
        else this.byName.set(key, [file]);
      }
    }
  }

  // A picture as it is listed, in one or more of these folders, else under other names.
  pictures(path: string, folders: string[]): FolderFile[] {
    const exact = folders.flatMap((folder) => this.exact(below(folder, path)));
    if (exact.length > 0) return exact;
    const name = folded(baseOf(path.replaceAll("\\", "/")));
    const found = [name, ...endsOf(name)].map((key) => this.byName.get(key) ?? []).find((each) => each.length > 0) ?? [];
    return found.filter(({ path: file }) => isPhotograph(file) && (!isCompanion(file) || isCompanion(path)));
  }

  // Of a mask or depth file: its folder has the listed folder's name.
  companions(path: string): FolderFile[] {
    const exact = this.exact(path);
    if (exact.length > 0) return exact;
    const listed = path.replaceAll("\\", "/");
    const folder = folded(baseOf(folderOf(listed)));
    return (this.byName.get(folded(baseOf(listed))) ?? []).filter(({ path: file }) => folder === "" || folded(baseOf(folderOf(file))) === folder);
  }

  private exact(path: string): FolderFile[] {
    const name = normalized(path);
    const found = name && ["", ...impliedEndings].map((ending) => this.files.get(name + ending)).find((file) => file !== undefined);
    return found ? [found] : [];
  }
}

// The mask of images/NAME.EXT: masks/NAME.EXT.png, masks/NAME.png, masks/NAME.EXT or masks/NAME.jpg; also beside input/ and, for images_4/, in masks_4/.
export function maskOf(path: string, files: Files): FolderFile | undefined {
  for (const { index, 0: images, 1: reduction } of path.matchAll(/(?<=^|\/)(?:images|input)(|_[^/]*)(?=\/)/g)) {
    for (const masks of [`masks${reduction}`, "masks"]) {
      const mask = path.slice(0, index) + masks + path.slice(index + images.length);
      const stem = stemOf(mask);
      const found = [`${mask}.png`, `${stem}.png`, `${mask}.PNG`, `${stem}.PNG`, mask, `${stem}.jpg`].find((name) => files.has(name));
      if (found) return files.get(found);
    }
  }
  return undefined;
}
