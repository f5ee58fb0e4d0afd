#!/usr/bin/env bash
# Renders the overlays and every component and checks them (manifests/check_manifests.mjs), plants
# mistakes that must be noticed, and type-checks the dashboards. manifests_test.sh SOURCE_DIR BUILD_DIR
# Needs kubectl with kustomize, node and npm; exits 77, a visible skip, without.
set -euo pipefail
source_dir=$1 build_dir=$2
for tool in kubectl node npm; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool"; exit 77; }
done
kubectl kustomize --help >/dev/null 2>&1 || { echo "SKIPPED: this kubectl has no kustomize"; exit 77; }

work=$build_dir/manifests
mkdir -p "$work"
cp "$source_dir"/tests/deploy/manifests/{package.json,package-lock.json,.npmrc,*.mjs} "$work"
if ! cmp -s "$work/package-lock.json" "$work/node_modules/.installed"; then
  (cd "$work" && npm ci --ignore-scripts --loglevel=error) || { echo "SKIPPED: npm cannot fetch the schemas"; exit 77; }
  cp "$work/package-lock.json" "$work/node_modules/.installed"
fi

"$source_dir/k8s/components/monitoring/make_rules.sh" --check

# Every component over the base, each by itself, beside the overlays; "around" is the GPU overlay
# with a gateway.
sets=()
rm -rf "$work/overlays"
for component in "$source_dir"/k8s/components/*/; do
  name=$(basename "$component")
  mkdir -p "$work/overlays/$name"
  relative() { realpath --relative-to "$work/overlays/$name" "$1"; }
  printf 'kind: Kustomization\nnamespace: nerfd\nresources: [%s]\ncomponents: [%s]\n' \
    "$(relative "$source_dir/k8s/base")" "$(relative "$component")" \
    >"$work/overlays/$name/kustomization.yaml"
  kubectl kustomize "$work/overlays/$name" >"$work/$name.yaml"
  sets+=("$name=$work/$name.yaml")
done
for overlay in "$source_dir"/k8s/overlays/*/; do
  name=$(basename "$overlay")
  kubectl kustomize "$overlay" >"$work/$name.yaml"
  sets+=("$name=$work/$name.yaml")
done
mkdir -p "$work/overlays/around"
printf 'kind: Kustomization\nnamespace: nerfd\nresources: [%s]\ncomponents: [%s]\n' \
  "$(realpath --relative-to "$work/overlays/around" "$source_dir/k8s/overlays/gpu")" \
  "$(realpath --relative-to "$work/overlays/around" "$source_dir/k8s/components/gateway-api")" \
  >"$work/overlays/around/kustomization.yaml"
kubectl kustomize "$work/overlays/around" >"$work/around.yaml"
sets+=("around=$work/around.yaml")
node "$work/check_manifests.mjs" "${sets[@]}"

# An argument's index changes with every argument before it.
if grep -rnE 'path: .*/args/[0-9]' "$source_dir/k8s"; then
  echo "FAIL: an argument is patched by its index"
  exit 1
fi

# docs/run/deploy.md builds every image under the name that the manifests have, and its steps fit
# them in their order.
deploy=$source_dir/docs/run/deploy.md
missing=0
while read -r image; do
  grep -qF -- "-t $image " "$deploy" || { echo "FAIL: $deploy builds no $image"; missing=1; }
done < <(grep -ohE '^ *(- )?image: .*' "$work"/{laptop,gpu}.yaml | sed 's/.*image: //' | sort -u)
[ "$missing" = 0 ]
overlays=()
for overlay in "$source_dir"/k8s/overlays/*/; do
  name=$(basename "$overlay")
  overlays+=("$name=$work/$name.yaml")
done
node "$work/check_deploy.mjs" "$source_dir" "${overlays[@]}"

# Every argument and variable is one of the binaries.
unknown=0
while read -r flag; do
  if ! grep -qe "$flag[ =,]" <("$build_dir/bin/nerfd" --help; "$build_dir/bin/nerf-worker" --help); then
    echo "FAIL: no binary knows $flag"
    unknown=1
  fi
done < <(grep -ohE '^ +- --[a-z-]+' "$work"/*.yaml | grep -oE -- '--[a-z-]+' | sort -u)
while read -r variable; do
  if ! grep -q "(Env:$variable)" \
    <("$build_dir/bin/nerfd" --help; "$build_dir/bin/nerf-worker" --help); then
    echo "FAIL: no binary reads $variable"
    unknown=1
  fi
done < <(grep -ohE 'name: NERFD?_[A-Z_]+' "$work"/*.yaml | sed 's/name: //' | sort -u)
[ "$unknown" = 0 ]
for name in laptop replicas around; do
  node "$work/check_manifests.mjs" --mistakes "$work/$name.yaml"
done
node "$work/check_dashboards.mjs" "$source_dir"/monitoring/dashboards/*.json

if kubectl --request-timeout=2s version >/dev/null 2>&1; then
  kubectl apply --dry-run=server -f "$work/laptop.yaml"
else
  echo "no cluster: --dry-run=server was not tried"
fi
