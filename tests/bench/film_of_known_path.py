#!/usr/bin/env python3
"""Films a known path through a model, finds the path again with nerf-engine pose, and compares.

usage: film_of_known_path.py [--frames 120] [--film-frames 120] [--width 480] [--out DIR]
                             MODEL DATASET

MODEL is a model of DATASET, a folder with transforms.json whose frames, sorted by name, were taken
along a way. The path is that way, smoothed. Prints, after the best similarity between the two, the
median and the largest distance between given and found positions as a share of the path's radius,
and exits 1 if the median exceeds 1% or fewer than 90% of the frames are posed. Run it from the
repository's root, with nerf-engine in PATH, and ffmpeg and colmap installed.
"""
import argparse
import json
import math
import pathlib
import sys
import tempfile

import numpy as np

from camera_alignment import colmap_poses, radius, run, similarity

WINDOW = 1.6  # frames; standard deviation of the smoothing
MAX_MEDIAN = 0.01
MIN_POSED = 0.9


def unit(a):
    length = math.hypot(*a)
    return [x / length for x in a]


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def smoothed(matrices, at):
    """The mean pose near place `at` of the list, its axes made orthonormal again."""
    weights = [math.exp(-0.5 * ((i - at) / WINDOW) ** 2) for i in range(len(matrices))]
    total = sum(weights)
    mean = [[sum(w * m[r][c] for w, m in zip(weights, matrices)) / total for c in range(4)]
            for r in range(3)]
    back = unit([row[2] for row in mean])
    right = unit(cross([row[1] for row in mean], back))
    up = cross(back, right)
    return [[right[r], up[r], back[r], mean[r][3]] for r in range(3)] + [[0, 0, 0, 1]]


def make_path(dataset, n, width):
    scene = json.loads((dataset / "transforms.json").read_text())
    frames = sorted((f for f in scene["frames"] if (dataset / f["file_path"]).exists()),
                    key=lambda f: f["file_path"])
    matrices = [f["transform_matrix"] for f in frames]
    scale = width / scene["w"]
    height = 2 * round(scene["h"] * scale / 2)
    margin = 2  # the mean of fewer frames than the window would shorten the ends
    span = len(matrices) - 1 - 2 * margin
    poses = [smoothed(matrices, margin + span * i / (n - 1)) for i in range(n)]
    focal = scene["fl_x"] * scale
    return {"w": width, "h": height, "fl_x": focal, "fl_y": focal, "cx": width / 2,
            "cy": height / 2, "frames": [{"transform_matrix": pose} for pose in poses]}


def compare(path, folder, fps):
    """Prints the distances; whether they are small enough."""
    report = json.loads((folder / "pose.json").read_text())
    found = colmap_poses(folder)
    given = [[row[3] for row in frame["transform_matrix"][:3]] for frame in path["frames"]]
    source, target = [], []
    for photo in report["photos"]:
        file = photo.get("file", "").removeprefix("images/")
        if file not in found:
            continue
        seconds = float(photo["name"].rsplit(" at ", 1)[1].split()[0])
        source.append(found[file][:, 3])
        # The frame that is shown at that time, which pose.json rounds to 0.01 s.
        target.append(given[min(len(given) - 1, int((seconds + 0.005) * fps))])
    scale, rotation, shift = similarity(source, target)
    moved = scale * np.array(source) @ rotation.T + shift
    errors = sorted(np.linalg.norm(moved - target, axis=1) / radius(given))
    share = len(source) / len(report["photos"])
    print(f"{len(source)} of {len(report['photos'])} frames posed; distance from the path: median "
          f"{100 * errors[len(errors) // 2]:.3f}%, largest {100 * errors[-1]:.3f}% of its radius")
    return errors[len(errors) // 2] <= MAX_MEDIAN and share >= MIN_POSED


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--film-frames", type=int, default=120)
    parser.add_argument("--width", type=int, default=480)
    parser.add_argument("--out", help="keep film and data set here")
    parser.add_argument("model")
    parser.add_argument("dataset", type=pathlib.Path)
    arguments = parser.parse_args()
    fps = 30
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(arguments.out or temporary)
        out.mkdir(parents=True, exist_ok=True)
        path = make_path(arguments.dataset, arguments.frames, arguments.width)
        (out / "path.json").write_text(json.dumps(path))
        run("nerf-engine", "render", arguments.model, "--camera", out / "path.json", "--video",
            out / "film.mp4", "--fps", fps)
        run("nerf-engine", "pose", out / "film.mp4", "--out", out / "posed", "--film-frames",
            arguments.film_frames, codes=(0, 9))  # 9: too few are posed, which is compared below
        sys.exit(0 if compare(path, out / "posed", fps) else 1)


if __name__ == "__main__":
    main()
