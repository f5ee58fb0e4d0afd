// Follows a job without a gap: through hidden tabs, cut lines and restarts of nerfd, by resume token.
import { Code, ConnectError } from "@connectrpc/connect";
import { WatchTrainingJobResponse_Kind as Kind, type TrainingJob } from "../gen/nerf/v1/training_service_pb";
import { isUnreachable, training } from "./api";
import { connection } from "./connection.svelte";
import { untilVisible } from "./visible";

export interface Watcher {
  // The job after an event. `gap`: events before it are missing.
  onJob(job: TrainingJob, gap: boolean): void;
  // No further event comes: the job is final, gone, or cannot be watched.
  onEnd(error?: unknown): void;
}

const firstPauseMs = 250;
const longestPauseMs = 5_000;

export function watchJob(name: string, watcher: Watcher): () => void {
  const end = new AbortController();
  void run(name, watcher, end.signal);
  return () => end.abort();
}

async function run(name: string, watcher: Watcher, signal: AbortSignal) {
  let resumeToken = "";
  let pauseMs = firstPauseMs;
  while (!signal.aborted) {
    await untilVisible(signal);
    if (signal.aborted) return;
    const stream = new AbortController();
    const stop = () => stream.abort();
    const stopIfHidden = () => document.visibilityState === "hidden" && stream.abort();
    signal.addEventListener("abort", stop);
    document.addEventListener("visibilitychange", stopIfHidden);
    try {
      for await (const event of training.watchTrainingJob({ name, resumeToken }, { signal: stream.signal })) {
        if (signal.aborted) return;
        resumeToken = event.resumeToken;
        pauseMs = firstPauseMs;
        connection.answered();
        if (event.trainingJob && event.kind !== Kind.KIND_UNSPECIFIED) watcher.onJob(event.trainingJob, event.gap);
      }
      return watcher.onEnd();
    } catch (error) {
      if (signal.aborted) return;
      if (stream.signal.aborted) continue;
      if (error instanceof ConnectError && error.code === Code.DataLoss) {
        resumeToken = "";
      } else if (isUnreachable(error)) {
        connection.lost();
      } else if (!(error instanceof ConnectError) || ![Code.Unavailable, Code.Unknown, Code.Internal, Code.Aborted, Code.Canceled].includes(error.code)) {
        return watcher.onEnd(error);
      }
      await connection.answerWithin(pauseMs);
      pauseMs = Math.min(2 * pauseMs, longestPauseMs);
    } finally {
      signal.removeEventListener("abort", stop);
      document.removeEventListener("visibilitychange", stopIfHidden);
    }
  }
}
