#!/usr/bin/env python3
"""A backup of a server under load, restored, and the checker of histories on both lives.

Clients work as in workload.py. In the middle `nerfctl backup` runs; the clients go on, then nerfd is killed and a new
one starts at the same address from the backup, while the workers, some with leases of later, run on. The clients go on,
and the checker knows of all that was acknowledged before the backup began:

  - no job and no request id of before is lost, no final state of before changes, no watch has a gap
  - a token of a watch of the earlier life ends with EPOCH_MISMATCH
  - a result under a lease of the earlier life is refused

With --postgres the backup is pg_dump, and copies of the blobs before and after it
(docs/run/postgres.md).
--bug lose-job deletes a job of the restored store; the checker has to find it. faults_test.sh runs it.
"""
import copy
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

import grpc
from nerf.v1 import job_service_pb2 as job_service

import postgres
import workload

WATCH = job_service.WatchJobRequest


class Restorable(workload.Service):
    """A service that may go on from a backup, in another folder at the same address."""

    def __init__(self, *arguments):
        self.restore_flags = []
        super().__init__(*arguments)

    def spawn(self, name, arguments):
        return super().spawn(name, [*arguments, *self.restore_flags] if name == "nerfd" else arguments)

    def restore(self, backup):
        old, self.data = self.data, self.folder / "restored"
        self.data.mkdir()
        for token in ("admin.token", "worker.token"):  # those that clients and workers have
            shutil.copy(old / token, self.data / token)
        if self.postgres:
            shutil.copytree(backup / "blobs", self.data / "blobs")
            in_database = ["-h", self.postgres.socket, "-U", "nerfd"]
            self.postgres.program("dropdb", *in_database, "--force", "nerfd")
            self.postgres.program("createdb", *in_database, "nerfd")
            with open(backup / "dump", "rb") as dump:
                restore = self.postgres.spawn("pg_restore", *in_database, "-d", "nerfd", stdin=dump)
                assert restore.wait() == 0
            self.postgres.rows(
                "DELETE FROM nerfd.meta WHERE key IN ('store_epoch', 'token_secret')")
        else:
            self.restore_flags = ["--restore", backup]
        self.start_server()
        self.restore_flags = []


def copied(history):
    """A history with what this one knows now."""
    known = workload.History()
    with history.lock:
        for name in ("requests", "sent", "jobs", "names", "unended", "cancelled", "promotes", "models"):
            setattr(known, name, copy.copy(getattr(history, name)))
    return known


def work_with(arguments, service, history, scene, seed):
    """Starts clients and watchers. Returns a function that ends them."""
    stop = threading.Event()
    clients = [workload.Client(service, history, scene, seed + i, stop, arguments.pause, arguments.open_jobs)
               for i in range(arguments.clients)]
    watchers = [workload.Watcher(service, history, seed + 500 + i, stop, False) for i in range(2)]
    for thread in [*clients, *watchers]:
        thread.start()

    def end():
        stop.set()
        for thread in [*clients, *watchers]:
            thread.join(2 * workload.CALL_SECONDS)
        history.n_events = sum(watcher.n_events for watcher in watchers)
    return end


def a_watch_token(connection, history):
    """The token of a watch's first event, and its job."""
    with history.lock:
        name = history.names[0]
    for event in connection.jobs.WatchJob(WATCH(name=name), timeout=workload.CALL_SECONDS,
                                          metadata=connection.metadata):
        return name, event.resume_token
    raise AssertionError("the watch has no event")


def check_old_token(connection, history, name, token):
    try:
        request = WATCH(name=name, resume_token=token)
        workload.patiently(lambda: list(connection.jobs.WatchJob(
            request, timeout=workload.CALL_SECONDS, metadata=connection.metadata, wait_for_ready=True)))
        history.violation("a watch went on with a token of the earlier life")
    except grpc.RpcError as error:
        details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
        if b"EPOCH_MISMATCH" not in details:
            history.violation(f"a token of the earlier life got {error.code().name}: {error.details()}")


class LongJob:
    """A job that trains through the backup and gets another lease after it."""

    def __init__(self, connection, scene):
        self.connection = connection
        self.request = job_service.CreateJobRequest(
            job=workload.training_of(scene, 10**6, priority=100), request_id=str(uuid.uuid4()))
        self.name = connection.call("CreateJob", self.request).name

    def wait_for(self, state):
        deadline = time.monotonic() + 60
        get = job_service.GetJobRequest(name=self.name)
        while self.connection.call("GetJob", get).state != state:
            if time.monotonic() > deadline:
                raise AssertionError(f"the long job is not {workload.JOB.State.Name(state)}")
            time.sleep(0.05)

    def take_another_lease(self):
        self.connection.call("PauseJob", job_service.PauseJobRequest(name=self.name))
        self.wait_for(workload.JOB.PAUSED)
        self.connection.call("ResumeJob", job_service.ResumeJobRequest(name=self.name))
        self.wait_for(workload.JOB.RUNNING)

    def end(self, history):
        workload.patiently(lambda: self.connection.call(
            "CancelJob", job_service.CancelJobRequest(name=self.name)))
        history.sent[self.request.request_id] = ("CreateJob", self.request)
        history.acknowledged(self.request.request_id, self.name)


def dump(service):
    begin = time.monotonic()
    backup = service.folder / "backup"
    backup.mkdir()

    def copy_blobs():
        # Of one that is deleted meanwhile nothing is left: its name is gone before.
        subprocess.run(["cp", "-an", service.data / "blobs", backup], check=False,
                       stderr=subprocess.DEVNULL)
    copy_blobs()
    with open(backup / "dump", "wb") as file:
        process = service.postgres.spawn("pg_dump", "-h", service.postgres.socket, "-U", "nerfd",
                                         "-Fc", "-n", "nerfd", "nerfd", stdout=file)
        assert process.wait() == 0
    copy_blobs()
    return backup, time.monotonic() - begin


def back_up(arguments, service, connection):
    if service.postgres:
        return dump(service)
    environment = {**os.environ, "NERFCTL_TOKEN": connection.metadata[0][1].split()[1]}
    begin = time.monotonic()
    subprocess.run([arguments.binaries / "nerfctl", "--server", service.address, "backup", "--id", "loaded"],
                   check=True, env=environment, stdout=subprocess.DEVNULL)
    return service.data / "backups/loaded", time.monotonic() - begin


def n_fenced(service):
    with urllib.request.urlopen(f"http://{service.metrics}/metrics", timeout=10) as page:
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.read().decode().splitlines()
                   if line.startswith("nerfd_lease_fenced_writes_total"))


def run(arguments):
    database = None
    if arguments.postgres:
        if not (postgres.BIN / "initdb").exists():
            print("SKIPPED: no PostgreSQL")
            sys.exit(77)
        arguments.folder.chmod(0o711)  # PostgreSQL does not run as root
        arguments.folder.parent.chmod(0o711)
        database = postgres.Postgres(arguments.folder / "postgres")
    service = Restorable(arguments.binaries, arguments.engine, arguments.folder, 2, database)
    try:
        connection = workload.Connection(service)
        scene_folder = workload.small_scene(arguments.folder / "scene")
        scene = workload.patiently(lambda: workload.make_scene(connection, scene_folder))
        first_life = workload.History()
        end = work_with(arguments, service, first_life, scene, arguments.seed * 1000)
        long_job = LongJob(connection, scene)
        time.sleep(arguments.seconds)
        long_job.wait_for(workload.JOB.RUNNING)
        name, token = a_watch_token(connection, first_life)
        history = copied(first_life)
        backup, seconds = back_up(arguments, service, connection)
        long_job.take_another_lease()
        time.sleep(arguments.seconds / 2)
        service.stop_server()
        end()
        # What is repeated at the end makes its job or model, now or then.
        history.sent, history.promotes = first_life.sent, first_life.promotes
        n_before, n_lost = len(history.names), len(first_life.names) - len(history.names)
        service.restore(backup)
        check_old_token(connection, history, name, token)
        end = work_with(arguments, service, history, scene, arguments.seed * 2000)
        time.sleep(arguments.seconds / 2)
        end()
        deadline = time.monotonic() + 60  # for the workers to come back
        while n_fenced(service) == 0 and time.monotonic() < deadline:
            time.sleep(0.1)
        long_job.end(history)
        fenced = n_fenced(service)
        if fenced == 0:
            history.violation("no result of the earlier life was refused")
        if arguments.bug is not None:
            workload.break_store(service, arguments.bug, history)
        workload.settle(connection, history, arguments.settle_seconds)
        jobs = workload.list_jobs(connection)
        workload.check_end(connection, history, jobs)
        jobs = workload.settle(connection, history, arguments.settle_seconds)
        service.end()
        workload.check_store(service, history, jobs)
    finally:
        service.end()
    violations = first_life.violations + history.violations
    print(f"seed {arguments.seed}: backup in {seconds:.2f} s after {n_before} jobs, {n_lost} more before the restore; "
          f"{len(jobs)} jobs at the end, {sum(history.calls.values()) + sum(first_life.calls.values())} calls, "
          f"{first_life.n_events + history.n_events} events, {fenced:.0f} results of the earlier life refused, "
          f"{len(violations)} violations")
    for violation in violations[:20]:
        print("  " + violation)
    return len(violations)


def main():
    parser = workload.service_flags()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10, help="of load before the backup; half after each change")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--pause", type=float, default=0.05, help="between the calls of a client, in seconds")
    parser.add_argument("--open-jobs", type=int, default=40, help="jobs that have not ended, at most")
    parser.add_argument("--settle-seconds", type=float, default=300)
    parser.add_argument("--postgres", action="store_true")
    parser.add_argument("--bug", choices=["lose-job"])
    arguments = parser.parse_args()
    sys.exit(0 if (run(arguments) > 0) == (arguments.bug is not None) else 1)


if __name__ == "__main__":
    main()
