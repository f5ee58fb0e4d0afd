#!/usr/bin/env python3
"""Writes monitoring/dashboards/*.json, Grafana dashboards, from the table below.

    make_dashboards.py           writes the files
    make_dashboards.py --check   exits 1 where a file is not what the table gives
    make_dashboards.py --exprs   prints dashboard, panel and expression, tab-separated

A panel is (title, unit, width of 24, [(legend, expression)]). A title that begins with "#" is a
single number. Panels marked GPU are empty without a GPU worker.
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
HEIGHT = 8


def quantiles(metric, by=""):
    """p50, p95 and p99 of a histogram, one series each (and one for each value of `by`)."""
    legend = f" {{{{{by}}}}}" if by else ""
    grouping = f"le, {by}" if by else "le"
    return [(f"p{q}{legend}",
             f"histogram_quantile({q / 100}, "
             f"sum by ({grouping}) (rate({metric}_bucket[$__rate_interval])))")
            for q in (50, 95, 99)]


DASHBOARDS = {
    "overview": ("nerfd / Overview", [
        ("#Up", "short", 4, [("", 'min(up{job="nerfd"})')]),
        ("#Running", "short", 4, [("", 'sum(nerfd_jobs{state=~"PREPARING|RUNNING"})')]),
        ("#Queued", "short", 4, [("", "sum(nerfd_queue_jobs)")]),
        ("#Workers", "short", 4, [("", 'sum(nerfd_workers{state=~"idle|busy|draining"})')]),
        ("#Failed in 24 h", "short", 4,
         [("", 'sum(increase(nerfd_jobs_finished_total{result="failed"}[24h]))')]),
        ("#Free for blobs", "bytes", 4, [("", "min(nerfd_blob_store_free_bytes)")]),
        ("Jobs by state", "short", 12, [("{{state}}", "sum by (state) (nerfd_jobs)")]),
        ("Rays trained", "ops", 12, [("{{device}}", "nerfd:train_rays:rate1m")]),
        ("Renders", "ops", 12, [
            ("{{kind}} {{result}}",
             "sum by (kind, result) (rate(nerfd_render_requests_total[$__rate_interval]))")]),
        ("Calls that are the server's fault", "percentunit", 12,
         [("share", "nerfd:grpc_server_faults:ratio5m")]),
        ("Version", "short", 24, [("{{version}} {{revision}} gRPC {{grpc}} CUDA {{cuda}}",
                                   "nerfd_build_info")]),
    ]),
    "queue": ("nerfd / Queue", [
        ("Waiting jobs", "short", 12, [("jobs", "sum(nerfd_queue_jobs)")]),
        ("Age of the job that waits longest", "s", 12,
         [("age", "max(nerfd_queue_oldest_job_age_seconds)")]),
        ("Time in the queue of jobs that started within an hour, p95", "s", 12,
         [("wait", "nerfd:job_queue_seconds:p95_1h")]),
        ("Jobs accepted", "ops", 12,
         [("{{project}}",
           "sum by (project) (rate(nerfd_jobs_created_total[$__rate_interval]))")]),
        ("Jobs ended in an hour", "short", 12,
         [("{{result}} {{reason}}",
           "sum by (result, reason) (increase(nerfd_jobs_finished_total[1h]))")]),
        ("Attempts ended in an hour", "short", 12,
         [("{{result}}", "sum by (result) (increase(nerfd_job_attempts_total[1h]))")]),
        ("Pose jobs by state", "short", 12, [("{{state}}", "sum by (state) (nerfd_pose_jobs)")]),
        ("Time of jobs, from their start on a worker", "s", 12,
         quantiles("nerfd_job_duration_seconds", "kind")),
        ("Leases held", "short", 12, [("leases", "nerfd_leases")]),
        ("Leases expired, writes fenced, in an hour", "short", 12,
         [("expired", "increase(nerfd_lease_expirations_total[1h])"),
          ("fenced {{rpc}}", "sum by (rpc) (increase(nerfd_lease_fenced_writes_total[1h]))")]),
        ("Open watches", "short", 12, [("{{kind}}", "nerfd_watchers")]),
        ("Time from an event to its watches, p99", "s", 12,
         [("delay", "nerfd:watch_event_delay_seconds:p99_5m")]),
    ]),
    "workers": ("nerfd / Workers", [
        ("Workers by state", "short", 12, [("{{state}}", "sum by (state) (nerfd_workers)")]),
        ("Steps", "ops", 12, [("{{device}}", "nerfd:train_steps:rate1m")]),
        ("Time of a step", "s", 12, [("{{device}}", "nerfd:train_step_seconds:mean5m")]),
        ("Rays", "ops", 12, [("{{device}}", "nerfd:train_rays:rate1m")]),
        ("PSNR of training rays", "dB", 12, [("{{worker}}", "nerfd_train_psnr_decibels")]),
        ("Loss", "short", 12, [("{{worker}}", "nerfd_train_loss")]),
        ("Time since the last step", "s", 12,
         [("{{worker}}", "time() - nerfd_train_last_step_timestamp_seconds")]),
        ("Time since the last checkpoint", "s", 12,
         [("{{worker}}", "time() - nerfd_checkpoint_last_success_timestamp_seconds")]),
        ("Share of time that steps wait for rays", "percentunit", 12,
         [("{{worker}}", "nerfd_train_stall_ratio")]),
        ("GPU utilization", "percentunit", 12,
         [("{{worker}} {{gpu}}", "nerfd_gpu_utilization_ratio")]),
        ("GPU memory", "percentunit", 12,
         [("{{worker}} {{gpu}}", "nerfd_gpu_memory_used_bytes / nerfd_gpu_memory_size_bytes")]),
        ("GPU temperature", "celsius", 12,
         [("{{worker}} {{gpu}}", "nerfd_gpu_temperature_celsius")]),
        ("GPU power", "watt", 12, [("{{worker}} {{gpu}}", "nerfd_gpu_power_watts")]),
    ]),
    "render": ("nerfd / Render", [
        ("Renders", "ops", 12, [
            ("{{kind}} {{result}}",
             "sum by (kind, result) (rate(nerfd_render_requests_total[$__rate_interval]))")]),
        ("Share that fails", "percentunit", 12, [
            ("failed",
             '(sum(rate(nerfd_render_requests_total{result!="ok"}[$__rate_interval])) or vector(0))'
             " / sum(rate(nerfd_render_requests_total[$__rate_interval]))")]),
        ("Time from request to reply", "s", 24,
         quantiles("nerfd_render_duration_seconds", "kind")),
        ("Live views", "short", 12, [("open", "sum(nerfd_live_views)")]),
        ("Frames of live views", "ops", 12, [
            ("{{camera}}",
             "sum by (camera) (rate(nerfd_live_view_frame_seconds_count[$__rate_interval]))")]),
        ("Time from an update to its frame", "s", 24,
         quantiles("nerfd_live_view_frame_seconds", "camera")),
    ]),
    "web": ("nerfd / Calls", [
        ("Calls by method", "ops", 12, [("{{grpc_method}}", "nerfd:grpc_calls:rate1m > 0")]),
        ("Calls by code", "ops", 12, [
            ("{{grpc_code}}",
             "sum by (grpc_code) (rate(grpc_server_handled_total[$__rate_interval])) > 0")]),
        ("Time of unary calls, p99", "s", 12, [
            ("{{grpc_method}}",
             "histogram_quantile(0.99, sum by (le, grpc_method) (rate("
             'grpc_server_handling_seconds_bucket{grpc_type="unary"}[$__rate_interval]))) >= 0')]),
        ("Calls under way", "short", 12, [
            ("{{grpc_method}}",
             "sum by (grpc_method) (grpc_server_started_total)"
             " - sum by (grpc_method) (grpc_server_handled_total)")]),
        ("Calls refused in an hour", "short", 12, [
            ("{{reason}}", "sum by (reason) (increase(nerfd_auth_failures_total[1h]))")]),
        ("Messages", "ops", 12, [
            ("received", "sum(rate(grpc_server_msg_received_total[$__rate_interval]))"),
            ("sent", "sum(rate(grpc_server_msg_sent_total[$__rate_interval]))")]),
        ("File descriptors", "short", 12, [
            ("open", 'process_open_fds{job="nerfd"}'),
            ("limit", 'process_max_fds{job="nerfd"}')]),
    ]),
    "storage": ("nerfd / Storage", [
        ("Time of a commit", "s", 12, quantiles("nerfd_store_commit_duration_seconds")),
        ("Commits", "ops", 12, [
            ("commits",
             "sum(rate(nerfd_store_commit_duration_seconds_count[$__rate_interval]))"),
            ("errors {{op}}", "sum by (op) (rate(nerfd_store_errors_total[$__rate_interval]))")]),
        ("Blobs", "bytes", 12, [("held", "nerfd_blob_store_size_bytes"),
                                ("free", "nerfd_blob_store_free_bytes")]),
        ("Blobs moved", "Bps", 12, [
            ("received", "rate(nerfd_blob_received_bytes_total[$__rate_interval])"),
            ("sent", "rate(nerfd_blob_sent_bytes_total[$__rate_interval])")]),
        ("Uploads that failed in an hour", "short", 12, [
            ("{{reason}}",
             "sum by (reason) (increase(nerfd_blob_upload_failures_total[1h]))")]),
        ("Refused writes, damaged blobs", "short", 12, [
            ("the store refuses writes", "max(nerfd_store_read_only)"),
            ("damaged blobs in an hour", "sum(increase(nerfd_blob_damaged_total[1h]))")]),
        ("Memory and processor of nerfd", "short", 12, [
            ("resident bytes", 'process_resident_memory_bytes{job="nerfd"}'),
            ("cores", 'rate(process_cpu_seconds_total{job="nerfd"}[$__rate_interval])')]),
    ]),
}


def panel(number, x, y, title, unit, width, targets):
    single = title.startswith("#")
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number,
        "type": "stat" if single else "timeseries",
        "title": title.lstrip("#"),
        "datasource": source,
        "gridPos": {"x": x, "y": y, "w": width, "h": HEIGHT // 2 if single else HEIGHT},
        # What a panel shows before its first event, in place of "No data".
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "noValue": "none yet"},
                        "overrides": []},
        "options": {} if single else {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"}},
        "targets": [{"refId": chr(ord("A") + i), "datasource": source, "expr": expression,
                     "legendFormat": legend or "__auto"}
                    for i, (legend, expression) in enumerate(targets)],
    }


def dashboard(name):
    title, rows = DASHBOARDS[name]
    panels, x, y = [], 0, 0
    for number, (heading, unit, width, targets) in enumerate(rows, start=1):
        if x + width > 24:
            x, y = 0, y + panels[-1]["gridPos"]["h"]
        panels.append(panel(number, x, y, heading, unit, width, targets))
        x += width
    return {
        "uid": f"nerfd-{name}", "title": title, "tags": ["nerfd"], "schemaVersion": 39,
        "editable": True, "refresh": "10s", "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser", "annotations": {"list": []}, "links": [
            {"type": "dashboards", "title": "nerfd", "tags": ["nerfd"], "asDropdown": True,
             "icon": "external link", "includeVars": False, "keepTime": True, "targetBlank": False,
             "tooltip": "Other dashboards of nerfd"}],
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus",
                                 "label": "Prometheus", "hide": 0}]},
        "panels": panels,
    }


def main():
    if "--exprs" in sys.argv:
        for name, (_, rows) in DASHBOARDS.items():
            for title, _, _, targets in rows:
                for _, expression in targets:
                    print(name, title.lstrip("#"), expression, sep="\t")
        return 0
    stale = []
    for name in DASHBOARDS:
        text = json.dumps(dashboard(name), indent=1) + "\n"
        file = FOLDER / f"{name}.json"
        if "--check" not in sys.argv:
            FOLDER.mkdir(exist_ok=True)
            file.write_text(text)
        elif not file.is_file() or file.read_text() != text:
            stale.append(name)
    for name in stale:
        print(f"monitoring/dashboards/{name}.json is stale: run monitoring/make_dashboards.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
