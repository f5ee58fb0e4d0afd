import { connection } from "./connection.svelte";

// The pause before a stream is opened again. It doubles with each try that brought nothing.
export const firstPauseMs = 250;
export const longestPauseMs = 5_000;

// Reads a stream to its end. Closes it when `end` is aborted or the tab is hidden, and returns false then, true when the
// server has ended it. Throws the stream's error.
export async function readStream<Event>(end: AbortSignal, open: (signal: AbortSignal) => AsyncIterable<Event>, onEvent: (event: Event) => void): Promise<boolean> {
  const stream = new AbortController();
  const stop = () => stream.abort();
  const stopIfHidden = () => document.visibilityState === "hidden" && stream.abort();
  end.addEventListener("abort", stop);
  document.addEventListener("visibilitychange", stopIfHidden);
  try {
    for await (const event of open(stream.signal)) {
      if (end.aborted) return false;
      connection.answered();
      onEvent(event);
    }
    return true;
  } catch (error) {
    if (stream.signal.aborted) return false;
    throw error;
  } finally {
    end.removeEventListener("abort", stop);
    document.removeEventListener("visibilitychange", stopIfHidden);
  }
}
