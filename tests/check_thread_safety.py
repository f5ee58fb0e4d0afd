#!/usr/bin/env python3
"""Checks the lock annotations of every product source with clang's -Wthread-safety.
Each source is compiled by itself, also where the build compiles batches (cmake/NerfBatches.cmake):
one that leans on its neighbors' includes fails.

usage: tests/check_thread_safety.py BUILD_DIR [PATH_PART...]

Takes the commands of BUILD_DIR/compile_commands.json; the generated headers must be built. With
PATH_PARTs only sources whose path contains one of them are checked. gcc does not know the
annotations, so that a release build alone does not look at them. Exits 0 when all are right, 1 with
clang's messages, 77 (a visible skip) without clang. With ccache only what has changed is compiled:
to unoptimized LLVM code, since ccache keeps no result without a file.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

FOLDERS = ("common", "engine", "server", "worker", "client")
CHECKS = ["-Wno-everything", "-Wthread-safety", "-Werror=thread-safety"]
# LibTorch 1.13's headers do not compile with clang 14 as C++20, and engine/methods/autograd holds
# no lock.
LEFT_OUT = "engine/methods/autograd/"


def find_clang():
    for name in ("clang++-16", "clang++-14", "clang++"):
        if path := shutil.which(name):
            return path
    return None


def sources(entry, root):
    """The sources of one entry with the command of each: a batch's are the files it includes."""
    path = pathlib.Path(entry["file"])
    if path.parent.name != "batches":
        yield path, entry["command"]
        return
    for name in re.findall(r'^#include "(.+\.cc)"$', path.read_text(), re.MULTILINE):
        source = root / name
        if source.is_file():  # generated sources lie elsewhere
            yield source, entry["command"].replace(str(path), str(source))


def clang_command(clang, command, output):
    """The command of one source as clang's: without the build's launcher and output, our checks."""
    words = shlex.split(command)
    first = next(i for i, word in enumerate(words) if word.startswith("-"))
    kept, i = [], first
    while i < len(words):
        if words[i] == "-o":
            i += 2
            continue
        if words[i] != "-c":
            kept.append(words[i])
        i += 1
    if ccache := shutil.which("ccache"):
        made = ["-O0", "-emit-llvm", "-c", "-o", output]
        return [ccache, clang, *kept, *made, *CHECKS]
    return [clang, *kept, "-fsyntax-only", *CHECKS]


def check(clang, entry, folder):
    output = f"{folder}/{entry['file'].replace('/', '.')}.bc"
    run = subprocess.run(clang_command(clang, entry["command"], output), cwd=entry["directory"],
                         capture_output=True, text=True)
    pathlib.Path(output).unlink(missing_ok=True)
    return entry["file"], run.returncode, run.stdout + run.stderr


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    clang = find_clang()
    if clang is None:
        print("SKIPPED: no clang++ (scripts/setup.sh --test installs it)")
        return 77
    root = pathlib.Path(__file__).resolve().parent.parent
    entries = {}
    for entry in json.loads((pathlib.Path(sys.argv[1]) / "compile_commands.json").read_text()):
        for path, command in sources(entry, root):
            if not path.is_relative_to(root) or path.suffix != ".cc":
                continue
            name = path.relative_to(root).as_posix()
            wanted = sys.argv[2:]
            if name.split("/")[0] not in FOLDERS or name.startswith(LEFT_OUT):
                continue
            if not wanted or any(word in name for word in wanted):
                entries.setdefault(name, {"file": name, "command": command,
                                          "directory": entry["directory"]})
    start, failed = time.monotonic(), 0
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        for file, code, output in pool.map(lambda entry: check(clang, entry, folder),
                                           entries.values()):
            if code != 0:
                failed += 1
                print(f"{file}\n{output}", end="", flush=True)
    print(f"thread safety: {len(entries)} sources with {os.path.basename(clang)}, {failed} wrong, "
          f"{time.monotonic() - start:.0f} s")
    return 1 if failed or not entries else 0


if __name__ == "__main__":
    sys.exit(main())
