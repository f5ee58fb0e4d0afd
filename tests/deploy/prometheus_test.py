#!/usr/bin/env python3
"""A real Prometheus scrapes a real nerfd that trains and renders; no panel, no rule may be empty.

    prometheus_test.py SOURCE_DIR BIN_DIR

Starts nerfd with a local worker and Prometheus on free ports, trains examples/mic, renders views
and looks at a live one, then evaluates every expression of the dashboards, reads every recorded
series and the state of every rule. The series of GPUs are those of gpu_series.txt, from a second
target. Exits 77, a visible skip, without prometheus.
"""
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


def has_scraped(base):
    try:
        return get(f"{base}/query?query=nerfd_job_queue_duration_seconds_count")["result"]
    except urllib.error.URLError:  # it does not listen yet
        return False


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.3)
    raise SystemExit(f"FAIL: waited {seconds} s for {what}")


def ports_of(data):
    try:
        return json.loads((data / "nerfd.ports").read_text())
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def gpu_target():
    """Serves gpu_series.txt; gives its address."""
    text = (HERE / "gpu_series.txt").read_bytes()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


class LiveView:
    """A live view of a job over Connect: frames are read, its camera is moved."""

    def __init__(self, web, token, job):
        self.web = web
        self.headers = {"Authorization": f"Bearer {token}"}
        self.job = f"projects/default/jobs/{job}"

    @staticmethod
    def view(index):
        return {"orbit": {"index": index, "count": 60}, "width": 64, "height": 64}

    def run(self, n_moves):
        """Returns how many frames it saw of the moving and of the resting camera."""
        connection = http.client.HTTPConnection(self.web, timeout=60)
        message = json.dumps({"trainingJob": self.job, "view": self.view(0)}).encode()
        connection.request("POST", "/nerf.v1.ViewService/StreamViews",
                           struct.pack(">BI", 0, len(message)) + message,
                           {**self.headers, "Content-Type": "application/connect+json"})
        stream = connection.getresponse()
        name, n_moving, sequence = "", 0, 0
        while True:
            flags, size = struct.unpack(">BI", stream.read(5))
            event = json.loads(stream.read(size))
            if flags & 2:
                raise SystemExit(f"FAIL: the live view ended: {event}")
            name = event.get("scene", {}).get("name", name)
            frame = event.get("frame")
            n_moving += bool(frame and frame["moving"])
            if frame and sequence >= n_moves and not frame["moving"] and frame["stride"] == 1:
                break
            if sequence < n_moves:
                sequence += 1
                self.update(name, sequence)
        connection.close()
        return n_moving

    def update(self, name, sequence):
        body = json.dumps({"name": name, "sequence": sequence, "view": self.view(sequence)})
        request = urllib.request.Request(
            f"http://{self.web}/nerf.v1.ViewService/UpdateView", body.encode(),
            {**self.headers, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()


def has_value(base, query):
    result = get(f"{base}/query?" + urllib.parse.urlencode({"query": query}))["result"]
    return any(series["value"][1] != "NaN" for series in result)


def queries_of(source):
    """Every expression of a panel and every recorded series: what it is, and the query."""
    panels = subprocess.run([sys.executable, source / "monitoring/make_dashboards.py", "--exprs"],
                            check=True, capture_output=True, text=True).stdout.splitlines()
    recorded = re.findall(r"record: (\S+)",
                          (source / "monitoring/rules/nerfd.recording.yaml").read_text())
    queries = {f"recorded {name}": name for name in recorded}
    page = (source / "docs/run/metrics.md").read_text()
    for line in re.search(r"^```promql\n(.*?)^```", page, re.M | re.S)[1].splitlines():
        queries[f"metrics.md: {line}"] = line.split("  #")[0]
    for line in panels:
        board, panel, expression = line.split("\t")
        queries[f"{board} / {panel}: {expression}"] = expression.replace(
            "$__rate_interval", "1m").replace("[1h]", "[1m]").replace("[24h]", "[1m]")
    return queries


def start_prometheus(source, prometheus, scratch, targets):
    """Starts it with the shipped configuration and a scrape each second; gives process and URL."""
    monitoring = scratch / "monitoring"
    shutil.copytree(source / "monitoring", monitoring)
    config = monitoring / "prometheus.yaml"
    nerfd, gpus = targets
    config.write_text(config.read_text().replace("127.0.0.1:9464", nerfd)
                      .replace("interval: 15s", "interval: 1s") +
                      f'  - job_name: gpus\n    static_configs:\n      - targets: ["{gpus}"]\n')
    recording = monitoring / "rules/nerfd.recording.yaml"
    recording.write_text(recording.read_text().replace("interval: 15s", "interval: 1s"))
    port = free_port()
    process = subprocess.Popen(
        [prometheus, f"--config.file={config}", f"--storage.tsdb.path={scratch / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"])
    return process, f"http://127.0.0.1:{port}/api/v1"


def run(source, binaries, prometheus, scratch, processes, gpus):
    data = scratch / "data"
    processes.append(subprocess.Popen(
        [binaries / "nerfd", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
         "--web-listen", "127.0.0.1:0", "--data-dir", data],
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
    ports = wait_for("nerfd", lambda: ports_of(data), 20)
    process, base = start_prometheus(source, prometheus, scratch, (ports["metrics"], gpus))
    processes.append(process)
    token = (data / "admin.token").read_text().strip()
    environment = dict(os.environ, NERFCTL_SERVER=ports["grpc"], NERFCTL_TOKEN=token)

    def nerfctl(*words):
        subprocess.run([binaries / "nerfctl", *words], env=environment, check=True,
                       capture_output=True, text=True)
    # Rates begin with the second scrape: the job's start must not be in the first.
    wait_for("a scrape", lambda: has_scraped(base))
    queries = queries_of(source)
    if shutil.which("colmap"):
        photographs = scratch / "photographs"
        photographs.mkdir()
        for name in ("r_0.png", "r_1.png", "r_10.png"):  # too few: it fails, and has taken time
            shutil.copy(source / "examples/mic/train" / name, photographs)
        subprocess.run([binaries / "nerfctl", "pose", photographs], env=environment,
                       capture_output=True, timeout=60)
    else:
        queries = {what: query for what, query in queries.items() if "nerfd_pose_" not in query}
    nerfctl("train", str(source / "examples/mic"), "--samples", "1G", "--id", "mic", "--detach")
    processes.append(subprocess.Popen([binaries / "nerfctl", "job", "watch", "mic"],
                                      env=environment, stdout=subprocess.DEVNULL))
    wait_for("steps in Prometheus", lambda: get(
        f"{base}/query?query=nerfd_train_psnr_decibels")["result"])
    nerfctl("render", "--job", "mic", "--orbit", "2", "--width", "100", "--height", "100",
            "--out", str(scratch / "views"))
    n_moving = LiveView(ports["web"], token, "mic").run(n_moves=12)
    if n_moving == 0:
        raise SystemExit("FAIL: no frame of the moving camera")
    # Rates need a few scrapes.
    empty, deadline = list(queries), time.monotonic() + 60
    while empty and time.monotonic() < deadline:
        time.sleep(1)
        empty = [what for what in empty if not has_value(base, queries[what])]
    rules = [rule for group in get(f"{base}/rules")["groups"] for rule in group["rules"]]
    bad = [f"{rule['name']}: {rule.get('lastError', '')}" for rule in rules
           if rule["health"] != "ok"]
    firing = [rule["name"] for rule in rules if rule.get("state") == "firing"]
    for problem in empty + bad + firing:
        print("FAIL:", problem)
    print(f"{len(queries)} expressions of panels and recorded series, {len(rules)} rules: "
          f"{len(empty)} empty, {len(bad)} in error, {len(firing)} firing")
    return 1 if empty or bad or firing else 0


def main():
    source, binaries = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    prometheus = shutil.which("prometheus") or str(source / "build/tools/usr/bin/prometheus")
    if not os.access(prometheus, os.X_OK):
        print("SKIPPED: no prometheus")
        return 77
    processes = []
    with tempfile.TemporaryDirectory() as scratch, gpu_target() as gpus:
        try:
            return run(source, binaries, prometheus, pathlib.Path(scratch), processes, gpus)
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
