// The built nerfd with its worker on a folder of its own, Debian's Chromium, and a line between them that can be cut.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const source = process.env.NERF_SOURCE;
export const binaries = process.env.NERF_BINARIES;
assert.ok(source && binaries, "NERF_SOURCE and NERF_BINARIES name the sources and the built binaries");

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Polls `condition` until it holds; fails with `what` otherwise.
export async function waitFor(what, condition, timeoutMs = 120_000) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`waited ${timeoutMs / 1000} s in vain: ${what}`);
    await sleep(50);
  }
}

const kinds = ["training", "render", "pose", "export"];
const flat = (job) => Object.assign({}, job, ...kinds.flatMap((kind) => [job[kind], job[`${kind}Status`]]));

export class Nerfd {
  // env: of nerfd and its worker.
  constructor(flags = [], env = process.env) {
    this.env = env;
    this.folder = mkdtempSync(join(tmpdir(), "nerf-web-"));
    this.data = join(this.folder, "data");
    this.flags = flags;
    this.n = 0;
  }

  // Starts it, again on the ports that it had.
  async start() {
    const at = this.ports ?? { grpc: "127.0.0.1:0", metrics: "127.0.0.1:0", web: "127.0.0.1:0" };
    rmSync(join(this.data, "nerfd.ports"), { force: true });
    this.log = join(this.folder, `nerfd-${++this.n}.log`);
    const out = createWriteStream(this.log);
    await new Promise((resolve) => out.once("open", resolve));
    this.process = spawn(
      join(binaries, "nerfd"),
      ["--data-dir", this.data, "--listen", at.grpc, "--metrics-listen", at.metrics, "--web-listen", at.web, "--lease-ttl", "5s", "--checkpoint-interval", "1s", ...this.flags],
      { stdio: ["ignore", out, out], env: this.env },
    );
    this.exited = new Promise((resolve) => this.process.once("exit", resolve));
    const file = join(this.data, "nerfd.ports");
    await waitFor("nerfd to serve", () => this.process.exitCode !== null || existsSync(file), 30_000);
    assert.equal(this.process.exitCode, null, readFileSync(this.log, "utf8"));
    this.ports = JSON.parse(readFileSync(file, "utf8"));
    this.port = Number(this.ports.web.split(":").at(-1));
    this.url = `http://${this.ports.web}/`;
    this.token = readFileSync(join(this.data, "admin.token"), "utf8").trim();
    this.bearer = { Authorization: `Bearer ${this.token}` };
  }

  async kill(signal) {
    this.process.kill(signal);
    await this.exited;
  }

  // Ends it and its worker, also one that has outlived it.
  async end() {
    if (this.process?.exitCode === null && this.process.signalCode === null) await this.kill("SIGTERM");
    rmSync(this.folder, { recursive: true, force: true });
  }

  // A unary call in Connect's JSON.
  async call(method, request = {}) {
    const response = await fetch(`${this.url}nerf.v1.${method}`, { method: "POST", headers: { ...this.bearer, "Content-Type": "application/json" }, body: JSON.stringify(request) });
    const body = await response.json();
    assert.ok(response.ok, `${method}: ${JSON.stringify(body)}`);
    return body;
  }

  // A job by its name or, of the default project, its id; with what is to do and how far it is among its own fields.
  async job(of) {
    return flat(await this.call("JobService/GetJob", { name: of.includes("/") ? of : `projects/default/jobs/${of}` }));
  }

  // The same of all that a filter lets through, the newest first.
  async jobs(filter = "", parent = "") {
    return ((await this.call("JobService/ListJobs", { filter, parent })).jobs ?? []).map(flat);
  }

  // kind: "training", ...; common: what jobs of all kinds have.
  async createJob(kind, spec, common = {}) {
    return flat(await this.call("JobService/CreateJob", { job: { ...common, [kind]: spec } }));
  }

  // Uploads a blob; gives its reference.
  async put(text) {
    const sha256 = createHash("sha256").update(text).digest("hex");
    const response = await fetch(`${this.url}uploads/${randomUUID()}/blobs/${sha256}/${text.length}`, {
      method: "PATCH",
      headers: { ...this.bearer, "Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream" },
      body: text,
    });
    assert.equal(response.status, 204);
    return { sha256, sizeBytes: text.length };
  }
}

// A TCP line to `port`. cutAfter(n): the connection that carries the n-th byte from the client on is cut, once. Nothing passes
// while isDown.
export class Line {
  constructor(port) {
    this.port = port;
    this.nSent = 0;
    this.cutAt = Infinity;
    this.nCuts = 0;
    this.isDown = false;
    this.staysDown = false; // isDown from a cut on
    this.server = net.createServer((client) => {
      if (this.isDown) return client.destroy();
      const upstream = net.connect(this.port, "127.0.0.1");
      const cut = () => {
        client.destroy();
        upstream.destroy();
      };
      client.on("data", (bytes) => {
        if (this.isDown) return cut();
        this.nSent += bytes.length;
        if (this.nSent >= this.cutAt) {
          this.cutAt = Infinity;
          ++this.nCuts;
          this.isDown = this.staysDown;
          return cut();
        }
        if (!upstream.write(bytes)) {
          client.pause();
          upstream.once("drain", () => client.resume());
        }
      });
      upstream.on("data", (bytes) => client.write(bytes));
      for (const socket of [client, upstream]) {
        socket.on("error", cut);
        socket.on("close", cut);
      }
    });
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}/`;
  }
  cutAfter(nBytes) {
    this.cutAt = this.nSent + nBytes;
  }
  end() {
    this.server.close();
    this.server.closeAllConnections?.();
  }
}

export function launchBrowser() {
  return chromium.launch({
    executablePath: process.env.NERF_CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-dev-shm-usage"],
  });
}

export async function step(title, work) {
  const begun = Date.now();
  await work();
  console.log(`ok  ${((Date.now() - begun) / 1000).toFixed(1).padStart(6)} s  ${title}`);
}
