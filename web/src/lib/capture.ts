// What was dropped or chosen, and what of it is sent.
export interface FolderFile {
  path: string; // below the folder
  file: File;
  mask?: File | undefined; // of a photograph without poses
}

export type Files = Map<string, FolderFile>; // by path

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

export const baseOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
export const folderOf = (path: string) => path.slice(0, Math.max(0, path.lastIndexOf("/")));
export const stemOf = (name: string) => name.replace(/\.[^.]*$/, "");
export const below = (folder: string, name: string) => (folder && name ? `${folder}/${name}` : folder || name);
