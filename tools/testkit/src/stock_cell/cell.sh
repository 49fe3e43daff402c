# The daemons of a stock AFS cell, on address $1; $2: flags of its file server. It runs in mount and process namespaces of its own, so the machine keeps what
# it has in the same places, and all ends with this script: when its standard input does.
set -eu
address=$1 flags=$2 daemons=/usr/lib/openafs logs=/var/log/openafs
mkdir -p /vicepa /etc/openafs /var/lib/openafs $logs
for place in /vicepa /etc/openafs /var/lib/openafs $logs; do
  mount -t tmpfs none $place || { echo no mounts; exit 0; }
done
mkdir -p /etc/openafs/server /var/lib/openafs/db /var/lib/openafs/local
for place in /etc/openafs /etc/openafs/server; do
  echo test.local >$place/ThisCell
  printf '>test.local\n%s #server\n' "$address" >$place/CellServDB
done
# No keys, no disk of its own: everybody is an administrator, and the partition is a directory.
touch /vicepa/AlwaysAttach /var/lib/openafs/local/NoAuth
echo "$address" >/var/lib/openafs/local/NetInfo

fail() { tail -n 20 $logs/* >&2; exit 1; }
patiently() {
  tries=0
  until "$@" >$logs/tried 2>&1; do tries=$((tries + 1)); [ $tries -lt 300 ] || fail; sleep 0.2; done
}
$daemons/ptserver >$logs/pt 2>&1 &
$daemons/vlserver >$logs/vl 2>&1 &
# A file server that finds no protection service waits for half a minute.
patiently pts listmax -noauth
patiently vos listvldb -noauth
$daemons/salvageserver >$logs/salvage 2>&1 &
# shellcheck disable=SC2086 # several words
$daemons/dafileserver $flags >$logs/file 2>&1 &
sleep 1
$daemons/davolserver >$logs/vol 2>&1 &
patiently vos create "$address" a seed -maxquota 0 -noauth
vos dump seed -noauth -file $logs/dump >/dev/null 2>&1 || fail
# A new volume's root grants everything to system:administrators (-204); these grant it to system:anyuser (-101).
LC_ALL=C sed -i 's/\xff\xff\xff\x34/\xff\xff\xff\x9b/g' $logs/dump
for volume in pub other; do
  vos restore "$address" a $volume -file $logs/dump -noauth >/dev/null 2>&1 || fail
done
rm $logs/dump
vos addsite "$address" a other -noauth >/dev/null 2>&1 || fail
vos release other -noauth >/dev/null 2>&1 || fail
echo ready
cat >/dev/null
