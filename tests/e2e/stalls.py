#!/usr/bin/env python3
"""Processes that are stopped beyond the lease, a network that is cut, uploads. The tests' engine trains.

  server     nerfd is stopped for longer than a lease: no lease expires, no job is placed anew
  agent      the agents of all jobs are stopped until other workers have the jobs: each of their late writes is fenced
             and counted, and the job stays with its new worker
  restarts   nerfd ends by SIGTERM and starts again while nerfctl runs in loops: each one succeeds
  uploads    large uploads are resumed and end at once, so that nerfd reads all of them again: no lease expires, and
             Gets and health checks are answered meanwhile
  partition  the bytes between a worker and nerfd stand still for 1 s and longer: the job goes on where it was

faults_test.sh runs it.
"""
import concurrent.futures
import contextlib
import hashlib
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

from google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from nerf.v1 import job_service_pb2 as job_service

import workload

JOB = job_service.Job
workload.CALL_SECONDS = 60  # on a loaded machine
WAIT_SECONDS = 120  # on a loaded machine


def step_of(job):
    return job.training_status.progress.step


def place_of(job):
    return job.attempt, list(job.workers)


class Service(workload.Service):
    """nerfd and workers whose engine writes a checkpoint each second."""

    def __init__(self, arguments, folder, n_workers, via=None):
        self.via, self.lease_seconds = via, arguments.lease_seconds
        super().__init__(arguments.binaries, arguments.engine, folder, 0)
        (folder / "engine").write_text(
            f'#!/bin/sh\nexec {arguments.engine} --step-ms=10 --checkpoint-every=100 "$@"\n')
        self.workers = [None] * n_workers
        for i in range(n_workers):
            self.start_worker(i)
        self.connection = workload.Connection(self)
        self.scene = workload.patiently(
            lambda: workload.make_scene(self.connection, workload.small_scene(folder / "scene")))

    def spawn(self, name, arguments):
        if name == "nerfd":
            arguments = [*arguments, "--lease-ttl", f"{self.lease_seconds:g}s"]
        if name.startswith("worker") and self.via is not None:
            arguments = [self.via(self.address) if part == self.address else part for part in arguments]
        return super().spawn(name, arguments)

    def metric(self, name):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=30) as page:
            text = page.read().decode()
        return sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))

    def create_jobs(self, count):
        job = workload.training_of(self.scene, 10**6)
        return [workload.patiently(lambda: self.connection.call(
            "CreateJob", job_service.CreateJobRequest(job=job, request_id=str(uuid.uuid4())))).name
                for _ in range(count)]

    def get(self, name):
        return workload.patiently(lambda: self.connection.call(
            "GetJob", job_service.GetJobRequest(name=name)))

    def wait(self, name, what, condition, seconds=WAIT_SECONDS):
        deadline = time.monotonic() + seconds
        while True:
            job = self.get(name)
            if condition(job):
                return job
            if time.monotonic() > deadline:
                raise AssertionError(f"{name}: no {what} within {seconds} s, but {JOB.State.Name(job.state)} at "
                                     f"attempt {job.attempt} of {job.workers}")
            time.sleep(0.05)

    def wait_for_steps(self, name, after=0, seconds=WAIT_SECONDS):
        return self.wait(name, f"step after {after}",
                         lambda job: job.state == JOB.RUNNING and step_of(job) > after, seconds)

    def agent_of(self, job):
        """The process of the worker that has a job."""
        for i, process in enumerate(self.workers):
            path = self.folder / f"cache-{i}" / "worker_id"
            if path.exists() and path.read_text().strip() == job.workers[0].rsplit("/", 1)[-1]:
                return process
        raise AssertionError(f"no process of {job.workers[0]}")


def stop_server(arguments, folder):
    service = Service(arguments, folder, n_workers=2)
    try:
        names = service.create_jobs(2)
        begin = [service.wait_for_steps(name) for name in names]
        for _ in range(arguments.rounds):
            service.server.send_signal(signal.SIGSTOP)
            time.sleep(1.3 * arguments.lease_seconds)
            service.server.send_signal(signal.SIGCONT)
            for name in names:
                service.wait_for_steps(name, after=step_of(service.get(name)))
        for name, job in zip(names, begin):
            now = service.get(name)
            assert place_of(now) == place_of(job), f"{name} was placed anew"
        expired = service.metric("nerfd_lease_expirations_total")
        assert expired == 0, f"{expired:g} leases expired"
        return f"{arguments.rounds} rounds, 0 leases expired, 0 jobs placed anew"
    finally:
        service.end()


def stop_agents(arguments, folder):
    """Half of the workers have the jobs; the others get them."""
    n_jobs = min(arguments.jobs, arguments.rounds)
    service = Service(arguments, folder, n_workers=2 * n_jobs)
    try:
        names = service.create_jobs(n_jobs)
        n_rounds, n_fenced = 0, 0
        while n_rounds < arguments.rounds:
            jobs = {name: service.wait_for_steps(name, after=step_of(service.get(name)))
                    for name in names}
            before = service.metric("nerfd_lease_fenced_writes_total")
            agents = [service.agent_of(job) for job in jobs.values()]
            for agent in agents:
                agent.send_signal(signal.SIGSTOP)
            placed = {name: service.wait(name, "new worker", lambda now, job=job: now.state == JOB.RUNNING and
                                         now.attempt > job.attempt and now.workers != job.workers)
                      for name, job in jobs.items()}
            for agent in agents:
                agent.send_signal(signal.SIGCONT)
            deadline = time.monotonic() + WAIT_SECONDS
            while (fenced := service.metric("nerfd_lease_fenced_writes_total") - before) < n_jobs:
                assert time.monotonic() < deadline, f"{fenced:g} of {n_jobs} late writes were fenced"
                time.sleep(0.1)
            for name, job in placed.items():
                now = service.wait_for_steps(name, after=step_of(job))
                assert place_of(now) == place_of(job), f"{name} left its new worker"
            n_rounds += n_jobs
            n_fenced += int(fenced)
        return f"{n_rounds} agents stopped, {n_fenced} late writes fenced, no job left its new worker"
    finally:
        for worker in service.workers:
            worker.send_signal(signal.SIGCONT)
        service.end()


class Relay(threading.Thread):
    """Carries bytes between a worker and nerfd, or holds them."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.held, self.target, self.pairs = False, None, {}

    def via(self, target):
        self.target = target
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self):
        while True:
            if self.held:
                time.sleep(0.02)
                continue
            for ready in select.select([self.listener, *self.pairs], [], [], 0.05)[0]:
                if ready is self.listener:
                    self.connect(ready.accept()[0])
                elif ready in self.pairs:
                    self.carry(ready)

    def connect(self, near):
        host, port = self.target.rsplit(":", 1)
        try:
            far = socket.create_connection((host, int(port)))
        except OSError:
            near.close()
            return
        self.pairs[near], self.pairs[far] = far, near

    def carry(self, source):
        sink = self.pairs[source]
        try:
            content = source.recv(1 << 16)
            if content:
                sink.sendall(content)
                return
        except OSError:
            pass
        for end in (source, sink):
            del self.pairs[end]
            end.close()


def cut_network(arguments, folder):
    relay = Relay()
    relay.start()
    service = Service(arguments, folder, n_workers=1, via=relay.via)
    try:
        [name] = service.create_jobs(1)
        begin = service.wait_for_steps(name)
        for seconds in arguments.partitions:
            before = step_of(service.get(name))
            relay.held = True
            time.sleep(seconds)
            relay.held = False
            # It trained on meanwhile: 100 steps a second at most, half of that on a loaded machine.
            job = service.wait_for_steps(name, after=before + int(seconds * arguments.steps_per_second))
            assert place_of(job) == place_of(begin), \
                f"after {seconds:g} s it is at attempt {job.attempt}"
        lengths = ", ".join(f"{seconds:g}" for seconds in arguments.partitions)
        return f"cut for {lengths} s, same attempt, no step lost"
    finally:
        service.end()


class Commands(threading.Thread):
    """Runs nerfctl again and again."""

    def __init__(self, service, stop):
        super().__init__(daemon=True)
        self.command = [service.binaries / "nerfctl", "--server", service.address, "job", "ls"]
        token = (service.data / "admin.token").read_text().strip()
        self.environment = {**os.environ, "NERFCTL_TOKEN": token}
        self.stop, self.n, self.failures = stop, 0, []

    def run(self):
        while not self.stop.is_set():
            ended = subprocess.run(self.command, env=self.environment, capture_output=True, text=True, check=False)
            self.n += 1
            if ended.returncode != 0:
                self.failures.append(f"{ended.returncode}: {ended.stderr.strip()[-300:]}")


def restart_server(arguments, folder):
    service = Service(arguments, folder, n_workers=1)
    stop = threading.Event()
    try:
        [name] = service.create_jobs(1)
        begin = service.wait_for_steps(name)
        loops = [Commands(service, stop) for _ in range(4)]
        for loop in loops:
            loop.start()
        for _ in range(arguments.restarts):
            service.server.terminate()
            assert service.server.wait(WAIT_SECONDS) == 0, "nerfd failed to end"
            service.start_server()
            job = service.wait_for_steps(name, after=step_of(service.get(name)))
            assert place_of(job) == place_of(begin), f"{name} was placed anew"
        stop.set()
        for loop in loops:
            loop.join()
        failures = [failure for loop in loops for failure in loop.failures]
        assert not failures, f"{len(failures)} commands failed: {failures[0]}"
        n = sum(loop.n for loop in loops)
        return f"{arguments.restarts} restarts, {n} commands, none failed, 0 jobs placed anew"
    finally:
        stop.set()
        service.end()


class Upload(threading.Thread):
    """A file of zeros behind a name of its own, in two parts. All threads send the second one together."""

    CHUNK = bytes(1 << 20)

    def __init__(self, service, mib, together):
        super().__init__(daemon=True)
        self.connection, self.mib, self.together = workload.Connection(service), mib, together
        self.start_of_file, self.error = uuid.uuid4().bytes, None
        digest = hashlib.sha256(self.start_of_file)
        self.size = mib * len(self.CHUNK)
        digest.update(self.CHUNK[len(self.start_of_file):])
        for _ in range(mib - 1):
            digest.update(self.CHUNK)
        self.resource = f"uploads/{uuid.uuid4()}/blobs/{digest.hexdigest()}/{self.size}"

    def write(self, parts):
        stub = bytestream_pb2_grpc.ByteStreamStub(self.connection.channel)
        return stub.Write(parts, timeout=3600, metadata=self.connection.metadata).committed_size

    def requests(self, offset, parts, finish):
        for part in parts:
            yield bytestream_pb2.WriteRequest(resource_name=self.resource, write_offset=offset, data=part)
            offset += len(part)
        if finish:
            yield bytestream_pb2.WriteRequest(resource_name=self.resource, write_offset=offset, finish_write=True)

    def run(self):
        try:
            first = [self.start_of_file] + (self.mib - 1) * [self.CHUNK]
            offset = self.write(self.requests(0, first, finish=False))
            self.together.wait()
            left = bytes(self.size - offset)
            parts = [left[i:i + len(self.CHUNK)] for i in range(0, len(left), len(self.CHUNK))]
            committed = self.write(self.requests(offset, parts, finish=True))
            assert committed == self.size, f"{committed} of {self.size} bytes"
        except Exception as error:  # shown by the main thread
            self.error = error
            self.together.abort()


class HealthCheck(threading.Thread):
    """Calls grpc.health.v1.Health.Check a hundred times a second until it is stopped."""

    SERVING = b"\x08\x01"  # HealthCheckResponse(status=SERVING)

    def __init__(self, service):
        super().__init__(daemon=True)
        connection = workload.Connection(service)
        # Python's stubs of it are in a package of their own; the request is empty.
        self.check = connection.channel.unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)
        self.times, self.error, self.stopped = [], None, threading.Event()

    def run(self):
        while not self.stopped.wait(0.01):
            sent = time.monotonic()
            try:
                reply = self.check(b"", timeout=workload.CALL_SECONDS, wait_for_ready=True)
            except Exception as error:  # shown by the main thread
                self.error = error
                return
            self.times.append(time.monotonic() - sent)
            if reply != self.SERVING:
                self.error = f"health is {reply!r}"

    def end(self):
        self.stopped.set()
        self.join()
        assert self.error is None, self.error
        return self.times


def quantiles(seconds):
    seconds = sorted(seconds) or [0]
    return (f"p50 {seconds[len(seconds) // 2] * 1e3:.1f} ms, p99 {seconds[int(len(seconds) * 0.99)] * 1e3:.1f} ms, "
            f"longest {seconds[-1] * 1e3:.1f} ms")


def resume_uploads(arguments, folder):
    service = Service(arguments, folder, n_workers=1)
    try:
        [name] = service.create_jobs(1)
        begin = service.wait_for_steps(name)
        together = threading.Barrier(arguments.uploads + 1)
        uploads = [Upload(service, arguments.upload_mib, together) for _ in range(arguments.uploads)]
        for upload in uploads:
            upload.start()
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()
        health = HealthCheck(service)
        health.start()
        times = []
        while any(upload.is_alive() for upload in uploads):
            sent = time.monotonic()
            service.get(name)
            times.append(time.monotonic() - sent)
            time.sleep(0.01)
        health_times = health.end()
        errors = [upload.error for upload in uploads if upload.error is not None]
        assert not errors, f"{len(errors)} uploads failed: {errors[0]}"
        job = service.wait_for_steps(name, after=step_of(service.get(name)))
        expired = service.metric("nerfd_lease_expirations_total")
        assert (job.attempt, expired) == (begin.attempt, 0), f"{expired:g} leases expired"
        return (f"{len(uploads)} uploads of {arguments.upload_mib} MiB, 0 leases expired, {len(times)} Gets, "
                f"{quantiles(times)}; {len(health_times)} health checks, {quantiles(health_times)}")
    finally:
        service.end()


SCENARIOS = {"server": stop_server, "agent": stop_agents, "restarts": restart_server, "uploads": resume_uploads,
             "partition": cut_network}


def main():
    parser = workload.service_flags()
    parser.add_argument("--rounds", type=int, default=2, help="of server and agent")
    parser.add_argument("--lease-seconds", type=float, default=3, help="more where agents may get no CPU for so long")
    parser.add_argument("--jobs", type=int, default=4, help="whose agents are stopped together")
    parser.add_argument("--restarts", type=int, default=2)
    parser.add_argument("--uploads", type=int, default=8)
    parser.add_argument("--upload-mib", type=int, default=16)
    parser.add_argument("--partitions", type=float, nargs="*", default=[1, 5], help="in seconds")
    parser.add_argument("--steps-per-second", type=float, default=10, help="that the engine makes at least")
    parser.add_argument("--only", choices=SCENARIOS, nargs="+",
                        default=[name for name in SCENARIOS if name != "restarts"])
    parser.add_argument("--together", action="store_true",
                        help="all at once: they wait more than they compute")
    arguments = parser.parse_args()

    def passes(name):
        folder = arguments.folder / name
        folder.mkdir()
        begin = time.monotonic()
        failure = None
        try:
            words = SCENARIOS[name](arguments, folder)
        except AssertionError as error:
            failure = words = f"FAILED {error}"
        print(f"{name}: {words}, {time.monotonic() - begin:.0f} s", flush=True)
        return failure is None

    n_threads = len(arguments.only) if arguments.together else 1
    with concurrent.futures.ThreadPoolExecutor(n_threads) as pool:
        sys.exit(0 if all(list(pool.map(passes, arguments.only))) else 1)


if __name__ == "__main__":
    main()
