#!/usr/bin/env python3
"""A corpus of wrong input, one mistake each, against the built programs (bad_input/).

  requests.txt  calls of gRPC        http.txt   requests of HTTP at --web-listen
  commands.txt  command lines        lines.txt  messages to `nerf-engine serve`
  files.py      data sets, pictures, COLMAP models, model files and cameras, by nerf-engine

Each case has its code, its reason and words of its message. None may take a program beyond 512 MiB, or leave anything
behind: a row in a store, a file in the data folder, in the folder of the input, in $HOME or $TMPDIR. --strict also asks
for each answer within a second. faults_test.sh runs it.
"""
import base64
import collections
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

import grpc
from google.bytestream import bytestream_pb2  # noqa: F401
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format
from google.rpc import error_details_pb2, status_pb2
from nerf.v1 import admin_service_pb2, admin_service_pb2_grpc, blob_service_pb2, scene_service_pb2_grpc  # noqa: F401
from nerf.v1 import job_service_pb2 as job_service
from nerf.v1 import model_service_pb2, scene_service_pb2, view_service_pb2  # noqa: F401
from nerf.v1 import worker_service_pb2  # noqa: F401

import workload

CORPUS = pathlib.Path(__file__).parent / "bad_input"
MAX_MIB, STRICT_SECONDS, CALL_SECONDS = 512, 1, 20
MIN_CASES = 300
SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
UUID = "0b5e4a2e-3c1d-4f6a-9b7e-1a2b3c4d5e6f"


def table(name, n_columns):
    for line in (CORPUS / name).read_text().splitlines():
        if line and not line.startswith("#"):
            yield [column.strip(" ") for column in line.split("|", n_columns - 1)]


def words_of(column):
    return [word for word in column.split("; ") if word]


def listing(folder):
    """Names below a folder, but not of its SQLite files."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if ".db" not in path.name)


# What `nerf-engine pose` leaves of one photograph.
REPORT = ("new", "new/images", "new/images/a.jpg", "new/pose.json", "new/pose.png", "new/pose.txt")


class Checker:
    """Counts the cases and says which are wrong."""

    def __init__(self, arguments):
        self.max_seconds = STRICT_SECONDS if arguments.strict else CALL_SECONDS
        self.only = arguments.only
        self.n, self.n_wrong, self.slowest, self.peak_mib = collections.Counter(), 0, (0, ""), 0

    def skips(self, case):
        return self.only is not None and self.only not in case

    def check(self, kind, case, expected, got, said, words, seconds, left):
        """`left`: what is there that was not before."""
        self.n[kind] += 1
        self.slowest = max(self.slowest, (seconds, case))
        problems = []
        if expected != got:
            problems.append(f"{got} in place of {expected}")
        problems += [f"no word of '{word}'" for word in words if word not in said]
        if seconds > self.max_seconds:
            problems.append(f"took {seconds:.1f} s")
        if left:
            problems.append(f"left {left}")
        if problems:
            self.n_wrong += 1
            print(f"{kind} {case[:200]}: {'; '.join(problems)}; said: {said.strip()[:300]}", flush=True)

    def check_memory(self, what, mib):
        self.peak_mib = max(self.peak_mib, mib)
        if mib > MAX_MIB:
            self.n_wrong += 1
            print(f"{what} took {mib:.0f} MiB", flush=True)


class Server(workload.Service):
    """nerfd with its page, a scene `s`, queued and cancelled jobs, and a worker that has left."""

    def __init__(self, arguments):
        self.web = f"127.0.0.1:{workload.free_port()}"
        super().__init__(arguments.binaries, arguments.engine, arguments.folder, n_workers=0)
        self.connection = workload.Connection(self)
        made = workload.make_scene(self.connection, workload.small_scene(arguments.folder / "small"))
        stub = scene_service_pb2_grpc.SceneServiceStub(self.connection.channel)
        scene = stub.GetScene(scene_service_pb2.GetSceneRequest(name=made), metadata=self.connection.metadata)
        files = scene_service_pb2.Scene(files=scene.files)
        stub.CreateScene(scene_service_pb2.CreateSceneRequest(scene=files, scene_id="s"),
                         metadata=self.connection.metadata)
        stub.DeleteScene(scene_service_pb2.DeleteSceneRequest(name=made), metadata=self.connection.metadata)
        self.blob = scene.files[0].blob
        training = workload.JOB(training={"scene": "projects/default/scenes/s"})
        photograph = {"path": "a.jpg", "blob": self.blob}
        poses = workload.JOB(pose={"files": [photograph], "scene": "projects/default/scenes/posed"})
        for name, job in (("queued", training), ("done", training), ("posing", poses)):
            self.connection.call("CreateJob", job_service.CreateJobRequest(job=job, job_id=name))
        self.connection.call("CancelJob",
                             job_service.CancelJobRequest(name="projects/default/jobs/done"))
        self.tokens = self.make_tokens()
        self.words = {
            "$P": "projects/default", "$SHA": SHA, "$UUID": UUID, "$BIG": 200 * "x", "$LONG": 20000 * "a",
            "$BLOB": self.blob.sha256, "$SIZE": f"{self.blob.size_bytes:.0f}", "$ORBIT": "orbit{count:8}",
            "$POSE": "transform_matrix:[1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1]",
            "$BARE": f"sha256:'{self.blob.sha256}' size_bytes:{self.blob.size_bytes:.0f}",
            "$TOKEN": f"Authorization: Bearer {self.tokens['admin']}\r\n",
            "$TUS": "Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\n",
            "$END": "Content-Length: 2\r\n\r\n{}"}
        self.words["$REF"] = f"blob{{{self.words['$BARE']}}}"
        self.words["$CAMERA"] = f"camera{{width:8 height:8 fl_x:10 {self.words['$POSE']}}}"
        self.words["$POST"] = ("POST /nerf.v1.JobService/ListJobs HTTP/1.1\r\nHost: localhost\r\n"
                               f"Content-Type: application/json\r\n{self.words['$TOKEN']}")
        send(self, "WorkerService/Synchronize@worker", "hello{worker_id:'w'} draining:true")
        while not any("worker_keys\" VALUES" in row for row in self.state()):
            time.sleep(0.05)

    def spawn(self, name, arguments):
        return super().spawn(name, [*arguments, "--web-listen", self.web])

    def make_tokens(self):
        admin = admin_service_pb2_grpc.AdminServiceStub(self.connection.channel)

        def make(role, project="projects/default"):
            token = admin_service_pb2.Token(role=role, project=project)
            return admin.CreateToken(admin_service_pb2.CreateTokenRequest(token=token),
                                     metadata=self.connection.metadata)
        revoked = make("ADMIN", "")
        admin.DeleteToken(admin_service_pb2.DeleteTokenRequest(name=revoked.name), metadata=self.connection.metadata)
        return {"admin": self.connection.metadata[0][1].split()[1], "guess": "guess", "long": 4000 * "a",
                "unsigned": "eyJhbGciOiJub25lIn0.eyJyb2xlIjoiYWRtaW4ifQ.", "revoked": revoked.secret,
                "viewer": make("VIEWER").secret, "editor": make("EDITOR").secret,
                "other": make("ADMIN", "projects/other").secret,
                "worker": (self.data / "worker.token").read_text().strip()}

    def expand(self, text):
        for word in sorted(self.words, key=len, reverse=True):
            text = text.replace(word, self.words[word])
        return text

    def state(self):
        """All that may not change: the rows of the stores and the names of the files."""
        rows = []
        with tempfile.TemporaryDirectory(dir=self.folder) as copies:  # nerfd has the files locked
            for name in ("queue.db", "access.db"):
                for path in self.data.glob(f"{name}*"):
                    shutil.copy(path, copies)
                store = sqlite3.connect(f"{copies}/{name}")
                rows += [f"{name}: {row[:120]}" for row in store.iterdump()]
                store.close()
        return set(rows + listing(self.data))


def reason_of(error):
    """(reason, all that the error says)."""
    said, reason = error.details() or "", "-"
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            for detail in status_pb2.Status.FromString(value).details:
                info, fields = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
                if detail.Unpack(info):
                    reason = info.reason
                if detail.Unpack(fields):
                    said += "".join(f"\n{field.field}: {field.description}" for field in fields.field_violations)
    return reason, said


def request_type(path):
    service, method = path.strip("/").split("/")
    try:
        found = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
    except KeyError:
        return None, False, False
    kind = message_factory.MessageFactory().GetPrototype(found.input_type)
    options = descriptor_of(found)
    return kind, options.client_streaming, options.server_streaming


def descriptor_of(method):
    """Its form with the flags of streams."""
    copy = descriptor_pb2.ServiceDescriptorProto()
    method.containing_service.CopyToProto(copy)
    return next(one for one in copy.method if one.name == method.name)


def send(server, method, text):
    """Returns "CODE REASON", what was said, and the seconds it took."""
    method, _, who = method.partition("@")
    package = "google.bytestream" if method.startswith("ByteStream/") else "nerf.v1"
    path = f"/{package}.{method}"
    kind, streams_in, streams_out = request_type(path)
    if text.startswith("HEX:"):
        messages = [bytes.fromhex(text[4:])]
    else:
        messages = [text_format.Parse(part, kind()).SerializeToString() for part in text.split("---")]
    metadata = {"none": [], "basic": [("authorization", "Basic YTpi")]}.get(
        who, [("authorization", f"Bearer {server.tokens.get(who, server.tokens['admin'])}")])
    if who == "worker":
        metadata.append(("nerf-worker-key", "key"))
    make = getattr(server.connection.channel, f"{'stream' if streams_in else 'unary'}_"
                                              f"{'stream' if streams_out else 'unary'}")
    begin = time.monotonic()
    try:
        call = make(path)(iter(messages) if streams_in else messages[0], timeout=CALL_SECONDS, metadata=metadata)
        for _ in call if streams_out else []:
            pass
        return "OK -", "", time.monotonic() - begin
    except grpc.RpcError as error:
        reason, said = reason_of(error)
        return f"{error.code().name} {reason}", said, time.monotonic() - begin


def test_requests(checker, server):
    before = server.state()
    for method, expected, words, text in table("requests.txt", 4):
        case = f"{method} {{{text}}}"
        if checker.skips(case):
            continue
        got, said, seconds = send(server, method, server.expand(text))
        before, old = server.state(), before
        checker.check("request", case, expected, got, said, words_of(server.expand(words)), seconds,
                      sorted(before ^ old))
    check_server(checker, server)


def check_server(checker, server):
    status = pathlib.Path(f"/proc/{server.server.pid}/status").read_text()
    checker.check_memory("nerfd", int(status.split("VmHWM:")[1].split()[0]) / 1024)
    server.connection.call("ListJobs", job_service.ListJobsRequest())


def ask_http(address, request):
    """The first answer to bytes, to its end or to the end of its body."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=CALL_SECONDS) as connection:
        connection.sendall(request)
        answer = b""
        while True:
            head, _, body = answer.partition(b"\r\n\r\n")
            length = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
            if b"\r\n\r\n" in answer and (request.startswith(b"HEAD") or length and len(body) >= int(length[0])):
                break
            part = connection.recv(1 << 16)
            if not part:
                break
            answer += part
    text = answer.decode("latin-1")  # with the details, which are in base64
    return text + "".join(base64.b64decode(value + "==").decode("latin-1")
                          for value in re.findall(r'"value":"([^"]+)"', text))


def test_http(checker, server):
    before = server.state()
    for status, words, text in table("http.txt", 3):
        if checker.skips(text):
            continue
        request = server.expand(text).encode("latin-1").decode("unicode_escape").encode("latin-1")
        begin = time.monotonic()
        answer = ask_http(server.web, request)
        seconds = time.monotonic() - begin
        before, old = server.state(), before
        checker.check("HTTP", text, status, answer[9:12], answer, words_of(words), seconds, sorted(before ^ old))
    check_server(checker, server)


class Commands:
    """Runs programs in an empty folder, with an empty $HOME and $TMPDIR."""

    def __init__(self, arguments, token):
        self.binaries, self.empty = arguments.binaries.resolve(), arguments.folder / "empty"
        self.environment = {"PATH": os.environ["PATH"], "HOME": f"{self.empty}/home", "TMPDIR": f"{self.empty}/tmp",
                            "NERFCTL_TOKEN": token}
        self.logs = arguments.folder / "logs"
        for folder in (self.empty / "home", self.empty / "tmp", self.empty / "cwd", self.logs):
            folder.mkdir(parents=True)

    def run(self, checker, kind, case, words, expected, command, folder):
        """`folder` has the command's files."""
        program, *flags = shlex.split(command)
        before = set(listing(folder))
        begin = time.monotonic()
        with open(self.logs / "out", "wb") as out, open(self.logs / "err", "wb") as err:
            process = subprocess.Popen([self.binaries / program, *flags], stdin=subprocess.DEVNULL, stdout=out,
                                       stderr=err, env=self.environment, cwd=self.empty / "cwd")
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid != 0:
                    break
                if time.monotonic() > begin + CALL_SECONDS:
                    process.kill()
                time.sleep(0.002)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - begin
        said = "".join((self.logs / name).read_text(errors="replace") for name in ("err", "out"))
        got = str(process.returncode)
        if expected == "*" and 0 < process.returncode < 100:
            expected = got
        checker.check_memory(case, usage.ru_maxrss / 1024)
        left = sorted(set(listing(folder)) ^ before) + [
            name for name in listing(self.empty) if name not in ("home", "tmp", "cwd")]
        if "new/pose.txt" in left:  # the report of photographs without poses is meant to stay
            left = [name for name in left if name not in REPORT]
        checker.check(kind, case, expected, got, said, words_of(words), seconds, left)


def make_input(arguments, files):
    """A folder with a good scene, model and camera."""
    folder = arguments.folder / "in"
    (folder / "scene").mkdir(parents=True)
    frames = []
    for i in range(4):
        (folder / f"scene/{i}.png").write_bytes(files.png(20, 20))
        frames.append(files.frame(f"{i}.png", files.with_cell(0, 3, i / 4)))
    (folder / "scene/transforms.json").write_bytes(files.scene(*frames))
    (folder / "text.txt").write_text("hello\n")
    subprocess.run([arguments.binaries / "nerf-engine", "train", folder / "scene", "--out", folder / "out", "--steps",
                    "2", "--set", "log2_hashmap_size=12", "--set", "grid_resolution=32", "--no-eval", "--background",
                    "white"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (folder / "out/model.safetensors").rename(folder / "m.safetensors")
    return folder


def test_commands(checker, server, commands, folder):
    for i, (code, words, command) in enumerate(table("commands.txt", 3)):
        if checker.skips(command):
            continue
        for name, value in [("$IN", folder), ("$NEW", folder / f"new-{i}"), ("$SERVER", f"--server {server.address}")]:
            command = command.replace(name, str(value))
        commands.run(checker, "command", command, words, code, command, folder)


def test_files(checker, commands, files, arguments):
    model = (arguments.folder / "in/m.safetensors").read_bytes()
    for i, (name, contents, command, code, words) in enumerate(files.cases(model, files.png(20, 20))):
        if checker.skips(name):
            continue
        folder = arguments.folder / f"files/{i}"
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        commands.run(checker, "file", name, words, str(code), f"nerf-engine {command}".replace("{}", str(folder)),
                     folder)


def test_lines(checker, arguments):
    ours, theirs = socket.socketpair()
    command = [arguments.binaries / "nerf-engine", "serve", "--json", "--fd", str(theirs.fileno())]
    engine = subprocess.Popen(command, pass_fds=[theirs.fileno()], stderr=subprocess.DEVNULL)
    theirs.close()
    ours.settimeout(CALL_SECONDS)
    answers = ours.makefile("r")
    assert "hello" in json.loads(answers.readline())
    for kind, words, line in table("lines.txt", 3):
        begin = time.monotonic()
        ours.sendall(line.encode() + b"\n")
        got = []
        while not got:
            answer = answers.readline()
            got = [said for said in json.loads(answer) if said in ("refused", "failed")]
        checker.check("line", line, kind, got[0], answer, words_of(words),
                      time.monotonic() - begin, [])
    ours.close()
    answers.close()
    _, _, usage = os.wait4(engine.pid, 0)
    engine.returncode = 0
    checker.check_memory("nerf-engine serve", usage.ru_maxrss / 1024)


def load_files():
    spec = importlib.util.spec_from_file_location("bad_files", CORPUS / "files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    parser = workload.service_flags()
    parser.add_argument("--strict", action="store_true", help="compare times with their limit, too")
    parser.add_argument("--only", help="cases that have this text")
    arguments = parser.parse_args()
    checker, files = Checker(arguments), load_files()
    server = Server(arguments)
    try:
        test_requests(checker, server)
        test_http(checker, server)
        commands = Commands(arguments, server.tokens["admin"])
        folder = make_input(arguments, files)
        test_commands(checker, server, commands, folder)
        test_files(checker, commands, files, arguments)
        if arguments.only is None:
            test_lines(checker, arguments)
    finally:
        server.end()
    n = sum(checker.n.values())
    print(f"{n} cases {dict(checker.n)}, {checker.n_wrong} wrong; the slowest took {checker.slowest[0]:.2f} s "
          f"({checker.slowest[1][:80]}), at most {checker.peak_mib:.0f} MiB")
    sys.exit(0 if checker.n_wrong == 0 and (arguments.only is not None or n >= MIN_CASES) else 1)


if __name__ == "__main__":
    main()
