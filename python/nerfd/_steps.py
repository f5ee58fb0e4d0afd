"""What the clients' flows are made of: generators that yield Steps and are sent their results."""
from __future__ import annotations

import dataclasses
import re
import uuid
from typing import Any, Callable, Generator, Optional

CALL_SECONDS, WORK_SECONDS = 30.0, 600.0
_COLLECTIONS = {"scene": "scenes", "job": "trainingJobs", "model": "models"}
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
    collection = _COLLECTIONS[kind]
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
