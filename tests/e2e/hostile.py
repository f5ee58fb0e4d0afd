#!/usr/bin/env python3
"""Clients that try to take more than their share, and what the server and its worker then use.

Each scenario starts nerfd and, where it needs one, nerf-worker; attacks them from processes of their own; and calls
GetJob meanwhile as another client would. It fails if a process grows beyond its limit, if a call
of the other client fails, or if a new client is not served at the end. --strict also compares the
times of these calls with the limits, for a machine with nothing else to do.

  descriptors  more idle connections than the server may have descriptors
  messages     connections full of large messages that never end
  cancel       ValidateScene, cancelled at once, at a worker that is stopped
  flood        calls of several methods, cancelled at once, as fast as sockets take them, with a
               token and without
  requests     as many request ids as possible
  watchers     watchers that never read, beside ones that do
"""
import argparse
import collections
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

import grpc
from nerf.v1 import scene_service_pb2, scene_service_pb2_grpc
from nerf.v1 import job_service_pb2 as job_service
import workload

MIB = 1 << 20
MAX_SERVER_MIB = 600
MAX_FLOOD_MIB = 400  # 140 at a million calls a second, 190 on busy cores (docs/run/limits.md)
MAX_WORKER_MIB = 200
MAX_GET_P99_SECONDS = 0.05
CALL_SECONDS = workload.CALL_SECONDS = 60  # on a loaded machine


def memory_mib(pid):
    """Resident memory now, and at most so far."""
    fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    return tuple(int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM"))


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


class Prober(threading.Thread):
    """The other client: reads a job every few milliseconds."""

    def __init__(self, service, name):
        super().__init__(daemon=True)
        self.connection = workload.Connection(service)
        self.name_of_job, self.stop = name, threading.Event()
        self.seconds, self.errors = [], []

    def get(self):
        begin = time.monotonic()
        try:
            self.connection.jobs.GetJob(job_service.GetJobRequest(name=self.name_of_job),
                                        timeout=CALL_SECONDS, metadata=self.connection.metadata)
            self.seconds.append(time.monotonic() - begin)
        except grpc.RpcError as error:
            self.errors.append(f"{error.code().name}: {error.details()}")

    def run(self):
        while not self.stop.is_set():
            self.get()
            self.stop.wait(0.02)

    def end(self):
        self.stop.set()
        self.join(2 * CALL_SECONDS)


def send_some(connected, out):
    """Sends what the socket takes of `out` without waiting. False once the connection is gone."""
    try:
        if out:
            del out[:connected.send(out)]
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


class Http2Connection:
    """Enough of HTTP/2 for calls that no library would make."""

    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    MESSAGE = 4 * MIB - 64  # as announced; the last byte is never sent

    def __init__(self, address, path, token, n_streams=0):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setblocking(False)
        self.authority, self.path, self.token = address, path, token
        self.out = bytearray(self.PREFACE + self.frame(4, 0, 0, b""))
        self.received = bytearray()
        self.window, self.initial = 65535, 65535
        self.left, self.windows = {}, {}  # of unfinished messages
        self.calls, self.next_stream, self.n_sent = collections.deque(), 1, 0
        self.running = {}  # of call()
        for _ in range(n_streams):
            self.begin_message()

    @staticmethod
    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload

    def begin_call(self, path=None):
        stream = self.next_stream
        self.next_stream += 2

        def literal(name, value):
            return b"".join([b"\x00", bytes([len(name)]), name, bytes([len(value)]), value])
        headers = b"".join(literal(name, value.encode()) for name, value in [
            (b":method", "POST"), (b":scheme", "http"), (b":path", path or self.path), (b":authority", self.authority),
            (b"te", "trailers"), (b"content-type", "application/grpc"), (b"authorization", f"Bearer {self.token}")])
        self.out += self.frame(1, 4, stream, headers)
        return stream

    def call_and_cancel(self, request, n_open):
        """Begins a call. Cancels the oldest one once more than n_open are open."""
        stream = self.begin_call()
        data = b"\x00" + struct.pack(">I", len(request)) + request
        self.out += self.frame(0, 1, stream, data)
        self.calls.append(stream)
        if len(self.calls) > n_open:
            self.out += self.frame(3, 0, self.calls.popleft(), struct.pack(">I", 8))

    def call(self, path, request, done):
        """Begins a call; `done` runs at its end."""
        stream = self.begin_call(path)
        self.out += self.frame(0, 1, stream, b"\x00" + struct.pack(">I", len(request)) + request)
        self.running[stream] = done

    def begin_message(self):
        stream = self.begin_call()
        self.left[stream] = self.MESSAGE - 1 + 5
        self.windows[stream] = 0  # beyond the initial window

    def handle(self, kind, flags, stream, payload):
        if kind == 4 and not flags & 1:
            for i in range(0, len(payload), 6):
                key, value = struct.unpack(">HI", payload[i:i + 6])
                if key == 4:
                    self.initial = value
            self.out += self.frame(4, 1, 0, b"")
        elif kind == 6 and not flags & 1:
            self.out += self.frame(6, 1, 0, payload)
        elif kind == 8:
            grown = struct.unpack(">I", payload)[0]
            if stream == 0:
                self.window += grown
            elif stream in self.windows:
                self.windows[stream] += grown
        if kind == 0 and payload:
            self.out += self.frame(8, 0, 0, struct.pack(">I", len(payload)))
        if kind == 3:
            self.left.pop(stream, None)
        if (kind == 3 or (kind == 1 and flags & 1)) and stream in self.running:
            self.running.pop(stream)()

    def fill(self):
        for stream, left in list(self.left.items()):
            while left > 0 and len(self.out) < MIB:
                n = min(left, 16384, self.window, self.initial + self.windows[stream])
                if n <= 0:
                    break
                data = bytes(n)
                if left == self.MESSAGE - 1 + 5:
                    data = (b"\x00" + struct.pack(">I", self.MESSAGE) + data)[:n]
                self.out += self.frame(0, 0, stream, data)
                left -= n
                self.window -= n
                self.windows[stream] -= n
                self.n_sent += n
            self.left[stream] = left

    def step(self):
        """Reads and writes what is possible without waiting. False once the server has closed."""
        try:
            data = self.socket.recv(1 << 16)
            if not data:
                return False
            self.received += data
        except BlockingIOError:
            pass
        except OSError:
            return False
        while len(self.received) >= 9:
            n = int.from_bytes(self.received[:3], "big")
            if len(self.received) < 9 + n:
                break
            kind, flags, stream = struct.unpack(">BBI", self.received[3:9])
            self.handle(kind, flags, stream & 0x7FFFFFFF, bytes(self.received[9:9 + n]))
            del self.received[:9 + n]
        self.fill()
        return send_some(self.socket, self.out)


class FloodConnection:
    """Calls that are cancelled at once, made in blocks. Answers are dropped."""

    BLOCK = 1000  # calls

    def __init__(self, address, path, token):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setblocking(False)
        names = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"localhost"),
                 (b"te", b"trailers"), (b"content-type", b"application/grpc"),
                 (b"authorization", f"Bearer {token}".encode())]
        # Literals that the server keeps in its table, which later calls name by their indices.
        self.first = b"".join(b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value
                              for name, value in names)
        self.later = bytes(0x80 | (62 + i) for i in reversed(range(len(names))))
        self.out = bytearray(Http2Connection.PREFACE + Http2Connection.frame(4, 0, 0, b""))
        self.stream, self.n_calls = 1, 0

    def add_block(self):
        for stream in range(self.stream, self.stream + 2 * self.BLOCK, 2):
            self.out += Http2Connection.frame(1, 4, stream, self.first if stream == 1 else self.later)
            self.out += Http2Connection.frame(0, 1, stream, bytes(5))
            self.out += Http2Connection.frame(3, 0, stream, struct.pack(">I", 8))
        self.stream += 2 * self.BLOCK
        self.n_calls += self.BLOCK

    def step(self):
        """Writes what is possible without waiting. False once the server has closed."""
        try:
            if not self.socket.recv(1 << 16):
                return False
        except BlockingIOError:
            pass
        except OSError:
            return False
        if len(self.out) < 1 << 15:
            self.add_block()
        return send_some(self.socket, self.out)


def attack_flood(arguments):
    """Floods, on some connections, and on new ones as soon as they are closed."""
    def connect():
        try:
            return FloodConnection(arguments.address, arguments.name, arguments.token)
        except OSError:
            return None
    connections = [connect() for _ in range(arguments.count)]
    deadline, n, n_closed = time.monotonic() + arguments.seconds, 0, 0
    while time.monotonic() < deadline:
        for i, connection in enumerate(connections):
            if connection is None:
                connections[i] = connect()
            elif not connection.step():
                n += connection.n_calls
                n_closed += 1
                connection.socket.close()
                connections[i] = None
    n += sum(connection.n_calls for connection in connections if connection is not None)
    print(f"{n} calls of {arguments.name}, each cancelled, {n_closed} connections closed")


def attack_messages(arguments):
    """Opens connections full of unfinished messages, and again those that are closed."""
    def connect():
        try:
            return Http2Connection(arguments.address, "/nerf.v1.SceneService/ValidateScene", arguments.token,
                                   arguments.streams)
        except OSError:
            return None
    deadline = time.monotonic() + arguments.seconds
    connections = [connect() for _ in range(arguments.count)]
    n_sent, n_closed = 0, 0
    while time.monotonic() < deadline:
        for i, connection in enumerate(connections):
            if connection is None:
                connections[i] = connect()
            elif not connection.step():
                n_closed += 1
                n_sent += connection.n_sent
                connection.socket.close()
                connections[i] = None
        time.sleep(0.01)
    n_sent += sum(connection.n_sent for connection in connections if connection is not None)
    print(f"{arguments.count} connections sent {n_sent / MIB:.0f} MiB, {n_closed} were closed")


def attack_cancel(arguments):
    """Asks for checks of a scene and cancels them, as fast as the server reads."""
    request = scene_service_pb2.ValidateSceneRequest(name=arguments.name).SerializeToString()
    def connect():
        return Http2Connection(arguments.address, "/nerf.v1.SceneService/ValidateScene", arguments.token)
    connections = [connect() for _ in range(arguments.count)]
    deadline, n, n_closed = time.monotonic() + arguments.seconds, 0, 0
    while time.monotonic() < deadline:
        for i, connection in enumerate(connections):
            if not connection.step():
                connection.socket.close()
                connections[i] = connect()
                n_closed += 1
                continue
            if len(connection.out) > 4096:
                continue
            for _ in range(10):
                connection.call_and_cancel(request, n_open=8)
                n += 1
        time.sleep(0.001)
    print(f"{n} checks, each cancelled, {n_closed} connections closed")


def attack_requests(arguments):
    """Creates and deletes scenes, each with a request id of its own."""
    service = "/nerf.v1.SceneService"
    scene = scene_service_pb2.Scene.FromString(bytes.fromhex(arguments.scene))
    connection = Http2Connection(arguments.address, service, arguments.token)
    deadline, n = time.monotonic() + arguments.seconds, 0

    def delete(name):
        request = scene_service_pb2.DeleteSceneRequest(name=name)
        connection.call(f"{service}/DeleteScene", request.SerializeToString(), lambda: None)

    while time.monotonic() < deadline and n < arguments.count:
        if not connection.step():
            print("the server has closed a connection")
            break
        if len(connection.running) >= 90:
            time.sleep(0.001)
            continue
        identity = f"h-{os.getpid()}-{n}"
        request = scene_service_pb2.CreateSceneRequest(scene=scene, scene_id=identity, request_id=str(uuid.uuid4()))
        connection.call(f"{service}/CreateScene", request.SerializeToString(),
                        lambda name=f"projects/default/scenes/{identity}": delete(name))
        n += 1
    while connection.running and time.monotonic() < deadline + CALL_SECONDS and connection.step():
        time.sleep(0.001)
    print(f"{n} request ids")


class Bench:
    """A server for one scenario, and what it found."""

    def __init__(self, arguments, name):
        folder = arguments.folder / name
        folder.mkdir()
        self.arguments, self.name, self.problems, self.words = arguments, name, [], []
        if name == "descriptors":
            # What nerfd would choose by itself if the limit of 1,024 descriptors were there at its start.
            os.environ["NERFD_MAX_CONNECTIONS"] = "624"
        self.service = workload.Service(arguments.binaries, arguments.engine, folder, WORKERS.get(name, 0))
        os.environ.pop("NERFD_MAX_CONNECTIONS", None)
        self.connection = workload.Connection(self.service)
        self.token = self.connection.metadata[0][1].split()[1]
        self.scene = workload.patiently(
            lambda: workload.make_scene(self.connection, workload.small_scene(folder / "scene")))
        self.job = self.make_job()
        self.prober = Prober(self.service, self.job)

    def make_job(self):
        job = workload.training_of(self.scene, workload.STEPS)
        return self.connection.call("CreateJob", job_service.CreateJobRequest(
            job=job, request_id=str(uuid.uuid4()))).name

    def attack(self, role, **flags):
        flags = {"address": self.service.address, "token": self.token, **flags}
        return subprocess.Popen([sys.executable, __file__, f"--role={role}",
                                 *(f"--{flag}={value}" for flag, value in flags.items())],
                                stdout=subprocess.PIPE, text=True)

    def require(self, ok, what):
        if not ok:
            self.problems.append(what)

    def check_memory(self, worker=False, server_mib=MAX_SERVER_MIB):
        for name, process, limit in [("nerfd", self.service.server, server_mib),
                                     ("nerf-worker", self.service.workers[0] if worker else None, MAX_WORKER_MIB)]:
            if process is None:
                continue
            now, peak = memory_mib(process.pid)
            self.words.append(f"{name} {now:.0f} MiB, at most {peak:.0f}")
            if not self.arguments.sanitized:
                self.require(peak <= limit, f"{name} took {peak:.0f} MiB, more than {limit}")

    def check_others(self):
        self.prober.end()
        seconds, errors = self.prober.seconds, self.prober.errors
        p99 = quantile(seconds, 0.99)
        self.words.append(f"{len(seconds)} Gets, p50 {quantile(seconds, 0.5) * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")
        self.require(not errors, f"{len(errors)} Gets failed, as {errors[:1]}")
        self.require(len(seconds) > 0, "no Get was answered")
        if self.arguments.strict:
            self.require(p99 <= MAX_GET_P99_SECONDS, f"the p99 of Get is {p99 * 1e3:.0f} ms")

    def check_new_client(self):
        """Returns how long a new client waits for its first answer."""
        begin = time.monotonic()
        connection = workload.Connection(self.service)
        try:
            connection.call("GetJob", job_service.GetJobRequest(name=self.job))
        except grpc.RpcError as error:
            self.require(False, f"a new client got {error.code().name}: {error.details()}")
        return time.monotonic() - begin

    def end(self):
        self.require(self.service.server.poll() is None, f"nerfd ended with {self.service.server.poll()}")
        self.service.end()
        print(f"{self.name}: " + "; ".join(self.words), flush=True)
        for problem in self.problems:
            print(f"  FAILED {problem}", flush=True)
        return len(self.problems)


def test_descriptors(arguments, bench):
    """1,100 idle connections where 1,024 descriptors are allowed, then closed."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    resource.prlimit(bench.service.server.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    bench.prober.start()
    host, port = bench.service.address.rsplit(":", 1)
    held = [socket.create_connection((host, int(port))) for _ in range(1100)]
    time.sleep(1)
    for connection in held:
        connection.close()
    seconds = bench.check_new_client()
    bench.words.append(f"new client served in {seconds * 1e3:.0f} ms")
    if arguments.strict:
        bench.require(seconds <= 1, f"a new client waited {seconds:.1f} s")
    bench.check_others()
    bench.check_memory()


def test_messages(arguments, bench):
    bench.prober.start()
    attack = bench.attack("messages", seconds=arguments.seconds, count=arguments.connections,
                          streams=arguments.streams)
    bench.words.append(attack.communicate()[0].strip())
    bench.check_others()
    bench.check_new_client()
    bench.check_memory()
    time.sleep(2)
    bench.words.append(f"2 s later {memory_mib(bench.service.server.pid)[0]:.0f} MiB")


def test_cancel(arguments, bench):
    worker = bench.service.workers[0]
    blob = scene_of(bench).files[0].blob
    files = [scene_service_pb2.SceneFile(path=f"train/r_{i}.png", blob=blob) for i in range(200)]
    big = scene_stub(bench).CreateScene(scene_service_pb2.CreateSceneRequest(
        scene=scene_service_pb2.Scene(files=files), request_id=str(uuid.uuid4())),
        timeout=CALL_SECONDS, metadata=bench.connection.metadata).name
    bench.prober.start()
    worker.send_signal(signal.SIGSTOP)
    attack = bench.attack("cancel", seconds=arguments.seconds, name=big, count=4)
    bench.words.append(attack.communicate()[0].strip())
    worker.send_signal(signal.SIGCONT)
    attack = bench.attack("cancel", seconds=arguments.seconds, name=big, count=4)
    bench.words.append(attack.communicate()[0].strip() + " while it runs")
    bench.check_others()
    bench.check_new_client()
    bench.check_memory(worker=True)


def test_flood(arguments, bench):
    bench.prober.start()
    validate, none = "/nerf.v1.SceneService/ValidateScene", "/nerf.v1.None/None"
    health = "/grpc.health.v1.Health/Check"
    for path, token in [(validate, bench.token), (none, bench.token), (health, ""),
                        (validate, "guess"), (none, "guess")]:
        attack = bench.attack("flood", seconds=arguments.seconds, name=path, count=4, token=token)
        without = "" if token == bench.token else " without a token"
        bench.words.append(attack.communicate()[0].strip() + without)
    bench.check_others()
    bench.check_new_client()
    bench.check_memory(server_mib=MAX_FLOOD_MIB)


def scene_stub(bench):
    return scene_service_pb2_grpc.SceneServiceStub(bench.connection.channel)


def scene_of(bench):
    return scene_stub(bench).GetScene(scene_service_pb2.GetSceneRequest(name=bench.scene), timeout=CALL_SECONDS,
                                      metadata=bench.connection.metadata)


def test_requests(arguments, bench):
    scene = scene_service_pb2.Scene(files=scene_of(bench).files)
    bench.prober.start()
    attacks = [bench.attack("requests", seconds=arguments.seconds, count=arguments.request_ids // 4,
                            scene=scene.SerializeToString().hex()) for _ in range(4)]
    for attack in attacks:
        bench.words.append(attack.communicate()[0].strip())
    bench.check_others()
    bench.check_new_client()
    bench.check_memory()


def metric(bench, name):
    with urllib.request.urlopen(f"http://{bench.service.metrics}/metrics", timeout=CALL_SECONDS) as page:
        lines = [line for line in page.read().decode().splitlines() if line.startswith(name)]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


def test_watchers(arguments, bench):
    """100 watchers that never read, and one that does."""
    begin_mib = memory_mib(bench.service.server.pid)[0]
    seen = []
    live = bench.connection.jobs.WatchJob(job_service.WatchJobRequest(name=bench.job),
                                          metadata=bench.connection.metadata)
    reader = threading.Thread(target=lambda: collect(live, seen), daemon=True)
    reader.start()
    request = job_service.WatchJobRequest(name=bench.job).SerializeToString()
    stalled = [Http2Connection(bench.service.address, "", bench.token) for _ in range(100)]
    for connection in stalled:
        connection.call("/nerf.v1.JobService/WatchJob", request, lambda: None)
        connection.step()
    bench.prober.start()
    last = ""
    for i in range(200):  # more than the 64 KiB that such a client takes
        last = f"{i}-" + 100 * "x"
        job = workload.JOB(name=bench.job, display_name=last,
                           labels={f"label-{k}": 60 * "y" for k in range(16)})
        bench.connection.call("UpdateJob", job_service.UpdateJobRequest(
            job=job, update_mask={"paths": ["display_name", "labels"]}))
    bench.check_memory()
    each = (memory_mib(bench.service.server.pid)[1] - begin_mib) / len(stalled)
    bench.words.append(f"{each:.2f} MiB for each that does not read")
    bench.require(each <= 8, f"a stalled watcher costs {each:.1f} MiB")
    begin = time.monotonic()
    while metric(bench, "nerfd_watchers_evicted_total") < len(stalled) and time.monotonic() < begin + 120:
        time.sleep(0.2)
    seconds = time.monotonic() - begin
    bench.words.append(f"all gone after {seconds:.0f} s")
    bench.require(metric(bench, "nerfd_watchers_evicted_total") == len(stalled), "not all are gone")
    if arguments.strict:
        bench.require(seconds <= 30, f"they were gone after {seconds:.0f} s")
    while (not seen or seen[-1].job.display_name != last) and time.monotonic() < begin + 120:
        time.sleep(0.05)
    live.cancel()
    sequences = [event.sequence for event in seen if event.kind != workload.EVENT.BOOKMARK]
    bench.require(sequences == list(range(int(sequences[0]), int(sequences[0]) + len(sequences))),
                  "the watcher that reads missed events")
    bench.words.append(f"{len(sequences)} events to the one that reads")
    bench.check_others()


def collect(watch, seen):
    try:
        for event in watch:
            seen.append(event)
    except grpc.RpcError:
        pass  # cancelled at the end


WORKERS = {"cancel": 1}  # of the scenarios that need one
SCENARIOS = {"descriptors": test_descriptors, "messages": test_messages, "cancel": test_cancel,
             "flood": test_flood, "requests": test_requests, "watchers": test_watchers}
ROLES = {"messages": attack_messages, "cancel": attack_cancel, "flood": attack_flood,
         "requests": attack_requests}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", type=pathlib.Path, help="folder of nerfd and nerf-worker")
    parser.add_argument("--engine", type=pathlib.Path, help="the tests' fake_engine")
    parser.add_argument("--folder", type=pathlib.Path, help="an empty folder for data and logs")
    parser.add_argument("--seconds", type=float, default=5, help="of each attack")
    parser.add_argument("--connections", type=int, default=200, help="of unfinished messages")
    parser.add_argument("--streams", type=int, default=100, help="of each of them")
    parser.add_argument("--request-ids", type=int, default=10**6)
    parser.add_argument("--strict", action="store_true", help="compare times with their limits, too")
    parser.add_argument("--sanitized", action="store_true",
                        help="memory is not limited: sanitizers keep shadows of it and what was freed")
    parser.add_argument("--only", choices=SCENARIOS, nargs="+", default=list(SCENARIOS))
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    for flag, kind in [("address", str), ("token", str), ("name", str), ("scene", str), ("count", int)]:
        parser.add_argument(f"--{flag}", type=kind, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role is not None:
        ROLES[arguments.role](arguments)
        return
    n_problems = 0
    for name in arguments.only:
        bench = Bench(arguments, name)
        try:
            SCENARIOS[name](arguments, bench)
        finally:
            n_problems += bench.end()
    sys.exit(1 if n_problems else 0)


if __name__ == "__main__":
    main()
