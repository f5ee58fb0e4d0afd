#!/usr/bin/env python3
"""What render jobs cost, and whether they keep their bytes.

    tests/bench/render_jobs.py [SCENE] [--bin build/release/bin] [--frames 120] [--side 400] [--runs 3]
                               [--samples 8M] [--large 4096] [--only speed,kills,cancel,large]

Trains a model of SCENE (examples/mic) on a nerfd of its own, then:

  speed   the frames by `nerf-engine render`, by a render job of one worker and by one of two, in turns: wall time until
          the files lie here, and processor time of all that took part. Two workers have half of the cores each.
  kills   a job during which a worker, an engine and nerfd are killed with kill -9, one after the other
  cancel  seconds from `cancel` to the state CANCELLED, and until the worker is idle
  large   one image of --large pixels a side over RenderImage

Compares every picture with the one that `nerf-engine render` wrote; another byte ends the run with exit code 1.
"""
import argparse
import contextlib
import filecmp
import http.client
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from nerfd_process import cpu_seconds, start_nerfd, stat_of

PATIENCE = 300  # seconds until something counts as stuck


class Stuck(Exception):
    pass


def wait_until(condition, what, interval=0.005):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise Stuck(what)
        time.sleep(interval)


def children_of(pid):
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError):
            if entry.name.isdigit() and stat_of(int(entry.name))[0] == pid:
                yield int(entry.name)


class Service:
    """A nerfd and its workers."""

    def __init__(self, binaries, folder, device="cpu"):
        self.binaries, self.folder, self.data = binaries, folder, folder / "server"
        self.device = device  # of the workers
        self.server, self.workers, self.address = None, {}, "127.0.0.1:0"
        self.start_server()

    def start_server(self):
        self.server, served = start_nerfd(self.binaries, self.data, "--listen", self.address, "--web-listen",
                                          "127.0.0.1:0", "--no-local-worker")
        self.address, self.web = served["grpc"], served["web"]
        self.token = (self.data / "admin.token").read_text().strip()

    def start_worker(self, name, threads=0):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.workers[name] = subprocess.Popen([
                self.binaries / "nerf-worker", "--server", self.address, "--token-file",
                self.data / "worker.token", "--cache-dir", self.folder / name, "--threads",
                str(threads), "--device", self.device], stdout=log, stderr=log)

    def set_workers(self, threads):
        """Ends all workers and starts one for each element of `threads`."""
        for worker in self.workers.values():
            worker.terminate()
            worker.wait()
        self.workers.clear()
        wait_until(lambda: not self.connected_workers(), "workers leave")
        for i, n in enumerate(threads):
            self.start_worker(f"worker-{len(threads)}-{i}", n)
        wait_until(lambda: [w["state"] for w in self.connected_workers()] == ["IDLE"] * len(threads), "workers come")

    def call(self, method, **request):
        connection = http.client.HTTPConnection(self.web, timeout=PATIENCE)
        connection.request("POST", f"/nerf.v1.{method}", json.dumps(request), {
            "Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "Connection": "close"})
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{method}: {body}")
        return body

    def connected_workers(self):
        return [w for w in self.call("AdminService/ListWorkers")["workers"] if w["state"] in ("IDLE", "BUSY")]

    def job(self, name):
        return self.call("JobService/GetJob", name=f"projects/default/jobs/{name}")

    def frames_done(self, name):
        return int(self.job(name)["renderStatus"]["framesDone"])

    def ctl(self, *arguments):
        environment = dict(os.environ, NERFCTL_TOKEN=self.token)
        command = [self.binaries / "nerfctl", "--server", self.address, "--progress", "none", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"nerfctl {' '.join(map(str, arguments))}: {done.stderr}")
        return done.stdout

    def processor_seconds(self):
        pids = [self.server.pid]
        for worker in self.workers.values():
            pids += [worker.pid, *children_of(worker.pid)]
        return sum(cpu_seconds(pid) for pid in pids)

    def end(self):
        for process in [*self.workers.values(), self.server]:
            process.terminate()
            process.wait()


class Bench:
    def __init__(self, arguments, service, folder):
        self.arguments, self.service, self.folder = arguments, service, folder
        self.model = folder / "model.safetensors"
        self.size = ["--width", str(arguments.side), "--height", str(arguments.side)]
        self.reference = folder / "engine"
        self.n_jobs = 0

    def train(self):
        ctl = self.service.ctl
        ctl("train", self.arguments.scene, "--samples", self.arguments.samples, "--seed", "1")
        job = ctl("--output", "name", "job", "ls", "--limit", "1").strip().rsplit("/", 1)[1]
        ctl("model", "promote", job, "--id", "model")
        ctl("model", "download", "model", "--out", self.model)

    def render_by_engine(self, out, frames, size):
        shutil.rmtree(out, ignore_errors=True)
        before = os.times()
        begin = time.monotonic()
        subprocess.run([self.arguments.bin / "nerf-engine", "render", self.model, "--orbit", str(frames), *size, "--out",
                        out], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wall = time.monotonic() - begin
        after = os.times()
        return wall, after.children_user + after.children_system - before.children_user - before.children_system

    def create(self, frames):
        self.n_jobs += 1
        name = f"r-{self.n_jobs}"
        self.service.ctl("job", "render", "model", "--id", name, "--frames", str(frames),
                         *self.size, "--no-movie")
        return name

    def fetch(self, name):
        out = self.folder / name
        self.service.ctl("--timeout", f"{PATIENCE}s", "job", "fetch", name, "--out", out)
        return out

    def compare(self, out, what):
        def pictures(folder):
            return [path for path in sorted(folder.glob("*.png")) if path.name != "sheet.png"]

        expected, found = pictures(self.reference), pictures(out)
        same = len(expected) == len(found) and all(filecmp.cmp(a, b, shallow=False) for a, b in zip(expected, found))
        if not same:
            sys.exit(f"{what}: {len(found)} pictures are not the {len(expected)} of nerf-engine render")
        shutil.rmtree(out)

    def render_by_job(self):
        processor = self.service.processor_seconds()
        before = os.times()
        begin = time.monotonic()
        out = self.fetch(self.create(self.arguments.frames))
        wall = time.monotonic() - begin
        after = os.times()
        processor = self.service.processor_seconds() - processor
        return (wall, processor + after.children_user + after.children_system - before.children_user -
                before.children_system, out)

    def speed(self):
        frames, cores = self.arguments.frames, len(os.sched_getaffinity(0))
        walls, processors = {}, {}

        def note(kind, wall, processor):
            walls.setdefault(kind, []).append(wall)
            processors.setdefault(kind, []).append(processor)
            print(f"  {kind}: {wall:.2f} s, {processor:.2f} s of processor time", flush=True)

        for _ in range(self.arguments.runs):
            note("engine", *self.render_by_engine(self.reference, frames, self.size))
            for kind, threads in (("one worker", [cores]), ("two workers", [max(1, cores // 2)] * 2)):
                self.service.set_workers(threads)
                self.compare(self.render_by_job()[2], kind)  # starts engines and fills caches
                wall, processor, out = self.render_by_job()
                note(kind, wall, processor)
                self.compare(out, kind)
        for kind, of_kind in walls.items():
            wall, processor = statistics.median(of_kind), statistics.median(processors[kind])
            print(f"speed: {frames} frames of {self.arguments.side}x{self.arguments.side}, {kind}: {wall:.2f} s "
                  f"({wall / statistics.median(walls['engine']):.2f} times the engine's), {processor:.2f} s of processor "
                  f"time ({processor / statistics.median(processors['engine']):.2f} times)")

    def kills(self):
        self.service.set_workers([0])
        frames = self.arguments.frames
        self.render_by_engine(self.reference, frames, self.size)
        name = self.create(frames)
        for i, victim in enumerate(("worker", "engine", "nerfd")):
            least = frames * (i + 1) // 5
            wait_until(lambda least=least: self.service.frames_done(name) >= least,
                       f"{least} frames")
            self.kill(victim)
            print(f"  {victim} killed after {least} frames", flush=True)
        self.compare(self.fetch(name), "kills")
        print(f"kills: worker, engine and nerfd killed during {frames} frames: same bytes")

    def kill(self, victim):
        service = self.service
        name, worker = next(iter(service.workers.items()))
        if victim == "engine":
            engines = []
            wait_until(lambda: engines.extend(children_of(worker.pid)) or engines, "an engine")
            os.kill(engines[0], signal.SIGKILL)
        elif victim == "worker":
            worker.kill()
            worker.wait()
            service.start_worker(name)
        else:
            service.server.kill()
            service.server.wait()
            service.start_server()

    def cancel(self):
        self.service.set_workers([0])
        ended, idle = [], []
        for i in range(max(3, self.arguments.runs)):
            name = self.create(2000)
            wait_until(lambda name=name, i=i: self.service.frames_done(name) > i, "frames")
            begin = time.monotonic()
            self.service.call("JobService/CancelJob", name=f"projects/default/jobs/{name}")
            wait_until(lambda name=name: self.service.job(name)["state"] == "CANCELLED", "the cancel")
            ended.append(time.monotonic() - begin)
            wait_until(lambda: self.service.connected_workers()[0]["state"] == "IDLE", "an idle worker")
            idle.append(time.monotonic() - begin)
        print(f"cancel: CANCELLED after at most {max(ended):.3f} s, worker idle after at most {max(idle):.3f} s "
              f"({len(idle)} jobs)")

    def large(self):
        self.service.set_workers([0])
        size = ["--width", str(self.arguments.large), "--height", str(self.arguments.large)]
        self.render_by_engine(self.reference, 1, size)
        out = self.folder / "large"
        begin = time.monotonic()
        self.service.ctl("--timeout", f"{PATIENCE}s", "render", "model", "--orbit", "1", *size, "--out", out)
        wall = time.monotonic() - begin
        n_bytes = sum(path.stat().st_size for path in out.glob("*.png"))
        self.compare(out, "large")
        print(f"large: {self.arguments.large}x{self.arguments.large} PNG of {n_bytes / 1e6:.1f} MB over RenderImage in "
              f"{wall:.1f} s, same bytes")


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scene", type=pathlib.Path, nargs="?", default=root / "examples/mic")
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin")
    parser.add_argument("--frames", type=int, default=120)
    parser.add_argument("--side", type=int, default=400)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--samples", default="8M", help="of the training")
    parser.add_argument("--large", type=int, default=4096)
    parser.add_argument("--only", default="speed,kills,cancel,large")
    arguments = parser.parse_args()
    arguments.bin = arguments.bin.resolve()
    with tempfile.TemporaryDirectory() as name:
        service = Service(arguments.bin, pathlib.Path(name))
        try:
            service.set_workers([0])
            bench = Bench(arguments, service, pathlib.Path(name))
            bench.train()
            print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores")
            for part in arguments.only.split(","):
                getattr(bench, part)()
            print(f"load {os.getloadavg()[0]:.1f}")
        finally:
            service.end()


if __name__ == "__main__":
    main()
