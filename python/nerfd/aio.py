"""The asynchronous twin: nerfd.aio.Client has the methods of nerfd.Client, awaited.

    async with nerfd.aio.Client() as client:
        job = await client.train("examples/mic", samples=1e6)
        async for moment in job.watch():
            print(moment.state, moment.fraction)
"""
from __future__ import annotations

import asyncio
import os
import pathlib
import time
from typing import (Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence, Type,
                    Union)

import grpc
import grpc.aio
import numpy as np

from . import _files, _flows, _pictures, _scenes, _steps, access
from ._files import Color, Crop, ignore
from ._proto.nerf.v1 import job_service_pb2_grpc
from ._shared import ClientBase, Resource, may_repeat, name_of, pauses, source_of
from .errors import Error, from_rpc
from .types import Progress, SceneReport, View

Folder = Union[str, "os.PathLike[str]"]


class Client(ClientBase):
    """As nerfd.Client, for one event loop."""

    def __init__(self, server: Optional[str] = None, *, token: Optional[str] = None,
                 project: Optional[str] = None, ca: Optional[str] = None,
                 tls_cert: Optional[str] = None, tls_key: Optional[str] = None,
                 insecure: bool = False, patience: float = 4.0) -> None:
        super().__init__(server, token, project, ca, tls_cert, tls_key, insecure, patience)
        if self._access.credentials is None:
            self._channel = grpc.aio.insecure_channel(self.server, access.CHANNEL_OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(self.server, self._access.credentials,
                                                    access.CHANNEL_OPTIONS)
        self._stubs: Dict[Type[Any], Any] = {}

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *unused: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection, and what still runs over it."""
        await self._channel.close()

    def stub(self, kind: Type[Any]) -> Any:
        """As nerfd.Client.stub; its calls are awaited."""
        return self._stubs.setdefault(kind, kind(self._channel))

    @property
    def metadata(self) -> Any:
        """What shows the token with a call of `stub`."""
        return self._metadata

    async def _run(self, flow: _steps.Flow) -> Any:
        result: Any = None
        failure: Optional[BaseException] = None
        while True:
            try:
                step = flow.send(result) if failure is None else flow.throw(failure)
            except StopIteration as end:
                return end.value
            result, failure = None, None
            try:
                if isinstance(step, _steps.Local):
                    result = await asyncio.to_thread(step.work)
                else:
                    result = await self._call(step)
            except (Exception, asyncio.CancelledError) as error:
                failure = error

    async def _call(self, step: _steps.Step) -> Any:
        end = time.monotonic() + self._patience
        for pause in pauses():
            try:
                return await self._try(step)
            except grpc.RpcError as error:
                failure = from_rpc(error, self.server)
            if not may_repeat(failure, step) or time.monotonic() + pause > end:
                raise failure
            await asyncio.sleep(pause)

    async def _try(self, step: _steps.Step) -> Any:
        step.begin()
        request = step.request if step.chunks is None else step.chunks()
        answer = getattr(self.stub(step.stub), step.method)(
            request, timeout=step.seconds, metadata=self._metadata)
        if step.take is None:
            return await answer
        async for part in answer:
            step.take(part)
        return None

    async def upload(self, folder: Folder, *, id: str = "",
                     display_name: Optional[str] = None) -> "Scene":
        """As nerfd.Client.upload."""
        made = await self._run(_scenes.upload(folder, self.project, id, display_name))
        return Scene(self, made.name)

    async def train(self, source: Union[Folder, "Scene"], *, steps: Optional[int] = None,
                    samples: Optional[float] = None, seconds: Optional[float] = None,
                    method: str = "", seed: int = 1, background: str = "auto",
                    test_every: Optional[int] = None, init: Union["Model", str, None] = None,
                    settings: Optional[Mapping[str, Any]] = None, id: str = "",
                    display_name: str = "", priority: int = 0,
                    into: Union["Scene", str, None] = None, camera: str = "auto",
                    mask_below: float = 0.0) -> "Job":
        """As nerfd.Client.train."""
        photographs = _scenes.PhotographOptions(name_of(into), camera, mask_below)
        options = _flows.TrainOptions(steps, samples, seconds, method, seed, background, test_every,
                                      name_of(init), settings, id, display_name, priority,
                                      photographs)
        made = await self._run(_flows.train(source_of(source), options, self.project))
        return Job(self, made.name)

    async def scene(self, name: str) -> "Scene":
        """As nerfd.Client.scene."""
        return Scene(self, (await self._run(_steps.get("scene", name, self.project))).name)

    async def job(self, name: str) -> "Job":
        """As nerfd.Client.job."""
        return Job(self, (await self._run(_steps.get("job", name, self.project))).name)

    async def model(self, name: str) -> "Model":
        """As nerfd.Client.model."""
        return Model(self, (await self._run(_steps.get("model", name, self.project))).name)

    async def scenes(self) -> List["Scene"]:
        """As nerfd.Client.scenes."""
        found = await self._run(_steps.list_all("scene", self.project))
        return [Scene(self, each.name) for each in found]

    async def jobs(self, filter: str = "") -> List["Job"]:
        """As nerfd.Client.jobs."""
        found = await self._run(_steps.list_all("job", self.project, filter=filter))
        return [Job(self, each.name) for each in found]

    async def models(self) -> List["Model"]:
        """As nerfd.Client.models."""
        found = await self._run(_steps.list_all("model", self.project))
        return [Model(self, each.name) for each in found]


class Scene(Resource):
    """As nerfd.Scene."""

    _client: Client

    async def check(self) -> SceneReport:
        """As nerfd.Scene.check."""
        report: SceneReport = await self._client._run(_scenes.check_scene(self.name))
        return report

    async def views(self) -> List[View]:
        """As nerfd.Scene.views."""
        views: List[View] = await self._client._run(_scenes.scene_views(self.name))
        return views

    async def delete(self) -> None:
        """As nerfd.Scene.delete."""
        await self._client._run(_steps.call("Delete", "scene", self.name))


class _Rendered(Resource):
    _client: Client
    _source: str

    async def render(self, c2w: Any, width: Optional[int] = None, height: Optional[int] = None,
                     *, fov: Optional[float] = None, fl_x: Optional[float] = None,
                     fl_y: Optional[float] = None,
                     cx: Optional[float] = None, cy: Optional[float] = None,
                     channel: str = "rgb") -> np.ndarray:
        """As nerfd.Model.render."""
        camera = _pictures.camera(c2w, width, height, fov, fl_x, fl_y, cx, cy)
        picture: np.ndarray = await self._client._run(
            _flows.render({self._source: self.name}, camera, channel))
        return picture

    async def export(self, path: Folder, format: Optional[str] = None, *, frame: str = "dataset",
                     crop: Crop = None, resolution: int = 0, triangles: int = 0, texture: int = 0,
                     max_splats: int = 0, baked: bool = False,
                     keyframes: Optional[Sequence[Any]] = None, frames: Optional[int] = None,
                     loop: bool = False, watch: Callable[[Progress], Any] = ignore,
                     patience: float = 300.0) -> pathlib.Path:
        """As nerfd.Model.export."""
        options = _files.ExportOptions(format, frame, crop, resolution, triangles, texture,
                                       max_splats, baked, keyframes, frames, loop)
        request = _files.export_request(self.name, path, options)
        job = Job(self._client, (await self._client._run(_files.create(request))).name)
        return await job.fetch(path, watch=watch, patience=patience)

    async def film(self, path: Folder, *, along: Optional[str] = None,
                   keyframes: Optional[Sequence[Any]] = None,
                   cameras: Optional[Sequence[Any]] = None, frames: Optional[int] = None,
                   loop: bool = False, width: Optional[int] = None,
                   height: Optional[int] = None, fps: float = 30.0,
                   channels: Union[str, Sequence[str]] = "rgb", format: str = "png",
                   crop: Crop = None, background: Color = None, panorama: bool = False,
                   stereo: str = "none", eye_distance: float = 0.0,
                   watch: Callable[[Progress], Any] = ignore,
                   patience: float = 300.0) -> pathlib.Path:
        """As nerfd.Model.film."""
        options = _files.FilmOptions(along, keyframes, cameras, frames, loop, width, height, fps,
                                     channels, format, crop, background, panorama, stereo,
                                     eye_distance)
        request = _files.film_request(self.name, path, options)
        job = Job(self._client, (await self._client._run(_files.create(request))).name)
        return await job.fetch(path, watch=watch, patience=patience)


class Job(_Rendered):
    """As nerfd.Job."""

    _source = "training_job"

    async def progress(self) -> Progress:
        """As nerfd.Job.progress."""
        return _flows.progress_of(await self._client._run(_steps.call("Get", "job", self.name)))

    async def watch(self, token: str = "", *, patience: float = 300.0) -> AsyncIterator[Progress]:
        """As nerfd.Job.watch, for `async for`."""
        client, state = self._client, _flows.Watch(self.name, token)
        stub = client.stub(job_service_pb2_grpc.JobServiceStub)
        waits, deadline = pauses(), time.monotonic() + patience
        while not state.is_over():
            stream = stub.WatchJob(state.request(), metadata=client.metadata)
            try:
                async for message in stream:
                    waits, deadline = pauses(), time.monotonic() + patience
                    moment = state.take(message)
                    if moment is not None:
                        yield moment
            except grpc.RpcError as error:
                failure: Error = from_rpc(error, client.server)
                pause = next(waits)
                if not state.lets_resume(failure) or time.monotonic() + pause > deadline:
                    raise failure from None
                await asyncio.sleep(pause)
            else:
                await asyncio.sleep(0 if state.is_over() else next(waits))
            finally:
                stream.cancel()
        _flows.raise_if_failed(state.job)

    async def wait(self, *, patience: float = 300.0) -> Progress:
        """As nerfd.Job.wait."""
        last = await self.progress()
        async for last in self.watch(patience=patience):
            pass
        return last

    async def fetch(self, path: Folder, *, watch: Callable[[Progress], Any] = ignore,
                    patience: float = 300.0) -> pathlib.Path:
        """As nerfd.Job.fetch."""
        target = _files.target_of(path)
        with _files.names_job(self.name):
            _files.require_files(await self.progress())
            async for moment in self.watch(patience=patience):
                watch(moment)
            written: pathlib.Path = await self._client._run(_files.fetch(self.name, target))
        return written

    async def curve(self) -> List[Dict[str, Any]]:
        """As nerfd.Job.curve."""
        points: List[Dict[str, Any]] = await self._client._run(_files.curve(self.name))
        return points

    async def scores(self) -> Dict[str, float]:
        """As nerfd.Job.scores."""
        scores: Dict[str, float] = await self._client._run(_files.scores(self.name))
        return scores

    async def promote(self, *, id: str = "", display_name: str = "") -> "Model":
        """As nerfd.Job.promote."""
        made = await self._client._run(_flows.promote(self.name, id, display_name))
        return Model(self._client, made.name)

    async def pause(self) -> None:
        """As nerfd.Job.pause."""
        await self._client._run(_steps.call("Pause", "job", self.name))

    async def resume(self) -> None:
        """As nerfd.Job.resume."""
        await self._client._run(_steps.call("Resume", "job", self.name))

    async def cancel(self) -> None:
        """As nerfd.Job.cancel."""
        await self._client._run(_steps.call("Cancel", "job", self.name))

    async def delete(self) -> None:
        """As nerfd.Job.delete."""
        await self._client._run(_steps.call("Delete", "job", self.name))


class Model(_Rendered):
    """As nerfd.Model."""

    _source = "model"

    async def download(self, path: Folder) -> pathlib.Path:
        """As nerfd.Model.download."""
        written: pathlib.Path = await self._client._run(_flows.download(self.name, path))
        return written

    async def delete(self) -> None:
        """As nerfd.Model.delete."""
        await self._client._run(_steps.call("Delete", "model", self.name))
