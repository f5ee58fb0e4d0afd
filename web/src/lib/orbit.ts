// Cameras around a scene.
import type { Camera } from "../gen/nerf/v1/common_pb";
import { add, cross, dot, norm, scale, sub, unit, type Vec3 } from "./vec3";

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

const sameAxis = 1e-3;

// Two directions that span the ground with `up`.
function groundOf(up: Vec3): [Vec3, Vec3] {
  // The axis that up has least of gives the steadiest first direction; where it has as much of two, the first of them.
  const least = [0, 1, 2].reduce((best, axis) => (Math.abs(up[axis]!) < Math.abs(up[best]!) - sameAxis ? axis : best), 0);
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

const oneSided = 0.4; // length of the mean of the cameras' directions along the ground: 0 all around, 0.64 of half a circle

// Where a visit begins: above a corner of a scene that the cameras surround, else with the camera in the middle of all, since no
// photograph shows the other sides.
export function homeOf(view: SceneView): OrbitPose {
  const [first, second] = groundOf(view.up);
  const mean = scale(view.cameras.reduce<Vec3>((sum, { backward }) => add(sum, backward), [0, 0, 0]), 1 / Math.max(1, view.cameras.length));
  if (Math.hypot(dot(mean, first), dot(mean, second)) < oneSided) return { azimuth: 0.8, elevation: view.elevation, zoom: 1, center: view.center };
  return poseOf(
    view,
    view.cameras.reduce((best, camera) => (dot(camera.backward, mean) > dot(best.backward, mean) ? camera : best)),
  );
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

// Where a view of `width` pixels shows a point; null behind the view.
export function project(view: SceneView, pose: OrbitPose, width: number, point: Vec3): Point | null {
  const basis = basisOf(view, pose);
  const focal = view.focal * width;
  const offset = sub(point, basis.position);
  const depth = -dot(offset, basis.backward);
  if (depth < 0.02 * view.distance) return null;
  return [width / 2 + (focal * dot(offset, basis.right)) / depth, width / view.aspect / 2 - (focal * dot(offset, basis.up)) / depth];
}

// What a view of `width` pixels shows at a point of it.
export function rayAt(view: SceneView, pose: OrbitPose, width: number, x: number, y: number): { origin: Vec3; direction: Vec3 } {
  const { right, up, backward, position } = basisOf(view, pose);
  const focal = view.focal * width;
  const across = add(scale(right, (x - width / 2) / focal), scale(up, (width / view.aspect / 2 - y) / focal));
  return { origin: position, direction: unit(sub(across, backward)) };
}

// The frusta of the scene's cameras as a view of `width` pixels shows them: tip and corners, by camera; null behind the view.
export function projectFrusta(view: SceneView, pose: OrbitPose, width: number): (Point[] | null)[] {
  return view.cameras.map((camera) => {
    const points = frustumOf(view, camera).map((corner) => project(view, pose, width, corner));
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
