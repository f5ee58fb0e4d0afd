// Follows docs/run/deploy.md's commands for Kubernetes against the manifests that they apply.
//
//   node check_deploy.mjs SOURCE OVERLAY=FILE...   FILE: the rendered overlay. Exits 1 where a step
//                                                  lacks what a step before it should have made
//
// Secrets may also be made by the comment at the head of an overlay. Mistakes are planted into the
// steps, and have to be noticed.
import {existsSync, readFileSync} from "node:fs";
import {parseAllDocuments} from "yaml";

// The commands of a text: lines behind "$ ", those that end in a backslash joined to the next.
function commandsOf(text) {
  return text.replace(/\\\n\s*/g, " ").split("\n").filter((l) => l.startsWith("$ "))
      .map((l) => l.slice(2).replace(/\s+#.*$/, "").trim());
}

function stepsOf(deploy) {
  const block = deploy.match(/```\n(\$ kubectl apply -f [^]*?)```/);
  if (!block) throw new Error("deploy.md has no block that begins with kubectl apply -f");
  return commandsOf(block[1]);
}

// Those in the comment at the head of an overlay, and of one whose Secrets it says it needs.
function stepsAtHead(folder, overlay) {
  const file = `${folder}/${overlay}/kustomization.yaml`;
  const lines = readFileSync(file, "utf8").split("\n");
  const head = lines.slice(0, lines.findIndex((l) => !l.startsWith("#")));
  const text = head.map((l) => l.slice(1).replace(/^ {3}(?=kubectl|k8s)/, "$ ")).join("\n");
  const other = /overlays\/([a-z-]+), whose Secrets it needs/.exec(text)?.[1];
  return [...(other ? stepsAtHead(folder, other) : []), ...commandsOf(text)];
}

const words = (command) => command.match(/(?:[^\s']+|'[^']*')+/g);

// Which keys of which Secrets the pods of these objects ask for.
function neededKeys(objects) {
  const needed = [];
  for (const {spec} of objects) {
    const pod = spec?.template?.spec ?? spec?.jobTargetRef?.template?.spec;
    for (const container of pod?.containers ?? []) {
      for (const {valueFrom} of container.env ?? []) {
        const ref = valueFrom?.secretKeyRef;
        if (ref) needed.push([ref.name, ref.key]);
      }
      for (const mount of container.volumeMounts ?? []) {
        const secret = pod.volumes?.find((v) => v.name === mount.name)?.secret?.secretName;
        if (!secret) continue;
        for (const argument of container.args ?? []) {
          const path = argument.split("=")[1] ?? "";
          if (path.startsWith(`${mount.mountPath}/`)) {
            needed.push([secret, path.slice(mount.mountPath.length + 1)]);
          }
        }
      }
    }
  }
  return needed;
}

// Problems of the steps, in whose place of `apply -k` these objects are applied.
function problemsOf(steps, objects, source, overlay) {
  const problems = [];
  const namespace = objects.find((o) => o.kind === "Namespace").metadata.name;
  const server = objects.find((o) => o.kind === "StatefulSet");
  const made = new Set(), secrets = new Map();
  for (const o of objects.filter((o) => o.kind === "Secret")) {
    secrets.set(o.metadata.name, Object.keys(o.data));
  }
  let hasNamespace = false, isApplied = false;
  for (const step of steps) {
    const say = (text) => problems.push(`${step}: ${text}`);
    const [program, ...rest] = words(step);
    if (program.startsWith("k8s/")) {
      if (!existsSync(`${source}/${program}`)) say("there is no such script");
      ["ca.crt", "tls.crt", "tls.key"].forEach((name) => made.add(`${rest[0]}/${name}`));
      continue;
    }
    const inNamespace = rest[0] === "-n" ? rest.splice(0, 2)[1] : "";
    if (inNamespace && inNamespace !== namespace) say(`the manifests are of ${namespace}`);
    if (inNamespace && !hasNamespace) say("nothing has made the namespace yet");
    if (rest[0] === "apply" && rest[1] === "-f") {
      const text = existsSync(`${source}/${rest[2]}`) ? readFileSync(`${source}/${rest[2]}`, "utf8") : "";
      if (!text) say("there is no such file");
      hasNamespace ||= new RegExp(`kind: Namespace\\n[^]*name: ${namespace}\\b`).test(text);
    } else if (rest[0] === "create" && rest[1] === "secret") {
      const keys = rest.slice(4).map((flag) => {
        const [kind, value] = [flag.split("=")[0], flag.slice(flag.indexOf("=") + 1)];
        if (kind === "--from-file" && !made.has(value)) say(`nothing has made ${value} yet`);
        return kind === "--from-file" ? value.split("/").at(-1) : value.split("=")[0];
      });
      secrets.set(rest[3], keys);
    } else if (rest[0] === "apply" && rest[1] === "-k") {
      if (!existsSync(`${source}/${rest[2]}/kustomization.yaml`)) say("there is no such overlay");
      isApplied = true;
      for (const [secret, key] of neededKeys(objects)) {
        const name = [...secrets.keys()].find((n) => n === secret);
        if (!name) say(`pods wait for the Secret ${secret} (${overlay})`);
        else if (!secrets.get(name).includes(key)) say(`the Secret ${secret} lacks ${key}`);
      }
    } else if (rest[0] === "rollout") {
      if (!isApplied || rest[2] !== `statefulset/${server.metadata.name}`) say("there is none yet");
    } else if (rest[0] === "exec") {
      if (!isApplied || rest[1] !== `${server.metadata.name}-0`) say("there is no such pod");
      const mounts = server.spec.template.spec.containers[0].volumeMounts.map((m) => m.mountPath);
      const path = rest.at(-1);
      if (path.startsWith("/") && !mounts.some((m) => path.startsWith(`${m}/`))) say("no such file");
    } else {
      say("no rule is known for this step");
    }
  }
  return problems;
}

const [source, ...sets] = process.argv.slice(2);
const steps = stepsOf(readFileSync(`${source}/docs/run/deploy.md`, "utf8"));
let failed = 0;
const report = (text) => { console.log(`FAIL: ${text}`); failed = 1; };
for (const set of sets) {
  const [overlay, file] = set.split("=");
  const objects = parseAllDocuments(readFileSync(file, "utf8")).map((d) => d.toJS()).filter(Boolean);
  const head = stepsAtHead(`${source}/k8s/overlays`, overlay);
  // Its own Secrets come before it is applied, in place of the overlay of the document.
  const at = steps.findIndex((s) => s.includes("apply -k"));
  const own = head.filter((s) => !s.includes("apply"));
  const all = [...steps.slice(0, at), ...own, `kubectl apply -k k8s/overlays/${overlay}`, ...steps.slice(at + 1)];
  problemsOf(all, objects, source, overlay).forEach(report);
  if (overlay !== "gpu") continue;
  const mistakes = {
    "the overlay first": [steps[at], ...steps.filter((_, i) => i !== at)],
    "no namespace": steps.slice(1),
    "no certificates": steps.filter((s) => !s.startsWith("k8s/")),
    "a Secret less": steps.filter((s) => !s.includes("nerfd-worker-token")),
    "a key less": steps.map((s) => s.replace("--from-file=certs/tls.key", "")),
    "another namespace": steps.map((s) => s.replace("-n nerfd", "-n nerf")),
    "another overlay": steps.map((s) => s.replace("overlays/gpu", "overlays/gpus")),
    "another pod": steps.map((s) => s.replace("nerfd-0", "nerf-0")),
  };
  for (const [name, spoilt] of Object.entries(mistakes)) {
    if (problemsOf(spoilt, objects, source, overlay).length === 0) report(`unnoticed: ${name}`);
  }
}
console.log(failed ? "deploy.md: see above" : `deploy.md: ${steps.length} steps fit ${sets.length} overlays`);
process.exit(failed);
