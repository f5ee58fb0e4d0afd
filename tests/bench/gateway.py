#!/usr/bin/python3
"""What the gateway for browsers costs: a large blob up and down, and unary calls beside gRPC's.

    tests/bench/gateway.py [--bin build/release/bin] [--mib 1024] [--seconds 8] [--rate 500] [--tls] [--strict]

Starts a nerfd of its own, sends --mib MiB by one PATCH and reads them back by one GET: rate, nerfd's processor time per
GiB, and how far its memory grows. Then calls AdminService.GetAccess --rate times a second over the gateway (JSON) and over
gRPC, in turns. --tls: all of it by TLS, with a certificate made for the run. --strict fails unless the figures are what
they should be on idle cores. Needs python3-grpcio, and openssl for --tls.
"""
import argparse
import hashlib
import http.client
import os
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import uuid

from nerfd_process import cpu_seconds, resident_mib, start_nerfd

try:
    import grpc
except ImportError:
    sys.exit("gateway.py needs Python's grpc: apt-get install python3-grpcio, and run it with /usr/bin/python3")

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECE = 1 << 20
# MB/s at least, MiB more memory at most, ms of p99 beyond gRPC's at most
MIN_UP, MIN_DOWN, MAX_MEMORY, MAX_BEYOND = 150, 300, 32, 2


class Server:
    def __init__(self, binaries, folder, by_tls):
        data, flags = folder / "server", []
        self.tls = None
        if by_tls:
            subprocess.run([ROOT / "k8s/make_certificates.sh", folder], check=True)
            flags = ["--tls-cert", folder / "tls.crt", "--tls-key", folder / "tls.key"]
            self.tls = ssl.create_default_context(cafile=folder / "ca.crt")
            self.ca = (folder / "ca.crt").read_bytes()
        self.process, ports = start_nerfd(binaries, data, "--listen", "127.0.0.1:0", "--web-listen", "127.0.0.1:0",
                                          "--no-local-worker", *flags)
        self.grpc, self.web = ports["grpc"], ports["web"]
        self.token = (data / "admin.token").read_text().strip()

    def socket(self):
        host, port = self.web.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)))
        return self.tls.wrap_socket(connection, server_hostname=host) if self.tls else connection

    def http(self):
        return (http.client.HTTPSConnection(self.web, context=self.tls) if self.tls else
                http.client.HTTPConnection(self.web))

    def channel(self):
        return (grpc.secure_channel(self.grpc, grpc.ssl_channel_credentials(self.ca)) if self.tls else
                grpc.insecure_channel(self.grpc))

    def memory_mib(self):
        return resident_mib(self.process.pid)

    def processor_seconds(self):
        return cpu_seconds(self.process.pid)


class Watched:
    """A transfer: its rate, the processor time and the memory of the server."""

    def __init__(self, server, name, size):
        self.server, self.name, self.size = server, name, size
        self.rate = self.growth = None
        self.peak, self.over = 0, threading.Event()

    def watch(self):
        while not self.over.wait(0.01):
            self.peak = max(self.peak, self.server.memory_mib())

    def __enter__(self):
        self.before, self.processor = self.server.memory_mib(), self.server.processor_seconds()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        self.begin = time.monotonic()
        return self

    def __exit__(self, *_):
        seconds = time.monotonic() - self.begin
        self.over.set()
        self.thread.join()
        processor = (self.server.processor_seconds() - self.processor) * (1 << 30) / self.size
        self.rate, self.growth = self.size / seconds / 1e6, max(0, self.peak - self.before)
        print(f"{self.name}: {self.rate:.0f} MB/s, {processor:.2f} s of nerfd's processor time per GiB, "
              f"{self.growth:.0f} MiB more memory", flush=True)


def connect(server, head):
    connection = server.socket()
    connection.sendall((head + f"Host: {server.web}\r\nAuthorization: Bearer {server.token}\r\n\r\n").encode())
    return connection


def transfer(server, mib):
    piece, size, digest = os.urandom(PIECE), mib * PIECE, hashlib.sha256()
    for _ in range(mib):
        digest.update(piece)
    blob = f"blobs/{digest.hexdigest()}/{size}"
    with Watched(server, "up", size) as up, connect(
            server, f"PATCH /uploads/{uuid.uuid4()}/{blob} HTTP/1.1\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: 0\r\n"
            f"Content-Type: application/offset+octet-stream\r\nContent-Length: {size}\r\n") as connection:
        for _ in range(mib):
            connection.sendall(piece)
        answer = connection.recv(4096).decode()
    if " 204 " not in answer.split("\r\n")[0]:
        sys.exit(f"the upload was answered with {answer}")
    buffer, n_received = bytearray(PIECE), 0
    with Watched(server, "down", size) as down, connect(
            server, f"GET /{blob} HTTP/1.1\r\nConnection: close\r\n") as connection:
        while n := connection.recv_into(buffer):
            n_received += n
    if n_received < size:
        sys.exit(f"{n_received} bytes came of {size}")
    return up.rate >= MIN_UP and down.rate >= MIN_DOWN and max(up.growth, down.growth) <= MAX_MEMORY


def pace(call, seconds, rate):
    """Sorted seconds of each call; they begin at an even rate."""
    taken, begin = [], time.perf_counter()
    for i in range(int(seconds * rate)):
        due = begin + i / rate - time.perf_counter()
        if due > 0:
            time.sleep(due)
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return sorted(taken)


def compare_calls(server, seconds, rate):
    connection, p99s = server.http(), {}
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
    metadata = (("authorization", f"Bearer {server.token}"),)
    get_access = server.channel().unary_unary(
        "/nerf.v1.AdminService/GetAccess", request_serializer=bytes, response_deserializer=bytes)

    def over_gateway():
        connection.request("POST", "/nerf.v1.AdminService/GetAccess", body=b"{}", headers=headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            sys.exit(f"GetAccess was answered with {answer.status}")

    for turn in range(2):
        for name, call in (("gateway", over_gateway), ("gRPC", lambda: get_access(b"", metadata=metadata, timeout=20))):
            call()
            processor = server.processor_seconds()
            taken = pace(call, seconds, rate)
            processor = (server.processor_seconds() - processor) / len(taken)
            p99s.setdefault(name, []).append(taken[len(taken) * 99 // 100] * 1e3)
            print(f"{name}, turn {turn + 1}: p50 {taken[len(taken) // 2] * 1e3:.2f} ms, p99 "
                  f"{p99s[name][-1]:.2f} ms, {processor * 1e3:.2f} ms of nerfd's processor time per call",
                  flush=True)
    return max(p99s["gateway"]) <= max(p99s["gRPC"]) + MAX_BEYOND


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/release/bin")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(arguments.bin.resolve(), pathlib.Path(folder), arguments.tls)
        try:
            print(f"load {os.getloadavg()[0]:.1f} on {len(os.sched_getaffinity(0))} cores{', by TLS' if arguments.tls else ''}")
            ok = [transfer(server, arguments.mib), compare_calls(server, arguments.seconds, arguments.rate)]
            print(f"load {os.getloadavg()[0]:.1f}")
        finally:
            server.process.terminate()
            server.process.wait()
    if arguments.strict and not all(ok):
        sys.exit("not as fast as it should be")


if __name__ == "__main__":
    main()
