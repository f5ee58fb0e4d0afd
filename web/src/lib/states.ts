import { Job_State as State, type Job } from "../gen/nerf/v1/job_service_pb";
import { idOf } from "./api";
import { bytes, count, duration } from "./format";
import { exportOf, poseOf, renderOf, trainingOf, type Kind } from "./jobs";

export type Tone = "plain" | "busy" | "good" | "bad" | "wait";

const table: Record<State, [string, Tone]> = {
  [State.STATE_UNSPECIFIED]: ["unknown", "plain"],
  [State.QUEUED]: ["queued", "wait"],
  [State.PREPARING]: ["preparing", "busy"],
  [State.RUNNING]: ["running", "busy"],
  [State.PAUSING]: ["pausing", "wait"],
  [State.PAUSED]: ["paused", "wait"],
  [State.CANCELLING]: ["cancelling", "wait"],
  [State.SUCCEEDED]: ["succeeded", "good"],
  [State.FAILED]: ["failed", "bad"],
  [State.CANCELLED]: ["cancelled", "plain"],
};

// The words of a kind, where they are its own.
const ownWords: Record<Kind, Partial<Record<State, string>>> = {
  training: { [State.RUNNING]: "training" },
  render: { [State.RUNNING]: "rendering" },
  pose: { [State.RUNNING]: "finding cameras", [State.SUCCEEDED]: "placed" },
  export: { [State.RUNNING]: "exporting" },
};

export interface Badge {
  word: string;
  tone: Tone;
}
export const badgeOf = (job: Job): Badge => ({ word: wordOf(job), tone: (table[job.state] ?? ["", "plain"])[1] });
export const wordOf = (job: Job) => (isEvaluating(job) ? "evaluating" : (ownWords[job.spec.case ?? "training"][job.state] ?? (table[job.state] ?? ["unknown"])[0]));
export const isFinal = ({ state }: Job) => [State.SUCCEEDED, State.FAILED, State.CANCELLED].includes(state);
export const isRunning = ({ state }: Job) => state === State.RUNNING;
export const isEvaluating = (job: Job) => isRunning(job) && (trainingOf(job).progress?.evaluationViews ?? 0) > 0;
// How much of it is done, 0 to 1; undefined where that is not known.
export function shareOf(job: Job): number | undefined {
  const { frameCount, framesDone } = renderOf(job);
  return trainingOf(job).progress?.fraction ?? exportOf(job).progress?.share ?? (frameCount > 0 ? framesDone / frameCount : undefined);
}
// The PSNR of the most trustworthy kind that is known: final, of the preview, of the last checkpoint.
export function psnrOf(job: Job): number | undefined {
  const { finalPsnr, progress, checkpoints } = trainingOf(job);
  return finalPsnr ?? progress?.psnrPreview ?? checkpoints.at(-1)?.psnr;
}
// Whether a field in training shows more than fog. Before, its views also take longest: nothing is known to be empty.
export function showsField(job: Job): boolean {
  const { progress } = trainingOf(job);
  return (progress?.psnrPreview ?? 0) >= 18 || (progress?.fraction ?? 0) >= 0.25;
}
export const workersOf = ({ workers }: Job) => workers.map(idOf).join(", ");
// Why it failed, in one line; empty if it did not.
export const problemOf = (job: Job) => job.error?.message ?? "";
export const titleOf = ({ name, displayName }: { name: string; displayName: string }) => displayName || idOf(name);

// The file that an export has made, or how large it will be, as far as that is known.
export function sizeOf(job: Job): string {
  const { result, expectedBytes, maxBytes } = exportOf(job);
  const file = result?.files[0];
  if (file) return `${file.name}, ${bytes(file.blob?.sizeBytes ?? 0)}`;
  return [expectedBytes > 0 ? `about ${bytes(expectedBytes)}` : "", maxBytes > 0 ? `at most ${bytes(maxBytes)}` : ""].filter(Boolean).join(", ");
}

// What it is, where that is no training, and of how much.
export function whatOf(job: Job): string {
  const [{ fileCount }, { framesDone, frameCount }] = [poseOf(job), renderOf(job)];
  if (job.spec.case === "pose") return `Photographs, ${count(fileCount)} ${fileCount === 1 ? "file" : "files"}`;
  if (job.spec.case === "render") return `Film, ${framesDone}/${frameCount} frames`;
  return job.spec.case === "export" ? "Export" : "";
}

// Why it failed or what it waits for, else what its worker does where a meter does not say it.
export function saysOf(job: Job): string {
  if (isFinal(job)) return problemOf(job);
  if (job.wait) return job.wait.reason === "POSES" ? "waits until its photographs are placed" : job.wait.message;
  const [{ progress: pose }, { progress }] = [poseOf(job), exportOf(job)];
  if (pose) return `${pose.doing}${pose.etaSeconds > 0 ? `, about ${duration(pose.etaSeconds)} left` : ""}`;
  return progress ? [`${progress.step} ${(100 * progress.share).toFixed(0)}%`, sizeOf(job)].filter(Boolean).join(", ") : "";
}

// An export on its way to its file.
export const exportWords = (job: Job) => (exportOf(job).result ? sizeOf(job) : saysOf(job) || (isFinal(job) ? wordOf(job) : "begins"));
