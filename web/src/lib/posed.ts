// Which files of a folder with poses a scene is made of. The reader on the workers (engine/scene/read) decides what is wrong with
// them; what is left out here would be missing there.
import { llffFolders } from "../gen/folder_names";
import { baseOf, below, folderOf, stemOf, UnusableFolder, type Capture, type Files, type FolderFile } from "./capture";
import { largestModel } from "./colmap";
import { entriesIn, textOf } from "./lists";
import { isPhotograph, ListedNames, maskOf } from "./names";

interface Posed {
  source: string;
  lists: FolderFile[];
  names?: string[]; // of pictures, as they are listed
  folders?: string[]; // that these are in
  companions?: string[]; // masks and depth files, as they are listed
  pictures?: FolderFile[]; // that no list names
}

// Null where nothing in the folder has poses.
export async function posedCapture(name: string, files: Files): Promise<Capture | null> {
  const posed = (await fromTransforms(files)) ?? (await fromColmap(files)) ?? fromLlff(files) ?? fromPolycam(files) ?? (await fromCaptureApp(files));
  if (!posed) return null;
  const { source, lists, names = [], folders = [""], companions = [], pictures = [] } = posed;
  const listed = new ListedNames(files);
  const found = names.map((each) => listed.pictures(each, folders));
  const missing = names.filter((_, i) => found[i]!.length === 0);
  const all = new Set([...found.flat(), ...pictures]);
  if (missing.length > 0 && all.size === 0) {
    throw new UnusableFolder(
      `None of the ${names.length} pictures that ${source} lists is in the folder, such as ${missing[0]}.`,
      "Choose the folder that holds both the list and the pictures: the names in it are relative to that folder.",
    );
  }
  const besides = [...all].map(({ path }) => maskOf(path, files) ?? files.get(below(folderOf(path), `dynamic_mask_${stemOf(baseOf(path))}.png`)));
  const sent = [...all, ...besides, ...companions.flatMap((each) => listed.companions(each)), ...lists, files.get("placement.json")];
  const note = `${missing.length} of ${names.length} listed pictures ${missing.length === 1 ? "is" : "are"} not in the folder and left out, such as ${missing[0]}.`;
  return {
    name,
    files: [...new Set(sent.filter((file) => file !== undefined))],
    nPictures: all.size,
    nFilms: 0,
    hasPoses: true,
    source,
    note: missing.length > 0 ? note : "",
  };
}

const textsAt = (entries: Record<string, unknown>[], key: string) => entries.map((entry) => entry[key]).filter((text) => typeof text === "string");

async function fromTransforms(files: Files): Promise<Posed | null> {
  const [train, val, test, whole] = ["_train", "_val", "_test", ""].map((part) => files.get(`transforms${part}.json`));
  const lists = (train ? [train, test ?? val] : [whole]).filter((file) => file !== undefined);
  if (lists.length === 0 && (val ?? test)) {
    throw new UnusableFolder("transforms_train.json is missing: there is nothing to train on.", "Choose the folder that holds transforms_train.json, too.");
  }
  if (lists.length === 0) return null;
  const read = await Promise.all(lists.map(({ file }) => entriesIn(file, "frames")));
  const wrong = lists.find((_, i) => !read[i]);
  if (wrong) throw new UnusableFolder(`${wrong.path} is not a camera file: it is no JSON with a list "frames".`, "Export the camera file again.");
  const at = (...keys: string[]) => keys.flatMap((key) => read.flatMap((frames) => textsAt(frames!, key)));
  return { source: lists.map(({ path }) => path).join(", "), lists, names: at("file_path"), companions: at("mask_path", "depth_file_path", "depth_path") };
}

async function fromColmap(files: Files): Promise<Posed | null> {
  const model = await largestModel(files);
  if (!model) return null;
  const { folder, ending, names, pictureFolders } = model;
  const [cameras, images, points] = ["cameras", "images", "points3D"].map((part) => files.get(below(folder, `${part}.${ending}`)));
  if (!cameras || !images) {
    throw new UnusableFolder(`${below(folder, `${cameras ? "images" : "cameras"}.${ending}`)} is missing in the COLMAP model.`, "Choose a folder with the whole model.");
  }
  // A list that cannot be read here: the engine says what is wrong with it.
  const pictures = names.length > 0 ? [] : [...files.values()].filter(({ path }) => /(^|\/)(images|input)\//.test(path) && isPhotograph(path));
  if (names.length + pictures.length === 0) throw new UnusableFolder("A COLMAP model, but none of its pictures, as in images/.", "Choose the folder that holds both images/ and sparse/.");
  return { source: folder ? `COLMAP (${folder})` : "COLMAP", lists: points ? [cameras, images, points] : [cameras, images], names, folders: pictureFolders, pictures };
}

const picturesIn = (folder: string, files: Files) => [...files.values()].filter(({ path }) => folderOf(path) === folder && isPhotograph(path));

function fromLlff(files: Files): Posed | null {
  const source = "poses_bounds.npy";
  const list = files.get(source);
  if (!list) return null;
  const pictures = llffFolders.map((folder) => picturesIn(folder, files)).find((found) => found.length > 0);
  if (!pictures) throw new UnusableFolder(`${source}, but no pictures in images/.`, "Choose the folder that holds both.");
  return { source, lists: [list], pictures };
}

// Polycam's raw export: a file for each camera, named after its picture.
function fromPolycam(files: Files): Posed | null {
  const lists = [...files.values()].filter(({ path }) => /^keyframes\/(corrected_)?cameras\/[^/]*\.json$/.test(path));
  if (lists.length === 0) return null;
  const pictures = ["keyframes/corrected_images", "keyframes/images"].flatMap((folder) => picturesIn(folder, files));
  if (pictures.length === 0) throw new UnusableFolder("Polycam's cameras, but no pictures in keyframes/images/.", "Choose the folder of the whole raw export.");
  return { source: "keyframes (Polycam)", lists, pictures };
}

// 3D Scanner App's file for each picture, or the cameras that go with trained splats.
async function fromCaptureApp(files: Files): Promise<Posed | null> {
  const folders = ["", "images"];
  const frames = [...files.values()].filter(({ path }) => /^frame_[^/]*\.json$/.test(path)).sort((a, b) => (a.path < b.path ? -1 : 1));
  if (frames[0] && (await textOf(frames[0].file)).includes("cameraPoseARFrame")) {
    return { source: "frame_*.json (3D Scanner App)", lists: frames, names: frames.map(({ path }) => stemOf(path)), folders };
  }
  const cameras = files.get("cameras.json");
  const entries = cameras && !files.has("cfg_args") ? await entriesIn(cameras.file) : null;
  const names = textsAt((entries ?? []).filter(({ rotation }) => rotation), "img_name");
  return cameras && names.length > 0 ? { source: "cameras.json (Gaussian splatting)", lists: [cameras], names, folders } : null;
}
