// Pictures of a test view, as pixels: the photograph on the job's background, its render, and how much they differ.
import { TrainingConfig_Background as Background } from "../gen/nerf/v1/training_service_pb";

const gain = 4; // of differences, which are small

export async function pixelsOf(image: Blob, width: number, height: number, background: Background): Promise<ImageData> {
  const bitmap = await createImageBitmap(image);
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true })!;
  // What training composites on; evaluation takes white for a random one.
  context.fillStyle = background === Background.BLACK ? "#000" : "#fff";
  context.fillRect(0, 0, width, height);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, width, height);
  bitmap.close();
  return context.getImageData(0, 0, width, height);
}

export function differenceOf(a: ImageData, b: ImageData): ImageData {
  const difference = new ImageData(a.width, a.height);
  for (let i = 0; i < difference.data.length; ++i) {
    difference.data[i] = i % 4 === 3 ? 255 : Math.min(255, gain * Math.abs(a.data[i]! - b.data[i]!));
  }
  return difference;
}
