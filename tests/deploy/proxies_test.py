#!/usr/bin/env python3
"""nginx and haproxy before a nerfd, with TLS on both sides, by the files of examples/proxies.

    proxies_test.py SOURCE_DIR BIN_DIR

Through each proxy: calls and streams of gRPC and of the page, whose events arrive one by one; an upload of many
messages; the page of another site refused; and a worker that trains a job. Then nerfd gets another certificate of its CA
while the proxies run. Exits 77, a visible skip, without either proxy or openssl.
"""
import hashlib
import http.client
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

SOURCE, BINARIES = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
# `scripts/setup.sh --test` unpacks the proxies here.
os.environ["PATH"] += f":{SOURCE}/build/tools/usr/sbin"
PATIENCE = 400  # seconds, on a loaded machine
UPLOAD_BYTES = 24 << 20
EVENT_SECONDS = 30  # until an event is here; a proxy that buffers sends none before the stream's end


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited too long: {what}")
        time.sleep(0.05)


class Stand:
    """A nerfd with TLS, and the proxies before it."""

    def __init__(self, folder):
        self.folder, self.processes, self.logs = folder, [], []
        self.environment = dict(os.environ, HOME=str(folder), XDG_STATE_HOME=str(folder / "state"))
        self.make_certificates()
        data = folder / "server"
        self.spawn("nerfd", BINARIES / "nerfd", "--data-dir", data, "--listen", "127.0.0.1:0", "--web-listen",
                   "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--no-local-worker", "--tls-cert",
                   folder / "certs/tls.crt", "--tls-key", folder / "certs/tls.key", "--web-origin",
                   "https://nerf.example.com")
        wait_until((data / "nerfd.ports").exists, "nerfd")
        served = json.loads((data / "nerfd.ports").read_text())
        assert served["page"] == f"https://{served['web']}/", served
        self.served, self.token = served, (data / "admin.token").read_text().strip()
        self.worker_token = data / "worker.token"
        # Not before nerfd has taken its own.
        self.web_ports = {name: free_port() for name in ("nginx", "haproxy")}
        self.grpc_ports = {name: free_port() for name in ("nginx", "haproxy")}

    def make_certificates(self):
        """Makes the certificate in a folder that certs/ links to."""
        certificates = self.folder / "certs"
        (self.folder / "certs-1").mkdir()
        certificates.symlink_to("certs-1")
        subprocess.run([SOURCE / "k8s/make_certificates.sh", certificates], check=True)
        (certificates / "proxy.crt").write_bytes((certificates / "tls.crt").read_bytes())
        (certificates / "proxy.key").write_bytes((certificates / "tls.key").read_bytes())
        (certificates / "proxy.pem").write_bytes(
            (certificates / "tls.crt").read_bytes() + (certificates / "tls.key").read_bytes())
        self.ca = certificates / "ca.crt"

    def renew_certificates(self):
        """Another certificate and key of the same CA, switched by a link (docs/run/security.md)."""
        fresh = self.folder / "certs-2"
        shutil.copytree(self.folder / "certs-1", fresh)
        subprocess.run([SOURCE / "k8s/make_certificates.sh", fresh], check=True)
        (self.folder / "certs-next").symlink_to(fresh.name)
        (self.folder / "certs-next").rename(self.folder / "certs")

    def serves_new_certificate(self):
        """Whether nerfd's ports show the certificate that its files hold now."""
        new = (self.folder / "certs/tls.crt").read_text()
        addresses = (self.served[port].rsplit(":", 1) for port in ("grpc", "web"))
        return all(ssl.get_server_certificate((host, int(port))) == new for host, port in addresses)

    def spawn(self, name, *command):
        log = self.folder / f"{name}.log"
        self.logs.append(log)
        with open(log, "ab") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=self.environment)
        self.processes.append(process)
        return process

    def start_proxy(self, name, config):
        """Starts a proxy by the file of examples/proxies, with this machine's ports and folders."""
        text = (SOURCE / "examples/proxies" / config).read_text()
        for folder in ("/etc/nginx/nerfd", "/etc/haproxy/nerfd"):
            text = text.replace(folder, str(self.folder / "certs"))
        for old, new in (("127.0.0.1:50051", self.served["grpc"]), ("127.0.0.1:8080", self.served["web"]),
                         ("listen 50443", f"listen 127.0.0.1:{self.grpc_ports[name]}"),
                         ("listen 443", f"listen 127.0.0.1:{self.web_ports[name]}"),
                         ("bind :50443", f"bind 127.0.0.1:{self.grpc_ports[name]}"),
                         ("bind :443", f"bind 127.0.0.1:{self.web_ports[name]}")):
            text = text.replace(old, new)
        path = self.folder / config
        if name == "nginx":
            text = text.replace("http {", "http {\n" + "".join(
                f"  {kind}_temp_path {self.folder}/{kind};\n" for kind in
                ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")) + "  access_log off;\n")
            path.write_text(f"daemon off;\nuser root;\npid {self.folder}/nginx.pid;\n" + text)
            self.spawn(name, "nginx", "-e", "stderr", "-p", self.folder, "-c", path)
        else:
            path.write_text(text)
            self.spawn(name, "haproxy", "-db", "-f", path)
        wait_until(lambda: is_open(self.grpc_ports[name]) and is_open(self.web_ports[name]), name)

    def command(self, name, progress, *arguments):
        """nerfctl over the proxy, and its environment."""
        return ([BINARIES / "nerfctl", "--server", f"localhost:{self.grpc_ports[name]}", "--ca", self.ca, "--progress",
                 progress, *arguments], dict(self.environment, NERFCTL_TOKEN=self.token))

    def ctl(self, name, *arguments):
        command, environment = self.command(name, "none", *arguments)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise RuntimeError(f"nerfctl {arguments}: {done.stderr}")
        return done.stdout

    def follow(self, name, job):
        """Follows a job; its states arrive on standard error."""
        command, environment = self.command(name, "plain", "job", "watch", job)
        return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def request(self, name, method, path, body=b"", origin=None, **headers):
        """A request of the page, with the response still to be read."""
        context = ssl.create_default_context(cafile=self.ca)
        connection = http.client.HTTPSConnection("localhost", self.web_ports[name], context=context, timeout=EVENT_SECONDS)
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        headers["Authorization"] = f"Bearer {self.token}"
        if origin is not None:
            headers["Origin"] = origin
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def call(self, proxy, method, origin=None, **request):
        return self.request(proxy, "POST", f"/nerf.v1.{method}", json.dumps(request), origin,
                            Content_Type="application/json")

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()

    def tail(self):
        return "\n".join(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}" for log in self.logs)


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def envelope(message):
    return struct.pack(">BI", 0, len(message)) + message


def read_event(response):
    flags, length = struct.unpack(">BI", response.read(5))
    return flags, json.loads(response.read(length))


def check_unary(stand, name):
    assert "watched" in stand.ctl(name, "job", "ls")
    response = stand.call(name, "AdminService/GetAccess")
    assert response.status == 200 and json.loads(response.read()), response.status
    page = stand.request(name, "GET", "/")
    assert b"<!doctype html>" in page.read()
    own, other = f"https://localhost:{stand.web_ports[name]}", "https://attacker.example"
    for origin, status in ((own, 200), (other, 403), (own.replace("https", "http"), 403)):
        assert stand.call(name, "AdminService/GetAccess", origin).status == status, origin


def check_streams(stand, name, job):
    """Events arrive one by one while the streams stay open, over the page's port and over gRPC."""
    watch = stand.request(name, "POST", "/nerf.v1.JobService/WatchJob",
                          envelope(json.dumps({"name": job}).encode()), Content_Type="application/connect+json")
    assert watch.status == 200, watch.read()
    assert read_event(watch)[1]["kind"] == "SNAPSHOT"
    follow = stand.follow(name, job)
    lines = queue.Queue()
    threading.Thread(target=lambda: [lines.put(line) for line in follow.stderr], daemon=True).start()

    def await_state(state):
        while read_event(watch)[1].get("job", {}).get("state") != state:
            pass
        while f" {state}" not in lines.get(timeout=EVENT_SECONDS):
            pass

    assert "QUEUED" in lines.get(timeout=EVENT_SECONDS)
    for verb, state in (("pause", "PAUSED"), ("resume", "QUEUED")) * 3:
        stand.ctl(name, "job", verb, job)
        await_state(state)
    follow.terminate()
    follow.wait()
    watch.close()


def check_upload(stand, name):
    content = os.urandom(1 << 16) * (UPLOAD_BYTES >> 16) + name.encode()
    blob = f"blobs/{hashlib.sha256(content).hexdigest()}/{len(content)}"
    sent = stand.request(name, "PATCH", f"/uploads/{uuid.uuid4()}/{blob}", content, Tus_Resumable="1.0.0",
                         Upload_Offset="0", Content_Type="application/offset+octet-stream")
    assert sent.status == 204, sent.read()
    assert stand.request(name, "GET", f"/{blob}").read() == content


def check_worker(stand, name):
    worker = stand.spawn(f"worker-{name}", BINARIES / "nerf-worker", "--server", f"localhost:{stand.grpc_ports[name]}",
                         "--ca", stand.ca, "--token-file", stand.worker_token, "--cache-dir", stand.folder / f"cache-{name}")
    # Sends the scene over gRPC, then follows the job to its end.
    stand.ctl(name, "train", SOURCE / "examples/mic", "--samples", "1M", "--seed", "1", "--id", f"by-{name}")
    job = json.loads(stand.call(name, "JobService/GetJob",
                                name=f"projects/default/jobs/by-{name}").read())
    assert job["state"] == "SUCCEEDED", job
    checkpoint = job["trainingStatus"]["checkpoints"][-1]["checkpointBlob"]
    assert float(checkpoint["sizeBytes"]) > 1e6, job  # sent over gRPC in many messages
    worker.terminate()
    worker.wait()


def main():
    proxies = [(name, config) for name, config in (("nginx", "nginx.conf"), ("haproxy", "haproxy.cfg"))
               if shutil.which(name)]
    if not proxies or not shutil.which("openssl"):
        print("SKIPPED: neither nginx nor haproxy, or no openssl")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends what was started
    with tempfile.TemporaryDirectory() as folder:
        stand = Stand(pathlib.Path(folder))
        try:
            for name, config in proxies:
                stand.start_proxy(name, config)
            first = proxies[0][0]
            stand.ctl(first, "scene", "create", SOURCE / "examples/mic", "--id", "mic")
            stand.ctl(first, "job", "create", "mic", "--id", "watched")
            for name, _ in proxies:
                check_unary(stand, name)
                check_streams(stand, name, "projects/default/jobs/watched")
                check_upload(stand, name)
                print(f"{name}: calls, streams and uploads pass", flush=True)
            stand.ctl(first, "job", "cancel", "watched")
            for name, _ in proxies:
                check_worker(stand, name)
                print(f"{name}: a worker has trained through it", flush=True)
            stand.renew_certificates()
            wait_until(stand.serves_new_certificate, "the new certificate")
            for name, _ in proxies:
                check_unary(stand, name)
            print("nerfd has another certificate, and the proxies go on")
        except BaseException:
            print(stand.tail())
            raise
        finally:
            stand.end()
    for name in ("nginx", "haproxy"):
        if name not in dict(proxies):
            print(f"not tried: {name}, which is not installed")


if __name__ == "__main__":
    main()
