#!/usr/bin/env python3
"""Draws an object of random shapes in Blender's layout, as one of the scenes to learn a start over
(nerf-engine meta). Needs numpy.

    tests/bench/draw_objects.py DIR --seed 1
"""

import argparse
import json
import math
import os
import struct
import zlib

import numpy as np


def png(width, height, depth, color, rows, interlaced=False):
    """The bytes of a PNG; each row begins with its filter."""
    def chunk(kind, body):
        return struct.pack('>I', len(body)) + kind + body + struct.pack('>I',
                                                                        zlib.crc32(kind + body))
    head = struct.pack('>IIBBBBB', width, height, depth, color, 0, 0, int(interlaced))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) +
            chunk(b'IEND', b''))


def write_png(path, rgba):
    height, width, _ = rgba.shape
    with open(path, 'wb') as file:
        file.write(png(width, height, 8, 6, b''.join(b'\0' + row.tobytes() for row in rgba)))


def camera_to_world(position):
    """A camera at `position` that looks at the origin, +z up."""
    backward = position / np.linalg.norm(position)
    right = np.cross([0.0, 0.0, 1.0], backward)
    right /= np.linalg.norm(right)
    matrix = np.eye(4)
    matrix[:3, 0] = right
    matrix[:3, 1] = np.cross(backward, right)
    matrix[:3, 2] = backward
    matrix[:3, 3] = position
    return matrix


class Ball:
    def __init__(self, random):
        self.center = random.uniform(-0.7, 0.7, 3)
        self.radius = random.uniform(0.15, 0.45)
        self.colors = random.uniform(0.1, 1.0, (2, 3))
        self.stripes = random.uniform(4, 14)
        self.axis = random.normal(size=3)
        self.axis /= np.linalg.norm(self.axis)

    def hit(self, origin, directions):
        """Distances [n], infinite where the ray misses."""
        to_center = origin - self.center
        b = directions @ to_center
        root = b * b - (to_center @ to_center - self.radius**2)
        t = -b - np.sqrt(np.maximum(root, 0))
        return np.where((root > 0) & (t > 0), t, np.inf)

    def color(self, points):
        normals = (points - self.center) / self.radius
        band = np.sin(self.stripes * (normals @ self.axis)) > 0
        light = 0.65 + 0.35 * normals[:, 2:3]
        return np.where(band[:, None], self.colors[0], self.colors[1]) * light


def draw(balls, pose, size, focal):
    side = np.arange(size) + 0.5 - size / 2
    x, y = np.meshgrid(side / focal, -side / focal)
    local = np.stack([x, y, -np.ones_like(x)], axis=-1).reshape(-1, 3)
    directions = local @ pose[:3, :3].T
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    origin = pose[:3, 3]
    distances = np.stack([ball.hit(origin, directions) for ball in balls])
    first = distances.argmin(axis=0)
    nearest = distances.min(axis=0)
    rgba = np.zeros((size * size, 4))
    for i, ball in enumerate(balls):
        seen = (first == i) & np.isfinite(nearest)
        points = origin + directions[seen] * nearest[seen][:, None]
        rgba[seen, :3] = ball.color(points)
        rgba[seen, 3] = 1
    return (rgba.reshape(size, size, 4) * 255 + 0.5).astype(np.uint8)


def reduced(rgba):
    """Means over 2x2 pixels, colors by their opacity."""
    values = rgba.astype(np.float64)
    values[..., :3] *= values[..., 3:] / 255
    height, width, _ = values.shape
    values = values.reshape(height // 2, 2, width // 2, 2, 4).mean(axis=(1, 3))
    opacity = np.maximum(values[..., 3:], 1e-6) / 255
    values[..., :3] /= opacity
    return np.clip(values + 0.5, 0, 255).astype(np.uint8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('dir')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--size', type=int, default=200, help='pixels along a side')
    parser.add_argument('--train', type=int, default=60, help='training pictures')
    parser.add_argument('--test', type=int, default=12, help='test pictures')
    flags = parser.parse_args()

    random = np.random.default_rng(flags.seed)
    balls = [Ball(random) for _ in range(12)]
    angle = 0.69
    focal = flags.size / math.tan(angle / 2)  # of pictures of twice the size
    for split, count in (('train', flags.train), ('test', flags.test)):
        os.makedirs(os.path.join(flags.dir, split), exist_ok=True)
        frames = []
        for i in range(count):
            turn, height = random.uniform(0, 2 * math.pi), random.uniform(-0.2, 0.9)
            flat = math.sqrt(1 - height * height)
            pose = camera_to_world(
                4.0 * np.array([flat * math.cos(turn), flat * math.sin(turn), height]))
            name = f'{split}/r_{i}'
            write_png(os.path.join(flags.dir, name + '.png'),
                      reduced(draw(balls, pose, 2 * flags.size, focal)))
            frames.append({'file_path': name, 'transform_matrix': pose.tolist()})
        with open(os.path.join(flags.dir, f'transforms_{split}.json'), 'w') as file:
            json.dump({'camera_angle_x': angle, 'frames': frames}, file, indent=1)


if __name__ == '__main__':
    main()
