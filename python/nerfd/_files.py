"""Flows of what jobs write and record: exports, films, curves and scores."""
from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
import os
import pathlib
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _pictures, types
from ._flows import save_blob, set_numbers
from ._proto.nerf.v1 import (common_pb2, export_job_pb2, job_service_pb2, job_service_pb2_grpc,
                             render_job_pb2, render_service_pb2)
from ._steps import Flow, Step, call, project_of, request_id
from .errors import Error, JobFailed

ExportSpec, RenderSpec = export_job_pb2.ExportSpec, render_job_pb2.RenderSpec
Crop = Union[Sequence[float], str, None]
Color = Union[Sequence[float], str, None]

_FORMATS = {".html": "viewer", ".ply": "ply", ".glb": "glb", ".vdb": "vdb", ".nvdb": "nvdb",
            ".spz": "spz", ".sog": "sog", ".zip": "views"}
_SPLATS = {".spz": "spz", ".sog": "sog", ".glb": "splats-glb"}  # files of format="splats"
_MOVIE_ENDINGS = (".mp4", ".webm")
_KEYFRAME_FOV = 50.0  # of a c2w, as nerfctl reads keyframes without one
_DEFAULT_FRAMES = 120
_COLORS = {"white": [1.0, 1.0, 1.0], "black": [0.0, 0.0, 0.0]}
_PANORAMA_ASPECTS = {"none": 2, "top-bottom": 1, "left-right": 4}  # width by height, of both eyes
_PANORAMA_HEIGHT = 1024  # of an eye, by default


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The keywords of Job.export and Model.export, in their words."""

    format: Optional[str]
    frame: str
    crop: Crop
    resolution: int
    triangles: int
    texture: int
    max_splats: int
    baked: bool
    keyframes: Optional[Sequence[Any]]
    frames: Optional[int]
    loop: bool


@dataclasses.dataclass(frozen=True)
class FilmOptions:
    """The keywords of Job.film and Model.film, in their words."""

    along: Optional[str]
    keyframes: Optional[Sequence[Any]]
    cameras: Optional[Sequence[Any]]
    frames: Optional[int]
    loop: bool
    width: Optional[int]
    height: Optional[int]
    fps: float
    channels: Union[str, Sequence[str]]
    format: str
    crop: Crop
    background: Color = None
    panorama: bool = False
    stereo: str = "none"
    eye_distance: float = 0.0


def _value(field: str, word: Any, enum: Any, start: str = "", only: Sequence[str] = ()) -> Any:
    """An enum's value by its word: SPLATS_GLB is splats-glb; without its `start` PATH_AUTO is auto.
    `only`: the words to take, if not all. Raises ValueError."""
    words = {name[len(start):].lower().replace("_", "-"): value for name, value in enum.items()
             if value != 0}
    known = list(only or words)
    if word not in known:
        raise ValueError(f"{field}: must be one of {', '.join(known)}, not {word!r}")
    return words[word]


def ignore(moment: types.Progress) -> None:
    """What export, film and fetch do with the moments of their job by default."""


def target_of(path: Any) -> pathlib.Path:
    """Where to write. Raises an OSError for a file of a folder that does not exist or may not be
    written to."""
    target = pathlib.Path(os.fspath(path))
    folder = target if target.is_dir() or os.fspath(path).endswith(os.sep) else target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder}: may not be written to")
    return target


def _set_crop(message: Any, box: str, crop: Crop) -> None:
    """Sets `whole`, or the field `box`, of an ExportSpec or ViewStyle."""
    if crop is None:
        return
    if isinstance(crop, str) and crop == "none":
        message.whole = True
        return
    try:
        numbers = [float(each) for each in crop]
    except (TypeError, ValueError):
        numbers = []
    if len(numbers) not in (6, 10):
        raise ValueError("crop: must be 6 numbers (center and sides), 10 with a turn (quaternion "
                         f"x, y, z, w), or 'none', not {crop!r}")
    getattr(message, box).CopyFrom(
        common_pb2.CropBox(center=numbers[:3], size=numbers[3:6], turn=numbers[6:]))


def _color(color: Color) -> List[float]:
    """Red, green and blue, 0 to 1; none for None. Raises ValueError."""
    if color is None:
        return []
    if isinstance(color, str):
        if color in _COLORS:
            return _COLORS[color]
        if re.fullmatch("#[0-9a-fA-F]{6}", color):
            return [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    else:
        try:
            numbers = [float(each) for each in color]
        except (TypeError, ValueError):
            numbers = []
        if len(numbers) == 3 and all(0 <= each <= 1 for each in numbers):
            return numbers
    raise ValueError("background: must be white, black, #rrggbb or 3 numbers from 0 to 1, not "
                     f"{color!r}")


def _set_style(style: Any, options: FilmOptions) -> None:
    color = _color(options.background)
    if color:
        style.background.extend(color)
    _set_crop(style, "crop", options.crop)
    if options.stereo not in _PANORAMA_ASPECTS:
        raise ValueError(f"stereo: must be one of {', '.join(_PANORAMA_ASPECTS)}, not "
                         f"{options.stereo!r}")
    has_eyes = options.stereo != "none"
    if not options.panorama:
        if has_eyes or options.eye_distance:
            raise ValueError("stereo, eye_distance: are of panorama=True")
        return
    if has_eyes != (options.eye_distance > 0):
        raise ValueError("eye_distance: must be above 0 with stereo, else 0")
    if has_eyes:
        style.panorama.stereo = _value("stereo", options.stereo,
                                       render_service_pb2.Panorama.Stereo)
    style.panorama.eye_distance = options.eye_distance
    style.panorama.SetInParent()


def _film_size(options: FilmOptions) -> Tuple[int, int]:
    """In pixels: of a panorama what is not given follows from its shape."""
    width, height = options.width, options.height
    if not options.panorama:
        return 640 if width is None else width, 480 if height is None else height
    aspect = _PANORAMA_ASPECTS[options.stereo]
    if height is None:
        eyes = 2 if options.stereo == "top-bottom" else 1
        height = _PANORAMA_HEIGHT * eyes if width is None else width // aspect
    return height * aspect if width is None else width, height


def _set_frames(path: Any, frames: Optional[int]) -> None:
    set_numbers(path, {"frames": _DEFAULT_FRAMES if frames is None else frames})


def _set_keyframes(path: Any, poses: Sequence[Any], frames: Optional[int], loop: bool) -> None:
    curve = path.keyframes
    for pose in poses:
        fov, c2w = _KEYFRAME_FOV, pose
        if isinstance(pose, types.View):
            fov, c2w = math.degrees(2 * math.atan(pose.height / 2 / pose.fl_y)), pose.c2w
        curve.keyframes.add(transform_matrix=_pictures.matrix(c2w).ravel().tolist(),
                            fov_degrees=fov)
    curve.loop = bool(loop)
    _set_frames(curve, frames)


def _request(source: str) -> Any:
    return job_service_pb2.CreateJobRequest(parent=f"projects/{project_of(source)}",
                                            request_id=request_id())


def _set_source(spec: Any, source: str) -> None:
    """Of a model or of a job's newest checkpoint, by name."""
    if source.split("/")[2] == "jobs":
        spec.checkpoint = f"{source}/checkpoints/-"
    else:
        spec.model = source


def export_request(source: str, path: Any, options: ExportOptions) -> Any:
    """The request of a job. Raises ValueError, TypeError or OSError that names what is wrong."""
    target = target_of(path)
    word = options.format
    if word is None:
        word = "" if target.is_dir() else _FORMATS.get(target.suffix, "")
        if not word:
            raise ValueError(f"format: is needed for {target}, which ends in none of "
                             f"{', '.join(_FORMATS)}")
    elif word == "splats" and not target.is_dir():
        word = _SPLATS.get(target.suffix, word)
    request = _request(source)
    spec = request.job.export
    _set_source(spec, source)
    spec.format = _value("format", word, ExportSpec.Format)
    spec.frame = _value("frame", options.frame, ExportSpec.Frame)
    spec.baked = bool(options.baked)
    set_numbers(spec, {name: getattr(options, name)
                       for name in ("resolution", "triangles", "texture", "max_splats")})
    _set_crop(spec, "box", options.crop)
    if options.keyframes is not None:
        _set_keyframes(spec.path, options.keyframes, options.frames, options.loop)
    elif options.frames is not None or options.loop:
        raise ValueError("frames, loop: are of keyframes")
    return request


def film_request(source: str, path: Any, options: FilmOptions) -> Any:
    """The request of a job. Raises ValueError, TypeError or OSError that names what is wrong."""
    target = target_of(path)
    channels = [options.channels] if isinstance(options.channels, str) else list(options.channels)
    given = [name for name in ("along", "keyframes", "cameras")
             if getattr(options, name) is not None]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)}: name one path")
    request = _request(source)
    spec = request.job.render
    _set_source(spec, source)
    _set_style(spec.style, options)
    width, height = _film_size(options)
    set_numbers(spec, {"width": width, "height": height, "fps": options.fps})
    spec.channels.extend(_value("channels", each, render_service_pb2.RenderChannel)
                         for each in channels)
    spec.format = _value("format", options.format, render_service_pb2.ImageFormat,
                         only=("png", "exr"))
    if "rgbaz" in channels and options.format != "exr":
        raise ValueError("channels: rgbaz needs format='exr'")
    spec.images = target.is_dir()
    spec.movie = not spec.images
    ending = ".webm" if channels[:1] == ["rgba"] else ".mp4"
    if spec.movie and target.suffix != ending:
        raise ValueError(f"path: {target} must end in {ending}, or be a folder for the frames")
    if options.loop and options.keyframes is None:
        raise ValueError("loop: is of keyframes")
    if options.cameras is not None:
        if options.frames is not None:
            raise ValueError("frames: cameras have one each")
        spec.path.cameras.cameras.extend(
            _pictures.camera(pose, width, height, None, None, None, None, None)
            for pose in options.cameras)
    elif options.keyframes is not None:
        _set_keyframes(spec.path, options.keyframes, options.frames, options.loop)
    else:
        spec.path.scene.path = _value("along", options.along or "auto",
                                      render_service_pb2.PathKind, "PATH_")
        _set_frames(spec.path.scene, options.frames)
    return request


def create(request: Any) -> Flow:
    """Creates the job. Returns its message."""
    return (yield Step(job_service_pb2_grpc.JobServiceStub, "CreateJob", request))


@contextlib.contextmanager
def names_job(name: str) -> Iterator[None]:
    """What ends a wait early names the job, which goes on."""
    try:
        yield
    except JobFailed:
        raise
    except Error as error:
        Error.__init__(error, error.code, error.reason, f"{name}: {error.message}",
                       error.violations, error.metadata)
        raise
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        error.args = (f"{name} goes on; its fetch(path) writes what it makes",)
        raise


def require_files(moment: types.Progress) -> None:
    """Raises ValueError for a job whose kind makes no files."""
    if moment.kind not in ("export", "render"):
        raise ValueError(f"{moment.job}: is a {moment.kind} job, not one of export or render")


def _files_of(job: Any) -> List[Tuple[str, Any]]:
    """Name and blob of each file, as nerfctl names them."""
    files = [(pathlib.PurePosixPath(each.name).name, each.blob)
             for each in job.export_status.result.files]
    spec, status = job.render, job.render_status
    if status.HasField("movie_blob"):
        is_webm = spec.channels[:1] == [render_service_pb2.RGBA]
        files.append((f"movie{_MOVIE_ENDINGS[is_webm]}", status.movie_blob))
    if spec.images:
        names = [render_service_pb2.RenderChannel.Name(each) for each in spec.channels] or ["RGB"]
        ending = "exr" if spec.format == render_service_pb2.EXR else "png"
        files += [(f"frame_{frame.index:05}_{name}.{ending}", blob)
                  for frame in status.frames for name, blob in zip(names, frame.images)]
    return files


def fetch(name: str, target: pathlib.Path) -> Flow:
    """Writes what an ended job has made. Returns the path of the file, of frames the folder's."""
    job = yield from call("Get", "job", name)  # watches leave out the frames
    files = _files_of(job)
    if target.is_dir():
        for own_name, blob in files:
            yield from save_blob(blob, project_of(name), target / own_name)
        return target / files[0][0] if job.WhichOneof("spec") == "export" else target
    if target.suffix in _MOVIE_ENDINGS:
        files = [each for each in files if each[0].endswith(_MOVIE_ENDINGS)]
    if len(files) != 1:
        raise ValueError(f"path: {target} is no folder, and {name} has made {len(files)} files "
                         "for it")
    yield from save_blob(files[0][1], project_of(name), target)
    return target


def _metrics(name: str) -> Flow:
    return (yield Step(job_service_pb2_grpc.JobServiceStub, "ListJobMetrics",
                       job_service_pb2.ListJobMetricsRequest(name=name)))


def curve(name: str) -> Flow:
    """The points of a training's curve, by step."""
    found = yield from _metrics(name)
    return [{
        "step": each.step, "seconds": each.seconds, "loss": each.loss,
        "psnr_train": each.psnr_train, "rays_per_second": each.rays_per_second,
        "samples_per_second": each.samples_per_second,
        "psnr_preview": each.psnr_preview if each.HasField("psnr_preview") else None,
    } for each in found.points]


def scores(name: str) -> Flow:
    """PSNR of each test view by its file."""
    found = yield from _metrics(name)
    result: Dict[str, float] = {each.file: each.psnr for each in found.test_views}
    return result
