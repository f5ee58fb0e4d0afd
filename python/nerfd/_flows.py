"""What a client does, without input and output: generators that yield Steps and are sent their
results. nerfd.Client runs them with blocking calls, nerfd.aio.Client with awaited ones."""
from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import pathlib
import re
import uuid
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Tuple

import numpy as np

from . import _pictures, types
from ._proto.google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from ._proto.nerf.v1 import (blob_service_pb2, blob_service_pb2_grpc, common_pb2,
                             model_service_pb2, model_service_pb2_grpc, pose_job_service_pb2,
                             pose_job_service_pb2_grpc, render_service_pb2,
                             render_service_pb2_grpc, scene_service_pb2, scene_service_pb2_grpc,
                             training_service_pb2, training_service_pb2_grpc)
from .errors import Error, JobFailed, SceneProblem, code_name, read_details

_MAX_FILES = 20_000  # more would exceed the limit of 4 MiB for messages
_BLOBS_PER_CALL = 5_000
_CHUNK_BYTES = 64 << 10
CALL_SECONDS, WORK_SECONDS = 30.0, 600.0
_COLLECTIONS = {"scene": "scenes", "job": "trainingJobs", "model": "models"}
_CAMERAS = ("auto", "perspective", "equirectangular")  # as PoseJob.Camera numbers them
_PHOTOGRAPH = re.compile(r"(images/)?[^/]+\.(jpe?g|png|hei[cf]|avif|webp)", re.I)
_FILM = re.compile(r"(images/)?[^/]+\.(mp4|mov|m4v|avi|mkv|webm|mts|3gp)", re.I)
_CAMERA_FILE = re.compile(r".*\.(json|npy|bin|xml|csv)|(.*/)?(cameras|images)\.txt", re.I)
_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")

TrainingJob = training_service_pb2.TrainingJob
TrainingConfig = training_service_pb2.TrainingConfig
BlobRef = common_pb2.BlobRef


@dataclasses.dataclass(frozen=True)
class Step:
    """One call: `stub` of the service, its method, its request. Of a streamed request `chunks`
    makes the parts anew for each try; a streamed answer is given to `take`, part after part, with
    `begin` called before each try."""

    stub: Any
    method: str
    request: Any = None
    seconds: float = CALL_SECONDS
    chunks: Optional[Callable[[], Any]] = None
    take: Optional[Callable[[Any], None]] = None
    begin: Callable[[], Any] = lambda: None
    repeats: bool = True  # an unanswered call is sent again


@dataclasses.dataclass(frozen=True)
class Local:
    """Work of this process that takes a while, such as hashing."""

    work: Callable[[], Any]


Flow = Generator[Any, Any, Any]


def request_id() -> str:
    return str(uuid.uuid4())


def full_name(kind: str, name: str, project: str) -> str:
    """A resource's name from its id or name. Raises ValueError."""
    if not isinstance(name, str):
        raise TypeError(f"{kind}: must be an id or name, not {name!r}")
    collection = _COLLECTIONS[kind]
    if _ID.fullmatch(name):
        return f"projects/{project}/{collection}/{name}"
    parts = name.split("/")
    if len(parts) == 4 and parts[0] == "projects" and parts[2] == collection and (
            _ID.fullmatch(parts[1]) and _ID.fullmatch(parts[3])):
        return name
    raise ValueError(f"{kind}: {name!r} is neither an id (1 to 63 of a-z, 0-9 and -, from a letter)"
                     f" nor a name such as projects/default/{collection}/mic")


def _project_of(name: str) -> str:
    return name.split("/")[1]


def _blob_name(project: str, blob: Any) -> str:
    return f"projects/{project}/blobs/{blob.sha256}/{int(blob.size_bytes)}"


# Scenes.

def list_folder(folder: pathlib.Path) -> List[pathlib.Path]:
    """Its files, hidden ones left out. Raises OSError or ValueError that names the folder."""
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: no such folder")
    if not folder.is_dir():
        raise NotADirectoryError(f"{folder}: is a file; name the folder that holds the pictures")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and not any(
        part.startswith(".") for part in path.relative_to(folder).parts))
    if not files:
        raise ValueError(f"{folder}: holds no files")
    if len(files) > _MAX_FILES:
        raise ValueError(f"{folder}: {len(files)} files, more than the {_MAX_FILES} that a scene "
                         "may have")
    for path in files:
        name = path.relative_to(folder).as_posix()
        try:
            fits = len(name.encode("utf-8")) <= 512
        except UnicodeEncodeError:
            fits = False
        if not fits or re.search(r"[\x00-\x1f\x7f]", name):
            raise ValueError(f"{folder}: the name {name[:80]!r} is longer than 512 bytes, not "
                             "UTF-8 or holds control characters")
    return files


def hash_file(path: pathlib.Path, name: str) -> Tuple[pathlib.Path, Any]:
    """A file with its SceneFile message."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            size += len(block)
    blob = BlobRef(sha256=digest.hexdigest(), size_bytes=size)
    return path, scene_service_pb2.SceneFile(path=name, blob=blob)


def hash_folder(folder: pathlib.Path) -> List[Tuple[pathlib.Path, Any]]:
    """Each file with its SceneFile message."""
    return [hash_file(path, path.relative_to(folder).as_posix()) for path in list_folder(folder)]


def _write_chunks(path: pathlib.Path, blob: Any, project: str) -> Generator[Any, None, None]:
    name = f"projects/{project}/uploads/{request_id()}/blobs/{blob.sha256}/{int(blob.size_bytes)}"
    offset, size = 0, int(blob.size_bytes)
    with open(path, "rb") as file:
        while True:
            block = file.read(_CHUNK_BYTES)
            ends = offset + len(block) >= size or not block
            yield bytestream_pb2.WriteRequest(resource_name=name, write_offset=offset, data=block,
                                              finish_write=ends)
            offset += len(block)
            if ends:
                return


def _send(files: List[Tuple[pathlib.Path, Any]], project: str) -> Flow:
    """Sends what the server lacks of these files."""
    by_digest = {file.blob.sha256: (path, file.blob) for path, file in files}
    digests = sorted(by_digest)
    for begin in range(0, len(digests), _BLOBS_PER_CALL):
        wanted = blob_service_pb2.FindMissingBlobsRequest(parent=f"projects/{project}")
        wanted.blobs.extend(by_digest[each][1] for each in digests[begin:begin + _BLOBS_PER_CALL])
        found = yield Step(blob_service_pb2_grpc.BlobServiceStub, "FindMissingBlobs", wanted)
        for blob in found.missing:
            path, own = by_digest[blob.sha256]
            yield Step(bytestream_pb2_grpc.ByteStreamStub, "Write", seconds=WORK_SECONDS,
                       chunks=functools.partial(_write_chunks, path, own, project))


def upload(folder: Any, project: str, scene_id: str, display_name: Optional[str]) -> Flow:
    """Sends what the server lacks of a folder, then creates the scene. Returns its message."""
    root = pathlib.Path(os.fspath(folder))
    if scene_id:
        full_name("scene", scene_id, project)
    files = yield Local(lambda: hash_folder(root))
    yield from _send(files, project)
    request = scene_service_pb2.CreateSceneRequest(
        parent=f"projects/{project}", scene_id=scene_id, request_id=request_id())
    request.scene.display_name = root.resolve().name[:64] if display_name is None else display_name
    request.scene.files.extend(file for _, file in files)
    return (yield Step(scene_service_pb2_grpc.SceneServiceStub, "CreateScene", request))


def unposed(root: pathlib.Path) -> List[pathlib.Path]:
    """Photographs and films of a folder without a camera file; else none."""
    names = {path: path.relative_to(root).as_posix() for path in list_folder(root)}
    if any(_CAMERA_FILE.fullmatch(name) for name in names.values()):
        return []
    found = [path for path, name in names.items()
             if _PHOTOGRAPH.fullmatch(name) or _FILM.fullmatch(name)]
    # Of pictures both here and in images/ those here.
    return [path for path in found if path.parent == root] or found


def pose_request(options: TrainOptions, project: str) -> Any:
    """The request without its photographs. Raises ValueError that names the wrong argument."""
    if options.camera not in _CAMERAS:
        raise ValueError(f"camera: must be one of {', '.join(_CAMERAS)}, not {options.camera!r}")
    if options.into and options.camera == "equirectangular":
        raise ValueError("into: photographs are added to a scene, not panoramas")
    request = pose_job_service_pb2.CreatePoseJobRequest(parent=f"projects/{project}",
                                                        request_id=request_id())
    request.pose_job.camera = _CAMERAS.index(options.camera)
    if options.into:
        request.pose_job.into = full_name("scene", options.into, project)
    return request


def pose(root: pathlib.Path, photographs: List[pathlib.Path], request: Any, project: str) -> Flow:
    """Sends photographs and films and creates their pose job. Returns its message."""
    files = yield Local(lambda: [hash_file(path, path.name) for path in photographs])
    yield from _send(files, project)
    request.pose_job.display_name = root.resolve().name[:64]
    request.pose_job.files.extend(file for _, file in files)
    return (yield Step(pose_job_service_pb2_grpc.PoseJobServiceStub, "CreatePoseJob", request))


def check_scene(name: str) -> Flow:
    """Lets an engine read the scene. Returns a SceneReport."""
    request = scene_service_pb2.ValidateSceneRequest(name=name)
    found = yield Step(scene_service_pb2_grpc.SceneServiceStub, "ValidateScene", request,
                       WORK_SECONDS, repeats=False)
    return types.SceneReport(found.ok, found.summary, problems_of(found), list(found.warnings))


def problems_of(message: Any) -> List[SceneProblem]:
    return [SceneProblem(each.file, each.field, each.message) for each in message.problems]


def scene_views(name: str) -> Flow:
    """All views of a scene, test views first. Returns Views."""
    views: List[types.View] = []
    request = scene_service_pb2.DescribeSceneRequest(name=name, page_size=1000)
    while True:
        page = yield Step(scene_service_pb2_grpc.SceneServiceStub, "DescribeScene", request,
                          WORK_SECONDS, repeats=False)
        for view in page.views:
            camera = view.camera
            c2w = np.array(camera.transform_matrix, np.float64).reshape(4, 4)
            is_test = view.split == scene_service_pb2.SceneView.TEST
            middle = camera.cx == 0 and camera.cy == 0
            views.append(types.View(
                view.file, is_test, c2w, camera.width, camera.height, camera.fl_x,
                camera.fl_y or camera.fl_x, camera.width / 2 if middle else camera.cx,
                camera.height / 2 if middle else camera.cy))
        if not page.next_page_token:
            return views
        request.page_token = page.next_page_token


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
    into: str
    camera: str


def _config(options: TrainOptions, project: str) -> Any:
    budgets = {"steps": options.steps, "samples": options.samples, "seconds": options.seconds}
    given = {name: value for name, value in budgets.items() if value is not None}
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)}: name one budget")
    background = (options.background or "auto").upper()
    if background not in ("AUTO", "WHITE", "BLACK", "RANDOM"):
        raise ValueError("background: must be auto, white, black or random, not "
                         f"{options.background!r}")
    config = TrainingConfig(method=options.method, background=background)
    # protobuf's own exceptions name neither the argument nor its limits.
    for name, value in (("seed", options.seed), ("test_every", options.test_every),
                        *given.items()):
        if value is None:
            continue
        try:
            setattr(config, name, value)
        except (TypeError, ValueError):
            raise ValueError(f"{name}: {value!r} is not a number that it may be") from None
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
    request = training_service_pb2.CreateTrainingJobRequest(
        parent=f"projects/{project}", training_job_id=options.job_id, request_id=request_id())
    request.training_job.config.CopyFrom(_config(options, project))
    request.training_job.display_name = options.display_name
    if not -100 <= options.priority <= 100:
        raise ValueError(f"priority: must be -100 to 100, not {options.priority}")
    request.training_job.priority = options.priority
    return request


def train(source: Any, options: TrainOptions, project: str) -> Flow:
    """Uploads a folder (an uploaded scene is named as ("scene", NAME)) and creates the job, after
    a pose job if it has photographs alone."""
    request = train_request(options, project)
    poses = pose_request(options, project)
    root = None if isinstance(source, tuple) else pathlib.Path(os.fspath(source))
    photographs = unposed(root) if root else []
    if not photographs and (options.into or options.camera != "auto"):
        raise ValueError(f"into, camera: {root or source[1]} does not hold photographs without "
                         "poses")
    if root is None:
        request.training_job.scene = source[1]
    else:
        trial = training_service_pb2.CreateTrainingJobRequest(validate_only=True)
        trial.MergeFrom(request)
        trial.request_id = ""
        # Before an upload that may take long: what the server refuses of the config.
        yield Step(training_service_pb2_grpc.TrainingServiceStub, "CreateTrainingJob", trial)
        if options.into:
            yield from get_scene(poses.pose_job.into)
        if photographs:
            made = yield from pose(root, photographs, poses, project)
            request.training_job.pose_job = made.name
        else:
            request.training_job.scene = (yield from upload(source, project, "", None)).name
    return (yield Step(training_service_pb2_grpc.TrainingServiceStub, "CreateTrainingJob", request))


def job_call(method: str, name: str) -> Flow:
    """GetTrainingJob, PauseTrainingJob and the like: those with a name alone."""
    request = getattr(training_service_pb2, f"{method}Request")(name=name)
    return (yield Step(training_service_pb2_grpc.TrainingServiceStub, method, request))


def progress_of(job: Any, token: str = "") -> types.Progress:
    moment = job.progress
    psnr = (job.final_psnr if job.HasField("final_psnr") else
            moment.psnr_preview if moment.HasField("psnr_preview") else None)
    return types.Progress(
        job=job.name, state=TrainingJob.State.Name(job.state), fraction=moment.fraction,
        step=moment.step, samples=moment.samples, seconds=moment.seconds,
        eta_seconds=moment.eta_seconds or None, loss=moment.loss, psnr_train=moment.psnr_train,
        psnr=psnr, wait=job.wait.message, figures=dict(moment.figures), token=token)


def raise_if_failed(job: Any) -> None:
    """Raises JobFailed for a job that ended otherwise than as SUCCEEDED."""
    if job.state == TrainingJob.CANCELLED:
        raise JobFailed("CANCELLED", "", "the job was cancelled", job.name)
    if job.state == TrainingJob.FAILED:
        reason, _, _ = read_details(job.error)
        raise JobFailed(code_name(job.error.code), reason, job.error.message, job.name,
                        problems_of(job))


class Watch:
    """Where a watch stands; both clients feed it the messages of one stream after another."""

    def __init__(self, name: str, token: str) -> None:
        self.name = name
        self.token = token
        self.job: Any = None

    def request(self) -> Any:
        return training_service_pb2.WatchTrainingJobRequest(name=self.name,
                                                            resume_token=self.token)

    def take(self, message: Any) -> Optional[types.Progress]:
        """The moment in a message; None in one that only moves the token on."""
        self.token = message.resume_token
        if not message.training_job.name:
            return None
        self.job = message.training_job
        return progress_of(self.job, self.token)

    def is_over(self) -> bool:
        return self.job is not None and TrainingJob.State.Name(self.job.state) in types.FINAL_STATES

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
        full_name("model", model_id, _project_of(job))
    request = model_service_pb2.PromoteCheckpointRequest(
        name=f"{job}/checkpoints/-", model_id=model_id, display_name=display_name,
        request_id=request_id())
    return (yield Step(model_service_pb2_grpc.ModelServiceStub, "PromoteCheckpoint", request))


def get_model(name: str) -> Flow:
    request = model_service_pb2.GetModelRequest(name=name)
    return (yield Step(model_service_pb2_grpc.ModelServiceStub, "GetModel", request))


def get_scene(name: str) -> Flow:
    request = scene_service_pb2.GetSceneRequest(name=name)
    return (yield Step(scene_service_pb2_grpc.SceneServiceStub, "GetScene", request))


# Stub, messages, method's noun and field of each kind.
_LISTED = {
    "scene": (scene_service_pb2_grpc.SceneServiceStub, scene_service_pb2, "Scene", "scenes"),
    "job": (training_service_pb2_grpc.TrainingServiceStub, training_service_pb2, "TrainingJob",
            "training_jobs"),
    "model": (model_service_pb2_grpc.ModelServiceStub, model_service_pb2, "Model", "models"),
}


def delete(kind: str, name: str) -> Flow:
    stub, module, noun, _ = _LISTED[kind]
    yield Step(stub, f"Delete{noun}", getattr(module, f"Delete{noun}Request")(name=name))


def list_all(kind: str, project: str) -> Flow:
    """The messages of every page, newest first."""
    stub, module, noun, field = _LISTED[kind]
    found: List[Any] = []
    request = getattr(module, f"List{noun}sRequest")(parent=f"projects/{project}", page_size=1000)
    while True:
        page = yield Step(stub, f"List{noun}s", request)
        found.extend(getattr(page, field))
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token


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
        project = _project_of(next(iter(source.values())))
        yield from read_blob(image.blob, project, parts.clear, parts.append)
        content = b"".join(parts)
    return (yield Local(lambda: _pictures.decode(content, channel, reply.far)))


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


def download(model: str, path: Any) -> Flow:
    """Writes a model's file, whole or not at all. Returns its path."""
    target = pathlib.Path(os.fspath(path))
    if target.is_dir():
        target = target / f"{model.rsplit('/', 1)[1]}.safetensors"
    message = yield from get_model(model)
    scratch = target.with_name(f".{target.name}.{request_id()}")
    try:
        with open(scratch, "wb") as file:
            def restart() -> None:
                file.seek(0)
                file.truncate()
            yield from read_blob(message.blob, _project_of(model), restart, file.write)
        os.replace(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)
    return target
