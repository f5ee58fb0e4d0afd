#!/usr/bin/env python3
"""Plants one fault in each of ten captures and prints what `nerf-engine explain` says of it.

usage: explain_faults.py [--only NAME,...] [--out DIR] DATA

DATA is the folder of NERF_TEST_DATA, with fox_quarter, lego_200 and drone_5. Each capture is copied
with its fault, trained for some seconds, and explained. Prints the first sentence of each and
whether it names the fault; `clean` captures, without a fault, are printed beside them. Exits 1 if
fewer than nine of ten are named. Run it from the repository's root, with nerf-engine in PATH.
"""
import argparse
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image, ImageFilter

BLURRED, DARK, STRAY = (5, 20), (12,), (9, 30)  # of fox_quarter's frames by name; none a test view


class Capture:
    """A data set in memory: lists of frames, each with its picture's path."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.lists = {path.name: json.loads(path.read_text())
                      for path in sorted(self.folder.glob("transforms*.json"))}
        self.pictures = {}  # changed ones, by file_path

    def frames(self, name="transforms.json"):
        return sorted(self.lists[name]["frames"], key=lambda frame: frame["file_path"])

    def path(self, frame):
        path = self.folder / frame["file_path"]
        return path if path.suffix else path.with_suffix(".png")

    def picture(self, frame):
        return self.pictures.get(frame["file_path"]) or Image.open(self.path(frame))

    def change(self, frame, change):
        self.pictures[frame["file_path"]] = change(self.picture(frame))

    def keep(self, name, wanted):
        self.lists[name]["frames"] = [frame for i, frame in enumerate(self.frames(name))
                                      if wanted(i, frame)]

    def write(self, folder):
        for name, scene in self.lists.items():
            for frame in scene["frames"]:
                source = self.path(frame)
                target = folder / source.relative_to(self.folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                changed = self.pictures.get(frame["file_path"])
                if changed is None:
                    shutil.copy(source, target)
                else:
                    changed.save(target, quality=95)
            (folder / name).write_text(json.dumps(scene))


def blur(capture):
    for i in BLURRED:
        capture.change(capture.frames()[i],
                       lambda picture: picture.filter(ImageFilter.GaussianBlur(3)))


def exposure(capture):
    for i in DARK:
        capture.change(capture.frames()[i], lambda picture: picture.point(lambda v: v * 0.55))


def turn(matrix, axis, degrees):
    x, y, z = np.array(axis) / np.linalg.norm(axis)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    angle = math.radians(degrees)
    rotation = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
    matrix = np.array(matrix, dtype=float)
    matrix[:3, :3] = rotation @ matrix[:3, :3]
    return matrix.tolist()


def stray_poses(capture):
    for i, axis in zip(STRAY, ((1, 2, 0), (0, 1, 2))):
        frame = capture.frames()[i]
        frame["transform_matrix"] = turn(frame["transform_matrix"], axis, 3)


def project(scene, frame, points):
    """Image positions of points [n, 3], and which lie before the camera."""
    inverse = np.linalg.inv(np.array(frame["transform_matrix"]))
    seen = points @ inverse[:3, :3].T + inverse[:3, 3]
    u, v = seen[:, 0] / -seen[:, 2], -seen[:, 1] / -seen[:, 2]
    r2 = u * u + v * v
    radial = 1 + scene.get("k1", 0) * r2 + scene.get("k2", 0) * r2 * r2
    x = scene["fl_x"] * u * radial + scene["cx"]
    y = scene["fl_y"] * v * radial + scene["cy"]
    return np.stack([x, y], 1), seen[:, 2] < 0


def middle(scene):
    """Where the cameras look, and the mean directions to their right and up."""
    a, b = np.zeros((3, 3)), np.zeros(3)
    for frame in scene["frames"]:
        matrix = np.array(frame["transform_matrix"])
        away = np.eye(3) - np.outer(matrix[:3, 2], matrix[:3, 2])
        a += away
        b += away @ matrix[:3, 3]
    return np.linalg.solve(a, b)


def quad(scene, shift, size):
    """Corners of a square that faces the cameras, near what they look at."""
    matrices = [np.array(frame["transform_matrix"]) for frame in scene["frames"]]
    back = np.mean([matrix[:3, 2] for matrix in matrices], 0)
    back /= np.linalg.norm(back)
    up = np.mean([matrix[:3, 1] for matrix in matrices], 0)
    up -= back * (up @ back)
    up /= np.linalg.norm(up)
    right = np.cross(up, back)
    distance = np.median([np.linalg.norm(m[:3, 3] - middle(scene)) for m in matrices])
    center = middle(scene) + distance * (shift[0] * right + shift[1] * up + shift[2] * back)
    half = distance * size / 2
    return np.array([center + half * (x * right + y * up)
                     for x, y in ((-1, 1), (1, 1), (1, -1), (-1, -1))])


def paste(picture, corners, content):
    """The picture with `content` in the quadrilateral of the corners."""
    width, height = content.size
    source = [(0, 0), (width, 0), (width, height), (0, height)]
    rows = []
    for (x, y), (u, v) in zip(corners, source):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
    numbers = np.linalg.solve(np.array(rows), np.array(source, dtype=float).reshape(8))
    mask = Image.new("L", content.size, 255).transform(picture.size, Image.PERSPECTIVE, numbers)
    warped = content.transform(picture.size, Image.PERSPECTIVE, numbers, Image.BILINEAR)
    result = picture.copy()
    result.paste(warped, (0, 0), mask)
    return result


def show(capture, frame, square, content):
    scene = capture.lists["transforms.json"]
    corners, is_before = project(scene, frame, square)
    if is_before.all():
        capture.change(frame, lambda picture: paste(picture.convert("RGB"), corners, content))


def mirror(capture):
    """A square that shows another part of the room in each photograph."""
    square = quad(capture.lists["transforms.json"], (0.1, -0.1, 0.2), 0.25)
    for frame in capture.frames():
        picture = capture.picture(frame).convert("RGB").transpose(Image.FLIP_LEFT_RIGHT)
        matrix = np.array(frame["transform_matrix"])
        # What it reflects moves the other way, twice as fast.
        shift = int(2000 * (matrix[0, 2] + matrix[1, 2])) % picture.width
        part = Image.fromarray(np.roll(np.array(picture), shift, 1))
        show(capture, frame, square, part.crop((0, 0, picture.width, picture.width)))


def checks():
    x, y = np.meshgrid(np.arange(64), np.arange(64))
    value = ((x // 16 + y // 16) % 2)[..., None]
    return Image.fromarray((value * [200, 60, 40] + (1 - value) * [250, 220, 60]).astype("uint8"))


def moved(capture):
    """A board that stands elsewhere in a third of the photographs."""
    scene = capture.lists["transforms.json"]
    before, after = quad(scene, (0.12, -0.15, 0.2), 0.2), quad(scene, (-0.12, -0.15, 0.2), 0.2)
    for i, frame in enumerate(capture.frames()):
        show(capture, frame, after if i % 3 == 1 else before, checks())


def few_pictures(capture):
    names = [frame["file_path"] for frame in capture.frames()]
    test = set(names[::8])
    train = [name for name in names if name not in test][::6]
    capture.keep("transforms.json",
                 lambda i, frame: frame["file_path"] in test or frame["file_path"] in train)
    # Written as a split, so that the test views stay.
    scene = capture.lists.pop("transforms.json")
    for name, wanted in (("transforms_train.json", train), ("transforms_test.json", test)):
        capture.lists[name] = {**scene, "frames": [frame for frame in scene["frames"]
                                                   if frame["file_path"] in wanted]}


def focal_length(capture):
    for key in ("fl_x", "fl_y"):
        capture.lists["transforms.json"][key] *= 1.1
    for key in ("camera_angle_x", "camera_angle_y"):
        capture.lists["transforms.json"].pop(key, None)


def occluded(capture):
    """Nobody went behind it: no training photograph from a third of the directions."""
    def is_in_front(i, frame):
        matrix = np.array(frame["transform_matrix"])
        return math.cos(math.atan2(matrix[1, 3], matrix[0, 3]) - 0.5) < 0.4
    capture.keep("transforms_train.json", is_in_front)


def nothing(capture):
    del capture


# Name, data set, fault, flags of the training, what the sentence names.
FOX = ["--samples", "12M", "--set", "max_side=240"]
LEGO = ["--samples", "8M", "--background", "white"]
FAULTS = [
    ("blur", "fox_quarter", blur, FOX, "blur"),
    ("exposure", "fox_quarter", exposure, FOX, "exposure"),
    ("stray poses", "fox_quarter", stray_poses, FOX, "stray pose"),
    ("mirror", "fox_quarter", mirror, FOX, "mirror"),
    ("few pictures", "fox_quarter", few_pictures, FOX, "few pictures"),
    ("moved", "fox_quarter", moved, FOX, "moved"),
    ("focal length", "fox_quarter", focal_length, FOX, "focal length"),
    ("budget", "drone_5", nothing, ["--samples", "2M"], "budget"),
    ("table", "lego_200", nothing,
     LEGO + ["--set", "log2_hashmap_size=12,finest_resolution=64"], "table"),
    ("occluded", "lego_200", occluded, LEGO, "occluded"),
]
CLEAN = [
    ("clean fox", "fox_quarter", nothing, FOX, None),
    ("clean lego", "lego_200", nothing, LEGO, None),
]


def check(name, dataset, plant, flags, wanted, out):
    folder = out / name.replace(" ", "_")
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "capture").mkdir(parents=True)
    capture = Capture(dataset)
    plant(capture)
    capture.write(folder / "capture")
    if (capture.folder / "sparse").exists():
        shutil.copytree(capture.folder / "sparse", folder / "capture/sparse")
    start = time.monotonic()
    subprocess.run(["nerf-engine", "train", folder / "capture", "--out", folder / "run",
                    "--no-eval", *flags], check=True, capture_output=True)
    trained = time.monotonic()
    result = explain(folder)
    end = time.monotonic()
    first = result["causes"][0] if result["causes"] else {"cause": "nothing"}
    is_right = wanted is None or first["cause"] == wanted
    print(f"{name}: {'right' if is_right else 'WRONG'} "
          f"(trained {trained - start:.0f} s, explained {end - trained:.0f} s)\n"
          f"  {result['sentence']}")
    for cause in result["causes"]:
        print(f"    {cause['gain_db']:5.2f} dB {cause['cause']}: {cause['place']}")
    sys.stdout.flush()
    return is_right


def explain(folder):
    done = subprocess.run(["nerf-engine", "explain", folder / "run", folder / "capture", "--json"],
                          check=True, capture_output=True, text=True)
    (folder / "explain.json").write_text(done.stdout.splitlines()[-1])
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="names, with commas between them")
    parser.add_argument("--out", help="keep captures and models here")
    parser.add_argument("data", type=pathlib.Path)
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else None
    with tempfile.TemporaryDirectory() as temporary:
        out = pathlib.Path(arguments.out or temporary)
        chosen = [row for row in FAULTS + CLEAN if only is None or row[0] in only]
        n_wrong = sum(not check(name, arguments.data / dataset, plant, flags, wanted, out)
                      for name, dataset, plant, flags, wanted in chosen)
        print(f"{n_wrong} wrong of {sum(row[4] is not None for row in chosen)} faults")
        sys.exit(n_wrong > 1)


if __name__ == "__main__":
    main()
