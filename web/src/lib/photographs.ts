// Photographs and films without poses: which of what was dropped or chosen goes to a pose job, and under which names.
import type { PoseSpec } from "../gen/nerf/v1/pose_job_pb";
import { UnusableFolder, type Capture, type FolderFile } from "./folder";
import { baseOf, film, folderOf, isCompanion, maskOf, otherPicture, photograph, stemOf, type Files } from "./names";

const fewest = 3; // that COLMAP makes a scene of
export const most = 5000; // files of a pose job
const headBytes = 16;
const longestStem = 100;

// Whether a file begins as a picture or film that the engine reads does. Its name says nothing: some tools write HEIC as .jpg.
export function isPictureOrFilm(head: Uint8Array): boolean {
  const text = (from: number, to: number) => String.fromCharCode(...head.subarray(from, to));
  if (head[0] === 0xff && head[1] === 0xd8) return true; // JPEG
  if (text(1, 4) === "PNG" || text(0, 4) === "RIFF") return true; // WebP, AVI
  if (["ftyp", "moov", "mdat", "wide", "free", "skip"].includes(text(4, 8))) return true; // HEIC, AVIF, MP4, MOV
  if (head[0] === 0x1a && head[1] === 0x45 && head[2] === 0xdf) return true; // MKV, WebM
  return head[0] === 0x47 || head[4] === 0x47; // MTS
}

// Of a folder with pictures those beside each other; else those in images/ or input/; else all that are no masks or the like.
function candidates(files: Files): FolderFile[] {
  const all = [...files.values()];
  for (const folder of ["", "images", "input"]) {
    const there = all.filter(({ path }) => folderOf(path) === folder);
    if (there.some(({ path }) => photograph.test(path))) return there;
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

const number = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`;

// What a person knows of photographs: a scene to add them to (empty: none), what they were taken with, and from how many degrees
// under the horizon on panoramas show what is no part of the scene (0: nowhere).
export type Known = Pick<PoseSpec, "into" | "camera" | "maskBelowDegrees">;

// What a pose job of this folder, or of these files, gets. Errors: UnusableFolder, which says what is the matter.
export async function photographsOf(name: string, files: Files): Promise<Capture> {
  const found = candidates(files);
  const named = found.filter(({ path }) => photograph.test(path) || film.test(path));
  const unread = found.filter(({ path }) => otherPicture.test(path)).map(({ path }) => baseOf(path));
  const good: FolderFile[] = [];
  const bad: string[] = [];
  for (const each of named) {
    const head = new Uint8Array(await each.file.slice(0, headBytes).arrayBuffer());
    if (isPictureOrFilm(head)) good.push(each);
    else bad.push(baseOf(each.path));
  }
  const notes = [
    bad.length > 0 ? `${some(bad)} ${bad.length === 1 ? "is no photograph" : "are no photographs"}: the content is something else, or damaged.` : "",
    unread.length > 0 ? `${some(unread)} ${unread.length === 1 ? "is" : "are"} of a kind that is not read: save as JPEG.` : "",
  ].filter(Boolean);
  const nFilms = good.filter(({ path }) => film.test(path)).length;
  const nPictures = good.length - nFilms;
  const others = found.filter(({ path }) => ![photograph, film, otherPicture].some((kind) => kind.test(path))).map(({ path }) => baseOf(path));
  if (good.length === 0 && notes.length === 0) {
    throw new UnusableFolder("No photographs and no film are in it.", "Choose photographs (JPEG, PNG, HEIC, AVIF, WebP) or a film, or a folder of them; a scene that has poses is a folder with its camera file.");
  }
  if (good.length === 0) throw new UnusableFolder("None of these can be used.", notes.join(" "));
  if (good.length > most) throw new UnusableFolder(`${good.length} photographs: at most ${most} can be used together.`, "Choose fewer; some hundreds show a room well.");
  if (others.length > 0) notes.push(`${some(others)} ${others.length === 1 ? "is" : "are"} neither photograph nor film.`);
  const names = flatNames(good.map(({ path }) => path));
  return {
    name,
    files: good.map(({ path, file }, i) => ({ path: names[i]!, file, mask: (maskOf(path, files) ?? maskOf(`images/${path}`, files))?.file })),
    nPictures,
    nFilms,
    hasPoses: false,
    source: "",
    note: notes.length > 0 ? `Left out: ${notes.join(" ")}` : "",
  };
}

// What is wrong where photographs are too few for a scene of their own; null: nothing. To a scene that is there one may be added.
export function shortageOf({ hasPoses, nFilms, nPictures }: Capture): { message: string; advice: string } | null {
  if (hasPoses || nFilms > 0 || nPictures >= fewest) return null;
  return {
    message: `${number(nPictures, "photograph")}: at least ${fewest} are needed.`,
    advice: "One place has to be seen from several sides. Some dozens, with each part on three or more, are a good start.",
  };
}

// Both together, each file once.
export function joinedPhotographs(first: Capture, second: Capture): Capture {
  const key = ({ file }: FolderFile) => `${file.name}\n${file.size}\n${file.lastModified}`;
  const files = [...new Map([...first.files, ...second.files].map((each) => [key(each), each])).values()];
  const names = flatNames(files.map(({ path }) => path));
  const nFilms = files.filter(({ path }) => film.test(path)).length;
  return { ...first, files: files.map((each, i) => ({ ...each, path: names[i]! })), nPictures: files.length - nFilms, nFilms, note: [first.note, second.note].filter(Boolean).join(" ") };
}
