#!/usr/bin/env python3
"""Damages one place of a data folder at a time and looks at what nerfd makes of it.

A folder with queued jobs, a scene and a paused job with checkpoints is left by a kill -9. Each case copies it, flips a
bit of one file, cuts it or removes it, and starts nerfd:

  queue.db, its log   nerfd refuses to start and names --accept-data-loss, or it has every job as it was
  picture of a scene  reading it is DATA_LOSS or NOT_FOUND; FindMissingBlobs names it; an upload replaces it
  last checkpoint     the job goes on from the one before

faults_test.sh runs it.
"""
import collections
import hashlib
import random
import shutil
import sys
import time
import uuid

import grpc
from google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from nerf.v1 import blob_service_pb2, blob_service_pb2_grpc, common_pb2
from nerf.v1 import training_service_pb2 as training

import workload

JOB = training.TrainingJob
workload.CALL_SECONDS = 60  # on a loaded machine
START_SECONDS = 60  # on a loaded machine
SCRUB_SECONDS = 1


class Damaged(workload.Service):
    """nerfd on a copy of the folder, without workers unless asked for."""

    def spawn(self, name, arguments):
        if name == "nerfd":
            arguments = [*arguments, "--scrub-interval", f"{SCRUB_SECONDS}s"]
        return super().spawn(name, arguments)

    def words(self):
        log = self.folder / "nerfd.log"
        return log.read_text(errors="replace") if log.exists() else ""


def wait_for(what, condition, seconds=START_SECONDS):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"no {what} within {seconds} s")


def job_request(scene, steps):
    return training.CreateTrainingJobRequest(training_job=JOB(scene=scene, config={"steps": steps}))


def make_template(arguments, folder):
    """Returns the jobs by name, the paused job and the scene's picture."""
    service = Damaged(arguments.binaries, arguments.engine, folder, n_workers=1)
    try:
        connection = workload.Connection(service)
        scene_folder = workload.small_scene(folder / "scene")
        scene = workload.patiently(lambda: workload.make_scene(connection, scene_folder))
        paused = connection.call("CreateTrainingJob", job_request(scene, 20000)).name
        get = training.GetTrainingJobRequest(name=paused)
        wait_for("checkpoints", lambda: len(connection.call("GetTrainingJob", get).checkpoints) >= 3)
        connection.call("PauseTrainingJob", training.PauseTrainingJobRequest(name=paused))
        wait_for("pause", lambda: connection.call("GetTrainingJob", get).state == JOB.PAUSED)
        service.workers[0].terminate()
        service.workers[0].wait()
        service.workers = []
        for _ in range(15):
            connection.call("CreateTrainingJob", job_request(scene, 30))
        jobs = {job.name: job for job in workload.list_jobs(connection)}
        service.stop_server()
        return jobs, jobs[paused], (scene_folder / "train/r_0.png").read_bytes()
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


def check_picture(service, blob, content):
    connection = workload.Connection(service)
    finder = blob_service_pb2_grpc.BlobServiceStub(connection.channel)
    request = blob_service_pb2.FindMissingBlobsRequest(blobs=[blob])
    missing = lambda: finder.FindMissingBlobs(request, timeout=30, metadata=connection.metadata).missing
    wait_for("missing blob", missing)
    stream = bytestream_pb2_grpc.ByteStreamStub(connection.channel)
    name = f"blobs/{blob.sha256}/{int(blob.size_bytes)}"
    read = lambda: b"".join(part.data for part in stream.Read(
        bytestream_pb2.ReadRequest(resource_name=name), timeout=30, metadata=connection.metadata))
    try:
        read()
        raise AssertionError("a damaged picture was read as OK")
    except grpc.RpcError as error:
        if error.code() not in (grpc.StatusCode.DATA_LOSS, grpc.StatusCode.NOT_FOUND):
            raise
        outcome = error.code().name
    stream.Write(iter([bytestream_pb2.WriteRequest(resource_name=f"uploads/{uuid.uuid4()}/{name}", data=content,
                                                   finish_write=True)]), timeout=30, metadata=connection.metadata)
    assert read() == content
    return outcome


def check_checkpoint(service, job):
    connection = workload.Connection(service)
    service.workers = [None]
    service.start_worker(0)
    before = job.checkpoints[-2].step
    connection.call("UpdateTrainingJob", training.UpdateTrainingJobRequest(
        training_job=JOB(name=job.name, priority=100), update_mask={"paths": ["priority"]}))
    connection.call("ResumeTrainingJob", training.ResumeTrainingJobRequest(name=job.name))
    wait_for("word of the damage", lambda: "dropped a damaged checkpoint" in service.words())
    get = training.GetTrainingJobRequest(name=job.name)
    wait_for("training", lambda: connection.call("GetTrainingJob", get).progress.step > before)
    return "the one before"


def run_case(arguments, template, jobs, paused, picture, target, kind, dice):
    folder = arguments.folder / "case"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    shutil.copytree(template / "server", folder / "server", ignore=shutil.ignore_patterns("*.sock"))
    server = folder / "server"
    digest = {"picture": picture.sha256, "checkpoint": paused.checkpoints[-1].checkpoint_blob.sha256}.get(target)
    path = server / ({"queue.db": "queue.db", "log": "queue.db-wal"}.get(target) or
                     f"blobs/{digest[:2]}/{digest}")
    damage(path, kind, dice)
    service = Damaged(arguments.binaries, arguments.engine, folder, n_workers=0)
    try:
        if target in ("queue.db", "log"):
            return check_queue(service, jobs)
        assert service.server.poll() is None, service.words()[-400:]
        return (check_picture(service, picture, b"no picture") if target == "picture"
                else check_checkpoint(service, paused))
    finally:
        service.end()


def picture_of(content):
    return common_pb2.BlobRef(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))


def main():
    parser = workload.service_flags()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--places", type=int, default=200)
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    template = arguments.folder / "template"
    template.mkdir()
    jobs, paused, content = make_template(arguments, template)
    picture = picture_of(content)
    # Where most bytes are, most places are.
    targets = ["queue.db"] * 6 + ["log"] * 6 + ["picture"] * 4 + ["checkpoint"] * 4
    outcomes, n_bad = collections.Counter(), 0
    begin = time.monotonic()
    for i in range(arguments.places):
        target, kind = targets[i % len(targets)], dice.choice(["flip", "flip", "flip", "cut", "absent"])
        try:
            outcome = run_case(arguments, template, jobs, paused, picture, target, kind, dice)
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
