// Cameras around a scene, from the poses of its camera file.
import { create } from "@bufbuild/protobuf";
import { CameraSchema, type Camera } from "../gen/nerf/v1/common_pb";
import type { Scene } from "../gen/nerf/v1/scene_service_pb";
import { fetchBlob, scenes } from "./api";

type Vec3 = readonly [number, number, number];

const add = (a: Vec3, b: Vec3): Vec3 => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
const scale = (a: Vec3, s: number): Vec3 => [a[0] * s, a[1] * s, a[2] * s];
const sub = (a: Vec3, b: Vec3): Vec3 => add(a, scale(b, -1));
const dot = (a: Vec3, b: Vec3) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const norm = (a: Vec3) => Math.sqrt(dot(a, a));
const unit = (a: Vec3): Vec3 => scale(a, 1 / (norm(a) || 1));
const cross = (a: Vec3, b: Vec3): Vec3 => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? 1;
}

// One of the cameras that took the pictures.
export interface SceneCamera {
  right: Vec3;
  up: Vec3;
  backward: Vec3;
  position: Vec3;
}

export interface SceneView {
  center: Vec3; // what the cameras look at
  up: Vec3;
  distance: number; // median of the cameras
  elevation: number; // radians
  aspect: number; // width / height
  focal: number; // in widths of the picture
  cameras: SceneCamera[];
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

// Where a camera is and looks: from `center`, backward along azimuth and elevation.
export interface OrbitPose {
  azimuth: number; // radians
  elevation: number;
  zoom: number; // 1: the median distance of the cameras; 2: half of it
  center: Vec3;
}

const maxElevation = 1.5; // looking straight down there is no up

export function clampPose(pose: OrbitPose): OrbitPose {
  return {
    azimuth: pose.azimuth,
    elevation: Math.max(-maxElevation, Math.min(maxElevation, pose.elevation)),
    zoom: Math.max(0.2, Math.min(10, pose.zoom)),
    center: pose.center,
  };
}

// Two directions that span the ground with `up`.
function groundOf(up: Vec3): [Vec3, Vec3] {
  // The axis that up has least of gives the steadiest first direction.
  const least = [0, 1, 2].reduce((best, axis) => (Math.abs(up[axis]!) < Math.abs(up[best]!) ? axis : best), 0);
  const axis: Vec3 = [least === 0 ? 1 : 0, least === 1 ? 1 : 0, least === 2 ? 1 : 0];
  const first = unit(sub(axis, scale(up, dot(axis, up))));
  return [first, cross(up, first)];
}

interface Basis {
  right: Vec3;
  up: Vec3;
  backward: Vec3;
  position: Vec3;
}

export function basisOf(view: SceneView, pose: OrbitPose): Basis {
  const [first, second] = groundOf(view.up);
  const around = add(scale(first, Math.cos(pose.azimuth)), scale(second, Math.sin(pose.azimuth)));
  const backward = add(scale(around, Math.cos(pose.elevation)), scale(view.up, Math.sin(pose.elevation)));
  const position = add(pose.center, scale(backward, view.distance / pose.zoom));
  const right = unit(cross(view.up, backward));
  return { right, up: cross(backward, right), backward, position };
}

// The camera of a pose, of `width` pixels.
export function orbitCamera(view: SceneView, pose: OrbitPose, width: number, height: number): Camera {
  const { right, up, backward, position } = basisOf(view, pose);
  const rows = [0, 1, 2].flatMap((row) => [right[row]!, up[row]!, backward[row]!, position[row]!]);
  return create(CameraSchema, { width, height, flX: view.focal * width, transformMatrix: [...rows, 0, 0, 0, 1] });
}

// The pose turned by the angles, with its position kept and its center moved.
export function turnInPlace(view: SceneView, pose: OrbitPose, azimuth: number, elevation: number): OrbitPose {
  const { position } = basisOf(view, pose);
  const turned = clampPose({ ...pose, azimuth: pose.azimuth + azimuth, elevation: pose.elevation + elevation });
  const { backward } = basisOf(view, turned);
  return { ...turned, center: sub(position, scale(backward, view.distance / turned.zoom)) };
}

// The pose moved along its own axes, in median distances of the cameras.
export function fly(view: SceneView, pose: OrbitPose, right: number, up: number, forward: number): OrbitPose {
  const basis = basisOf(view, pose);
  const offset = add(add(scale(basis.right, right), scale(basis.up, up)), scale(basis.backward, -forward));
  return { ...pose, center: add(pose.center, scale(offset, view.distance)) };
}

// The pose of one of the scene's cameras, but upright.
export function poseOf(view: SceneView, camera: SceneCamera): OrbitPose {
  const [first, second] = groundOf(view.up);
  const distance = norm(sub(camera.position, view.center));
  const zoom = clampPose({ azimuth: 0, elevation: 0, zoom: view.distance / (distance || 1), center: view.center }).zoom;
  return clampPose({
    azimuth: Math.atan2(dot(camera.backward, second), dot(camera.backward, first)),
    elevation: Math.asin(Math.max(-1, Math.min(1, dot(camera.backward, view.up)))),
    zoom,
    center: sub(camera.position, scale(camera.backward, view.distance / zoom)),
  });
}

const frustumDepth = 0.1; // in median distances of the cameras

// The corners of a camera's frustum, its tip first.
function frustumOf(view: SceneView, camera: SceneCamera): Vec3[] {
  const depth = frustumDepth * view.distance;
  const halfWidth = (0.5 * depth) / view.focal;
  const corner = (x: number, y: number) =>
    add(add(add(camera.position, scale(camera.backward, -depth)), scale(camera.right, x * halfWidth)), scale(camera.up, (y * halfWidth) / view.aspect));
  return [camera.position, corner(-1, 1), corner(1, 1), corner(1, -1), corner(-1, -1)];
}

type Point = [number, number];

// The frusta of the scene's cameras as a view of `width` pixels shows them: tip and corners, by camera; null behind the view.
export function projectFrusta(view: SceneView, pose: OrbitPose, width: number): (Point[] | null)[] {
  const basis = basisOf(view, pose);
  const focal = view.focal * width;
  const nearest = 0.02 * view.distance;
  return view.cameras.map((camera) => {
    const points = frustumOf(view, camera).map((corner): Point | null => {
      const offset = sub(corner, basis.position);
      const depth = -dot(offset, basis.backward);
      if (depth < nearest) return null;
      return [width / 2 + (focal * dot(offset, basis.right)) / depth, width / view.aspect / 2 - (focal * dot(offset, basis.up)) / depth];
    });
    return points.every((point) => point !== null) ? points : null;
  });
}

// The view and pose that a single camera gives: what it looks at is `center`, and `up` is upright. Without them it turns around a point
// as far away as the origin.
export function startFrom(camera: Camera, center: number[], up: number[]): { view: SceneView; pose: OrbitPose } | null {
  const m = camera.transformMatrix;
  if (m.length !== 16) return null;
  const column = (i: number): Vec3 => [m[i]!, m[4 + i]!, m[8 + i]!];
  const own: SceneCamera = { right: column(0), up: column(1), backward: column(2), position: column(3) };
  const distance = norm(center.length === 3 ? sub(own.position, center as unknown as Vec3) : own.position) || 1;
  const view: SceneView = {
    center: sub(own.position, scale(own.backward, distance)),
    up: unit(up.length === 3 ? (up as unknown as Vec3) : own.up),
    distance,
    elevation: 0,
    aspect: camera.width / camera.height,
    focal: camera.flX / camera.width,
    cameras: [],
  };
  return { view, pose: poseOf(view, own) };
}
