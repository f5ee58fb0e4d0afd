// Encoded pictures on a canvas, one after the other: the latest wins.
import { colorize } from "./turbo";

export class Painter {
  private waiting: [Uint8Array, boolean, () => void] | null = null;
  private isDrawing = false;

  // canvas: null once the page that had it is left.
  // onPainted: called after every picture.
  constructor(
    private readonly canvas: () => HTMLCanvasElement | null,
    private readonly onPainted: () => void,
  ) {}

  // Depths are drawn in color. `onDrawn` is not called for a picture that another one has replaced.
  async draw(content: Uint8Array, isDepth: boolean, onDrawn = () => {}) {
    this.waiting = [content, isDepth, onDrawn];
    if (this.isDrawing) return;
    this.isDrawing = true;
    try {
      while (this.waiting) {
        const [bytes, colors, drawn] = this.waiting;
        this.waiting = null;
        await this.paint(bytes, colors);
        drawn();
      }
    } finally {
      this.isDrawing = false;
    }
  }

  private async paint(content: Uint8Array, isDepth: boolean) {
    const bitmap = await createImageBitmap(new Blob([content as BlobPart]));
    const canvas = this.canvas();
    if (!canvas) return bitmap.close();
    if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
      canvas.width = bitmap.width;
      canvas.height = bitmap.height;
    }
    const context = canvas.getContext("2d", { willReadFrequently: true })!;
    context.drawImage(bitmap, 0, 0);
    bitmap.close();
    if (isDepth) {
      const pixels = context.getImageData(0, 0, canvas.width, canvas.height);
      colorize(pixels.data, canvas.width);
      context.putImageData(pixels, 0, 0);
    }
    this.onPainted();
  }
}
