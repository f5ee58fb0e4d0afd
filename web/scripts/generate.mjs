// Writes src/gen: the messages and services of the protos, by protoc and protoc-gen-es, and the names of the engine's readers.
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { folderNames } from "./folder_names.mjs";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const source = process.env.NERF_SOURCE ?? dirname(web);
const out = join(web, "src/gen");
const services = readdirSync(join(source, "proto/nerf/v1"))
  .filter((name) => name.endsWith(".proto") && name !== "worker_service.proto")
  .sort()
  .map((name) => `nerf/v1/${name}`);
rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
execFileSync(
  "protoc",
  [
    `-I${join(source, "proto")}`,
    `-I${join(source, "third_party/googleapis")}`,
    `--plugin=protoc-gen-es=${join(web, "node_modules/.bin/protoc-gen-es")}`,
    `--es_out=${out}`,
    "--es_opt=target=ts",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
    ...services,
  ],
  { stdio: "inherit" },
);
writeFileSync(join(out, "folder_names.ts"), folderNames(source));
