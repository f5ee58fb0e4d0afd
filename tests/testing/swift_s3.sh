#!/usr/bin/env bash
# Runs OpenStack Swift with its s3api, an S3 server that checks signatures, until its standard
# input ends. Argument: an empty folder. Prints the endpoint once it answers. The account is
# test:tester with the key testing; there is a bucket nerf. Exits 77 where Swift is not installed
# (Debian: swift-proxy swift-account swift-container swift-object).
set -euo pipefail
folder=$1
for program in swift-ring-builder swift-proxy-server swift-account-server swift-container-server \
               swift-object-server; do
  command -v "$program" >/dev/null || { echo "SKIPPED: no $program"; exit 77; }
done
free_ports() {
  /usr/bin/python3 - <<'PY'
import socket
probes = [socket.socket() for _ in range(4)]
for probe in probes:
    probe.bind(("127.0.0.1", 0))
print(*(probe.getsockname()[1] for probe in probes))
PY
}
read -r proxy account container object <<<"$(free_ports)"
mkdir -p "$folder/devices/disk"
common="bind_ip = 127.0.0.1
workers = 0
user = $(id -un)
swift_dir = $folder
devices = $folder/devices
mount_check = false
recon_cache_path = $folder/recon
log_level = WARNING"
mkdir "$folder/recon"
for kind in account container object; do
  port=${!kind}
  cat >"$folder/$kind.conf" <<CONF
[DEFAULT]
$common
bind_port = $port
[pipeline:main]
pipeline = $kind-server
[app:$kind-server]
use = egg:swift#$kind
CONF
  (cd "$folder" && swift-ring-builder "$kind.builder" create 4 1 0 &&
   swift-ring-builder "$kind.builder" add "r1z1-127.0.0.1:$port/disk" 1 &&
   swift-ring-builder "$kind.builder" rebalance) >/dev/null
done
cat >"$folder/proxy.conf" <<CONF
[DEFAULT]
$common
bind_port = $proxy
[pipeline:main]
pipeline = catch_errors cache listing_formats s3api tempauth copy slo proxy-logging proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:1
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:copy]
use = egg:swift#copy
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:proxy-logging]
use = egg:swift#proxy_logging
CONF
servers=()
end() {
  for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
  wait
}
trap end EXIT
for kind in account container object proxy; do
  "swift-$kind-server" "$folder/$kind.conf" >"$folder/$kind.log" 2>&1 </dev/null &
  servers+=($!)
done
/usr/bin/python3 - "$proxy" <<'PY'
# Makes the bucket, by the older signature.
import base64, email.utils, hashlib, hmac, http.client, sys, time
for attempt in range(300):
    date = email.utils.formatdate(usegmt=True)
    digest = hmac.new(b"testing", f"PUT\n\n\n{date}\n/nerf".encode(), hashlib.sha1).digest()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=30)
        connection.request("PUT", "/nerf", headers={
            "Date": date, "Authorization": f"AWS test:tester:{base64.b64encode(digest).decode()}"})
        answer = connection.getresponse()
        if answer.status == 200:
            sys.exit(0)
        print(answer.status, answer.read()[:300], file=sys.stderr)
    except OSError:
        pass
    time.sleep(0.2)
sys.exit("Swift does not answer")
PY
echo "http://127.0.0.1:$proxy"
cat >/dev/null
