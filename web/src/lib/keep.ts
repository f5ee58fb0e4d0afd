// A job's newest checkpoint kept as a model, which outlives the job.
import type { Job } from "../gen/nerf/v1/job_service_pb";
import { models, quick } from "./api";
import { trainingOf } from "./jobs";
import { parent } from "./project";
import { newUuid } from "./sha256";
import { titleOf } from "./states";

// The name of the model that was kept of it, if there is one.
export async function keptOf(job: Job): Promise<string | undefined> {
  const newest = trainingOf(job).checkpoints.at(-1)?.name;
  for (let pageToken = ""; ; ) {
    const page = await models.listModels({ parent, pageSize: 1000, pageToken }, quick);
    const kept = page.models.find(({ checkpoint }) => checkpoint === newest);
    if (kept) return kept.name;
    pageToken = page.nextPageToken;
    if (!pageToken) return undefined;
  }
}

// Under way, by the job: two buttons of a page make one model.
const keeping = new Map<string, Promise<string>>();

// The same; makes the model where there is none.
export function keep(job: Job): Promise<string> {
  const kept = keeping.get(job.name) ?? keepOnce(job).finally(() => keeping.delete(job.name));
  keeping.set(job.name, kept);
  return kept;
}

async function keepOnce(job: Job): Promise<string> {
  const kept = await keptOf(job);
  if (kept) return kept;
  return (await models.promoteCheckpoint({ name: `${job.name}/checkpoints/-`, displayName: titleOf(job), requestId: newUuid() }, quick)).name;
}
