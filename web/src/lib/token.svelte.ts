// The bearer token that the server asks for. It comes in the fragment of the link that nerfd prints (#token=...), which browsers
// send to nobody, or is typed in, and lives as long as the tab.
const key = "nerfd-token";
const form = /^[\w.~+/-]+=*$/;

const inFragment = /^#token=(.*)$/.exec(location.hash);
if (inFragment && form.test(inFragment[1]!)) {
  sessionStorage.setItem(key, inFragment[1]!);
  history.replaceState(null, "", location.pathname + location.search);
}

// The token of a link to one model (#share=...). It stays in the address, so that the page can be kept as a bookmark, and this tab's own
// token is left alone.
export const shareToken = /^#share=([\w.~+/-]+=*)$/.exec(location.hash)?.[1] ?? "";
addEventListener("hashchange", () => {
  if (shareToken || location.hash.startsWith("#share=")) location.reload();
});

// Set when the server refused the token, or the lack of one; `reason` is that of the error.
export const access = $state({ isDenied: false, reason: "" });

// What the token allows in the project. Until that is known the page offers everything, and the server decides.
export const role = $state({ mayEdit: true });

export function enter(token: string): boolean {
  if (!form.test(token.trim())) return false;
  sessionStorage.setItem(key, token.trim());
  return true;
}

export function bearer(): Record<string, string> {
  const token = shareToken || sessionStorage.getItem(key);
  return token ? { Authorization: `Bearer ${token}` } : {};
}
