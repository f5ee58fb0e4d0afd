import { TrainingJob_State as State, type TrainingJob } from "../gen/nerf/v1/training_service_pb";

export type Tone = "plain" | "busy" | "good" | "bad" | "wait";

const table: Record<State, [string, Tone]> = {
  [State.STATE_UNSPECIFIED]: ["unknown", "plain"],
  [State.QUEUED]: ["queued", "wait"],
  [State.PREPARING]: ["preparing", "busy"],
  [State.RUNNING]: ["training", "busy"],
  [State.PAUSING]: ["pausing", "wait"],
  [State.PAUSED]: ["paused", "wait"],
  [State.CANCELLING]: ["cancelling", "wait"],
  [State.SUCCEEDED]: ["succeeded", "good"],
  [State.FAILED]: ["failed", "bad"],
  [State.CANCELLED]: ["cancelled", "plain"],
};

export const wordOf = (job: TrainingJob) => (isEvaluating(job) ? "evaluating" : (table[job.state] ?? ["unknown"])[0]);
export const toneOf = (state: State): Tone => (table[state] ?? ["", "plain"])[1] as Tone;
export const isFinal = (job: TrainingJob) => [State.SUCCEEDED, State.FAILED, State.CANCELLED].includes(job.state);
export const isTraining = (job: TrainingJob) => job.state === State.RUNNING;
export const isEvaluating = (job: TrainingJob) => job.state === State.RUNNING && (job.progress?.evaluationViews ?? 0) > 0;
// The PSNR of the most trustworthy kind that is known: final, of the preview, of the last checkpoint.
export const psnrOf = (job: TrainingJob) => job.finalPsnr ?? job.progress?.psnrPreview ?? job.checkpoints.at(-1)?.psnr;
// Why it failed, in one line; empty if it did not.
export const problemOf = (job: TrainingJob) => job.error?.message ?? "";
export const titleOf = (resource: { name: string; displayName: string }) => resource.displayName || resource.name.slice(resource.name.lastIndexOf("/") + 1);
