#!/usr/bin/env python3
"""1 GiB up to and down from S3 by URLs that nerfd signs, against the S3 server's own rate.

    tests/e2e/faults_test.sh . build/release/bin bench/s3_rate.py \\
        --engine build/release/tests/fake_engine

OpenStack Swift on this machine, as of tests/e2e/s3.py. Its own rate: requests of curl that this
script signs. Both in turn, ROUNDS times. Prints the best of each and their share; exits 1 below
LEAST_SHARE.
"""
import base64
import email.utils
import hashlib
import hmac
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/e2e"))
import workload  # noqa: E402
from nerf.v1 import blob_service_pb2, blob_service_pb2_grpc, common_pb2  # noqa: E402
from s3 import OnS3, Swift  # noqa: E402

LEAST_SHARE, ROUNDS, SIZE = 0.8, 2, 1 << 30


def own(swift, method):
    """URL and headers of a request by the older signature."""
    path, date = "/nerf/own", email.utils.formatdate(usegmt=True)
    digest = hmac.new(b"testing", f"{method}\n\n\n{date}\n{path}".encode(), hashlib.sha1).digest()
    key = base64.b64encode(digest).decode()
    return swift.endpoint + path, [f"Date: {date}", f"Authorization: AWS test:tester:{key}"]


def seconds_of(method, url, headers, file):
    """Of curl. Raises an exception if the request fails."""
    options = [word for header in ["Expect:", "Content-Type:", *headers]
               for word in ("--header", header)]
    body = ["--upload-file", file] if method == "PUT" else ["--output", file]
    if method == "GET":
        file.unlink(missing_ok=True)  # to empty one of this size takes time, too
    begin = time.monotonic()
    subprocess.run(["curl", "--silent", "--show-error", "--fail", *options, *body, url],
                   check=True)
    return time.monotonic() - begin


def write_random(file):
    """Returns its digest."""
    digest = hashlib.sha256()
    with open(file, "wb") as out:
        for _ in range(SIZE >> 20):
            block = os.urandom(1 << 20)
            digest.update(block)
            out.write(block)
    return digest.hexdigest()


def measure(service, swift, folder):
    """Seconds, by method and by who has signed."""
    stub = blob_service_pb2_grpc.BlobServiceStub(workload.Connection(service).channel)
    token = (service.data / "worker.token").read_text().strip()
    metadata = [("authorization", f"Bearer {token}")]
    up, down = folder / "up", folder / "down"
    times = {(method, who): [] for method in ("PUT", "GET") for who in ("own", "nerfd")}
    for i in range(ROUNDS):
        blob = common_pb2.BlobRef(sha256=write_random(up), size_bytes=SIZE)
        for method, file in (("PUT", up), ("GET", down)):
            call = blob_service_pb2.SignBlobUrlRequest(blob=blob, write=method == "PUT")
            signed = stub.SignBlobUrl(call, timeout=60, metadata=metadata)
            requests = {"own": own(swift, method), "nerfd": (signed.url, list(signed.headers))}
            # Each first in one round: the second waits for what the first has left to the disk.
            for who in sorted(requests, reverse=i % 2 == 1):
                times[method, who].append(seconds_of(method, *requests[who], file))
            if method == "PUT":
                adopt = blob_service_pb2.AdoptBlobRequest(blob=blob)
                stub.AdoptBlob(adopt, timeout=60, metadata=metadata)
        subprocess.run(["cmp", up, down], check=True)
    return times


def main():
    arguments = workload.service_flags().parse_args()
    for folder in (arguments.folder, arguments.folder.parent):
        folder.chmod(0o711)
    swift = Swift(arguments.folder / "swift")
    service, least = None, 0
    try:
        folder = arguments.folder / "service"
        folder.mkdir()
        service = OnS3(swift, "testing", arguments.binaries, arguments.engine, folder, n_workers=0)
        times = measure(service, swift, arguments.folder)
        shares = []
        for method in ("PUT", "GET"):
            best = {who: min(times[method, who]) for who in ("own", "nerfd")}
            shares.append(best["own"] / best["nerfd"])
            print(f"{method} of 1 GiB: {SIZE / best['own'] / 1e6:.0f} MB/s by its own signature, "
                  f"{SIZE / best['nerfd'] / 1e6:.0f} by nerfd's: {shares[-1]:.2f}", flush=True)
        least = min(shares)
    finally:
        if service is not None:
            service.end()
        swift.end()
    sys.exit(0 if least >= LEAST_SHARE else 1)


if __name__ == "__main__":
    main()
