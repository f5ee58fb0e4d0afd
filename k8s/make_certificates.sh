#!/usr/bin/env bash
# Makes a CA and, signed by it, a certificate for nerfd:
#   k8s/make_certificates.sh DIR [NAME...]
# DIR gets ca.crt, tls.crt, tls.key and ca.key; a ca.key that is there is used again. The certificate
# is for the names by which the pods call nerfd, for localhost and for each NAME (or IP address), and
# is valid for a year. Keep ca.key to yourself: whoever has it can pass for your server.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
dir=$1
shift
umask 077
mkdir -p "$dir"
run() { # openssl, whose words are shown if it fails
  openssl "$@" 2>"$dir/openssl.log" || { cat "$dir/openssl.log" >&2; echo "$0: openssl $1 failed" >&2; exit 1; }
}
if [ ! -s "$dir/ca.key" ]; then
  run req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=nerfd CA" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign \
    -keyout "$dir/ca.key" -out "$dir/ca.crt"
fi
names=DNS:nerfd,DNS:nerfd.nerfd,DNS:nerfd.nerfd.svc,DNS:nerfd.nerfd.svc.cluster.local,DNS:localhost,IP:127.0.0.1
for name in "$@"; do
  kind=DNS
  [[ ! $name =~ ^[0-9.]+$|: ]] || kind=IP
  names+=,$kind:$name
done
request=$(run req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=nerfd" -keyout "$dir/tls.key.new")
run x509 -req -days 365 -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -in <(echo "$request") \
  -extfile <(echo "subjectAltName=$names"; echo "extendedKeyUsage=serverAuth") -out "$dir/tls.crt.new"
mv "$dir/tls.key.new" "$dir/tls.key"
mv "$dir/tls.crt.new" "$dir/tls.crt"
rm -f "$dir/ca.srl" "$dir/openssl.log"
