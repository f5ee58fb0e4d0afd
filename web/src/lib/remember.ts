// Remembers the browser on this computer, so that a later tab needs no link: by a token for an editor that is made for it and expires, where
// the link's token may make one, else by that token, unless one is remembered already. A remembered browser makes no tokens.
import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { Token_Role as Role, TokenSchema, type Access } from "../gen/nerf/v1/admin_service_pb";
import { admin, quick } from "./api";
import { forgetTab, keepRemembered, remembered, takeNew } from "./token.svelte";

const lifeMs = 30 * 24 * 3600 * 1000;

export async function remember({ grants, expireTime }: Access) {
  const secret = takeNew();
  if (!secret) return;
  const before = remembered();
  const own = grants.find(({ role, resource }) => role === Role.ADMIN && resource === "");
  const expires = Math.min(Date.now() + lifeMs, expireTime ? timestampMs(expireTime) : Infinity);
  if (!own) {
    if (!before && grants.some(({ resource }) => resource === "")) keepRemembered({ name: "", secret, expires });
    return;
  }
  const token = create(TokenSchema, { displayName: "a browser on this computer", role: Role.EDITOR, project: own.project, expireTime: timestampFromMs(expires) });
  const made = await admin.createToken({ token }, quick);
  keepRemembered({ name: made.name, secret: made.secret, expires });
  if (before?.name) await admin.deleteToken({ name: before.name }, quick).catch(() => {}); // it may be another data folder's
}

// Until the next link.
export async function forget() {
  const kept = remembered();
  if (kept?.name) await admin.deleteToken({ name: kept.name }, quick).catch(() => {}); // an editor may not; it expires
  keepRemembered(null);
  forgetTab();
  location.reload();
}
