"""Reads the cameras of COLMAP models and compares them with known ones; runs programs."""
import json
import pathlib
import struct
import subprocess
import sys

import numpy as np


def run(*arguments, codes=(0,)):
    """What a program prints; ends the script unless its exit code is one of `codes`."""
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode not in codes:
        sys.exit(f"{' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def psnr(dataset, out, samples, init="none"):
    """Of a training, dB."""
    lines = run("nerf-engine", "train", dataset, "--samples", samples, "--seed", "1", "--out", out,
                "--json", "--init", init)
    return json.loads(lines.strip().splitlines()[-1])["psnr"]


def colmap_pose(w, x, y, z, tx, ty, tz):
    """Camera to world [3, 4] (x right, y up, z backward) of a line of COLMAP's images."""
    rotation = np.array(  # world to camera, whose axes are x right, y down, z forward
        [[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
         [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
         [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])
    return np.column_stack([rotation.T * (1, -1, -1), -rotation.T @ (tx, ty, tz)])


def colmap_poses(folder):
    """The poses (colmap_pose) of folder/sparse/0, by the name of the photograph."""
    data = (pathlib.Path(folder) / "sparse/0/images.bin").read_bytes()
    (count,), at, poses = struct.unpack_from("<Q", data), 8, {}
    for _ in range(count):
        _, *pose, _ = struct.unpack_from("<i7di", data, at)
        at += 64
        end = data.index(b"\0", at)
        (points,) = struct.unpack_from("<Q", data, end + 1)
        poses[data[at:end].decode()] = colmap_pose(*pose)
        at = end + 9 + 24 * points
    return poses


def similarity(source, target):
    """(scale, rotation [3, 3], shift [3]) that moves the points source [n, 3] to target with the
    least squared error (Umeyama 1991)."""
    source, target = np.asarray(source, float), np.asarray(target, float)
    mean_source, mean_target = source.mean(axis=0), target.mean(axis=0)
    a, b = source - mean_source, target - mean_target
    u, s, vt = np.linalg.svd(b.T @ a)
    signs = np.array([1, 1, np.sign(np.linalg.det(u @ vt))])
    rotation = u @ np.diag(signs) @ vt
    scale = (s * signs).sum() / (a * a).sum()
    return scale, rotation, mean_target - scale * rotation @ mean_source


def radius(points):
    """The largest distance of the points [n, 3] from their mean."""
    points = np.asarray(points, float)
    return np.linalg.norm(points - points.mean(axis=0), axis=1).max()


def pose_errors(found, given, frame=(1, np.eye(3), np.zeros(3))):
    """Degrees and distances [n] between poses [n][3, 4] that the similarity `frame` moves and the
    given ones."""
    scale, rotation, shift = frame
    source = np.array([pose[:, 3] for pose in found])
    target = np.array([pose[:, 3] for pose in given])
    distances = np.linalg.norm(scale * source @ rotation.T + shift - target, axis=1)
    cosines = [(np.trace((rotation @ a[:, :3]).T @ b[:, :3]) - 1) / 2 for a, b in zip(found, given)]
    return np.degrees(np.arccos(np.clip(cosines, -1, 1))), distances


def aligned(found, given):
    """The best similarity of the poses' positions, for pose_errors."""
    return similarity([pose[:, 3] for pose in found], [pose[:, 3] for pose in given])
