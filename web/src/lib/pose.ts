// Pose jobs and the trainings that wait for them.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { PoseJob_State as State, type PoseJob } from "../gen/nerf/v1/pose_job_service_pb";
import type { TrainingConfigSchema, TrainingJob } from "../gen/nerf/v1/training_service_pb";
import { idOf, poses, quick, training } from "./api";
import { parent } from "./project";
import { newUuid } from "./sha256";
import { persist } from "./upload";

// The training that waits for the pose job; once the scene is there, the newest of the scene.
export async function trainingOf({ name, scene, state }: PoseJob, signal: AbortSignal): Promise<TrainingJob | undefined> {
  const { trainingJobs } = await training.listTrainingJobs({ parent, pageSize: 100, filter: `scene = "${idOf(scene)}"` }, { ...quick, signal });
  return trainingJobs.find(({ poseJob }) => state === State.SUCCEEDED || poseJob === name);
}

// Queues a training that begins by itself once the pose job has made its scene.
export async function trainAfter({ name: poseJob, displayName }: PoseJob, config: MessageInitShape<typeof TrainingConfigSchema>, signal: AbortSignal): Promise<TrainingJob> {
  const request = { parent, trainingJob: { displayName, poseJob, config }, requestId: newUuid() };
  return persist(() => training.createTrainingJob(request, { ...quick, signal }), signal);
}

// The same for a pose job that was created for it. If it cannot be queued, or the caller aborts, the pose job is cancelled.
export async function trainAfterNew(job: PoseJob, config: MessageInitShape<typeof TrainingConfigSchema>, signal: AbortSignal): Promise<void> {
  try {
    await trainAfter(job, config, signal);
  } catch (error) {
    await poses.cancelPoseJob({ name: job.name }, quick).catch(() => {}); // the first error is shown
    throw error;
  }
}
