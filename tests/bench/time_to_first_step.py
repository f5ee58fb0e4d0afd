#!/usr/bin/env python3
"""Seconds from the start of nerf-engine to the end of its first training step.

    tests/bench/time_to_first_step.py SCENE [--engine build/release/bin/nerf-engine] [--threads N]
                                      [--runs 5] [--cold]

Starts `nerf-engine train SCENE --steps 1 --json` and measures until its first progress line, which is
printed after that step. Prints each run and the medians of wall time and of processor time (all
threads, user and system); on a shared machine trust only the second. --cold drops the scene's files
from the page cache before each run (posix_fadvise).
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time


def drop_from_cache(folder):
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds_to_first_step(engine, scene, threads):
    with tempfile.TemporaryDirectory() as out:
        command = [engine, "train", str(scene), "--out", out, "--steps", "1", "--json", "--threads", str(threads)]
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            seconds = None
            for line in process.stdout:
                if '"progress"' in line:
                    seconds = time.perf_counter() - begin
                    break
            process.kill()
            _, process.returncode, usage = os.wait4(process.pid, 0)
        if seconds is None:
            sys.exit(f"{' '.join(command)} printed no progress line")
        return seconds, usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=pathlib.Path)
    parser.add_argument("--engine", default="build/release/bin/nerf-engine")
    parser.add_argument("--threads", type=int, default=0, help="default: one for each core")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cold", action="store_true", help="read the files from the disk each time")
    arguments = parser.parse_args()
    runs = []
    for _ in range(arguments.runs):
        if arguments.cold:
            drop_from_cache(arguments.scene)
        runs.append(seconds_to_first_step(arguments.engine, arguments.scene, arguments.threads))
    wall, processor = zip(*runs)
    print(" ".join(f"{seconds:.3f}" for seconds in wall), "s")
    print(f"median {statistics.median(wall):.3f} s from start to first step, {statistics.median(processor):.3f} s of processor "
          f"time, {arguments.scene}")


if __name__ == "__main__":
    main()
