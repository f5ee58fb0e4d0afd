#!/usr/bin/env bash
# Rules, alerts, dashboards and docs/run/metrics.md: valid, tested, and of metrics that a real nerfd
# has.
# monitoring_test.sh SOURCE_DIR BIN_DIR. Needs promtool (exit 77, skipped, without).
set -euo pipefail
source_dir=$1 bin_dir=$2
promtool=$(command -v promtool || echo "$source_dir/build/tools/usr/bin/promtool")
if [ ! -x "$promtool" ]; then
  echo "SKIPPED: no promtool"
  exit 77
fi
monitoring=$source_dir/monitoring
"$promtool" check config "$monitoring/prometheus.yaml"
"$promtool" test rules "$monitoring"/tests/*.test.yaml
python3 "$monitoring/make_dashboards.py" --check

scratch=$(mktemp -d)
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -rf "$scratch"' EXIT

# Every alert has a test: a rule without one would pass above.
grep -oP 'alert: \K\w+' "$monitoring/rules/nerfd.alerts.yaml" | sort >"$scratch/alerts"
grep -ohP 'alertname: \K\w+' "$monitoring"/tests/*.test.yaml | sort -u >"$scratch/tested"
diff "$scratch/alerts" "$scratch/tested"

# The tests of the alerts can fail: one threshold moved must be noticed.
mkdir -p "$scratch/mistake/rules" "$scratch/mistake/tests"
cp "$monitoring"/rules/*.yaml "$scratch/mistake/rules"
cp "$monitoring"/tests/*.yaml "$scratch/mistake/tests"
sed -i 's/nerfd_gpu_temperature_celsius > 88/nerfd_gpu_temperature_celsius > 60/' \
  "$scratch/mistake/rules/nerfd.alerts.yaml"
if "$promtool" test rules "$scratch"/mistake/tests/*.test.yaml >/dev/null 2>&1; then
  echo "FAIL: a moved threshold passed the tests of the alerts"
  exit 1
fi

"$bin_dir/nerfd" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --web-listen none --no-local-worker \
  --data-dir "$scratch/data" 2>"$scratch/log" &
server=$!
for _ in $(seq 100); do
  [ -s "$scratch/data/nerfd.ports" ] && break
  kill -0 "$server" || { cat "$scratch/log"; exit 1; }
  sleep 0.1
done
address=$(grep -oP '"metrics":"\K[^"]+' "$scratch/data/nerfd.ports")
curl -sf "http://$address/metrics" >"$scratch/metrics"
"$promtool" check metrics <"$scratch/metrics" >"$scratch/lints" 2>&1 || true
[ ! -s "$scratch/lints" ] || { cat "$scratch/lints"; exit 1; }
python3 "$source_dir/tests/deploy/check_monitoring.py" "$source_dir" "$scratch/metrics"
