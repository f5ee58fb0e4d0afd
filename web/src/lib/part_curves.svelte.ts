// The curves of the jobs that train the parts of another one, which has none itself.
import type { Job } from "../gen/nerf/v1/job_service_pb";
import { jobs, quick } from "./api";
import { Curve, type Point } from "./curve";
import { trainingOf } from "./jobs";
import { isFinal } from "./states";

// After a longer pause, in a hidden tab, points are missing.
const gapMs = 10_000;

export class PartCurves {
  // By the names of the parts.
  points = $state.raw(new Map<string, Point[]>());

  private readonly curves = new Map<string, Curve>();
  private readonly filled = new Map<string, boolean>(); // by name; whether the part had ended by then
  private takenAt = -Infinity;

  // Takes the parts as they are now; to be called every few seconds. Throws the error of a call: the next one tries again.
  async take(parts: Job[]) {
    const now = performance.now();
    if (now - this.takenAt > gapMs) this.filled.clear();
    this.takenAt = now;
    for (const part of parts) {
      if (!this.curves.has(part.name)) this.curves.set(part.name, new Curve());
      this.curves.get(part.name)!.add(trainingOf(part));
    }
    this.publish();
    // What nerfd has kept: when a part is first seen, and all of it when it has ended.
    for (const part of parts) {
      if (this.filled.get(part.name) === isFinal(part)) continue;
      this.curves.get(part.name)!.fill(await jobs.listJobMetrics({ name: part.name }, quick));
      this.filled.set(part.name, isFinal(part));
      this.publish();
    }
  }

  private publish() {
    this.points = new Map([...this.curves].map(([name, curve]) => [name, [...curve.points]]));
  }
}
