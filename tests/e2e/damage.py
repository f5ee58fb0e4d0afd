#!/usr/bin/env python3
"""Damages one place of a data folder at a time and looks at what nerfd makes of it.

A folder with queued jobs, a scene and a paused job with checkpoints is left by a kill -9. Each case copies it, flips a
bit of one file, cuts it or removes it, and starts nerfd:

  queue.db, its log   nerfd refuses to start and names --accept-data-loss, or it has every job as it was
  picture of a scene  the first read is DATA_LOSS or NOT_FOUND; FindMissingBlobs names it; an
                      upload replaces it
  job                 one that needs the picture waits with its name, and runs after the upload
  last checkpoint     the job goes on from the one before
  model               a render job waits for it, and begins after the upload

nerfd's own search for damage finds none of it: its first pass begins after a day.

With --loaded bits are flipped in one running service instead, in pictures, models and last
checkpoints in turn, beside clients, workers and readers of all blobs (damage_loaded.py).

faults_test.sh runs it.
"""
import collections
import hashlib
import itertools
import random
import shutil
import sys
import time
import uuid

import grpc
from google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from nerf.v1 import blob_service_pb2, blob_service_pb2_grpc, common_pb2, model_service_pb2
from nerf.v1 import job_service_pb2 as job_service
from nerf.v1 import render_service_pb2 as render

import workload

JOB = job_service.Job
workload.CALL_SECONDS = 60  # on a loaded machine
START_SECONDS = 60  # on a loaded machine
TARGETS = ("queue.db", "log", "picture", "job", "checkpoint", "model")


class Damaged(workload.Service):
    """nerfd on a copy of the folder, without workers unless asked for."""

    def words(self):
        log = self.folder / "nerfd.log"
        return log.read_text(errors="replace") if log.exists() else ""


def wait_for(what, condition, seconds=START_SECONDS, pause=0.1):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    raise AssertionError(f"no {what} within {seconds} s")


def job_request(scene, steps):
    return job_service.CreateJobRequest(job=workload.training_of(scene, steps))


def make_template(arguments, folder):
    """Returns the jobs by name, the paused job, the model and the scene's picture."""
    service = Damaged(arguments.binaries, arguments.engine, folder, n_workers=1)
    try:
        connection = workload.Connection(service)
        scene_folder = workload.small_scene(folder / "scene")
        scene = workload.patiently(lambda: workload.make_scene(connection, scene_folder))
        paused = connection.call("CreateJob", job_request(scene, 20000)).name
        get = job_service.GetJobRequest(name=paused)
        wait_for("checkpoints", lambda: len(
            connection.call("GetJob", get).training_status.checkpoints) >= 3)
        connection.call("PauseJob", job_service.PauseJobRequest(name=paused))
        wait_for("pause", lambda: connection.call("GetJob", get).state == JOB.PAUSED)
        model = connection.call("PromoteCheckpoint", model_service_pb2.PromoteCheckpointRequest(
            name=f"{paused}/checkpoints/-"))
        service.workers[0].terminate()
        service.workers[0].wait()
        service.workers = []
        for _ in range(15):
            connection.call("CreateJob", job_request(scene, 30))
        jobs = {job.name: job for job in workload.list_jobs(connection)}
        service.stop_server()
        return jobs, jobs[paused], model, (scene_folder / "train/r_0.png").read_bytes()
    finally:
        service.end()


def damage(path, kind, dice):
    content = bytearray(path.read_bytes())
    if kind == "absent":
        path.unlink()
        return
    place = dice.randrange(len(content))
    if kind == "flip":
        content[place] ^= 1 << dice.randrange(8)
    else:
        del content[place:]
    path.chmod(0o644)
    path.write_bytes(content)


def check_queue(service, jobs):
    if service.server.poll() is not None:
        words = service.words()
        if service.server.returncode < 0 or "--accept-data-loss" not in words:
            raise AssertionError(f"ended with {service.server.returncode}: {words[-400:]}")
        return "refused"
    now = {job.name: job for job in workload.list_jobs(workload.Connection(service))}
    if {name: job.state for name, job in now.items()} != {name: job.state for name, job in jobs.items()}:
        raise AssertionError(f"{len(now)} jobs in place of {len(jobs)}, and no word of it")
    return "harmless"


class Blobs:
    """Reads and writes one blob."""

    def __init__(self, connection, blob):
        self.blob, self.metadata = blob, connection.metadata
        self.finder = blob_service_pb2_grpc.BlobServiceStub(connection.channel)
        self.stream = bytestream_pb2_grpc.ByteStreamStub(connection.channel)
        self.name = f"blobs/{blob.sha256}/{int(blob.size_bytes)}"

    def missing(self):
        request = blob_service_pb2.FindMissingBlobsRequest(blobs=[self.blob])
        return self.finder.FindMissingBlobs(request, timeout=30, metadata=self.metadata).missing

    def read(self):
        request = bytestream_pb2.ReadRequest(resource_name=self.name)
        parts = self.stream.Read(request, timeout=30, metadata=self.metadata)
        return b"".join(part.data for part in parts)

    def upload(self, content):
        """What clients do: nothing, unless it is missing."""
        assert self.missing(), "it counts as present"
        request = bytestream_pb2.WriteRequest(resource_name=f"uploads/{uuid.uuid4()}/{self.name}",
                                              data=content, finish_write=True)
        self.stream.Write(iter([request]), timeout=30, metadata=self.metadata)
        assert self.read() == content


def check_picture(service, blob, content):
    blobs = Blobs(workload.Connection(service), blob)
    try:
        blobs.read()
        raise AssertionError("a damaged picture was read as OK")
    except grpc.RpcError as error:
        if error.code() not in (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.NOT_FOUND):
            raise
        outcome = error.code().name
    blobs.upload(content)
    return outcome


def start_worker(service):
    service.workers = [None]
    service.start_worker(0)


def wait_for_upload(get, blob, content, connection, goes_on):
    """`get` returns a job, which waits for the blob and then `goes_on`."""
    wait_for("wait for the upload", lambda: get().wait.reason == "BLOBS_MISSING")
    assert "damaged or missing on the server" in get().wait.message, get()
    Blobs(connection, blob).upload(content)
    wait_for("sign that it goes on", goes_on)
    return "waited"


def check_job(service, blob, content, jobs):
    connection = workload.Connection(service)
    start_worker(service)
    name = next(job.name for job in jobs.values() if job.state == JOB.QUEUED)
    get = lambda: connection.call("GetJob", job_service.GetJobRequest(name=name))
    succeeded = lambda: get().state == JOB.SUCCEEDED
    return wait_for_upload(get, blob, content, connection, succeeded) + " for its picture"


def check_model(service, model, content):
    connection = workload.Connection(service)
    # The other jobs would wait, too, for their turn.
    for job in workload.list_jobs(connection):
        connection.call("CancelJob", job_service.CancelJobRequest(name=job.name))
    start_worker(service)
    view = render.Keyframe(transform_matrix=[1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 4, 0, 0, 0, 1],
                           fov_degrees=40)
    path = render.CameraPath(keyframes=render.KeyframePath(keyframes=[view], frames=3))
    job = JOB(render={"model": model.name, "path": path, "width": 4, "height": 3, "images": True})
    name = connection.call("CreateJob", job_service.CreateJobRequest(job=job)).name
    get = lambda: connection.call("GetJob", job_service.GetJobRequest(name=name))
    # The tests' engine renders no frames.
    goes_on = lambda: get().HasField("start_time")
    return wait_for_upload(get, model.blob, content, connection, goes_on)


def check_checkpoint(service, job):
    connection = workload.Connection(service)
    start_worker(service)
    before = job.training_status.checkpoints[-2].step
    connection.call("UpdateJob", job_service.UpdateJobRequest(
        job=JOB(name=job.name, priority=100), update_mask={"paths": ["priority"]}))
    connection.call("ResumeJob", job_service.ResumeJobRequest(name=job.name))
    wait_for("word of the damage", lambda: "dropped a damaged checkpoint" in service.words())
    get = job_service.GetJobRequest(name=job.name)
    wait_for("training", lambda: connection.call(
        "GetJob", get).training_status.progress.step > before)
    return "the one before"


def run_case(arguments, template, made, target, kind, dice):
    jobs, paused, model, content = made
    picture = picture_of(content)
    folder = arguments.folder / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copytree(template / "server", folder / "server", ignore=shutil.ignore_patterns("*.sock"))
    server = folder / "server"
    checkpoint = paused.training_status.checkpoints[-1].checkpoint_blob
    digest = {"picture": picture.sha256, "job": picture.sha256, "model": model.blob.sha256,
              "checkpoint": checkpoint.sha256}.get(target)
    path = server / ({"queue.db": "queue.db", "log": "queue.db-wal"}.get(target) or
                     f"blobs/{digest[:2]}/{digest}")
    good = path.read_bytes()
    damage(path, kind, dice)
    service = Damaged(arguments.binaries, arguments.engine, folder, n_workers=0)
    try:
        if target in ("queue.db", "log"):
            return check_queue(service, jobs)
        assert service.server.poll() is None, service.words()[-400:]
        if target == "picture":
            return check_picture(service, picture, content)
        if target == "job":
            return check_job(service, picture, content, jobs)
        if target == "model":
            return check_model(service, model, good)
        return check_checkpoint(service, paused)
    finally:
        service.end()


def picture_of(content):
    return common_pb2.BlobRef(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


def main():
    parser = workload.service_flags()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--places", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument("--kinds", nargs="+", choices=("flip", "cut", "absent"),
                        default=["flip", "flip", "flip", "cut", "absent"])
    parser.add_argument("--loaded", action="store_true")
    arguments = parser.parse_args()
    if arguments.loaded:
        import damage_loaded
        sys.exit(1 if damage_loaded.run(arguments) else 0)
    dice = random.Random(arguments.seed)
    template = arguments.folder / "template"
    template.mkdir()
    made = make_template(arguments, template)
    outcomes, n_bad = collections.Counter(), 0
    begin = time.monotonic()
    targets = itertools.cycle(arguments.only)
    for i in range(arguments.places):
        target, kind = next(targets), dice.choice(arguments.kinds)
        try:
            outcome = run_case(arguments, template, made, target, kind, dice)
        except (AssertionError, grpc.RpcError) as error:
            n_bad += 1
            outcome = "WRONG"
            print(f"place {i}, {target}, {kind}: {str(error)[:600]}", flush=True)
        outcomes[f"{target}: {outcome}"] += 1
    print(f"seed {arguments.seed}: {arguments.places} places in {time.monotonic() - begin:.0f} s, {n_bad} wrong; "
          f"{dict(sorted(outcomes.items()))}")
    sys.exit(1 if n_bad > 0 else 0)


if __name__ == "__main__":
    main()
