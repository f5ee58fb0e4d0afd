#!/usr/bin/env python3
"""Tests check_thread_safety.py: it compiles the sources of a batch one by one.

usage: tests/check_thread_safety_test.py

Exits 77 (a visible skip) without clang.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

WHOLE = "#include <string>\nint Length(const std::string& text) { return text.size(); }\n"
LEANING = "std::string Twice(const std::string& text) { return text + text; }\n"


def main():
    script = pathlib.Path(__file__).resolve().parent / "check_thread_safety.py"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name in ("tests", "common", "build/batches"):
            (root / name).mkdir(parents=True)
        shutil.copy(script, root / "tests")
        batch = root / "build/batches/common_0.cc"
        batch.write_text('#include "common/length.cc"\n#include "common/twice.cc"\n')
        command = f"/usr/bin/c++ -I{root} -std=c++20 -o common_0.o -c {batch}"
        (root / "build/compile_commands.json").write_text(
            json.dumps([{"file": str(batch), "command": command, "directory": str(root)}]))

        def check(twice):
            (root / "common/length.cc").write_text(WHOLE)
            (root / "common/twice.cc").write_text(twice)
            return subprocess.run([root / "tests/check_thread_safety.py", root / "build"],
                                  capture_output=True, text=True)

        good = check("#include <string>\n" + LEANING)
        if good.returncode == 77:
            print(good.stdout, end="")
            return 77
        leaning = check(LEANING)
        for run, code, words in ((good, 0, "2 sources"), (leaning, 1, "common/twice.cc\n")):
            if run.returncode != code or words not in run.stdout:
                print(f"expected exit code {code} and {words!r}; "
                      f"got {run.returncode}:\n{run.stdout}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
