import { timestampDate, type Timestamp } from "@bufbuild/protobuf/wkt";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const count = (value: number) => (value < 10_000 ? Math.round(value).toLocaleString("en") : compact.format(value));
export const rate = (value: number, unit: string) => `${compact.format(value)} ${unit}/s`;
export const decibels = (value: number | undefined) => (value === undefined ? "–" : `${value.toFixed(2)} dB`);

export function bytes(value: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (value >= 1000 && i < units.length - 1) {
    value /= 1000;
    ++i;
  }
  return `${i === 0 ? value : value.toPrecision(3)} ${units[i]}`;
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function age(time: Timestamp | undefined, now: number): string {
  if (!time) return "–";
  const seconds = (now - timestampDate(time).getTime()) / 1000;
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86_400)} d ago`;
}

const maxNameBytes = 128; // of a display name on the server

// What people typed, or a folder's name, as a display name that the server takes: cut at a character, not within one.
export function displayNameOf(text: string): string {
  const characters = [...text.replace(/[\p{Cc}\p{Cs}\u2028-\u202e\u2066-\u2069]/gu, " ").trim()];
  const size = () => new TextEncoder().encode(characters.join("")).length;
  while (size() > maxNameBytes) characters.pop();
  return characters.join("").trim();
}

const nouns: Record<string, string> = { jobs: "job", scenes: "scene", models: "model", checkpoints: "checkpoint", shares: "link", tokens: "token", workers: "worker" };
const resource = /(?:projects\/[\w-]+\/(jobs|scenes|models)|\b(workers|tokens))\/([\w-]+)(?:\/(checkpoints|shares)\/([\w-]+))?/;
const resources = new RegExp(resource, "g");
const leading = new RegExp(`^${resource.source}(?=:? )`);

// A message of nerfd with what it says first: a resource's name at its beginning comes last, as "job fox"; others are shortened.
export function plain(message: string): string {
  const short = (text: string) => text.replace(resources, (_, kind?: string, own?: string, id?: string, below?: string, at?: string) => `${nouns[below ?? kind ?? own!]} ${below === "checkpoints" ? `${id}/${at}` : (at ?? id)}`);
  const [name] = leading.exec(message) ?? [""];
  if (!name) return short(message);
  const rest = message.slice(name.length).replace(/^ is ([A-Z]+)\b/, (all) => all.toLowerCase()); // a state
  const named = short(name);
  if (rest.startsWith(": ")) return `${short(rest.slice(2))} (${named})`;
  if (rest === " not found") return `There is no ${named}`;
  return `This ${named.split(" ")[0]}${short(rest)} (${named.split(" ")[1]})`;
}

// A file's name for a URL of the server, which takes no other characters and does without them.
export const urlNameOf = (name: string) => name.replace(/[^\w.-]/g, "_").replace(/^\./, "_").slice(-128);

// A title as the first part of a file's name: "fox" of fox-viewer.html.
export const fileStem = (title: string) => displayNameOf(title).replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[.-]+|-+$/g, "") || "nerfd";

export const dateTime = (time: Timestamp | undefined) => (time ? timestampDate(time).toLocaleString() : "–");
// The same in fewer characters: "Nov 28, 2:00 PM".
export const dateMinute = (time: Timestamp | undefined) => (time ? timestampDate(time).toLocaleString(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" }) : "–");

// Whether a host of an address is this computer, which others cannot reach by it.
export const isLoopback = (host: string) => /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(host);
