// What two trainings were told differently.
import { idOf } from "./api";
import { count } from "./format";
import type { Detail } from "./jobs";

type Training = Pick<Detail<"training">, "scene" | "effectiveConfig">;

export interface Apart {
  key: string;
  values: [string, string];
}

function settingsOf({ scene, effectiveConfig: config }: Training): Map<string, string> {
  const settings = new Map([["scene", idOf(scene)]]);
  if (!config) return settings;
  const { budget, init } = config;
  settings.set("method", config.method);
  if (budget.case) settings.set("budget", `${count(budget.value)} ${budget.case}`);
  settings.set("seed", String(config.seed));
  if (init?.source.value) settings.set("started from", idOf(init.source.value));
  for (const [key, value] of Object.entries(config.settings)) settings.set(key, value);
  return settings;
}

// By name, what both have in common left out.
export function settingsApart(a: Training, b: Training): Apart[] {
  const [first, second] = [settingsOf(a), settingsOf(b)];
  return [...new Set([...first.keys(), ...second.keys()])]
    .map((key): Apart => ({ key, values: [first.get(key) ?? "–", second.get(key) ?? "–"] }))
    .filter(({ values }) => values[0] !== values[1]);
}
