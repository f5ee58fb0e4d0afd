"""Flows of jobs, models and renders, without input and output. nerfd.Client runs them with blocking
calls, nerfd.aio.Client with awaited ones; those of scenes are in _scenes."""
from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
from typing import Any, Callable, List, Mapping, Optional

from . import _pictures, _scenes, types
from ._proto.google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from ._proto.nerf.v1 import (job_service_pb2, job_service_pb2_grpc, model_service_pb2,
                             model_service_pb2_grpc, render_service_pb2, render_service_pb2_grpc,
                             training_job_pb2)
from ._steps import WORK_SECONDS, Flow, Local, Step, call, full_name, project_of, request_id
from .errors import Error, JobFailed, code_name, read_details

Job = job_service_pb2.Job


# Jobs.

@dataclasses.dataclass(frozen=True)
class TrainOptions:
    """The keywords of Client.train, in its words."""

    steps: Optional[int]
    samples: Optional[float]
    seconds: Optional[float]
    method: str
    seed: int
    background: str
    test_every: Optional[int]
    init: str
    settings: Optional[Mapping[str, Any]]
    job_id: str
    display_name: str
    priority: int
    photographs: _scenes.PhotographOptions


def set_numbers(message: Any, values: Mapping[str, Any]) -> None:
    """Sets fields, but none to None. Raises ValueError that names the wrong one: protobuf's own
    exceptions name neither the argument nor its limits."""
    for name, value in values.items():
        if value is None:
            continue
        try:
            setattr(message, name, value)
        except (TypeError, ValueError):
            raise ValueError(f"{name}: {value!r} is not a number that it may be") from None


def _config(options: TrainOptions, project: str) -> Any:
    budgets = {"steps": options.steps, "samples": options.samples, "seconds": options.seconds}
    given = {name: value for name, value in budgets.items() if value is not None}
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)}: name one budget")
    background = (options.background or "auto").upper()
    if background not in ("AUTO", "WHITE", "BLACK", "RANDOM"):
        raise ValueError("background: must be auto, white, black or random, not "
                         f"{options.background!r}")
    config = training_job_pb2.TrainingConfig(method=options.method, background=background)
    set_numbers(config, {"seed": options.seed, "test_every": options.test_every, **given})
    for key, value in (options.settings or {}).items():
        if isinstance(value, bool):
            value = int(value)
        config.settings[str(key)] = str(value)
    if options.init == "auto":
        config.init.model = "auto"
    elif options.init:
        config.init.model = full_name("model", options.init, project)
    return config


def train_request(options: TrainOptions, project: str) -> Any:
    """The request without its scene. Raises ValueError that names the wrong argument."""
    if options.job_id:
        full_name("job", options.job_id, project)
    request = job_service_pb2.CreateJobRequest(parent=f"projects/{project}", job_id=options.job_id,
                                               request_id=request_id())
    request.job.training.config.CopyFrom(_config(options, project))
    request.job.display_name = options.display_name
    if not -100 <= options.priority <= 100:
        raise ValueError(f"priority: must be -100 to 100, not {options.priority}")
    request.job.priority = options.priority
    return request


def train(source: Any, options: TrainOptions, project: str) -> Flow:
    """Uploads a folder (an uploaded scene is named as ("scene", NAME)) and creates the job, after
    a pose job if it has photographs alone."""
    request = train_request(options, project)
    poses = _scenes.pose_request(options.photographs, project)
    root = None if isinstance(source, tuple) else pathlib.Path(os.fspath(source))
    photographs = _scenes.unposed(root) if root else []
    if not photographs and options.photographs != _scenes.PhotographOptions():
        raise ValueError(f"into, camera, mask_below: {root or source[1]} does not hold photographs "
                         "without poses")
    if root is None:
        request.job.training.scene = source[1]
    else:
        trial = job_service_pb2.CreateJobRequest(validate_only=True)
        trial.MergeFrom(request)
        trial.request_id = ""
        # Before an upload that may take long: what the server refuses of the config.
        yield Step(job_service_pb2_grpc.JobServiceStub, "CreateJob", trial)
        if poses.job.pose.into:
            yield from call("Get", "scene", poses.job.pose.into)
        if photographs:
            made = yield from _scenes.pose(root, photographs, poses, project)
            request.job.training.pose_job = made.name
        else:
            request.job.training.scene = (yield from _scenes.upload(source, project, "", None)).name
    return (yield Step(job_service_pb2_grpc.JobServiceStub, "CreateJob", request))


def progress_of(job: Any, token: str = "") -> types.Progress:
    """Figures that jobs of its kind do not have are 0 or empty."""
    kind = job.WhichOneof("spec") or ""
    training, render = job.training_status, job.render_status
    moment, pose, export = training.progress, job.pose_status.progress, job.export_status.progress
    psnr = (training.final_psnr if training.HasField("final_psnr") else
            moment.psnr_preview if moment.HasField("psnr_preview") else None)
    fractions = {"training": moment.fraction,
                 "render": render.frames_done / max(render.frame_count, 1),
                 "pose": min(pose.done / pose.of, 1.0) if pose.of else 0.0,
                 "export": export.share}
    timed = pose if kind == "pose" else moment
    return types.Progress(
        job=job.name, kind=kind, state=Job.State.Name(job.state),
        fraction=fractions.get(kind, 0.0),
        doing={"pose": pose.doing, "export": export.step}.get(kind, ""), step=moment.step,
        samples=moment.samples, seconds=timed.seconds, eta_seconds=timed.eta_seconds or None,
        loss=moment.loss, psnr_train=moment.psnr_train, psnr=psnr, wait=job.wait.message,
        figures=dict(moment.figures), token=token)


def raise_if_failed(job: Any) -> None:
    """Raises JobFailed for a job that ended otherwise than as SUCCEEDED."""
    if job.state == Job.CANCELLED:
        raise JobFailed("CANCELLED", "", "the job was cancelled", job.name)
    if job.state == Job.FAILED:
        reason, _, _ = read_details(job.error)
        raise JobFailed(code_name(job.error.code), reason, job.error.message, job.name,
                        _scenes.problems_of(job))


class Watch:
    """Where a watch stands; both clients feed it the messages of one stream after another."""

    def __init__(self, name: str, token: str) -> None:
        self.name = name
        self.token = token
        self.job: Any = None

    def request(self) -> Any:
        return job_service_pb2.WatchJobRequest(name=self.name, resume_token=self.token)

    def take(self, message: Any) -> Optional[types.Progress]:
        """The moment in a message; None in one that only moves the token on."""
        self.token = message.resume_token
        if not message.job.name:
            return None
        self.job = message.job
        return progress_of(self.job, self.token)

    def is_over(self) -> bool:
        return self.job is not None and Job.State.Name(self.job.state) in types.FINAL_STATES

    def lets_resume(self, error: Error) -> bool:
        """Whether the stream is worth opening again after this error."""
        if error.reason == "EPOCH_MISMATCH" and self.token:
            self.token = ""  # a restored store: begin with the job as it is there
            return True
        return error.code == "UNAVAILABLE"


# Models.

def promote(job: str, model_id: str, display_name: str) -> Flow:
    """Makes a model of the job's newest checkpoint. Returns its message."""
    if model_id:
        full_name("model", model_id, project_of(job))
    request = model_service_pb2.PromoteCheckpointRequest(
        name=f"{job}/checkpoints/-", model_id=model_id, display_name=display_name,
        request_id=request_id())
    return (yield Step(model_service_pb2_grpc.ModelServiceStub, "PromoteCheckpoint", request))


def render(source: Mapping[str, Any], camera: Any, channel: str) -> Flow:
    """One channel of one view. `source` is a model, training_job or checkpoint by name."""
    request = render_service_pb2.RenderImageRequest(camera=camera, format=render_service_pb2.PNG,
                                                    channels=[_pictures.channel_of(channel)],
                                                    **source)
    reply = yield Step(render_service_pb2_grpc.RenderServiceStub, "RenderImage", request,
                       WORK_SECONDS, repeats=False)
    image = reply.images[0]
    content = image.content
    if image.HasField("blob"):
        parts: List[bytes] = []
        project = project_of(next(iter(source.values())))
        yield from read_blob(image.blob, project, parts.clear, parts.append)
        content = b"".join(parts)
    return (yield Local(lambda: _pictures.decode(content, channel, reply.far)))


def _blob_name(project: str, blob: Any) -> str:
    return f"projects/{project}/blobs/{blob.sha256}/{int(blob.size_bytes)}"


def read_blob(blob: Any, project: str, restart: Callable[[], Any],
              take: Callable[[bytes], Any]) -> Flow:
    """Hands the parts of a blob to `take`, and compares its digest. A broken download begins anew
    with `restart`."""
    digest = hashlib.sha256()

    def take_part(part: Any) -> None:
        digest.update(part.data)
        take(part.data)

    def begin() -> None:
        nonlocal digest
        digest = hashlib.sha256()
        restart()

    request = bytestream_pb2.ReadRequest(resource_name=_blob_name(project, blob))
    yield Step(bytestream_pb2_grpc.ByteStreamStub, "Read", request, WORK_SECONDS, take=take_part,
               begin=begin)
    if digest.hexdigest() != blob.sha256:
        raise Error("DATA_LOSS", "BLOB_DAMAGED", f"blob {blob.sha256}: other bytes arrived")


def save_blob(blob: Any, project: str, target: pathlib.Path) -> Flow:
    """Writes a blob to a file, whole or not at all."""
    scratch = target.with_name(f".{target.name}.{request_id()}")
    try:
        with open(scratch, "wb") as file:
            def restart() -> None:
                file.seek(0)
                file.truncate()
            yield from read_blob(blob, project, restart, file.write)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def download(model: str, path: Any) -> Flow:
    """Writes a model's file. Returns its path."""
    target = pathlib.Path(os.fspath(path))
    if target.is_dir():
        target = target / f"{model.rsplit('/', 1)[1]}.safetensors"
    message = yield from call("Get", "model", model)
    yield from save_blob(message.blob, project_of(model), target)
    return target
