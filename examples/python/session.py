#!/usr/bin/env python3
"""A session with nerfd's Python package, in cells as Jupyter and editors read them (# %%).

python3 session.py [FOLDER [OUT]]      default: examples/mic beside this file, the current folder
"""
# %% A client finds server and token as nerfctl does.
import pathlib
import sys

import numpy as np
from PIL import Image

import nerfd

folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                      pathlib.Path(__file__).resolve().parent.parent / "mic")
out = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else ".")
client = nerfd.Client()

# %% Upload the photographs; an engine reads all of them and lists every problem.
scene = client.upload(folder)
report = scene.check()
print(report.summary)
for problem in report.problems:
    print("problem:", problem.file, problem.field, problem.message)

# %% Train on them. A broken stream goes on where it was; a failed job raises JobFailed.
job = client.train(scene, samples=4e6, background="white")
for moment in job.watch():
    print(f"{moment.state:10} {moment.fraction:4.0%}  step {moment.step:5}  {moment.wait}")
print(f"test views: PSNR {moment.psnr:.2f} dB")

# %% A model outlives its job. This one is also written to a file (read_model.py reads it).
model = job.promote()
print(model.download(out / "model.safetensors"))

# %% Render a test view from its own camera and compare it with its photograph.
view = scene.views()[0]
picture = model.render(view)
photograph = Image.open(folder / view.file).convert("RGBA")
white = Image.new("RGBA", photograph.size, "white")
photograph = np.asarray(Image.alpha_composite(white, photograph))[..., :3]
error = np.mean((picture / 255 - photograph / 255) ** 2)
print(f"{view.file}: PSNR {-10 * np.log10(error):.2f} dB")
Image.fromarray(picture).save(out / "view.png")

# %% Depth in scene units, from a camera one unit closer.
closer = view.c2w.copy()
closer[:3, 3] -= closer[:3, 2]
depth = model.render(closer, 160, 120, fov=40, channel="depth")
opacity = model.render(closer, 160, 120, fov=40, channel="opacity")
print(f"nearest opaque point: {depth[opacity > 0.9].min():.2f} units away")
