// Stills where no worker offers a live view: small while the camera moves, then finer, one at a time.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { RenderChannel, type RenderImageRequestSchema, type RenderImageResponse } from "../gen/nerf/v1/render_service_pb";
import { explain, quick, render } from "./api";

export const leastSide = 96; // of a view, pixels

const movingMs = 100; // what a still may take while the camera moves
const idleMs = 150; // without a move, before finer stills
const timeoutMs = 120_000;

export interface StillsOwner {
  // The view of this width as it is now.
  request(side: number): MessageInitShape<typeof RenderImageRequestSchema>;
  fullSide(): number;
  aspect(): number;
  isDragging(): boolean;
  isShown(): boolean; // stills are what is shown
  draw(content: Uint8Array, isDepth: boolean): Promise<void>;
  onStill(reply: RenderImageResponse, elapsedMs: number): void;
  onFailure(text: string): void;
}

export class Stills {
  private readonly end = new AbortController();
  private movedAt = 0;
  private nMoves = 0;
  private secondsPerPixel = 2e-6; // of the stills so far
  private drawnShare = 0; // of the full width, for the view that is shown; 0 after a move
  private isRendering = false;
  private idleTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly owner: StillsOwner) {}

  // The view is another one.
  moved() {
    this.movedAt = performance.now();
    ++this.nMoves;
  }

  // Renders the view as it is now.
  show() {
    this.drawnShare = 0;
    void this.run();
    clearTimeout(this.idleTimer);
    this.idleTimer = setTimeout(() => void this.run(), idleMs + 10);
  }

  close() {
    this.end.abort();
    clearTimeout(this.idleTimer);
  }

  // The next width to render, as a share of the full one; 0 when nothing is left to do.
  private nextShare(): number {
    const full = this.owner.fullSide();
    if (this.owner.isDragging() || performance.now() - this.movedAt < idleMs) {
      const fits = Math.sqrt((movingMs / 1000 / this.secondsPerPixel) * this.owner.aspect()) / full;
      return this.drawnShare > 0 ? 0 : Math.min(1, Math.max(leastSide / full, fits));
    }
    return [0.25, 0.5, 1].find((share) => share > this.drawnShare + 0.01) ?? 0;
  }

  private async run() {
    if (this.isRendering || !this.owner.isShown()) return;
    this.isRendering = true;
    try {
      for (let share = this.nextShare(); share > 0 && this.owner.isShown(); share = this.nextShare()) {
        const request = this.owner.request(Math.max(leastSide, Math.round(this.owner.fullSide() * share)));
        const asked = this.nMoves;
        this.drawnShare = share;
        const begun = performance.now();
        const reply = await render.renderImage(request, { ...quick, timeoutMs, signal: this.end.signal });
        const elapsedMs = performance.now() - begun;
        await this.owner.draw(reply.images[0]!.content, request.channels?.[0] === RenderChannel.DEPTH);
        if (asked !== this.nMoves) this.drawnShare = 0;
        this.secondsPerPixel = 0.7 * this.secondsPerPixel + (0.3 * elapsedMs) / 1000 / (reply.width * reply.height);
        this.owner.onStill(reply, elapsedMs);
      }
    } catch (error) {
      if (this.end.signal.aborted) return;
      this.drawnShare = 1; // not again until something changes
      this.owner.onFailure(error instanceof ConnectError && error.code === Code.Canceled ? "" : explain(error));
    } finally {
      this.isRendering = false;
    }
  }
}
