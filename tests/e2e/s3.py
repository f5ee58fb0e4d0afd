#!/usr/bin/env python3
"""nerfd with its blobs in a real S3 bucket (OpenStack Swift, tests/testing/swift_s3.sh).

A job is trained, nerfd is killed and started again, and everything is there, in the bucket and not
on the disk. A picture is damaged in the bucket: a job waits for it, and runs after the upload.
By signed URLs a reader and a worker move bytes past nerfd, and nobody writes other bytes. A service
moves from a folder and SQLite to S3 and PostgreSQL under load, and back by a backup (move.py).
Wrong keys and an empty data folder beside a full bucket are refused with words. While S3 is away
uploads are UNAVAILABLE. faults_test.sh runs it; exits 77 where Swift is not installed.
"""
import base64
import email.utils
import hashlib
import hmac
import http.client
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid

import grpc
from google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from nerf.v1 import blob_service_pb2, blob_service_pb2_grpc, common_pb2, model_service_pb2
from nerf.v1 import job_service_pb2 as job_service

import move
import workload
from damage import Blobs, job_request, picture_of, wait_for, wait_for_upload

JOB = job_service.Job
workload.CALL_SECONDS = 60  # on a loaded machine
SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "testing/swift_s3.sh"


class Swift:
    def __init__(self, folder):
        folder.mkdir()
        self.process = subprocess.Popen([SCRIPT, folder], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.endpoint = self.process.stdout.readline().strip()
        if not self.endpoint.startswith("http://"):
            print(self.endpoint)
            sys.exit(self.process.wait())

    def end(self):
        self.process.stdin.close()
        self.process.wait()

    def request(self, method, path, body=b""):
        """By the older signature, independent of what is tested."""
        date = email.utils.formatdate(usegmt=True)
        text = f"{method}\n\n\n{date}\n{path.split('?')[0]}"
        digest = hmac.new(b"testing", text.encode(), hashlib.sha1).digest()
        connection = http.client.HTTPConnection(self.endpoint[len("http://"):], timeout=60)
        connection.request(method, path, body, {
            "Date": date, "Authorization": f"AWS test:tester:{base64.b64encode(digest).decode()}"})
        answer = connection.getresponse()
        return answer.status, answer.read()


class OnS3(workload.Service):
    """nerfd whose blobs are in the bucket."""

    def __init__(self, swift, key, *arguments, **more):
        self.swift, self.key = swift, key
        super().__init__(*arguments, **more)

    def spawn(self, name, arguments):
        if name != "nerfd":
            return super().spawn(name, arguments)
        log = open(self.folder / "nerfd.log", "ab")
        variables = {**os.environ, "AWS_ACCESS_KEY_ID": "test:tester",
                     "AWS_SECRET_ACCESS_KEY": self.key}
        more = ["--blobs", "s3://nerf/team", "--s3-endpoint", self.swift.endpoint, "--signed-urls"]
        return subprocess.Popen([*arguments, *more], stdout=log, stderr=log, env=variables)

    def words(self):
        return (self.folder / "nerfd.log").read_text(errors="replace")


def refused(arguments, swift, folder, key, word):
    """nerfd does not start, and says why."""
    folder.mkdir()
    service = OnS3(swift, key, arguments.binaries, arguments.engine, folder, n_workers=0)
    service.server.wait(timeout=60)
    assert service.server.returncode > 0, service.server.returncode
    assert word in service.words(), service.words()[-600:]


def check_life(service, swift):
    connection = workload.Connection(service)
    scene_folder = workload.small_scene(service.folder / "scene")
    scene = workload.patiently(lambda: workload.make_scene(connection, scene_folder))
    name = connection.call("CreateJob", job_request(scene, 30)).name
    request = job_service.GetJobRequest(name=name)
    get = lambda: workload.patiently(lambda: connection.call("GetJob", request))
    wait_for("success", lambda: get().state == JOB.SUCCEEDED)
    model = connection.call("PromoteCheckpoint", model_service_pb2.PromoteCheckpointRequest(
        name=f"{name}/checkpoints/-"))
    service.stop_server()
    service.start_server()
    for blob in (model.blob, get().training_status.checkpoints[-1].checkpoint_blob):
        blobs = Blobs(connection, blob)
        assert not workload.patiently(blobs.missing)
        assert hashlib.sha256(blobs.read()).hexdigest() == blob.sha256
        status, content = swift.request("GET", f"/nerf/team/blobs/{blob.sha256}")
        assert status == 200 and hashlib.sha256(content).hexdigest() == blob.sha256
    on_disk = [path for path in (service.data / "blobs").rglob("*") if path.is_file()]
    assert not on_disk, on_disk
    return connection, scene


def check_damage(connection, swift, scene, worker_again, content):
    """One bit turned in the bucket."""
    blob = picture_of(content)
    bad = bytes([content[0] ^ 1]) + content[1:]
    assert swift.request("PUT", f"/nerf/team/blobs/{blob.sha256}", bad)[0] == 200
    worker_again()  # whose cache had the picture
    name = connection.call("CreateJob", job_request(scene, 30)).name
    get = lambda: connection.call("GetJob", job_service.GetJobRequest(name=name))
    wait_for_upload(get, blob, content, connection, lambda: get().state == JOB.SUCCEEDED)
    status, stored = swift.request("GET", f"/nerf/team/blobs/{blob.sha256}")
    assert status == 200 and stored == content


def check_signed(service, connection):
    """Bytes past nerfd, by what it has signed."""
    stub = blob_service_pb2_grpc.BlobServiceStub(connection.channel)
    token = (service.data / "worker.token").read_text().strip()
    of_worker = [("authorization", f"Bearer {token}")]
    content = os.urandom(2 << 20)
    blob = common_pb2.BlobRef(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))

    def request(method, signed, body=None):
        headers = dict(line.split(": ", 1) for line in signed.headers)
        try:
            call = urllib.request.Request(signed.url, body, headers, method=method)
            with urllib.request.urlopen(call, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, b""

    def sign(write, metadata, parent=""):
        call = blob_service_pb2.SignBlobUrlRequest(blob=blob, parent=parent, write=write)
        return stub.SignBlobUrl(call, timeout=60, metadata=metadata)
    assert sign(True, connection.metadata).url == ""  # clients upload through nerfd
    signed = sign(True, of_worker)
    assert request("PUT", signed, content[:-1] + bytes([content[-1] ^ 1]))[0] >= 400
    adopt = blob_service_pb2.AdoptBlobRequest(blob=blob)
    for metadata, code in ((of_worker, grpc.StatusCode.NOT_FOUND),
                           (connection.metadata, grpc.StatusCode.PERMISSION_DENIED)):
        try:
            stub.AdoptBlob(adopt, timeout=60, metadata=metadata)
            raise AssertionError(f"not {code}")
        except grpc.RpcError as error:
            assert error.code() == code, error
    assert request("PUT", signed, content)[0] == 200
    stub.AdoptBlob(adopt, timeout=60, metadata=of_worker)
    try:
        sign(False, connection.metadata, "projects/other")
        raise AssertionError("a blob was signed for a project that does not have it")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
    # What a worker uploads is nobody's until it says for which job.
    try:
        sign(False, connection.metadata)
        raise AssertionError("a worker's upload was signed for a project")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.NOT_FOUND, error
    signed = sign(False, of_worker)
    assert request("GET", signed) == (200, content)
    signed.url = signed.url.replace(blob.sha256, "0" * 64)
    assert request("GET", signed)[0] == 403


def check_away(connection):
    content = b"while S3 is away"
    blob = common_pb2.BlobRef(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
    stream = bytestream_pb2_grpc.ByteStreamStub(connection.channel)
    request = bytestream_pb2.WriteRequest(
        resource_name=f"uploads/{uuid.uuid4()}/{Blobs(connection, blob).name}", data=content,
        finish_write=True)
    try:
        stream.Write(iter([request]), timeout=60, metadata=connection.metadata)
        raise AssertionError("acknowledged without S3")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        assert "S3" in error.details(), error


def main():
    parser = workload.service_flags()
    move.add_flags(parser)
    arguments = parser.parse_args()
    for folder in (arguments.folder, arguments.folder.parent):
        folder.chmod(0o711)  # PostgreSQL does not run as root
    swift = Swift(arguments.folder / "swift")
    begin = time.monotonic()
    service = None
    try:
        refused(arguments, swift, arguments.folder / "guess", "guess", "SignatureDoesNotMatch")
        folder = arguments.folder / "service"
        folder.mkdir()
        service = OnS3(swift, "testing", arguments.binaries, arguments.engine, folder, n_workers=1)
        connection, scene = check_life(service, swift)
        content = (folder / "scene/train/r_0.png").read_bytes()

        def worker_again():
            service.workers[0].kill()
            service.workers[0].wait()
            subprocess.run(["rm", "-rf", folder / "cache-0"], check=True)
            service.start_worker(0)

        check_signed(service, connection)
        check_damage(connection, swift, scene, worker_again, content)
        refused(arguments, swift, arguments.folder / "empty", "testing", "--accept-data-loss")
        moved = move.move(arguments, swift, arguments.folder / "moved")
        swift.end()
        check_away(connection)
    finally:
        if service is not None:
            service.end()
        if swift.process.poll() is None:
            swift.end()
    print(f"blobs in S3: right, in {time.monotonic() - begin:.0f} s; {moved}")


if __name__ == "__main__":
    main()
