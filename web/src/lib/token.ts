// The bearer token, where the server asks for one. It comes in the fragment of the link that nerfd prints (#token=...), which
// browsers send to nobody, and lives as long as the tab.
const key = "nerfd-token";

const inFragment = /^#token=([\w.~+/-]+=*)$/.exec(location.hash);
if (inFragment) {
  sessionStorage.setItem(key, inFragment[1]!);
  history.replaceState(null, "", location.pathname + location.search);
}

export function bearer(): Record<string, string> {
  const token = sessionStorage.getItem(key);
  return token ? { Authorization: `Bearer ${token}` } : {};
}
