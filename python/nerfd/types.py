"""Plain values that calls take and return."""
from __future__ import annotations

import dataclasses
from typing import Dict, List, Optional

import numpy as np

from .errors import SceneProblem

FINAL_STATES = ("SUCCEEDED", "FAILED", "CANCELLED")


@dataclasses.dataclass(frozen=True)
class Progress:
    """A moment of a job, as WatchJob reports it. What is not of its kind is 0 or empty.

    kind: training, render, pose or export.
    state: QUEUED, PREPARING, RUNNING, PAUSING, PAUSED, CANCELLING, SUCCEEDED, FAILED, CANCELLED.
    fraction: 0 to 1: of a training the part of the budget that is spent, of a render job that of
        the frames, of a pose or export job that of what it is `doing`.
    step, samples, seconds: what was trained so far, over all attempts; seconds also of a pose job.
    eta_seconds: estimated seconds until the end; None where unknown.
    loss: training loss; psnr_train: dB of the training rays, both over the last second.
    psnr: dB of the last preview, in the end of all test views; None without test views.
    wait: why a queued job does not run yet, for people.
    figures: further figures of the engine, by their names in docs/inside/protocol.md.
    token: `job.watch(token)` continues behind this moment, also in another process.
    """

    job: str
    kind: str
    state: str
    fraction: float
    doing: str
    step: int
    samples: float
    seconds: float
    eta_seconds: Optional[float]
    loss: float
    psnr_train: float
    psnr: Optional[float]
    wait: str
    figures: Dict[str, float]
    token: str

    @property
    def is_final(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL_STATES


@dataclasses.dataclass(frozen=True)
class SceneReport:
    """What a worker's engine found in a scene. `ok` is true when a job can train on it."""

    ok: bool
    summary: str
    problems: List[SceneProblem]
    warnings: List[str]


@dataclasses.dataclass(frozen=True, eq=False)
class View:
    """A photograph of a scene with its camera.

    c2w: camera to world, float64 [4, 4], in the data set's own frame; OpenGL's axes (+X right, +Y
    up, looks along -Z). fl_x, fl_y, cx, cy are in pixels of width x height. k1, k2, k3, p1, p2: the
    lens' distortion, as OpenCV has it; 0 of a pinhole. time: 0 to 1 over a capture that moves.
    `model.render(view)` draws what the photograph shows.
    """

    file: str
    is_test: bool
    c2w: np.ndarray
    width: int
    height: int
    fl_x: float
    fl_y: float
    cx: float
    cy: float
    k1: float = 0.0
    k2: float = 0.0
    k3: float = 0.0
    p1: float = 0.0
    p2: float = 0.0
    time: float = 0.0
