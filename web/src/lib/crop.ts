// The box that is shown of a model: its shape in a view, and what a drag of one of its handles makes of it.
import type { CropBox } from "../gen/nerf/v1/common_pb";
import { pictureAxes, type Look } from "./cloud";
import { basisOf, project, rayAt, type OrbitPose, type SceneView } from "./orbit";
import { add, cross, dot, norm, scale, sub, unit, type Vec3 } from "./vec3";

export type Turn = readonly [number, number, number, number]; // quaternion x, y, z, w

// In the data set's frame and unit; `size` along the box's own axes.
export interface Box {
  center: Vec3;
  size: Vec3;
  turn: Turn;
}

const level: Turn = [0, 0, 0, 1];
const three = (numbers: number[]) => numbers as unknown as Vec3;

export function boxOf({ center, size, turn }: CropBox): Box {
  return { center: three([...center]), size: three([...size]), turn: turn.length === 4 ? (turn as unknown as Turn) : level };
}

export function messageOf({ center, size, turn }: Box) {
  return { center: [...center], size: [...size], turn: turn.every((number, i) => number === level[i]) ? [] : [...turn] };
}

export function isSame(a: CropBox | undefined, b: CropBox | undefined): boolean {
  const text = (box: CropBox | undefined) => (box ? JSON.stringify(messageOf(boxOf(box))) : "");
  return text(a) === text(b);
}

// Around what the cameras look at.
export function firstBox(view: SceneView | null): Box {
  const side = view ? Number((0.45 * view.distance).toPrecision(2)) : 1;
  const digits = Math.min(20, Math.max(0, 3 - Math.floor(Math.log10(side))));
  const center = view ? view.center.map((number) => Number(number.toFixed(digits))) : [0, 0, 0];
  return { center: three(center), size: [side, side, side], turn: level };
}

function product([ax, ay, az, aw]: Turn, [bx, by, bz, bw]: Turn): Turn {
  const turn = [aw * bx + ax * bw + ay * bz - az * by, aw * by - ax * bz + ay * bw + az * bx, aw * bz + ax * by - ay * bx + az * bw, aw * bw - ax * bx - ay * by - az * bz];
  const length = Math.hypot(...turn);
  return turn.map((number) => number / length) as unknown as Turn;
}

const about = (axis: Vec3, radians: number): Turn => [...scale(axis, Math.sin(radians / 2)), Math.cos(radians / 2)] as unknown as Turn;

// The box's own axes.
export function axesOf({ turn: [x, y, z, w] }: Box): [Vec3, Vec3, Vec3] {
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y + z * w), 2 * (x * z - y * w)],
    [2 * (x * y - z * w), 1 - 2 * (x * x + z * z), 2 * (y * z + x * w)],
    [2 * (x * z + y * w), 2 * (y * z - x * w), 1 - 2 * (x * x + y * y)],
  ];
}

const degree = Math.PI / 180;

// The turn as angles about the frame's x, y and z, one after the other, in degrees.
export function anglesOf(box: Box): Vec3 {
  const [x, y, z] = axesOf(box);
  const sine = Math.max(-1, Math.min(1, -x[2]));
  const isLocked = Math.abs(sine) > 1 - 1e-9; // x and z turn about the same axis
  const angles = isLocked ? [Math.atan2(-z[1], y[1]), Math.asin(sine), 0] : [Math.atan2(y[2], z[2]), Math.asin(sine), Math.atan2(x[1], x[0])];
  return three(angles.map((angle) => angle / degree));
}

export function turnOf([x, y, z]: Vec3): Turn {
  return product(product(about([0, 0, 1], z * degree), about([0, 1, 0], y * degree)), about([1, 0, 0], x * degree));
}

// Pairs of corners.
export function edgesOf(box: Box): [Vec3, Vec3][] {
  const axes = axesOf(box);
  const corner = (signs: number): Vec3 => axes.reduce<Vec3>((sum, axis, i) => add(sum, scale(axis, (signs & (1 << i) ? 0.5 : -0.5) * box.size[i]!)), box.center);
  const edges: [Vec3, Vec3][] = [];
  for (let from = 0; from < 8; ++from) for (const bit of [1, 2, 4]) if (!(from & bit)) edges.push([corner(from), corner(from | bit)]);
  return edges;
}

// A camera that has all of the box in its picture.
export function cameraOf(box: Box, look: Look, width: number, height: number) {
  const halfAngle = 20 * degree; // of the shorter side
  const focal = Math.min(width, height) / 2 / Math.tan(halfAngle);
  const { right, above, toViewer } = pictureAxes(look);
  const position = add(box.center, scale(toViewer, norm(box.size) / 2 / Math.sin(halfAngle)));
  const rows = [0, 1, 2].flatMap((row) => [right[row]!, above[row]!, toViewer[row]!, position[row]!]);
  return { width, height, flX: focal, transformMatrix: [...rows, 0, 0, 0, 1] };
}

export type Handle = { kind: "face"; axis: number; sign: 1 | -1; at: Vec3 } | { kind: "center"; at: Vec3 } | { kind: "turn"; axis: number; at: Vec3 };

export function handlesOf(view: SceneView, box: Box): Handle[] {
  const axes = axesOf(box);
  const handles: Handle[] = [{ kind: "center", at: box.center }];
  for (let axis = 0; axis < 3; ++axis) {
    for (const sign of [1, -1] as const) handles.push({ kind: "face", axis, sign, at: add(box.center, scale(axes[axis]!, 0.5 * sign * box.size[axis]!)) });
  }
  // It turns about the box's axis that is upright in the view, at the end of another one.
  const lean = axes.map((axis) => Math.abs(dot(axis, view.up)));
  const axis = lean.indexOf(Math.max(...lean));
  const arm = (axis + 1) % 3;
  handles.push({ kind: "turn", axis, at: add(box.center, scale(axes[arm]!, 0.5 * box.size[arm]! + 0.12 * view.distance)) });
  return handles;
}

// Where the ray meets the plane; null where it does not.
function meet(ray: { origin: Vec3; direction: Vec3 }, point: Vec3, normal: Vec3): Vec3 | null {
  const slope = dot(ray.direction, normal);
  const t = dot(sub(point, ray.origin), normal) / slope;
  return Math.abs(slope) > 0.02 && t > 0 ? add(ray.origin, scale(ray.direction, t)) : null;
}

// The box once the handle, as it was at the begin, is dragged from one point of the view to another.
export function dragged(view: SceneView, pose: OrbitPose, width: number, box: Box, handle: Handle, from: readonly [number, number], to: readonly [number, number]): Box {
  const [first, second] = [rayAt(view, pose, width, ...from), rayAt(view, pose, width, ...to)];
  if (handle.kind === "center") {
    const { backward } = basisOf(view, pose);
    const [a, b] = [meet(first, box.center, backward), meet(second, box.center, backward)];
    return a && b ? { ...box, center: add(box.center, sub(b, a)) } : box;
  }
  const axis = axesOf(box)[handle.axis]!;
  if (handle.kind === "turn") {
    const [a, b] = [meet(first, box.center, axis), meet(second, box.center, axis)];
    // Seen from the side the plane is a line: then its pixels count.
    if (!a || !b) return { ...box, turn: product(about(axis, 0.01 * (to[0] - from[0])), box.turn) };
    const [p, q] = [sub(a, box.center), sub(b, box.center)];
    return { ...box, turn: product(about(axis, Math.atan2(dot(cross(p, q), axis), dot(p, q))), box.turn) };
  }
  // Along the axis, in the plane through it that faces the camera most.
  const normal = unit(cross(axis, cross(axis, sub(handle.at, first.origin))));
  const [a, b] = [meet(first, handle.at, normal), meet(second, handle.at, normal)];
  if (!a || !b || norm(normal) === 0) return box;
  const old = box.size[handle.axis]!;
  const side = Math.max(0.01 * view.distance, old + handle.sign * dot(sub(b, a), axis));
  const size = three(box.size.map((number, i) => (i === handle.axis ? side : number)));
  return { ...box, size, center: add(box.center, scale(axis, 0.5 * handle.sign * (side - old))) }; // the other face stays
}

export function drawBox(context: CanvasRenderingContext2D, view: SceneView, pose: OrbitPose, width: number, box: Box, held: Handle["kind"] | null) {
  const line = (from: Vec3, to: Vec3) => {
    const [a, b] = [project(view, pose, width, from), project(view, pose, width, to)];
    if (!a || !b) return;
    context.moveTo(...a);
    context.lineTo(...b);
  };
  // Light on dark, to be seen on any picture.
  for (const [color, thick] of [["#000a", 4], ["#fff", 1.5]] as const) {
    context.strokeStyle = color;
    context.lineWidth = thick;
    context.beginPath();
    for (const [from, to] of edgesOf(box)) line(from, to);
    for (const handle of handlesOf(view, box)) if (handle.kind === "turn") line(box.center, handle.at);
    context.stroke();
  }
  for (const handle of handlesOf(view, box)) {
    const at = project(view, pose, width, handle.at);
    if (!at) continue;
    context.beginPath();
    context.arc(...at, handle.kind === "face" ? 6 : 8, 0, 2 * Math.PI);
    context.fillStyle = handle.kind === "face" ? "#fff" : handle.kind === "center" ? "#4ad6a6" : "#f0b45a";
    context.globalAlpha = held === null || held === handle.kind ? 1 : 0.5;
    context.fill();
    context.strokeStyle = "#000";
    context.lineWidth = 1.5;
    context.stroke();
    context.globalAlpha = 1;
  }
}

// The handle nearest to a point of the view, within `reach` pixels.
export function handleAt(view: SceneView, pose: OrbitPose, width: number, box: Box, point: readonly [number, number], reach: number): Handle | null {
  let found: Handle | null = null;
  for (const handle of handlesOf(view, box)) {
    const at = project(view, pose, width, handle.at);
    // Seen along an axis, its faces lie before the center and cannot be moved.
    const distance = at ? Math.hypot(at[0] - point[0], at[1] - point[1]) + (handle.kind === "face" ? 4 : 0) : Infinity;
    if (distance > reach) continue;
    reach = distance;
    found = handle;
  }
  return found;
}
