#!/usr/bin/env python3
"""What several ranks of one training bring (docs/inside/ranks.md).

    tests/bench/ranks_bench.py rates SCENE [--samples 8e6] [--turns 3] [--priority N]
    tests/bench/ranks_bench.py dense SCENE [--steps 60] [--turns 3]
    tests/bench/ranks_bench.py kills SCENE [--runs 20] [--steps 300] [--gloo]
    tests/bench/ranks_bench.py links SCENE [--samples 2.5e6] [--steps 150] [--gigabits 10 1 0.1]   (as root)
    tests/bench/ranks_bench.py feeds SCENE [--samples 1.5e6] [--turns 3] [--limit MEGABYTES]

rates   one rank, two ranks over shared memory and over Gloo, and one process of two threads, by turns:
        trained samples a second, and what the ranks forecast, bytes a step also when the forecast was
        renewed. Needs two idle cores, or --priority, which runs all at that real-time priority (as
        root).
dense   two ranks of ngp, which send gradients of samples, and of ngp-autograd, which adds up the
        whole table by an all-reduce: bytes that a rank receives in a step, and rate times one rank.
kills   two to four ranks of which a random one is killed at a random time, then goes on from the last
        checkpoint until the end: SHA-256 of the files, which must be those of one rank. With --gloo
        they send over TCP by Gloo in place of shared memory.
links   two ranks in network namespaces that go on from step --steps, over a link shaped to each
        rate: forecast and measured.
feeds   one rank and two, fed by rank and centrally, each batch drawn when it is needed and ahead,
        pictures in memory and in a file, which may use --limit MEGABYTES (of a control group, as
        root): share of rank 0's time in which steps waited for their batch, rate, gain of drawing
        ahead, and its bound (S + C) / max(S, C) for S seconds of drawing and C of training.
"""
import argparse
import contextlib
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ONE_THREAD = ["--threads", "1"]
NO_EVALUATION = ["--no-eval", "--checkpoint-interval", "100000"]


class Engine:
    """Runs nerf-engine and reads its events."""

    def __init__(self, arguments):
        self.prefix = ["chrt", "-r", str(arguments.priority)] if arguments.priority else []
        self.program = arguments.engine
        self.scene = str(arguments.scene)

    def command(self, flags):
        return self.prefix + [self.program, "train", self.scene, "--json", *map(str, flags)]

    def train(self, out, flags, prefix=()):
        """The events of a training that must succeed."""
        result = subprocess.run([*prefix, *self.command(["--out", out, *flags])],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if result.returncode != 0:
            sys.exit(f"{' '.join(map(str, flags))}: exit code {result.returncode}\n{result.stderr}")
        return events_of(result.stdout)


def events_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def last(events, name, **fields):
    for event in reversed(events):
        if event["event"] == name and all(event.get(key) == value for key, value in fields.items()):
            return event
    return None


def digest(folder):
    """SHA-256 of the checkpoint and the model together."""
    whole = hashlib.sha256()
    for name in ("checkpoint.safetensors", "model.safetensors"):
        whole.update((pathlib.Path(folder) / name).read_bytes())
    return whole.hexdigest()


def rates(engine, arguments, folder):
    ways = {
        "one rank": ONE_THREAD,
        "two ranks": [*ONE_THREAD, "--ranks", "2"],
        "two ranks, Gloo": [*ONE_THREAD, "--ranks", "2", "--interface", "lo"],
        "two threads": ["--threads", "2"],
    }
    found = {way: [] for way in ways}
    for _ in range(arguments.turns):
        for way, flags in ways.items():
            events = engine.train(folder / "run", [*flags, *NO_EVALUATION, "--samples",
                                                   f"{arguments.samples:.0f}"])
            found[way].append(events)
    alone = statistics.median(rate_of(events) for events in found["one rank"])
    print(f"{'':18} {'M samples/s':>28} {'median':>7} {'times one':>9}  forecast; exchanges, forecast; "
          "MB a step, forecast")
    for way, runs in found.items():
        each = [rate_of(events) for events in runs]
        line = (f"{way:18} {' '.join(f'{rate / 1e6:.3f}' for rate in each):>28} "
                f"{statistics.median(each) / 1e6:7.3f} {statistics.median(each) / alone:9.2f}")
        print(line + comparison(runs[-1]), flush=True)


def rate_of(events):
    return last(events, "done")["samples_per_second"]


def comparison(events):
    """Forecast and truth of the ranks' rate, time in exchanges and bytes, these of each forecast."""
    forecasts = [event for event in events if event["event"] == "ranks" and event["forecast"]]
    if not forecasts:
        return ""
    forecast = forecasts[0]
    measured = last(events, "ranks", forecast=False, first_step=forecast["first_step"])
    text = (f"  {forecast['samples_per_second'] / 1e6:.3f} "
            f"({forecast['samples_per_second'] / forecast['alone_samples_per_second']:.2f} times); "
            f"{measured['exchange_fraction']:.0%}, {forecast['exchange_fraction']:.0%}")
    for forecast in forecasts:
        true = last(events, "ranks", forecast=False, first_step=forecast["first_step"])["bytes_per_step"]
        text += (f"; from step {forecast['first_step']}: {true / 1e6:.3f}, "
                 f"{forecast['bytes_per_step'] / 1e6:.3f} ({forecast['bytes_per_step'] / true - 1:+.1%})")
    return text


def ranks_of(n_ranks, arguments):
    return ["--ranks", n_ranks, *(["--interface", "lo"] if arguments.gloo and n_ranks > 1 else [])]


def report(found):
    for name, sha in found.items():
        print(f"{sha[:16]}  {name}")
    print("all the same" if len(set(found.values())) == 1 else "DIFFERENT")
    if len(set(found.values())) != 1:
        sys.exit(1)


def dense(engine, arguments, folder):
    flags = [*ONE_THREAD, *NO_EVALUATION, "--steps", arguments.steps]
    print("method        ranks send    bytes a step, forecast  samples a step  M samples/s: one, two ranks  times one")
    for method, sent in {"ngp": "samples", "ngp-autograd": "the table"}.items():
        runs = {1: [], 2: []}
        for _ in range(arguments.turns):
            for n_ranks, found in runs.items():
                found.append(engine.train(folder / "run", [*flags, "--method", method, "--ranks", n_ranks]))
        done = last(runs[2][-1], "done")
        samples = done["samples"] / done["step"]
        measured, forecast = (last(runs[2][-1], "ranks", forecast=is_forecast)["bytes_per_step"]
                              for is_forecast in (False, True))
        one, two = (statistics.median(rate_of(events) for events in runs[n_ranks]) for n_ranks in (1, 2))
        print(f"{method:13} {sent:11} {measured:14.0f} {forecast:9.0f} {samples:15.0f} "
              f"{one / 1e6:21.4f} {two / 1e6:6.4f} {two / one:10.2f}", flush=True)


def kills(engine, arguments, folder):
    steps = ["--steps", arguments.steps, *ONE_THREAD, "--no-eval"]
    begin = time.monotonic()
    engine.train(folder / "whole", steps)
    seconds = time.monotonic() - begin
    found = {"one rank, not killed": digest(folder / "whole")}
    generator = random.Random(arguments.seed)
    n_killed = 0
    while n_killed < arguments.runs:
        run = len(found)
        n_ranks = generator.randint(2, 4)
        out = folder / f"run{run}"
        flags = [*steps, *ranks_of(n_ranks, arguments), "--checkpoint-interval", "0.2"]
        killed = kill_one(engine, out, flags, generator, seconds)
        n_killed += killed is not None
        n_again = generator.randint(1, 4)
        again = [*ONE_THREAD, "--no-eval", *ranks_of(n_again, arguments)]
        checkpoint = out / "checkpoint.safetensors"
        done = (out / "model.safetensors").exists() and killed is None
        if not done and checkpoint.exists():
            engine.train(out, [*again, "--resume", checkpoint])
        elif not done:
            engine.train(out, [*again, "--steps", arguments.steps])
        found[f"{n_ranks} ranks, {killed or 'ended before it was killed'}"
              f"{'' if done else f', then {n_again}'} (run {run})"] = digest(out)
        shutil.rmtree(out)
    report(found)


def kill_one(engine, out, flags, generator, seconds):
    """Kills a random rank at a random time of the training; None if it had ended by then."""
    process = subprocess.Popen(engine.command(["--out", out, *flags]), stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    process.stdout.readline()  # the forecast, before the first step
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=generator.uniform(0, 1) * seconds)
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    ranks = [process.pid]
    with contextlib.suppress(OSError):
        ranks += [int(pid) for pid in children.read_text().split()]
    rank = generator.randrange(len(ranks))
    with contextlib.suppress(ProcessLookupError):
        os.kill(ranks[rank], signal.SIGKILL)
    begin = time.monotonic()
    output, _ = process.communicate()
    if process.returncode == 0:
        return None
    checkpoint = last(events_of(output), "checkpoint")
    return (f"rank {rank} killed, the others ended after {time.monotonic() - begin:.2f} s, "
            f"checkpoint of step {checkpoint['step'] if checkpoint else 'none'}")


def feeds(engine, arguments, folder):
    print(f"{'pictures':9} {'ranks, feed':18} {'stall':>6} {'ahead':>6} {'M samples/s':>12} {'ahead':>6} "
          f"{'gain':>5} {'bound':>5}")
    flags = [*ONE_THREAD, *NO_EVALUATION, "--samples", f"{arguments.samples:.0f}"]
    for pictures in ("memory", "file"):
        place = ["--pictures", pictures]
        if pictures == "file":
            place += ["--picture-file", folder / "pictures.raw"]
            engine.train(folder / "run", [*flags, *place])  # makes the file
        limit = arguments.limit if pictures == "file" else None
        for way, feed in {"1": [], "2, by rank": ["--ranks", 2],
                          "2, central": ["--ranks", 2, "--feed", "central"]}.items():
            found = {0: [], 2: []}
            with memory_limit(limit) as prefix:
                for _ in range(arguments.turns):
                    for ahead, runs in found.items():
                        runs.append(last(engine.train(folder / "run", [
                            *flags, *place, *feed, "--batches-ahead", ahead], prefix), "done"))
            stalls = [statistics.median(run["stall_fraction"] for run in found[ahead]) for ahead in found]
            speeds = [statistics.median(run["samples_per_second"] for run in found[ahead]) for ahead in found]
            bound = 1 / max(stalls[0], 1 - stalls[0])
            print(f"{pictures:9} {way:18} {stalls[0]:6.1%} {stalls[1]:6.1%} {speeds[0] / 1e6:12.3f} "
                  f"{speeds[1] / 1e6:6.3f} {speeds[1] / speeds[0]:5.2f} {bound:5.2f}", flush=True)


@contextlib.contextmanager
def memory_limit(megabytes):
    """Yields what goes before a command so that it may use as much memory, files' pages included."""
    if megabytes is None:
        yield []
        return
    first_version = pathlib.Path("/sys/fs/cgroup/memory")
    root = first_version if first_version.is_dir() else pathlib.Path("/sys/fs/cgroup")
    group = root / f"nerf-feeds-{os.getpid()}"
    group.mkdir()
    try:
        file = "memory.limit_in_bytes" if root == first_version else "memory.max"
        (group / file).write_text(f"{megabytes * 1000000:.0f}")
        yield ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"]
    finally:
        group.rmdir()


def run(command):
    subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def namespaces():
    """Two network namespaces with a link between them; yields their names and that of the link."""
    names = [f"nerf-ranks-{os.getpid()}-{i}" for i in range(2)]
    links = [f"nr{os.getpid() % 100000}{end}" for end in "ab"]
    try:
        for name in names:
            run(f"ip netns add {name}")
        run(f"ip link add {links[0]} type veth peer name {links[1]}")
        for i in range(2):
            run(f"ip link set {links[i]} netns {names[i]} name wire")
            run(f"ip -n {names[i]} addr add 10.231.0.{i + 1}/24 dev wire")
            run(f"ip -n {names[i]} link set dev wire up")
            run(f"ip -n {names[i]} link set dev lo up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def links(engine, arguments, folder):
    # The first steps of a field differ from later ones, so all go on from the same checkpoint.
    engine.train(folder / "start", [*ONE_THREAD, *NO_EVALUATION, "--samples",
                                    f"{arguments.samples:.0f}", "--stop-after", arguments.steps])
    resume = [*ONE_THREAD, *NO_EVALUATION, "--resume", folder / "start/checkpoint.safetensors"]
    alone = rate_of(engine.train(folder / "alone", resume))
    print(f"one rank: {alone / 1e6:.3f} M samples/s")
    print("Gb/s  times one rank: measured, forecast; forecast / measured; exchanges; link measured")
    with namespaces() as names:
        for gigabits in arguments.gigabits:
            for name in names:
                run(f"tc -n {name} qdisc replace dev wire root tbf rate {gigabits * 1000:.0f}mbit "
                    f"burst {max(16, int(gigabits * 125))}kb latency 50ms")
            meet = [*resume, "--ranks", 2, "--rendezvous", f"10.231.0.1:{arguments.port}",
                    "--interface", "wire"]
            second = subprocess.Popen(["ip", "netns", "exec", names[1], *engine.command(
                [*meet, "--rank", 1])], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            first = subprocess.run(["ip", "netns", "exec", names[0], *engine.command(
                [*meet, "--rank", 0, "--out", folder / "linked"])], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            second.wait()
            if first.returncode != 0:
                sys.exit(f"{gigabits} Gb/s: exit code {first.returncode}\n{first.stderr}")
            events = events_of(first.stdout)
            forecast = next(event for event in events if event["event"] == "ranks")
            measured = rate_of(events)
            print(f"{gigabits:4}  {measured / alone:.3f}, "
                  f"{forecast['samples_per_second'] / forecast['alone_samples_per_second']:.3f}; "
                  f"{forecast['samples_per_second'] / measured:.2f};{comparison(events)}; "
                  f"{forecast['link_bytes_per_second'] * 8e-9:.2f} Gb/s, "
                  f"{forecast['link_latency_seconds'] * 1e6:.0f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["rates", "dense", "kills", "links", "feeds"])
    parser.add_argument("scene", type=pathlib.Path)
    parser.add_argument("--engine", default="build/release/bin/nerf-engine")
    parser.add_argument("--priority", type=int, default=0, help="real-time priority, 1 to 99")
    parser.add_argument("--samples", type=float)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--gloo", action="store_true", help="ranks send over TCP")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gigabits", type=float, nargs="+", default=[10, 1, 0.1])
    parser.add_argument("--port", type=int, default=24123)
    parser.add_argument("--limit", type=float, help="megabytes of memory with pictures in a file")
    arguments = parser.parse_args()
    if arguments.steps is None:
        arguments.steps = {"dense": 60, "kills": 300, "links": 150}.get(arguments.what)
    if arguments.samples is None:
        arguments.samples = {"links": 2.5e6, "feeds": 1.5e6}.get(arguments.what, 8e6)
    with tempfile.TemporaryDirectory() as folder:
        {"rates": rates, "dense": dense, "kills": kills, "links": links,
         "feeds": feeds}[arguments.what](Engine(arguments), arguments, pathlib.Path(folder))


if __name__ == "__main__":
    main()
