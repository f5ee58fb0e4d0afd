// What a pose job says: its stages, and its report photograph by photograph.
import type { PoseProgress, PoseSketch, PoseStage } from "../gen/nerf/v1/pose_job_pb";
import { count } from "./format";

export interface ReportedPhoto {
  name: string;
  posed: boolean;
  points: number;
  words: string; // why it is not posed
}

// The photographs in a report, pose.json. A worker wrote it: what does not fit is left out.
export function photosOf(text: string): ReportedPhoto[] {
  let report: unknown;
  try {
    report = JSON.parse(text);
  } catch {
    return [];
  }
  const photos = (report as { photos?: unknown } | null)?.photos;
  if (!Array.isArray(photos)) return [];
  return photos
    .filter((photo): photo is Record<string, unknown> => typeof photo === "object" && photo !== null)
    .map(({ name, posed, points, words, reason }) => ({
      name: String(name ?? ""),
      posed: posed === true,
      points: typeof points === "number" ? points : 0,
      words: String(words ?? reason ?? ""),
    }));
}

// What a stage does, in a person's words; what is not known stays.
const plain: [RegExp, string][] = [
  [/^extracting coarse features/, "looking at each photograph"],
  [/^extracting (more )?features/, "looking $1closely at each photograph"],
  [/^matching coarse features of all pairs/, "comparing all photographs roughly"],
  [/^matching features of all pairs/, "comparing all photographs"],
  [/^matching features of overlapping pairs/, "comparing photographs that overlap"],
];
export const stageWords = (doing: string) => plain.reduce((text, [from, to]) => text.replace(from, to), doing).replace(/\bposed\b/, "placed");

// "12 of 50": what a person counts; empty where a stage counts something else.
export const countWords = ({ done, of, unit }: Pick<PoseStage, "done" | "of" | "unit">) => (of > 0 && ["photographs", "frames", "views"].includes(unit) ? `${count(done)} of ${count(of)}` : "");

// What is placed so far, as paths in a square of 256: dots of points, wedges that open as cameras look.
export function sketchPaths({ points, cameras }: Pick<PoseSketch, "points" | "cameras">): { points: string; cameras: string } {
  const [length, halfWidth] = [11, 4];
  const paths = { points: "", cameras: "" };
  for (let i = 0; i + 1 < points.length; i += 2) paths.points += `M${points[i]} ${points[i + 1]}h0`;
  for (let i = 0; i + 2 < cameras.length; i += 3) {
    const angle = (cameras[i + 2]! * 2 * Math.PI) / 256;
    const [x, y] = [length * Math.cos(angle), length * Math.sin(angle)];
    const [u, v] = [(-y * halfWidth) / length, (x * halfWidth) / length];
    paths.cameras += `M${cameras[i]} ${cameras[i + 1]}l${(x + u).toFixed(1)} ${(y + v).toFixed(1)}l${(-2 * u).toFixed(1)} ${(-2 * v).toFixed(1)}z`;
  }
  return paths;
}

// How much of the whole search is done; a later attempt begins anew.
export class SearchShare {
  private attempt = 0;
  share = 0; // 0 to 1; it never falls

  add({ attempt, progress }: { attempt: number; progress?: PoseProgress }): number {
    if (attempt !== this.attempt) this.share = 0;
    this.attempt = attempt;
    if (!progress || progress.stage === 0) return this.share;
    const { stage, stages, done, of, seconds, etaSeconds } = progress;
    // By the estimate, as `nerfctl` shows it; before there is one, by the stages.
    const byStages = (stage - 1 + (of > 0 ? done / of : 0)) / Math.max(1, stages);
    this.share = Math.max(this.share, Math.min(0.99, etaSeconds > 0 ? seconds / (seconds + etaSeconds) : this.share > 0 ? 0 : byStages));
    return this.share;
  }
}
