#!/usr/bin/env bash
# Today's nerfd with nerf-worker, nerf-engine and nerfctl of the commit before, as in an upgrade that
# begins with the server, and two replicas of today beside one of that commit.
# previous_commit_test.sh SOURCE_DIR BIN_DIR WORK_DIR. Builds that commit in WORK_DIR; run by
# scripts/test.sh --deploy. NERF_PREVIOUS names another commit than HEAD^. Exits 77, a visible skip,
# where git does not have it.
set -euo pipefail
source_dir=$1 bin_dir=$2 work=$3
previous=${NERF_PREVIOUS:-HEAD^}
if ! commit=$(git -C "$source_dir" rev-parse --quiet --verify "$previous^{commit}"); then
  echo "SKIPPED: no commit $previous here"
  exit 77
fi
fail() { echo "FAIL: $*"; exit 1; }

# A work tree of its own, which stays, so that the next run builds only what differs.
mkdir -p "$work"
tree=$work/source
if [ -e "$tree/.git" ]; then
  git -C "$tree" checkout --quiet --detach "$commit"
else
  git -C "$source_dir" worktree prune
  git -C "$source_dir" worktree add --quiet --detach "$tree" "$commit"
fi
# The flags of scripts/test.sh, so that ccache has most of it.
(cd "$tree" && mkdir -p build && cmake --preset release -DNERF_ENABLE_TORCH=ON -DNERF_WERROR=ON) >"$work/configure.log" 2>&1 ||
  { cat "$work/configure.log"; exit 1; }
cmake --build "$tree/build/release" -j "$(nproc)" \
  --target nerfd nerf-worker nerf-engine nerfctl >"$work/build.log" 2>&1 ||
  { tail -30 "$work/build.log"; exit 1; }
old=$tree/build/release/bin

. "$source_dir/tests/e2e/start_nerfd.sh"
worker=
end_worker() {
  [ -z "$worker" ] || { kill "$worker" 2>/dev/null || true; wait "$worker" || true; }
  end
}
trap end_worker EXIT
start_nerfd "$bin_dir" --no-local-worker
NERFCTL_SERVER=$(served_address grpc)
export NERFCTL_SERVER
"$old/nerf-worker" --server "$NERFCTL_SERVER" --token-file "$scratch/server/worker.token" \
  --cache-dir "$scratch/cache" 2>"$scratch/worker.log" &
worker=$!

# One client or the other makes each of these; both see the same.
"$old/nerfctl" train "$source_dir/examples/mic" --samples 2M --id mic | tee "$scratch/trained"
grep -q '^SUCCEEDED' "$scratch/trained" || fail "the job did not succeed"
"$old/nerfctl" render --job mic --orbit 1 --width 64 --height 64 --out "$scratch/views"
"$bin_dir/nerfctl" render --job mic --orbit 1 --width 64 --height 64 --out "$scratch/views-today"
cmp "$scratch"/views/*0.png "$scratch"/views-today/*0.png
"$old/nerfctl" model promote mic --id mic
"$bin_dir/nerfctl" job render mic --frames 3 --width 64 --height 64 --images --out "$scratch/film"
[ "$(find "$scratch/film" -name '*.png' | wc -l)" = 3 ] || fail "the render job gave no frames"
"$bin_dir/nerfctl" train "$source_dir/examples/mic" --samples 1G --id stopped --detach
"$old/nerfctl" job cancel stopped
"$old/nerfctl" job watch stopped >/dev/null || true
for client in "$old/nerfctl" "$bin_dir/nerfctl"; do
  "$client" job ls | tee "$scratch/list"
  grep -q 'mic.*SUCCEEDED' "$scratch/list" && grep -q 'stopped.*CANCELLED' "$scratch/list" ||
    fail "$client does not list both jobs"
done

replicas=0
"$source_dir/tests/e2e/faults_test.sh" "$source_dir" "$bin_dir" e2e/replicas.py --rounds 5 \
  --engine "$bin_dir/../tests/fake_engine" --other-binaries "$old" || replicas=$?
[ "$replicas" = 0 ] || [ "$replicas" = 77 ] || fail "the replicas"
echo "nerfd with worker, engine and nerfctl of $(git -C "$tree" log -1 --format='%h, %s'): passed"
