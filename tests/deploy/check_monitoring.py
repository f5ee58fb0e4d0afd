#!/usr/bin/env python3
"""Checks that documents, rules, dashboards and a running server agree on the names of metrics.

    check_monitoring.py SOURCE METRICS_FILE

METRICS_FILE is what /metrics answered. Fails where
- the server exposes a metric that docs/run/metrics.md lacks, or with another type;
- docs/run/metrics.md names a metric that neither the server exposes nor its sources name;
- a rule, a panel or a query of that page reads a metric or a recorded series that is nowhere;
- a panel has no words for a series that no event has begun yet;
- gpu_series.txt, which stands in for GPU workers, differs from docs/run/metrics.md.
"""
import json
import pathlib
import re
import subprocess
import sys

ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \|", re.M)
SUFFIX = re.compile(r"_(bucket|sum|count)$")


def main():
    source = pathlib.Path(sys.argv[1])
    exposed = dict(re.findall(r"^# TYPE (\S+) (\S+)", pathlib.Path(sys.argv[2]).read_text(), re.M))
    page = (source / "docs/run/metrics.md").read_text()
    rows = ROW.findall(page)
    queries = re.search(r"^```promql\n(.*?)^```", page, re.M | re.S)[1]
    documented = {name: kind for name, kind, _ in rows}
    in_sources = set()
    for file in (source / "server").rglob("*.cc"):
        in_sources.update(re.findall(r'"((?:nerfd|grpc_server|process)_\w+)"', file.read_text()))
    wrong = []
    if not exposed:
        wrong.append("the server exposes nothing")
    for name, kind in sorted(exposed.items()):
        if documented.get(name) != kind:
            wrong.append(f"docs/run/metrics.md: {name} should be listed as {kind}")
    for name in sorted(set(documented) - set(exposed) - in_sources):
        wrong.append(f"docs/run/metrics.md: the server has no {name}")

    rules = "".join(f.read_text() for f in sorted((source / "monitoring/rules").glob("*.yaml")))
    recorded = set(re.findall(r"record: (\S+)", rules))
    panels = subprocess.run([sys.executable, source / "monitoring/make_dashboards.py", "--exprs"],
                            check=True, capture_output=True, text=True).stdout
    read = re.findall(r"(?<![:\w])(?:nerfd|grpc_server|process)_\w+", rules + panels + queries)
    for name in sorted(set(read)):
        if SUFFIX.sub("", name) not in documented and name not in documented:
            wrong.append(f"monitoring: nothing is called {name}")
    for name in sorted(set(re.findall(r"\bnerfd:\w+:\w+", rules + panels)) - recorded):
        wrong.append(f"monitoring: nothing records {name}")
    for file in sorted((source / "monitoring/dashboards").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            if not panel["fieldConfig"]["defaults"].get("noValue"):
                wrong.append(f"{file.name}: {panel['title']} says \"No data\" in a new install")
    stand_in = (source / "tests/deploy/gpu_series.txt").read_text()
    shown = {(name, tuple(re.findall(r'(\w+)="', labels)))
             for name, labels in re.findall(r"^(\w+)\{(.*)\}", stand_in, re.M)}
    said = {(name, tuple(re.findall(r"`(\w+)`", labels))) for name, _, labels in rows
            if name.startswith("nerfd_gpu_")}
    for name, labels in sorted(shown ^ said):
        wrong.append("gpu_series.txt and docs/run/metrics.md differ in "
                     f"{name}{{{', '.join(labels)}}}")
    print("\n".join(wrong) if wrong else f"{len(documented)} metrics agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
