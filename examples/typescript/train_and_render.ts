// A whole client of nerfd over HTTP: uploads a folder, trains it, watches, and renders (docs/use/web.md).
//   npm ci && npm run build && npm start -- FOLDER [--server http://127.0.0.1:8080] [--samples 1e6] [--out .]
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { createHash, randomUUID } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { ErrorInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { BlobService } from "./gen/nerf/v1/blob_service_pb.js";
import { Job_State as State, JobService, type Job } from "./gen/nerf/v1/job_service_pb.js";
import { ModelService } from "./gen/nerf/v1/model_service_pb.js";
import { RenderService } from "./gen/nerf/v1/render_service_pb.js";
import { SceneService } from "./gen/nerf/v1/scene_service_pb.js";
import { TrainingConfig_Background } from "./gen/nerf/v1/training_job_pb.js";

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    server: { type: "string", default: "http://127.0.0.1:8080" },
    samples: { type: "string", default: "1e6" },
    out: { type: "string", default: "." },
  },
});
// $NERFCTL_TOKEN, else that of nerfd's own data folder.
const folder = process.env.XDG_DATA_HOME || join(homedir(), ".local/share");
const token = process.env.NERFCTL_TOKEN || readFileSync(join(folder, "nerfd/admin.token"), "utf8").trim();
const bearer = { Authorization: `Bearer ${token}` };
const authorize: Interceptor = (next) => (request) => {
  request.header.set("Authorization", bearer.Authorization);
  return next(request);
};
const transport = createConnectTransport({ baseUrl: flags.server, useBinaryFormat: true, interceptors: [authorize] });
const blobs = createClient(BlobService, transport);
const models = createClient(ModelService, transport);
const renders = createClient(RenderService, transport);
const scenes = createClient(SceneService, transport);
const jobs = createClient(JobService, transport);
const quick = { timeoutMs: 30_000 };

// tus 1.0. After a cut, HEAD of the same name gives the Upload-Offset to go on from.
async function upload(sha256: string, content: Uint8Array<ArrayBuffer>) {
  const response = await fetch(`${flags.server}/uploads/${randomUUID()}/blobs/${sha256}/${content.length}`, {
    method: "PATCH",
    headers: { ...bearer, "Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream" },
    body: content,
  });
  if (!response.ok) throw new Error(`upload: ${await response.text()}`);
}

async function makeScene(folder: string) {
  const contents = new Map<string, Uint8Array<ArrayBuffer>>(); // by digest; a large capture would be read when it is sent
  const files = [];
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const content = new Uint8Array(readFileSync(path));
    const sha256 = createHash("sha256").update(content).digest("hex");
    contents.set(sha256, content);
    files.push({ path: path.slice(join(folder, "/").length), blob: { sha256, sizeBytes: content.length } });
  }
  const { missing } = await blobs.findMissingBlobs({ blobs: files.map(({ blob }) => blob) }, quick);
  for (const { sha256 } of missing) await upload(sha256, contents.get(sha256)!);
  return scenes.createScene({ scene: { files }, requestId: randomUUID() }, quick);
}

const statusOf = ({ status }: Job) => (status.case === "trainingStatus" ? status.value : undefined);

// Follows a training to its end, over restarts of the server.
async function watch(name: string): Promise<Job> {
  for (let resumeToken = ""; ; await setTimeout(1000)) {
    try {
      for await (const message of jobs.watchJob({ name, resumeToken })) {
        resumeToken = message.resumeToken;
        const job = message.job; // unset with most bookmarks
        if (!job) continue;
        console.log(`${State[job.state]} ${((statusOf(job)?.progress?.fraction ?? 0) * 100).toFixed(0)}% ${job.wait?.message ?? ""}`);
        if ([State.SUCCEEDED, State.FAILED, State.CANCELLED].includes(job.state)) return job;
      }
    } catch (error) {
      const isCut = !(error instanceof ConnectError) || error.code === Code.Unavailable || error.cause instanceof TypeError;
      if (!isCut) throw error;
    }
  }
}

async function main() {
  const scene = await makeScene(positionals[0]!);
  const budget = { case: "samples" as const, value: Number(flags.samples) };
  const config = { budget, background: TrainingConfig_Background.WHITE };
  const created = await jobs.createJob({ job: { spec: { case: "training", value: { scene: scene.name, config } } }, requestId: randomUUID() }, quick);
  const job = await watch(created.name);
  if (job.state !== State.SUCCEEDED) throw new Error(`${job.name}: ${State[job.state]} ${job.error?.message}`);
  const model = await models.promoteCheckpoint({ name: `${job.name}/checkpoints/-` }, quick);
  const source = { case: "model" as const, value: model.name };
  const view = await renders.renderImage({ source, width: 200, height: 200, orbit: { index: 0, count: 8 } }, { timeoutMs: 600_000 });
  writeFileSync(join(flags.out, "view.png"), view.images[0]!.content);
  const file = await fetch(`${flags.server}/blobs/${model.blob!.sha256}/${model.blob!.sizeBytes}`, { headers: bearer });
  writeFileSync(join(flags.out, "model.safetensors"), new Uint8Array(await file.arrayBuffer()));
  console.log(`${model.name} PSNR ${statusOf(job)?.finalPsnr?.toFixed(2)} dB; wrote view.png and model.safetensors`);
}

main().catch((error: unknown) => {
  const failure = ConnectError.from(error);
  console.error(`${Code[failure.code]} ${failure.findDetails(ErrorInfoSchema)[0]?.reason ?? ""}: ${failure.rawMessage}`);
  process.exit(1);
});
