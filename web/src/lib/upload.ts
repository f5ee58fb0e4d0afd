// Sends files: digests, then what the server lacks, each from where it was cut. They become a scene or a pose job.
import { create } from "@bufbuild/protobuf";
import { BlobRefSchema } from "../gen/nerf/v1/common_pb";
import type { Job } from "../gen/nerf/v1/job_service_pb";
import { SceneFileSchema, type Scene, type SceneFile } from "../gen/nerf/v1/scene_service_pb";
import { base, blobs, isUnreachable, jobs, quick, reasonOf, scenes } from "./api";
import { connection } from "./connection.svelte";
import type { Capture, FolderFile } from "./capture";
import { displayNameOf } from "./format";
import type { Known } from "./photographs";
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

export interface UploadWatcher {
  onProgress(progress: UploadProgress): void;
  // Which share of a file is on the server, from 0 to 1.
  onFile?(path: string, share: number): void;
}

// A browser has six connections; streams and calls need some.
const parallel = 3;
const partBytes = 1 << 20; // of what a cut line costs, and between two moves of a bar
const blobsPerCall = 10_000;
const firstPauseMs = 500;
const longestPauseMs = 5_000;

export async function sendCapture(capture: Capture, watcher: UploadWatcher, signal: AbortSignal): Promise<Scene> {
  const request = { parent, requestId: newUuid() };
  return sendAll(capture.files, watcher, signal, (files) =>
    scenes.createScene({ ...request, scene: { displayName: displayNameOf(capture.name), files } }, { ...quick, signal }),
  );
}

export async function sendPhotographs(
  capture: Capture,
  displayName: string,
  known: Known,
  watcher: UploadWatcher,
  signal: AbortSignal,
): Promise<Job> {
  const request = { parent, requestId: newUuid() };
  const files = capture.files.flatMap(({ path, file, mask }) => [{ path, file }, ...(mask ? [{ path: `masks/${path}.png`, file: mask }] : [])]);
  return sendAll(files, watcher, signal, (files) => jobs.createJob({ ...request, job: { displayName, spec: { case: "pose", value: { files, ...known } } } }, { ...quick, signal }));
}

// Calls until somebody answers.
export async function persist<Reply>(call: () => Promise<Reply>, signal: AbortSignal): Promise<Reply> {
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(2 * pauseMs, longestPauseMs)) {
    try {
      return await call();
    } catch (error) {
      if (signal.aborted || !isUnreachable(error)) throw error;
      await connection.answerWithin(pauseMs);
    }
  }
}

// Sends the files and creates what they are for. Blobs that the server has lost in between are sent once more.
async function sendAll<Reply>(all: FolderFile[], watcher: UploadWatcher, signal: AbortSignal, finish: (files: SceneFile[]) => Promise<Reply>): Promise<Reply> {
  const files = await digests(all, watcher, signal);
  for (let isAgain = false; ; isAgain = true) {
    await sendMissing(all, files, watcher, signal);
    try {
      return await persist(() => finish(files), signal);
    } catch (error) {
      if (isAgain || reasonOf(error) !== "BLOBS_MISSING") throw error;
    }
  }
}

// Counts bytes and files, and tells of them.
class Counter {
  private readonly progress: UploadProgress;

  constructor(
    stage: UploadProgress["stage"],
    total: number,
    files: number,
    private readonly watcher: UploadWatcher,
  ) {
    this.progress = { stage, done: 0, total, filesDone: 0, files };
    this.advance(0, 0);
  }

  advance(bytes: number, files: number) {
    this.progress.done += bytes;
    this.progress.filesDone += files;
    this.watcher.onProgress({ ...this.progress });
  }
}

const sizeOf = (files: FolderFile[]) => files.reduce((sum, { file }) => sum + file.size, 0);

async function digests(files: FolderFile[], watcher: UploadWatcher, signal: AbortSignal): Promise<SceneFile[]> {
  const counter = new Counter("hashing", sizeOf(files), files.length, watcher);
  const hashed = [];
  for (const { path, file } of files) {
    const sha256 = await readable(path, () => sha256OfFile(file, (bytes) => (signal.throwIfAborted(), counter.advance(bytes, 0))));
    hashed.push(create(SceneFileSchema, { path, blob: create(BlobRefSchema, { sha256, sizeBytes: file.size }) }));
    counter.advance(0, 1);
  }
  return hashed;
}

async function sendMissing(files: FolderFile[], hashed: SceneFile[], watcher: UploadWatcher, signal: AbortSignal) {
  // Files with the same content share a blob.
  const byDigest = new Map<string, FolderFile[]>();
  for (const [i, { blob }] of hashed.entries()) byDigest.set(blob!.sha256, [...(byDigest.get(blob!.sha256) ?? []), files[i]!]);
  const all = [...byDigest].map(([sha256, [first]]) => create(BlobRefSchema, { sha256, sizeBytes: first!.file.size }));
  const missing = new Set<string>();
  for (let i = 0; i < all.length; i += blobsPerCall) {
    const reply = await persist(() => blobs.findMissingBlobs({ parent, blobs: all.slice(i, i + blobsPerCall) }, { ...quick, signal }), signal);
    for (const { sha256 } of reply.missing) missing.add(sha256);
  }
  const tell = (sha256: string, share: number) => byDigest.get(sha256)!.forEach(({ path }) => watcher.onFile?.(path, share));
  for (const sha256 of byDigest.keys()) tell(sha256, missing.has(sha256) ? 0 : 1);
  const left = [...missing];
  const counter = new Counter("sending", sizeOf(left.map((sha256) => byDigest.get(sha256)![0]!)), left.length, watcher);
  const sendNext = async () => {
    for (let sha256 = left.shift(); sha256 !== undefined; sha256 = left.shift()) {
      const { path, file } = byDigest.get(sha256)![0]!;
      let sent = 0;
      await readable(path, () =>
        sendBlob(sha256, file, (bytes) => {
          sent += bytes;
          counter.advance(bytes, 0);
          tell(sha256, file.size > 0 ? sent / file.size : 1);
        }, signal),
      );
      tell(sha256, 1);
      counter.advance(0, 1);
    }
  };
  await Promise.all(Array.from({ length: parallel }, sendNext));
  new Counter("creating", 1, 0, watcher);
}

// A file that was changed or taken away since it was chosen.
async function readable<Result>(path: string, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof DOMException) || error.name === "AbortError") throw error;
    throw new Error(`${path} can no longer be read: choose it again`);
  }
}

// tus 1.0 on the blob's upload name. The name's UUID is the blob's, so that another try, also of another tab, goes on.
async function sendBlob(sha256: string, file: File, onSent: (bytes: number) => void, signal: AbortSignal) {
  const url = `${base}${blobPrefix}/uploads/${uuidOf(sha256)}/blobs/${sha256}/${file.size}`;
  const headers = { ...bearer(), "Tus-Resumable": "1.0.0" };
  let offset = 0;
  let reported = 0;
  let isFresh = true; // nothing is known of an earlier try yet
  let pauseMs = firstPauseMs;
  for (;;) {
    signal.throwIfAborted();
    try {
      if (isFresh) {
        offset = offsetOf(await fetch(url, { method: "HEAD", headers, signal }));
        isFresh = false;
      } else {
        // Read here: a file that cannot be read would look like a server that does not answer.
        const body = await file.slice(offset, offset + partBytes).arrayBuffer();
        const response = await fetch(url, {
          method: "PATCH",
          headers: { ...headers, "Upload-Offset": String(offset), "Content-Type": "application/offset+octet-stream" },
          body,
          signal,
        });
        offset = offsetOf(response);
        if (offset >= file.size) break;
      }
      connection.answered();
      pauseMs = firstPauseMs;
      if (offset > reported) {
        onSent(offset - reported);
        reported = offset;
      }
    } catch (error) {
      if (signal.aborted || error instanceof Refused || error instanceof DOMException) throw error;
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
