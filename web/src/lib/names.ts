// Names of pictures and films, and which file of a folder is meant by a name that another tool wrote. The rules are those of the
// engine (engine/base/picture_names.cc, engine/scene/read/listed_names.cc).
import type { FolderFile } from "./folder";

export const photograph = /\.(jpe?g|png|hei[cf]|avif|webp)$/i;
export const film = /\.(mp4|mov|m4v|avi|mkv|webm|mts|3gp)$/i;
export const otherPicture = /\.(tiff?|bmp|gif|dng|cr2|cr3|nef|arw|orf|rw2|raf)$/i;

const companionFolder = /^(mask|depth|normal|semantic|segmentation|stereo|thumbnail|preview|alpha|confidence)/i;
const systemFolders = ["__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information"];

export type Files = Map<string, FolderFile>; // by path

export const baseOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
export const folderOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf("/")));
export const stemOf = (name: string) => name.replace(/\.[^.]*$/, "");

// Hidden files and what systems write beside those that people keep.
export const isOfTheSystem = (path: string) => path.split("/").some((part) => part.startsWith(".") || systemFolders.includes(part));

// Whether it lies in a folder of masks, depths and the like.
export const isCompanion = (path: string) => folderOf(path).split("/").some((part) => companionFolder.test(part));

// A path in the folder, without "." and ".."; null where it leaves the folder.
export function normalized(path: string): string | null {
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

// Finds files by names that are not there as they are written. It may find too many: the engine decides.
export class OtherNames {
  private readonly byName = new Map<string, FolderFile[]>(); // and by stem

  constructor(files: Iterable<FolderFile>) {
    for (const file of files) {
      const name = folded(baseOf(file.path));
      for (const key of new Set([name, stemOf(name), ...endsOf(name)])) {
        const known = this.byName.get(key);
        if (known) known.push(file);
        else this.byName.set(key, [file]);
      }
    }
  }

  // Of a picture; `path` as it is listed.
  pictures(path: string): FolderFile[] {
    const name = folded(baseOf(path.replaceAll("\\", "/")));
    const found = [name, ...endsOf(name)].map((key) => this.byName.get(key) ?? []).find((each) => each.length > 0) ?? [];
    return found.filter(({ path: file }) => photograph.test(file) && (!isCompanion(file) || isCompanion(path)));
  }

  // Of a mask or depth file: its folder has the listed folder's name.
  companions(path: string): FolderFile[] {
    const listed = path.replaceAll("\\", "/");
    const folder = folded(baseOf(folderOf(listed)));
    return (this.byName.get(folded(baseOf(listed))) ?? []).filter(({ path: file }) => folder === "" || folded(baseOf(folderOf(file))) === folder);
  }
}

// The mask of images/NAME.EXT: masks/NAME.EXT.png, masks/NAME.png, masks/NAME.EXT or masks/NAME.jpg; also beside input/ and, for images_4/, in masks_4/.
export function maskOf(path: string, files: Files): FolderFile | undefined {
  const parts = path.split("/");
  for (let i = 0; i + 1 < parts.length; ++i) {
    const reduction = /^(?:images|input)(|_.*)$/.exec(parts[i]!)?.[1];
    if (reduction === undefined) continue;
    for (const masks of [`masks${reduction}`, "masks"]) {
      const mask = [...parts.slice(0, i), masks, ...parts.slice(i + 1)].join("/");
      const stem = stemOf(mask);
      for (const name of [`${mask}.png`, `${stem}.png`, `${mask}.PNG`, `${stem}.PNG`, mask, `${stem}.jpg`]) {
        const found = files.get(name);
        if (found) return found;
      }
    }
  }
  return undefined;
}
