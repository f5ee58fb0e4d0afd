#!/usr/bin/env python3
"""Clients under random kills, and a checker of what they saw.

Clients create, watch, read, cancel, pause, resume, retry and promote jobs while nerfd, an agent or an engine is killed
with kill -9 every few hundred milliseconds. The tests' engine trains. At the end the checker compares the history with
the model:

  - a job whose creation was acknowledged is there, and its final state never changes
  - one request id makes one job, however often it is sent
  - a watch misses no event and repeats none; sequence numbers of a job never go back
  - a model whose creation was acknowledged is there with its file, and one request id makes one
  - a job succeeds at most once, with a checkpoint at its last step; a cancelled one does not succeed
  - the store has the events of every job without a gap, and one success of each job that succeeded

Clients create no job while --open-jobs of them have not ended, so that all end soon after the last kill.
--bug NAME breaks one of these on purpose; the checker has to find it. With --postgres the queue is
in a PostgreSQL, which is killed, too.
"""
import argparse
import collections
import contextlib
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import uuid

import grpc
from google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from nerf.internal.store_pb2 import EventRecord
from nerf.v1 import blob_service_pb2, blob_service_pb2_grpc, model_service_pb2, model_service_pb2_grpc
from nerf.v1 import job_service_pb2 as job_service, job_service_pb2_grpc
from nerf.v1 import scene_service_pb2, scene_service_pb2_grpc

import postgres

JOB = job_service.Job
EVENT = job_service.WatchJobResponse
FINAL = (JOB.SUCCEEDED, JOB.FAILED, JOB.CANCELLED)
STEPS = 30
CALL_SECONDS = 5
# Answers that say nothing about whether the call had an effect.
UNKNOWN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED,
           grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.ABORTED)


def training_of(scene, steps, **more):
    """A job to create."""
    return JOB(training={"scene": scene, "config": {"steps": steps}}, **more)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Service:
    """nerfd and its workers, which may be killed and started again."""

    def __init__(self, binaries, engine, folder, n_workers, postgres=None):
        self.binaries, self.engine, self.folder, self.postgres = binaries, engine, folder, postgres
        self.data = folder / "server"
        self.address = f"127.0.0.1:{free_port()}"
        self.metrics = f"127.0.0.1:{free_port()}"
        self.server = None
        self.workers = [None] * n_workers
        wrapper = folder / "engine"
        wrapper.write_text(f'#!/bin/sh\nexec {engine} --step-ms=3 --checkpoint-every=10 "$@"\n')
        wrapper.chmod(0o755)
        self.start_server()
        for i in range(n_workers):
            self.start_worker(i)

    def spawn(self, name, arguments):
        log = open(self.folder / f"{name}.log", "ab")
        return subprocess.Popen(arguments, stdout=log, stderr=log)

    def start_server(self):
        ports = self.data / "nerfd.ports"  # the last file that it writes
        ports.unlink(missing_ok=True)
        self.server = self.spawn("nerfd", [
            self.binaries / "nerfd", "--data-dir", self.data, "--listen", self.address, "--metrics-listen",
            self.metrics, "--web-listen", "none", "--no-local-worker", "--lease-ttl", "3s", "--checkpoint-interval",
            "1s", *(["--store", self.postgres.uri] if self.postgres else [])])
        deadline = time.monotonic() + 120  # on a loaded machine
        while not ports.exists() and self.server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)

    def start_worker(self, i):
        self.workers[i] = self.spawn(f"worker-{i}", [
            self.binaries / "nerf-worker", "--server", self.address, "--token-file", self.data / "worker.token",
            "--cache-dir", self.folder / f"cache-{i}", "--engine", self.folder / "engine",
            "--no-engine-sandbox"])  # the engine is started by a shell

    def engines(self):
        """Processes of the tests' engine that our workers started."""
        agents = {str(worker.pid) for worker in self.workers}
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and entry.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1] in agents:
                    yield int(entry.name)
            except (OSError, IndexError):
                continue

    def kill_one(self, dice):
        """Kills a process. Returns its kind."""
        others = ["postgres"] if self.postgres else []
        victim = dice.choice(["server", "worker", "engine", *others])
        if victim == "postgres":
            self.postgres.kill()
            self.postgres.start()
            return victim
        engines = list(self.engines()) if victim == "engine" else []
        if engines:
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(dice.choice(engines), signal.SIGKILL)
            return victim
        if victim == "engine":
            victim = "worker"  # whose engine has not started
        if victim == "worker":
            i = dice.randrange(len(self.workers))
            self.workers[i].kill()
            self.workers[i].wait()
            self.start_worker(i)
            return victim
        self.stop_server()
        self.start_server()
        return victim

    def stop_server(self):
        self.server.kill()
        self.server.wait()

    def end(self):
        for process in [*self.workers, self.server]:
            process.kill()
            process.wait()


class Connection:
    def __init__(self, service):
        # One connection each; a short pause, because the server is killed often.
        self.channel = grpc.insecure_channel(service.address, [("grpc.max_reconnect_backoff_ms", 300),
                                                               ("grpc.initial_reconnect_backoff_ms", 50),
                                                               ("grpc.use_local_subchannel_pool", 1)])
        self.jobs = job_service_pb2_grpc.JobServiceStub(self.channel)
        self.models = model_service_pb2_grpc.ModelServiceStub(self.channel)
        token = service.data / "admin.token"
        self.metadata = [("authorization", f"Bearer {token.read_text().strip()}")] if token.exists() else []

    def call(self, method, request):
        stub = self.jobs if hasattr(self.jobs, method) else self.models
        return getattr(stub, method)(request, timeout=CALL_SECONDS, metadata=self.metadata, wait_for_ready=True)


class History:
    """What clients were told. Thread-safe."""

    def __init__(self):
        self.lock = threading.Lock()
        self.violations = []
        self.requests = {}  # request id -> name of the job that it made
        self.sent = {}  # request id -> (method, request), unless it was refused
        self.jobs = {}  # name -> (last sequence, final state or None)
        self.names = []  # of all jobs, in the order of their replies
        self.unended = set()  # names of those without a final state, as far as clients know
        self.cancelled = set()  # names whose cancel was acknowledged
        self.promotes = {}  # request id -> request that makes a model
        self.models = {}  # request id -> name of the model that it made
        self.calls = collections.Counter()

    def violation(self, what):
        with self.lock:
            self.violations.append(what)

    def acknowledged(self, request_id, name):
        with self.lock:
            earlier = self.requests.setdefault(request_id, name)
            self.know(name)
        if earlier != name:
            self.violation(f"request id {request_id} made {earlier} and {name}")

    def promoted(self, request_id, name):
        with self.lock:
            earlier = self.models.setdefault(request_id, name)
        if earlier != name:
            self.violation(f"request id {request_id} made {earlier} and {name}")

    def known(self, name):
        """(last sequence, final state or None) of a job, so far."""
        with self.lock:
            return self.jobs.get(name, (0, None))

    def saw(self, job, before):
        """A job as a reply showed it. `before`: what was known of it when the call was sent."""
        sequence, final = before
        if job.last_event_sequence < sequence:
            self.violation(f"{job.name} went back from event {sequence:g} to {job.last_event_sequence:g}")
        if final is not None and job.state != final:
            self.violation(f"{job.name} was {JOB.State.Name(final)} and is {JOB.State.Name(job.state)}")
        checkpoints = job.training_status.checkpoints
        if job.state == JOB.SUCCEEDED and (not checkpoints or checkpoints[-1].step != STEPS):
            self.violation(f"{job.name} succeeded without the checkpoint of its last step")
        with self.lock:
            self.know(job.name)
            sequence, final = self.jobs[job.name]
            if job.state in FINAL:
                final = job.state
                self.unended.discard(job.name)
            self.jobs[job.name] = (max(sequence, job.last_event_sequence), final)

    def know(self, name):
        """With the lock."""
        if name not in self.jobs:
            self.jobs[name] = (0, None)
            self.names.append(name)
            self.unended.add(name)

    def some_job(self, dice):
        """A job that has not ended, or a late one."""
        with self.lock:
            names = self.unended if self.unended and dice.random() < 0.7 else self.names[-40:]
            return dice.choice(sorted(names)) if names else None

    def n_unended(self):
        with self.lock:
            return len(self.unended)


class Client(threading.Thread):
    def __init__(self, service, history, scene, seed, stop, pause, open_jobs):
        super().__init__(daemon=True)
        self.service, self.history, self.scene, self.stop, self.pause = service, history, scene, stop, pause
        self.open_jobs = open_jobs
        self.dice = random.Random(seed)
        self.connection = Connection(service)

    def new_uuid(self):
        return str(uuid.UUID(int=self.dice.getrandbits(128), version=4))

    def make(self, method, request):
        """Sends a request that makes a job, and sometimes sends it again."""
        with self.history.lock:
            self.history.sent[request.request_id] = (method, request)
        for _ in range(3 if self.dice.random() < 0.3 else 1):
            try:
                job = self.connection.call(method, request)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                    with self.history.lock:
                        del self.history.sent[request.request_id]  # the job to retry has not ended
                raise
            self.history.acknowledged(request.request_id, job.name)
            self.history.saw(job, (0, None))

    def create(self):
        job = training_of(self.scene, STEPS, priority=self.dice.randint(-2, 2))
        self.make("CreateJob",
                  job_service.CreateJobRequest(job=job, request_id=self.new_uuid()))

    def read(self):
        name = self.history.some_job(self.dice)
        if name is None:
            return None
        before = self.history.known(name)
        job = self.connection.call("GetJob", job_service.GetJobRequest(name=name))
        self.history.saw(job, before)
        return job

    def change(self, method, request_type):
        name = self.history.some_job(self.dice)
        if name is None:
            return
        before = self.history.known(name)
        job = self.connection.call(method, request_type(name=name))
        if method == "CancelJob":
            with self.history.lock:
                self.history.cancelled.add(name)
        self.history.saw(job, before)

    def retry(self):
        name = self.history.some_job(self.dice)
        if name is not None:
            self.make("RetryJob",
                      job_service.RetryJobRequest(name=name, request_id=self.new_uuid()))

    def promote(self):
        """Makes a model of the newest checkpoint of a job that has one, and sometimes asks again."""
        job = self.read()
        if job is None or not job.training_status.checkpoints:
            return
        request = model_service_pb2.PromoteCheckpointRequest(name=f"{job.name}/checkpoints/-",
                                                             request_id=self.new_uuid())
        with self.history.lock:
            self.history.promotes[request.request_id] = request
        for _ in range(3 if self.dice.random() < 0.3 else 1):
            self.history.promoted(request.request_id, self.connection.call("PromoteCheckpoint", request).name)

    def step(self):
        dice = self.dice.random()
        has_room = self.history.n_unended() < self.open_jobs
        if dice < 0.15 and has_room:
            self.create()
        elif 0.15 <= dice < 0.165:
            self.change("CancelJob", job_service.CancelJobRequest)
        elif 0.165 <= dice < 0.195:
            self.change("PauseJob", job_service.PauseJobRequest)
        elif 0.195 <= dice < 0.26:
            self.change("ResumeJob", job_service.ResumeJobRequest)
        elif 0.26 <= dice < 0.28 and has_room:
            self.retry()
        elif 0.28 <= dice < 0.3:
            self.promote()
        else:
            self.read()

    def run(self):
        while not self.stop.is_set():
            try:
                self.step()
                self.history.calls["ok"] += 1
            except grpc.RpcError as error:
                self.history.calls[error.code().name] += 1
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    self.history.violation(f"lost: {error.details()}")
                elif error.code() in UNKNOWN:
                    time.sleep(0.05)
            time.sleep(self.pause)


class Watcher(threading.Thread):
    """Follows new jobs to their ends, one after the other, through every restart."""

    def __init__(self, service, history, seed, stop, skip_event):
        super().__init__(daemon=True)
        self.history, self.stop, self.skip_event = history, stop, skip_event
        self.dice = random.Random(seed)
        self.connection = Connection(service)
        self.n_events = 0

    def run(self):
        while not self.stop.is_set():
            name = self.history.some_job(self.dice)
            if name is None:
                time.sleep(0.05)
                continue
            self.follow(name)

    def follow(self, name):
        last, token, n_succeeded, skipped = None, "", 0, False
        while not self.stop.is_set():
            request = job_service.WatchJobRequest(name=name, resume_token=token)
            try:
                for event in self.connection.jobs.WatchJob(
                        request, timeout=CALL_SECONDS, wait_for_ready=True,
                        metadata=self.connection.metadata):
                    # Not a final one, so that another one follows.
                    if self.skip_event and not skipped and last is not None and \
                            event.kind == EVENT.STATE_CHANGED and event.job.state not in FINAL:
                        skipped, token = True, event.resume_token
                        continue
                    last = self.check(name, event, last)
                    if skipped:  # the checker has seen what follows
                        self.skip_event = False
                    token = event.resume_token
                    n_succeeded += (event.kind == EVENT.STATE_CHANGED and
                                    event.job.state == JOB.SUCCEEDED)
                    if n_succeeded > 1:
                        self.history.violation(f"{name} succeeded {n_succeeded} times")
                return  # it has ended
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    self.history.violation(f"lost: {error.details()}")
                    return
                if error.code() == grpc.StatusCode.DATA_LOSS:
                    self.history.violation(f"{name}: {error.details()}")
                    return
                time.sleep(0.05)

    def check(self, name, event, last):
        self.n_events += 1
        sequence = event.sequence
        stored = event.kind in (EVENT.STATE_CHANGED, EVENT.CHECKPOINT_COMMITTED, EVENT.UPDATED)
        if event.gap:
            self.history.violation(f"{name}: the watch has a gap before event {sequence:g}")
        if last is None:
            return sequence
        # Progress is stored every ten seconds only, so it may or may not add one.
        allowed = (last + 1,) if stored else (last, last + 1)
        if event.kind == EVENT.SNAPSHOT:
            allowed = (last,)
        if sequence not in allowed:
            self.history.violation(f"{name}: event {sequence:g} ({EVENT.Kind.Name(event.kind)}) follows {last:g}")
        return sequence


def make_scene(connection, folder):
    files = []
    writes = bytestream_pb2_grpc.ByteStreamStub(connection.channel)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        resource = f"uploads/{uuid.uuid4()}/blobs/{digest}/{len(content)}"
        writes.Write(iter([bytestream_pb2.WriteRequest(resource_name=resource, data=content, finish_write=True)]),
                     timeout=30, metadata=connection.metadata)
        files.append(scene_service_pb2.SceneFile(path=path.relative_to(folder).as_posix(),
                                                 blob={"sha256": digest, "size_bytes": len(content)}))
    request = scene_service_pb2.CreateSceneRequest(scene=scene_service_pb2.Scene(files=files),
                                                   request_id=str(uuid.uuid4()))
    stub = scene_service_pb2_grpc.SceneServiceStub(connection.channel)
    return stub.CreateScene(request, timeout=30, metadata=connection.metadata).name


def small_scene(folder):
    """A data set that the server accepts; the tests' engine does not read it."""
    (folder / "train").mkdir(parents=True)
    (folder / "train/r_0.png").write_bytes(b"no picture")
    frame = {"file_path": "train/r_0", "transform_matrix": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4], [0, 0, 0, 1]]}
    (folder / "transforms_train.json").write_text(json.dumps({"camera_angle_x": 0.7, "frames": [frame]}))
    return folder


def patiently(work, seconds=60):
    deadline = time.monotonic() + seconds
    while True:
        try:
            return work()
        except grpc.RpcError as error:
            if error.code() not in UNKNOWN or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def break_store(service, bug, history):
    """Seeded bugs of the server: rows vanish while it is down."""
    service.stop_server()
    store = sqlite3.connect(service.data / "queue.db")
    if bug == "lose-job":
        with history.lock:
            job = list(history.jobs)[0].rsplit("/", 1)[1]
        store.execute("DELETE FROM jobs WHERE id = ?", (job,))
        store.execute("DELETE FROM job_events WHERE job = ?", (job,))
    elif bug == "lose-model":
        with history.lock:
            model = list(history.models.values())[0].rsplit("/", 1)[1]
        store.execute("DELETE FROM models WHERE id = ?", (model,))
    else:
        store.execute("DELETE FROM requests")
    store.commit()
    store.close()
    service.start_server()


def list_jobs(connection):
    jobs, token = [], ""
    while True:
        page = patiently(lambda: connection.call("ListJobs", job_service.ListJobsRequest(
            page_size=1000, page_token=token)))
        jobs += page.jobs
        token = page.next_page_token
        if not token:
            return jobs


def list_models(connection):
    models, token = [], ""
    while True:
        page = patiently(lambda: connection.call("ListModels", model_service_pb2.ListModelsRequest(
            page_size=1000, page_token=token)))
        models += page.models
        token = page.next_page_token
        if not token:
            return models


def settle(connection, history, seconds):
    """Resumes what is paused and waits until every job has ended; for so long without an end."""
    least = None
    while True:
        begin = time.monotonic()
        jobs = list_jobs(connection)
        n_open = sum(job.state not in FINAL for job in jobs)
        if least is None or n_open < least:
            least, deadline = n_open, begin + seconds
        for job in jobs:
            if job.state == JOB.PAUSED:
                request = job_service.ResumeJobRequest(name=job.name)
                patiently(lambda: connection.call("ResumeJob", request))
        if n_open == 0:
            return jobs
        if time.monotonic() > deadline:
            history.violation(f"{n_open} jobs never ended")
            return jobs
        time.sleep(max(0.3, 2 * (time.monotonic() - begin)))  # a long list keeps the server busy


def check_end(connection, history, jobs):
    # Every request once more. Those without an answer so far say which job they have made, or make it now.
    for request_id, call in list(history.sent.items()):
        try:
            history.acknowledged(request_id, patiently(lambda: connection.call(*call)).name)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND):
                raise
    there = {job.name for job in list_jobs(connection)}
    for name in history.jobs:
        if name not in there:
            history.violation(f"lost: {name}")
    made = set(history.requests.values())
    for name in there - made:
        history.violation(f"{name} was made by no request, or by one that made another job, too")
    check_models(connection, history)
    for job in jobs:
        history.saw(job, history.known(job.name))
        if job.name in history.cancelled and job.state == JOB.SUCCEEDED:
            history.violation(f"{job.name} succeeded after its cancel was acknowledged")


def check_models(connection, history):
    for request_id, request in list(history.promotes.items()):
        try:
            model = patiently(lambda: connection.call("PromoteCheckpoint", request))
            history.promoted(request_id, model.name)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND):
                raise
    models = {model.name: model for model in list_models(connection)}
    for name in history.models.values():
        if name not in models:
            history.violation(f"lost: {name}")
    for name in models.keys() - set(history.models.values()):
        history.violation(f"{name} was made by no request, or by one that made another model, too")
    request = blob_service_pb2.FindMissingBlobsRequest(blobs=[model.blob for model in models.values()])
    stub = blob_service_pb2_grpc.BlobServiceStub(connection.channel)
    missing = patiently(lambda: stub.FindMissingBlobs(request, timeout=CALL_SECONDS, metadata=connection.metadata))
    for blob in missing.missing:
        history.violation(f"the file of a model is lost: {blob.sha256}")


def stored_events(service):
    """(job, sequence, kind, body), by sequence."""
    if service.postgres:
        rows = service.postgres.rows("SELECT job, sequence, kind, encode(body, 'hex') "
                                     "FROM nerfd.job_events ORDER BY sequence")
        return [(job, int(sequence), kind, bytes.fromhex(body))
                for job, sequence, kind, body in rows]
    store = sqlite3.connect(service.data / "queue.db")
    sql = "SELECT job, sequence, kind, body FROM job_events ORDER BY sequence"
    rows = store.execute(sql).fetchall()
    store.close()
    return rows


def is_success(kind, body):
    """Of an event's row, whose body is behind a seal (server/store/row_seal.h)."""
    seal = 17
    return kind == "STATE_CHANGED" and EventRecord.FromString(body[seal:]).state == JOB.SUCCEEDED


def check_store(service, history, jobs):
    """The events of every job, as the store has them once the server has ended."""
    events = {}
    for job, sequence, kind, body in stored_events(service):
        events.setdefault(job, []).append((sequence, is_success(kind, body)))
    for job in jobs:
        seen = events.get(job.name.rsplit("/", 1)[1], [])
        first = seen[0][0] if seen else 1
        if [sequence for sequence, _ in seen] != list(range(first, first + len(seen))):
            history.violation(f"{job.name} has a gap in its events")
        n = sum(succeeded for _, succeeded in seen)
        if n != (job.state == JOB.SUCCEEDED):
            history.violation(f"{job.name} is {JOB.State.Name(job.state)} and succeeded {n} times")


def succeed_twice(service):
    """A seeded bug: the success of a job is stored again."""
    job, sequence = next((job, sequence) for job, sequence, kind, body in stored_events(service)
                         if is_success(kind, body))
    store = sqlite3.connect(service.data / "queue.db")
    store.execute("""INSERT INTO job_events SELECT project, job, sequence + 1, kind, body FROM job_events
                     WHERE job = ? AND sequence = ?""", (job, sequence))
    store.commit()
    store.close()


def run(arguments, folder):
    dice = random.Random(arguments.seed)
    database = postgres.Postgres(folder / "postgres") if arguments.postgres else None
    service = Service(arguments.binaries, arguments.engine, folder, 2, database)
    history, stop = History(), threading.Event()
    try:
        connection = Connection(service)
        scene = patiently(lambda: make_scene(connection, small_scene(folder / "scene")))
        clients = [Client(service, history, scene, arguments.seed * 1000 + i, stop, arguments.pause,
                          arguments.open_jobs)
                   for i in range(arguments.clients)]
        watchers = [Watcher(service, history, arguments.seed * 2000 + i, stop,
                            arguments.bug == "skip-event" and i == 0) for i in range(arguments.watchers)]
        for thread in [*clients, *watchers]:
            thread.start()
        kills = collections.Counter()
        begin = time.monotonic()
        while time.monotonic() < begin + arguments.seconds and \
                (sum(kills.values()) < arguments.kills or watchers[0].skip_event):
            time.sleep(dice.uniform(0.2, 1.2) if arguments.kills < 10**6 else arguments.seconds)
            kills[service.kill_one(dice)] += 1
        elapsed = time.monotonic() - begin
        while arguments.bug == "lose-model" and not history.models:
            time.sleep(0.1)
        if arguments.bug in ("lose-job", "lose-model", "forget-requests"):
            break_store(service, arguments.bug, history)
            time.sleep(2)
        stop.set()
        for thread in [*clients, *watchers]:
            thread.join(2 * CALL_SECONDS)
        begin_settling = time.monotonic()
        jobs = settle(connection, history, arguments.settle_seconds)
        settled = time.monotonic() - begin_settling
        check_end(connection, history, jobs)
        jobs = settle(connection, history, arguments.settle_seconds)  # also what check_end has made
        service.end()
        if arguments.bug == "succeed-twice":
            succeed_twice(service)
        check_store(service, history, jobs)
        states = collections.Counter(JOB.State.Name(job.state) for job in jobs)
        n_calls = sum(history.calls.values())
        print(f"seed {arguments.seed}: {sum(kills.values())} kills {dict(kills)} in {elapsed:.0f} s, "
              f"{n_calls} calls ({n_calls / elapsed:.0f}/s) {dict(history.calls)}, "
              f"{sum(watcher.n_events for watcher in watchers)} events, {len(jobs)} jobs {dict(states)}, "
              f"{len(history.models)} models "
              f"after {settled:.0f} s more, {len(history.violations)} violations")
        for violation in history.violations[:20]:
            print("  " + violation)
        return len(history.violations)
    finally:
        stop.set()
        service.end()


def service_flags(with_engine=True):
    """A parser with the flags of every program that runs nerfd on a folder of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", type=pathlib.Path, required=True, help="folder of nerfd and nerf-worker")
    if with_engine:
        parser.add_argument("--engine", type=pathlib.Path, required=True, help="the tests' fake_engine")
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="an empty folder for data and logs")
    return parser


def main():
    parser = service_flags()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--kills", type=int, default=10**5)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--watchers", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.05, help="between the calls of a client, in seconds")
    parser.add_argument("--open-jobs", type=int, default=40, help="jobs that have not ended, at most")
    parser.add_argument("--settle-seconds", type=float, default=300, help="for them to end after the last kill")
    parser.add_argument("--postgres", action="store_true",
                        help="keep the queue in a PostgreSQL of the test's own")
    parser.add_argument("--bug", choices=["lose-job", "lose-model", "forget-requests", "skip-event", "succeed-twice"])
    arguments = parser.parse_args()
    n_violations = run(arguments, arguments.folder)
    sys.exit(0 if (n_violations > 0) == (arguments.bug is not None) else 1)


if __name__ == "__main__":
    main()
