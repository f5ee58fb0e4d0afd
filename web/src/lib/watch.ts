// Follows a job, or the list of jobs, without a gap: through hidden tabs, cut lines and restarts of nerfd, by resume token.
import { Code, ConnectError } from "@connectrpc/connect";
import { WatchJobResponse_Kind as Kind, type Job } from "../gen/nerf/v1/job_service_pb";
import { isUnreachable, jobs, noteDenied } from "./api";
import { connection } from "./connection.svelte";
import { parent } from "./project";
import { firstPauseMs, longestPauseMs, readStream } from "./stream";
import { untilVisible } from "./visible";

export interface Watcher {
  // The job after an event. `gap`: events before it are missing.
  onJob(job: Job, gap: boolean): void;
  // No further event comes: the job is final, gone, or cannot be watched.
  onEnd(error?: unknown): void;
}

export function watchJob(name: string, watcher: Watcher): () => void {
  return follow(
    (resumeToken, signal) => jobs.watchJob({ name, resumeToken }, { signal }),
    (event) => {
      if (event.job && event.kind !== Kind.KIND_UNSPECIFIED) watcher.onJob(event.job, event.gap);
    },
    (error) => watcher.onEnd(error),
  );
}

export interface ListWatcher {
  // The rows that nerfd has now, by name. The map is kept and changed by later events.
  onRows(rows: Map<string, Job>): void;
  // The list cannot be watched.
  onEnd(error: unknown): void;
}

// The newest `maxJobs` jobs of all kinds, and those that are created later.
export function watchJobs(maxJobs: number, watcher: ListWatcher): () => void {
  let rows = new Map<string, Job>();
  return follow(
    (resumeToken, signal) => jobs.watchJobs({ parent, maxJobs, resumeToken }, { signal }),
    ({ reset, jobs, removed, isCurrent }) => {
      if (reset) rows = new Map();
      for (const name of removed) rows.delete(name);
      for (const job of jobs) rows.set(job.name, job);
      // What was shown stays until all of a new list is there.
      if (isCurrent) watcher.onRows(rows);
    },
    (error) => watcher.onEnd(error),
  );
}

// Reads a stream to its end. While it is cut, opens it again after its last token.
function follow<Event extends { resumeToken: string }>(
  open: (resumeToken: string, signal: AbortSignal) => AsyncIterable<Event>,
  onEvent: (event: Event) => void,
  onEnd: (error?: unknown) => void,
): () => void {
  const end = new AbortController();
  void run(open, onEvent, onEnd, end.signal);
  return () => end.abort();
}

async function run<Event extends { resumeToken: string }>(
  open: (resumeToken: string, signal: AbortSignal) => AsyncIterable<Event>,
  onEvent: (event: Event) => void,
  onEnd: (error?: unknown) => void,
  signal: AbortSignal,
) {
  let resumeToken = "";
  let pauseMs = firstPauseMs;
  while (!signal.aborted) {
    await untilVisible(signal);
    if (signal.aborted) return;
    try {
      const isOver = await readStream(signal, (streamSignal) => open(resumeToken, streamSignal), (event) => {
        resumeToken = event.resumeToken;
        pauseMs = firstPauseMs;
        onEvent(event);
      });
      if (isOver) return onEnd();
    } catch (error) {
      noteDenied(error);
      if (error instanceof ConnectError && error.code === Code.DataLoss) {
        resumeToken = "";
      } else if (isUnreachable(error)) {
        connection.lost();
      } else if (!(error instanceof ConnectError) || ![Code.Unavailable, Code.Unknown, Code.Internal, Code.Aborted, Code.Canceled].includes(error.code)) {
        return onEnd(error);
      }
      await connection.answerWithin(pauseMs);
      pauseMs = Math.min(2 * pauseMs, longestPauseMs);
    }
  }
}
