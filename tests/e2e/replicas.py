#!/usr/bin/env python3
"""Three nerfd on one PostgreSQL and one S3 bucket, two workers, and faults in rounds.

In each round one process is killed, stopped and continued, or ended as in an upgrade, or PostgreSQL
crashes. After it every replica that runs has to take a write again within --serve-seconds. A leader
that was stopped beyond its lease has to follow when it goes on. Clients and watchers work as in
workload.py meanwhile, each by the address of another replica first, and its checker compares what
they saw with the model: no acknowledged write is lost, no request makes two jobs, no watch has a
gap, no job succeeds twice. Before and after, every replica answers HTTP, and a revoked token opens
none of them. faults_test.sh runs it; exits 77 where Swift or PostgreSQL is not installed.

  NERF_REPLICA_ROUNDS=200, or --rounds 200 --s3-seconds 30    the long form
  --other-binaries DIR                the first replica is the nerfd of DIR, of another version
"""
import collections
import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # its handlers hang in children now and then

import grpc
from nerf.v1 import admin_service_pb2 as admin, admin_service_pb2_grpc
from nerf.v1 import common_pb2
from nerf.v1 import job_service_pb2 as job_service

import postgres
import workload
from s3 import Swift

N_REPLICAS = 3
STOPPED_SECONDS = 4.5  # longer than the lease of 3 s
# How often each fault comes, in the order in which the first rounds try them.
FAULTS = {"kill leader": 4, "stop leader": 4, "end leader": 2, "kill follower": 2,
          "stop follower": 2, "kill worker": 2, "stop worker": 2, "kill engine": 1,
          "crash postgres": 1}


def low_port(dice):
    """A free one that no outgoing connection takes while its replica is down."""
    while True:
        port = dice.randrange(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Replica:
    def __init__(self, folder, dice):
        self.folder = folder
        self.data = folder / "data"
        folder.mkdir()
        ports = [low_port(dice) for _ in range(3)]
        self.grpc, self.metrics, self.web = (f"127.0.0.1:{port}" for port in ports)
        self.process = None

    def words(self):
        return (self.folder / "nerfd.log").read_text(errors="replace")

    def metric(self, name):
        """None while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=1) as page:
                for line in page.read().decode().splitlines():
                    if line.startswith(name + " "):
                        return float(line.split()[1])
        except OSError:
            return None
        return None

    def leads(self):
        return self.metric("nerfd_leader") == 1


class Replicas(workload.Service):
    """As workload.Service, whose server is three replicas."""

    def __init__(self, arguments, folder, database, swift, dice, n_workers=2):
        self.binaries, self.engine, self.folder = arguments.binaries, arguments.engine, folder
        self.postgres, self.swift, self.dice = database, swift, random.Random(dice.random())
        self.data = folder / "secrets"  # where clients look for tokens
        self.data.mkdir(mode=0o700)
        for name in ("admin", "worker"):
            (self.data / f"{name}.token").write_text(f"{uuid.uuid4().hex}\n")
        self.replicas = [Replica(folder / f"replica-{i}", dice) for i in range(N_REPLICAS)]
        self.workers = [None] * n_workers
        wrapper = folder / "engine"
        wrapper.write_text(
            f'#!/bin/sh\nexec {self.engine} --step-ms=3 --checkpoint-every=10 "$@"\n')
        wrapper.chmod(0o755)
        self.other_binaries = getattr(arguments, "other_binaries", None) or self.binaries
        for replica in self.replicas:
            self.start(replica)
        self.wait("a leader", lambda: self.leader() is not None)
        for i in range(len(self.workers)):
            self.start_worker(i)

    @property
    def address(self):
        """For gRPC: the list, from any of them on."""
        addresses = [replica.grpc for replica in self.replicas]
        first = self.dice.randrange(N_REPLICAS)
        return "ipv4:" + ",".join(addresses[first:] + addresses[:first])

    def start(self, replica):
        log = open(replica.folder / "nerfd.log", "ab")
        (replica.data / "nerfd.ports").unlink(missing_ok=True)
        variables = {**os.environ, "AWS_ACCESS_KEY_ID": "test:tester",
                     "AWS_SECRET_ACCESS_KEY": "testing"}
        binaries = self.other_binaries if replica is self.replicas[0] else self.binaries
        replica.process = subprocess.Popen(
            [binaries / "nerfd", "--data-dir", replica.data, "--listen", replica.grpc,
             "--metrics-listen", replica.metrics, "--web-listen", replica.web,
             "--replica-host", "127.0.0.1", "--store", self.postgres.uri,
             "--blobs", "s3://nerf/team", "--s3-endpoint", self.swift.endpoint,
             "--admin-token-file", self.data / "admin.token",
             "--worker-token-file", self.data / "worker.token",
             "--lease-ttl", "3s", "--checkpoint-interval", "1s", "--shutdown-delay", "0s"],
            stdout=log, stderr=log, env=variables)

    def start_worker(self, i):
        self.workers[i] = self.spawn(f"worker-{i}", [
            self.binaries / "nerf-worker", "--server", self.address[len("ipv4:"):],
            "--token-file", self.data / "worker.token", "--cache-dir", self.folder / f"cache-{i}",
            "--engine", self.folder / "engine", "--no-engine-sandbox"])

    def wait(self, what, done, seconds=60):
        deadline = time.monotonic() + seconds
        while not done():
            for replica in self.replicas:
                if replica.process.poll() not in (None, 0, -signal.SIGKILL):
                    raise AssertionError(f"{replica.folder} has ended: {replica.words()[-2000:]}")
            if time.monotonic() > deadline:
                words = [replica.words()[-1500:] for replica in self.replicas]
                raise AssertionError("\n".join([f"no {what} in {seconds} s", *words]))
            time.sleep(0.02)

    def leader(self):
        return next((replica for replica in self.replicas if replica.leads()), None)

    @property
    def server(self):
        """The leader's process."""
        return self.leader().process

    def end(self):
        for process in [*self.workers, *(replica.process for replica in self.replicas)]:
            if process is not None:
                process.kill()
                process.wait()


class Prober:
    """Creates jobs by the address of one replica alone; the history knows of them."""

    def __init__(self, service, history, scene, replica):
        self.history, self.scene, self.service, self.replica = history, scene, service, replica

    def create(self):
        """One try, by a new connection."""
        channel = grpc.insecure_channel(self.replica.grpc,
                                        [("grpc.use_local_subchannel_pool", 1)])
        request = job_service.CreateJobRequest(
            job=workload.training_of(self.scene, workload.STEPS), request_id=str(uuid.uuid4()))
        with self.history.lock:
            self.history.sent[request.request_id] = ("CreateJob", request)
        token = (self.service.data / "admin.token").read_text().strip()
        try:
            stub = workload.job_service_pb2_grpc.JobServiceStub(channel)
            job = stub.CreateJob(request, timeout=2,
                                 metadata=[("authorization", f"Bearer {token}")])
        finally:
            channel.close()
        self.history.acknowledged(request.request_id, job.name)
        self.history.saw(job, (0, None))

    def seconds_until_served(self, limit):
        """After so many seconds at most a write succeeds; otherwise a violation."""
        begin = time.monotonic()
        while True:
            try:
                self.create()
                return time.monotonic() - begin
            except grpc.RpcError as error:
                if error.code() not in workload.UNKNOWN:
                    raise
                if time.monotonic() - begin > limit + 15:
                    raise AssertionError(f"{self.replica.folder.name} serves no more: "
                                         f"{error.details()}: {self.replica.words()[-2000:]}")
                time.sleep(0.05)


class Rounds:
    def __init__(self, arguments, service, history, scene, dice):
        self.arguments, self.service, self.history, self.dice = arguments, service, history, dice
        self.probers = {replica: Prober(service, history, scene, replica)
                        for replica in service.replicas}
        self.counts, self.seconds = collections.Counter(), collections.defaultdict(list)
        self.n_stepped_down = 0

    def served(self, fault, stopped=()):
        """All replicas that run take writes again, at the same time."""
        running = [replica for replica in self.service.replicas
                   if replica not in stopped and replica.process.poll() is None]
        results = {}

        def probe(replica):
            try:
                results[replica] = self.probers[replica].seconds_until_served(
                    self.arguments.serve_seconds)
            except Exception as error:  # of a thread
                results[replica] = error
        threads = [threading.Thread(target=probe, args=(replica,)) for replica in running]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for replica, result in results.items():
            if isinstance(result, Exception):
                self.history.violation(f"{fault}: {result}")
                continue
            self.seconds[fault].append(result)
            if result > self.arguments.serve_seconds:
                self.history.violation(
                    f"{fault}: {replica.folder.name} served again after {result:.1f} s")

    def stop_replica(self, fault, replica, leads):
        n_before = replica.words().count("leading no more")
        replica.process.send_signal(signal.SIGSTOP)
        stopped_at = time.monotonic()
        self.served(fault, stopped=(replica,))
        time.sleep(max(0, STOPPED_SECONDS - (time.monotonic() - stopped_at)))
        replica.process.send_signal(signal.SIGCONT)
        if leads:
            self.service.wait("end of a stopped leader's term",
                              lambda: replica.words().count("leading no more") > n_before and
                              replica.metric("nerfd_leader") == 0)
            self.n_stepped_down += 1

    def replace(self, fault, replica, signal_number):
        replica.process.send_signal(signal_number)
        if signal_number == signal.SIGTERM:
            begin = time.monotonic()
            self.served(fault, stopped=(replica,))
            assert replica.process.wait(timeout=60) == 0, replica.words()[-2000:]
            assert time.monotonic() - begin < 60
        else:
            replica.process.wait()
            self.served(fault)
        self.service.start(replica)

    def disturb_worker(self, fault):
        i = self.dice.randrange(len(self.service.workers))
        worker = self.service.workers[i]
        if fault == "stop worker":
            worker.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_SECONDS)  # longer than its lease
            worker.send_signal(signal.SIGCONT)
        elif fault == "kill engine" and (engines := list(self.service.engines())):
            with contextlib.suppress(ProcessLookupError):  # it has ended by itself
                os.kill(self.dice.choice(engines), signal.SIGKILL)
        else:
            worker.kill()
            worker.wait()
            self.service.start_worker(i)

    def run(self, fault):
        self.counts[fault] += 1
        self.service.wait("a leader", lambda: self.service.leader() is not None)
        leader = self.service.leader()
        replica = leader
        if "follower" in fault:
            replica = self.dice.choice([r for r in self.service.replicas if r is not leader])
        if fault.startswith("stop") and "worker" not in fault:
            self.stop_replica(fault, replica, replica is leader)
        elif fault in ("kill leader", "kill follower"):
            self.replace(fault, replica, signal.SIGKILL)
        elif fault == "end leader":
            self.replace(fault, replica, signal.SIGTERM)
        elif fault == "crash postgres":
            self.service.postgres.kill()
            self.service.postgres.start()
        elif fault == "lose s3":
            self.service.swift.pause(self.arguments.s3_seconds)
        else:
            self.disturb_worker(fault)
        self.service.wait("replicas", lambda: all(r.metric("nerfd_leader") is not None
                                                  for r in self.service.replicas))
        self.served(f"{fault}, after it")


class PausableSwift(Swift):
    def pause(self, seconds):
        ours = [int(entry.name) for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()
                and self.is_ours(entry)]
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for process in ours:
                os.kill(process, number)
            if number == signal.SIGSTOP:
                time.sleep(seconds)

    def is_ours(self, entry):
        """A child of the script."""
        try:
            parent = entry.joinpath("stat").read_text().rsplit(")", 1)[1].split()[1]
            return int(parent) == self.process.pid
        except (OSError, IndexError):
            return False


def check_pages(service):
    """Every replica answers HTTP."""
    token = (service.data / "admin.token").read_text().strip()
    for replica in service.replicas:
        with urllib.request.urlopen(f"http://{replica.web}/", timeout=10) as page:
            assert page.status == 200
        request = urllib.request.Request(
            f"http://{replica.web}/nerf.v1.JobService/ListJobs", b"{}",
            {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert answer.status == 200, answer.status
        request.add_header("Authorization", "Bearer no-such-token")
        try:
            urllib.request.urlopen(request, timeout=10)
            raise AssertionError("a wrong token was accepted")
        except urllib.error.HTTPError as error:
            assert error.code == 401, error.code
    assert sum(replica.leads() for replica in service.replicas) == 1
    terms = {replica.metric("nerfd_leader_term") for replica in service.replicas}
    assert len(terms) == 1 and terms.pop() >= 1


def check_revoked(service):
    """A token that one replica revokes opens none of them."""
    def by(replica, method, request, token):
        with grpc.insecure_channel(replica.grpc) as channel:
            stub = admin_service_pb2_grpc.AdminServiceStub(channel)
            return getattr(stub, method)(request, timeout=5,
                                         metadata=[("authorization", f"Bearer {token}")])

    owner = (service.data / "admin.token").read_text().strip()
    token = admin.Token(role=admin.Token.ADMIN, display_name="revoked")
    made = by(service.replicas[0], "CreateToken", admin.CreateTokenRequest(token=token), owner)
    for replica in service.replicas:
        by(replica, "ListTokens", admin.ListTokensRequest(), made.secret)
    by(service.replicas[1], "DeleteToken", admin.DeleteTokenRequest(name=made.name), owner)
    begin = time.monotonic()
    for replica in service.replicas:
        try:
            by(replica, "ListTokens", admin.ListTokensRequest(), made.secret)
            raise AssertionError("a revoked token was accepted")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNAUTHENTICATED, error
    assert time.monotonic() - begin < 2


def faults_of(arguments, dice):
    kinds = list(FAULTS)
    yield from kinds[:arguments.rounds]
    if arguments.s3_seconds:
        yield "lose s3"
    for _ in range(arguments.rounds - len(kinds)):
        yield dice.choices(kinds, weights=FAULTS.values())[0]


def work(arguments, service, dice):
    history, stop = workload.History(), threading.Event()
    connection = workload.Connection(service)
    pictures = workload.small_scene(service.folder / "scene")
    scene = workload.patiently(lambda: workload.make_scene(connection, pictures))
    check_pages(service)
    check_revoked(service)
    clients = [workload.Client(service, history, scene, arguments.seed * 1000 + i, stop,
                               arguments.pause, 30) for i in range(arguments.clients)]
    watchers = [workload.Watcher(service, history, arguments.seed * 2000 + i, stop, False)
                for i in range(arguments.watchers)]
    for thread in [*clients, *watchers]:
        thread.start()
    rounds = Rounds(arguments, service, history, scene, dice)
    begin = time.monotonic()
    try:
        for fault in faults_of(arguments, dice):
            rounds.run(fault)
        elapsed = time.monotonic() - begin
    finally:
        stop.set()
        for thread in [*clients, *watchers]:
            thread.join(4 * workload.CALL_SECONDS)
    connection = workload.Connection(service)
    workload.settle(connection, history, 300)
    workload.check_end(connection, history, workload.list_jobs(connection))
    jobs = workload.settle(connection, history, 300)
    check_pages(service)
    service.end()
    workload.check_store(service, history, jobs)
    report(arguments, rounds, history, jobs, elapsed,
           sum(watcher.n_events for watcher in watchers))
    return len(history.violations)


def report(arguments, rounds, history, jobs, elapsed, n_events):
    print(f"seed {arguments.seed}: {sum(rounds.counts.values())} rounds in {elapsed:.0f} s, "
          f"{dict(rounds.counts)}; {rounds.n_stepped_down} stopped leaders stepped down; "
          f"{dict(history.calls)} calls, {n_events} events, {len(jobs)} jobs, "
          f"{len(history.models)} models, {len(history.violations)} violations")
    for fault, seconds in rounds.seconds.items():
        print(f"  served again, {fault}: mean {sum(seconds) / len(seconds):.2f} s, "
              f"most {max(seconds):.2f} s")
    for violation in history.violations[:20]:
        print("  " + violation)


def main():
    parser = workload.service_flags()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int,
                        default=int(os.environ.get("NERF_REPLICA_ROUNDS", 3)))
    parser.add_argument("--other-binaries", type=pathlib.Path)
    parser.add_argument("--serve-seconds", type=float, default=5)
    parser.add_argument("--s3-seconds", type=float, default=0,
                        help="S3 stands still once for so long")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--watchers", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.1,
                        help="between the calls of a client, in seconds")
    arguments = parser.parse_args()
    if not (postgres.BIN / "initdb").exists():
        print("SKIPPED: no PostgreSQL")
        sys.exit(77)
    swift = PausableSwift(arguments.folder / "swift")
    arguments.folder.chmod(0o711)  # PostgreSQL does not run as root
    arguments.folder.parent.chmod(0o711)
    database = postgres.Postgres(arguments.folder / "postgres")
    dice = random.Random(arguments.seed)
    service = Replicas(arguments, arguments.folder, database, swift, dice)
    try:
        n_violations = work(arguments, service, dice)
    finally:
        service.end()
        swift.end()
    sys.exit(1 if n_violations else 0)


if __name__ == "__main__":
    main()
