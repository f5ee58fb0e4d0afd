// A live view: one stream of frames down, small updates up. Closed in hidden tabs, opened again after a cut line.
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { ViewSchema, type View, type ViewFrame } from "../gen/nerf/v1/view_service_pb";
import { isUnreachable, quick, reasonOf, views } from "./api";
import { connection } from "./connection.svelte";
import { firstPauseMs, longestPauseMs, readStream } from "./stream";
import { untilVisible } from "./visible";

export type LiveSource = { case: "model" | "trainingJob"; value: string };

export interface LiveListener {
  // A frame. `shownAt`: when show() was called for it, as performance.now(); null for a further frame of the same view.
  onFrame(frame: ViewFrame, shownAt: number | null): void;
  // Nobody can render live now. The live view has closed itself.
  onUnable(error: unknown): void;
}

const updateMs = 20; // between updates

export class LiveView {
  private readonly end = new AbortController();
  private view: View;
  private name = ""; // of the open stream
  private sequence = 0; // of the last update
  private shown: View; // by the last update, or by the stream's begin
  private isSending = false;
  private changedAt = new Map<number, number>(); // by sequence, until a frame shows it

  constructor(
    private readonly source: LiveSource,
    first: MessageInitShape<typeof ViewSchema>,
    private readonly listener: LiveListener,
  ) {
    this.view = this.shown = create(ViewSchema, first);
    void this.run();
  }

  // The last view counts.
  show(view: MessageInitShape<typeof ViewSchema>) {
    this.view = create(ViewSchema, view);
    void this.send();
  }

  close() {
    this.end.abort();
  }

  private async send() {
    if (this.isSending) return;
    this.isSending = true;
    while (this.name && this.view !== this.shown && !this.end.signal.aborted) {
      const { name, shown } = this;
      const sequence = ++this.sequence;
      let pauseMs = updateMs;
      this.shown = this.view;
      this.changedAt.set(sequence, performance.now());
      try {
        await views.updateView({ name, sequence, view: this.shown }, { ...quick, signal: this.end.signal });
      } catch {
        // If the stream has ended, the next one begins with the last view; else it is sent again.
        if (this.name === name) this.shown = shown;
        pauseMs = firstPauseMs;
      }
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    this.isSending = false;
  }

  private async run() {
    let pauseMs = firstPauseMs;
    const { signal } = this.end;
    while (!signal.aborted) {
      await untilVisible(signal);
      if (signal.aborted) return;
      try {
        this.begin();
        await readStream(signal, (streamSignal) => views.streamViews({ source: this.source, view: this.shown }, { signal: streamSignal }), ({ message }) => {
          pauseMs = firstPauseMs;
          if (message.case === "scene") {
            this.name = message.value.name;
            void this.send();
          } else if (message.case === "frame") {
            this.listener.onFrame(message.value, this.takeChange(message.value.sequence));
          }
        });
      } catch (error) {
        if (isUnreachable(error)) connection.lost();
        else if (!isPassing(error)) {
          this.end.abort();
          return this.listener.onUnable(error);
        }
        await connection.answerWithin(pauseMs);
        pauseMs = Math.min(2 * pauseMs, longestPauseMs);
      } finally {
        this.name = "";
      }
    }
  }

  private begin() {
    this.sequence = 0;
    this.shown = this.view;
    this.changedAt = new Map([[0, performance.now()]]);
  }

  private takeChange(sequence: number): number | null {
    const changed = this.changedAt.get(sequence) ?? null;
    for (const other of this.changedAt.keys()) if (other <= sequence) this.changedAt.delete(other);
    return changed;
  }
}

// A lost worker, a cut line, or a reader that was away for long: the stream is opened again.
function isPassing(error: unknown): boolean {
  if (!(error instanceof ConnectError) || reasonOf(error) === "NO_WORKER") return false;
  return [Code.Unavailable, Code.Unknown, Code.Internal, Code.Aborted, Code.Canceled].includes(error.code);
}
