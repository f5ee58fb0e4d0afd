#!/usr/bin/env python3
"""Draws a sphere, a torus and stairs, trains each, exports its mesh and measures it against the
shape. The torus is also turned, scaled and moved: in the model's file alone, which must move the
mesh exactly, and in the data set, which trains a model of its own in another frame.

usage: known_shapes.py [--samples 8M] [--out DIR] [SHAPE ...]

Prints a table of distances in 256ths of the level-0 box: from the mesh to the shape, and from the
shape to the mesh. Exits 1 where the mean or the 99th percentile exceeds 1.5 of them, the mesh is
not closed, an export takes more than 60 s or 1 GiB, or the moved model's mesh is off by more than
1e-4 of its size. Needs numpy. Run it from the repository's root with nerf-engine in PATH.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

from draw_objects import camera_to_world, draw, reduced, write_png

MAX_CELLS, MAX_SECONDS, MAX_GIB, MAX_MOVED = 1.5, 60, 1, 1e-4
SIZE, VIEWS, ANGLE, DISTANCE = 256, 72, 0.69, 4.0
BOX = 3.0  # side of the level-0 box that training finds: cameras stand 4 from what they look at


class Shape:
    """What draw() draws: a solid with a smooth pattern in place of light."""

    def color(self, points):
        return 0.5 + 0.35 * np.sin(points * (5, 6, 7) + (0, 1, 2))


class Sphere(Shape):
    radius = 0.8

    def hit(self, origin, directions):
        b = directions @ origin
        root = b * b - (origin @ origin - self.radius**2)
        return np.where(root > 0, -b - np.sqrt(np.maximum(root, 0)), np.inf)

    def distance(self, points):
        return np.linalg.norm(points, axis=1) - self.radius

    def samples(self, random, n):
        points = random.normal(size=(n, 3))
        return self.radius * points / np.linalg.norm(points, axis=1, keepdims=True)


class Torus(Shape):
    radius, thickness = 0.75, 0.25  # around the z axis

    def distance(self, points):
        ring = np.hypot(points[:, 0], points[:, 1]) - self.radius
        return np.hypot(ring, points[:, 2]) - self.thickness

    def hit(self, origin, directions):
        t = np.full(len(directions), np.linalg.norm(origin) - 1.1)
        active = np.arange(len(directions))
        for _ in range(200):
            step = self.distance(origin + directions[active] * t[active][:, None])
            t[active] += step
            active = active[(step > 1e-5) & (t[active] < 6)]
            if len(active) == 0:
                break
        return np.where(t < 6, t, np.inf)

    def samples(self, random, n):
        turn, around = random.uniform(0, 2 * math.pi, (2, 8 * n))
        ring = self.radius + self.thickness * np.cos(around)
        points = np.stack([ring * np.cos(turn), ring * np.sin(turn),
                           self.thickness * np.sin(around)], axis=1)
        return points[random.uniform(0, 1, 8 * n) * ring.max() < ring][:n]


class Stairs(Shape):
    """Four steps along x; y from -0.6 to 0.6."""
    lefts, tops = (-0.8, -0.4, 0, 0.4), (-0.3, 0, 0.3, 0.6)
    right, floor, half_width = 0.8, -0.6, 0.6

    def outline(self):
        corners = [(self.right, self.floor), (self.right, self.tops[-1])]
        for i in reversed(range(len(self.lefts))):
            corners.append((self.lefts[i], self.tops[i]))
            corners.append((self.lefts[i], self.tops[i - 1] if i > 0 else self.floor))
        return np.array(corners)

    def hit(self, origin, directions):
        nearest = np.full(len(directions), np.inf)
        with np.errstate(divide='ignore', invalid='ignore'):
            for left, top in zip(self.lefts, self.tops):
                a = ((left, -self.half_width, self.floor) - origin) / directions
                b = ((self.right, self.half_width, top) - origin) / directions
                enter, leave = np.minimum(a, b).max(axis=1), np.maximum(a, b).min(axis=1)
                is_hit = (enter < leave) & (enter > 0)
                nearest = np.where(is_hit, np.minimum(enter, nearest), nearest)
        return nearest

    def distance(self, points):
        x, z, corners = points[:, 0], points[:, 2], self.outline()
        squared, inside = np.full(len(points), np.inf), np.zeros(len(points), bool)
        for (ax, az), (bx, bz) in zip(corners, np.roll(corners, -1, axis=0)):
            along = ((x - ax) * (bx - ax) + (z - az) * (bz - az)) / ((bx - ax)**2 + (bz - az)**2)
            along = np.clip(along, 0, 1)
            squared = np.minimum(squared, (x - ax - along * (bx - ax))**2 +
                                 (z - az - along * (bz - az))**2)
            if az != bz:
                inside ^= ((az > z) != (bz > z)) & (x < ax + (z - az) / (bz - az) * (bx - ax))
        flat = np.where(inside, -1, 1) * np.sqrt(squared)
        across = np.abs(points[:, 1]) - self.half_width
        outside = np.hypot(np.maximum(flat, 0), np.maximum(across, 0))
        return np.where((flat < 0) & (across < 0), np.maximum(flat, across), outside)

    def samples(self, random, n):
        points = random.uniform(-1, 1, (400 * n, 3))
        distance = self.distance(points)
        near = np.abs(distance) < 0.01
        points, distance = points[near], distance[near]
        for _ in range(3):  # along the gradient onto the surface
            slope = np.stack([(self.distance(points + step) - self.distance(points - step)) / 2e-4
                              for step in 1e-4 * np.eye(3)], axis=1)
            points = points - self.distance(points)[:, None] * slope
        return points[np.abs(self.distance(points)) < 1e-4][:n]


SHAPES = {'sphere': Sphere(), 'torus': Torus(), 'stairs': Stairs()}


class Move:
    """A turn, then a scale, then a shift."""

    def __init__(self, axis=(0, 0, 1), degrees=0.0, scale=1.0, shift=(0, 0, 0)):
        axis, angle = np.array(axis, float) / np.linalg.norm(axis), math.radians(degrees)
        skew = np.cross(np.eye(3), -axis)
        self.turn = np.eye(3) + math.sin(angle) * skew + (1 - math.cos(angle)) * skew @ skew
        self.scale, self.shift = scale, np.array(shift, float)

    def points(self, points):
        return self.scale * points @ self.turn.T + self.shift

    def back(self, points):
        return (points - self.shift) @ self.turn / self.scale

    def pose(self, pose):
        moved = np.eye(4)
        moved[:3, :3] = self.turn @ pose[:3, :3]
        moved[:3, 3] = self.points(pose[:3, 3])
        return moved


def draw_data_set(shape, folder, move):
    """Pictures from all around, with alpha, in the form that nerfstudio reads."""
    random = np.random.default_rng(1)
    focal = SIZE / 2 / math.tan(ANGLE / 2)
    os.makedirs(folder / 'images', exist_ok=True)
    frames = []
    for i in range(VIEWS):
        turn, height = random.uniform(0, 2 * math.pi), -0.95 + 1.9 * (i + 0.5) / VIEWS
        flat = math.sqrt(1 - height * height)
        pose = camera_to_world(
            DISTANCE * np.array([flat * math.cos(turn), flat * math.sin(turn), height]))
        name = f'images/{i:03}.png'
        if not (folder / name).exists():
            write_png(folder / name, reduced(draw([shape], pose, 2 * SIZE, 2 * focal)))
        frames.append({'file_path': name, 'transform_matrix': move.pose(pose).tolist()})
    scene = {'w': SIZE, 'h': SIZE, 'fl_x': focal, 'fl_y': focal, 'cx': SIZE / 2, 'cy': SIZE / 2,
             'frames': frames}
    (folder / 'transforms.json').write_text(json.dumps(scene, indent=1))


def run(*arguments):
    """Runs a program; returns the last event of its JSON lines, and its memory in bytes."""
    process = subprocess.Popen([str(a) for a in arguments], stdout=subprocess.PIPE)
    lines = process.stdout.read().decode().splitlines()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: status {status}")
    return json.loads(lines[-1]), usage.ru_maxrss * 1024


def read_mesh(path):
    """Positions [n, 3] and triangles [m, 3] of a mesh of nerf-engine export."""
    data = path.read_bytes()
    end = data.index(b'end_header\n') + len(b'end_header\n')
    count = {line.split()[1]: int(line.split()[2])
             for line in data[:end].decode().splitlines() if line.startswith('element')}
    vertices = np.frombuffer(data, np.dtype([('p', '<f4', 3), ('n', '<f4', 3), ('c', 'u1', 3)]),
                             count['vertex'], end)
    faces = np.frombuffer(data, np.dtype([('n', 'u1'), ('v', '<i4', 3)]), count['face'],
                          end + vertices.nbytes)
    return vertices['p'].astype(float), faces['v']


def is_closed(triangles):
    edges = np.concatenate([triangles[:, [0, 1]], triangles[:, [1, 2]], triangles[:, [2, 0]]])
    there = edges[:, 0].astype(np.int64) << 32 | edges[:, 1]
    back = edges[:, 1].astype(np.int64) << 32 | edges[:, 0]
    return len(np.unique(there)) == len(there) and np.array_equal(np.sort(there), np.sort(back))


def mesh_samples(positions, triangles, random, n):
    """Points of the surface, evenly by area."""
    a, b, c = (positions[triangles[:, i]] for i in range(3))
    areas = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    chosen = random.choice(len(triangles), n, p=areas / areas.sum())
    u, v = random.uniform(0, 1, (2, n, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    return a[chosen] + u * (b[chosen] - a[chosen]) + v * (c[chosen] - a[chosen])


def nearest(points, among):
    """The distance of each point to the nearest of `among`."""
    squares = (among**2).sum(axis=1)
    squared = [((p**2).sum() + squares - 2 * among @ p).min() for p in points]
    return np.sqrt(np.maximum(squared, 0))


def restated(model, out, move):
    """The same model, whose data set's frame is another: own' = move(own)."""
    data = model.read_bytes()
    (length,) = struct.unpack_from('<Q', data)
    header = json.loads(data[8:8 + length])
    meta = header['__metadata__']
    numbers = [float(word) for word in meta['scene.own_to_training'].split()]
    own_to_training = np.array(numbers).reshape(3, 4)
    linear = own_to_training[:, :3] @ move.turn.T / move.scale
    moved = np.column_stack([linear, own_to_training[:, 3] - linear @ move.shift])
    meta['scene.own_to_training'] = ' '.join(repr(float(np.float32(x))) for x in moved.ravel())
    meta['scene.scale'] = repr(float(np.float32(float(meta['scene.scale']) / move.scale)))
    text = ''
    for name in sorted(set(header) - {'__metadata__'}):
        shape = ','.join(map(str, header[name]['shape']))
        text += f"{len(name)}:{name}={header[name]['dtype']}[{shape}]\n"
    for key in sorted(set(meta) - {'sha256.__header__'}):
        value = meta[key]
        text += f'{len(key.encode())}:{key}={len(value.encode())}:{value}\n'
    meta['sha256.__header__'] = hashlib.sha256(text.encode()).hexdigest()
    packed = json.dumps(header, ensure_ascii=False).encode()
    packed += b' ' * (-len(packed) % 8)
    out.write_bytes(struct.pack('<Q', len(packed)) + packed + data[8 + length:])


def train(folder, samples):
    model = folder / 'run/model.safetensors'
    if not model.exists():
        run('nerf-engine', 'train', folder, '--out', folder / 'run', '--samples', samples,
            '--test-every', 0, '--no-eval', '--set', 'boxes=1', '--json')
    return model


def box_of(move):
    """Around the shape, along the axes, as wide as the level-0 box."""
    side = BOX * move.scale
    return '--crop=' + ','.join(str(x) for x in [*move.shift, side, side, side])


def measure(name, shape, model, move):
    """Exports and compares. Returns the row of the table and whether it is good."""
    mesh = model.parent / 'mesh.ply'
    done, memory = run('nerf-engine', 'export', model, '--out', mesh, box_of(move), '--json')
    positions, triangles = read_mesh(mesh)
    random = np.random.default_rng(2)
    points = move.back(mesh_samples(positions, triangles, random, 200_000))
    cell = BOX / 256
    there = np.abs(shape.distance(points)) / cell
    back = nearest(shape.samples(random, 2000), points) / cell
    closed = is_closed(triangles)
    figures = [there.mean(), np.percentile(there, 99), back.mean(), np.percentile(back, 99)]
    good = (max(figures) <= MAX_CELLS and closed and done['seconds'] <= MAX_SECONDS and
            memory <= MAX_GIB * 2**30)
    print(f'{name:20}' + ''.join(f'{x:8.2f}' for x in figures) +
          f"{'closed' if closed else 'OPEN':>8}{len(triangles):9}{done['seconds']:7.1f}"
          f'{memory / 2**20:7.0f}', flush=True)
    return good


def measure_restated(model, move):
    """The mesh of the model in another frame against the mesh moved there."""
    moved = model.parent / 'moved.safetensors'
    restated(model, moved, move)
    meshes = []
    for file in (model, moved):
        out = file.with_suffix('.ply')
        run('nerf-engine', 'export', file, '--out', out, '--json')
        meshes.append(read_mesh(out))
    (before, triangles), (after, same) = meshes
    off = np.inf
    if np.array_equal(triangles, same):
        size = np.linalg.norm(after.max(axis=0) - after.min(axis=0))
        off = np.linalg.norm(after - move.points(before), axis=1).max() / size
    print(f'{"restated frame":20} vertices off by at most {off:.1e} of the mesh', flush=True)
    return off <= MAX_MOVED


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('shapes', nargs='*', help='sphere, torus, stairs, moved (default: all)')
    parser.add_argument('--samples', default='8M')
    parser.add_argument('--out', help='keeps and uses what is there')
    flags = parser.parse_args()
    wanted = flags.shapes or [*SHAPES, 'moved']
    still = Move()
    move = Move((1, 2, 3), 100, 0.37, (5, -3, 11))
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(flags.out or scratch)
        print(f'{"":20}{"mesh to shape":>16}{"shape to mesh":>16}\n{"":20}' +
              '    mean     99%' * 2 + '    edges   triang.     s    MiB')
        good = True
        for name in wanted:
            moving = move if name == 'moved' else still
            shape = SHAPES['torus' if name == 'moved' else name]
            draw_data_set(shape, out / name, moving)
            model = train(out / name, flags.samples)
            label = 'torus, moved set' if name == 'moved' else name
            good = measure(label, shape, model, moving) and good
            if name == 'torus':
                good = measure_restated(model, move) and good
    sys.exit(0 if good else 1)


if __name__ == '__main__':
    main()
