// The bearer token that the server asks for. It comes in the fragment of the link that nerfd prints (#token=...), which browsers
// send to nobody, or is typed in, and lives as long as the tab. On this computer the browser remembers one of its own (remember.ts).
// It lies in storage that pages of this origin alone can read. A cookie would reach every port of the host, so other users' servers,
// and would be shown by links and forms of other sites.
import { isLoopback } from "./format";

const key = "nerfd-token";
const newKey = "nerfd-token-is-new";
const rememberedKey = "nerfd-remembered";
const form = /^[\w.~+/-]+=*$/;

export interface Remembered {
  name: string; // tokens/{token} that was made for this browser; empty if it is the link's own
  secret: string;
  expires: number; // ms
}

function enterNew(token: string) {
  sessionStorage.setItem(key, token);
  sessionStorage.setItem(newKey, "1");
}

const inFragment = /^#token=(.*)$/.exec(location.hash);
if (inFragment && form.test(inFragment[1]!)) {
  enterNew(inFragment[1]!);
  history.replaceState(null, "", location.pathname + location.search);
}

// The token of a link to one model (#share=...). It stays in the address, so that the page can be kept as a bookmark, and this tab's own
// token is left alone.
export const shareToken = /^#share=([\w.~+/-]+=*)$/.exec(location.hash)?.[1] ?? "";
addEventListener("hashchange", () => {
  if (shareToken || /^#(share|token)=/.test(location.hash)) location.reload();
});

// Set when the server refused the token, or the lack of one; `reason` is that of the error.
export const access = $state({ isDenied: false, reason: "" });

// What the token allows in the project. Until that is known the page offers everything, and the server decides.
export const role = $state({ mayEdit: true });

export function enter(token: string): boolean {
  if (!form.test(token.trim())) return false;
  enterNew(token.trim());
  return true;
}

export function remembered(): Remembered | null {
  try {
    const kept = JSON.parse(localStorage.getItem(rememberedKey) ?? "null") as Remembered | null;
    return kept && form.test(kept.secret) && kept.expires > Date.now() ? kept : null;
  } catch {
    return null;
  }
}

// null forgets it.
export function keepRemembered(kept: Remembered | null) {
  if (kept) localStorage.setItem(rememberedKey, JSON.stringify(kept));
  else localStorage.removeItem(rememberedKey);
}

// Another tab may have another one remembered since, which nobody has refused.
const atStart = remembered()?.secret;
let hasOther = false;

// The token in use was refused, and is gone from the tab, or from what is remembered. Whether another one is there for the page to be
// loaded anew with: then further refusals are those of earlier calls.
export function noteRefused(): boolean {
  if (shareToken || hasOther) return hasOther;
  if (sessionStorage.getItem(key) !== null) {
    sessionStorage.removeItem(key);
    sessionStorage.removeItem(newKey);
  } else if (remembered()?.secret === atStart) {
    keepRemembered(null);
  }
  hasOther = remembered() !== null;
  return hasOther;
}

// The token that the tab was opened with, once: the first call after that gets it. Empty where browsers are not remembered.
export function takeNew(): string {
  const isNew = sessionStorage.getItem(newKey) !== null && !shareToken && isLoopback(location.hostname);
  sessionStorage.removeItem(newKey);
  return isNew ? (sessionStorage.getItem(key) ?? "") : "";
}

export const forgetTab = () => sessionStorage.removeItem(key);

export function bearer(): Record<string, string> {
  const token = shareToken || sessionStorage.getItem(key) || remembered()?.secret;
  return token ? { Authorization: `Bearer ${token}` } : {};
}
