// What the page of new jobs gets from elsewhere on the page, and what it leaves for the page of a pose job.
import type { Capture, FolderFile } from "./capture";
import type { Known } from "./photographs";

class Dropped {
  // A folder or files that were dropped anywhere.
  folder = $state.raw<{ name: string; files: FolderFile[] } | null>(null);
  // The photographs of the last pose job of this tab, so that it can be tried again with more of them.
  sent = $state.raw<{ job: string; capture: Capture; known: Known } | null>(null);

  take() {
    const folder = this.folder;
    this.folder = null;
    return folder;
  }
}

export const dropped = new Dropped();
