#!/usr/bin/env python3
"""Renders exported splats as 3D Gaussian splatting does, and compares them with the model's views.

usage: splats_quality.py [--views 6] [--side 400] [--max-splats N] [--out DIR] MODEL ...

Exports splats and cameras of each MODEL, renders some of the cameras by nerf-engine and the splats
by a rasterizer of its own (Kerbl et al. 2023: projected covariances plus 0.3 pixels, front to
back), on white, and prints the PSNR of the latter against the former. --out keeps the pictures.
Needs numpy and PIL. Run it with nerf-engine in PATH.
"""
import argparse
import json
import pathlib
import tempfile

import numpy as np
from PIL import Image

from camera_alignment import run

REACH = 3.4  # of a splat, standard deviations
BATCH, MOST_PIXELS = 4000, 2e7  # splats at once, and pixels of their squares


def read_splats(path):
    """Columns by name, each [n]."""
    data = path.read_bytes()
    end = data.index(b'end_header\n') + len(b'end_header\n')
    lines = data[:end].decode().splitlines()
    names = [line.split()[2] for line in lines if line.startswith('property')]
    rows = np.frombuffer(data, '<f4', offset=end).reshape(-1, len(names)).astype(float)
    return {name: rows[:, i] for i, name in enumerate(names)}


def covariances(splats):
    """[n, 3, 3], from unit quaternions w, x, y, z and the logarithms of the radii."""
    w, x, y, z = (splats[f'rot_{i}'] for i in range(4))
    turn = np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                     2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                     2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)
    axes = turn.reshape(-1, 3, 3) * np.exp(
        np.stack([splats[f'scale_{i}'] for i in range(3)], axis=1))[:, None, :]
    return axes @ axes.transpose(0, 2, 1)


def colors_from(splats, directions):
    """[n, 3]; directions: from the camera, unit length. Up to degree 2."""
    x, y, z = directions.T
    harmonics = [0.28209479 + 0 * x, -0.48860251 * y, 0.48860251 * z, -0.48860251 * x,
                 1.09254843 * x * y, -1.09254843 * y * z, 0.31539157 * (3 * z * z - 1),
                 -1.09254843 * x * z, 0.54627422 * (x * x - y * y)]
    n_rest = sum(name.startswith('f_rest') for name in splats) // 3
    color = np.full((len(x), 3), 0.5)
    for channel in range(3):
        names = [f'f_dc_{channel}'] + [f'f_rest_{channel * n_rest + k}' for k in range(n_rest)]
        for harmonic, name in zip(harmonics, names):
            color[:, channel] += harmonic * splats[name]
    return np.maximum(color, 0)


def covered(x, y, inverse, opacity, reach, width, height):
    """The pixels of some splats: their rows, the pixels' numbers and the opacities there."""
    side = int(np.ceil(reach.max())) + 1
    steps = np.arange(-side, side + 1)
    dx, dy = (a.ravel() for a in np.meshgrid(steps, steps))
    column, row = np.floor(x).astype(int)[:, None] + dx, np.floor(y).astype(int)[:, None] + dy
    u, v = column + 0.5 - x[:, None], row + 0.5 - y[:, None]
    power = -0.5 * (inverse[:, 0, 0, None] * u * u + inverse[:, 1, 1, None] * v * v) - (
        inverse[:, 0, 1, None] * u * v)
    alpha = np.minimum(0.99, opacity[:, None] * np.exp(power))
    inside = (alpha >= 1 / 255) & (column >= 0) & (column < width) & (row >= 0) & (row < height)
    return np.nonzero(inside)[0], (row * width + column)[inside], alpha[inside]


def rasterize(splats, camera):
    """[height, width, 3] on white."""
    width, height = camera['w'], camera['h']
    pose = np.array(camera['transform_matrix'])[:3]
    turn = (pose[:, :3] * (1, -1, -1)).T  # world to x right, y down, z forward
    points = (np.stack([splats['x'], splats['y'], splats['z']], axis=1) - pose[:, 3]) @ turn.T
    seen = points[:, 2] > 0.01
    x, y, z = points[seen].T
    fx, fy = camera['fl_x'], camera['fl_y']
    jacobian = np.zeros((len(z), 2, 3))
    jacobian[:, 0, 0], jacobian[:, 0, 2] = fx / z, -fx * x / z**2
    jacobian[:, 1, 1], jacobian[:, 1, 2] = fy / z, -fy * y / z**2
    project = jacobian @ turn
    flat = project @ covariances(splats)[seen] @ project.transpose(0, 2, 1) + 0.3 * np.eye(2)
    inverse = np.linalg.inv(flat)
    reach = REACH * np.sqrt(np.linalg.eigvalsh(flat)[:, 1])
    column, line = fx * x / z + camera['cx'], fy * y / z + camera['cy']
    opacity = (1 / (1 + np.exp(-splats['opacity'])))[seen]
    offsets = np.stack([splats['x'], splats['y'], splats['z']], axis=1) - pose[:, 3]
    color = colors_from(splats, offsets / np.linalg.norm(offsets, axis=1, keepdims=True))[seen]
    beside = (column + reach < 0) | (line + reach < 0) | (column - reach > width) | (
        line - reach > height)
    reach = np.minimum(reach, np.hypot(width, height) + np.hypot(column - width / 2,
                                                                 line - height / 2))
    order = np.argsort(reach, kind='stable')  # those of like size together
    order = order[~beside[order]]
    found = []
    begin = 0
    while begin < len(order):
        some = order[begin:begin + BATCH]
        some = some[:max(1, int(MOST_PIXELS / (2 * reach[some[-1]] + 3)**2))]
        begin += len(some)
        rows, pixels, alphas = covered(column[some], line[some], inverse[some], opacity[some],
                                       reach[some], width, height)
        found.append((some[rows], pixels, alphas))
    which, pixels, alphas = (np.concatenate(a) for a in zip(*found))
    sort = np.lexsort((z[which], pixels))
    which, pixels, alphas = which[sort], pixels[sort], alphas[sort]
    # The light that is left before each: a running sum of logarithms, less that of its pixel's
    # first.
    left = np.concatenate([[0], np.cumsum(np.log1p(-alphas))])
    first = np.searchsorted(pixels, pixels)
    weights = alphas * np.exp(left[:-1] - left[first])
    picture = np.zeros((width * height, 3))
    for channel in range(3):
        picture[:, channel] = np.bincount(pixels, weights * color[which, channel], width * height)
    rest = 1 - np.bincount(pixels, weights, width * height)
    return (picture + rest[:, None]).reshape(height, width, 3)


def chosen_cameras(path, n, side):
    """n of the cameras, evenly, as pinholes with pictures of at most `side` pixels a side."""
    cameras = json.loads(path.read_text())['frames']
    chosen = [cameras[i * len(cameras) // n] for i in range(min(n, len(cameras)))]
    for i, camera in enumerate(chosen):
        shrink = min(1, side / max(camera['w'], camera['h']))
        width, height = round(camera['w'] * shrink), round(camera['h'] * shrink)
        chosen[i] = {'transform_matrix': camera['transform_matrix'],
                     'w': width, 'h': height,
                     'fl_x': camera['fl_x'] * width / camera['w'],
                     'fl_y': camera['fl_y'] * height / camera['h'],
                     'cx': camera['cx'] * width / camera['w'],
                     'cy': camera['cy'] * height / camera['h']}
    return chosen


def measure(model, out, flags):
    run('nerf-engine', 'export', model, '--out', out / 'splats.ply', '--format', 'splats',
        '--max-splats', flags.max_splats)
    run('nerf-engine', 'export', model, '--out', out / 'all.json', '--format', 'cameras')
    cameras = chosen_cameras(out / 'all.json', flags.views, flags.side)
    (out / 'cameras.json').write_text(json.dumps({'frames': cameras}))
    run('nerf-engine', 'render', model, '--camera', out / 'cameras.json', '--out', out / 'views')
    splats = read_splats(out / 'splats.ply')
    decibels = []
    for i, camera in enumerate(cameras):
        view = np.asarray(Image.open(out / f'views/rgb_{i:04}.png').convert('RGB')) / 255
        drawn = rasterize(splats, camera)
        Image.fromarray((drawn * 255 + 0.5).clip(0, 255).astype(np.uint8)).save(
            out / f'splats_{i}.png')
        decibels.append(-10 * np.log10(((drawn - view)**2).mean()))
    print(f"{model}: {len(splats['x'])} splats, {np.mean(decibels):.2f} dB "
          f'({min(decibels):.2f} to {max(decibels):.2f})', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('models', nargs='+', type=pathlib.Path, metavar='MODEL')
    parser.add_argument('--views', type=int, default=6)
    parser.add_argument('--max-splats', type=int, default=200000)
    parser.add_argument('--side', type=int, default=400, help='of the views, pixels')
    parser.add_argument('--out', type=pathlib.Path)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for i, model in enumerate(flags.models):
            out = (flags.out or pathlib.Path(scratch)) / str(i)
            out.mkdir(parents=True, exist_ok=True)
            measure(model, out, flags)


if __name__ == '__main__':
    main()
