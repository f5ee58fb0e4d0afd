"""What the blocking and the asynchronous client have in common."""
from __future__ import annotations

import os
from typing import Any, Iterator, Optional

from . import access
from ._steps import Step
from .errors import Error

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0


def may_repeat(error: Error, step: Step) -> bool:
    """Whether a call may be sent again: nobody has carried it out, or it does not matter."""
    return step.repeats and error.code == "UNAVAILABLE" and error.reason in ("", "DRAINING")


def pauses() -> Iterator[float]:
    """Seconds to wait before the next try, growing."""
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


class ClientBase:
    """Server, token and project of a client, found as nerfctl finds them."""

    def __init__(self, server: Optional[str], token: Optional[str], project: Optional[str],
                 ca: Optional[str], tls_cert: Optional[str], tls_key: Optional[str],
                 insecure: bool, patience: float) -> None:
        self._access = access.find(server, token, project, ca, tls_cert, tls_key, insecure)
        self._patience = patience
        self._metadata = (("authorization", f"Bearer {self._access.token}"),)

    @property
    def server(self) -> str:
        """The server's address."""
        return self._access.server

    @property
    def project(self) -> str:
        """The project that short ids belong to."""
        return self._access.project

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Client of {self.server}, project {self.project}>"


class Resource:
    """Something on the server with a name of its own."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = name

    @property
    def id(self) -> str:
        """The last part of its name."""
        return self.name.rsplit("/", 1)[1]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def source_of(source: Any) -> Any:
    """What _flows.train takes: a folder, or ("scene", NAME)."""
    if isinstance(source, Resource):
        return ("scene", source.name)
    if isinstance(source, (str, os.PathLike)):
        return source
    raise TypeError(f"source: must be a folder or a Scene, not {source!r}")


def name_of(resource: Any) -> str:
    """Of a resource or its name; empty of None."""
    if isinstance(resource, Resource):
        return resource.name
    return resource or ""
