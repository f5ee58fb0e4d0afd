#!/usr/bin/env python3
"""Trains on drawn pictures of fisheyes and on their pinhole twins, and compares the PSNR.

usage: fisheye_twin.py [--samples 40M] [--side 128] [--seed 1] [--keep DIR] [LENS...]

A room with balls, drawn by its formulas, from the same places: once through a pinhole, once through
each lens (COLMAP's formulas: k of OPENCV_FISHEYE, SIMPLE_RADIAL_FISHEYE, RADIAL_FISHEYE) of the
same diagonal angle. Pixels of a fisheye are finer in the middle and coarser in the corners, so each
model is ahead on views of its own lens: both are tested on views of both. Exits 1 where a lens
loses more than 0.3 dB in the mean of the two. Small budgets vary by some dB with the seed. Run it
with nerf-engine in PATH; needs python3-numpy, python3-pil. What --keep holds is not trained again.
"""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from PIL import Image

MAX_LOSS = 0.3  # dB
HALF_DIAGONAL = math.radians(48)
LENSES = {"OPENCV_FISHEYE": (-0.03, 0.012, -0.004, 0.001), "SIMPLE_RADIAL_FISHEYE": (-0.05,),
          "RADIAL_FISHEYE": (-0.04, 0.02)}
BALLS = [((0.35, 0.1, -0.25), 0.28, (0.9, 0.3, 0.2)), ((-0.4, -0.2, -0.3), 0.22, (0.2, 0.5, 0.9)),
         ((0.0, 0.45, -0.1), 0.18, (0.3, 0.8, 0.3)), ((-0.1, -0.5, 0.2), 0.15, (0.9, 0.8, 0.2))]


def stretch(theta, k):
    """COLMAP's distance from the center over the focal length, at an angle from the axis."""
    return theta * (1 + sum(c * theta ** (2 * i + 2) for i, c in enumerate(k)))


def pinhole_rays(x, y, focal, _):
    return np.stack([x / focal, -y / focal, -np.ones_like(x)], -1)


def fisheye_rays(x, y, focal, k):
    radius = np.hypot(x, y) / focal
    theta = radius.copy()
    for _ in range(30):  # Newton's method
        slope = 1 + sum((2 * i + 3) * c * theta ** (2 * i + 2) for i, c in enumerate(k))
        theta -= (stretch(theta, k) - radius) / slope
    scale = np.sin(theta) / np.maximum(np.hypot(x, y), 1e-12)
    return np.stack([x * scale, -y * scale, -np.cos(theta)], -1)


def pattern(p, base):
    waves = np.sin(7 * p[..., 0:1] + 3 * np.sin(5 * p[..., 1:2])) * np.sin(6 * p[..., 2:3] + 1)
    return np.clip(np.array(base) * (0.7 + 0.3 * waves), 0, 1)


def trace(origin, rays):
    """Colors of a room of -2 to 2 with balls in it."""
    rays = rays / np.linalg.norm(rays, axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        walls = np.max(np.stack([(2 - origin) / rays, (-2 - origin) / rays]), axis=0)
    t = walls.min(-1)
    color = pattern(origin + t[..., None] * rays, (0.75, 0.7, 0.65))
    for center, radius, base in BALLS:
        offset = origin - np.array(center)
        b = rays @ offset
        root = b * b - (offset @ offset - radius * radius)
        near = -b - np.sqrt(np.maximum(root, 0))
        hit = (root > 0) & (near > 0) & (near < t)
        t = np.where(hit, near, t)
        at = 3 * (origin + near[..., None] * rays)
        color = np.where(hit[..., None], pattern(at, base), color)
    return color


def draw(pose, side, make_rays, focal, k):
    n = 3  # samples along a side of a pixel
    at = (np.arange(side * n) + 0.5) / n - side / 2
    x, y = np.meshgrid(at, at)
    color = trace(pose[:3, 3], make_rays(x, y, focal, k) @ pose[:3, :3].T)
    color = color.reshape(side, n, side, n, 3).mean((1, 3))
    return Image.fromarray((255 * color + 0.5).astype(np.uint8))


def pose_at(azimuth, height):
    place = np.array([1.45 * math.cos(azimuth), 1.45 * math.sin(azimuth), height])
    back = place / np.linalg.norm(place)
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    pose = np.eye(4)
    pose[:3] = np.stack([right, np.cross(back, right), back, place], 1)
    return pose


def write(folder, split, poses, side, lens, k=()):
    corner = side / math.sqrt(2)
    make_rays = pinhole_rays if lens == "PINHOLE" else fisheye_rays
    focal = corner / (math.tan(HALF_DIAGONAL) if lens == "PINHOLE" else stretch(HALF_DIAGONAL, k))
    scene = dict(camera_model=lens, fl_x=focal, fl_y=focal, cx=side / 2, cy=side / 2, w=side,
                 h=side, frames=[], **{f"k{i + 1}": c for i, c in enumerate(k)})
    (folder / split).mkdir(parents=True)
    for i, pose in enumerate(poses):
        name = f"{split}/{i:03d}.png"
        draw(pose, side, make_rays, focal, k).save(folder / name)
        scene["frames"].append(dict(file_path=name, transform_matrix=pose.tolist()))
    (folder / f"transforms_{split}.json").write_text(json.dumps(scene))


def run(*arguments):
    done = subprocess.run(["nerf-engine", *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"nerf-engine {arguments[0]}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def psnr_of(trained, views):
    """PSNR of the model trained on one folder over the test views of another."""
    printed = run("eval", trained / "model/model.safetensors", views)
    return float(re.findall(r"^PSNR ([0-9.]+) dB", printed, re.MULTILINE)[-1])


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--samples", default="40M")
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep")
    parser.add_argument("lenses", nargs="*")
    flags = parser.parse_args()
    train = [pose_at(2.399 * i, 0.6 * math.sin(1.7 * i)) for i in range(40)]
    test = [pose_at(2.399 * i + 0.4, 0.5 * math.cos(1.3 * i)) for i in range(8)]
    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(flags.keep or scratch)
        twin = root / "PINHOLE"
        columns = f"{'lens':>7} {'twin':>7} {'gain':>6}"
        print(f"{'dB':22} {'on pinhole views':>22} {'on views of the lens':>22}  mean\n"
              f"{'trained on':22} {columns} {columns}")
        for lens in ["PINHOLE"] + (flags.lenses or list(LENSES)):
            folder = root / lens
            if not (folder / "model/model.safetensors").exists():
                write(folder, "train", train, flags.side, lens, LENSES.get(lens, ()))
                write(folder, "test", test, flags.side, lens, LENSES.get(lens, ()))
                run("train", folder, "--out", folder / "model", "--samples", flags.samples,
                    "--seed", flags.seed, "--set", "box=0,0,0,4.2")
            if folder == twin:
                continue
            pairs = [(psnr_of(folder, views), psnr_of(twin, views)) for views in (twin, folder)]
            gains = [a - b for a, b in pairs]
            cells = " ".join(f"{a:7.2f} {b:7.2f} {a - b:+6.2f}" for a, b in pairs)
            print(f"{lens:22} {cells} {np.mean(gains):+6.2f}", flush=True)
            worst = max(worst, -np.mean(gains))
    sys.exit(1 if worst > MAX_LOSS else 0)


if __name__ == "__main__":
    main()
