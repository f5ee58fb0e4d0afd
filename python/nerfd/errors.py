"""What can go wrong, as exceptions that carry the server's code and reason.

Wrong arguments raise ValueError, TypeError or an OSError before anything is sent.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Sequence

import grpc

from ._proto.google.rpc import error_details_pb2, status_pb2


@dataclasses.dataclass(frozen=True)
class FieldViolation:
    """One wrong field of a request: its path, such as `scene.files[3].path`, and what is wrong."""

    field: str
    description: str


class Error(Exception):
    """A call that failed, or a job that did.

    code: the canonical name of the kind of failure, such as NOT_FOUND.
    reason: one word per cause, such as NO_WORKER (docs/use/api.md#errors); empty where no nerfd
        answered.
    message: the same for people.
    violations: every wrong field, where the reason is FIELD_INVALID.
    metadata: facts that a program can use, such as `resource` or `request_id`.
    """

    def __init__(self, code: str, reason: str, message: str,
                 violations: Sequence[FieldViolation] = (),
                 metadata: Dict[str, str] | None = None) -> None:
        super().__init__(f"{code} {reason}: {message}" if reason else f"{code}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.violations: List[FieldViolation] = list(violations)
        self.metadata: Dict[str, str] = dict(metadata or {})


class InvalidArgument(Error):
    """A field, setting, camera or file that the server refuses; `violations` names each."""


class NotFound(Error):
    """A scene, job or model that does not exist, or not in this project."""


class AccessDenied(Error):
    """No token, an unknown or expired one, or one whose role or project does not allow the call."""


class WrongState(Error):
    """What is asked for does not fit the state of a job, scene or model, or its id is taken."""


class Exhausted(Error):
    """Memory, disk, a quota or the queue is full, or the answer would be too large."""


class Unavailable(Error):
    """No nerfd answers, it shuts down, or it has no worker; may be repeated later."""


class NotNerfd(Error):
    """Something answers at the address, but it is no nerfd."""


@dataclasses.dataclass(frozen=True)
class SceneProblem:
    """One problem of a data set: file and field in it (empty: none alone), and what is wrong."""

    file: str
    field: str
    message: str


class JobFailed(Error):
    """A job that ended as FAILED or CANCELLED; `job` is its name, `problems` those of its scene."""

    def __init__(self, code: str, reason: str, message: str, job: str,
                 problems: Sequence[SceneProblem] = ()) -> None:
        listed = "".join(
            "\n  " + ": ".join(part for part in (each.file, each.field, each.message) if part)
            for each in problems)
        super().__init__(code, reason, f"{job}: {message}{listed}")
        self.job = job
        self.problems: List[SceneProblem] = list(problems)


_CLASSES = {
    "INVALID_ARGUMENT": InvalidArgument, "OUT_OF_RANGE": InvalidArgument,
    "NOT_FOUND": NotFound,
    "UNAUTHENTICATED": AccessDenied, "PERMISSION_DENIED": AccessDenied,
    "FAILED_PRECONDITION": WrongState, "ALREADY_EXISTS": WrongState, "ABORTED": WrongState,
    "RESOURCE_EXHAUSTED": Exhausted,
    "UNAVAILABLE": Unavailable, "DEADLINE_EXCEEDED": Unavailable,
}
_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
# What gRPC says of a server that speaks another protocol: HTTP/1, TLS, SSH and the like.
_FOREIGN = ("http1.x server", "Received http2 header with status", "non-gRPC",
            "Failed parsing HTTP/2", "invalid content-type")


def code_name(code: int) -> str:
    """The canonical name of a code of google.rpc.Status."""
    return _CODES.get(code, "UNKNOWN")


def read_details(status: Any) -> tuple[str, Dict[str, str], List[FieldViolation]]:
    """Reason, metadata and wrong fields in the details of a google.rpc.Status."""
    reason, metadata, violations = "", {}, []
    for detail in status.details:
        info = error_details_pb2.ErrorInfo()
        fields = error_details_pb2.BadRequest()
        if detail.Unpack(info):
            reason, metadata = info.reason, dict(info.metadata)
        elif detail.Unpack(fields):
            violations = [FieldViolation(each.field, each.description)
                          for each in fields.field_violations]
    return reason, metadata, violations


def from_rpc(error: grpc.RpcError, address: str) -> Error:
    """The exception for a failed call to the server at `address`."""
    code, message = error.code().name, error.details() or ""
    status = status_pb2.Status()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            try:
                status.ParseFromString(value)
            except Exception:  # not a Status: another program's
                status = status_pb2.Status()
    reason, metadata, violations = read_details(status)
    if not reason and (code == "UNIMPLEMENTED" or any(word in message for word in _FOREIGN)):
        return NotNerfd(code, "", f"what answers at {address} is no nerfd, or an older one "
                                  f"({message})")
    if not reason and code == "UNAVAILABLE":
        message = f"no nerfd answers at {address} ({message})"
    return _CLASSES.get(code, Error)(code, reason, message, violations, metadata)
