"""A service that moves from its data folder to S3 and PostgreSQL under load, and back by a backup.

Clients work as in workload.py all the time. nerfd is backed up, then started again with --blobs,
killed while its blobs move, and started again; then its store is moved and it goes on with --store.
At the end the checker compares what clients saw with the model, every blob that is named has its
digest and lies in the bucket alone. The backup in an empty folder has all that was acknowledged
before it. s3.py runs it.
"""
import hashlib
import os
import signal
import subprocess
import time

import backup
import postgres
import workload
from damage import Blobs, wait_for

MOVED = "moved the blobs of the data folder"
SECONDS = 1.5  # of load before and after each change


def add_flags(parser):
    """Of the load."""
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--pause", type=float, default=0.1, help="between the calls of a client")
    parser.add_argument("--open-jobs", type=int, default=10, help="that have not ended, at most")


class Movable(backup.Restorable):
    def words(self):
        return (self.folder / "nerfd.log").read_text(errors="replace")

    def stop_gently(self):
        self.server.send_signal(signal.SIGINT)  # SIGTERM waits for balancers first
        assert self.server.wait(timeout=60) == 0, self.words()[-2000:]

    def files(self):
        return [path for path in (self.data / "blobs").rglob("*") if path.is_file()]


def check_digests(connection, jobs):
    """Reads all that jobs and models name. Returns the digests."""
    blobs = {blob.sha256: blob for job in jobs
             for checkpoint in job.training_status.checkpoints
             for blob in (checkpoint.checkpoint_blob, checkpoint.model_blob)}
    blobs |= {model.blob.sha256: model.blob for model in workload.list_models(connection)}
    for digest, blob in blobs.items():
        content = Blobs(connection, blob).read()
        assert hashlib.sha256(content).hexdigest() == digest
    return list(blobs)


def check_life(service, connection, history):
    workload.settle(connection, history, 60)
    workload.check_end(connection, history, workload.list_jobs(connection))
    jobs = workload.settle(connection, history, 60)
    digests = check_digests(connection, jobs)
    service.end()
    workload.check_store(service, history, jobs)
    assert not history.violations, history.violations[:20]
    return len(jobs), digests


def move(arguments, swift, folder):
    """Returns what happened, in words."""
    folder.mkdir(mode=0o711)
    os.environ.update(AWS_ACCESS_KEY_ID="test:tester", AWS_SECRET_ACCESS_KEY="testing")
    workload.CALL_SECONDS = 10  # a watch lasts so long after the clients' end
    database = None
    if (postgres.BIN / "initdb").exists():
        database = postgres.Postgres(folder / "postgres")
    service = Movable(arguments.binaries, arguments.engine, folder, 2)
    try:
        connection = workload.Connection(service)
        pictures = workload.small_scene(folder / "scene")
        scene = workload.patiently(lambda: workload.make_scene(connection, pictures))
        history = workload.History()
        end = backup.work_with(arguments, service, history, scene, 1000)
        time.sleep(SECONDS)
        known = backup.copied(history)
        saved, _ = backup.back_up(arguments, service, connection)
        service.stop_gently()
        n_files = len(service.files())
        service.restore_flags = ["--blobs", "s3://nerf/moved", "--s3-endpoint", swift.endpoint]
        service.start_server()
        wait_for("moved file", lambda: len(service.files()) < n_files, pause=0.001)
        service.stop_server()
        n_left = len(service.files())
        service.start_server()
        wait_for("end of the move", lambda: MOVED in service.words())
        time.sleep(SECONDS)
        assert not service.files(), service.files()
        if database:
            service.stop_gently()
            subprocess.run([service.binaries / "nerfd", "--data-dir", service.data, "--move-store",
                            database.uri], check=True, stdout=subprocess.DEVNULL)
            service.postgres = database
            service.start_server()
            time.sleep(SECONDS)
        end()
        n_jobs, digests = check_life(service, connection, history)
        for digest in digests:
            status, content = swift.request("GET", f"/nerf/moved/blobs/{digest}")
            assert status == 200 and hashlib.sha256(content).hexdigest() == digest
        # Back again.
        service.postgres = None
        known.sent, known.promotes = history.sent, history.promotes
        service.restore(saved)
        for i in range(len(service.workers)):
            service.start_worker(i)
        n_back, _ = check_life(service, connection, known)
        return (f"moved {n_files} files of blobs, {n_left} of them after a kill, beside "
                f"{sum(history.calls.values())} calls; {n_jobs} jobs there, {n_back} back")
    finally:
        service.end()
        if database:
            database.end()
