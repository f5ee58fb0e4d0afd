#!/usr/bin/env python3
"""PSNR of the test views over seconds of training, as a table: each budget has its own training.

usage: time_to_quality.py SCENE --out DIR [--seconds 5,10,30] [--engine PROGRAM] [FLAG ...]

Schedules end at the budget, so a row is the best result that is possible in that time. Reading the
scene and evaluating do not count. Other flags go to `nerf-engine train`: --background white,
--device cuda:0, --set KEY=VALUE. The table also goes to DIR/time_to_quality.md, where the last
training stays.
"""
import argparse
import json
import pathlib
import subprocess
import sys

HEAD = """| seconds of training | PSNR, dB | steps | trained samples, M | M samples/s |
|---:|---:|---:|---:|---:|
"""


def output(command):
    """Standard output of a command that must succeed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"time_to_quality: {' '.join(command)}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("scene")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seconds", default="5,10,30,60,120,300")
    parser.add_argument("--engine", default="nerf-engine")
    flags, train = parser.parse_known_args()
    rows = ""
    for budget in sorted(map(float, flags.seconds.split(","))):
        lines = output([flags.engine, "train", flags.scene, "--out", str(flags.out / "run"),
                        "--seconds", f"{budget:g}", "--json", *train])
        done = json.loads(lines.splitlines()[-1])
        if "psnr" not in done:
            sys.exit("time_to_quality: there are no test views to measure quality on")
        millions = done["samples"] / 1e6
        rows += (f"| {budget:19g} | {done['psnr']:8.2f} | {done['step']:5} | {millions:18.1f} | "
                 f"{millions / done['seconds']:11.2f} |\n")
        print(f"{budget:g} s: {done['psnr']:.2f} dB", file=sys.stderr, flush=True)
    doctor = subprocess.run([flags.engine, "doctor", "--json"], stdout=subprocess.PIPE, text=True)
    machine = json.loads(doctor.stdout.splitlines()[0])
    text = (f"{pathlib.Path(flags.scene).name} {' '.join(train)}\n{machine['cpu']}, "
            f"{machine['simd']}; CUDA: {machine['cuda']}\n\n{HEAD}{rows}")
    print(text, end="")
    (flags.out / "time_to_quality.md").write_text(text)


if __name__ == "__main__":
    main()
