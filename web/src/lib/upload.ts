// Sends the files of a capture: digests, then what the server lacks, each from where it was cut.
import { create } from "@bufbuild/protobuf";
import { BlobRefSchema } from "../gen/nerf/v1/common_pb";
import { SceneFileSchema, type Scene } from "../gen/nerf/v1/scene_service_pb";
import { base, blobs, isUnreachable, quick, scenes } from "./api";
import { connection } from "./connection.svelte";
import type { Capture, FolderFile } from "./folder";
import { displayNameOf } from "./format";
import { blobPrefix, parent } from "./project";
import { newUuid, sha256OfFile, uuidOf } from "./sha256";
import { bearer } from "./token.svelte";

export interface UploadProgress {
  stage: "hashing" | "sending" | "creating";
  done: number; // bytes
  total: number;
  filesDone: number;
  files: number;
}

// A browser has six connections; streams and calls need some.
const parallel = 3;
const partBytes = 4 << 20;
const blobsPerCall = 10_000;
const longestPauseMs = 5_000;

export async function sendCapture(capture: Capture, onProgress: (progress: UploadProgress) => void, signal: AbortSignal): Promise<Scene> {
  const total = capture.files.reduce((sum, { file }) => sum + file.size, 0);
  const progress: UploadProgress = { stage: "hashing", done: 0, total, filesDone: 0, files: capture.files.length };
  const advance = (bytes: number, files: number) => {
    progress.done += bytes;
    progress.filesDone += files;
    onProgress({ ...progress });
  };
  const byDigest = new Map<string, FolderFile>();
  const sceneFiles = [];
  for (const each of capture.files) {
    signal.throwIfAborted();
    const sha256 = await sha256OfFile(each.file);
    byDigest.set(sha256, each);
    sceneFiles.push(create(SceneFileSchema, { path: each.path, blob: create(BlobRefSchema, { sha256, sizeBytes: each.file.size }) }));
    advance(each.file.size, 1);
  }

  const present = [...byDigest].map(([sha256, { file }]) => create(BlobRefSchema, { sha256, sizeBytes: file.size }));
  const missing: string[] = [];
  for (let i = 0; i < present.length; i += blobsPerCall) {
    const reply = await blobs.findMissingBlobs({ parent, blobs: present.slice(i, i + blobsPerCall) }, { ...quick, signal });
    missing.push(...reply.missing.map(({ sha256 }) => sha256));
  }
  Object.assign(progress, { stage: "sending", done: 0, filesDone: 0, files: missing.length });
  progress.total = missing.reduce((sum, sha256) => sum + byDigest.get(sha256)!.file.size, 0);
  advance(0, 0);
  const left = [...missing];
  const sendNext = async () => {
    for (let sha256 = left.shift(); sha256 !== undefined; sha256 = left.shift()) {
      await sendBlob(sha256, byDigest.get(sha256)!.file, (bytes) => advance(bytes, 0), signal);
      advance(0, 1);
    }
  };
  await Promise.all(Array.from({ length: parallel }, sendNext));

  progress.stage = "creating";
  advance(0, 0);
  return scenes.createScene({ parent, scene: { displayName: displayNameOf(capture.name), files: sceneFiles }, requestId: newUuid() }, { ...quick, signal });
}

// tus 1.0 on the blob's upload name. The name's UUID is the blob's, so that another try, also of another tab, goes on.
async function sendBlob(sha256: string, file: File, onSent: (bytes: number) => void, signal: AbortSignal) {
  const url = `${base}${blobPrefix}/uploads/${uuidOf(sha256)}/blobs/${sha256}/${file.size}`;
  const headers = { ...bearer(), "Tus-Resumable": "1.0.0" };
  let offset = 0;
  let reported = 0;
  let isFresh = true; // nothing is known of an earlier try yet
  let pauseMs = 500;
  for (;;) {
    signal.throwIfAborted();
    try {
      if (isFresh) {
        offset = offsetOf(await fetch(url, { method: "HEAD", headers, signal }));
        isFresh = false;
      } else {
        const response = await fetch(url, {
          method: "PATCH",
          headers: { ...headers, "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" },
          body: file.slice(offset, offset + partBytes),
          signal,
        });
        offset = offsetOf(response);
        if (offset >= file.size) break;
      }
      connection.answered();
      pauseMs = 500;
      if (offset > reported) {
        onSent(offset - reported);
        reported = offset;
      }
    } catch (error) {
      if (signal.aborted || error instanceof Refused) throw error;
      if (isUnreachable(error)) connection.lost();
      isFresh = true;
      await connection.answerWithin(pauseMs);
      pauseMs = Math.min(2 * pauseMs, longestPauseMs);
    }
  }
  onSent(file.size - reported);
}

// The server will not take it, whatever is tried.
class Refused extends Error {}

function offsetOf(response: Response): number {
  const offset = response.headers.get("Upload-Offset");
  if (response.ok && offset !== null) return Number(offset);
  if ([409, 429].includes(response.status) || response.status >= 500) throw new Error("again");
  throw new Refused(`an upload was refused (HTTP ${response.status})`);
}
