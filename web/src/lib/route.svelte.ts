// Which page is shown, from the URL's fragment: the page works below any path, and links can be shared.
export type Route =
  | { page: "jobs" }
  | { page: "new"; model: string; again: boolean }
  | { page: "job"; id: string }
  | { page: "compare"; ids: string[] }
  | { page: "models" }
  | { page: "model"; id: string }
  | { page: "workers" };

function parse(hash: string): Route {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [page, id, other] = (path ?? "").split("/");
  if (page === "jobs" && id) return { page: "job", id };
  if (page === "compare" && id && other && id !== other) return { page: "compare", ids: [id, other] };
  if (page === "models") return id ? { page: "model", id } : { page: "models" };
  if (page === "new") {
    const asked = new URLSearchParams(query);
    return { page: "new", model: asked.get("model") ?? "", again: asked.has("again") };
  }
  if (page === "workers") return { page: "workers" };
  return { page: "jobs" };
}

class Router {
  route = $state<Route>(parse(location.hash));
  constructor() {
    addEventListener("hashchange", () => (this.route = parse(location.hash)));
  }
}

export const router = new Router();
export const go = (path: string) => (location.hash = `#/${path}`);
