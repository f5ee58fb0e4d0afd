#!/usr/bin/env python3
"""Photographs and films that cannot be posed: each must end soon, with code 9, reasons and list.

usage: unposable.py DATA [--service ADDRESS --worker-cache DIR] [--out DIR] [CASE...]

DATA has fox_quarter, fern_8 and drone_5. Each case goes through `nerf-engine pose`, or with
--service through `nerfctl pose` (NERFCTL_TOKEN). Prints for each: exit code, seconds, seconds since
its cause was known (the first effort was over: the stage that numbers it "so far", or the report),
the reasons by count and the first advice; exits 1 where a code is not 9, 90 s are exceeded, a list
is missing, or a folder or process is left. Needs python3-numpy, python3-pil, ffmpeg, colmap.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import numpy as np
from PIL import Image, ImageFilter, ImageOps

MAX_SECONDS = 90
CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def pictures(folder, n, ending="jpg"):
    found = sorted(folder.glob(f"*.{ending}")) + sorted(folder.glob(f"*.{ending.upper()}"))
    return [Image.open(path).convert("RGB") for path in found[:: max(1, len(found) // n)][:n]]


def save(out, images, quality=92):
    for k, image in enumerate(images):
        image.save(out / f"IMG_{k:04d}.jpg", quality=quality)


def film(out, images, name="clip.mp4"):
    frames = out / "frames"
    frames.mkdir()
    save(frames, images)
    subprocess.run(["ffmpeg", "-v", "error", "-framerate", "10", "-i", frames / "IMG_%04d.jpg",
                    "-pix_fmt", "yuv420p", "-vf", "crop=trunc(iw/2)*2:trunc(ih/2)*2", out / name],
                   check=True)
    shutil.rmtree(frames)


def turned(picture, n):
    """Views of a camera that turns on the spot."""
    w, h = picture.size
    big = np.array([[500, 0, w / 2], [0, 500, h / 2], [0, 0, 1]])
    small = np.array([[500, 0, 240], [0, 500, 160], [0, 0, 1]])
    for k in range(n):
        a, b = math.radians(2.2 * (k - n / 2 + 0.5)), 0.04 * math.sin(k)
        turn = np.array([[math.cos(a), 0, math.sin(a)], [0, 1, 0], [-math.sin(a), 0, math.cos(a)]])
        turn = turn @ np.array([[1, 0, 0], [0, math.cos(b), -math.sin(b)],
                                [0, math.sin(b), math.cos(b)]])
        to_big = big @ turn @ np.linalg.inv(small)
        change = (to_big / to_big[2, 2]).flatten()[:8]
        yield picture.transform((480, 320), Image.PERSPECTIVE, change, Image.BICUBIC)


@case
def one_spot(data, out):
    save(out, turned(pictures(data / "drone_5/images", 1)[0], 16))


@case
def one_spot_film(data, out):
    film(out, turned(pictures(data / "drone_5/images", 1)[0], 30))


@case
def blur(data, out):
    save(out, (p.filter(ImageFilter.GaussianBlur(12)) for p in
               pictures(data / "fox_quarter/images", 25)))


@case
def no_overlap(data, out):
    """Sixteen parts of one picture from high above."""
    p = pictures(data / "drone_5/images", 1)[0]
    w, h = p.size[0] // 4, p.size[1] // 4
    save(out, (p.crop((x * w, y * h, x * w + w, y * h + h)).resize((640, 480)) for x in range(4)
               for y in range(4)))


@case
def two_places(data, out):
    save(out, pictures(data / "fox_quarter/images", 12) +
         pictures(data / "fern_8/images_8", 12, "png"))


@case
def three_places(data, out):
    save(out, pictures(data / "fox_quarter/images", 8) + pictures(data / "drone_5/images", 8) +
         pictures(data / "fern_8/images_8", 8, "png"))


@case
def no_texture(_, out):
    """White walls under a lamp, with a camera's noise."""
    random = np.random.default_rng(1)
    y, x = np.mgrid[:480, :640]
    for k in range(14):
        light = 190 + 40 * np.exp(-((x - 320 - 15 * k) ** 2 + (y - 240) ** 2) / 1e5)
        noisy = light[..., None] + random.normal(0, 1.5, (480, 640, 3))
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(out / f"IMG_{k:04d}.jpg")


@case
def mirrored(data, out):
    """Every second photograph is its mirror image."""
    save(out, (ImageOps.mirror(p) if k % 2 else p for k, p in
               enumerate(pictures(data / "fox_quarter/images", 24))))


@case
def all_moves(_, out):
    """Nothing is on two photographs: a screen, water, leaves."""
    random = np.random.default_rng(2)
    for k in range(16):
        coarse = Image.fromarray(random.integers(0, 255, (60, 80, 3), np.uint8))
        coarse.resize((640, 480), Image.BICUBIC).save(out / f"IMG_{k:04d}.jpg")


@case
def doubles(data, out):
    picture = pictures(data / "fox_quarter/images", 1)[0]
    for k in range(12):
        picture.save(out / f"IMG_{k:04d}.jpg", quality=70 + 2 * k)


@case
def dark_film(data, out):
    film(out, (Image.eval(p, lambda v: v // 40) for p in pictures(data / "fox_quarter/images", 25)))


@case
def still_film(data, out):
    film(out, pictures(data / "fox_quarter/images", 1) * 30)


@case
def truncated(data, out):
    save(out, pictures(data / "fox_quarter/images", 12))
    for path in out.iterdir():
        path.write_bytes(path.read_bytes()[:400])


def cause_seconds(lines, begin, end):
    """When the end could be foreseen: the second effort began, or the search was over."""
    known = [seconds for seconds, line in lines if "so far" in line]
    return end - (known[0] if known else end) if begin is not None else 0


def processes(of):
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].rsplit(b"/", 1)[-1] in (b"colmap", b"ffmpeg") and any(
                os.fsencode(of) in word for word in words):
            found.append(process.name)
    return found


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--service")
    parser.add_argument("--worker-cache", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("unposable"))
    parser.add_argument("cases", nargs="*")
    flags = parser.parse_args()
    n_wrong = 0
    for name in flags.cases or CASES:
        source, posed = flags.out / name, flags.out / "posed" / name
        for folder in (source, posed):
            shutil.rmtree(folder, ignore_errors=True)
        source.mkdir(parents=True)
        posed.parent.mkdir(exist_ok=True)
        CASES[name](flags.data, source)
        before = set(flags.worker_cache.rglob("*")) if flags.worker_cache else set()
        command = ["nerf-engine", "pose", source, "--out", posed]
        if flags.service:
            command = ["nerfctl", "--server", flags.service, "pose", source, "--id", name.replace(
                "_", "-")]
        begin, lines = time.monotonic(), []
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in run.stdout:
            lines.append((time.monotonic() - begin, line))
        code, seconds = run.wait(), time.monotonic() - begin
        said = "".join(line for _, line in lines)
        reasons, advice = collections.Counter(), ""
        if (posed / "pose.json").exists():
            report = json.loads((posed / "pose.json").read_text())
            reasons.update(p.get("reason", "posed") for p in report["photos"])
            advice = report["again"][0] if report["again"] else ""
        since = cause_seconds(lines, begin, seconds)
        listed = len(re.findall(r"(IMG_\d+\.jpg|clip\.mp4)", said))
        left = [p for p in flags.out.rglob("*partial*")] + processes(str(flags.out))
        if flags.worker_cache:
            time.sleep(1)
            left += [p for p in flags.worker_cache.rglob("*")
                     if p not in before and not re.search("blob|engine", str(p))]
            left += processes(str(flags.worker_cache))
        is_right = code == 9 and since <= MAX_SECONDS and listed > 0 and not left
        n_wrong += not is_right
        print(f"{'ok   ' if is_right else 'WRONG'} {name}: exit {code}, {seconds:.0f} s, "
              f"{since:.0f} s since known, {listed} listed, {dict(reasons)}; {advice}", flush=True)
        if left or not is_right:
            print("      left:", left, "\n" + said[-1500:])
    sys.exit(1 if n_wrong else 0)


if __name__ == "__main__":
    main()
