# Sourced by tests of images, with $source_dir, $bin_dir and $work. Sets $pod, podman with a storage of our own, and defines
# build, which makes an image of docker/Dockerfile from existing binaries. Exits 77, a visible skip, without root, buildah,
# podman, runc or mmdebstrap.
for tool in buildah podman runc mmdebstrap; do
  command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool"; exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: not root"; exit 77; }
export STORAGE_DRIVER=vfs
mkdir -p "$work/bin"
# Storage of our own, so that nobody's images are touched.
storage=(--root "$work/storage" --runroot "$work/run")
pod=(podman "${storage[@]}" --runtime runc --cgroup-manager cgroupfs)
fail() { echo "FAIL: $*"; exit 1; }

[ -s "$work/base.tar" ] || mmdebstrap --variant=minbase bookworm "$work/base.tar"
cp "$bin_dir"/{nerfd,nerfctl,nerf-worker,nerf-engine} "$work/bin"
container=$(buildah "${storage[@]}" from scratch)
buildah "${storage[@]}" add -q "$container" "$work/base.tar" / >/dev/null
buildah "${storage[@]}" commit -q --rm --timestamp 0 "$container" nerfd-base >/dev/null

build() { # TARGET TAG OPTION...
  buildah "${storage[@]}" build "${@:3}" --isolation chroot --timestamp 0 --pull=never \
    --build-arg BASE=localhost/nerfd-base --build-context "binaries=$work/bin" \
    -f "$source_dir/docker/Dockerfile" --target "$1" -t "$2" "$source_dir" >"$work/$2.log" 2>&1 ||
    { tail -20 "$work/$2.log"; return 1; }
}
