#!/usr/bin/env python3
"""Draws panoramas of a room, finds their poses with nerf-engine pose, and compares.

usage: panoramas_of_known_room.py [--views 24] [--width 1024] [--samples 20M] [--film] [--out DIR]

Draws a furnished room from random places and, without telling anything else than the pictures,
poses them; then trains on the found poses, and on the given ones in the frame and box of the found.
Prints a table: errors after the best similarity in degrees and as a share of the cameras' radius,
PSNR, seconds. What --out holds already is not made again. --film makes a film of the panoramas
first, and trains nothing. Exits 1 if a panorama is not posed, or beyond 0.3 degrees, 0.5% (medians)
or 1 dB. Run it from the repository's root, with nerf-engine in PATH, and colmap installed.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import sys
import tempfile
import time

import numpy as np

from camera_alignment import aligned, colmap_pose, pose_errors, psnr, radius, run
from draw_objects import write_png

ROOM = np.array([[-2.6, -2.0, 0.0], [2.6, 2.0, 2.6]])  # low and high corner, meters
FURNITURE = ([[-2.6, -1.2, 0.0], [-1.8, 0.8, 0.75]], [[1.4, 1.2, 0.0], [2.6, 2.0, 1.9]],
             [[0.2, -2.0, 0.0], [1.2, -1.5, 1.1]], [[1.9, -1.0, 0.9], [2.6, 0.0, 1.4]])
CELL = 0.02  # meters of a texel
MAX_DEGREES, MAX_DISTANCE, MAX_LOST_DB = 0.3, 0.005, 1


def texture(random, height, width):
    """Blobs and posters of all sizes on a wall's color, [height, width, 3] in 0 to 1."""
    picture = np.tile(random.uniform(0.3, 0.8, 3), (height, width, 1))
    for side in (64, 32, 16, 8, 4, 2):
        for _ in range(int(1.2 * height * width / side**2)):
            h, w = (random.uniform(0.4, 1, 2) * side).astype(int) + 1
            y, x = random.integers(0, height), random.integers(0, width)
            patch = picture[y:y + h, x:x + w]
            patch += 0.5 * (random.uniform(0.1, 0.95, 3) - patch)
    return picture


class Box:
    """A box seen from inside or outside; each face has a texture."""

    def __init__(self, corners, random, inside):
        self.low, self.high = np.array(corners, float)
        self.inside = inside
        self.faces = {}
        for axis in range(3):
            u, v = [i for i in range(3) if i != axis]
            shape = np.ceil((self.high - self.low) / CELL).astype(int) + 2
            for side in range(2):
                self.faces[axis, side] = texture(random, shape[v], shape[u])

    def hit(self, origin, directions):
        """Distances [n], infinite where it is missed, and the axis of the face [n]."""
        with np.errstate(divide="ignore", invalid="ignore"):
            a = (self.low - origin) / directions
            b = (self.high - origin) / directions
        enter, leave = np.minimum(a, b), np.maximum(a, b)
        near, far = enter.max(axis=1), leave.min(axis=1)
        if self.inside:
            return far, leave.argmin(axis=1)
        return np.where((near < far) & (near > 0), near, np.inf), enter.argmax(axis=1)

    def color(self, points, axes):
        colors = np.zeros_like(points)
        for (axis, side), picture in self.faces.items():
            middle = (self.low[axis] + self.high[axis]) / 2
            mine = (axes == axis) & ((points[:, axis] > middle) == (side == 1))
            u, v = [i for i in range(3) if i != axis]
            at = (points[mine] - self.low) / CELL
            x = np.clip(at[:, u], 0, picture.shape[1] - 2)
            y = np.clip(at[:, v], 0, picture.shape[0] - 2)
            i, j = x.astype(int), y.astype(int)
            p, q = (x - i)[:, None], (y - j)[:, None]
            colors[mine] = ((picture[j, i] * (1 - p) + picture[j, i + 1] * p) * (1 - q) +
                            (picture[j + 1, i] * (1 - p) + picture[j + 1, i + 1] * p) * q)
        return colors


def draw(boxes, pose, width):
    """A panorama of `width` by half of it, 2 x 2 rays a pixel; RGBA."""
    height = width // 2
    total = np.zeros((height * width, 3))
    for dx, dy in ((0.25, 0.25), (0.75, 0.25), (0.25, 0.75), (0.75, 0.75)):
        longitude = (np.arange(width) + dx) / width * 2 * math.pi - math.pi
        latitude = (np.arange(height) + dy) / height * math.pi - math.pi / 2
        u, v = np.meshgrid(longitude, latitude)
        local = np.stack([np.sin(u) * np.cos(v), -np.sin(v), -np.cos(u) * np.cos(v)], axis=-1)
        directions = local.reshape(-1, 3) @ pose[:3, :3].T
        nearest = np.full(len(directions), np.inf)
        colors = np.zeros((len(directions), 3))
        for box in boxes:
            distances, axes = box.hit(pose[:3, 3], directions)
            mine = distances < nearest
            nearest = np.minimum(nearest, distances)
            points = pose[:3, 3] + directions[mine] * distances[mine, None]
            colors[mine] = box.color(points, axes[mine])
        total += colors / 4
    rgba = np.full((height, width, 4), 255, np.uint8)
    rgba[..., :3] = np.round(255 * total).reshape(height, width, 3)
    return rgba


def camera(random):
    """Camera to world: somewhere in the free middle, any heading, a little tilted."""
    yaw = random.uniform(0, 2 * math.pi)
    tilt, roll = random.normal(0, math.radians(3), 2)
    back = np.array([math.cos(yaw) * math.cos(tilt), math.sin(yaw) * math.cos(tilt),
                     math.sin(tilt)])
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    up = np.cross(back, right)
    right, up = (math.cos(roll) * right + math.sin(roll) * up,
                 math.cos(roll) * up - math.sin(roll) * right)
    pose = np.eye(4)
    pose[:3, :3] = np.column_stack([right, up, back])
    pose[:3, 3] = random.uniform([-1.4, -1.1, 1.2], [1.2, 0.9, 1.8])
    return pose


def way(i, n):
    """Of a film: a loop through the free middle."""
    turn = 2 * math.pi * i / n
    return [-0.1 + 1.1 * math.cos(turn), -0.1 + 0.8 * math.sin(turn),
            1.5 + 0.2 * math.sin(3 * turn)]


def draw_room(out, n, width, film):
    random = np.random.default_rng(7)
    boxes = [Box(ROOM, random, inside=True)]
    boxes += [Box(corners, random, inside=False) for corners in FURNITURE]
    frames = []
    (out / "images").mkdir(parents=True)
    for i in range(n):
        pose = camera(random)
        if film:
            pose = camera(np.random.default_rng(1))
            pose[:3, 3] = way(i, n)
        file = f"images/{i:03}.png"
        write_png(out / file, draw(boxes, pose, width))
        frames.append({"file_path": file, "transform_matrix": pose.tolist()})
    scene = {"camera_model": "EQUIRECTANGULAR", "w": width, "h": width // 2, "frames": frames}
    (out / "transforms.json").write_text(json.dumps(scene))


def panorama_poses(folder):
    """Camera-to-world matrices [3, 4] of a model in text, by the name of the panorama."""
    poses = {}
    lines = (folder / "sparse/0/images.txt").read_text().splitlines()
    for line in [line for line in lines if line and line[0] != "#"]:
        words = line.split()
        if len(words) < 10 or words[9].isdigit():
            continue
        poses[words[9]] = colmap_pose(*map(float, words[1:8]))
    return poses


def compare(posed, given, fps):
    """How many are posed of how many, of those the errors in degrees and shares, and the given
    poses by name in the frame of the found ones."""
    report = json.loads((posed / "pose.json").read_text())
    found = panorama_poses(posed)
    frames = [np.array(frame["transform_matrix"])[:3]
              for frame in json.loads((given / "transforms.json").read_text())["frames"]]
    pairs = []
    for photo in report["photos"]:
        file = photo.get("file", "").removeprefix("images/")
        if file in found:
            name = photo["name"]
            at = float(name.rsplit(" at ", 1)[1].split()[0]) * fps if fps else float(name[:3])
            pairs.append((file, found[file], frames[min(len(frames) - 1, int(at + 0.01))]))
    _, *poses = zip(*pairs)
    scale, rotation, shift = aligned(*poses)
    degrees, distances = pose_errors(*poses, (scale, rotation, shift))
    distances /= radius([b[:, 3] for _, _, b in pairs])
    moved = {file: np.column_stack([rotation.T @ b[:, :3], rotation.T @ (b[:, 3] - shift) / scale])
             for file, _, b in pairs}
    return len(pairs), len(report["photos"]), degrees, distances, moved


def quaternion(m):
    """Of a rotation [3, 3]: w, x, y, z. Source: Bar-Itzhack 2000, the largest eigenvector."""
    k = [[m[0][0] - m[1][1] - m[2][2], 0, 0, 0],
         [m[1][0] + m[0][1], m[1][1] - m[0][0] - m[2][2], 0, 0],
         [m[2][0] + m[0][2], m[2][1] + m[1][2], m[2][2] - m[0][0] - m[1][1], 0],
         [m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], np.trace(m)]]
    x, y, z, w = np.linalg.eigh(np.array(k))[1][:, 3]  # reads the lower triangle
    return w, x, y, z


def with_poses(posed, poses, out):
    """A copy of a posed folder, with its points, but with these poses."""
    shutil.copytree(posed, out)
    lines = []
    for line in (posed / "sparse/0/images.txt").read_text().splitlines():
        words = line.split()
        if line[:1] != "#" and len(words) >= 10 and words[9] in poses:
            pose = poses[words[9]]
            turn = (pose[:, :3] * (1, -1, -1)).T
            words[1:8] = [repr(float(v)) for v in (*quaternion(turn), *(-turn @ pose[:, 3]))]
        lines.append(" ".join(words))
    (out / "sparse/0/images.txt").write_text("\n".join(lines) + "\n")


def timed_psnr(dataset, out, samples):
    start = time.monotonic()
    result = psnr(dataset, out, samples)
    row(f"train on {dataset.name}", f"{result:.2f} dB", time.monotonic() - start)
    return result


def row(step, result, seconds):
    print(f"{step:24} {result:72} {seconds:5.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--views", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--samples", default="20M")
    parser.add_argument("--film", action="store_true")
    parser.add_argument("--out", help="keep data sets and models here")
    arguments = parser.parse_args()
    fps = 4 if arguments.film else 0
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(arguments.out or temporary)
        if not (out / "given/transforms.json").exists():
            draw_room(out / "given", arguments.views, arguments.width, arguments.film)
        source = out / "photographs"
        if arguments.film:
            source = out / "film.mp4"
            run("ffmpeg", "-y", "-v", "error", "-r", fps, "-i", out / "given/images/%03d.png",
                "-pix_fmt", "yuv420p", "-crf", "14", source)
        elif not source.exists():
            os.symlink((out / "given/images").resolve(), source)
        print(f"{'step':24} {'result':72} {'s':>5}")
        start = time.monotonic()
        if not (out / "found_poses").exists():
            run("nerf-engine", "pose", source, "--out", out / "found_poses")
        n, of, degrees, distances, moved = compare(out / "found_poses", out / "given", fps)
        median, share = np.median(degrees), np.median(distances)
        row("pose", f"{n} of {of}; median {median:.3f} degrees, {100 * share:.3f}%; largest "
            f"{degrees.max():.3f} degrees, {100 * distances.max():.3f}%", time.monotonic() - start)
        good = n == of and median <= MAX_DEGREES and share <= MAX_DISTANCE
        if not arguments.film:
            if not (out / "given_poses").exists():
                with_poses(out / "found_poses", moved, out / "given_poses")
            lost = (timed_psnr(out / "given_poses", out / "model_of_given", arguments.samples) -
                    timed_psnr(out / "found_poses", out / "model_of_found", arguments.samples))
            row("lost by finding poses", f"{lost:.2f} dB", 0)
            good = good and lost <= MAX_LOST_DB
        sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
