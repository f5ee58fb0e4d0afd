// Clients of nerfd's services, relative to where the page lies.
import { Code, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AdminService } from "../gen/nerf/v1/admin_service_pb";
import { BlobService } from "../gen/nerf/v1/blob_service_pb";
import type { BlobRef } from "../gen/nerf/v1/common_pb";
import { JobService } from "../gen/nerf/v1/job_service_pb";
import { ModelService } from "../gen/nerf/v1/model_service_pb";
import { RenderService } from "../gen/nerf/v1/render_service_pb";
import { SceneService } from "../gen/nerf/v1/scene_service_pb";
import { ViewService } from "../gen/nerf/v1/view_service_pb";
import { ErrorInfoSchema, BadRequestSchema } from "../gen/google/rpc/error_details_pb";
import { connection } from "./connection.svelte";
import { plain, urlNameOf } from "./format";
import { blobPrefix, blobPrefixOf, parent } from "./project";
import { access, bearer, noteRefused } from "./token.svelte";

export const base = new URL(".", document.baseURI).href.replace(/\/$/, "");

const authorize: Interceptor = (next) => (request) => {
  for (const [name, value] of Object.entries(bearer())) request.header.set(name, value);
  return next(request);
};

// Every answer says that nerfd is there, and an unanswered call that it is not.
const notice: Interceptor = (next) => async (request) => {
  try {
    const response = await next(request);
    connection.answered();
    return response;
  } catch (error) {
    noteDenied(error);
    if (isUnreachable(error)) connection.lost();
    else if (!(error instanceof ConnectError && error.code === Code.Canceled)) connection.answered();
    throw error;
  }
};

const transport = createConnectTransport({ baseUrl: base, useBinaryFormat: true, interceptors: [notice, authorize] });

export const admin = createClient(AdminService, transport);
export const blobs = createClient(BlobService, transport);
export const jobs = createClient(JobService, transport);
export const models = createClient(ModelService, transport);
export const render = createClient(RenderService, transport);
export const scenes = createClient(SceneService, transport);
export const views = createClient(ViewService, transport);

// For calls that end in milliseconds.
export const quick = { timeoutMs: 30_000 };

// Once the server refused this token, or the lack of one, the page goes on with the remembered one, or asks for one. Each time it is loaded
// anew one token is gone.
export function noteDenied(error: unknown) {
  if (!(error instanceof ConnectError) || error.code !== Code.Unauthenticated) return;
  if (noteRefused()) return location.reload();
  if (!access.isDenied) access.reason = reasonOf(error); // later calls have no token at all
  access.isDenied = true;
}

// Nobody answered: the network, a proxy, or a server that shuts down.
export function isUnreachable(error: unknown): boolean {
  if (error instanceof TypeError) return true;
  if (!(error instanceof ConnectError)) return false;
  if (error.cause instanceof TypeError) return true;
  return error.code === Code.Unavailable && ["", "DRAINING"].includes(reasonOf(error));
}

export function reasonOf(error: unknown): string {
  if (!(error instanceof ConnectError)) return "";
  return error.findDetails(ErrorInfoSchema)[0]?.reason ?? "";
}

// An error in words for people.
export function explain(error: unknown): string {
  if (isUnreachable(error)) return "nerfd does not answer.";
  if (!(error instanceof ConnectError)) return error instanceof Error ? plain(error.message) : String(error);
  const fields = error.findDetails(BadRequestSchema).flatMap((detail) => detail.fieldViolations);
  if (fields.length > 0) return fields.map(({ field, description }) => (field ? `${field}: ${description}` : description)).join("; ");
  return plain(error.rawMessage) || Code[error.code]!;
}

export function blobUrl(blob: BlobRef, fileName: string, prefix = blobPrefix): string {
  return `${base}${prefix}/blobs/${blob.sha256}/${blob.sizeBytes}?filename=${urlNameOf(fileName)}`;
}

export async function fetchBlob(blob: BlobRef, fileName: string, signal?: AbortSignal, prefix = blobPrefix): Promise<Blob> {
  const response = await fetch(blobUrl(blob, fileName, prefix), { headers: bearer(), signal: signal ?? null });
  if (response.status === 404) throw new Error(`the server has no ${fileName} any more`);
  if (!response.ok) throw new Error(`could not load ${fileName}: ${((await response.json().catch(() => ({}))) as { message?: string }).message ?? response.statusText}`);
  return response.blob();
}

export function saveAs(content: Blob, fileName: string) {
  const link = document.createElement("a");
  link.download = fileName;
  link.href = URL.createObjectURL(content);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // a browser may read it after the click
}

// Has the browser save a file: a link cannot carry the token, so it goes through the page's memory. `of`: a resource of the blob's project.
export async function saveBlob(blob: BlobRef, fileName: string, of = parent) {
  saveAs(await fetchBlob(blob, fileName, undefined, blobPrefixOf(of.split("/")[1]!)), fileName);
}

// "projects/default/jobs/j-1" -> "j-1".
export const idOf = (name: string) => name.slice(name.lastIndexOf("/") + 1);
export const jobName = (id: string) => `${parent}/jobs/${id}`;
export const modelName = (id: string) => `${parent}/models/${id}`;
