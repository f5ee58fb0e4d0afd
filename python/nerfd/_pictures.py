"""Cameras into requests, rendered pictures into numpy."""
from __future__ import annotations

import io
import math
import numbers
from typing import Any, Dict, Optional

import numpy as np
from PIL import Image

from . import types
from ._proto.nerf.v1 import common_pb2, render_service_pb2

CHANNELS: Dict[str, Any] = {
    "rgb": render_service_pb2.RGB, "depth": render_service_pb2.DEPTH,
    "opacity": render_service_pb2.OPACITY}
_MAX_SIDE = 65535  # of any picture; the server's limit is one of bytes


def matrix(c2w: Any) -> np.ndarray:
    """c2w as float64 [4, 4]; [3, 4] gets its last row. Raises ValueError, TypeError."""
    try:
        values = np.asarray(c2w, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError("c2w: must be an array of numbers, [4, 4] or [3, 4]") from None
    if values.shape not in ((4, 4), (3, 4)):
        raise ValueError(f"c2w: has shape {list(values.shape)}, must be [4, 4] or [3, 4], camera "
                         "to world")
    if not np.isfinite(values).all():
        raise ValueError("c2w: holds NaN or infinity")
    if values.shape == (3, 4):
        return np.vstack([values, [0, 0, 0, 1]])
    if not np.allclose(values[3], [0, 0, 0, 1], atol=1e-6):
        raise ValueError(f"c2w: its last row is {values[3].tolist()}, must be [0, 0, 0, 1]; a "
                         "matrix of the other convention has to be transposed")
    return values


def _side(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"{name}: must be a whole number, not {value!r}")
    side = int(value)
    if not 1 <= side <= _MAX_SIDE:
        raise ValueError(f"{name}: must be 1 to {_MAX_SIDE}, not {side}")
    return side


def camera(pose: Any, width: Any, height: Any, fov: Optional[float], fl_x: Optional[float],
           fl_y: Optional[float], cx: Optional[float], cy: Optional[float]) -> common_pb2.Camera:
    """The camera message of a View or a c2w. Raises ValueError or TypeError that names the wrong
    argument."""
    if isinstance(pose, types.View):
        if any(value is not None for value in (fov, fl_x, fl_y, cx, cy)):
            raise ValueError("fov, fl_x, fl_y, cx, cy: a View has a lens of its own; render its "
                             "c2w for another")
        return _camera_of_view(pose, width, height)
    if width is None or height is None:
        raise TypeError("width, height: are needed with a c2w")
    result = common_pb2.Camera(width=_side("width", width), height=_side("height", height))
    result.transform_matrix.extend(matrix(pose).ravel().tolist())
    fov = 50.0 if fov is None else float(fov)
    if fl_x is None:
        if not 0 < fov < 180:
            raise ValueError(f"fov: must be above 0 and below 180 degrees, not {fov}")
        fl_x = 0.5 * result.width / math.tan(math.radians(fov) / 2)
    for name, value in (("fl_x", fl_x), ("fl_y", fl_y)):
        if value is not None and not 0 < float(value) < math.inf:
            raise ValueError(f"{name}: must be a focal length in pixels above 0, not {value}")
    for name, value in (("cx", cx), ("cy", cy)):
        if value is not None and not math.isfinite(float(value)):
            raise ValueError(f"{name}: must be finite, not {value}")
    result.fl_x = float(fl_x)
    result.fl_y = float(fl_y or 0)
    result.cx = result.width / 2 if cx is None else float(cx)
    result.cy = result.height / 2 if cy is None else float(cy)
    return result


def _camera_of_view(view: types.View, width: Any, height: Any) -> common_pb2.Camera:
    """A side that is None follows from the other, or is the photograph's."""
    if width is None:
        width = view.width if height is None else max(
            1, round(view.width * _side("height", height) / view.height))
    width = _side("width", width)
    if height is None:
        height = max(1, round(view.height * width / view.width))
    result = common_pb2.Camera(width=width, height=_side("height", height), k1=view.k1, k2=view.k2,
                               k3=view.k3, p1=view.p1, p2=view.p2, time=view.time)
    result.transform_matrix.extend(matrix(view.c2w).ravel().tolist())
    result.fl_x, result.cx = (value * width / view.width for value in (view.fl_x, view.cx))
    result.fl_y, result.cy = (value * height / view.height for value in (view.fl_y, view.cy))
    if any((view.k1, view.k2, view.k3, view.p1, view.p2)):
        result.lens = common_pb2.LENS_MODEL_OPENCV
    return result


def channel_of(name: str) -> Any:
    """The wire's number of a channel. Raises ValueError."""
    if name not in CHANNELS:
        raise ValueError(f"channel: must be one of {', '.join(CHANNELS)}, not {name!r}")
    return CHANNELS[name]


def decode(content: bytes, channel: str, far: float) -> np.ndarray:
    """A rendered PNG: rgb uint8 [h, w, 3]; depth float32 [h, w] in scene units; opacity float32
    [h, w], 0 to 1."""
    pixels = np.asarray(Image.open(io.BytesIO(content)))
    if channel == "rgb":
        return pixels.astype(np.uint8).reshape(*pixels.shape[:2], -1)
    most, scale = (65535, far) if channel == "depth" else (255, 1.0)
    return (pixels.astype(np.float64) * (scale / most)).astype(np.float32)
