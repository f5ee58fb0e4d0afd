#!/usr/bin/python3
"""From plain photographs to the first view of their training, through a server, in four ways.

    tests/bench/photographs_to_view.py FOLDER [--bin build/release/bin]
                                       [--ways page,nerfctl,curl,python]

FOLDER has photographs alone. Each way has a nerfd of its own with one worker, which needs COLMAP:

  page     they are dropped on the page in Chromium, until a frame of the live view is drawn
  nerfctl  `nerfctl train`; the view is RenderImage's, asked for once a second
  curl     examples/curl/train_photographs.sh, then GetJob and RenderImage by curl
  python   the package nerfd: train, watch, render

Prints each line of progress with its second, then the seconds to the view, the longest time between
two lines, and between two that say something other than how long it takes. Exits 1 beyond 480 s, or
20 s between two lines.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

from nerfd_process import start_nerfd

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_SECONDS, MAX_GAP = 480, 20
SIDE = 256  # of the view
CLOCK = re.compile(r"\d+(\.\d+)? ?(s|min|h)\b")


class Log:
    """Lines of progress with their times."""

    def __init__(self):
        self.begin, self.lines, self.lock = time.monotonic(), [], threading.Lock()

    def start(self):
        self.begin, self.lines = time.monotonic(), []

    def say(self, text):
        with self.lock:
            if self.lines and self.lines[-1][1] == text:
                return
            seconds = time.monotonic() - self.begin
            self.lines.append((seconds, text))
            print(f"  {seconds:6.1f}  {text[:150]}", flush=True)

    def gap(self, what=lambda text: text):
        """The longest time between two lines that differ in what(text), and the later one."""
        longest, last, before = (0, ""), 0, None
        for seconds, text in self.lines:
            if what(text) != before:
                longest = max(longest, (seconds - last, text))
                last, before = seconds, what(text)
        return longest


def curl(service, method, body):
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", f"{service['url']}/nerf.v1.{method}", "-H",
         f"Authorization: Bearer {service['token']}", "-H", "Content-Type: application/json", "-d",
         json.dumps(body)], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def has_view(service, job):
    orbit = {"index": 0, "count": 8}
    view = {"trainingJob": job, "orbit": orbit, "width": SIDE, "height": SIDE}
    answer = curl(service, "RenderService/RenderImage", view)
    return bool(answer and answer.get("images"))


def await_view(service, job, log):
    """Asks for a view once a second, beside whoever logs progress."""
    while not has_view(service, job):
        time.sleep(1)
    log.say("VIEW")


def of_page(service, folder, log, binaries):
    work = binaries.parent / "tests/web/browser"
    work.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"NERF_PAGE": service["url"] + "/", "NERF_TOKEN": service["token"],
                                "NERF_PHOTOGRAPHS": str(folder)}
    command = [ROOT / "tests/web/run_page.sh", ROOT, binaries, work, "photographs_bench.mjs"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as page:
        for line in page.stdout:
            line = line.strip()
            if line == "DROPPED":
                log.start()  # before that Chromium started
            log.say(line)
            if line == "LIVE":
                return
        sys.exit(f"the page ended with {page.wait()}")


def of_nerfctl(service, folder, log, binaries):
    environment = os.environ | {"NERFCTL_TOKEN": service["token"]}
    log.start()
    command = [binaries / "nerfctl", "--server", service["grpc"], "train", folder]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env=environment) as train:
        reader = threading.Thread(target=lambda: [log.say(line.strip()) for line in train.stdout],
                                  daemon=True)
        reader.start()
        while train.poll() is None:
            answer = curl(service, "JobService/ListJobs", {"filter": "kind = training"}) or {}
            jobs = answer.get("jobs")
            if jobs:
                await_view(service, jobs[0]["name"], log)
                train.terminate()
                return reader.join()
            time.sleep(1)
        sys.exit(f"nerfctl ended with {train.returncode}")


def of_curl(service, folder, log, _):
    log.start()
    environment = os.environ | {"NERFD_TOKEN": service["token"]}
    made = subprocess.run(
        [ROOT / "examples/curl/train_photographs.sh", service["url"], "scene",
         *sorted(folder.iterdir())], stdout=subprocess.PIPE, text=True, env=environment, check=True)
    name = json.loads(made.stdout)["name"]
    viewer = threading.Thread(target=await_view, args=(service, name, log), daemon=True)
    viewer.start()
    while viewer.is_alive():
        job = curl(service, "JobService/GetJob", {"name": name})
        if job["state"] == "FAILED":
            sys.exit(job["error"])
        wait, progress = job.get("wait") or {}, job["trainingStatus"].get("progress") or {}
        log.say(f"{job['state']} {wait.get('message', '')} step {progress.get('step', 0)}")
        viewer.join(1)


def of_python(service, folder, log, binaries):
    with tempfile.TemporaryDirectory() as scratch:
        package = pathlib.Path(scratch, "nerfd")
        subprocess.run(["cp", "-r", ROOT / "python/nerfd", package], check=True)
        subprocess.run([sys.executable, ROOT / "python/generate.py", package], check=True)
        sys.path.insert(0, scratch)
        import nerfd  # pylint: disable=import-outside-toplevel
        import numpy as np  # pylint: disable=import-outside-toplevel
        client = nerfd.Client(service["grpc"], token=service["token"])
        log.start()
        job = client.train(folder)
        seen = threading.Event()

        def look():
            while not seen.is_set():
                try:
                    job.render(np.eye(4), SIDE, SIDE)
                    seen.set()
                except nerfd.Error:  # nothing to show yet
                    time.sleep(1)
        threading.Thread(target=look, daemon=True).start()
        for moment in job.watch():
            text = f"{moment.state} {moment.wait} step {moment.step}"
            log.say("VIEW" if seen.is_set() else text)
            if seen.is_set():
                return
        sys.exit("the training ended before a view")


WAYS = {"page": of_page, "nerfctl": of_nerfctl, "curl": of_curl, "python": of_python}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--ways", default=",".join(WAYS))
    arguments = parser.parse_args()
    folder, binaries, results = arguments.folder.resolve(), arguments.bin.resolve(), []
    for way in arguments.ways.split(","):
        print(f"{way}:", flush=True)
        with tempfile.TemporaryDirectory(prefix="photographs-") as scratch:
            data = pathlib.Path(scratch, "server")
            nerfd, ports = start_nerfd(binaries, data, "--listen", "127.0.0.1:0", "--web-listen",
                                       "127.0.0.1:0")
            service = {"grpc": ports["grpc"], "url": f"http://{ports['web']}",
                       "token": (data / "admin.token").read_text().strip()}
            log = Log()
            while not (curl(service, "AdminService/ListWorkers", {}) or {}).get("workers"):
                time.sleep(0.1)
            try:
                WAYS[way](service, folder, log, binaries)
            finally:
                nerfd.terminate()
                nerfd.wait()
        seconds = next(at for at, text in log.lines if text in ("LIVE", "VIEW"))
        news = log.gap(lambda text: CLOCK.sub("", text))
        results.append((way, seconds, log.gap(), news))
    for way, seconds, (gap, line), (news, _) in results:
        print(f"{way:8} view after {seconds:.0f} s, a line at least every {gap:.1f} s (before: "
              f"{line[:60]}), news every {news:.1f} s; load {os.getloadavg()[1]:.1f} on "
              f"{os.cpu_count()} cores")
    sys.exit(any(seconds > MAX_SECONDS or gap > MAX_GAP for _, seconds, (gap, _), _ in results))


if __name__ == "__main__":
    main()
