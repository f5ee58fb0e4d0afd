#!/usr/bin/env python3
"""From 12-megapixel photographs to views: time, processor time and memory of every program.

    tests/bench/large_photographs.py DATASET [--bin build/release/bin] [--work DIR]
                                     [--megapixels 12] [--train FLAG]...

Scales the pictures of DATASET (a folder with transforms.json) up with ffmpeg, starts a nerfd with a
new data folder, and runs `nerfctl train` on them and then every command that the programs print as
the next one. Prints what each command took, and for each program its processor time and largest
memory. Exits 1 if a command fails, if training and its first views take more than --max-seconds, or
if the programs together hold more than --max-gib at a time. --work keeps the scaled pictures for
the next run. Run it on idle cores.
"""
import argparse
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from nerfd_process import start_nerfd

INTERVAL = 0.1  # seconds between two looks at the memory
# Phones' sensors are noisy: without noise the JPEGs would be small and fast to decode.
FILTER = "scale={}:{}:flags=lanczos,noise=alls=8:allf=t"
SCALED_KEYS = ("w", "h", "fl_x", "fl_y", "cx", "cy")


def scale_pictures(dataset, out, megapixels):
    """Writes the data set with larger pictures; its poses stay."""
    scene = json.loads((dataset / "transforms.json").read_text())
    factor = math.sqrt(megapixels * 1e6 / (scene["w"] * scene["h"]))
    width, height = (2 * round(scene[key] * factor / 2) for key in ("w", "h"))
    if (out / "transforms.json").exists():
        return width, height
    # Files may list pictures that were left out of the data set.
    scene["frames"] = [frame for frame in scene["frames"]
                       if (dataset / frame["file_path"]).exists()]
    for frame in scene["frames"]:
        picture = out / frame["file_path"]
        picture.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", dataset / frame["file_path"], "-vf",
                        FILTER.format(width, height), "-q:v", "2", picture], check=True)
    ratio = width / scene["w"]
    for holder in [scene, *scene["frames"]]:
        for key in SCALED_KEYS:
            if key in holder:
                holder[key] *= ratio
    scene["w"], scene["h"] = width, height
    (out / "transforms.json").write_text(json.dumps(scene))
    return width, height


def read(path):
    try:
        return pathlib.Path(path).read_text()
    except OSError:  # it has ended
        return ""


class Watcher(threading.Thread):
    """Looks at this process's descendants until stop() is called."""

    def __init__(self):
        super().__init__(daemon=True)
        self.peak_bytes = 0  # of all together
        self.by_pid = {}  # pid -> [name, processor seconds, largest bytes]
        self.done = threading.Event()

    def run(self):
        while not self.done.wait(INTERVAL):
            self.look()

    def look(self):
        parents, names, seconds = {}, {}, {}
        for entry in os.listdir("/proc"):
            stat = read(f"/proc/{entry}/stat") if entry.isdigit() else ""
            if not stat:
                continue
            name, rest = stat[stat.index("(") + 1:].rsplit(")", 1)
            fields, pid = rest.split(), int(entry)
            parents[pid], names[pid] = int(fields[1]), name
            seconds[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        total = 0
        for pid in parents:
            ancestor = pid
            while ancestor > 1 and ancestor != os.getpid():
                ancestor = parents.get(ancestor, 0)
            if ancestor != os.getpid() or pid == ancestor:
                continue
            # Pss shares pages that several processes map among them, so that sums are true.
            share = re.search(r"^Pss: +(\d+) kB", read(f"/proc/{pid}/smaps_rollup"), re.M)
            share = int(share[1]) * 1024 if share else 0
            total += share
            record = self.by_pid.setdefault(pid, [names[pid], 0, 0])
            record[:] = [names[pid], seconds[pid], max(record[2], share)]
        self.peak_bytes = max(self.peak_bytes, total)

    def stop(self):
        self.done.set()
        self.join()


def commands_in(text):
    """The commands that a program prints as next ones, in its order."""
    found = []
    for line in re.findall(r"^next: (.*)$", text, re.M):
        command, _, remark = line.partition("   (")
        found.append(command.strip())
        found += re.findall(r"(nerf(?:ctl|-engine)(?: \S+)+?)(?= keeps| finds)", remark)
    return found + re.findall(r"`(nerf(?:ctl|-engine) [^`]*)`", text)


def run_command(command, environment, folder):
    """Runs it in a shell; its seconds, and the commands that it prints."""
    begin = time.monotonic()
    done = subprocess.run(command, shell=True, cwd=folder, env=environment, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    seconds = time.monotonic() - begin
    print(f"{seconds:7.1f} s  exit {done.returncode}  {command}", flush=True)
    for line in done.stdout.splitlines():
        print(f"           | {line}")
    return seconds, done.returncode, commands_in(done.stdout)


def walk(train, environment, folder):
    """Runs `train` and all that is printed from there on: seconds to the first views, successes."""
    queue, seen, to_views, all_ok, has_views = [train], set(), 0, True, False
    while queue:
        command = queue.pop(0)
        if command in seen:
            continue
        seen.add(command)
        seconds, code, printed = run_command(command, environment, folder)
        all_ok = all_ok and code == 0
        if not has_views:
            to_views += seconds
        has_views = has_views or " render " in command
        queue += printed
    return to_views, all_ok and has_views


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dataset", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default="build/release/bin")
    parser.add_argument("--work", type=pathlib.Path, help="keep the scaled pictures here")
    parser.add_argument("--megapixels", type=float, default=12)
    parser.add_argument("--train", action="append", default=[], help="flag for nerfctl train")
    parser.add_argument("--max-seconds", type=float, default=120)
    parser.add_argument("--max-gib", type=float, default=1.5)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # nerfd is stopped
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        photos = (arguments.work or folder).resolve() / "photos"
        width, height = scale_pictures(arguments.dataset, photos, arguments.megapixels)
        sizes = [path.stat().st_size for path in photos.rglob("*.jpg")]
        print(f"{len(sizes)} pictures of {width}x{height}, {sum(sizes) / 1e6:.0f} MB", flush=True)
        bin_folder = arguments.bin.resolve()
        environment = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}")
        nerfd, ports = start_nerfd(bin_folder, folder / "data", "--listen", "127.0.0.1:0",
                                   "--web-listen", "none", environment=environment)
        environment["NERFCTL_SERVER"] = ports["grpc"]
        watcher = Watcher()
        watcher.start()
        try:
            train = " ".join(["nerfctl train", str(photos), *arguments.train])
            seconds, all_ok = walk(train, environment, folder)
        finally:
            watcher.stop()
            nerfd.send_signal(signal.SIGTERM)
            nerfd.wait()
    of_program = {}
    for name, processor, largest in watcher.by_pid.values():
        record = of_program.setdefault(name, [0, 0])
        record[:] = [record[0] + processor, max(record[1], largest)]
    for name, (processor, largest) in of_program.items():
        if name.startswith("nerf"):
            print(f"{name:12} {processor:7.1f} s of processors, at most {largest / 2**20:.0f} MiB")
    peak = watcher.peak_bytes / 2**30
    print(f"views after {seconds:.1f} s, {peak:.2f} GiB together; "
          f"{'every command exits 0' if all_ok else 'A COMMAND FAILED'}")
    sys.exit(0 if all_ok and seconds <= arguments.max_seconds and peak <= arguments.max_gib else 1)


if __name__ == "__main__":
    main()
