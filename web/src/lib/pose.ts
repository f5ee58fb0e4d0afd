// Pose jobs: what is trained once the scene is there.
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import type { PoseJob } from "../gen/nerf/v1/pose_job_service_pb";
import type { TrainingConfigSchema, TrainingJob } from "../gen/nerf/v1/training_service_pb";
import { idOf, modelName, quick, training } from "./api";
import { parent } from "./project";
import { Sha256, uuidOf } from "./sha256";

export interface Plan {
  samples: number; // 0: the method's default
  seed: number;
  init: string; // a model's name, "auto" or "" (from scratch)
}

const [samplesKey, seedKey, initKey, modelKey] = ["train.samples", "train.seed", "train.init", "train.model"];

export const configOf = ({ samples, seed, init }: Plan): MessageInitShape<typeof TrainingConfigSchema> => ({
  seed,
  budget: samples > 0 ? { case: "samples", value: samples } : { case: undefined },
  ...(init ? { init: { source: { case: "model", value: init } } } : {}),
});

// A plan as labels of the pose job: any browser that shows it can begin the training.
export function labelsOf({ samples, seed, init }: Plan): Record<string, string> {
  const start: Record<string, string> = init === "auto" ? { [initKey]: init } : init ? { [modelKey]: idOf(init) } : {};
  return { [samplesKey]: String(samples), [seedKey]: String(seed), ...start };
}

// Null for a pose job that no page has made, or whose labels were changed to something else.
export function planOf(labels: Record<string, string>): Plan | null {
  const [samples, seed] = [Number(labels[samplesKey]), Number(labels[seedKey])];
  if (!(samples >= 0) || !Number.isInteger(seed) || seed < 0) return null;
  const model = labels[modelKey];
  return { samples, seed, init: model ? modelName(model) : labels[initKey] === "auto" ? "auto" : "" };
}

// The newest training of the scene.
export async function trainingOf(scene: string, signal: AbortSignal): Promise<TrainingJob | undefined> {
  const { trainingJobs } = await training.listTrainingJobs({ parent, pageSize: 1, filter: `scene = "${idOf(scene)}"` }, { ...quick, signal });
  return trainingJobs[0];
}

// Several tabs that ask for it get one and the same training.
export async function startTraining(job: PoseJob, plan: Plan, signal: AbortSignal): Promise<TrainingJob> {
  const text = `training of ${job.name} ${job.createTime ? timestampMs(job.createTime) : 0}`;
  const requestId = uuidOf(new Sha256().update(new TextEncoder().encode(text)).hex());
  return training.createTrainingJob({ parent, trainingJob: { displayName: job.displayName, scene: job.scene, config: configOf(plan) }, requestId }, { ...quick, signal });
}
