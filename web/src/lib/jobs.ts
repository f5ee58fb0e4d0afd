// Jobs: what those of one kind have, and calls that several pages make.
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ExportSpecSchema, ExportStatusSchema } from "../gen/nerf/v1/export_job_pb";
import { Job_State as State, type Job, type JobSchema } from "../gen/nerf/v1/job_service_pb";
import { PoseSpecSchema, PoseStatusSchema } from "../gen/nerf/v1/pose_job_pb";
import { RenderSpecSchema, RenderStatusSchema } from "../gen/nerf/v1/render_job_pb";
import { TrainingSpecSchema, TrainingStatusSchema, type TrainingConfigSchema } from "../gen/nerf/v1/training_job_pb";
import { idOf, jobs, quick } from "./api";
import { parent } from "./project";
import { newUuid } from "./sha256";
import { persist } from "./upload";

export type Kind = NonNullable<Job["spec"]["case"]>;
type Value<Of extends { case: unknown; value?: unknown }, Case> = Omit<Extract<Of, { case: Case }>["value"], "$typeName" | "$unknown">;
// What a job of a kind has to do, how far it is and what it has made.
export type Detail<K extends Kind> = Value<Job["spec"], K> & Value<Job["status"], `${K}Status`>;

// Of a job of another kind, everything is unset.
const detail = <K extends Kind>(kind: K, unset: Detail<K>) => (job: Job): Detail<K> => (job.spec.case === kind ? { ...unset, ...job.spec.value, ...job.status.value } : unset);
export const trainingOf = detail("training", { ...create(TrainingSpecSchema), ...create(TrainingStatusSchema) });
export const renderOf = detail("render", { ...create(RenderSpecSchema), ...create(RenderStatusSchema) });
export const poseOf = detail("pose", { ...create(PoseSpecSchema), ...create(PoseStatusSchema) });
export const exportOf = detail("export", { ...create(ExportSpecSchema), ...create(ExportStatusSchema) });

export const listJobs = async (filter: string, pageSize: number, signal?: AbortSignal): Promise<Job[]> => (await jobs.listJobs({ parent, filter, pageSize }, { ...quick, signal })).jobs;

// With a signal it calls until somebody answers.
export function createJob(job: MessageInitShape<typeof JobSchema>, signal?: AbortSignal): Promise<Job> {
  const request = { parent, job, requestId: newUuid() };
  return signal ? persist(() => jobs.createJob(request, { ...quick, signal }), signal) : jobs.createJob(request, quick);
}

type Config = MessageInitShape<typeof TrainingConfigSchema>;

// The training that waits for the pose job; once the scene is there, the newest of the scene.
export async function trainingAfter(job: Job, signal?: AbortSignal): Promise<Job | undefined> {
  const found = await listJobs(`kind = training AND scene = "${idOf(poseOf(job).scene)}"`, 100, signal);
  return found.find((training) => job.state === State.SUCCEEDED || trainingOf(training).poseJob === job.name);
}

// Queues a training that begins by itself once the pose job has made its scene.
export const trainAfter = ({ name: poseJob, displayName }: Job, config: Config, signal: AbortSignal) => createJob({ displayName, spec: { case: "training", value: { poseJob, config } } }, signal);

// The same for a pose job that was created for it. If it cannot be queued, or the caller aborts, the pose job is cancelled.
export async function trainAfterNew(job: Job, config: Config, signal: AbortSignal): Promise<void> {
  try {
    await trainAfter(job, config, signal);
  } catch (error) {
    await jobs.cancelJob({ name: job.name }, quick).catch(() => {}); // the first error is shown
    throw error;
  }
}
