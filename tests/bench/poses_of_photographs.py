#!/usr/bin/env python3
"""Finds the poses of a data set's photographs with nerf-engine pose and compares them.

usage: poses_of_photographs.py [--samples 60M] [--out DIR] DATASET

DATASET is a folder with images/ and transforms.json. Its photographs are posed without that file.
Prints the seconds, how many are posed, and, after the best similarity, the median errors: degrees,
and distance as a share of the cameras' radius. Then it trains on the found poses and on the given
ones without placement keys, and prints both PSNR. Exits 1 beyond 480 s, 20 s without a line of
progress, a photograph that is not posed, 0.3 degrees, 0.5% or 0.5 dB. Run it from the repository's
root, with nerf-engine in PATH, and colmap installed.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

from camera_alignment import aligned, colmap_poses, pose_errors, psnr, radius

MAX_SECONDS, MAX_SILENCE = 480, 20
MAX_DEGREES, MAX_DISTANCE, MAX_LOST_DB = 0.3, 0.005, 0.5
CAMERA_KEYS = ("camera_angle_x", "camera_angle_y", "fl_x", "fl_y", "k1", "k2", "p1", "p2", "cx",
               "cy", "w", "h", "frames")  # all but those that place the scene


def find_poses(photographs, out):
    """Seconds of the search, and the longest time between two lines of it."""
    start = last = time.monotonic()
    silence = 0
    search = subprocess.Popen(["nerf-engine", "pose", photographs, "--out", out],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in search.stdout:
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        print(line, end="", flush=True)
    if search.wait() != 0:
        sys.exit(f"nerf-engine pose: exit {search.returncode}")
    return time.monotonic() - start, silence


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", default="60M")
    parser.add_argument("--out", help="keep data sets and models here")
    parser.add_argument("dataset", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(arguments.out or temporary)
        out.mkdir(parents=True, exist_ok=True)
        photographs, given = out / "photographs", out / "given"
        shutil.copytree(arguments.dataset / "images", photographs)
        given.mkdir()
        os.symlink(photographs.resolve(), given / "images")
        scene = json.loads((arguments.dataset / "transforms.json").read_text())
        scene["frames"] = [frame for frame in scene["frames"]
                           if (arguments.dataset / frame["file_path"]).exists()]
        (given / "transforms.json").write_text(
            json.dumps({key: scene[key] for key in CAMERA_KEYS if key in scene}))

        seconds, silence = find_poses(photographs, out / "posed")
        found = colmap_poses(out / "posed")
        poses = {pathlib.Path(frame["file_path"]).name: np.array(frame["transform_matrix"])[:3]
                 for frame in scene["frames"]}
        pairs = [(found[name], poses[name]) for name in sorted(set(found) & set(poses))]
        degrees, distance = map(np.median, pose_errors(*zip(*pairs), aligned(*zip(*pairs))))
        distance /= radius([given[:, 3] for _, given in pairs])
        print(f"{len(found)} of {len(poses)} photographs posed in {seconds:.0f} s, a line at least "
              f"every {silence:.0f} s; median errors {degrees:.3f} degrees, {100 * distance:.3f}% "
              f"of the cameras' radius", flush=True)
        of_found = psnr(out / "posed", out / "model_of_found", arguments.samples)
        of_given = psnr(given, out / "model_of_given", arguments.samples)
        print(f"{of_found:.2f} dB on the found poses, {of_given:.2f} dB on the given ones")
        missed = (seconds > MAX_SECONDS or silence > MAX_SILENCE or len(found) < len(poses) or
                  degrees > MAX_DEGREES or distance > MAX_DISTANCE or
                  of_found < of_given - MAX_LOST_DB)
        sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
