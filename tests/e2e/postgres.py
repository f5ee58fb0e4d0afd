"""A PostgreSQL of a test's own, on a Unix socket, as an unprivileged user where it runs as root."""
import atexit
import os
import pathlib
import signal
import subprocess
import time

BIN = pathlib.Path(os.environ.get("NERF_POSTGRES_BIN", "/usr/lib/postgresql/15/bin"))
NOBODY = 65534


class Postgres:
    """Its folder must be one that other users may enter. Ends with the program."""

    def __init__(self, folder):
        self.folder, self.socket, self.server = folder, folder / "socket", None
        folder.mkdir()
        for name in ("data", "socket"):
            (folder / name).mkdir(mode=0o700)
            if os.getuid() == 0:
                os.chown(folder / name, NOBODY, NOBODY)
        folder.chmod(0o711)
        self.program("initdb", "-D", folder / "data", "-U", "nerfd", "-A", "trust", "-E", "UTF8",
                     "--locale=C")
        self.uri = f"postgresql://nerfd@/nerfd?host={self.socket}"
        atexit.register(self.end)
        self.start()
        self.program("createdb", "-h", self.socket, "-U", "nerfd", "nerfd")

    def spawn(self, name, *arguments, **options):
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        return subprocess.Popen([BIN / name, *arguments], cwd=self.folder, **user, **options)

    def program(self, name, *arguments):
        """The output of a program that succeeds."""
        process = self.spawn(name, *arguments, stdout=subprocess.PIPE)
        output = process.communicate()[0].decode()
        if process.returncode != 0:
            raise RuntimeError(f"{name} failed")
        return output

    def start(self):
        log = open(self.folder / "server.log", "ab")
        self.server = self.spawn("postgres", "-D", self.folder / "data", "-k", self.socket, "-h",
                                 "", "-c", "jit=off", stdout=log, stderr=log)
        while self.spawn("pg_isready", "-q", "-h", self.socket, "-U", "nerfd").wait() != 0:
            if self.server.poll() is not None:
                raise RuntimeError("PostgreSQL has ended")
            time.sleep(0.02)

    def kill(self):
        """As a crash: what is committed is in the log alone."""
        self.server.send_signal(signal.SIGQUIT)
        self.server.wait()

    def rows(self, sql):
        """Of a query whose values have no bars."""
        text = self.program("psql", "-h", self.socket, "-U", "nerfd", "-d", "nerfd", "-AtX", "-c",
                            sql)
        return [line.split("|") for line in text.splitlines()]

    def end(self):
        if self.server is not None and self.server.poll() is None:
            self.kill()
