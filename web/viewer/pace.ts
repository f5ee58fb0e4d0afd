// How large a picture is drawn, and when: coarse while the camera moves, so that frames keep coming; all pixels once it rests.
import type { Camera, Channel, Renderer } from "./renderer";

const movingMs = 33; // a frame may take while the camera moves
const partMs = 40; // and a part of the full picture
const restMs = 150; // without a move, before the full picture
const leastShare = 1 / 8; // of the canvas's sides
const leastSide = 96;
const mostChange = 0.2; // of the size that is not followed
const leastPart = 16;
const mostPart = 512;

export interface Drawn {
  width: number;
  height: number;
  ms: number; // of the last frame
  isWhole: boolean; // every pixel of the canvas is drawn
}

// Draws what `camera` gives whenever `changed` was called, one picture at a time: the latest camera wins.
export class Pace {
  private msPerPixel = 0; // of the pictures so far; 0: none
  private leastMs = 0; // what even a picture of one pixel takes
  private nRestarts = 0;
  private share = leastShare; // of the canvas's sides that moving pictures have
  private version = 0;
  private changedAt = 0;
  private wake: (() => void) | null = null;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly renderer: Renderer,
    private readonly camera: () => { camera: Camera; channel: Channel },
    private readonly onDrawn: (drawn: Drawn) => void,
  ) {}

  begin(onFailure: (error: unknown) => void) {
    this.run().catch(onFailure);
  }

  changed() {
    ++this.version;
    this.changedAt = performance.now();
    this.wake?.();
  }

  // Forgets how fast pictures were: another model is drawn now.
  restart() {
    this.msPerPixel = 0;
    ++this.nRestarts;
  }

  private async run() {
    // The first picture takes as long as the device takes to compile: one of a pixel.
    const { camera, channel } = this.camera();
    await this.renderer.drawCoarse(camera, channel, 1, 1);
    this.leastMs = await this.renderer.drawCoarse(camera, channel, 1, 1);
    let drawn = -1;
    while (!this.renderer.isLost) {
      if (drawn === this.version) await new Promise<void>((resolve) => (this.wake = resolve));
      await new Promise(requestAnimationFrame);
      drawn = this.version;
      if (await this.drawMoving()) continue;
      while (drawn === this.version && performance.now() - this.changedAt < restMs) await new Promise((resolve) => setTimeout(resolve, 10));
      if (drawn === this.version) await this.drawWhole(drawn);
    }
  }

  // Returns true where that is the full picture.
  private async drawMoving(): Promise<boolean> {
    const { version, nRestarts } = this;
    const { width, height } = this.canvas;
    const least = Math.min(1, Math.max(leastShare, leastSide / Math.min(width, height)));
    if (this.msPerPixel > 0) {
      const fits = Math.sqrt(movingMs / this.msPerPixel / (width * height));
      const wanted = Math.min(1, Math.max(least, fits));
      if (Math.abs(wanted / this.share - 1) > mostChange || wanted === 1) this.share = wanted;
    } else {
      this.share = least;
    }
    const size = [width, height].map((side) => Math.max(1, Math.round(side * this.share))) as [number, number];
    const { camera, channel } = this.camera();
    const ms = this.ownMs(await this.renderer.drawCoarse(camera, channel, ...size));
    this.renderer.present();
    if (nRestarts !== this.nRestarts) return false; // it was of the other model
    this.learn(ms, size[0] * size[1]);
    const isWhole = size[0] === width && size[1] === height && version === this.version;
    this.onDrawn({ width: size[0], height: size[1], ms, isWhole });
    return isWhole;
  }

  // The full picture in squares, those in the middle first. A move ends it.
  private async drawWhole(version: number) {
    const { width, height } = this.canvas;
    const { camera, channel } = this.camera();
    const side = Math.min(mostPart, Math.max(leastPart, Math.round(Math.sqrt(partMs / this.msPerPixel) / leastPart) * leastPart));
    const parts: [number, number][] = [];
    for (let y = 0; y < height; y += side) for (let x = 0; x < width; x += side) parts.push([x, y]);
    const fromMiddle = ([x, y]: [number, number]) => Math.hypot(x + side / 2 - width / 2, y + side / 2 - height / 2);
    parts.sort((a, b) => fromMiddle(a) - fromMiddle(b));
    let total = 0;
    for (const [x, y] of parts) {
      total += this.ownMs(await this.renderer.drawFine(camera, channel, x, y, Math.min(side, width - x), Math.min(side, height - y)));
      await new Promise(requestAnimationFrame);
      if (version !== this.version) return;
      this.renderer.present();
    }
    this.onDrawn({ width, height, ms: total, isWhole: true });
  }

  // Without what waiting for the device takes, which is the same for a small picture.
  private ownMs(ms: number) {
    return Math.max(0, ms - this.leastMs);
  }

  private learn(ms: number, pixels: number) {
    const now = Math.max(ms, 0.1) / pixels;
    this.msPerPixel = this.msPerPixel > 0 ? 0.6 * this.msPerPixel + 0.4 * now : now;
  }
}
