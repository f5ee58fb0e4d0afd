// How long trainings take here, by the newest one.
import { jobs, quick } from "./api";
import { listJobs, trainingOf, type Detail } from "./jobs";
import { parent } from "./project";
import { titleOf } from "./states";

export interface Pace {
  samplesPerSecond: number;
  standardSamples: number; // of the method's default
  title: string; // of the job that is the measure
}

const leastSeconds = 5; // of training: before, a field is mostly fog

// Null where no training says it.
export async function paceOf(): Promise<Pace | null> {
  const [trainings, standard] = await Promise.all([
    listJobs("kind = training", 50),
    jobs.createJob({ parent, job: { spec: { case: "training", value: {} } }, validateOnly: true }, quick),
  ]);
  const { budget, method } = trainingOf(standard).effectiveConfig!;
  const isMeasure = ({ progress, effectiveConfig, parts }: Detail<"training">) => parts.length === 0 && effectiveConfig?.method === method && (progress?.seconds ?? 0) >= leastSeconds && progress!.samples > 0;
  const job = trainings.find((training) => isMeasure(trainingOf(training)));
  if (!job || budget.case !== "samples") return null;
  const { samples, seconds } = trainingOf(job).progress!;
  return { samplesPerSecond: samples / seconds, standardSamples: budget.value, title: titleOf(job) };
}

// "about 6 minutes".
export function minutesOf(seconds: number): string {
  if (seconds < 50) return "less than a minute";
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `about ${minutes} ${minutes === 1 ? "minute" : "minutes"}`;
  return `about ${(seconds / 3600).toPrecision(2)} hours`;
}
