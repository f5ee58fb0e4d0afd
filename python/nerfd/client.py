"""The blocking client."""
from __future__ import annotations

import time
from typing import (Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Type,
                    Union)
import os
import pathlib

import grpc
import numpy as np

from . import _files, _flows, _pictures, _scenes, _steps, access
from ._files import Color, Crop, ignore
from ._proto.nerf.v1 import job_service_pb2_grpc
from ._shared import ClientBase, Resource, may_repeat, name_of, pauses, source_of
from .errors import Error, from_rpc
from .types import Progress, SceneReport, View

Folder = Union[str, "os.PathLike[str]"]


class Client(ClientBase):
    """A connection to a nerfd. Thread-safe; close it, or use it in a `with`.

    server: HOST:PORT or unix:PATH; else $NERFCTL_SERVER, the server of `nerfctl login`, or this
        machine's (127.0.0.1:50051).
    token: else $NERFCTL_TOKEN, that of `nerfctl login`, or that of this user's nerfd.
    project: the project that short ids belong to; else the context's, or `default`.
    ca: use TLS and trust this CA, a file in PEM or 'system'; tls_cert, tls_key: what to show to a
        server that wants a certificate. insecure: send the token to another machine without TLS.
    patience: seconds for which an unanswered call is repeated.

    Raises AccessDenied (TOKEN_MISSING) where it finds no token, ValueError for a wrong address.
    Every method may raise an Error with the server's reason; no call is made before the first.
    """

    def __init__(self, server: Optional[str] = None, *, token: Optional[str] = None,
                 project: Optional[str] = None, ca: Optional[str] = None,
                 tls_cert: Optional[str] = None, tls_key: Optional[str] = None,
                 insecure: bool = False, patience: float = 4.0) -> None:
        super().__init__(server, token, project, ca, tls_cert, tls_key, insecure, patience)
        if self._access.credentials is None:
            self._channel = grpc.insecure_channel(self.server, access.CHANNEL_OPTIONS)
        else:
            self._channel = grpc.secure_channel(self.server, self._access.credentials,
                                                access.CHANNEL_OPTIONS)
        self._stubs: Dict[Type[Any], Any] = {}

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection, and what still runs over it."""
        self._channel.close()

    def stub(self, kind: Type[Any]) -> Any:
        """A stub of `nerfd._proto` over this connection, for calls that have no method here. Such
        a call needs `metadata=client.metadata`."""
        return self._stubs.setdefault(kind, kind(self._channel))

    @property
    def metadata(self) -> Any:
        """What shows the token with a call of `stub`."""
        return self._metadata

    def _run(self, flow: _steps.Flow) -> Any:
        result: Any = None
        failure: Optional[Exception] = None
        while True:
            try:
                step = flow.send(result) if failure is None else flow.throw(failure)
            except StopIteration as end:
                return end.value
            result, failure = None, None
            try:
                result = step.work() if isinstance(step, _steps.Local) else self._call(step)
            except Exception as error:
                failure = error

    def _call(self, step: _steps.Step) -> Any:
        end = time.monotonic() + self._patience
        for pause in pauses():
            try:
                return self._try(step)
            except grpc.RpcError as error:
                failure = from_rpc(error, self.server)
            if not may_repeat(failure, step) or time.monotonic() + pause > end:
                raise failure
            time.sleep(pause)

    def _try(self, step: _steps.Step) -> Any:
        step.begin()
        request = step.request if step.chunks is None else step.chunks()
        answer = getattr(self.stub(step.stub), step.method)(
            request, timeout=step.seconds, metadata=self._metadata)
        if step.take is None:
            return answer
        for part in answer:
            step.take(part)
        return None

    def upload(self, folder: Folder, *, id: str = "",
               display_name: Optional[str] = None) -> "Scene":
        """Makes a scene of a folder's files, hidden ones left out; files that the server has are
        not sent again. Raises OSError for a folder that cannot be read, ValueError for one that
        holds no files or names that a scene may not have."""
        return Scene(self, self._run(_scenes.upload(folder, self.project, id, display_name)).name)

    def train(self, source: Union[Folder, "Scene"], *, steps: Optional[int] = None,
              samples: Optional[float] = None, seconds: Optional[float] = None, method: str = "",
              seed: int = 1, background: str = "auto", test_every: Optional[int] = None,
              init: Union["Model", str, None] = None,
              settings: Optional[Mapping[str, Any]] = None, id: str = "", display_name: str = "",
              priority: int = 0, into: Union["Scene", str, None] = None,
              camera: str = "auto", mask_below: float = 0.0) -> "Job":
        """Queues a training of a folder, which is uploaded, or of a scene. Photographs and films
        without a camera file get their poses first, by a worker that has COLMAP: the training's
        `wait` says how far.

        steps, samples, seconds: the budget, one of them or none (the method's default).
        background: of pictures with alpha: auto, white, black or random.
        init: a model, or 'auto', whose parameters it starts from.
        settings: as `nerfctl train --set KEY=VALUE` (docs/use/settings.md).
        into: a scene that photographs without poses are added to, as a new scene of its frame.
        camera: what those were taken with: auto, perspective or equirectangular (panoramas).
        mask_below: of panoramas, masks what lies more than so many degrees under the horizon,
            tripod and photographer; 0 to 90, 0: nothing.
        Raises ValueError or OSError for wrong arguments, InvalidArgument for what the server
        refuses; then nothing is uploaded.
        """
        photographs = _scenes.PhotographOptions(name_of(into), camera, mask_below)
        options = _flows.TrainOptions(steps, samples, seconds, method, seed, background, test_every,
                                      name_of(init), settings, id, display_name, priority,
                                      photographs)
        return Job(self, self._run(_flows.train(source_of(source), options, self.project)).name)

    def scene(self, name: str) -> "Scene":
        """A scene by its id or name. Raises NotFound."""
        return Scene(self, self._run(_steps.get("scene", name, self.project)).name)

    def job(self, name: str) -> "Job":
        """A job by its id or name. Raises NotFound."""
        return Job(self, self._run(_steps.get("job", name, self.project)).name)

    def model(self, name: str) -> "Model":
        """A model by its id or name. Raises NotFound."""
        return Model(self, self._run(_steps.get("model", name, self.project)).name)

    def scenes(self) -> List["Scene"]:
        """The project's scenes, newest first."""
        found = self._run(_steps.list_all("scene", self.project))
        return [Scene(self, each.name) for each in found]

    def jobs(self, filter: str = "") -> List["Job"]:
        """The project's jobs, newest first: all, or those of a filter such as `kind = training AND
        state = RUNNING`."""
        # `filter` hides the builtin in here: it is the API's word, and nerfctl's --filter.
        found = self._run(_steps.list_all("job", self.project, filter=filter))
        return [Job(self, each.name) for each in found]

    def models(self) -> List["Model"]:
        """The project's models, newest first."""
        found = self._run(_steps.list_all("model", self.project))
        return [Model(self, each.name) for each in found]


class Scene(Resource):
    """A set of photographs with camera poses on the server."""

    _client: Client

    def check(self) -> SceneReport:
        """Lets a worker's engine read all of it: every problem, and what it holds."""
        report: SceneReport = self._client._run(_scenes.check_scene(self.name))
        return report

    def views(self) -> List[View]:
        """Its photographs with their cameras, test views first. Raises WrongState
        (DATASET_INVALID) for a scene with problems."""
        views: List[View] = self._client._run(_scenes.scene_views(self.name))
        return views

    def delete(self) -> None:
        """Deletes it. Raises WrongState while an unfinished job uses it."""
        self._client._run(_steps.call("Delete", "scene", self.name))


class _Rendered(Resource):
    _client: Client
    _source: str

    def render(self, c2w: Any, width: Optional[int] = None, height: Optional[int] = None,
               *, fov: Optional[float] = None, fl_x: Optional[float] = None,
               fl_y: Optional[float] = None,
               cx: Optional[float] = None, cy: Optional[float] = None,
               channel: str = "rgb") -> np.ndarray:
        """Renders one view: of a View through its photograph's lens, else through a pinhole.

        c2w: a View, or camera to world, [4, 4] or [3, 4], in the data set's own frame; OpenGL's
            axes (+X right, +Y up, looks along -Z).
        width, height: in pixels; of a View by default its photograph's, or in proportion to the
            one that is given. A View takes none of the following but channel.
        fov: horizontal field of view in degrees, default 50, unless fl_x has the focal length in
            pixels.
        fl_y: default fl_x. cx, cy: principal point in pixels, default the middle.
        channel: rgb: uint8 [height, width, 3]; depth: float32 [height, width], expected distance
            along the ray in scene units; opacity: float32 [height, width], 0 to 1.
        Raises ValueError or TypeError for wrong arguments.
        """
        camera = _pictures.camera(c2w, width, height, fov, fl_x, fl_y, cx, cy)
        picture: np.ndarray = self._client._run(
            _flows.render({self._source: self.name}, camera, channel))
        return picture

    def export(self, path: Folder, format: Optional[str] = None, *, frame: str = "dataset",
               crop: Crop = None, resolution: int = 0, triangles: int = 0, texture: int = 0,
               max_splats: int = 0, baked: bool = False,
               keyframes: Optional[Sequence[Any]] = None, frames: Optional[int] = None,
               loop: bool = False, watch: Callable[[Progress], Any] = ignore,
               patience: float = 300.0) -> pathlib.Path:
        """Has a worker make a file for other programs, and writes it: docs/use/exports.md.

        path: the file, or a folder for it.
        format: viewer, ply, glb, points, splats, spz, sog, splats-glb, vdb, nvdb, cameras,
            nerfstudio-path, ngp-path or views; not needed for files that end in .html (viewer),
            .ply (a mesh), .glb, .vdb, .nvdb, .spz, .sog or .zip (views). The ending says which
            file of splats.
        frame: the axes: dataset, blender, unity, unreal or opencv.
        crop: the box to export, in the data set's frame and unit: 6 numbers (center x, y, z and
            sides), 10 with its turn (quaternion x, y, z, w); 'none': without the kept box.
        resolution: cells along the box's longest side, 0: 256.
        triangles: about how many a mesh has, 0: 200000. max_splats: at most, 0: 200000.
        texture: texels along a side of a GLB's texture, 0: vertices have colors.
        baked: a viewer holds a baked model, too, which phones draw.
        keyframes: Views or c2w, [4, 4] or [3, 4], that a path or the views of `views` pass
            through; a c2w sees 50 degrees from top to bottom. frames: on that curve, default 120.
            loop: back to the first.
        watch: is called with each moment of the export job. patience: as of Job.watch.
        Returns the file's path. Raises ValueError, TypeError or OSError for wrong arguments before
        anything is sent, InvalidArgument for what the server refuses, NotFound for a training
        without a checkpoint, JobFailed for an export that fails. An interrupt (KeyboardInterrupt,
        CancelledError) leaves the export job running and names it; Job.fetch writes its file.
        """
        options = _files.ExportOptions(format, frame, crop, resolution, triangles, texture,
                                       max_splats, baked, keyframes, frames, loop)
        request = _files.export_request(self.name, path, options)
        job = Job(self._client, self._client._run(_files.create(request)).name)
        return job.fetch(path, watch=watch, patience=patience)

    def film(self, path: Folder, *, along: Optional[str] = None,
             keyframes: Optional[Sequence[Any]] = None, cameras: Optional[Sequence[Any]] = None,
             frames: Optional[int] = None, loop: bool = False, width: Optional[int] = None,
             height: Optional[int] = None, fps: float = 30.0,
             channels: Union[str, Sequence[str]] = "rgb", format: str = "png", crop: Crop = None,
             background: Color = None, panorama: bool = False, stereo: str = "none",
             eye_distance: float = 0.0, watch: Callable[[Progress], Any] = ignore,
             patience: float = 300.0) -> pathlib.Path:
        """Has workers render a path, and writes the movie, or its frames into a folder.

        path: a file that ends in .mp4 (.webm where rgba is the first channel), or an existing
            folder, which gets frame_00000_RGB.png and so on.
        along: a path through the scene: auto (the default), orbit, spiral, flyby or cameras.
        keyframes: Views or c2w, [4, 4] or [3, 4], that the path passes through, in its place; a c2w
            sees 50 degrees from top to bottom. loop: back to the first.
        cameras: in place of both, Views or c2w, one a frame; a c2w sees 50 degrees across.
        frames: their number, of cameras none; default 120. width, height: in pixels, default 640
            and 480, of a panorama 2048 x 1024 for each eye.
        fps: frames a second of the movie.
        channels: rgb, rgba, depth or opacity, or several; a movie shows the first. rgbaz: rgba and
            depth in one exr.
        format: of frames, png or exr.
        crop: shows only what is in this box, as of export.
        background: white, black, #rrggbb or 3 numbers from 0 to 1 (sRGB), also in place of one that
            the model has learned.
        panorama: pictures of all directions (equirectangular), twice as wide as high; stereo: of
            two eyes, top-bottom or left-right, eye_distance apart in the data set's unit.
        watch: is called with each moment of the render job. patience: as of Job.watch.
        Returns the path. Raises as export; Error (FEATURE_NOT_BUILT) where no worker has ffmpeg
        for a movie.
        """
        options = _files.FilmOptions(along, keyframes, cameras, frames, loop, width, height, fps,
                                     channels, format, crop, background, panorama, stereo,
                                     eye_distance)
        request = _files.film_request(self.name, path, options)
        job = Job(self._client, self._client._run(_files.create(request)).name)
        return job.fetch(path, watch=watch, patience=patience)


class Job(_Rendered):
    """A job of any kind. A training renders its current weights, or its newest checkpoint; what
    its kind cannot do raises WrongState (KIND_CANNOT)."""

    _source = "training_job"

    def progress(self) -> Progress:
        """Where it stands now."""
        return _flows.progress_of(self._client._run(_steps.call("Get", "job", self.name)))

    def watch(self, token: str = "", *, patience: float = 300.0) -> Iterator[Progress]:
        """Follows it to its end; the last moment is final (`is_final`).

        A broken stream goes on behind the last moment, for up to `patience` seconds without a
        server. token: that of a moment seen before, also by another process.
        Raises JobFailed after the last moment of a job that failed or was cancelled.
        """
        client, state = self._client, _flows.Watch(self.name, token)
        stub = client.stub(job_service_pb2_grpc.JobServiceStub)
        waits, deadline = pauses(), time.monotonic() + patience
        while not state.is_over():
            stream = stub.WatchJob(state.request(), metadata=client.metadata)
            try:
                for message in stream:
                    waits, deadline = pauses(), time.monotonic() + patience
                    moment = state.take(message)
                    if moment is not None:
                        yield moment
            except grpc.RpcError as error:
                failure: Error = from_rpc(error, client.server)
                pause = next(waits)
                if not state.lets_resume(failure) or time.monotonic() + pause > deadline:
                    raise failure from None
                time.sleep(pause)
            else:
                time.sleep(0 if state.is_over() else next(waits))
            finally:
                stream.cancel()
        _flows.raise_if_failed(state.job)

    def wait(self, *, patience: float = 300.0) -> Progress:
        """Waits for its end and returns the last moment. Raises as watch."""
        last = self.progress()
        for last in self.watch(patience=patience):
            pass
        return last

    def fetch(self, path: Folder, *, watch: Callable[[Progress], Any] = ignore,
              patience: float = 300.0) -> pathlib.Path:
        """Waits for the end of an export or render job and writes what it has made.

        path: a file; or a folder, which gets the export, or all frames and the movie. Each file is
            written whole, with its digest compared, or not at all.
        watch: is called with each moment. patience: as of watch.
        Returns the file's path, of frames the folder's. Raises ValueError for jobs of other kinds,
        OSError where it may not write, and as watch. An interrupt leaves the job running and names
        it.
        """
        target = _files.target_of(path)
        with _files.names_job(self.name):
            _files.require_files(self.progress())
            for moment in self.watch(patience=patience):
                watch(moment)
            written: pathlib.Path = self._client._run(_files.fetch(self.name, target))
        return written

    def curve(self) -> List[Dict[str, Any]]:
        """A training's curve so far, by step, at most 2000 points, for pandas.DataFrame: dicts of
        `step`, `seconds` (of training), `loss`, `psnr_train` (dB of the training rays),
        `rays_per_second`, `samples_per_second` and `psnr_preview` (dB; None without a new one)."""
        points: List[Dict[str, Any]] = self._client._run(_files.curve(self.name))
        return points

    def scores(self) -> Dict[str, float]:
        """PSNR in dB of each test view by its file; empty before SUCCEEDED and without test
        views."""
        scores: Dict[str, float] = self._client._run(_files.scores(self.name))
        return scores

    def promote(self, *, id: str = "", display_name: str = "") -> "Model":
        """Makes a model of its newest checkpoint. Raises WrongState without any."""
        return Model(self._client,
                     self._client._run(_flows.promote(self.name, id, display_name)).name)

    def pause(self) -> None:
        """Pauses a training; its worker writes a checkpoint first."""
        self._client._run(_steps.call("Pause", "job", self.name))

    def resume(self) -> None:
        """Queues it again after a pause."""
        self._client._run(_steps.call("Resume", "job", self.name))

    def cancel(self) -> None:
        """Cancels it. Raises WrongState when it has succeeded or failed."""
        self._client._run(_steps.call("Cancel", "job", self.name))

    def delete(self) -> None:
        """Deletes it with what it has made, but not models and scenes; it must have ended."""
        self._client._run(_steps.call("Delete", "job", self.name))


class Model(_Rendered):
    """A trained field, ready to render."""

    _source = "model"

    def download(self, path: Folder) -> pathlib.Path:
        """Writes its file (safetensors, docs/use/files.md) to a path or into a folder; whole, with
        its digest compared, or not at all. Returns the path."""
        written: pathlib.Path = self._client._run(_flows.download(self.name, path))
        return written

    def delete(self) -> None:
        """Deletes it, and its shares."""
        self._client._run(_steps.call("Delete", "model", self.name))
