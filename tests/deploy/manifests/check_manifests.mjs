// Checks Kubernetes manifests as a cluster would, as far as that is possible without one.
//
//   node check_manifests.mjs NAME=FILE...   rendered overlays (kubectl kustomize); exits 1 on a problem
//   node check_manifests.mjs --mistakes FILE   plants known mistakes into FILE, one at a time; exits 1
//                                              where one goes unnoticed
//
// Each object is validated by the schemas of kubernetes-models, compiled by tsc against their types
// (which refuses unknown fields), and held against the rules below: references between objects,
// restricted pod security, probes, one writer.
import {execFileSync} from "node:child_process";
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {parseAllDocuments} from "yaml";

const here = dirname(fileURLToPath(import.meta.url));
const packages = {
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator/monitoring.coreos.com",
  "keda.sh": "@kubernetes-models/keda/keda.sh",
  "gateway.networking.k8s.io": "@kubernetes-models/gateway-api/gateway.networking.k8s.io",
};
// Made by the operator, not by the manifests.
const externalSecrets = new Set(["nerfd-worker-token", "nerfd-tls", "nerfd-ingress-tls",
  "nerfd-admin-token", "nerfd-postgres", "nerfd-s3"]);

function moduleOf(object) {
  const [group, version] =
      object.apiVersion.includes("/") ? object.apiVersion.split("/") : ["", object.apiVersion];
  if (packages[group]) return `${packages[group]}/${version}/${object.kind}`;
  return ["kubernetes-models", group, version, object.kind].filter(Boolean).join("/");
}

// JobSet has no schema package: its own fields are held against this list, and each of its jobs is
// checked as a Job.
const jobSetFields = {
  spec: ["replicatedJobs", "network", "successPolicy", "failurePolicy", "suspend", "coordinator",
    "startupPolicy", "managedBy", "ttlSecondsAfterFinished"],
  replicatedJob: ["name", "template", "replicas", "groupName", "dependsOn"],
  template: ["metadata", "spec"],
};
const otherKeys = (object, known) => Object.keys(object ?? {}).filter((k) => !known.includes(k));

function jobSetProblems(object) {
  const unknown = otherKeys(object.spec, jobSetFields.spec);
  if (object.apiVersion !== "jobset.x-k8s.io/v1alpha2") unknown.push(object.apiVersion);
  if (!object.spec?.replicatedJobs?.length) unknown.push("no replicatedJobs");
  for (const job of object.spec?.replicatedJobs ?? []) {
    unknown.push(...otherKeys(job, jobSetFields.replicatedJob));
    unknown.push(...otherKeys(job.template, jobSetFields.template));
    if (!job.name) unknown.push("a job without a name");
  }
  return unknown.map((key) => `${nameOf(object)}: ${key}`);
}

const jobsOf = (object) => object.kind !== "JobSet" ? [object] :
    (object.spec?.replicatedJobs ?? []).map((job) => ({
      apiVersion: "batch/v1", kind: "Job",
      metadata: {name: `${object.metadata.name}-${job.name}`, ...job.template?.metadata},
      spec: job.template?.spec,
    }));

const nameOf = (object) => `${object.kind}/${object.metadata?.name}`;
const matches = (selector, labels) =>
    Object.entries(selector ?? {}).every(([key, value]) => labels?.[key] === value);

// Objects -> problems of their schemas: missing fields, wrong types and formats.
async function schemaProblems(objects) {
  const problems = objects.filter((o) => o.kind === "JobSet").flatMap(jobSetProblems);
  for (const object of objects.flatMap(jobsOf)) {
    try {
      const module = await import(moduleOf(object) + ".js").catch(() => import(moduleOf(object)));
      new module[object.kind](object).validate();
    } catch (error) {
      problems.push(`${nameOf(object)}: ${String(error.message).split("\n")[0]}`);
    }
  }
  return problems;
}

// Problems of the types, unknown fields above all, of several sets of objects in one run of tsc.
function typeProblems(sets) {
  const folder = mkdtempSync(join(here, ".types-"));
  try {
    const jobs = sets.map((objects) => objects.flatMap(jobsOf));
    const files = jobs.map((objects, s) => {
      const lines = objects.map((object, i) =>
          `import {${object.kind} as K${i}} from ${JSON.stringify(moduleOf(object))};\n` +
          `new K${i}(${JSON.stringify({...object, apiVersion: undefined, kind: undefined})});`);
      const file = join(folder, `set${s}.ts`);
      writeFileSync(file, lines.join("\n") + "\n");
      return file;
    });
    const problems = sets.map(() => []);
    try {
      execFileSync(join(here, "node_modules/.bin/tsc"),
                   ["--noEmit", "--strict", "--skipLibCheck", "--module", "esnext",
                    "--moduleResolution", "bundler", "--target", "es2022", ...files],
                   {encoding: "utf8", cwd: here});
    } catch (error) {
      for (const line of String(error.stdout).split("\n").filter((l) => l.includes("error TS"))) {
        const where = /set(\d+)\.ts\((\d+),/.exec(line);
        if (!where) throw new Error(line);
        const object = jobs[where[1]][Math.floor((where[2] - 1) / 2)];
        problems[where[1]].push(`${nameOf(object)}: ${line.replace(/^.*error /, "").slice(0, 300)}`);
      }
    }
    return problems;
  } finally {
    rmSync(folder, {recursive: true});
  }
}

function podTemplates(objects) {
  return objects.flatMap(jobsOf).flatMap((object) => {
    const template = object.kind === "ScaledJob" ? object.spec?.jobTargetRef?.template
                                                 : object.spec?.template;
    return template?.spec?.containers ? [{object, template, pod: template.spec}] : [];
  });
}

// Restricted pod security, and what we ask of every pod beyond it.
function securityProblems({object, pod}) {
  const problems = [];
  const wants = (right, text) => right || problems.push(`${nameOf(object)}: ${text}`);
  const own = pod.securityContext ?? {};
  wants(own.runAsNonRoot === true, "runAsNonRoot must be true");
  wants(own.runAsUser === 65532, "runAsUser must be 65532, the image's user");
  wants(own.seccompProfile?.type === "RuntimeDefault", "seccompProfile must be RuntimeDefault");
  wants(pod.automountServiceAccountToken === false, "no token of the API may be mounted");
  wants(!pod.hostNetwork && !pod.hostPID && !pod.hostIPC, "no namespaces of the host");
  wants((pod.volumes ?? []).every((v) => !v.hostPath), "no hostPath volumes");
  wants(pod.terminationGracePeriodSeconds >= 30, "needs 30 s or more to end in order");
  for (const container of pod.containers) {
    const security = container.securityContext ?? {};
    wants(security.allowPrivilegeEscalation === false, "allowPrivilegeEscalation must be false");
    wants(security.privileged !== true, "must not be privileged");
    wants(security.readOnlyRootFilesystem === true, "the root file system must be read-only");
    wants(JSON.stringify(security.capabilities?.drop) === '["ALL"]', "must drop ALL capabilities");
    wants(!security.capabilities?.add?.length, "must add no capabilities");
    wants(container.resources?.requests?.memory && container.resources?.limits?.memory,
          "memory needs a request and a limit");
    wants(!(container.ports ?? []).some((p) => p.hostPort), "no ports of the host");
    wants(!(container.args ?? []).some((a) => /token=[0-9a-f]{16,}/.test(a)), "a secret in args");
  }
  return problems;
}

// Connections between pods are encrypted, only the server has its key, and no flag is given twice.
function encryptionProblems(pod, container) {
  const problems = [];
  // docker/Dockerfile starts workers with --cache-dir, and they take it once.
  const given = container.name === "worker" ? ["--cache-dir"] : [];
  const flags = [...given, ...(container.args ?? []).map((a) => a.split("=")[0])];
  const twice = flags.filter((flag, i) => flags.indexOf(flag) !== i);
  if (twice.length > 0) problems.push(`${twice} is given twice`);
  if (flags.includes("--insecure")) problems.push("--insecure: connections must be encrypted");
  const isServer = flags.includes("--listen");
  for (const flag of isServer ? ["--tls-cert", "--tls-key"] : ["--ca"]) {
    if (!flags.includes(flag)) problems.push(`needs ${flag}`);
  }
  const tls = (pod.volumes ?? []).filter((v) => v.secret?.secretName === "nerfd-tls");
  const isKeyless = ({secret}) => secret.items?.length > 0 && secret.items.every((i) => i.key === "ca.crt");
  if (!isServer && !tls.every(isKeyless)) problems.push("gets the server's key");
  return problems;
}

// Several servers share one database and one bucket, on different machines, and no disk.
function replicaProblems(object, pod) {
  if (object.spec.replicas === 1) return [];
  const problems = [];
  const given = pod.containers.flatMap((c) => [...(c.args ?? []).map((a) => a.split("=")[0]),
    ...(c.env ?? []).map((e) => e.name)]);
  for (const needed of ["--replica-host", "NERFD_STORE", "--blobs", "--admin-token-file"]) {
    if (!given.includes(needed)) problems.push(`one writer: more replicas need ${needed}`);
  }
  const apart = pod.affinity?.podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? [];
  if (!apart.some((rule) => rule.topologyKey === "kubernetes.io/hostname" &&
                            matches(rule.labelSelector.matchLabels, object.spec.template.metadata.labels))) {
    problems.push("replicas must run on different machines");
  }
  for (const entry of pod.containers.flatMap((c) => c.env ?? [])) {
    const secret = entry.valueFrom?.secretKeyRef?.name;
    if (secret && !externalSecrets.has(secret)) problems.push(`there is no Secret ${secret}`);
    if (/PASSWORD|SECRET/.test(entry.name) && !secret) problems.push(`${entry.name} is no secret`);
  }
  return problems;
}

// A value of a container: an argument --NAME=..., or a variable.
const valueOf = (container, flag, variable) =>
    (container.args ?? []).find((a) => a.startsWith(`${flag}=`))?.slice(flag.length + 1) ??
    (container.env ?? []).find((e) => e.name === variable)?.value;

// What a rollout and a full disk do to pods.
function runningProblems(object, pod) {
  const problems = [];
  const rolling = object.spec.strategy?.rollingUpdate;
  for (const container of pod.containers) {
    const device = valueOf(container, "--device", "NERF_WORKER_DEVICE");
    if (device === "cpu" && !container.resources?.limits?.cpu) {
      problems.push("a CPU worker without a limit takes all cores of its node");
    }
    if (container.startupProbe?.grpc?.service === "readiness") {
      problems.push("a full disk would restart it for ever: startup must not depend on it");
    }
    if (container.resources?.limits?.["nvidia.com/gpu"] && rolling?.maxSurge !== 0 &&
        object.kind === "Deployment") {
      problems.push("a new pod would wait for the GPU of an old one: maxSurge must be 0");
    }
    const isReadyAtOnce = object.kind === "Deployment" && !container.readinessProbe &&
        !object.spec.minReadySeconds;
    if (rolling?.maxUnavailable === 0 && isReadyAtOnce) {
      problems.push("is ready before it has connected: needs minReadySeconds");
    }
  }
  return problems;
}

// Names by which a browser reaches the page, and what Prometheus and Grafana select.
function outsideProblems(objects) {
  const problems = [];
  const byKind = (kind) => objects.filter((o) => o.kind === kind);
  const origins = podTemplates(objects).flatMap(({pod}) => pod.containers.map(
      (c) => valueOf(c, "--web-origin", "NERFD_WEB_ORIGIN"))).filter(Boolean);
  const hosts = [
    ...byKind("HTTPRoute").flatMap((r) => r.spec.hostnames.map((host) => [r, host])),
    ...byKind("Ingress").flatMap((i) => i.spec.rules.filter(
        (r) => r.http.paths.some((p) => p.backend.service.port.name === "web")).map((r) => [i, r.host])),
  ];
  for (const [object, host] of hosts) {
    if (!origins.includes(`https://${host}`)) problems.push(`${nameOf(object)}: ${host} is no --web-origin`);
  }
  for (const origin of origins) {
    if (!hosts.some(([, host]) => origin === `https://${host}`)) {
      problems.push(`--web-origin ${origin}: nothing leads from there to nerfd`);
    }
  }
  for (const rule of byKind("HTTPRoute").flatMap((r) => r.spec.rules)) {
    if (rule.timeouts?.request !== "0s") problems.push("HTTPRoute: streams are cut by its timeout");
  }
  const watched = [...byKind("ServiceMonitor"), ...byKind("PrometheusRule")];
  for (const object of watched.filter((o) => !o.metadata.labels?.release)) {
    problems.push(`${nameOf(object)}: kube-prometheus-stack selects by the label release`);
  }
  const dashboards = byKind("ConfigMap").filter((c) => c.metadata.labels?.grafana_dashboard === "1");
  if (watched.length > 0 && !dashboards.some((c) => Object.keys(c.data).length >= 6)) {
    problems.push("no ConfigMap has the dashboards and their label");
  }
  for (const policy of byKind("NetworkPolicy")) {
    for (const rule of policy.spec.egress ?? []) {
      const isDns = (rule.ports ?? []).some((p) => p.port === 53);
      if (isDns && rule.to) problems.push(`${nameOf(policy)}: DNS may lie elsewhere than it says`);
    }
  }
  const server = byKind("StatefulSet").find((s) => s.metadata.name === "nerfd");
  const service = byKind("Service").find((s) => s.metadata.name === "nerfd");
  if (server && service && (server.spec.replicas === 1) !== service.spec.publishNotReadyAddresses) {
    problems.push("a server with a full disk must stay reachable where it is the only one, to delete");
  }
  return problems;
}

function referenceProblems(objects) {
  const problems = [];
  const byKind = (kind) => objects.filter((o) => o.kind === kind);
  const has = (kind, name) => byKind(kind).some((o) => o.metadata.name === name);
  const templates = podTemplates(objects);
  for (const {object, template, pod} of templates) {
    const say = (text) => problems.push(`${nameOf(object)}: ${text}`);
    if (object.spec.selector && !matches(object.spec.selector.matchLabels, template.metadata?.labels)) {
      say("its selector does not match its pods");
    }
    if (pod.serviceAccountName && !has("ServiceAccount", pod.serviceAccountName)) {
      say(`there is no ServiceAccount ${pod.serviceAccountName}`);
    }
    const volumes = new Set([...(pod.volumes ?? []).map((v) => v.name),
      ...(object.spec.volumeClaimTemplates ?? []).map((c) => c.metadata.name)]);
    for (const volume of pod.volumes ?? []) {
      const secret = volume.secret?.secretName;
      if (secret && !has("Secret", secret) && !externalSecrets.has(secret)) {
        say(`there is no Secret ${secret}`);
      }
    }
    for (const container of pod.containers) {
      const ports = new Map((container.ports ?? []).map((p) => [p.containerPort, p.name]));
      for (const mount of container.volumeMounts ?? []) {
        if (!volumes.has(mount.name)) say(`mounts ${mount.name}, which is no volume`);
      }
      for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"]) {
        const port = container[probe]?.grpc?.port;
        if (port !== undefined && !ports.has(port)) say(`${probe} asks port ${port}, which is not open`);
      }
      if (container.livenessProbe?.grpc?.service === "readiness") {
        say("liveness must not depend on the disk");
      }
      for (const [port, name] of ports) {
        const listens = (container.args ?? []).some((a) => a.endsWith(`:${port}`));
        if (!listens) say(`port ${port} (${name}) is in no argument`);
      }
      for (const argument of container.args ?? []) {
        const server = /^--server=([^:]+):(\d+)$/.exec(argument);
        if (server && !byKind("Service").some((s) => s.metadata.name === server[1] &&
            s.spec.ports.some((p) => String(p.port) === server[2]))) {
          say(`${argument} names no port of a Service`);
        }
        const path = /^--[a-z-]+=(\/.+)$/.exec(argument)?.[1];
        if (path && !(container.volumeMounts ?? []).some((m) => `${path}/`.startsWith(`${m.mountPath}/`))) {
          say(`${argument} lies in no mounted volume`);
        }
      }
      encryptionProblems(pod, container).forEach(say);
      const alive = container.livenessProbe?.exec?.command ?? [];
      const cache = alive.find((word) => word.startsWith("--cache-dir="))?.split("=")[1];
      if (cache && !(container.volumeMounts ?? []).some((m) => m.mountPath === cache)) {
        say(`livenessProbe looks into ${cache}, which is no volume`);
      }
    }
    runningProblems(object, pod).forEach(say);
    if (object.kind === "StatefulSet") replicaProblems(object, pod).forEach(say);
    if (object.kind === "StatefulSet" && !has("Service", object.spec.serviceName)) {
      say(`there is no Service ${object.spec.serviceName}`);
    }
  }
  for (const service of byKind("Service")) {
    const behind = templates.filter((t) => matches(service.spec.selector, t.template.metadata?.labels));
    if (behind.length === 0) problems.push(`${nameOf(service)}: selects no pod`);
    for (const port of service.spec.ports) {
      const open = behind.some((t) => t.pod.containers.some((c) => (c.ports ?? []).some(
          (p) => p.name === port.targetPort || p.containerPort === port.targetPort)));
      if (!open) problems.push(`${nameOf(service)}: no pod opens ${port.targetPort}`);
    }
  }
  for (const budget of byKind("PodDisruptionBudget")) {
    if (!templates.some((t) => matches(budget.spec.selector.matchLabels, t.template.metadata?.labels))) {
      problems.push(`${nameOf(budget)}: selects no pod`);
    }
  }
  for (const policy of byKind("NetworkPolicy")) {
    const selected = policy.spec.podSelector.matchLabels;
    if (selected && !templates.some((t) => matches(selected, t.template.metadata?.labels))) {
      problems.push(`${nameOf(policy)}: selects no pod`);
    }
  }
  if (!byKind("NetworkPolicy").some((p) => Object.keys(p.spec.podSelector ?? {}).length === 0 &&
      p.spec.policyTypes?.length === 2 && !p.spec.ingress && !p.spec.egress)) {
    problems.push("no NetworkPolicy denies by default");
  }
  for (const route of [...byKind("HTTPRoute"), ...byKind("GRPCRoute")]) {
    for (const ref of route.spec.rules.flatMap((r) => r.backendRefs)) {
      if (!byKind("Service").some((s) => s.metadata.name === ref.name &&
          s.spec.ports.some((p) => p.port === ref.port))) {
        problems.push(`${nameOf(route)}: ${ref.name}:${ref.port} is no port of a Service`);
      }
    }
  }
  const encrypted = byKind("BackendTLSPolicy").flatMap((p) => p.spec.targetRefs.map((t) => t.name));
  for (const route of [...byKind("HTTPRoute"), ...byKind("GRPCRoute")]) {
    for (const ref of route.spec.rules.flatMap((r) => r.backendRefs)) {
      if (!encrypted.includes(ref.name)) problems.push(`${nameOf(route)}: no BackendTLSPolicy for ${ref.name}`);
    }
  }
  for (const ingress of byKind("Ingress")) {
    const annotation = (name) =>
        ingress.metadata.annotations?.[`nginx.ingress.kubernetes.io/${name}`];
    if (!/^(HTTPS|GRPCS)$/.test(annotation("backend-protocol")) || annotation("proxy-ssl-verify") !== "on") {
      problems.push(`${nameOf(ingress)}: must speak TLS to nerfd and verify its certificate`);
    }
    for (const path of ingress.spec.rules.flatMap((r) => r.http.paths)) {
      const {name, port} = path.backend.service;
      if (!byKind("Service").some((s) => s.metadata.name === name &&
          s.spec.ports.some((p) => p.name === port.name))) {
        problems.push(`${nameOf(ingress)}: ${name}:${port.name} is no port of a Service`);
      }
    }
  }
  for (const scaler of byKind("HorizontalPodAutoscaler")) {
    const {kind, name} = scaler.spec.scaleTargetRef;
    if (!has(kind, name)) problems.push(`${nameOf(scaler)}: there is no ${kind} ${name}`);
  }
  for (const monitor of byKind("ServiceMonitor")) {
    const services = byKind("Service").filter((s) =>
        matches(monitor.spec.selector.matchLabels, s.metadata.labels));
    for (const endpoint of monitor.spec.endpoints) {
      if (!services.some((s) => s.spec.ports.some((p) => p.name === endpoint.port))) {
        problems.push(`${nameOf(monitor)}: no Service has a port ${endpoint.port}`);
      }
    }
  }
  return problems;
}

const ruleProblems = (objects) =>
    [...podTemplates(objects).flatMap(securityProblems), ...referenceProblems(objects),
      ...outsideProblems(objects)];

function read(file) {
  const objects =
      parseAllDocuments(readFileSync(file, "utf8")).map((d) => d.toJS()).filter(Boolean);
  for (const secret of objects.filter((o) => o.kind === "Secret")) {
    // YAML folds base64 over lines.
    for (const key of Object.keys(secret.data ?? {})) {
      secret.data[key] = secret.data[key].replace(/\s/g, "");
    }
  }
  return objects;
}

// Each takes the objects and spoils one thing.
const find = (objects, kind, name) =>
    objects.find((o) => o.kind === kind && (!name || o.metadata.name === name));
const container = (o, kind) => find(o, kind).spec.template.spec.containers[0];
const serverMistakes = {
  "misspelled probe field": (o) => { const c = container(o, "StatefulSet");
    c.readinessProbe.grpcc = c.readinessProbe.grpc; delete c.readinessProbe.grpc; },
  "unknown field of a pod": (o) => { find(o, "Deployment").spec.template.spec.serviceAcount = "x"; },
  "unknown field of a container": (o) => { container(o, "Deployment").volumeMount = []; },
  "unknown field of a claim": (o) => {
    find(o, "StatefulSet").spec.volumeClaimTemplates[0].spec.accessMode = "ReadWriteOnce"; },
  "port as text": (o) => { find(o, "Service").spec.ports[0].port = "50051"; },
  "replicas as text": (o) => { find(o, "Deployment").spec.replicas = "1"; },
  "missing selector": (o) => { delete find(o, "StatefulSet").spec.selector; },
  "missing image name": (o) => { delete container(o, "Deployment").name; },
  "two writers": (o) => { find(o, "StatefulSet").spec.replicas = 2; },
  "selector of other pods": (o) => {
    find(o, "Deployment").spec.selector.matchLabels["app.kubernetes.io/component"] = "server"; },
  "service of no pod": (o) => { find(o, "Service").spec.selector = {app: "nothing"}; },
  "service port that is not open": (o) => { find(o, "Service").spec.ports[0].targetPort = "http"; },
  "probe on a closed port": (o) => { container(o, "StatefulSet").livenessProbe.grpc.port = 50053; },
  "liveness by readiness": (o) => {
    container(o, "StatefulSet").livenessProbe.grpc.service = "readiness"; },
  "missing secret": (o) => {
    find(o, "Deployment").spec.template.spec.volumes.at(-1).secret.secretName = "other"; },
  "missing service account": (o) => {
    find(o, "Deployment").spec.template.spec.serviceAccountName = "nobody"; },
  "mount of no volume": (o) => { container(o, "Deployment").volumeMounts[0].name = "cash"; },
  "worker of another server": (o) => { container(o, "Deployment").args[0] = "--server=nerf:50051"; },
  "token outside of its mount": (o) => {
    container(o, "Deployment").args[1] = "--token-file=/secret/token"; },
  "plain connection of a worker": (o) => { container(o, "Deployment").args[2] = "--insecure"; },
  "plain server": (o) => { const c = container(o, "StatefulSet");
    c.args = c.args.filter((a) => !a.startsWith("--tls-")); },
  "the server's key in a worker": (o) => {
    delete find(o, "Deployment").spec.template.spec.volumes.at(-1).secret.items; },
  "certificate outside of its mount": (o) => {
    const c = container(o, "StatefulSet");
    c.args[c.args.findIndex((a) => a.startsWith("--tls-cert"))] = "--tls-cert=/tls/tls.crt"; },
  "a flag of the image's entry point": (o) => {
    container(o, "Deployment").args.push("--cache-dir=/cache"); },
  "a flag twice": (o) => { container(o, "Deployment").args.push("--server=nerfd:50051"); },
  "a CPU worker with all cores": (o) => { delete container(o, "Deployment").resources.limits.cpu; },
  "startup by readiness": (o) => {
    container(o, "StatefulSet").startupProbe.grpc.service = "readiness"; },
  "rollout that does not wait": (o) => { delete find(o, "Deployment").spec.minReadySeconds; },
  "liveness of another folder": (o) => {
    container(o, "Deployment").livenessProbe.exec.command[2] = "--cache-dir=/data"; },
  "DNS of one namespace": (o) => {
    find(o, "NetworkPolicy", "nerf-worker").spec.egress[1].to = [{namespaceSelector: {}}]; },
  "a full disk that hides the server": (o) => {
    delete find(o, "Service").spec.publishNotReadyAddresses; },
  "an origin of no route": (o) => {
    container(o, "StatefulSet").args.push("--web-origin=https://n.example.com"); },
  "root user": (o) => { find(o, "Deployment").spec.template.spec.securityContext.runAsUser = 0; },
  "privileged": (o) => { container(o, "Deployment").securityContext.privileged = true; },
  "kept capability": (o) => {
    container(o, "StatefulSet").securityContext.capabilities = {drop: ["ALL"], add: ["NET_RAW"]}; },
  "writable root": (o) => {
    container(o, "StatefulSet").securityContext.readOnlyRootFilesystem = false; },
  "no seccomp": (o) => { delete find(o, "StatefulSet").spec.template.spec.securityContext.seccompProfile; },
  "host path": (o) => {
    find(o, "Deployment").spec.template.spec.volumes[0] = {name: "cache", hostPath: {path: "/"}}; },
  "no memory limit": (o) => { delete container(o, "Deployment").resources.limits.memory; },
  "no default deny": (o) => { o.splice(o.indexOf(find(o, "NetworkPolicy", "default-deny")), 1); },
  "policy of no pod": (o) => {
    find(o, "NetworkPolicy", "nerfd").spec.podSelector.matchLabels = {app: "nerf"}; },
};

// Of manifests with routes, GPUs and monitoring.
const aroundMistakes = {
  "a route of another name": (o) => { find(o, "HTTPRoute").spec.hostnames = ["n.example.com"]; },
  "a route with a timeout": (o) => { delete find(o, "HTTPRoute").spec.rules[0].timeouts; },
  "a monitor without its label": (o) => { delete find(o, "ServiceMonitor").metadata.labels; },
  "rules without their label": (o) => { delete find(o, "PrometheusRule").metadata.labels; },
  "dashboards without their label": (o) => {
    delete find(o, "ConfigMap", "nerfd-dashboards").metadata.labels; },
  "a second pod on one GPU": (o) => {
    find(o, "Deployment").spec.strategy.rollingUpdate.maxSurge = 1; },
};

// Of manifests with several servers.
const without = (o, word) => { const c = container(o, "StatefulSet");
  c.args = c.args.filter((a) => !a.startsWith(word)); c.env = c.env.filter((e) => e.name !== word); };
const replicaMistakes = {
  "replicas that do not know of each other": (o) => without(o, "--replica-host"),
  "replicas with stores of their own": (o) => without(o, "NERFD_STORE"),
  "replicas with disks of their own": (o) => without(o, "--blobs"),
  "replicas with tokens of their own": (o) => without(o, "--admin-token-file"),
  "replicas on one machine": (o) => { delete find(o, "StatefulSet").spec.template.spec.affinity; },
  "unknown secret": (o) => {
    container(o, "StatefulSet").env[1].valueFrom.secretKeyRef.name = "nerfd-postgress"; },
  "password in the manifest": (o) => {
    const entry = container(o, "StatefulSet").env.find((e) => e.name === "PGPASSWORD");
    delete entry.valueFrom; entry.value = "geheim"; },
};

async function main(words) {
  if (words[0] === "--mistakes") {
    const isOne = find(read(words[1]), "StatefulSet").spec.replicas === 1;
    const objects = read(words[1]);
    const mistakes = !isOne ? replicaMistakes :
        find(objects, "HTTPRoute") ? aroundMistakes : serverMistakes;
    const names = Object.keys(mistakes);
    const spoilt = names.map((name) => {
      const objects = read(words[1]);
      mistakes[name](objects);
      return objects;
    });
    const types = typeProblems(spoilt);
    let missed = 0;
    for (const [i, name] of names.entries()) {
      let problems = [...types[i], ...await schemaProblems(spoilt[i])];
      try {
        problems.push(...ruleProblems(spoilt[i]));
      } catch (error) {
        // The rules read what the schemas ask for; without it they need not get through.
        if (problems.length === 0) throw error;
      }
      if (problems.length === 0) {
        console.log(`NOT NOTICED: ${name}`);
        ++missed;
      } else {
        console.log(`noticed: ${name}: ${problems[0]}`);
      }
    }
    console.log(`${names.length - missed} of ${names.length} mistakes noticed`);
    return missed ? 1 : 0;
  }
  let failed = 0;
  const sets = words.map((word) => read(word.slice(word.indexOf("=") + 1)));
  const types = typeProblems(sets);
  for (const [i, word] of words.entries()) {
    const problems = [...types[i], ...await schemaProblems(sets[i]), ...ruleProblems(sets[i])];
    for (const problem of problems) console.log(`${word.split("=")[0]}: ${problem}`);
    console.log(`${word.split("=")[0]}: ${sets[i].length} objects, ${problems.length} problems`);
    failed += problems.length;
  }
  return failed ? 1 : 0;
}

process.exitCode = await main(process.argv.slice(2));
