// Hidden tabs hold no streams and ask for nothing: a browser has six connections to a server, for all tabs together.
export const isVisible = () => document.visibilityState === "visible";

// Resolves once the tab is visible; at once when it is.
export async function untilVisible(signal: AbortSignal): Promise<void> {
  while (!isVisible() && !signal.aborted) {
    await new Promise<void>((resolve) => {
      const done = () => {
        document.removeEventListener("visibilitychange", done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      document.addEventListener("visibilitychange", done);
      signal.addEventListener("abort", done);
    });
  }
}

// Calls `work` now and then every `ms`, one at a time, while the tab is visible. Returns a function that ends it.
export function poll(ms: number, work: () => Promise<void>): () => void {
  const end = new AbortController();
  void (async () => {
    while (!end.signal.aborted) {
      await untilVisible(end.signal);
      if (end.signal.aborted) return;
      await work();
      await new Promise((resolve) => setTimeout(resolve, ms));
    }
  })();
  return () => end.abort();
}
