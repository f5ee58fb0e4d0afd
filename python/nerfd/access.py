"""Which server to call and what to show it, found as nerfctl finds it."""
from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import pathlib
import re
from typing import Any, Dict, Optional, Union

import grpc

from .errors import AccessDenied

DEFAULT_SERVER = "127.0.0.1:50051"
PROJECT = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SYSTEM_CA = "/etc/ssl/certs/ca-certificates.crt"
_MAX_TOKEN_BYTES = 4096

# As nerfctl's: a broken connection is noticed in time, and proxies of the environment are ignored.
CHANNEL_OPTIONS = [
    ("grpc.keepalive_time_ms", 30_000), ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 5_000),
    ("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", 64 << 20),
]


@dataclasses.dataclass(frozen=True)
class Access:
    """A server, and how to reach it. `credentials` is unset where it speaks no TLS."""

    server: str
    project: str
    token: str = dataclasses.field(repr=False)
    credentials: Optional[grpc.ChannelCredentials] = None


def _folder(variable: str, fallback: str) -> pathlib.Path:
    value = os.environ.get(variable, "")
    if value.startswith("/"):
        return pathlib.Path(value) / "nerfd"
    home = os.environ.get("HOME", "")
    return pathlib.Path(home if home.startswith("/") else "/var/tmp") / fallback / "nerfd"


def _read_token(path: Union[str, os.PathLike[str]]) -> str:
    with open(path, "rb") as file:
        return _checked_token(str(path), file.read(_MAX_TOKEN_BYTES + 1))


def _checked_token(source: str, token: bytes) -> str:
    text = token.strip()
    if not text or len(token) > _MAX_TOKEN_BYTES or not re.fullmatch(rb"[\x21-\x7e]+", text):
        raise ValueError(f"{source}: holds no token: one word of printable ASCII")
    return text.decode("ascii")


def is_loopback(server: str) -> bool:
    """True for addresses that only this machine serves."""
    if server.startswith("unix:"):
        return True
    host = server.rpartition(":")[0]
    return host in ("localhost", "[::1]") or re.fullmatch(r"127\.[0-9.]+", host) is not None


def _read_context(server: Optional[str]) -> Dict[str, Any]:
    """The context of `nerfctl login` for this server, or the current one; empty without any."""
    path = _folder("XDG_CONFIG_HOME", ".config") / "contexts.json"
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                raise PermissionError(f"{path} holds tokens, and others may read it: chmod 600 it")
            content = json.loads(file.read(1 << 20))
        contexts: Dict[str, Dict[str, Any]] = content["contexts"]
        current = contexts.get(content.get("current", ""))
        candidates = [each for each in (current, *contexts.values()) if isinstance(each, dict)]
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path} is damaged: remove it and log in again") from None
    if server is None:
        return candidates[0] if current else {}
    return next((each for each in candidates if each.get("server") == server), {})


def _normalized(server: str) -> str:
    host, colon, port = server.rpartition(":")
    if server.startswith("unix:") or not colon:
        return server
    return f"127.0.0.1:{port}" if host in ("localhost", "0.0.0.0", "[::1]", "[::]") else server


def _local_data_dir(server: str) -> Optional[pathlib.Path]:
    """The data folder of this user's nerfd at a loopback address, by the note that it leaves."""
    if not is_loopback(server):
        return None
    note = _folder("XDG_STATE_HOME", ".local/state") / "servers" / (
        _normalized(server).replace("/", "%"))
    try:
        if note.stat().st_uid != os.geteuid():
            return None
        folder = pathlib.Path(note.read_text().rstrip())
        with open(folder / "nerfd.lock", "rb") as lock:
            if os.fstat(lock.fileno()).st_uid != os.geteuid():
                return None
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return None  # no nerfd runs
            except BlockingIOError:
                pass
        served = json.loads((folder / "nerfd.ports").read_text())["grpc"]
        return folder if _normalized(served) == _normalized(server) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _credentials(ca: Any, cert: Any, key: Any) -> Optional[grpc.ChannelCredentials]:
    if not ca:
        if cert or key:
            raise ValueError("tls_cert and tls_key need ca: a file in PEM, or 'system'")
        return None
    if bool(cert) != bool(key):
        raise ValueError("tls_cert and tls_key go together")
    path = pathlib.Path(_SYSTEM_CA if ca == "system" else ca)
    roots = None if ca == "system" and not path.exists() else path.read_bytes()
    return grpc.ssl_channel_credentials(
        roots, pathlib.Path(key).read_bytes() if key else None,
        pathlib.Path(cert).read_bytes() if cert else None)


def find(server: Optional[str], token: Optional[str], project: Optional[str], ca: Optional[str],
         tls_cert: Optional[str], tls_key: Optional[str], insecure: bool) -> Access:
    """Fills in what is None. Raises AccessDenied (TOKEN_MISSING) where it finds no token."""
    named = server or os.environ.get("NERFCTL_SERVER") or None
    context = _read_context(named)
    address = named or context.get("server") or DEFAULT_SERVER
    if not re.fullmatch(r"unix:.+|[^\s:/]+:[0-9]{1,5}|\[[0-9a-fA-F:.]+\]:[0-9]{1,5}", address):
        raise ValueError(f"server: {address!r} is not HOST:PORT or unix:PATH")
    project = project or context.get("project") or "default"
    if not PROJECT.fullmatch(project):
        raise ValueError(f"project: {project!r} is not 1 to 63 of a-z, 0-9 and -, from a letter")
    credentials = _credentials(ca or context.get("ca", ""), tls_cert or context.get("tls_cert", ""),
                               tls_key or context.get("tls_key", ""))
    target = address
    if token is not None:
        token = _checked_token("token", token.encode("utf-8", "replace"))
    elif os.environ.get("NERFCTL_TOKEN"):
        token = _checked_token("NERFCTL_TOKEN", os.environ["NERFCTL_TOKEN"].encode())
    elif context.get("token"):
        token = _checked_token("the token of nerfctl login", context["token"].encode())
    folder = _local_data_dir(address)
    if folder is not None:
        if token is None:
            token = _read_token(folder / "admin.token")
        if credentials is None and os.access(folder / "nerfd.sock", os.R_OK | os.W_OK):
            target = f"unix:{folder / 'nerfd.sock'}"
    if token is None:
        raise AccessDenied(
            "UNAUTHENTICATED", "TOKEN_MISSING",
            f"no token for {address}, and no nerfd of this user serves it: name token=, set "
            "NERFCTL_TOKEN, or run `nerfctl login` once")
    if credentials is None and not (insecure or context.get("insecure") is True
                                    or is_loopback(address)):
        raise ValueError(f"the token would travel to {address} unencrypted: name the server's CA "
                         "with ca= (or ca='system'), or say insecure=True")
    return Access(target, project, token, credentials)
