// The project that the page shows: ?project=lab in its address, `default` without.
import { Token_Role as Role, type Access } from "../gen/nerf/v1/admin_service_pb";

const standard = "default";
const asked = new URLSearchParams(location.search).get("project") ?? "";

export const isAsked = /^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(asked);
export const project = isAsked ? asked : standard;
export const parent = `projects/${project}`;
// What the URLs of blobs and uploads begin with.
export const blobPrefixOf = (of: string) => (of === standard ? "" : `/projects/${of}`);
export const blobPrefix = blobPrefixOf(project);

// The page of another project. It is loaded anew, so that nothing of this one stays.
export function show(other: string) {
  const url = new URL(location.href);
  if (other === standard) url.searchParams.delete("project");
  else url.searchParams.set("project", other);
  url.hash = "#/jobs";
  location.href = url.href;
}

// Where a job of any project is shown.
export function jobHref(name: string): string {
  const [, of = standard, , id = ""] = name.split("/");
  const page = `#/jobs/${id}`;
  if (of === project) return page;
  return (of === standard ? "./" : `./?project=${of}`) + page;
}

// Whether the roles allow more than to look.
export const canEdit = ({ grants }: Access) => grants.some(({ role, project, resource }) => [Role.EDITOR, Role.ADMIN].includes(role) && ["", parent].includes(project) && resource === "");

// The projects that the roles name, and whether one of them is for every project.
export function projectsOf({ grants }: Access): { named: string[]; all: boolean } {
  const readers = grants.filter(({ role, resource }) => role !== Role.WORKER && resource === "");
  const named = readers.map((grant) => grant.project.replace(/^projects\//, "")).filter((id) => id !== "");
  return { named: [...new Set(named)].sort(), all: readers.some((grant) => grant.project === "") };
}
