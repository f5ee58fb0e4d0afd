// The photograph that a job's previews are of.
import type { Camera } from "../gen/nerf/v1/common_pb";
import { fetchBlob, scenes } from "./api";
import type { Detail } from "./jobs";

// The middle test view; null where there is none, or none that can be read now.
export async function previewView({ scene, effectiveConfig }: Detail<"training">, signal: AbortSignal): Promise<{ camera: Camera | undefined; photograph: Blob } | null> {
  const testEvery = effectiveConfig?.testEvery;
  const { views, testViews } = await scenes.describeScene({ name: scene, testEvery, pageSize: 1000 }, { timeoutMs: 120_000, signal });
  const view = testViews > 0 ? views[Math.floor(testViews / 2)] : undefined; // test views come first
  if (!view?.blob) return null;
  return { camera: view.camera, photograph: await fetchBlob(view.blob, view.file.split("/").at(-1)!, signal) };
}
