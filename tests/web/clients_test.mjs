// Other people's clients in Chromium against the built nerfd: connect-web, grpc-web and tus-js-client; pages of other origins.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
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

async function put(text) {
  const digest = sha256(text);
  const response = await fetch(`${nerfd.url}uploads/${randomUUID()}/blobs/${digest}/${text.length}`, {
    method: "PATCH",
    headers: { ...nerfd.bearer, "Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream" },
    body: text,
  });
  assert.equal(response.status, 204);
  return { sha256: digest, sizeBytes: text.length };
}

async function createJob() {
  const blob = await put("{}");
  const scene = await nerfd.call("SceneService/CreateScene", { scene: { files: [{ path: "transforms.json", blob }] } });
  return (await nerfd.call("TrainingService/CreateTrainingJob", { trainingJob: { scene: scene.name, config: { steps: 10 } } })).name;
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

  await step("streams that were left are gone on the server", async () => {
    await waitFor("no watcher", async () => /^nerfd_watchers(?:{[^}]*})? 0/m.test(await (await fetch(`http://${nerfd.ports.metrics}/metrics`)).text()));
  });

  for (const format of ["text", "binary"]) {
    await step(`grpc-web's runtime, ${format}`, async () => {
      const method = "TrainingService/GetTrainingJob";
      const types = ["GetTrainingJobRequest", "TrainingJob"];
      assert.deepEqual(await ask(page, "grpcWeb", format, base, method, ...types, { name: job }), { name: job });
      assert.equal((await ask(page, "grpcWeb", format, base, method, ...types, { name: "none" })).code, 3);
    });
  }
  await step("grpc-web's runtime, stream", async () => {
    assert.deepEqual(await ask(page, "grpcWebStream", base, job), { kind: 1 });
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
    const text = "from elsewhere";
    assert.equal(await ask(other, "upload", `${base}/uploads/${randomUUID()}/blobs/${sha256(text)}/${text.length}`, text, 5), "done");
    assert.equal((await ask(other, "download", `${base}/blobs/${sha256(text)}/${text.length}`, {})).text, text);
  });

  await step("pages of another origin may do nothing", async () => {
    const other = await openPage(refused.origin, script, set);
    for (const kind of kinds) {
      await assert.rejects(ask(other, "unary", kind, base, job));
    }
    await assert.rejects(ask(other, "download", `${base}/blobs/${sha256("{}")}/2`, {}));
    // Without CORS a request may still be sent, and must not be obeyed.
    const before = (await nerfd.call("TrainingService/ListTrainingJobs")).trainingJobs.map(({ state }) => state);
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
      [`${base}/nerf.v1.TrainingService/CancelTrainingJob`, job],
    );
    await other.waitForTimeout(300);
    assert.deepEqual((await nerfd.call("TrainingService/ListTrainingJobs")).trainingJobs.map(({ state }) => state), before);
    // Nor may it frame the page.
    await other.setContent(`<iframe src="${nerfd.url}"></iframe>`);
    await other.waitForTimeout(300);
    assert.equal(await other.frames()[1]?.evaluate(() => document.querySelector("#app")?.childElementCount ?? 0).catch(() => 0), 0);
  });

  await step("curl calls in JSON", async () => {
    const bearer = ["-H", `Authorization: ${nerfd.bearer.Authorization}`];
    const output = execFileSync("curl", ["-sS", ...bearer, "-H", "Content-Type: application/json", "-d", JSON.stringify({ name: job }), `${base}/nerf.v1.TrainingService/GetTrainingJob`]);
    assert.equal(JSON.parse(output).name, job);
    const deadline = execFileSync("curl", ["-sS", ...bearer, "-H", "Content-Type: application/json", "-H", "Connect-Timeout-Ms: 0", "-d", "{}", `${base}/nerf.v1.TrainingService/ListTrainingJobs`]);
    assert.equal(JSON.parse(deadline).code, "deadline_exceeded");
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
