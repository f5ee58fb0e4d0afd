// The cameras of the photographs over a view: drawn as pyramids, and found by a click.
import { projectFrusta, type OrbitPose, type SceneView } from "./orbit";

const clickPixels = 14; // from the tip of a camera

export function drawFrusta(context: CanvasRenderingContext2D, view: SceneView, pose: OrbitPose, width: number, color: string) {
  context.lineWidth = 1;
  context.strokeStyle = color;
  for (const points of projectFrusta(view, pose, width)) {
    if (!points) continue;
    const [tip, ...corners] = points as [[number, number], ...[number, number][]];
    context.beginPath();
    for (const corner of corners) {
      context.moveTo(...tip);
      context.lineTo(...corner);
    }
    context.moveTo(...corners.at(-1)!);
    for (const corner of corners) context.lineTo(...corner);
    context.stroke();
  }
}

// The camera whose tip is at a point of the view; -1 where none is near.
export function frustumAt(view: SceneView, pose: OrbitPose, width: number, [x, y]: [number, number]): number {
  const distances = projectFrusta(view, pose, width).map((points) => (points ? Math.hypot(points[0]![0] - x, points[0]![1] - y) : Infinity));
  const nearest = distances.indexOf(Math.min(...distances));
  return distances[nearest]! <= clickPixels ? nearest : -1;
}
