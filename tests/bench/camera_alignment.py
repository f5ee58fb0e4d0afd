"""Reads the cameras of COLMAP models and compares them with known ones."""
import pathlib
import struct

import numpy as np


def colmap_poses(folder):
    """Camera-to-world matrices [3, 4] (x right, y up, z backward) of folder/sparse/0, by the name
    of the photograph."""
    data = (pathlib.Path(folder) / "sparse/0/images.bin").read_bytes()
    (count,), at, poses = struct.unpack_from("<Q", data), 8, {}
    for _ in range(count):
        _, w, x, y, z, tx, ty, tz, _ = struct.unpack_from("<i7di", data, at)
        at += 64
        end = data.index(b"\0", at)
        (points,) = struct.unpack_from("<Q", data, end + 1)
        rotation = np.array(  # world to camera, whose axes are x right, y down, z forward
            [[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
             [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
             [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])
        center = -rotation.T @ (tx, ty, tz)
        poses[data[at:end].decode()] = np.column_stack([rotation.T * (1, -1, -1), center])
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
