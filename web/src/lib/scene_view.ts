// How a scene is looked at, from the poses of its camera file.
import { create } from "@bufbuild/protobuf";
import { CameraSchema, type Camera } from "../gen/nerf/v1/common_pb";
import type { Scene } from "../gen/nerf/v1/scene_service_pb";
import { fetchBlob, scenes } from "./api";
import { basisOf, type OrbitPose, type SceneCamera, type SceneView } from "./orbit";
import { add, cross, dot, norm, scale, sub, unit, type Vec3 } from "./vec3";

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 1;
}

interface Frame {
  transform_matrix?: number[][];
}
interface Transforms extends Record<string, unknown> {
  frames?: Frame[];
}

// The point nearest to all lines of sight, by least squares; null where they are nearly parallel.
function nearestPoint(positions: Vec3[], directions: Vec3[]): Vec3 | null {
  const a = [0, 0, 0, 0, 0, 0, 0, 0, 0];
  const b = [0, 0, 0];
  positions.forEach((position, i) => {
    const d = directions[i]!;
    for (let row = 0; row < 3; ++row) {
      for (let column = 0; column < 3; ++column) {
        const m = (row === column ? 1 : 0) - d[row]! * d[column]!;
        a[3 * row + column]! += m;
        b[row]! += m * position[column]!;
      }
    }
  });
  const column = (i: number): Vec3 => [a[i]!, a[3 + i]!, a[6 + i]!];
  const det = dot(column(0), cross(column(1), column(2)));
  if (Math.abs(det) < 1e-6 * positions.length ** 3) return null;
  const right = b as unknown as Vec3;
  return [
    dot(right, cross(column(1), column(2))) / det,
    dot(column(0), cross(right, column(2))) / det,
    dot(column(0), cross(column(1), right)) / det,
  ];
}

// Lens of the pictures: focal length in widths, and width / height.
interface Lens {
  focal: number;
  aspect: number;
}

// The view of cameras with these poses, row by row; null without any.
function viewOfPoses(poses: number[][][], { focal, aspect }: Lens): SceneView | null {
  const positions: Vec3[] = [];
  const directions: Vec3[] = [];
  const cameras: SceneCamera[] = [];
  let up: Vec3 = [0, 0, 0];
  for (const m of poses) {
    const column = (i: number): Vec3 => [m[0]![i]!, m[1]![i]!, m[2]![i]!];
    positions.push(column(3));
    directions.push(unit(scale(column(2), -1)));
    cameras.push({ right: unit(column(0)), up: unit(column(1)), backward: unit(column(2)), position: column(3) });
    up = add(up, unit(column(1)));
  }
  if (positions.length === 0) return null;
  const middle = scale(positions.reduce(add), 1 / positions.length);
  const center = nearestPoint(positions, directions) ?? add(middle, scale(unit(directions.reduce(add)), 1));
  up = norm(up) > 1e-6 ? unit(up) : [0, 0, 1];
  const offsets = positions.map((position) => sub(position, center));
  const distance = median(offsets.map(norm));
  const elevation = Math.asin(Math.max(-1, Math.min(1, median(offsets.map((offset) => dot(offset, up))) / distance)));
  return { center, up, distance, elevation, aspect, focal, cameras };
}

export function viewOf(transforms: Transforms, pictureAspect: number): SceneView | null {
  const poses = (transforms.frames ?? [])
    .map(({ transform_matrix }) => transform_matrix)
    .filter((m): m is number[][] => Array.isArray(m) && m.length >= 3 && m.every((row) => Array.isArray(row) && row.length === 4));
  const number = (key: string) => (typeof transforms[key] === "number" ? (transforms[key] as number) : undefined);
  const [w, h, flX, angleX] = [number("w"), number("h"), number("fl_x"), number("camera_angle_x")];
  const focal = angleX !== undefined ? 0.5 / Math.tan(0.5 * angleX) : flX !== undefined && w !== undefined ? flX / w : 1.1;
  return viewOfPoses(poses, { focal, aspect: w !== undefined && h !== undefined && h > 0 ? w / h : pictureAspect });
}

// The view of the cameras that a worker reads, of COLMAP's models and others. The lens is the first camera's.
async function describedView(scene: Scene, signal: AbortSignal): Promise<SceneView | null> {
  const cameras: Camera[] = [];
  for (let pageToken = ""; ; ) {
    const page = await scenes.describeScene({ name: scene.name, testEvery: 0, pageSize: 1000, pageToken }, { timeoutMs: 120_000, signal });
    cameras.push(...page.views.map(({ camera }) => camera).filter((camera) => camera !== undefined));
    pageToken = page.nextPageToken;
    if (!pageToken) break;
  }
  const [first] = cameras;
  if (!first) return null;
  const poses = cameras.map(({ transformMatrix: m }) => [m.slice(0, 4), m.slice(4, 8), m.slice(8, 12)]);
  return viewOfPoses(poses, { focal: first.flX / first.width, aspect: first.width / first.height });
}

// The view of a scene's cameras; null where they cannot be read.
export async function sceneView(scene: Scene, signal: AbortSignal): Promise<SceneView | null> {
  const file = ["transforms_train.json", "transforms.json"].map((path) => scene.files.find((each) => each.path === path)).find((each) => each?.blob);
  try {
    if (!file?.blob) return await describedView(scene, signal);
    return viewOf(JSON.parse(await (await fetchBlob(file.blob, "transforms.json", signal)).text()) as Transforms, 1);
  } catch {
    return null;
  }
}

// The camera of a pose, of `width` pixels.
export function orbitCamera(view: SceneView, pose: OrbitPose, width: number, height: number): Camera {
  const { right, up, backward, position } = basisOf(view, pose);
  const rows = [0, 1, 2].flatMap((row) => [right[row]!, up[row]!, backward[row]!, position[row]!]);
  return create(CameraSchema, { width, height, flX: view.focal * width, transformMatrix: [...rows, 0, 0, 0, 1] });
}
