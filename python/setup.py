"""Generates the stubs of proto/ into the package whenever it is built (generate.py)."""
import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import generate  # noqa: E402


class BuildWithStubs(build_py):
    def run(self):
        super().run()
        if not self.editable_mode:
            generate.generate(pathlib.Path(self.build_lib) / "nerfd")


setup(cmdclass={"build_py": BuildWithStubs})
