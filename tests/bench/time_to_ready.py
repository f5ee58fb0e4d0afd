#!/usr/bin/env python3
"""How long nerfd takes to its first answer with many jobs in its store.

Fills a data folder through the API: ended jobs (created, then cancelled), then queued ones. Then kills nerfd, starts it
--starts times and prints each time to the first answer, the CPU time used until then, and the memory.
tests/e2e/faults_test.sh runs it.
"""
import pathlib
import sys
import time
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
import workload  # noqa: E402
from nerf.v1 import job_service_pb2 as job_service  # noqa: E402
from nerfd_process import cpu_seconds, resident_mib  # noqa: E402

IN_FLIGHT = 64
CALL_SECONDS = 120


def call_all(connection, method, requests):
    """Sends the requests, some at a time. Returns the replies."""
    replies, running = [], []
    stub = getattr(connection.jobs, method)
    for request in requests:
        running.append(stub.future(request, timeout=CALL_SECONDS, metadata=connection.metadata))
        if len(running) >= IN_FLIGHT:
            replies.append(running.pop(0).result())
    return replies + [call.result() for call in running]


def create(connection, scene, count):
    job = workload.training_of(scene, 1000, labels={"set": "many"})
    return call_all(connection, "CreateJob", (
        job_service.CreateJobRequest(job=job, request_id=str(uuid.uuid4())) for _ in range(count)))


def measure_start(service, name):
    begin = time.monotonic()
    service.start_server()
    connection = workload.Connection(service)
    workload.patiently(lambda: connection.call("GetJob", job_service.GetJobRequest(name=name)))
    seconds = time.monotonic() - begin
    print(f"ready after {seconds:.2f} s, {cpu_seconds(service.server.pid):.2f} s of CPU, "
          f"{resident_mib(service.server.pid):.0f} MiB", flush=True)
    return seconds


def main():
    parser = workload.service_flags(with_engine=False)
    parser.add_argument("--queued", type=int, default=10000)
    parser.add_argument("--ended", type=int, default=10000)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--max-seconds", type=float, help="fail if the fastest start takes longer")
    arguments = parser.parse_args()
    service = workload.Service(arguments.binaries, None, arguments.folder, n_workers=0)
    try:
        connection = workload.Connection(service)
        scene = workload.patiently(
            lambda: workload.make_scene(connection, workload.small_scene(arguments.folder / "scene")))
        begin = time.monotonic()
        ended = create(connection, scene, arguments.ended)
        call_all(connection, "CancelJob",
                 [job_service.CancelJobRequest(name=job.name) for job in ended])
        queued = create(connection, scene, arguments.queued)
        seconds = time.monotonic() - begin
        n_calls = 2 * arguments.ended + arguments.queued
        print(f"{arguments.ended} ended and {arguments.queued} queued jobs, made by {n_calls} calls in {seconds:.0f} s")
        name = (queued or ended)[-1].name
        times = []
        for _ in range(arguments.starts):
            service.stop_server()
            times.append(measure_start(service, name))
    finally:
        service.end()
    sys.exit(1 if arguments.max_seconds is not None and min(times) > arguments.max_seconds else 0)


if __name__ == "__main__":
    main()
