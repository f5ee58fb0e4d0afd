import { PoseJob_State as PoseState, type PoseJob } from "../gen/nerf/v1/pose_job_service_pb";
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

const poseTable: Record<PoseState, [string, Tone]> = {
  [PoseState.STATE_UNSPECIFIED]: ["unknown", "plain"],
  [PoseState.QUEUED]: ["queued", "wait"],
  [PoseState.PREPARING]: ["preparing", "busy"],
  [PoseState.RUNNING]: ["finding cameras", "busy"],
  [PoseState.CANCELLING]: ["cancelling", "wait"],
  [PoseState.SUCCEEDED]: ["placed", "good"],
  [PoseState.FAILED]: ["failed", "bad"],
  [PoseState.CANCELLED]: ["cancelled", "plain"],
};

export interface Badge {
  word: string;
  tone: Tone;
}
export const poseBadgeOf = ({ state }: PoseJob): Badge => {
  const [word, tone] = poseTable[state] ?? ["unknown", "plain"];
  return { word, tone };
};
export const isPoseFinal = ({ state }: PoseJob) => [PoseState.SUCCEEDED, PoseState.FAILED, PoseState.CANCELLED].includes(state);

export const badgeOf = (job: TrainingJob): Badge => ({ word: wordOf(job), tone: (table[job.state] ?? ["", "plain"])[1] });
export const wordOf = (job: TrainingJob) => (isEvaluating(job) ? "evaluating" : (table[job.state] ?? ["unknown"])[0]);
export const isFinal = (job: TrainingJob) => [State.SUCCEEDED, State.FAILED, State.CANCELLED].includes(job.state);
export const isTraining = (job: TrainingJob) => job.state === State.RUNNING;
export const isEvaluating = (job: TrainingJob) => job.state === State.RUNNING && (job.progress?.evaluationViews ?? 0) > 0;
// The PSNR of the most trustworthy kind that is known: final, of the preview, of the last checkpoint.
export const psnrOf = (job: TrainingJob) => job.finalPsnr ?? job.progress?.psnrPreview ?? job.checkpoints.at(-1)?.psnr;
// Whether a field in training shows more than fog. Before, its views also take longest: nothing is known to be empty.
export const showsField = (job: TrainingJob) => (job.progress?.psnrPreview ?? 0) >= 18 || (job.progress?.fraction ?? 0) >= 0.25;
// Why it failed, in one line; empty if it did not.
export const problemOf = (job: TrainingJob) => job.error?.message ?? "";
export const titleOf = (resource: { name: string; displayName: string }) => resource.displayName || resource.name.slice(resource.name.lastIndexOf("/") + 1);
