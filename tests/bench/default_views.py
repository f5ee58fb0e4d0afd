#!/usr/bin/env python3
"""Trains data sets, renders their default views and a film, and says how well these were chosen.

usage: default_views.py [--samples 10M] [--out DIR] DATASET...

For each data set it prints the path that `nerf-engine render` chose, how many of its views have at
least 90% of their opaque pixels in two or more training views, the least such share, and what
ffprobe says of a film of 5 seconds. Exits 1 if fewer than 7 of 8 views do, or if a film does not
play. Run it from the repository's root, with nerf-engine in PATH.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

WELL_SEEN = 0.9
MIN_WELL_SEEN_VIEWS = 7  # of 8


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def last_event(text):
    return json.loads(text.strip().splitlines()[-1])


def probe(film):
    out = run("ffprobe", "-v", "error", "-count_frames", "-select_streams", "v", "-show_entries",
              "stream=codec_name,width,height,nb_read_frames,duration", "-of", "json", film)
    return json.loads(out)["streams"][0]


def measure(dataset, out, samples):
    run("nerf-engine", "train", dataset, "--samples", samples, "--out", out, "--no-eval")
    model = out / "model.safetensors"
    views = last_event(run("nerf-engine", "render", model, "--out", out / "views", "--json"))
    film = out / "film.mp4"
    run("nerf-engine", "render", model, "--video", film, "--width", 320)
    stream = probe(film)
    seen = views["seen_twice"]
    n_well = sum(share >= WELL_SEEN for share in seen)
    plays = float(stream.get("duration", 0)) >= 4.9 and int(stream["nb_read_frames"]) == 150
    print(f"{dataset.name:16} {views['path']:8} {n_well} of {len(seen)} views well seen, least "
          f"{min(seen):.3f}; film {stream['codec_name']} {stream['width']}x{stream['height']}, "
          f"{stream['nb_read_frames']} frames, {stream.get('duration', '?')} s", flush=True)
    return n_well >= MIN_WELL_SEEN_VIEWS and plays


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", default="10M")
    parser.add_argument("--out", help="keep models, views and films here")
    parser.add_argument("datasets", nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(arguments.out or temporary)
        results = []
        for dataset in map(pathlib.Path, arguments.datasets):
            out = root / dataset.name
            out.mkdir(parents=True, exist_ok=True)
            results.append(measure(dataset, out, arguments.samples))
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
