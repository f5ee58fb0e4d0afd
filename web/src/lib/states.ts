import { Job_State as State, type Job } from "../gen/nerf/v1/job_service_pb";
import { idOf } from "./api";
import { bytes, count, duration, plain } from "./format";
import { exportOf, poseOf, renderOf, trainingOf, type Kind } from "./jobs";
import { stageWords } from "./pose_report";

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
// Of an export's steps: where each begins and ends in the whole, about, and what it does.
const exportSteps: Record<string, [number, number, string]> = {
  surface: [0, 0.6, "finding the surface"],
  simplify: [0.6, 0.8, "making it simpler"],
  colors: [0.8, 0.98, "coloring it"],
  views: [0, 1, "looking from all sides"],
  volume: [0, 0.9, "filling the volume"],
  nodes: [0, 0.9, "baking"],
  file: [0.98, 1, "writing the file"],
};

// How much of it is done, 0 to 1; undefined where that is not known.
export function shareOf(job: Job): number | undefined {
  const [{ frameCount, framesDone }, { progress: pose }, { progress }] = [renderOf(job), poseOf(job), exportOf(job)];
  if (progress) {
    const [begin, end] = exportSteps[progress.step] ?? [0, 1];
    return begin + (end - begin) * progress.share;
  }
  if (pose) return pose.etaSeconds > 0 ? pose.seconds / (pose.seconds + pose.etaSeconds) : undefined;
  return trainingOf(job).progress?.fraction ?? (frameCount > 0 ? framesDone / frameCount : undefined);
}
// The PSNR of the most trustworthy kind that is known: final, of the preview, of the last checkpoint.
export function psnrOf(job: Job): number | undefined {
  const { finalPsnr, progress, checkpoints } = trainingOf(job);
  return finalPsnr ?? progress?.psnrPreview ?? checkpoints.at(-1)?.psnr;
}
// Whether it can be compared with another one: a training that has begun, without parts.
export function canCompare(job: Job): boolean {
  const { progress, parts } = trainingOf(job);
  return (progress?.step ?? 0) > 0 && parts.length === 0;
}
// Whether a field in training shows more than fog. Before, its views also take longest: nothing is known to be empty.
export function showsField(job: Job): boolean {
  const { progress } = trainingOf(job);
  return (progress?.psnrPreview ?? 0) >= 18 || (progress?.fraction ?? 0) >= 0.25;
}
export const workersOf = ({ workers }: Job) => workers.map(idOf).join(", ");
// Why it failed, in one line; empty if it did not.
export const problemOf = (job: Job) => plain(job.error?.message ?? "");
export const waitOf = (job: Job) => plain(job.wait?.message ?? "");
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
  if (job.spec.case === "render") return `Film, ${isFinal(job) ? "" : `${framesDone} of `}${frameCount} frames`;
  return job.spec.case === "export" ? "Export" : "";
}

// Why it failed or what it waits for, else what its worker does where a meter does not say it, and the time left.
export function saysOf(job: Job): string {
  if (isFinal(job)) return problemOf(job);
  if (job.wait) return job.wait.reason === "POSES" ? "waits until its photographs are placed" : waitOf(job);
  const [{ progress: pose }, { progress: training }, { progress }] = [poseOf(job), trainingOf(job), exportOf(job)];
  const etaSeconds = pose?.etaSeconds ?? training?.etaSeconds ?? 0;
  const left = etaSeconds > 0 ? `about ${duration(etaSeconds)} left` : "";
  const doing = pose ? stageWords(pose.doing) : (progress && `${exportSteps[progress.step]?.[2] ?? progress.step} ${(100 * shareOf(job)!).toFixed(0)}%`);
  return [doing, progress && sizeOf(job), left].filter(Boolean).join(", ");
}

// An export on its way to its file.
export const exportWords = (job: Job) => (exportOf(job).result ? sizeOf(job) : saysOf(job) || (isFinal(job) ? wordOf(job) : "begins"));
