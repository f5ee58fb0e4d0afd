#!/usr/bin/env bash
# Runs the laptop overlay under `podman play kube` and trains examples/mic through it, by TLS.
# laptop_test.sh SOURCE_DIR BIN_DIR WORK_DIR. Minutes; run by scripts/test.sh --deploy. Exits 77, a visible skip, without
# kubectl, the tools of offline_images.sh, or where podman cannot start pods at all.
#
# podman 4.3 knows no StatefulSet, no grpc probes and no bridge without plugins. So the server becomes a Deployment with
# a claim, and the pods share a network namespace of their own, in which the server is localhost.
set -euo pipefail
source_dir=$1 bin_dir=$2 work=$3
for tool in kubectl catatonit openssl nsenter ip; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool"; exit 77; }
done
kubectl kustomize --help >/dev/null 2>&1 || { echo "SKIPPED: this kubectl has no kustomize"; exit 77; }
. "$source_dir/tests/deploy/offline_images.sh"
build server nerfd-server --layers
build worker nerfd-worker --layers

network=nerfd-laptop-$$
end() {
  "${pod[@]}" pod rm -a -f >/dev/null 2>&1 || true
  "${pod[@]}" volume rm -a -f >/dev/null 2>&1 || true
  "${pod[@]}" secret rm -a >/dev/null 2>&1 || true
  ip netns del "$network" 2>/dev/null || true
}
trap end EXIT
end
ip netns add "$network" 2>/dev/null || { echo "SKIPPED: no network namespaces"; exit 77; }
inside() { nsenter --net="/run/netns/$network" "$@"; }
inside ip link set lo up

overlay=$work/overlay
mkdir -p "$overlay"
"$source_dir/k8s/make_certificates.sh" "$overlay/certs"
cat >"$overlay/claim.yaml" <<'END'
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 5Gi}}}
END
cat >"$overlay/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
namespace: nerfd
resources: [$(realpath --relative-to "$overlay" "$source_dir/k8s/overlays/laptop"), claim.yaml]
generatorOptions: {disableNameSuffixHash: true}
secretGenerator:
  - {name: nerfd-tls, files: [certs/tls.crt, certs/tls.key, certs/ca.crt]}
images:
  - {name: ghcr.io/nerfd/server, newName: localhost/nerfd-server, newTag: latest}
  - {name: ghcr.io/nerfd/worker, newName: localhost/nerfd-worker, newTag: latest}
patches:
  - target: {kind: StatefulSet, name: nerfd}
    options: {allowKindChange: true}
    patch: |-
      - {op: replace, path: /kind, value: Deployment}
      - {op: remove, path: /spec/serviceName}
      - {op: remove, path: /spec/updateStrategy}
      - {op: remove, path: /spec/volumeClaimTemplates}
      - {op: remove, path: /spec/template/spec/containers/0/ports}
      - {op: add, path: /spec/template/spec/volumes/-, value: {name: data, persistentVolumeClaim: {claimName: data}}}
  - target: {kind: Deployment, name: nerf-worker}
    patch: |-
      - {op: replace, path: /spec/template/spec/containers/0/args/0, value: --server=localhost:50051}
  # mmdebstrap's base has no PATH.
  - target: {kind: Deployment}
    patch: |-
      - {op: add, path: /spec/template/spec/containers/0/env, value: [{name: PATH, value: /usr/local/bin:/usr/bin:/bin}]}
END
# podman 4.3 crashes without `optional`, and mounts the data of a Secret without decoding it: it gets them as text.
kubectl kustomize "$overlay" | sed -E 's/^( +)secretName: .*/&\n\1optional: false/' >"$work/rendered.yaml"
awk 'BEGIN {RS = ORS = "---\n"} !/\nkind: Secret\n/' "$work/rendered.yaml" >"$work/laptop.yaml"
add_secret() { # NAME FILE...
  printf 'apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ndata:\n' "$1" >"$work/secret.yaml"
  for file in "${@:2}"; do
    { echo "  $(basename "$file"): |"; sed 's/^/    /' "$file"; } >>"$work/secret.yaml"
  done
  "${pod[@]}" secret create "$1" "$work/secret.yaml" >/dev/null
}
add_secret nerfd-tls "$overlay"/certs/{tls.crt,tls.key,ca.crt}
add_secret "$(grep -m1 -o 'nerfd-worker-token-[a-z0-9]*' "$work/laptop.yaml")" "$source_dir/k8s/overlays/laptop/token"
# Low limits: a runtime without all capabilities may lower them, not raise them.
printf '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n' >"$work/containers.conf"
export CONTAINERS_CONF=$work/containers.conf
inside "${pod[@]}" play kube --network host "$work/laptop.yaml" >"$work/play.log" 2>&1 || true
lost() { # WHAT
  grep -v 'systemd connection' "$work/play.log" || true
  "${pod[@]}" ps -a
  for name in nerfd-pod-0-nerfd nerf-worker-pod-0-worker; do "${pod[@]}" logs "$name" 2>&1 | tail -n 5; done
  fail "$1"
}
running() { "${pod[@]}" ps --format '{{.Names}}' | grep -c -- '-pod-0-' || true; }
[ "$(running)" -ge 2 ] || lost "the pods do not run"

in_server=("${pod[@]}" exec nerfd-pod-0-nerfd)
for _ in $(seq 300); do "${in_server[@]}" test -s /data/nerfd.ports 2>/dev/null && break; sleep 0.2; done
NERFCTL_TOKEN=$("${in_server[@]}" cat /data/admin.token) || lost "the server did not start"
export NERFCTL_TOKEN
ctl=(inside "$bin_dir/nerfctl" --server localhost:50051 --ca "$overlay/certs/ca.crt")
"${ctl[@]}" train "$source_dir/examples/mic" --samples "${LAPTOP_SAMPLES:-2M}" --id mic || lost "the training failed"
state=$("${ctl[@]}" job show mic --json | grep -oP '"state":\s*"\K[A-Z]+' | head -1)
[ "$state" = SUCCEEDED ] || fail "the job is $state"
page=$(inside curl -sS --cacert "$overlay/certs/ca.crt" https://localhost:8080/) || fail "no page by https"
[[ $page == *"<!doctype html>"* ]] || fail "the page is not the page"
"${pod[@]}" exec nerf-worker-pod-0-worker nerf-worker --alive --cache-dir=/cache || fail "the probe finds no worker"
echo "laptop overlay under podman play kube: mic $state"
