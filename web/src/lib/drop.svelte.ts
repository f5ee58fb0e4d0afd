// What the page of new jobs gets from elsewhere on the page, and what it leaves for the page of a pose job.
import type { PoseJob_Camera } from "../gen/nerf/v1/pose_job_service_pb";
import type { Capture, FolderFile } from "./folder";

class Dropped {
  // A folder or files that were dropped anywhere.
  folder = $state.raw<{ name: string; files: FolderFile[] } | null>(null);
  // The photographs of the last pose job of this tab, so that it can be tried again with more of them.
  sent = $state.raw<{ job: string; capture: Capture; into: string; camera: PoseJob_Camera } | null>(null);

  take() {
    const folder = this.folder;
    this.folder = null;
    return folder;
  }
}

export const dropped = new Dropped();
