#!/usr/bin/env python3
"""Two pose jobs and four trainings on one worker: who waits, heartbeats, memory and forecasts.

usage: crowded_worker.py [--bin build/release/bin] [--samples 2M] [--photos 8] DATA

DATA has fox_quarter, lego_200 and mic_200. All six are queued at once. Prints when each began and
ended, the longest time between two heartbeats, and the most that the engine of a training held
against what `nerf-engine train` says that it needs. Exits 1 if a job fails or never begins, a
heartbeat takes longer than 10 s, or memory is 20% off. Needs colmap; the forecast is asked for with
a /proc/meminfo of 2 MB in a namespace of its own (unshare -rm).
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from nerfd_process import start_nerfd

MAX_BEAT, MAX_OFF = 10, 0.2


def forecast(engine, data, samples, scratch):
    """MiB that a training says it needs."""
    poor = scratch / "meminfo"
    poor.write_text("MemTotal: 8000000 kB\nMemFree: 2000 kB\nMemAvailable: 2000 kB\n")
    train = f"exec {engine} train {data} --out {scratch}/none --samples {samples}"
    command = ["unshare", "-rm", "sh", "-c", f"mount --bind {poor} /proc/meminfo && {train}"]
    said = subprocess.run(command, capture_output=True, text=True).stderr
    found = re.search(r"training needs (\d+) MiB", said)
    return int(found[1]) if found else sys.exit(f"no forecast: {said}")


def engines():
    """Peak MiB of the processes that serve trainings and pose, by pid."""
    held = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if not words[0].endswith(b"nerf-engine") or b"serve" not in words:
                continue
            lines = (process / "status").read_text().splitlines()
            held[process.name] = next(int(line.split()[1]) / 1024 for line in lines
                                      if line.startswith("VmHWM"))
        except (OSError, StopIteration):
            continue
    return held


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--samples", default="2M")
    parser.add_argument("--photos", type=int, default=8)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        server, ports = start_nerfd(flags.bin, scratch / "data", "--listen", "127.0.0.1:0",
                                    "--no-local-worker")
        worker = subprocess.Popen(
            [flags.bin / "nerf-worker", "--server", ports["grpc"], "--cache-dir", scratch / "cache",
             "--token-file", scratch / "data/worker.token"],
            stdout=subprocess.DEVNULL, stderr=open(scratch / "worker.log", "w"))
        environment = dict(os.environ, NERFCTL_TOKEN=(scratch / "data/admin.token").read_text())

        def ctl(*words):
            command = [flags.bin / "nerfctl", "--server", ports["grpc"], "--progress", "none"]
            run = subprocess.run([*command, *words], capture_output=True, text=True,
                                 env=environment)
            if run.returncode != 0:
                sys.exit(f"nerfctl {' '.join(map(str, words))}: {run.stdout}{run.stderr}")
            return run.stdout
        try:
            watch(flags, scratch, ctl)
        finally:
            for process in (worker, server):
                process.terminate()
                process.wait()


def watch(flags, scratch, ctl):
    jobs = []
    for k in range(2):
        photos = scratch / f"photos-{k}"
        photos.mkdir()
        listed = sorted((flags.data / "fox_quarter/images").iterdir())
        for path in listed[k * flags.photos:(k + 1) * flags.photos]:
            shutil.copy(path, photos)
        ctl("pose", photos, "--id", f"fox-{k}", "--detach")
        jobs.append(f"fox-{k}")
    scenes = {f"{name}-{k}": name for name in ("lego_200", "mic_200") for k in (0, 1)}
    for job, name in scenes.items():
        job_id = job.replace("_", "-")
        ctl("train", flags.data / name, "--id", job_id, "--samples", flags.samples, "--seed",
            job[-1], "--detach")
        jobs.append(job_id)
    begin, ended, began = time.monotonic(), {}, {}
    beat, last, longest, most, started = None, begin, 0.0, {}, begin
    while len(ended) < len(jobs):
        now = time.monotonic()
        if now - started > 1800:
            sys.exit(f"not ended: {set(jobs) - set(ended)}")
        for worker in json.loads(ctl("--output", "json", "worker", "ls")):
            if worker.get("lastSeenTime") != beat:
                beat, last = worker.get("lastSeenTime"), now
        longest = max(longest, now - last)
        for pid, mib in engines().items():
            most[pid] = max(most.get(pid, 0), mib)
        for job in jobs:
            if job in ended:
                continue
            state = json.loads(ctl("--output", "json", "job", "show", job))["state"]
            if state not in ("QUEUED",) and job not in began:
                began[job] = now - begin
            if state in ("SUCCEEDED", "FAILED", "CANCELLED"):
                ended[job] = state
                print(f"{job}: {state}, began after {began.get(job, 0):.0f} s, ended after "
                      f"{now - begin:.0f} s", flush=True)
        time.sleep(0.5)
    needs = {name: forecast(flags.bin / "nerf-engine", flags.data / name, flags.samples, scratch)
             for name in ("lego_200", "mic_200")}
    peak = max(most.values(), default=0)
    off = peak / max(needs.values()) - 1
    print(f"longest time between heartbeats seen: {longest:.1f} s")
    print(f"engine of the trainings: {peak:.0f} MiB at most; forecasts {needs}: {100 * off:+.0f}%")
    good = set(ended.values()) == {"SUCCEEDED"} and longest <= MAX_BEAT and abs(off) <= MAX_OFF
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
