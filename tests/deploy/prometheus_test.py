#!/usr/bin/env python3
"""A real Prometheus scrapes a real nerfd that trains and renders; no panel, no rule may be empty.

    prometheus_test.py SOURCE_DIR BIN_DIR

Starts nerfd with a local worker and Prometheus on free ports, trains examples/mic, renders views,
then evaluates every expression of the dashboards and reads the state of every rule. Panels of GPUs,
and quantiles of what did not happen, may be empty. Exits 77, a visible skip, without prometheus.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

MAY_BE_EMPTY = ("nerfd_gpu_",)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)["data"]


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


def evaluate_panels(source, base):
    lines = subprocess.run([sys.executable, source / "monitoring/make_dashboards.py", "--exprs"],
                           check=True, capture_output=True, text=True).stdout.splitlines()
    empty = []
    for line in lines:
        board, panel, expression = line.split("\t")
        query = expression.replace("$__rate_interval", "30s").replace("[1h]", "[1m]").replace(
            "[24h]", "[1m]")
        result = get(f"{base}/query?" + urllib.parse.urlencode({"query": query}))["result"]
        if not result and not any(name in expression for name in MAY_BE_EMPTY):
            empty.append(f"{board} / {panel}: {expression}")
    return len(lines), empty


def run(source, binaries, prometheus, scratch, processes):
    data = scratch / "data"
    processes.append(subprocess.Popen(
        [binaries / "nerfd", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
         "--data-dir", data], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
    ports = wait_for("nerfd", lambda: ports_of(data), 20)
    monitoring = scratch / "monitoring"
    shutil.copytree(source / "monitoring", monitoring)
    config = monitoring / "prometheus.yaml"
    config.write_text(config.read_text().replace("127.0.0.1:9464", ports["metrics"])
                      .replace("interval: 15s", "interval: 1s"))
    recording = monitoring / "rules/nerfd.recording.yaml"
    recording.write_text(recording.read_text().replace("interval: 15s", "interval: 1s"))
    port = free_port()
    processes.append(subprocess.Popen(
        [prometheus, f"--config.file={config}", f"--storage.tsdb.path={scratch / 'tsdb'}",
         f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]))
    base = f"http://127.0.0.1:{port}/api/v1"

    environment = dict(os.environ, NERFCTL_SERVER=ports["grpc"])

    def nerfctl(*words):
        return subprocess.run([binaries / "nerfctl", *words], env=environment, check=True,
                              capture_output=True, text=True).stdout
    nerfctl("train", str(source / "examples/mic"), "--samples", "20M", "--id", "mic", "--detach")
    wait_for("steps in Prometheus", lambda: get(
        f"{base}/query?query=nerfd_train_psnr_decibels")["result"])
    nerfctl("render", "--job", "mic", "--orbit", "2", "--width", "100", "--height", "100",
            "--out", str(scratch / "views"))
    # Rates need a few scrapes.
    wait_for("rates", lambda: all(get(f"{base}/query?query={series}")["result"] for series in (
        "nerfd:train_step_seconds:mean5m", "nerfd:render_seconds:p95_5m>0",
        "nerfd:grpc_server_faults:ratio5m")))
    n_panels, empty = evaluate_panels(source, base)
    rules = [rule for group in get(f"{base}/rules")["groups"] for rule in group["rules"]]
    bad = [f"{rule['name']}: {rule.get('lastError', '')}" for rule in rules
           if rule["health"] != "ok"]
    firing = [rule["name"] for rule in rules if rule.get("state") == "firing"]
    for problem in empty + bad + firing:
        print("FAIL:", problem)
    print(f"{n_panels} expressions of panels, {len(rules)} rules: {len(empty)} empty, "
          f"{len(bad)} in error, {len(firing)} firing")
    return 1 if empty or bad or firing else 0


def main():
    source, binaries = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    prometheus = shutil.which("prometheus") or str(source / "build/tools/usr/bin/prometheus")
    if not os.access(prometheus, os.X_OK):
        print("SKIPPED: no prometheus")
        return 77
    processes = []
    with tempfile.TemporaryDirectory() as scratch:
        try:
            return run(source, binaries, prometheus, pathlib.Path(scratch), processes)
        finally:
            for process in reversed(processes):
                process.terminate()
            for process in processes:
                process.wait(60)


if __name__ == "__main__":
    sys.exit(main())
