#!/usr/bin/env python3
"""Runs the commands of docs/run and docs/use.

    docs_commands.py SOURCE_DIR BIN_DIR [DOCUMENT...]

A command block is one between ``` in which a line begins with a prompt: "$ ", "# " or a machine's
name before either. A line before the block may say why it is not run:

    <!-- untried: REASON -->      none of it
    <!-- untried #: REASON -->    the lines with this prompt

All others have to end with exit code 0. They share a folder, in which `fox` is examples/mic, and a
nerfd with a worker of its own, with a model `mic` and a job `mine`. SHORTER makes long ones short
and copies to another machine local.
Flags of our programs have to exist in blocks that are not run, too. A line that begins with one of
them and has no prompt is a mistake: nobody would run it.
"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

BLOCK = re.compile(r"(?:^<!-- untried ?(?P<prompt>[^:\s]*): (?P<reason>[^>]+) -->\n+)?"
                   r"^```\w*\n(?P<text>.*?)^```", re.M | re.S)
PROMPT = re.compile(r"^(\w*[$#]) (.*)$")
PROGRAMS = ("nerfd", "nerf-worker", "nerf-engine", "nerfctl")
SHORTER = [(r"--steps \S+", "--steps 40"),
           (r"--samples \S+", "--samples 1M"), (r"(ablate .*)--samples \S+", r"\1--samples 20K"),
           (r"--frames \d+", "--frames 2"), (r"--channels", "--frames 2 --channels"),
           (r"--seeds \d+", "--seeds 1"), (r"--texture \d+", "--texture 1024 --resolution 32"),
           (r"--width \d+ --height \d+", "--width 40 --height 40"),
           # Away to another machine, which is this one.
           (r"rsync -a (\S+)/ backup\.example\.com:nerfd/(\S+)/", r"cp -aT \1 \2")]
SECONDS = 120  # of one command, on a busy machine


def blocks_of(text):
    """(line, prompt that is not run or None, reason, [(prompt, command)]) of each command block."""
    for block in BLOCK.finditer(text):
        commands, here_end = [], None
        for line in block["text"].replace("\\\n", " ").splitlines():
            if here_end:
                commands[-1] = (commands[-1][0], f"{commands[-1][1]}\n{line}")
                here_end = None if line == here_end else here_end
                continue
            found = PROMPT.match(line)
            if found:
                commands.append(found.groups())
                here = re.search(r"<<(\w+)", found[2])
                here_end = here and here[1]
        if commands:
            line = text.count("\n", 0, block.start("text"))
            yield line, block["prompt"], block["reason"], commands


def bare_of(text):
    """(line, text) of each line of a block that begins with a program of ours and has no prompt."""
    is_fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            is_fenced = not is_fenced
        elif (is_fenced or line.startswith("    ")) and line.split()[:1] and \
                line.split()[0] in PROGRAMS:
            yield number, line


class World:
    """The folder, the server and what commands name."""

    def __init__(self, source, binaries, folder):
        self.source, self.binaries, self.folder = source, binaries, folder
        self.data = folder / "home/.local/share/nerfd"
        self.names = {}
        (folder / "examples").symlink_to(source / "examples")
        (folder / "fox").symlink_to(source / "examples/mic")
        (folder / "model.safetensors").symlink_to("run/model.safetensors")  # of compare.md
        self.environment = {
            "HOME": str(folder / "home"), "PATH": f"{binaries}:/usr/local/bin:/usr/bin:/bin",
            "NERFD_LISTEN": "127.0.0.1:0", "NERFD_METRICS_LISTEN": "127.0.0.1:0",
            "NERFD_WEB_LISTEN": "127.0.0.1:0", "NERFD_SHUTDOWN_DELAY": "0s",
            "LC_ALL": "C.UTF-8"}
        self.server = self.serve("nerfd", self.data)
        self.ports = json.loads((self.data / "nerfd.ports").read_text())
        self.environment["NERFCTL_SERVER"] = self.ports["grpc"]

    def serve(self, command, data):
        """A nerfd that has begun to serve."""
        log = open(self.folder / "nerfd.log", "ab")
        process = subprocess.Popen(f"exec {command}", shell=True, cwd=self.folder,
                                   env=self.environment, stdout=log, stderr=log)
        deadline = time.monotonic() + SECONDS
        while not (data / "nerfd.ports").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self.folder / "nerfd.log").read_text()[-2000:])
            time.sleep(0.05)
        return process

    def stop(self, process):
        process.terminate()
        return process.wait(SECONDS)

    def in_this_world(self, command):
        for pattern, short in SHORTER:
            command = re.sub(pattern, short, command)
        for name, value in {**self.names, "http://127.0.0.1:8080": f"http://{self.ports['web']}",
                            "/var/lib/nerfd": str(self.data)}.items():
            command = command.replace(name, value)
        return command

    def run(self, command):
        """None, or what is wrong."""
        command = self.in_this_world(command)
        words = shlex.split(command, comments=True)
        if words == ["nerfd"]:
            return None  # it runs
        serves = words[0] == "nerfd" and "--check-backup" not in words
        if serves and "--data-dir" not in words:
            return "two servers on one folder: name --data-dir, or say why it is not run"
        if serves:
            data = self.folder / words[words.index("--data-dir") + 1]
            try:
                code = self.stop(self.serve(command, data))
            except RuntimeError as error:
                return str(error)
            return f"exit code {code}" if code else None
        return self.execute(command)

    def execute(self, command):
        try:
            done = subprocess.run(command, shell=True, executable="/bin/bash", cwd=self.folder,
                                  env=self.environment, stdin=subprocess.DEVNULL, text=True,
                                  capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"took longer than {SECONDS} s"
        # What a later command names by an id of the document.
        for document_id in ("t-7f3k2c81", "sh-7f3k2c81"):
            kind = document_id.split("-")[0]
            made = re.search(rf"\b{kind}-[a-z0-9]{{8}}\b", done.stderr)
            if made and " create " in command:
                self.names[document_id] = made[0]
        return None if done.returncode == 0 else \
            f"exit code {done.returncode}: {(done.stdout + done.stderr)[-600:]}"


def unknown_flags(binaries, command):
    """Flags of our programs in a command that --help does not know."""
    unknown = []
    for part in re.split(r"[|;&\n]", re.sub(r"\s#\s.*", "", command)):
        words = part.replace("[", "").replace("]", "").split()
        while words and "=" in words[0]:
            words.pop(0)
        if not words or words[0] not in PROGRAMS:
            continue
        command_words = [words[0]]
        for word in words[1:4]:
            if not re.fullmatch(r"[a-z-]+", word) or word.startswith("-"):
                break
            command_words.append(word)
        text = ""
        for n in range(len(command_words), 0, -1):
            shown = subprocess.run([binaries / command_words[0], *command_words[1:n], "--help"],
                                   capture_output=True, text=True)
            if shown.returncode == 0:
                text += shown.stdout
        for word in words[1:]:
            flag = word.split("=")[0]
            if flag.startswith("--") and not re.search(rf"{flag}\b(?!-)", text):
                unknown.append(f"no flag {flag} of {words[0]}")
    return unknown


def check(world, binaries, name, text):
    """Problems of a document, and how many commands were run."""
    problems, n_run = [f"{name}:{line}: no prompt: {bare}" for line, bare in bare_of(text)], 0
    for line, prompt, reason, commands in blocks_of(text):
        for sign, command in commands:
            where = f"{name}:{line}: {command.splitlines()[0]}"
            problems += [f"{where}: {wrong}" for wrong in unknown_flags(binaries, command)]
            if reason and prompt in ("", sign):
                continue
            began = time.monotonic()
            wrong = world.run(command)
            n_run += 1
            print(f"{time.monotonic() - began:6.1f} s  {where}", flush=True)
            if wrong:
                problems.append(f"{where}: {wrong}")
    return problems, n_run


PLANTED = """```
$ nerfctl job ls --limt 3
```
<!-- untried: another machine -->
```
server$ nerfd --lisen 0.0.0.0:1
```
<!-- untried #: root -->
```
# false
$ false
```
    nerfctl job ls
"""


def main():
    source, binaries = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
    documents = [pathlib.Path(word) for word in sys.argv[3:]] or \
        sorted((source / "docs/run").glob("*.md")) + sorted((source / "docs/use").glob("*.md"))
    for tool in ("curl", "ffmpeg"):
        if shutil.which(tool) is None:
            print(f"SKIPPED: no {tool}")
            return 77
    if subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True).returncode:
        print("SKIPPED: no numpy")
        return 77
    problems, n_run = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        world = World(source, binaries, pathlib.Path(scratch))
        try:
            for command in ("nerfctl train examples/mic --samples 1M --id mine",
                            "nerfctl model promote mine --id mic"):
                wrong = world.execute(command)
                if wrong:
                    raise SystemExit(f"FAIL: {command}: {wrong}")
            world.names["j-7f3k2c81"] = "mine"
            keyframes = re.search(r"```\n(\{\"keyframes\".*?)```",
                                  (source / "docs/use/render-jobs.md").read_text(), re.S)
            (world.folder / "path.json").write_text(keyframes[1])
            for file in documents:
                found, n = check(world, binaries, file.name, file.read_text())
                problems, n_run = problems + found, n_run + n
            planted = check(world, binaries, "planted", PLANTED)[0]
            if [p.split(":")[1] for p in planted] != ["13", "1", "1", "5", "9"]:
                problems.append(f"mistakes that were planted: {planted}")
        finally:
            world.stop(world.server)
    for problem in problems:
        print(f"FAIL: {problem}")
    print(f"{n_run} commands of {len(documents)} documents, {len(problems)} problems")
    return 1 if problems or n_run == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
