"""Client of nerfd: neural radiance fields as a service.

    import nerfd

    client = nerfd.Client()
    job = client.train("examples/mic", samples=1e6, background="white")
    for moment in job.watch():
        print(moment.state, f"{moment.fraction:.0%}")
    model = job.promote()
    picture = model.render(c2w, 200, 200)      # numpy, uint8 [200, 200, 3]

nerfd.aio has the same, to be awaited.
"""
from . import aio
from .client import Client, Job, Model, Scene
from .errors import (AccessDenied, Error, Exhausted, FieldViolation, InvalidArgument, JobFailed,
                     NotFound, NotNerfd, SceneProblem, Unavailable, WrongState)
from .types import Progress, SceneReport, View

__version__ = "0.1.0"
__all__ = [
    "AccessDenied", "Client", "Error", "Exhausted", "FieldViolation", "InvalidArgument", "Job",
    "JobFailed", "Model", "NotFound", "NotNerfd", "Progress", "Scene", "SceneProblem",
    "SceneReport", "Unavailable", "View", "WrongState", "aio",
]
