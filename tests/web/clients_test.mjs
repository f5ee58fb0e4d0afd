// Other people's clients in Chromium against the built nerfd: connect-web, grpc-web and tus-js-client; pages of other origins.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { build } from "vite";
import { Nerfd, launchBrowser, source, step, waitFor } from "./harness.mjs";

const kinds = ["connect-json", "connect-proto", "grpc-web"];

async function bundle() {
  const output = await build({
    logLevel: "error",
    configFile: false,
    build: { write: false, minify: false, target: "es2022", lib: { entry: "clients_page.mjs", formats: ["iife"], name: "page" } },
  });
  return (Array.isArray(output) ? output[0] : output).output[0].code;
}

function descriptors(folder) {
  const out = join(folder, "descriptors");
  execFileSync("protoc", [
    `-I${source}/proto`,
    `-I${source}/third_party/googleapis`,
    "--include_imports",
    `--descriptor_set_out=${out}`,
    "google/rpc/error_details.proto",
    ...readdirSync(join(source, "proto/nerf/v1")).map((name) => `nerf/v1/${name}`),
  ]);
  return readFileSync(out).toString("base64");
}

// A server of empty pages: another origin.
async function otherOrigin() {
  const server = http.createServer((_, response) => response.setHeader("Content-Type", "text/html").end("<title>other</title>"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, origin: `http://127.0.0.1:${server.address().port}` };
}

const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const allowed = await otherOrigin();
const refused = await otherOrigin();
const nerfd = new Nerfd(["--no-local-worker", "--web-origin", allowed.origin]);
let browser;

async function createJob() {
  const blob = await nerfd.put("{}");
  const scene = await nerfd.call("SceneService/CreateScene", { scene: { files: [{ path: "transforms.json", blob }] } });
  return (await nerfd.createJob("training", { scene: scene.name, config: { steps: 10 } })).name;
}

async function openPage(url, script, set) {
  const context = await browser.newContext({ bypassCSP: true });
  const page = await context.newPage();
  await page.goto(url);
  await page.addScriptTag({ content: script });
  await page.evaluate(([each, token]) => window.clients.load(each, token), [set, nerfd.token]);
  return page;
}

async function run() {
  await nerfd.start();
  browser = await launchBrowser();
  const script = await bundle();
  const set = descriptors(nerfd.folder);
  const base = nerfd.url.replace(/\/$/, "");
  const page = await openPage(nerfd.url, script, set);
  const ask = (on, name, ...rest) => on.evaluate(([method, values]) => window.clients[method](...values), [name, rest]);
  const job = await createJob();
  const getJob = ["JobService/GetJob", "GetJobRequest", "Job"];

  for (const kind of kinds) {
    await step(`connect-web, ${kind}: unary, error, deadline, cancel, stream`, async () => {
      assert.deepEqual(await ask(page, "unary", kind, base, job), { name: job, state: 1 });
      const error = await ask(page, "error", kind, base);
      assert.equal(error.code, "NotFound");
      assert.equal(error.reason, "RESOURCE_NOT_FOUND");
      assert.equal((await ask(page, "deadline", kind, base, job)).code, "DeadlineExceeded");
      assert.equal((await ask(page, "leave", kind, base, job)).code, "Canceled");
      assert.deepEqual((await ask(page, "stream", kind, base, await createJob())).at(-1), 9);
    });
  }

  const nWatchers = async () => Number(/^nerfd_watchers(?:{[^}]*})? (\d+)/m.exec(await (await fetch(`http://${nerfd.ports.metrics}/metrics`)).text())?.[1]);
  const allGone = () => waitFor("no watcher", async () => (await nWatchers()) === 0);
  await step("streams that were left are gone on the server", allGone);

  for (const format of ["text", "binary"]) {
    await step(`grpc-web's runtime, ${format}: unary, error with details`, async () => {
      assert.deepEqual(await ask(page, "grpcWeb", format, base, ...getJob, { name: job }), { name: job });
      const none = { name: "projects/default/jobs/none" };
      assert.deepEqual(await ask(page, "grpcWeb", format, base, ...getJob, none), { code: 5, reason: "RESOURCE_NOT_FOUND" });
    });
  }
  await step("grpc-web's runtime: stream, cancel, deadline", async () => {
    assert.deepEqual(await ask(page, "grpcWebStream", base, job, true), { kind: 1 });
    await allGone();
    assert.equal((await ask(page, "grpcWebStream", base, job, false, { deadline: String(Date.now() + 500) })).code, 4);
    await allGone();
  });

  await step("tus-js-client sends in parts and goes on after a cut", async () => {
    const text = "tus".repeat(200_000);
    const url = `${base}/uploads/${randomUUID()}/blobs/${sha256(text)}/${text.length}`;
    await fetch(url, {
      method: "PATCH",
      headers: { ...nerfd.bearer, "Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream" },
      body: text.slice(0, 150_000),
    });
    assert.equal(await ask(page, "upload", url, text, 100_000), "done");
    const blob = `${base}/blobs/${sha256(text)}/${text.length}`;
    assert.equal((await ask(page, "download", blob, {})).text, text);
    const part = await ask(page, "download", blob, { Range: "bytes=3-5" });
    assert.deepEqual([part.status, part.text], [206, "tus"]);
    const wrong = `${base}/uploads/${randomUUID()}/blobs/${sha256("other")}/${text.length}`;
    assert.match(await ask(page, "upload", wrong, text, 1e9), /^error/);
  });

  await step("pages of an allowed origin may do all this", async () => {
    const other = await openPage(allowed.origin, script, set);
    for (const kind of kinds) {
      assert.deepEqual(await ask(other, "unary", kind, base, job), { name: job, state: 1 });
      assert.equal((await ask(other, "error", kind, base)).reason, "RESOURCE_NOT_FOUND");
    }
    for (const format of ["text", "binary"]) assert.deepEqual(await ask(other, "grpcWeb", format, base, ...getJob, { name: job }), { name: job });
    assert.deepEqual(await ask(other, "grpcWebStream", base, job, true), { kind: 1 });
    const text = "from elsewhere";
    assert.equal(await ask(other, "upload", `${base}/uploads/${randomUUID()}/blobs/${sha256(text)}/${text.length}`, text, 5), "done");
    assert.equal((await ask(other, "download", `${base}/blobs/${sha256(text)}/${text.length}`, {})).text, text);
  });

  await step("pages of another origin may do nothing", async () => {
    const other = await openPage(refused.origin, script, set);
    for (const kind of kinds) {
      await assert.rejects(ask(other, "unary", kind, base, job));
    }
    assert.equal((await ask(other, "grpcWeb", "text", base, ...getJob, { name: job })).name, undefined);
    assert.match(await ask(other, "upload", `${base}/uploads/${randomUUID()}/blobs/${sha256("x")}/1`, "x", 5), /^error/);
    await assert.rejects(ask(other, "download", `${base}/blobs/${sha256("{}")}/2`, {}));
    // Without CORS a request may still be sent, and must not be obeyed.
    const before = (await nerfd.jobs()).map(({ state }) => state);
    await other.evaluate(
      async ([url, name]) => {
        const send = (type) => fetch(url, { method: "POST", mode: "no-cors", headers: { "Content-Type": type }, body: JSON.stringify({ name }) }).catch(() => {});
        await send("text/plain");
        await send("application/json");
        const form = document.createElement("form");
        form.method = "post";
        form.action = url;
        form.enctype = "text/plain";
        form.target = "_blank";
        document.body.append(form);
        form.submit();
      },
      [`${base}/nerf.v1.JobService/CancelJob`, job],
    );
    await other.waitForTimeout(300);
    assert.deepEqual((await nerfd.jobs()).map(({ state }) => state), before);
    // Nor may it frame the page.
    await other.setContent(`<iframe src="${nerfd.url}"></iframe>`);
    await other.waitForTimeout(300);
    assert.equal(await other.frames()[1]?.evaluate(() => document.querySelector("#app")?.childElementCount ?? 0).catch(() => 0), 0);
  });

  const curl = (type, method, body, ...flags) => {
    const headers = [`Authorization: ${nerfd.bearer.Authorization}`, `Content-Type: application/${type}`];
    return ["-sS", ...headers.flatMap((header) => ["-H", header]), ...flags, "--data-binary", body, `${base}/nerf.v1.${method}`];
  };
  const curlJson = (...rest) => JSON.parse(execFileSync("curl", curl("json", ...rest)));
  await step("curl calls in JSON: unary, error with details, deadline", async () => {
    assert.equal(curlJson("JobService/GetJob", JSON.stringify({ name: job })).name, job);
    const error = curlJson("JobService/GetJob", JSON.stringify({ name: "projects/default/jobs/none" }));
    assert.equal(error.code, "not_found");
    assert.equal(error.details[0].type, "google.rpc.ErrorInfo");
    assert.ok(Buffer.from(error.details[0].value, "base64").includes("RESOURCE_NOT_FOUND"));
    assert.equal(curlJson("JobService/ListJobs", "{}", "-H", "Connect-Timeout-Ms: 0").code, "deadline_exceeded");
  });

  await step("curl reads a stream and leaves it", async () => {
    const request = Buffer.from(JSON.stringify({ name: job }));
    const file = join(nerfd.folder, "envelope");
    writeFileSync(file, Buffer.concat([Buffer.from([0, 0, 0, 0, request.length]), request]));
    const reader = spawn("curl", curl("connect+json", "JobService/WatchJob", `@${file}`, "-N"));
    const first = await new Promise((resolve) => reader.stdout.once("data", resolve));
    assert.equal(first[0], 0);
    assert.equal(JSON.parse(first.subarray(5, 5 + first.readUInt32BE(1))).kind, "SNAPSHOT");
    await waitFor("a watcher", async () => (await nWatchers()) === 1);
    reader.kill();
    await allGone();
  });

  await step("curl with an origin: let in where it is allowed, refused elsewhere", async () => {
    const answer = (origin) => execFileSync("curl", ["-i", ...curl("json", "JobService/ListJobs", "{}", "-H", `Origin: ${origin}`)]).toString();
    assert.match(answer(allowed.origin), new RegExp(`^HTTP/1.1 200[^]*\nAccess-Control-Allow-Origin: ${allowed.origin}\r`, "i"));
    assert.match(answer(refused.origin), /^HTTP\/1.1 403/);
    assert.doesNotMatch(answer(refused.origin), /Access-Control/i);
  });
}

try {
  await run();
} catch (error) {
  console.error(error);
  process.exitCode = 1;
} finally {
  await browser?.close();
  await nerfd.end();
  for (const { server } of [allowed, refused]) {
    server.close();
    server.closeAllConnections();
  }
}
