// What a film will show, before it is rendered: the path in words, and a few small frames of it.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { ImageFormat, PathKind, RenderChannel, type RenderImageRequestSchema, type RenderImageResponse, type ViewStyleSchema } from "../gen/nerf/v1/render_service_pb";
import { render } from "./api";
import type { ViewerPath } from "./path";
import { parent } from "./project";

export const stripFrames = 6;
const side = 160; // of a frame's longer side, pixels
const wellSeen = 0.75; // share of a frame that two or more photographs show, below which it may be fog
const timeoutMs = 120_000;

const words: Partial<Record<PathKind, string>> = {
  [PathKind.PATH_ORBIT]: "once around the scene",
  [PathKind.PATH_SPIRAL]: "a spiral in front of the scene, around the middle of the photographs",
  [PathKind.PATH_FLYBY]: "a straight line along the photographs",
  [PathKind.PATH_CAMERAS]: "along the places where the photographs were taken",
};
export const pathWords = (kind: PathKind) => words[kind] ?? "";

export interface StripFrame {
  picture: Blob;
  path: PathKind; // unspecified for keyframes
  isFog: boolean; // few photographs show it
}

// The frames, as they come. path: through keyframes; without one the engine chooses what suits the photographs.
export async function* stripOf(
  source: MessageInitShape<typeof RenderImageRequestSchema>["source"],
  path: ViewerPath | null,
  frames: number,
  aspect: number,
  style: MessageInitShape<typeof ViewStyleSchema>,
  signal: AbortSignal,
): AsyncGenerator<StripFrame> {
  const n = Math.min(stripFrames, frames);
  const [width, height] = aspect >= 1 ? [side, Math.round(side / aspect)] : [Math.round(side * aspect), side];
  const cameras = path ? (await render.expandCameraPath({ parent, path: { kind: { case: "keyframes", value: { ...path, frames: n } } }, width, height }, { timeoutMs, signal })).cameras : [];
  for (let i = 0; i < n; ++i) {
    const at = path ? { camera: cameras[i]! } : { orbit: { index: Math.floor((i * frames) / n), count: frames, path: PathKind.PATH_AUTO } };
    const reply: RenderImageResponse = await render.renderImage({ source, ...at, width, height, channels: [RenderChannel.RGB], format: ImageFormat.JPEG, style }, { timeoutMs, signal });
    const picture = new Blob([reply.images[0]!.content as BlobPart], { type: "image/jpeg" });
    yield { picture, path: reply.path, isFog: reply.farFromCameras || (reply.seenTwice ?? 1) < wellSeen };
  }
}
