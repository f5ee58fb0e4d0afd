"""Flips bits of blobs of a running service under load; see damage.py.

Readers read every picture and model all the time: none gets wrong bytes with OK. The first read
after a flip is DATA_LOSS, FindMissingBlobs names the blob, one upload heals it, and a job whose
last checkpoint it was goes on from the one before. No job fails, and the checker of workload.py
finds nothing else.
"""
import collections
import hashlib
import itertools
import random
import threading
import types

import grpc

import backup
import workload
from damage import Blobs, Damaged, picture_of, wait_for
from nerf.v1 import job_service_pb2 as job_service

JOB = job_service.Job


def flip(service, blob, dice):
    """Turns one bit of the file. Returns what it had."""
    path = service.data / f"blobs/{blob.sha256[:2]}/{blob.sha256}"
    content = path.read_bytes()
    place = dice.randrange(len(content))
    path.chmod(0o644)
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(bytes([content[place] ^ 1 << dice.randrange(8)]))
    return content


class Reader(threading.Thread):
    """Reads blobs, one after the other."""

    def __init__(self, service, picture, stop):
        super().__init__(daemon=True)
        self.connection, self.picture, self.stop = workload.Connection(service), picture, stop
        self.outcomes, self.wrong = collections.Counter(), []

    def run(self):
        while not self.stop.is_set():
            models = [model.blob for model in workload.list_models(self.connection)[:20]]
            for blob in [self.picture, *models]:
                try:
                    content = Blobs(self.connection, blob).read()
                    self.outcomes["OK"] += 1
                    if hashlib.sha256(content).hexdigest() != blob.sha256:
                        self.wrong.append(blob.sha256)
                except grpc.RpcError as error:
                    self.outcomes[error.code().name] += 1
                self.stop.wait(0.005)


def flip_and_heal(service, connection, blob, dice):
    content = flip(service, blob, dice)
    blobs = Blobs(connection, blob)
    try:
        blobs.read()
        raise AssertionError("wrong bytes were read as OK")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DATA_LOSS, error
    blobs.upload(content)


def fall_back(service, connection, job, dice):
    """The job's last checkpoint is damaged while it is paused."""
    get = lambda: connection.call("GetJob", job_service.GetJobRequest(name=job))
    wait_for("checkpoints", lambda: len(get().training_status.checkpoints) >= 2 and
             get().state == JOB.RUNNING)
    connection.call("PauseJob", job_service.PauseJobRequest(name=job))
    wait_for("pause", lambda: get().state == JOB.PAUSED)
    paused, n_dropped = get(), service.words().count("dropped a damaged checkpoint")
    *_, earlier, last = paused.training_status.checkpoints
    flip(service, last.checkpoint_blob, dice)
    connection.call("ResumeJob", job_service.ResumeJobRequest(name=job))
    wait_for("word of the damage",
             lambda: service.words().count("dropped a damaged checkpoint") > n_dropped)
    wait_for("training", lambda: get().state == JOB.RUNNING and
             get().training_status.progress.step > earlier.step)


def run(arguments):
    folder = arguments.folder / "loaded"
    folder.mkdir()
    dice = random.Random(arguments.seed)
    service = Damaged(arguments.binaries, arguments.engine, folder, n_workers=2)
    try:
        connection = workload.Connection(service)
        scene_folder = workload.small_scene(folder / "scene")
        scene = workload.patiently(lambda: workload.make_scene(connection, scene_folder))
        picture = picture_of((scene_folder / "train/r_0.png").read_bytes())
        load = types.SimpleNamespace(clients=6, pause=0.05, open_jobs=20)
        history, stop = workload.History(), threading.Event()
        long_job = backup.LongJob(connection, scene)
        end = backup.work_with(load, service, history, scene, arguments.seed * 1000)
        readers = [Reader(service, picture, stop) for _ in range(2)]
        for reader in readers:
            reader.start()
        targets = itertools.cycle(("picture", "model", "checkpoint"))
        done = collections.Counter()
        for target in itertools.islice(targets, arguments.places):
            if target == "checkpoint":
                fall_back(service, connection, long_job.name, dice)
            elif target == "model":
                models = wait_for("a model", lambda: workload.list_models(connection))
                flip_and_heal(service, connection, dice.choice(models).blob, dice)
            else:
                flip_and_heal(service, connection, picture, dice)
            done[target] += 1
        stop.set()
        end()
        for reader in readers:
            reader.join(60)
            for digest in reader.wrong:
                history.violation(f"a reader got wrong bytes of {digest}")
        long_job.end(history)
        workload.settle(connection, history, 120)
        workload.check_end(connection, history, workload.list_jobs(connection))
        jobs = workload.settle(connection, history, 120)
        for job in jobs:
            if job.state == JOB.FAILED:
                history.violation(f"{job.name} failed: {job.error}")
        service.end()
        workload.check_store(service, history, jobs)
    finally:
        service.end()
    reads = sum((reader.outcomes for reader in readers), collections.Counter())
    print(f"seed {arguments.seed}: bits flipped {dict(done)} beside {sum(history.calls.values())} "
          f"calls {dict(history.calls)} and reads {dict(reads)}; {len(jobs)} jobs, "
          f"{len(history.violations)} violations")
    for violation in history.violations[:20]:
        print("  " + violation)
    return len(history.violations)
