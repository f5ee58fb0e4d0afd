// The curves of a job: what nerfd keeps of them, continued by the job's watch.
import type { ListJobMetricsResponse } from "../gen/nerf/v1/job_service_pb";
import type { TrainingStatus } from "../gen/nerf/v1/training_job_pb";

export interface Point {
  step: number;
  seconds: number;
  loss: number | null;
  psnrTrain: number | null;
  psnrView: number | null;
  raysPerSecond: number | null;
}

const maxPoints = 4_000; // nerfd keeps 2,000 and 64 previews

const positive = (value: number) => (value > 0 ? value : null);

export class Curve {
  points: Point[] = [];

  // Takes the points that nerfd has kept.
  fill(kept: ListJobMetricsResponse) {
    for (const point of kept.points) {
      this.insert({
        step: point.step,
        seconds: point.seconds,
        loss: positive(point.loss),
        psnrTrain: positive(point.psnrTrain),
        psnrView: point.psnrPreview ?? null,
        raysPerSecond: positive(point.raysPerSecond),
      });
    }
    for (const { step, psnr } of kept.previews) {
      if (psnr === undefined) continue;
      this.insert({ step, seconds: this.secondsAt(step) ?? 0, loss: null, psnrTrain: null, psnrView: psnr, raysPerSecond: null });
    }
  }

  // Takes what is new in a training. True when there was something.
  add({ checkpoints, progress }: Pick<TrainingStatus, "checkpoints" | "progress">): boolean {
    const before = this.points.length;
    for (const checkpoint of checkpoints) {
      if (checkpoint.psnr === undefined) continue;
      this.insert({ step: checkpoint.step, seconds: checkpoint.seconds, loss: null, psnrTrain: null, psnrView: checkpoint.psnr, raysPerSecond: null });
    }
    if (progress && progress.step > 0) {
      const isNewView = progress.previewStep !== undefined && progress.previewStep === progress.step;
      this.insert({
        step: progress.step,
        seconds: progress.seconds,
        loss: progress.loss > 0 ? progress.loss : null,
        psnrTrain: progress.psnrTrain > 0 ? progress.psnrTrain : null,
        psnrView: isNewView ? (progress.psnrPreview ?? null) : null,
        raysPerSecond: progress.raysPerSecond > 0 ? progress.raysPerSecond : null,
      });
      if (!isNewView && progress.previewStep !== undefined && progress.psnrPreview !== undefined) {
        this.insert({ step: progress.previewStep, seconds: this.secondsAt(progress.previewStep) ?? progress.seconds, loss: null, psnrTrain: null, psnrView: progress.psnrPreview, raysPerSecond: null });
      }
    }
    if (this.points.length > maxPoints) this.points = this.points.filter((point, i) => i % 2 === 1 || point.psnrView !== null);
    return this.points.length !== before;
  }

  private secondsAt(step: number): number | undefined {
    return this.points.find((point) => point.step >= step)?.seconds;
  }

  // Points are in the order of steps; a step that is there gains what it lacks. A job that goes on from an earlier checkpoint
  // repeats steps: the newer values count.
  private insert(point: Point) {
    let i = this.points.length;
    while (i > 0 && this.points[i - 1]!.step > point.step) --i;
    const same = this.points[i - 1];
    if (same?.step !== point.step) {
      this.points.splice(i, 0, point);
      return;
    }
    same.loss = point.loss ?? same.loss;
    same.psnrTrain = point.psnrTrain ?? same.psnrTrain;
    same.psnrView = point.psnrView ?? same.psnrView;
    same.raysPerSecond = point.raysPerSecond ?? same.raysPerSecond;
  }
}

// A line of a chart.
export interface Line {
  x: number[];
  values: (number | null)[];
}

// Lines over one axis, which has the places of all of them in order. A line is null where it has no value.
export function joined(lines: Line[]): { x: number[]; values: (number | null)[][] } {
  const x = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const places = new Map(x.map((value, i) => [value, i]));
  const values = lines.map((line) => {
    const row = new Array<number | null>(x.length).fill(null);
    line.x.forEach((value, i) => {
      if (line.values[i] !== null) row[places.get(value)!] = line.values[i]!;
    });
    return row;
  });
  return { x, values };
}

// Exponential moving average, corrected for its start at zero. Missing values stay missing.
export function smooth(values: (number | null)[], weight: number): (number | null)[] {
  if (weight <= 0) return values;
  let last = 0;
  let n = 0;
  return values.map((value) => {
    if (value === null) return null;
    last = last * weight + (1 - weight) * value;
    ++n;
    return last / (1 - weight ** n);
  });
}
