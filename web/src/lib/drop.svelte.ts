// The folder that was dropped anywhere on the page and waits for the page of new jobs.
import type { FolderFile } from "./folder";

class Dropped {
  folder = $state.raw<{ name: string; files: FolderFile[] } | null>(null);
  take() {
    const folder = this.folder;
    this.folder = null;
    return folder;
  }
}

export const dropped = new Dropped();
