#!/usr/bin/env python3
"""A whole client of nerfd: uploads a folder, trains it, watches, and renders (docs/use/api.md).

python3 train_and_render.py FOLDER [--server 127.0.0.1:50051] [--samples 1e6] [--out .]
"""
import argparse
import hashlib
import os
import pathlib
import sys
import time
import uuid
import grpc
from google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from google.rpc import error_details_pb2, status_pb2
from nerf.v1 import blob_service_pb2, blob_service_pb2_grpc, model_service_pb2
from nerf.v1 import model_service_pb2_grpc, render_service_pb2, render_service_pb2_grpc
from nerf.v1 import scene_service_pb2, scene_service_pb2_grpc, training_service_pb2_grpc
from nerf.v1 import training_service_pb2 as training

CHUNK = 64 << 10
JOB = training.TrainingJob
FINAL = (JOB.SUCCEEDED, JOB.FAILED, JOB.CANCELLED)


class Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,
             grpc.StreamUnaryClientInterceptor):
    """Shows a token with every call: $NERFCTL_TOKEN, else that of nerfd's own data folder."""

    def __init__(self):
        home = os.environ.get("XDG_DATA_HOME") or pathlib.Path.home() / ".local/share"
        path = pathlib.Path(home) / "nerfd/admin.token"
        token = os.environ.get("NERFCTL_TOKEN") or path.read_text().strip()
        self.metadata = (("authorization", f"Bearer {token}"),)

    def call(self, continuation, details, request):
        return continuation(details._replace(metadata=self.metadata), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_unary = call


def reason_of(error):
    """The machine-readable cause of a failed call, such as NO_WORKER."""
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return info.reason
    return ""


def blob_name(blob):
    return f"blobs/{blob.sha256}/{int(blob.size_bytes)}"  # a double on the wire: no "1024.0" here


def upload(channel, content, blob):
    resource = f"uploads/{uuid.uuid4()}/{blob_name(blob)}"
    chunks = (bytestream_pb2.WriteRequest(resource_name=resource, write_offset=offset,
                                          data=content[offset:offset + CHUNK],
                                          finish_write=offset + CHUNK >= len(content))
              for offset in range(0, max(len(content), 1), CHUNK))
    bytestream_pb2_grpc.ByteStreamStub(channel).Write(chunks, timeout=600)


def make_scene(channel, folder):
    contents = {}  # by digest; a large capture would be read from disk when it is sent
    files = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        content, name = path.read_bytes(), path.relative_to(folder).as_posix()
        digest = hashlib.sha256(content).hexdigest()
        contents[digest] = content
        blob = {"sha256": digest, "size_bytes": len(content)}
        files.append(scene_service_pb2.SceneFile(path=name, blob=blob))
    wanted = blob_service_pb2.FindMissingBlobsRequest(blobs=[file.blob for file in files])
    stub = blob_service_pb2_grpc.BlobServiceStub(channel)
    for blob in stub.FindMissingBlobs(wanted, timeout=30).missing:
        upload(channel, contents[blob.sha256], blob)
    request = scene_service_pb2.CreateSceneRequest(request_id=str(uuid.uuid4()))
    request.scene.files.extend(files)
    return scene_service_pb2_grpc.SceneServiceStub(channel).CreateScene(request, timeout=30)


def watch(jobs, name):
    """Follows a job to its end, over restarts of the server."""
    token = ""
    while True:
        try:
            for message in jobs.WatchTrainingJob(
                    training.WatchTrainingJobRequest(name=name, resume_token=token)):
                token = message.resume_token
                job = message.training_job  # empty with most bookmarks
                if job.name:
                    state = JOB.State.Name(job.state)
                    print(f"{state} {job.progress.fraction:.0%} {job.wait.message}")
                if job.state in FINAL:
                    return job
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
        time.sleep(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--server", default="127.0.0.1:50051")
    parser.add_argument("--samples", type=float, default=1e6)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."))
    flags = parser.parse_args()
    channel = grpc.intercept_channel(grpc.insecure_channel(flags.server), Bearer())
    jobs = training_service_pb2_grpc.TrainingServiceStub(channel)
    models = model_service_pb2_grpc.ModelServiceStub(channel)
    renders = render_service_pb2_grpc.RenderServiceStub(channel)
    request = training.CreateTrainingJobRequest(request_id=str(uuid.uuid4()))
    request.training_job.scene = make_scene(channel, flags.folder).name
    request.training_job.config.samples = flags.samples
    request.training_job.config.background = training.TrainingConfig.WHITE
    job = watch(jobs, jobs.CreateTrainingJob(request, timeout=30).name)
    if job.state != JOB.SUCCEEDED:
        sys.exit(f"{job.name}: {JOB.State.Name(job.state)} {job.error.message}")
    newest = model_service_pb2.PromoteCheckpointRequest(name=f"{job.name}/checkpoints/-")
    model = models.PromoteCheckpoint(newest, timeout=30)
    view = renders.RenderImage(render_service_pb2.RenderImageRequest(
        model=model.name, width=200, height=200, orbit={"index": 0, "count": 8}), timeout=600)
    (flags.out / "view.png").write_bytes(view.images[0].content)
    whole = bytestream_pb2.ReadRequest(resource_name=blob_name(model.blob))
    parts = bytestream_pb2_grpc.ByteStreamStub(channel).Read(whole, timeout=600)
    (flags.out / "model.safetensors").write_bytes(b"".join(part.data for part in parts))
    print(f"{model.name} PSNR {job.final_psnr:.2f} dB; wrote view.png and model.safetensors")


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as failure:
        sys.exit(f"{failure.code().name} {reason_of(failure)}: {failure.details()}")
