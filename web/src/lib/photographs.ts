// Photographs and films without poses: which of what was dropped or chosen goes to a pose job, and under which names.
import type { PoseSpec } from "../gen/nerf/v1/pose_job_pb";
import { baseOf, folderOf, stemOf, UnusableFolder, type Capture, type Files, type FolderFile } from "./capture";
import { isCompanion, isFilm, isOtherPicture, isPhotograph, maskOf } from "./names";

const fewest = 3; // that COLMAP makes a scene of
export const most = 5000; // files of a pose job
const headBytes = 16;
const longestStem = 100;

// JPEG; PNG; WebP, AVI; HEIC, AVIF, MP4, MOV; MKV, WebM; MTS.
const heads = /^(\xff\xd8|.PNG|RIFF|.{4}(ftyp|moov|mdat|wide|free|skip)|\x1aE\xdf|(.{4})?G)/s;
// Whether a file begins as a picture or film that the engine reads does. Its name says nothing: some tools write HEIC as .jpg.
export const isPictureOrFilm = (head: Uint8Array) => heads.test(String.fromCharCode(...head));

// Of a folder with pictures those beside each other; else those in images/ or input/; else all that are no masks or the like.
function candidates(files: Files): FolderFile[] {
  const all = [...files.values()];
  for (const folder of ["", "images", "input"]) {
    const there = all.filter(({ path }) => folderOf(path) === folder);
    if (there.some(({ path }) => isPhotograph(path))) return there;
  }
  return all.filter(({ path }) => !isCompanion(path));
}

// A pose job has names without folders, each once.
export function flatNames(paths: string[]): string[] {
  const taken = new Set<string>();
  return paths.map((path) => {
    const clean = (text: string) => text.replace(/[\p{Cc}\p{Cs}\\/]/gu, "_");
    const base = clean(baseOf(path));
    const stem = [...stemOf(base)].slice(-longestStem).join("").replace(/^\./, "_") || "_";
    const ending = base.slice(base.lastIndexOf("."));
    const folder = [...clean(folderOf(path))].slice(-longestStem / 2).join("").replace(/^\./, "_");
    let name = stem + ending;
    if (taken.has(name.toLowerCase()) && folder) name = `${folder}_${name}`;
    for (let i = 2; taken.has(name.toLowerCase()); ++i) name = `${stem}-${i}${ending}`;
    taken.add(name.toLowerCase());
    return name;
  });
}

// "a.jpg", "a.jpg and b.jpg", "a.jpg, b.jpg and 3 more".
export function some(names: string[]): string {
  if (names.length <= 2) return names.join(" and ");
  return `${names.slice(0, 2).join(", ")} and ${names.length - 2} more`;
}

// What a person knows of photographs: a scene to add them to (empty: none), what they were taken with, and from how many degrees
// under the horizon on panoramas show what is no part of the scene (0: nowhere).
export type Known = Pick<PoseSpec, "into" | "camera" | "maskBelowDegrees">;

function unposed(name: string, files: FolderFile[], note: string): Capture {
  const names = flatNames(files.map(({ path }) => path));
  const nFilms = files.filter(({ path }) => isFilm(path)).length;
  return { name, files: files.map((each, i) => ({ ...each, path: names[i]! })), nPictures: files.length - nFilms, nFilms, hasPoses: false, source: "", note };
}

// What a pose job of this folder, or of these files, gets. Errors: UnusableFolder, which says what is the matter.
export async function photographsOf(name: string, files: Files): Promise<Capture> {
  const good: FolderFile[] = [];
  const left: Record<"bad" | "unread" | "others", string[]> = { bad: [], unread: [], others: [] };
  for (const { path, file } of candidates(files)) {
    if (!isPhotograph(path) && !isFilm(path)) left[isOtherPicture(path) ? "unread" : "others"].push(baseOf(path));
    else if (!isPictureOrFilm(new Uint8Array(await file.slice(0, headBytes).arrayBuffer()))) left.bad.push(baseOf(path));
    else good.push({ path, file, mask: (maskOf(path, files) ?? maskOf(`images/${path}`, files))?.file });
  }
  const told = (names: string[], is: string, are: string, why: string) => (names.length > 0 ? [`${some(names)} ${names.length === 1 ? is : are}${why}.`] : []);
  const notes = [
    ...told(left.bad, "is no photograph", "are no photographs", ": the content is something else, or damaged"),
    ...told(left.unread, "is", "are", " of a kind that is not read: save as JPEG"),
  ];
  if (good.length === 0 && notes.length === 0) {
    throw new UnusableFolder("No photographs and no film are in it.", "Choose photographs (JPEG, PNG, HEIC, AVIF, WebP) or a film, or a folder of them; a scene that has poses is a folder with its camera file.");
  }
  if (good.length === 0) throw new UnusableFolder("None of these can be used.", notes.join(" "));
  if (good.length > most) throw new UnusableFolder(`${good.length} photographs: at most ${most} can be used together.`, "Choose fewer; some hundreds show a room well.");
  notes.push(...told(left.others, "is", "are", " neither photograph nor film"));
  return unposed(name, good, notes.length > 0 ? `Left out: ${notes.join(" ")}` : "");
}

// What is wrong where photographs are too few for a scene of their own; null: nothing. To a scene that is there one may be added.
export function shortageOf({ hasPoses, nFilms, nPictures }: Capture): { message: string; advice: string } | null {
  if (hasPoses || nFilms > 0 || nPictures >= fewest) return null;
  return {
    message: `${nPictures} photograph${nPictures === 1 ? "" : "s"}: at least ${fewest} are needed.`,
    advice: "One place has to be seen from several sides. Some dozens, with each part on three or more, are a good start.",
  };
}

// Both together, each file once.
export function joinedPhotographs(first: Capture, second: Capture): Capture {
  const key = ({ file }: FolderFile) => `${file.name}\n${file.size}\n${file.lastModified}`;
  const files = [...new Map([...first.files, ...second.files].map((each) => [key(each), each])).values()];
  return unposed(first.name, files, [first.note, second.note].filter(Boolean).join(" "));
}
