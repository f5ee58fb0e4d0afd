#!/usr/bin/env bash
# Photographs without poses to a training, by curl alone: uploads them, queues a pose job and a
# training that waits for it, and ends. Nothing has to stay for it to go on.
#   NERFD_TOKEN=... examples/curl/train_photographs.sh URL ID PHOTOGRAPH...
# URL: nerfd's --web-listen, such as http://127.0.0.1:8080. ID names scene and training, ID-poses
# the pose job; the same command again finds what it has made. Prints the training job.
set -euo pipefail
if [ $# -lt 3 ]; then
  sed -n '4,6s/^# *//p' "$0" >&2
  exit 2
fi
url=$1 id=$2
shift 2
auth="Authorization: Bearer ${NERFD_TOKEN:?is not set}"

uuid() { # a UUID4 made of a text
  local hex
  hex=$(printf %s "$1" | sha256sum)
  echo "${hex:0:8}-${hex:8:4}-4${hex:13:3}-a${hex:17:3}-${hex:20:12}"
}
call() { # SERVICE/METHOD JSON
  curl -sS --fail-with-body "$url/nerf.v1.$1" -H "$auth" -H 'Content-Type: application/json' \
    -d "$2"
}

files=
for photo in "$@"; do
  name=$(basename "$photo")
  case $name in *[!A-Za-z0-9._-]*) echo "$name: rename it: A-Z a-z 0-9 . _ -" >&2; exit 2 ;; esac
  sha256=$(sha256sum <"$photo" | cut -d' ' -f1)
  size=$(wc -c <"$photo")
  upload=$(uuid "$sha256 $$ $RANDOM")
  curl -sS --fail-with-body -X PATCH "$url/uploads/$upload/blobs/$sha256/$size" \
    -H "$auth" -H 'Tus-Resumable: 1.0.0' -H 'Upload-Offset: 0' \
    -H 'Content-Type: application/offset+octet-stream' --data-binary "@$photo" >&2
  files+=",{\"path\":\"$name\",\"blob\":{\"sha256\":\"$sha256\",\"sizeBytes\":$size}}"
done
project=projects/default
call JobService/CreateJob "{
  \"jobId\": \"$id-poses\", \"requestId\": \"$(uuid "poses $id")\",
  \"job\": {\"pose\": {\"scene\": \"$project/scenes/$id\", \"files\": [${files:1}]}}}" >/dev/null
call JobService/CreateJob "{
  \"jobId\": \"$id\", \"requestId\": \"$(uuid "training $id")\",
  \"job\": {\"training\": {\"poseJob\": \"$project/jobs/$id-poses\",
                         \"config\": {\"seed\": 1, \"samples\": ${SAMPLES:-4e7}}}}}"
