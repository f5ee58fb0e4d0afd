#!/usr/bin/env python3
"""The package `nerfd` with a running server, broken connections, and what is no nerfd.

    python_client.py SERVER FOLDER      with its token in $NERFCTL_TOKEN
"""
import asyncio
import hashlib
import http.server
import inspect
import io
import json
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import unittest
from concurrent import futures

import grpc
import numpy as np
from PIL import Image

import nerfd
from nerfd import _files, _flows, _pictures, _scenes, access
from nerfd._proto.google.bytestream import bytestream_pb2
from nerfd._proto.nerf.v1 import (common_pb2, job_service_pb2, job_service_pb2_grpc,
                                  render_service_pb2)

SERVER, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
STATES = ["QUEUED", "PREPARING", "RUNNING", "SUCCEEDED"]
ABOVE = np.array([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 4.0], [0, 0, 0, 1]])


class Cutter:
    """A TCP proxy in front of the server that breaks every connection when told."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.open = []
        self.n_connections = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        host, port = SERVER.rsplit(":", 1)
        while True:
            ours, _ = self.listener.accept()
            theirs = socket.create_connection((host, int(port)))
            self.open += [ours, theirs]
            self.n_connections += 1
            for pair in ((ours, theirs), (theirs, ours)):
                threading.Thread(target=self.pump, args=pair, daemon=True).start()

    @staticmethod
    def pump(source, target):
        try:
            while block := source.recv(1 << 16):
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        broken, self.open = self.open, []
        for each in broken:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()


class ArgumentsTest(unittest.TestCase):
    """Nothing is sent: the address has no server."""

    def setUp(self):
        self.client = nerfd.Client("127.0.0.1:9", token="t", patience=0)
        self.model = nerfd.Model(self.client, "projects/default/models/mic")
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def refuses(self, kind, words, call, *arguments, **keywords):
        with self.assertRaises(kind) as caught:
            call(*arguments, **keywords)
        self.assertRegex(str(caught.exception), words)

    def test_wrong_matrices_are_named(self):
        render = self.model.render
        for c2w, kind, words in (
                (np.eye(3), ValueError, r"c2w: has shape \[3, 3\], must be \[4, 4\]"),
                (np.eye(4).ravel(), ValueError, r"shape \[16\]"),
                (np.eye(4)[None], ValueError, r"shape \[1, 4, 4\]"),
                ([], ValueError, "shape"), (None, ValueError, "shape"),
                ("mic", TypeError, "array of numbers"),
                ([[1, 2], [3]], TypeError, "array of numbers"),
                (np.eye(4) * np.nan, ValueError, "NaN"),
                (ABOVE.T, ValueError, "last row.*transposed")):
            with self.subTest(c2w=c2w):
                self.refuses(kind, words, render, c2w, 8, 8)

    def test_wrong_sizes_and_lenses_are_named(self):
        for width, height, keywords, kind, words in (
                (0, 8, {}, ValueError, "width: must be 1 to"),
                (8, -1, {}, ValueError, "height: must be 1 to"),
                (8.5, 8, {}, TypeError, "width: must be a whole number"),
                (True, 8, {}, TypeError, "width"), (8, 1 << 20, {}, ValueError, "height"),
                (8, 8, {"fov": 180}, ValueError, "fov"), (8, 8, {"fl_x": 0}, ValueError, "fl_x"),
                (8, 8, {"fl_y": float("nan")}, ValueError, "fl_y"),
                (8, 8, {"cx": float("inf")}, ValueError, "cx"),
                (8, 8, {"channel": "alpha"}, ValueError, "channel: must be one of rgb, depth")):
            with self.subTest(words=words):
                self.refuses(kind, words, self.model.render, ABOVE, width, height, **keywords)

    def test_a_view_is_rendered_through_its_lens(self):
        view = nerfd.View("a.jpg", True, ABOVE, 80, 60, 100.0, 90.0, 41.0, 29.0, k1=0.1, p2=-0.01,
                          time=0.5)
        camera = _pictures.camera(view, None, None, None, None, None, None, None)
        self.assertEqual(camera, common_pb2.Camera(
            width=80, height=60, fl_x=100, fl_y=90, cx=41, cy=29, k1=0.1, p2=-0.01, time=0.5,
            lens=common_pb2.LENS_MODEL_OPENCV, transform_matrix=ABOVE.ravel()))
        half = _pictures.camera(view, 40, None, None, None, None, None, None)
        self.assertEqual((half.width, half.height, half.fl_x, half.cy, half.k1),
                         (40, 30, 50, 14.5, 0.1))
        self.refuses(ValueError, "a View has a lens", self.model.render, view, fov=40)
        self.refuses(TypeError, "width, height: are needed", self.model.render, ABOVE)

    def test_wrong_folders_are_named(self):
        train = self.client.train
        missing, file, empty = (self.scratch / each for each in ("gone", "file", "empty"))
        file.write_text("x")
        empty.mkdir()
        (empty / ".hidden").write_text("x")
        self.refuses(FileNotFoundError, "gone: no such folder", train, missing)
        self.refuses(NotADirectoryError, "file: is a file", train, file)
        self.refuses(ValueError, "empty: holds no files", train, empty)
        (empty / "a\nb.png").write_text("x")
        self.refuses(ValueError, "control characters", train, empty)
        (empty / "a\nb.png").unlink()
        (pathlib.Path(os.fsdecode(os.fsencode(empty) + b"/\xff.png"))).write_text("x")
        self.refuses(ValueError, "not UTF-8", train, empty)
        self.refuses(TypeError, "a folder or a Scene", train, 7)

    def test_photographs_without_a_camera_file_are_found(self):
        for names, found in (
                (["b.JPG", "a.heic", "clip.mp4", "notes.txt"], ["a.heic", "b.JPG", "clip.mp4"]),
                (["images/a.png", "masks/a.png"], ["a.png"]),
                (["a.png", "images/b.png"], ["a.png"]), (["a.png", "transforms_train.json"], []),
                (["images/a.png", "sparse/0/images.txt"], []), (["train/a.png"], []),
                (["a.png", "poses_bounds.npy"], [])):
            with self.subTest(names=names), tempfile.TemporaryDirectory() as root:
                for name in names:
                    path = pathlib.Path(root, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()
                there = [path.name for path in _scenes.unposed(pathlib.Path(root))]
                self.assertEqual(there, found)

    def test_masks_of_photographs_are_found(self):
        for name in ("a.jpg", "b.jpg", "c.jpg", "masks/a.jpg.png", "masks/a.png", "masks/b.png",
                     "masks/other.png"):
            (self.scratch / name).parent.mkdir(exist_ok=True)
            (self.scratch / name).touch()
        masks = _scenes.masks_of(self.scratch, _scenes.unposed(self.scratch))
        self.assertEqual([path.name for path in masks], ["a.jpg.png", "b.png"])

    def test_wrong_trainings_are_named(self):
        for keywords, words in (
                ({"steps": 5, "seconds": 5}, "steps and seconds: name one budget"),
                ({"steps": -1}, "steps: -1"), ({"steps": "many"}, "steps"), ({"seed": -1}, "seed"),
                ({"background": "pink"}, "background: must be auto"),
                ({"id": "Mic!"}, "job: 'Mic!' is neither an id"), ({"init": "a b"}, "model: 'a b'"),
                ({"priority": 101}, "priority"), ({"camera": "fisheye"}, "camera: must be one of"),
                ({"into": "a b"}, "scene: 'a b'"), ({"into": "mic"}, "into, camera, .*mic does"),
                ({"camera": "perspective"}, "into, camera, .*mic does not hold"),
                ({"mask_below": 60}, "camera, mask_below: .*mic does not hold"),
                ({"into": "mic", "camera": "equirectangular"}, "into: .*not panoramas"),
                *(({"mask_below": degrees}, "mask_below: must be 0 to 90 degrees, not")
                  for degrees in (-1, 91, float("nan"), "low", None)),
                ({"mask_below": 60, "into": "mic"}, "mask_below: is of panoramas"),
                ({"mask_below": 60, "camera": "perspective"}, "mask_below: is of panoramas")):
            with self.subTest(keywords=keywords):
                self.refuses(ValueError, words, self.client.train, FOLDER, **keywords)
        scene = nerfd.Scene(self.client, "projects/default/scenes/mic")
        self.refuses(ValueError, "scenes/mic does not hold", self.client.train, scene, into=scene)

    def test_wrong_exports_and_films_are_named(self):
        export, film, missing = self.model.export, self.model.film, self.scratch / "gone/mic.ply"
        self.refuses(FileNotFoundError, "gone: no such folder", export, missing)
        self.refuses(FileNotFoundError, "gone: no such folder", film, missing.with_suffix(".mp4"))
        self.refuses(FileNotFoundError, "films: no such folder", film, f"{self.scratch}/films/")
        for name, keywords, words in (
                ("mic.obj", {}, "format: is needed for .*mic.obj"),
                ("", {}, "format: is needed"),
                ("mic", {"format": "obj"}, "format: must be one of viewer, ply"),
                ("mic.ply", {"frame": "maya"}, "frame: must be one of dataset"),
                ("mic.ply", {"resolution": -1}, "resolution: -1"),
                ("mic.ply", {"crop": [1, 2, 3]}, "crop: must be 6 numbers"),
                ("mic.zip", {"loop": True}, "frames, loop: are of keyframes"),
                ("mic.zip", {"keyframes": [np.eye(3)]}, r"shape \[3, 3\]")):
            with self.subTest(words=words):
                self.refuses(ValueError, words, export, self.scratch / name, **keywords)
        for name, keywords, words in (
                ("film", {}, "film must end in .mp4, or"),
                ("film.mp4", {"channels": ["rgba"]}, "must end in .webm"),
                ("film.mp4", {"channels": "alpha"}, "channels: must be one of rgb"),
                ("", {"channels": "rgbaz"}, "channels: rgbaz needs format='exr'"),
                ("", {"format": "jpeg"}, "format: must be one of png, exr"),
                ("", {"along": "line"}, "along: must be one of auto, orbit"),
                ("", {"along": "orbit", "cameras": []}, "along and cameras: name one"),
                ("", {"cameras": [ABOVE], "frames": 3}, "frames: cameras have one"),
                ("", {"background": "red"}, "background: must be white, black, #rrggbb"),
                ("", {"background": [0, 0, 2]}, "background: must be white"),
                ("", {"stereo": "top-bottom"}, "are of panorama=True"),
                ("", {"panorama": True, "stereo": "left-right"}, "eye_distance: must be above 0"),
                ("", {"panorama": True, "eye_distance": 0.1}, "eye_distance: must be above 0"),
                ("", {"panorama": True, "stereo": "sideways"}, "stereo: must be one of none, top"),
                ("", {"loop": True}, "loop: is of keyframes"), ("", {"fps": "fast"}, "fps")):
            with self.subTest(words=words):
                self.refuses(ValueError, words, film, self.scratch / name, **keywords)

    def test_options_of_exports_and_films_are_sent(self):
        view = nerfd.View("a.jpg", True, ABOVE, 80, 60, 100.0, 30.0, 41.0, 29.0)
        options = _files.ExportOptions("splats", "unity", [0, 0, 0, 1, 2, 3], 0, 0, 0, 5000, False,
                                       [view, ABOVE[:3]], None, True)
        sent = _files.export_request("projects/lab/jobs/mic", self.scratch / "a.glb", options)
        spec = sent.job.export
        self.assertEqual((sent.parent, spec.checkpoint),
                         ("projects/lab", "projects/lab/jobs/mic/checkpoints/-"))
        self.assertEqual((spec.format, spec.frame, spec.max_splats, spec.box.size[:]),
                         (spec.SPLATS_GLB, spec.UNITY, 5000, [1, 2, 3]))
        curve = spec.path.keyframes
        self.assertEqual((curve.frames, curve.loop), (120, True))
        self.assertAlmostEqual(curve.keyframes[0].fov_degrees, 90)
        self.assertEqual(curve.keyframes[1].transform_matrix[:], ABOVE.ravel().tolist())
        options = _files.FilmOptions(None, None, [view], None, False, 40, 30, 24, ["rgba", "depth"],
                                     "png", "none")
        spec = _files.film_request(self.model.name, self.scratch / "a.webm", options).job.render
        self.assertEqual((spec.model, spec.movie, spec.images), (self.model.name, True, False))
        self.assertEqual((spec.style.whole, spec.channels[:]), (True, [4, 2]))
        self.assertEqual(spec.path.cameras.cameras[0].fl_x, 50)
        self.assertFalse(spec.style.HasField("panorama"))

    def test_looks_of_films_are_sent(self):
        def sent(**keywords):
            options = _files.FilmOptions(None, None, None, None, False, keywords.pop("width", None),
                                         keywords.pop("height", None), 24, "rgb", "png", None,
                                         **keywords)
            return _files.film_request(self.model.name, self.scratch, options).job.render

        plain = sent(background="#ff0033")
        self.assertEqual(plain.style.background[:], [1, 0, 0.2])
        self.assertEqual((plain.width, plain.height), (640, 480))
        self.assertEqual(sent(background=(0, 0.5, 1)).style.background[:], [0, 0.5, 1])
        mono = sent(panorama=True)
        self.assertTrue(mono.style.HasField("panorama"))
        self.assertEqual((mono.width, mono.height), (2048, 1024))
        for stereo, size, of_width in (("top-bottom", (2048, 2048), (400, 400)),
                                       ("left-right", (4096, 1024), (400, 100))):
            keywords = {"panorama": True, "stereo": stereo, "eye_distance": 0.25}
            both = sent(**keywords)
            self.assertEqual((both.width, both.height), size)
            self.assertEqual(both.style.panorama.eye_distance, 0.25)
            narrow = sent(width=400, **keywords)
            self.assertEqual((narrow.width, narrow.height), of_width)
            low = sent(height=of_width[1], **keywords)
            self.assertEqual((low.width, low.height), of_width)
        self.assertEqual(both.style.panorama.stereo, both.style.panorama.LEFT_RIGHT)

    def test_a_fetch_that_ends_early_names_its_job(self):
        job = nerfd.Job(self.client, "projects/default/jobs/e-mic")
        self.refuses(nerfd.Unavailable, "^UNAVAILABLE: projects/default/jobs/e-mic: no nerfd",
                     job.fetch, self.scratch)

    def test_panoramas_are_sent_with_their_mask(self):
        options = _scenes.PhotographOptions("", "equirectangular", 62.5)
        sent = _scenes.pose_request(options, "lab")
        poses = sent.job.pose
        self.assertEqual((poses.camera, poses.mask_below_degrees), (poses.EQUIRECTANGULAR, 62.5))

    def test_wrong_names_are_named(self):
        self.refuses(ValueError, "projects/default/models/mic", self.client.model, "a/b")
        self.refuses(ValueError, "scene: ''", self.client.scene, "")
        self.refuses(TypeError, "job: must be an id", self.client.job, 7)
        self.refuses(ValueError, "model", self.client.model, "projects/default/scenes/mic")

    def test_a_large_view_is_read_as_a_blob(self):
        file = io.BytesIO()
        Image.fromarray(np.full((2, 3), 65535, np.uint16)).save(file, "PNG")
        content = file.getvalue()
        blob = _scenes.BlobRef(sha256=hashlib.sha256(content).hexdigest(), size_bytes=len(content))
        reply = render_service_pb2.RenderImageResponse(far=2.5)
        reply.images.add(blob=blob)

        def receive(parts):
            flow = _flows.render({"model": "projects/lab/models/mic"}, None, "depth")
            next(flow)
            read = flow.send(reply)
            self.assertEqual(read.request.resource_name,
                             f"projects/lab/blobs/{blob.sha256}/{len(content)}")
            for part in parts:
                read.begin()
                read.take(bytestream_pb2.ReadResponse(data=part))
            return flow.send(None).work()

        # The first try broke off.
        np.testing.assert_array_equal(receive([content[:9], content]), np.full((2, 3), 2.5))
        self.refuses(nerfd.Error, "DATA_LOSS BLOB_DAMAGED", receive, [content[:-1] + b"x"])

    def test_both_clients_have_the_same_methods(self):
        for name in ("Client", "Scene", "Job", "Model"):
            ours, theirs = getattr(nerfd, name), getattr(nerfd.aio, name)
            for method in (each for each in dir(ours) if not each.startswith("_")):
                if not inspect.isfunction(getattr(ours, method)):
                    continue
                self.assertTrue(getattr(ours, method).__doc__, f"{name}.{method}")
                self.assertEqual(list(inspect.signature(getattr(ours, method)).parameters),
                                 list(inspect.signature(getattr(theirs, method)).parameters))


class AccessTest(unittest.TestCase):
    """Servers and tokens of files, in a home of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        kept = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(kept)))
        for variable in ("NERFCTL_TOKEN", "NERFCTL_SERVER", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
            os.environ.pop(variable, None)
        os.environ["HOME"] = scratch.name
        self.contexts = pathlib.Path(scratch.name) / ".config/nerfd/contexts.json"
        self.contexts.parent.mkdir(parents=True)

    def log_in(self, content, mode=0o600):
        self.contexts.write_text(content)
        self.contexts.chmod(mode)

    def test_without_a_token_it_says_how_to_get_one(self):
        with self.assertRaises(nerfd.AccessDenied) as caught:
            nerfd.Client("127.0.0.1:9")
        self.assertEqual(caught.exception.reason, "TOKEN_MISSING")
        self.assertIn("nerfctl login", str(caught.exception))

    def test_login_gives_server_project_and_token(self):
        self.log_in(json.dumps({"current": "a", "contexts": {
            "a": {"server": "127.0.0.1:7", "project": "lab", "token": "secret-a"},
            "b": {"server": "[::1]:8", "token": "secret-b"}}}))
        client = nerfd.Client()
        self.assertEqual((client.server, client.project), ("127.0.0.1:7", "lab"))
        self.assertEqual(nerfd.Client("[::1]:8").metadata[0][1], "Bearer secret-b")
        self.assertNotIn("secret", repr(client) + repr(client._access))

    def test_damaged_and_readable_contexts_are_refused(self):
        for content, mode, kind, words in (
                ("{}", 0o600, ValueError, "damaged"), ("[1", 0o600, ValueError, "damaged"),
                ("{}", 0o644, PermissionError, "chmod 600")):
            self.log_in(content, mode)
            with self.assertRaisesRegex(kind, words):
                nerfd.Client()

    def test_a_token_does_not_travel_unencrypted(self):
        with self.assertRaisesRegex(ValueError, "unencrypted"):
            nerfd.Client("nerf.example.com:50051", token="secret")
        nerfd.Client("nerf.example.com:50051", token="secret", insecure=True).close()
        for server in ("127.0.0.1.example.com:1", "127.evil:1"):
            self.assertFalse(access.is_loopback(server))

    def test_wrong_addresses_tokens_and_projects_are_named(self):
        for server, keywords, words in (
                ("http://127.0.0.1:1", {"token": "t"}, "server: 'http"),
                ("127.0.0.1", {"token": "t"}, "not HOST:PORT"), ("", {"token": ""}, "no token"),
                (None, {"token": "two words"}, "no token"), (None, {"token": "t\n\nu"}, "no token"),
                (None, {"token": "t", "project": "A"}, "project: 'A'"),
                (None, {"token": "t", "tls_key": "k"}, "need ca")):
            with self.subTest(words=words), self.assertRaisesRegex(ValueError, words):
                nerfd.Client(server, **keywords)
        with self.assertRaises(FileNotFoundError):
            nerfd.Client(token="t", ca="/no/such/ca.pem")


class WrongServerTest(unittest.TestCase):
    """What answers is no nerfd."""

    def fails_as(self, kind, address, words, patience=0):
        for make in (lambda: nerfd.Client(address, token="t", patience=patience).jobs(),
                     lambda: asyncio.run(self.jobs_of(address, patience))):
            with self.assertRaises(kind) as caught:
                make()
            self.assertRegex(str(caught.exception), words)
            self.assertIn(address, str(caught.exception))

    @staticmethod
    async def jobs_of(address, patience):
        async with nerfd.aio.Client(address, token="t", patience=patience) as client:
            return await client.jobs()

    def test_nobody_listens(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = "127.0.0.1:%d" % free.getsockname()[1]
        self.fails_as(nerfd.Unavailable, address, "no nerfd answers", patience=0.3)

    def test_a_web_server(self):
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as web:
            web.RequestHandlerClass.log_message = lambda *unused: None
            threading.Thread(target=web.serve_forever, daemon=True).start()
            self.fails_as((nerfd.NotNerfd, nerfd.Unavailable), "127.0.0.1:%d" % web.server_port,
                          "no nerfd")
            web.shutdown()

    def test_another_grpc_server(self):
        server = grpc.server(futures.ThreadPoolExecutor(1))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.fails_as(nerfd.NotNerfd, f"127.0.0.1:{port}", "is no nerfd")
        server.stop(None)


class ServerTest(unittest.TestCase):
    """One job, trained once, is what the tests look at."""

    @classmethod
    def setUpClass(cls):
        cls.client = nerfd.Client(SERVER)
        cls.scene = cls.client.upload(FOLDER, id="mic")
        cls.cutter = Cutter()
        cls.moments = []
        # Twice the connection breaks: at the first moment, and in training.
        cut_at = {0, 2}
        with nerfd.Client(cls.cutter.address) as broken:
            cls.job = broken.train(cls.scene, samples=3e6, background="white", id="mic")
            for moment in cls.job.watch():
                if len(cls.moments) in cut_at:
                    cls.cutter.cut()
                cls.moments.append(moment)
        cls.job = cls.client.job("mic")
        cls.model = cls.job.promote(id="mic")

    def test_a_broken_watch_goes_on_and_repeats_nothing(self):
        order = [STATES.index(each.state) for each in self.moments]
        self.assertEqual(order, sorted(order))
        self.assertEqual(self.moments[-1].state, "SUCCEEDED")
        steps = [each.step for each in self.moments]
        self.assertEqual(steps, sorted(steps))
        self.assertGreaterEqual(self.cutter.n_connections, 3)
        self.assertGreater(self.moments[-1].psnr, 15)
        self.assertEqual(self.moments[-1].fraction, 1)

    def test_a_token_continues_a_watch_elsewhere(self):
        first = self.moments[0]
        later = [each.state for each in self.job.watch(first.token)]
        self.assertEqual(list(dict.fromkeys(later)), STATES[STATES.index(first.state):])
        self.assertEqual([each.state for each in self.job.watch()], ["SUCCEEDED"])
        with self.assertRaises(nerfd.InvalidArgument) as caught:
            list(self.job.watch("no token of this job"))
        self.assertEqual(caught.exception.reason, "FIELD_INVALID")

    def test_renders_are_arrays(self):
        view = self.scene.views()[0]
        self.assertTrue(view.is_test)
        self.assertEqual(view.c2w.shape, (4, 4))
        picture = self.model.render(view.c2w, 64, 48, fl_x=view.fl_x * 64 / view.width)
        self.assertEqual((picture.shape, picture.dtype), ((48, 64, 3), np.uint8))
        np.testing.assert_array_equal(
            picture, self.model.render(view.c2w[:3], 64, 48, fl_x=view.fl_x * 64 / view.width))
        np.testing.assert_array_equal(self.model.render(view), self.model.render(
            view.c2w, view.width, view.height, fl_x=view.fl_x, fl_y=view.fl_y))
        depth = self.model.render(view.c2w, 64, 48, channel="depth")
        opacity = self.model.render(view.c2w, 64, 48, channel="opacity")
        self.assertEqual((depth.shape, depth.dtype), ((48, 64), np.float32))
        self.assertLessEqual(opacity.max(), 1)
        # The microphone is at the middle, as far away as the camera is from the origin.
        seen = opacity > 0.9
        self.assertGreater(seen.sum(), 20)
        self.assertLess(abs(np.median(depth[seen]) - np.linalg.norm(view.c2w[:3, 3])), 1.5)

    def test_the_asynchronous_twin_sees_the_same(self):
        async def look():
            async with nerfd.aio.Client(SERVER) as client:
                job, model = await client.job("mic"), await client.model("mic")
                moments = [each async for each in job.watch()]
                pictures = await asyncio.gather(
                    *(model.render(ABOVE, 16 + i, 16) for i in range(3)))
                scene = await client.upload(FOLDER)
                return moments, pictures, await scene.check()

        moments, pictures, report = asyncio.run(look())
        self.assertEqual(moments[-1].psnr, self.moments[-1].psnr)
        for i, picture in enumerate(pictures):
            np.testing.assert_array_equal(picture, self.model.render(ABOVE, 16 + i, 16))
        self.assertEqual(report, self.scene.check())
        self.assertTrue(report.ok and not report.problems)
        self.assertIn("125 of 125 images", report.summary)

    def test_downloads_are_whole_or_nothing(self):
        with tempfile.TemporaryDirectory() as scratch:
            path = self.model.download(scratch)
            self.assertEqual(path.name, "mic.safetensors")
            self.assertGreater(path.stat().st_size, 1e6)
            with self.assertRaises(nerfd.NotFound):
                nerfd.Model(self.client, "projects/default/models/gone").download(
                    pathlib.Path(scratch) / "gone.safetensors")
            with self.assertRaises(FileNotFoundError):
                self.model.download(pathlib.Path(scratch) / "no/such.safetensors")
            self.assertEqual(os.listdir(scratch), ["mic.safetensors"])

    def test_exports_are_written(self):
        with tempfile.TemporaryDirectory() as name:
            scratch, moments = pathlib.Path(name), []
            mesh = self.model.export(scratch / "mic.ply", resolution=32, watch=moments.append)
            self.assertTrue((scratch / "mic.ply").read_bytes().startswith(b"ply\n"))
            self.assertEqual(mesh, scratch / "mic.ply")
            self.assertEqual((moments[-1].kind, moments[-1].state), ("export", "SUCCEEDED"))
            cameras = self.job.export(scratch, "cameras")
            self.assertEqual(cameras, scratch / "transforms.json")
            self.assertGreaterEqual(len(json.loads(cameras.read_text())["frames"]), 100)
            splats = self.model.export(scratch / "splats.ply", "splats", max_splats=1000)
            self.assertRegex(splats.read_bytes(), rb"^ply\n[^\0]*element vertex (1000|\d{1,3})\n")
            with self.assertRaises(nerfd.InvalidArgument) as caught:
                self.model.export(scratch / "refused.ply", baked=True)
            self.assertEqual([each.field for each in caught.exception.violations],
                             ["job.export.baked"])
            self.assertEqual(sorted(os.listdir(scratch)),
                             ["mic.ply", "splats.ply", "transforms.json"])

    def test_an_interrupted_export_goes_on_and_is_fetched(self):
        def interrupt(moment):
            raise KeyboardInterrupt

        async def cancel(path):
            async with nerfd.aio.Client(SERVER) as client:
                model, started = await client.model("mic"), asyncio.Event()
                export = asyncio.ensure_future(
                    model.export(path, "cameras", watch=lambda moment: started.set()))
                await started.wait()
                export.cancel()
                try:
                    await export
                except asyncio.CancelledError as error:
                    return str(error)

        with tempfile.TemporaryDirectory() as scratch:
            path = pathlib.Path(scratch, "cameras.json")
            with self.assertRaises(KeyboardInterrupt) as caught:
                self.model.export(path, "cameras", watch=interrupt)
            for words in (str(caught.exception), asyncio.run(cancel(path))):
                self.assertRegex(words, "^projects/default/jobs/.* goes on")
                self.assertFalse(path.exists())
                self.assertEqual(self.client.job(words.split()[0]).fetch(path), path)
                self.assertGreaterEqual(len(json.loads(path.read_text())["frames"]), 100)
                path.unlink()
            with self.assertRaisesRegex(ValueError, "jobs/mic: is a training job"):
                self.job.fetch(path)

    def test_films_are_movies_or_frames(self):
        views = self.scene.views()[:3]

        async def frames(folder):
            async with nerfd.aio.Client(SERVER) as client:
                return await (await client.job("mic")).film(
                    folder, keyframes=views, frames=3, width=32, height=24,
                    channels=["rgb", "depth"])

        with tempfile.TemporaryDirectory() as name:
            scratch = pathlib.Path(name)
            self.assertEqual(asyncio.run(frames(scratch)), scratch)
            self.assertEqual(sorted(os.listdir(scratch)), [
                f"frame_{i:05}_{channel}.png" for i in range(3) for channel in ("DEPTH", "RGB")])
            with Image.open(scratch / "frame_00002_RGB.png") as last:
                self.assertEqual(last.size, (32, 24))
            for i in range(3):
                (scratch / f"frame_{i:05}_RGB.png").unlink()
            self.model.film(scratch, along="orbit", frames=1, width=64, panorama=True,
                            stereo="top-bottom", eye_distance=0.05, background="#00ff00")
            with Image.open(scratch / "frame_00000_RGB.png") as both:
                self.assertEqual(both.size, (64, 64))
                self.assertEqual(both.convert("RGB").getpixel((32, 0)), (0, 255, 0))
            movie = scratch / "film.mp4"
            try:
                self.model.film(movie, cameras=views, width=32, height=24)
            except nerfd.Error as error:  # a worker without ffmpeg
                self.assertEqual(error.reason, "FEATURE_NOT_BUILT")
            else:
                self.assertEqual(movie.read_bytes()[4:8], b"ftyp")

    def test_curve_and_scores_of_a_training(self):
        curve = self.job.curve()
        steps = [each["step"] for each in curve]
        self.assertEqual(steps, sorted(steps))
        self.assertGreater(curve[-1]["psnr_train"], curve[0]["psnr_train"])
        scores = self.job.scores()
        self.assertEqual(sorted(scores),
                         sorted(each.file for each in self.scene.views() if each.is_test))
        self.assertAlmostEqual(np.mean(list(scores.values())), self.moments[-1].psnr, places=3)

        async def both():
            async with nerfd.aio.Client(SERVER) as client:
                job = await client.job("mic")
                return await job.curve(), await job.scores()

        self.assertEqual(asyncio.run(both()), (curve, scores))

    def test_errors_have_code_and_reason(self):
        with self.assertRaises(nerfd.NotFound) as caught:
            self.client.model("gone")
        self.assertEqual(caught.exception.reason, "RESOURCE_NOT_FOUND")
        with self.assertRaises(nerfd.InvalidArgument) as caught:
            self.client.train(FOLDER, samples=0.5, settings={"no_such": 1})
        self.assertEqual(caught.exception.reason, "FIELD_INVALID")
        self.assertTrue(all(each.field for each in caught.exception.violations))
        with self.assertRaises(nerfd.WrongState) as caught:
            self.client.train(FOLDER, steps=5, id="mic")
        self.assertEqual(caught.exception.reason, "ALREADY_EXISTS")
        with self.assertRaises(nerfd.WrongState) as caught:
            self.job.cancel()
        self.assertEqual(caught.exception.reason, "STATE_CONFLICT")
        with self.assertRaises(nerfd.AccessDenied) as caught:
            nerfd.Client(SERVER, token="not-a-token").jobs()
        self.assertEqual(caught.exception.reason, "TOKEN_INVALID")

    def test_a_folder_without_cameras_fails_with_its_problems(self):
        with tempfile.TemporaryDirectory() as scratch:
            (pathlib.Path(scratch) / "transforms.json").write_text('{"frames": [{"file_path": 7}]}')
            report = self.client.upload(scratch).check()
            self.assertFalse(report.ok)
            self.assertTrue(report.problems[0].message)
            job = self.client.train(scratch, steps=5)
            with self.assertRaises(nerfd.JobFailed) as caught:
                job.wait()
        self.assertEqual(caught.exception.reason, "DATASET_INVALID")
        self.assertEqual(caught.exception.job, job.name)
        self.assertIn("transforms.json", str(caught.exception))
        job.delete()
        self.assertNotIn(job.name, [each.name for each in self.client.jobs()])

    def test_photographs_get_their_poses_first(self):
        with tempfile.TemporaryDirectory() as scratch:
            for picture in sorted(FOLDER.glob("train/*.png"))[:3]:
                shutil.copy(picture, scratch)
            names = sorted(os.listdir(scratch))
            with self.assertRaises(nerfd.NotFound):
                self.client.train(scratch, steps=5, into="gone")
            job = self.client.train(scratch, steps=5, into=self.scene, camera="perspective")
        stub = self.client.stub(job_service_pb2_grpc.JobServiceStub)

        def get(name):
            return stub.GetJob(job_service_pb2.GetJobRequest(name=name),
                               metadata=self.client.metadata)

        poses = self.client.job(get(job.name).training.pose_job)
        sent = get(poses.name).pose
        self.assertEqual([file.path for file in sent.files], names)
        self.assertEqual((sent.into, sent.camera), (self.scene.name, sent.PERSPECTIVE))
        self.assertEqual([each.name for each in self.client.jobs("kind = pose")], [poses.name])
        self.assertEqual((poses.progress().kind, job.progress().kind), ("pose", "training"))
        with self.assertRaises(nerfd.WrongState) as caught:
            poses.pause()
        self.assertEqual(caught.exception.reason, "KIND_CANNOT")
        try:
            poses.cancel()
        except nerfd.WrongState as error:  # a worker may have ended it
            self.assertEqual(error.reason, "STATE_CONFLICT")
        with self.assertRaises(nerfd.JobFailed) as caught:
            job.wait()
        self.assertIn(caught.exception.reason, ("POSES_MISSING", "DATASET_INVALID"))

    def test_a_cancelled_job_says_so(self):
        job = self.client.train(self.scene, seconds=600)
        with tempfile.TemporaryDirectory() as scratch, self.assertRaises(nerfd.NotFound):
            self.addCleanup(job.cancel)  # CancelJob may be repeated
            job.export(scratch, "ply")  # before its first checkpoint
        job.cancel()
        with self.assertRaises(nerfd.JobFailed) as caught:
            list(job.watch())
        self.assertEqual(caught.exception.code, "CANCELLED")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
