// How long trainings take here, by the newest one.
import { quick, training } from "./api";
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
  const [{ trainingJobs }, standard] = await Promise.all([
    training.listTrainingJobs({ parent, pageSize: 50 }, quick),
    training.createTrainingJob({ parent, trainingJob: {}, validateOnly: true }, quick),
  ]);
  const { budget, method } = standard.effectiveConfig!;
  const job = trainingJobs.find(({ progress, effectiveConfig, parts }) => parts.length === 0 && effectiveConfig?.method === method && (progress?.seconds ?? 0) >= leastSeconds && progress!.samples > 0);
  if (!job || budget.case !== "samples") return null;
  return { samplesPerSecond: job.progress!.samples / job.progress!.seconds, standardSamples: budget.value, title: titleOf(job) };
}

// "about 6 minutes".
export function minutesOf(seconds: number): string {
  if (seconds < 50) return "less than a minute";
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `about ${minutes} ${minutes === 1 ? "minute" : "minutes"}`;
  return `about ${(seconds / 3600).toPrecision(2)} hours`;
}
