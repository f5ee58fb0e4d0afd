#!/usr/bin/env python3
"""What the engine's sandbox costs a training.

    tests/bench/sandbox_cost.py SCENE [--bin build/release/bin] [--steps 300] [--rounds 5]

Trains one job by turns under a nerf-worker with the sandbox and one with --no-engine-sandbox, and
compares the seconds of training that the engine reports and the processor time of the worker with
its engines. The models have to be equal byte by byte. Prints the medians and the share that the
sandbox adds, of pairs.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile

from nerfd_process import start_nerfd

MAX_SHARE = 0.01


class Nerfd:
    def __init__(self, binaries, folder):
        self.binaries, self.folder, self.data = binaries, folder, folder / "data"
        self.process, ports = start_nerfd(binaries, self.data, "--listen", "127.0.0.1:0", "--web-listen", "none",
                                          "--no-local-worker")
        self.address = ports["grpc"]
        self.environment = {**os.environ, "NERFCTL_SERVER": self.address,
                            "NERFCTL_TOKEN": (self.data / "admin.token").read_text().strip()}

    def ctl(self, *arguments):
        run = subprocess.run([self.binaries / "nerfctl", *arguments, "-o", "json"], env=self.environment, text=True,
                             capture_output=True)
        if run.returncode != 0:
            sys.exit(f"nerfctl {' '.join(map(str, arguments))}: {run.stderr}")
        return run.stdout

    def train(self, steps, flags):
        """One job under a worker of its own: seconds of training, of processor time, digest of the model."""
        with open(self.folder / "worker.log", "ab") as log:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            worker = subprocess.Popen([self.binaries / "nerf-worker", "--server", self.address, "--token-file",
                                       self.data / "worker.token", "--cache-dir", self.folder / "cache", *flags],
                                      stderr=log)
            name = json.loads(self.ctl("job", "create", "scene", "--steps", str(steps), "--seed", "1"))["name"]
            self.ctl("job", "watch", name)
            worker.terminate()
            worker.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        job = json.loads(self.ctl("job", "show", name))
        checkpoint = job["trainingStatus"]["checkpoints"][-1]
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return checkpoint["seconds"], processor, checkpoint["modelBlob"]["sha256"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--strict", action="store_true", help="fail where it costs more than 1%%")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        nerfd = Nerfd(arguments.bin.resolve(), pathlib.Path(folder))
        try:
            nerfd.ctl("scene", "create", arguments.scene, "--id", "scene")
            nerfd.train(2, [])  # the pictures are in the cache then
            runs = {True: [], False: []}
            for i in range(2 * arguments.rounds):
                sandboxed = i % 2 == i // 2 % 2  # who is first changes each time
                runs[sandboxed].append(nerfd.train(arguments.steps, [] if sandboxed else ["--no-engine-sandbox"]))
        finally:
            nerfd.process.terminate()
            nerfd.process.wait()
    digests = {digest for pair in runs.values() for _, _, digest in pair}
    shares = []
    for column, what in enumerate(["seconds of training", "seconds of processor time"]):
        within, without = ([run[column] for run in runs[which]] for which in (True, False))
        shares.append(statistics.median(a / b - 1 for a, b in zip(within, without)))
        print(f"{what}: median {statistics.median(within):.3f} within the sandbox, {statistics.median(without):.3f} "
              f"without, {100 * shares[-1]:+.2f}% (median of {arguments.rounds} pairs)")
    print(f"{len(digests)} different models")
    sys.exit(0 if len(digests) == 1 and (not arguments.strict or shares[0] <= MAX_SHARE) else 1)


if __name__ == "__main__":
    main()
