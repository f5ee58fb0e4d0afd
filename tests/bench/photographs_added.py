#!/usr/bin/env python3
"""Adds photographs to a scene with nerf-engine pose --into, and compares with all at once.

usage: photographs_added.py [--first 35] [--samples 10M] [--no-training] [--out DIR] DATASET

DATASET is a folder with images/ and transforms.json. A scene of its first frames, by name, gets the
photographs of the others without their poses. Prints the median errors of the added poses in
degrees and as a share of the cameras' radius, in the old frame: nothing is aligned. Then trains
the first frames with --samples, the larger scene from that model with as many and with a quarter
of them, and all frames from scratch with as many; prints PSNR over the same test views. Exits 1
unless all are posed, beyond 0.1 degrees, 0.1%, or if an old frame has changed. Run it from the
repository's root, with nerf-engine in PATH, and colmap installed.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile
import time

import numpy as np

from camera_alignment import pose_errors, psnr, radius, run

MAX_DEGREES, MAX_DISTANCE = 0.1, 0.001


def write_scene(folder, scene, frames):
    (folder / "images").mkdir(parents=True)
    for frame in frames:
        shutil.copy(scene["folder"] / frame["file_path"], folder / "images")
    keys = {key: value for key, value in scene.items() if key not in ("folder", "frames")}
    (folder / "transforms.json").write_text(json.dumps({**keys, "frames": frames}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=35)
    parser.add_argument("--samples", default="10M")
    parser.add_argument("--quarter", default="2500000")
    parser.add_argument("--no-training", action="store_true")
    parser.add_argument("--out", help="keep data sets and models here")
    parser.add_argument("dataset", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(arguments.out or temporary)
        scene = json.loads((arguments.dataset / "transforms.json").read_text())
        scene["folder"] = arguments.dataset
        frames = sorted((frame for frame in scene["frames"]
                         if (arguments.dataset / frame["file_path"]).exists()),
                        key=lambda frame: frame["file_path"])
        first, others = frames[:arguments.first], frames[arguments.first:]
        write_scene(out / "first", scene, first)
        write_scene(out / "all", scene, frames)
        (out / "more").mkdir()
        for frame in others:
            shutil.copy(arguments.dataset / frame["file_path"], out / "more")
        start = time.monotonic()
        run("nerf-engine", "pose", out / "more", "--into", out / "first", "--out", out / "added")
        seconds = time.monotonic() - start
        added = json.loads((out / "added/transforms.json").read_text())["frames"]
        kept = added[:len(first)] == first
        found = {pathlib.Path(frame["file_path"]).name: np.array(frame["transform_matrix"])[:3]
                 for frame in added[len(first):]}
        poses = {pathlib.Path(frame["file_path"]).name: np.array(frame["transform_matrix"])[:3]
                 for frame in frames}
        pairs = [(pose, poses[name]) for name, pose in found.items()]
        degrees, distances = pose_errors(*zip(*pairs))
        distances /= radius([pose[:, 3] for pose in poses.values()])
        print(f"{len(found)} of {len(others)} added in {seconds:.0f} s; old frames "
              f"{'are as they were' if kept else 'HAVE CHANGED'}; errors: median "
              f"{np.median(degrees):.4f} degrees, {100 * np.median(distances):.4f}% of the radius; "
              f"largest {max(degrees):.4f} degrees, {100 * max(distances):.4f}%", flush=True)
        good = (kept and len(found) == len(others) and np.median(degrees) <= MAX_DEGREES and
                np.median(distances) <= MAX_DISTANCE)
        if not arguments.no_training:
            psnr(out / "first", out / "models/first", arguments.samples)
            scratch = psnr(out / "all", out / "models/all", arguments.samples)
            print(f"{scratch:.2f} dB: all from scratch, {arguments.samples}", flush=True)
            for samples in (arguments.samples, arguments.quarter):
                of_added = psnr(out / "added", out / f"models/added_{samples}", samples,
                                out / "models/first/model.safetensors")
                print(f"{of_added:.2f} dB: added to the old model, {samples}", flush=True)
        sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
