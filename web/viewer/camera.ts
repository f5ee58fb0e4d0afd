// Where the viewer looks from. Lengths and directions are in the training frame; the address has the data set's own.
import type { PictureCamera, Pose, SceneHeader, Vec3 } from "./model";
import type { Camera } from "./renderer";

export const add = (a: Vec3, b: Vec3): Vec3 => [a[0] + b[0], a[1] + b[1], a[2] + b[2]];
export const scale = (a: Vec3, s: number): Vec3 => [a[0] * s, a[1] * s, a[2] * s];
export const sub = (a: Vec3, b: Vec3): Vec3 => add(a, scale(b, -1));
export const dot = (a: Vec3, b: Vec3) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
export const norm = (a: Vec3) => Math.sqrt(dot(a, a));
const unit = (a: Vec3): Vec3 => scale(a, 1 / (norm(a) || 1));
const cross = (a: Vec3, b: Vec3): Vec3 => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];

// Turns `v` by an angle about a unit axis (Rodrigues).
function turned(v: Vec3, axis: Vec3, angle: number): Vec3 {
  const c = Math.cos(angle);
  return add(add(scale(v, c), scale(cross(axis, v), Math.sin(angle))), scale(axis, dot(axis, v) * (1 - c)));
}

export interface Place {
  right: Vec3;
  up: Vec3;
  backward: Vec3;
  position: Vec3;
  slopes: [number, number]; // half of what is to be seen at distance 1: across, up; the shape of the canvas may add to it
  center: Vec3; // what it turns around
}

const column = (pose: Pose, i: number): Vec3 => [pose[i]!, pose[4 + i]!, pose[8 + i]!];

// The point on the line of sight that is nearest to the scene's center, or as far off as that is where it lies behind.
function centerAhead(position: Vec3, backward: Vec3, center: Vec3): Vec3 {
  const way = sub(center, position);
  const ahead = -dot(way, backward);
  return add(position, scale(backward, -(ahead > 0.1 * norm(way) ? ahead : norm(way))));
}

export function placeOf(pose: Pose, slopes: [number, number], center: Vec3): Place {
  const place = { right: column(pose, 0), up: column(pose, 1), backward: column(pose, 2), position: column(pose, 3), slopes };
  return { ...place, center: centerAhead(place.position, place.backward, center) };
}

// Where the viewer starts.
export function homeOf(header: SceneHeader): Place {
  const pose = header.path.poses[0] ?? header.cameras[0]!.pose;
  return placeOf(pose, header.path.poses.length > 0 ? header.path.slopes : header.cameras[0]!.slopes, header.center);
}

export const ofPicture = (header: SceneHeader, camera: PictureCamera): Place => placeOf(camera.pose, camera.slopes, header.center);

// The camera for a canvas of this shape, which shows at least what the place asks for.
export function cameraOf(place: Place, aspect: number): Camera {
  const up = Math.max(place.slopes[1], place.slopes[0] / aspect);
  return { axes: [...place.right, ...place.up, ...place.backward], position: place.position, slopes: [up * aspect, up] };
}

function turnedBy(place: Place, axis: Vec3, angle: number): Place {
  return { ...place, right: turned(place.right, axis, angle), up: turned(place.up, axis, angle), backward: turned(place.backward, axis, angle) };
}

const leastPole = 0.05; // radians between the line of sight and the way up

// Turns about the center, or in place: to the right and upwards, radians.
export function turn(place: Place, sceneUp: Vec3, inPlace: boolean, right: number, up: number): Place {
  const angleAboutUp = inPlace ? -right : right;
  const aboutUp = turnedBy(place, sceneUp, angleAboutUp);
  const angle = Math.acos(Math.max(-1, Math.min(1, dot(aboutUp.backward, sceneUp)))); // of the camera from straight above
  const wanted = Math.max(leastPole, Math.min(Math.PI - leastPole, inPlace ? angle + up : angle - up));
  const axis = cross(sceneUp, aboutUp.backward);
  const tilt = norm(axis) > 1e-6 ? wanted - angle : 0;
  const done = turnedBy(aboutUp, unit(axis), tilt);
  if (inPlace) return { ...done, center: add(done.position, scale(done.backward, -norm(sub(place.center, place.position)))) };
  // The center may lie beside the line of sight, after a pan say: it keeps its place in the picture.
  const way = turned(turned(sub(place.position, place.center), sceneUp, angleAboutUp), unit(axis), tilt);
  return { ...done, position: add(place.center, way) };
}

// Moves along the camera's axes; lengths in distances to the center. The center goes along.
export function move(place: Place, right: number, up: number, forward: number): Place {
  const distance = norm(sub(place.center, place.position));
  const way = scale(add(add(scale(place.right, right), scale(place.up, up)), scale(place.backward, -forward)), distance);
  return { ...place, position: add(place.position, way), center: add(place.center, way) };
}

// Comes nearer to the center by a factor.
export function zoom(place: Place, factor: number): Place {
  return { ...place, position: add(place.center, scale(sub(place.position, place.center), 1 / factor)) };
}

type Quaternion = [number, number, number, number]; // x, y, z, w

function quaternionOf(right: Vec3, up: Vec3, backward: Vec3): Quaternion {
  // The largest of the four first: the others are divided by it.
  const squares = [1 + right[0] - up[1] - backward[2], 1 - right[0] + up[1] - backward[2], 1 - right[0] - up[1] + backward[2], 1 + right[0] + up[1] + backward[2]];
  const [x, y, z, w] = [up[2] - backward[1], backward[0] - right[2], right[1] - up[0], squares[3]!];
  const [xy, xz, yz] = [right[1] + up[0], backward[0] + right[2], up[2] + backward[1]];
  const rows: Quaternion[] = [[squares[0]!, xy, xz, x], [xy, squares[1]!, yz, y], [xz, yz, squares[2]!, z], [x, y, z, w]];
  const most = squares.indexOf(Math.max(...squares));
  const row = rows[most]!;
  const length = Math.hypot(...row);
  return row.map((value) => value / length) as Quaternion;
}

function axesOf([x, y, z, w]: Quaternion): [Vec3, Vec3, Vec3] {
  return [
    [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
    [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
    [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
  ];
}

// The linear part of own_to_training without its scale, applied to a direction of the training frame the other way round.
function toOwn(header: SceneHeader, v: Vec3): Vec3 {
  const m = header.ownToTraining;
  return scale([0, 1, 2].map((i) => m[i]! * v[0] + m[4 + i]! * v[1] + m[8 + i]! * v[2]) as Vec3, 1 / header.scale);
}
function toTraining(header: SceneHeader, v: Vec3): Vec3 {
  const m = header.ownToTraining;
  return scale([0, 4, 8].map((i) => m[i]! * v[0] + m[i + 1]! * v[1] + m[i + 2]! * v[2]) as Vec3, 1 / header.scale);
}
const translation = (header: SceneHeader): Vec3 => column(header.ownToTraining, 3);

const short = (value: number) => Number(value.toPrecision(7)).toString();

// The place as the fragment of an address: position p and turn q (x, y, z, w; OpenGL's axes) in the data set's own frame and
// unit, vertical field of view f in degrees, and what it turns around, c.
export function fragmentOf(header: SceneHeader, place: Place, aspect: number): string {
  const own = (v: Vec3) => scale(toOwn(header, sub(v, translation(header))), 1 / header.scale);
  const [right, up, backward] = [place.right, place.up, place.backward].map((v) => toOwn(header, v)) as [Vec3, Vec3, Vec3];
  const degrees = (360 / Math.PI) * Math.atan(cameraOf(place, aspect).slopes[1]);
  const list = (values: number[]) => values.map(short).join(",");
  return `#p=${list(own(place.position))}&q=${list(quaternionOf(right, up, backward))}&f=${short(degrees)}&c=${list(own(place.center))}`;
}

// Null for a fragment that names no camera.
export function placeOfFragment(header: SceneHeader, fragment: string, aspect: number): Place | null {
  const parts = new URLSearchParams(fragment.replace(/^#/, ""));
  const numbers = (key: string, n: number): number[] | null => {
    const values = (parts.get(key) ?? "").split(",").map((text) => (text.trim() === "" ? NaN : Number(text)));
    return values.length === n && values.every((value) => Number.isFinite(value) && Math.abs(value) < 1e9) ? values : null;
  };
  const p = numbers("p", 3);
  const q = numbers("q", 4);
  const f = numbers("f", 1);
  if (!p || !q || !f || !(Math.hypot(...q) > 1e-6) || !(f[0]! > 0.1 && f[0]! < 179)) return null;
  const training = (v: number[]) => add(scale(toTraining(header, v as Vec3), header.scale), translation(header));
  const length = Math.hypot(...q);
  const [right, up, backward] = axesOf(q.map((value) => value / length) as Quaternion).map((v) => toTraining(header, v)) as [Vec3, Vec3, Vec3];
  const position = training(p);
  const slope = Math.tan((f[0]! * Math.PI) / 360);
  const c = numbers("c", 3);
  const center = c ? training(c) : centerAhead(position, backward, header.center);
  // A camera inside of what it turns around could not turn.
  const isApart = norm(sub(center, position)) > 1e-6 * header.distance;
  return { right, up, backward, position, slopes: [slope * aspect, slope], center: isApart ? center : add(position, scale(backward, -header.distance)) };
}

// The place on the suggested path, at a share of its length from 0 to 1.
export function placeOnPath(header: SceneHeader, share: number): Place {
  const { poses, closed, slopes } = header.path;
  const last = closed ? poses.length : poses.length - 1;
  const at = Math.min(Math.max(share, 0), 1) * last;
  const i = Math.min(Math.floor(at), Math.max(last - 1, 0));
  const [from, to] = [poses[i % poses.length]!, poses[(i + 1) % poses.length]!];
  const t = at - i;
  const mean = (axis: number): Vec3 => add(scale(column(from, axis), 1 - t), scale(column(to, axis), t));
  const backward = unit(mean(2));
  const right = unit(cross(mean(1), backward));
  const position = mean(3);
  return { right, up: cross(backward, right), backward, position, slopes, center: centerAhead(position, backward, header.center) };
}
