#!/usr/bin/env python3
"""Generates the Python stubs of proto/ as the package `_proto` below a folder.

    generate.py FOLDER

Needs protoc with grpc_python_plugin (protobuf-compiler-grpc), or grpcio-tools. The stubs import
each other by `nerfd._proto`, so that they meet no other package named `nerf` or `google.rpc`.
Where googleapis-common-protos is installed, its messages are used: a name may be registered once.
"""
import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMPORT = re.compile(r"^from (nerf\.v1|google\.(?:rpc|bytestream)) import ", re.MULTILINE)


def compiler():
    """The command that runs protoc with the plugin for gRPC."""
    plugin = shutil.which("grpc_python_plugin")
    if plugin and shutil.which("protoc"):
        return ["protoc", f"--plugin=protoc-gen-grpc={plugin}", "--grpc_out={out}"]
    if importlib.util.find_spec("grpc_tools"):
        return [sys.executable, "-m", "grpc_tools.protoc", "--grpc_python_out={out}"]
    sys.exit("generate.py: install protobuf-compiler and protobuf-compiler-grpc, or grpcio-tools")


def generate(folder):
    """Writes FOLDER/_proto anew."""
    protos = ROOT / "proto"
    if not (protos / "nerf/v1").is_dir():
        sys.exit(f"generate.py: no {protos}: build the package inside nerfd's source tree")
    public = ROOT / "third_party/googleapis"
    target = pathlib.Path(folder) / "_proto"
    with tempfile.TemporaryDirectory() as scratch:
        files = sorted([*public.glob("google/*/*.proto"), *protos.glob("nerf/v1/*.proto")])
        command = [part.format(out=scratch) for part in compiler()]
        subprocess.run([*command, f"-I{protos}", f"-I{public}", f"--python_out={scratch}",
                        f"--pyi_out={scratch}", *map(str, files)], check=True)
        shutil.rmtree(target, ignore_errors=True)
        for made in sorted(pathlib.Path(scratch).rglob("*.py*")):
            name = made.relative_to(scratch)
            text = IMPORT.sub(r"from nerfd._proto.\1 import ", made.read_text())
            if name.parts[0] == "google" and name.suffix == ".py":
                text = shared(".".join(name.with_suffix("").parts), text)
            path = target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for package in (target, *(path for path in target.rglob("*") if path.is_dir())):
        (package / "__init__.py").touch()


def shared(module, text):
    """A public message's module: the installed one, or else ours."""
    own = "".join(f"    {line}" if line.strip() else line for line in text.splitlines(True))
    return f"try:\n    from {module} import *\nexcept ImportError:\n{own}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    generate(sys.argv[1])
