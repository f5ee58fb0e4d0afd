#!/usr/bin/env python3
"""1,000 connections without a token, slow in every phase, beside calls with one.

Of the page's port and of gRPC, each in plaintext and by TLS: starts nerfd, makes calls with a
token, every other one on a new connection, and holds the crowd beside them: connections that send
nothing, a part of a TLS handshake, of HTTP/2's preface or settings, of headers, of a body or
message, a byte now and then of these, and ones that never read. Those that nerfd closes come back.
Fails if a call fails, if nerfd grows by more than MAX_GROWN_MIB, or if the p99 of the calls is more
than MAX_P99_SECONDS: with --strict of all, else of the best 100 in a row, for machines that do
other work; those have PATIENCE_SECONDS.
"""
import argparse
import http.client
import pathlib
import resource
import select
import socket
import ssl
import struct
import subprocess
import sys
import time

import grpc

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/bench"))
from nerfd_process import resident_mib, start_nerfd  # noqa: E402

MAX_GROWN_MIB, MAX_P99_SECONDS, PATIENCE_SECONDS = 64, 0.1, 30
METHOD = "/nerf.v1.JobService/ListJobs"
# A handshake of TLS that announces 512 bytes and has 11 of them.
HELLO = bytes.fromhex("1603010200010001fc0303")


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def grpc_kinds():
    """Openings, and what follows byte by byte."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    ready = preface + frame(4, 0, 0, b"")
    fields = {b":method": b"POST", b":scheme": b"http", b":path": METHOD.encode(),
              b":authority": b"localhost", b"te": b"trailers", b"content-type": b"application/grpc"}
    headers = b"".join(b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
                       for name, value in fields.items())
    message = frame(0, 0, 1, b"\x00" + struct.pack(">I", 4_000_000) + bytes(8000))
    call = ready + frame(1, 4, 1, headers)
    return [(b"", b""), (b"PRI * HTTP", b""), (preface, b""),
            (preface + frame(4, 0, 0, bytes(600))[:20], b"\x00"), (ready, b""),
            (ready + frame(1, 0, 1, headers)[:40], b"a"), (call + message, b""),
            (call + message[:2000], b"\x00"),
            (ready + b"".join(frame(1, 4, stream, headers) for stream in range(1, 200, 2)), b"")]


def http_kinds():
    post = (f"POST {METHOD} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            "Content-Length: 4000000\r\n\r\n").encode()
    return [(b"", b""), (b"GET / HTTP/1.1\r\nHost: localhost\r\nA: ", b"a"), (post[:30], b""),
            (post, b" "), (post + bytes(500_000), b""),
            (b"GET /app.js HTTP/1.1\r\nHost: localhost\r\n\r\n", b"")]


def crowd(arguments):
    """Holds `count` connections until its input ends. Prints how many the server has closed."""
    host, port = arguments.address.rsplit(":", 1)
    kinds = http_kinds() if arguments.protocol == "http" else grpc_kinds()
    kinds = [(False, *kind) for kind in kinds]
    if arguments.ca:
        context = ssl.create_default_context(cafile=arguments.ca)
        context.set_alpn_protocols(["http/1.1" if arguments.protocol == "http" else "h2"])
        # After the handshake, and in it: nothing, a part, one that drips, a whole and no more.
        kinds = [(True, opening, drip) for _, opening, drip in kinds]
        kinds += [(False, b"", b""), (False, HELLO, b""), (False, HELLO[:5], b"a"),
                  (False, kinds[1][1], b"")]

    def connect(kind):
        by_tls, opening, _ = kind
        connection = socket.socket()
        try:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(2)
            connection.connect((host, int(port)))
            if by_tls:
                connection = context.wrap_socket(connection, server_hostname=host)
            connection.setblocking(False)
            connection.send(opening)
        except OSError:
            pass  # it is closed already, or full
        return connection

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    held = {i: connect(kinds[i % len(kinds)]) for i in range(arguments.count)}
    poll, n_closed, turn = select.poll(), 0, 0
    by_fd = {}

    def hold(i):
        by_fd[held[i].fileno()] = i
        poll.register(held[i], select.POLLRDHUP)

    for i in held:
        hold(i)
    poll.register(sys.stdin, select.POLLHUP)
    print("held", flush=True)
    while True:
        ended = [fd for fd, _ in poll.poll(50)]
        if sys.stdin.fileno() in ended:
            break
        time.sleep(0.05)
        for fd in ended[:10]:
            poll.unregister(fd)
            i = by_fd.pop(fd)
            held[i].close()
            held[i] = connect(kinds[i % len(kinds)])
            hold(i)
            n_closed += 1
        turn += 1
        for i, connection in held.items() if turn % 10 == 0 else ():
            try:
                connection.send(kinds[i % len(kinds)][2])
            except OSError:
                pass
    print(n_closed)


class Caller:
    """Calls with a token, one after the other."""

    def __init__(self, address, protocol, token, ca):
        self.address, self.protocol, self.token = address, protocol, f"Bearer {token}"
        self.context = ssl.create_default_context(cafile=ca) if ca else None
        self.ca = pathlib.Path(ca).read_bytes() if ca else None
        self.kept, self.n = self.connect(), 0

    def connect(self):
        if self.protocol == "http":
            if self.context:
                return http.client.HTTPSConnection(self.address, context=self.context, timeout=60)
            return http.client.HTTPConnection(self.address, timeout=60)
        options = [("grpc.use_local_subchannel_pool", 1)]
        if self.ca:
            credentials = grpc.ssl_channel_credentials(self.ca)
            return grpc.secure_channel(self.address, credentials, options)
        return grpc.insecure_channel(self.address, options)

    def call(self):
        """Seconds of a call. Every other one connects anew. Raises an exception if it fails."""
        self.n += 1
        begin = time.monotonic()
        connection = self.connect() if self.n % 2 else self.kept
        if self.protocol == "http":
            connection.request("POST", METHOD, "{}", {"Content-Type": "application/json",
                                                      "Authorization": self.token})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise ConnectionError(f"HTTP {answer.status}")
        else:
            metadata = [("authorization", self.token)]
            connection.unary_unary(METHOD)(b"", timeout=60, metadata=metadata)
        seconds = time.monotonic() - begin
        if self.n % 2:
            connection.close()
        return seconds


def quantile(seconds, share):
    return sorted(seconds)[max(0, round(share * len(seconds)) - 1)] if seconds else float("inf")


def attack(arguments, server, address, protocol, ca):
    """Returns what was measured, and what is wrong with it."""
    token = (arguments.folder / "server/admin.token").read_text().strip()
    caller = Caller(address, protocol, token, ca)
    for _ in range(40):
        caller.call()
    idle = resident_mib(server.pid)
    peak, seconds, errors = idle, [], []
    process = subprocess.Popen([sys.executable, __file__, "--crowd", f"--address={address}",
                                f"--protocol={protocol}", f"--count={arguments.count}",
                                f"--ca={ca or ''}"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    begin = None

    def best():
        return min(quantile(seconds[i:i + 100], 0.99)
                   for i in range(0, max(1, len(seconds) - 99), 50))

    def goes_on():
        if begin is None or time.monotonic() < begin + arguments.seconds or len(seconds) < 100:
            return True
        is_late = time.monotonic() > begin + PATIENCE_SECONDS
        return not arguments.strict and not is_late and best() > MAX_P99_SECONDS

    while goes_on():
        if begin is None and select.select([process.stdout], [], [], 0)[0]:
            process.stdout.readline()  # all of it is there
            begin = time.monotonic()
        try:
            seconds.append(caller.call())
        except (OSError, grpc.RpcError, http.client.HTTPException) as error:
            errors.append(repr(error))
        peak = max(peak, resident_mib(server.pid))
        time.sleep(0.01)
    n_closed = process.communicate()[0].strip()
    measured = quantile(seconds, 0.99) if arguments.strict else best()
    print(f"{protocol}{' by TLS' if ca else ''}: {len(seconds)} calls, "
          f"p50 {quantile(seconds, 0.5) * 1e3:.1f} ms, p99 {quantile(seconds, 0.99) * 1e3:.1f} ms "
          f"(of the best 100: {best() * 1e3:.1f}); nerfd {idle:.0f} MiB, at most {peak - idle:.1f} "
          f"more; it closed {n_closed} of the crowd", flush=True)
    problems = [f"{len(errors)} calls failed, as {errors[0]}"] if errors else []
    if measured > MAX_P99_SECONDS:
        problems.append(f"the p99 is {measured * 1e3:.0f} ms")
    if peak - idle > MAX_GROWN_MIB and not arguments.sanitized:
        problems.append(f"nerfd grew by {peak - idle:.0f} MiB")
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binaries", type=pathlib.Path, help="folder of nerfd")
    parser.add_argument("--folder", type=pathlib.Path, help="an empty folder for data and logs")
    parser.add_argument("--seconds", type=float, default=30, help="of each of the four")
    parser.add_argument("--count", type=int, default=1000, help="of connections without a token")
    parser.add_argument("--strict", action="store_true",
                        help="the p99 of all calls, for a machine with nothing else to do")
    parser.add_argument("--sanitized", action="store_true", help="memory is not limited")
    parser.add_argument("--crowd", action="store_true", help=argparse.SUPPRESS)
    for flag in ["address", "protocol", "ca"]:
        parser.add_argument(f"--{flag}", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.crowd:
        crowd(arguments)
        return
    problems = []
    subprocess.run([ROOT / "k8s/make_certificates.sh", arguments.folder], check=True)
    ca = arguments.folder / "ca.crt"
    tls = ["--tls-cert", arguments.folder / "tls.crt", "--tls-key", arguments.folder / "tls.key"]
    for flags, trusted in [([], None), (tls, ca)]:
        for protocol, port in [("http", "web"), ("grpc", "grpc")]:
            server, ports = start_nerfd(arguments.binaries, arguments.folder / "server",
                                        "--listen", "127.0.0.1:0", "--web-listen", "127.0.0.1:0",
                                        "--no-local-worker", *flags)
            try:
                found = attack(arguments, server, ports[port], protocol, trusted)
                problems += [f"{protocol}: {one}" for one in found]
            finally:
                server.kill()
                server.wait()
    for problem in problems:
        print(f"  FAILED {problem}", flush=True)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
