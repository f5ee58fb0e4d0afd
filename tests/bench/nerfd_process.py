"""A nerfd of a bench's own, and what /proc says of a process."""
import json
import os
import pathlib
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
START_SECONDS = 300  # on a loaded machine


def start_nerfd(binaries, data, *flags, environment=None):
    """Starts nerfd and waits until it serves. Logs beside its folder `data`. Returns the process and its addresses."""
    ports = data / "nerfd.ports"  # the last file that it writes
    ports.unlink(missing_ok=True)
    log_path = data.parent / "nerfd.log"
    with open(log_path, "ab") as log:
        process = subprocess.Popen([binaries / "nerfd", "--data-dir", data, "--metrics-listen", "127.0.0.1:0", *flags],
                                   stdout=log, stderr=log, env=environment)
    deadline = time.monotonic() + START_SECONDS
    while not ports.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit("nerfd does not start:\n" + log_path.read_text())
        time.sleep(0.05)
    return process, json.loads(ports.read_text())


def stat_of(pid):
    """Parent, and seconds of user and system time."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS


def cpu_seconds(pid):
    return stat_of(pid)[1]


def resident_mib(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
