"""What the clients' flows are made of: generators that yield Steps and are sent their results."""
from __future__ import annotations

import dataclasses
import re
import uuid
from typing import Any, Callable, Generator, List, Optional

from ._proto.nerf.v1 import (job_service_pb2, job_service_pb2_grpc, model_service_pb2,
                             model_service_pb2_grpc, scene_service_pb2, scene_service_pb2_grpc)

CALL_SECONDS, WORK_SECONDS = 30.0, 600.0
# Stub and messages of each kind of resource.
_SERVICES = {
    "scene": (scene_service_pb2_grpc.SceneServiceStub, scene_service_pb2),
    "job": (job_service_pb2_grpc.JobServiceStub, job_service_pb2),
    "model": (model_service_pb2_grpc.ModelServiceStub, model_service_pb2),
}
_ID = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")


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
    collection = f"{kind}s"
    if _ID.fullmatch(name):
        return f"projects/{project}/{collection}/{name}"
    parts = name.split("/")
    if len(parts) == 4 and parts[0] == "projects" and parts[2] == collection and (
            _ID.fullmatch(parts[1]) and _ID.fullmatch(parts[3])):
        return name
    raise ValueError(f"{kind}: {name!r} is neither an id (1 to 63 of a-z, 0-9 and -, from a letter)"
                     f" nor a name such as projects/default/{collection}/mic")


def project_of(name: str) -> str:
    return name.split("/")[1]


def call(verb: str, kind: str, name: str) -> Flow:
    """Get, Delete, Pause and the like: those with a name alone."""
    stub, messages = _SERVICES[kind]
    method = f"{verb}{kind.capitalize()}"
    return (yield Step(stub, method, getattr(messages, f"{method}Request")(name=name)))


def get(kind: str, name: str, project: str) -> Flow:
    """The message of a resource by its id or name."""
    return (yield from call("Get", kind, full_name(kind, name, project)))


def list_all(kind: str, project: str, **filters: str) -> Flow:
    """The messages of every page, newest first."""
    stub, messages = _SERVICES[kind]
    found: List[Any] = []
    method = f"List{kind.capitalize()}s"
    request = getattr(messages, f"{method}Request")(parent=f"projects/{project}", page_size=1000,
                                                    **filters)
    while True:
        page = yield Step(stub, method, request)
        found.extend(getattr(page, f"{kind}s"))
        if not page.next_page_token:
            return found
        request.page_token = page.next_page_token
