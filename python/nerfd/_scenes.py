"""Flows of scenes: folders and photographs that are hashed and sent, checks and views."""
from __future__ import annotations

import dataclasses
import functools
import hashlib
import numbers
import os
import pathlib
import re
from typing import Any, Generator, List, Optional, Tuple

import numpy as np

from . import types
from ._proto.google.bytestream import bytestream_pb2, bytestream_pb2_grpc
from ._proto.nerf.v1 import (blob_service_pb2, blob_service_pb2_grpc, common_pb2, job_service_pb2,
                             job_service_pb2_grpc, scene_service_pb2, scene_service_pb2_grpc)
from ._steps import WORK_SECONDS, Flow, Local, Step, full_name, request_id
from .errors import SceneProblem

_MAX_FILES = 20_000  # more would exceed the limit of 4 MiB for messages
_BLOBS_PER_CALL = 5_000
_CHUNK_BYTES = 64 << 10
_CAMERAS = ("auto", "perspective", "equirectangular")  # as PoseSpec.Camera numbers them
_PHOTOGRAPH = re.compile(r"(images/)?[^/]+\.(jpe?g|png|hei[cf]|avif|webp)", re.I)
_FILM = re.compile(r"(images/)?[^/]+\.(mp4|mov|m4v|avi|mkv|webm|mts|3gp)", re.I)
_CAMERA_FILE = re.compile(r".*\.(json|npy|bin|xml|csv)|(.*/)?(cameras|images)\.txt", re.I)

BlobRef = common_pb2.BlobRef


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


@dataclasses.dataclass(frozen=True)
class PhotographOptions:
    """The keywords of Client.train that are of photographs without poses, in its words."""

    into: str = ""
    camera: str = "auto"
    mask_below: float = 0.0


def pose_request(options: PhotographOptions, project: str) -> Any:
    """The request without its photographs. Raises ValueError that names the wrong argument."""
    degrees = options.mask_below
    if options.camera not in _CAMERAS:
        raise ValueError(f"camera: must be one of {', '.join(_CAMERAS)}, not {options.camera!r}")
    if options.into and options.camera == "equirectangular":
        raise ValueError("into: photographs are added to a scene, not panoramas")
    if not isinstance(degrees, numbers.Real) or not 0 <= degrees <= 90:
        raise ValueError(f"mask_below: must be 0 to 90 degrees, not {degrees!r}")
    if degrees > 0 and (options.into or options.camera == "perspective"):
        raise ValueError("mask_below: is of panoramas alone")
    request = job_service_pb2.CreateJobRequest(parent=f"projects/{project}",
                                               request_id=request_id())
    request.job.pose.camera = _CAMERAS.index(options.camera)
    request.job.pose.mask_below_degrees = float(degrees)
    if options.into:
        request.job.pose.into = full_name("scene", options.into, project)
    return request


def masks_of(root: pathlib.Path, photographs: List[pathlib.Path]) -> List[pathlib.Path]:
    """Their masks in the folder's masks/, as the engine finds them."""
    found = set()
    for photo in photographs:
        names = [photo.name + ".png", photo.stem + ".png", photo.name + ".PNG",
                 photo.stem + ".PNG", photo.name, photo.stem + ".jpg"]
        found.update([mask for name in names if (mask := root / "masks" / name).is_file()][:1])
    return sorted(found)


def pose(root: pathlib.Path, photographs: List[pathlib.Path], request: Any, project: str) -> Flow:
    """Sends photographs, their masks and films and creates their pose job. Returns its message."""
    sent = [(path, path.name) for path in photographs]
    sent += [(path, f"masks/{path.name}") for path in masks_of(root, photographs)]
    files = yield Local(lambda: [hash_file(path, name) for path, name in sent])
    yield from _send(files, project)
    request.job.display_name = root.resolve().name[:64]
    request.job.pose.files.extend(file for _, file in files)
    return (yield Step(job_service_pb2_grpc.JobServiceStub, "CreateJob", request))


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
                camera.height / 2 if middle else camera.cy, camera.k1, camera.k2, camera.k3,
                camera.p1, camera.p2, camera.time))
        if not page.next_page_token:
            return views
        request.page_token = page.next_page_token
