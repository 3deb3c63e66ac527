# A PostgreSQL server answers pgbench: two clients with simple transactions, a fixed number. The
# database is made by the first run and copied by all others. As an ordinary user even where root
# measures, because the server insists. Arguments: the folder of PostgreSQL's programs, the
# folder for the database, and the number of transactions of each client.
programs=$1 folder=$2 transactions=$3
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$folder" && chown 65534:65534 "$folder" || exit
  # Translations are their user's own.
  kept=$UNSPOOL_PERSISTENT_CACHE
  case $kept in
    /*) mkdir -p "$kept" && chown 65534:65534 "$kept" && chmod a+rx "$kept/.." || exit ;;
  esac
  exec setpriv --reuid=65534 --regid=65534 --clear-groups sh "$0" "$@"
fi
mkdir -p "$folder" && cd "$folder" || exit
export PGHOST="$folder" PGPORT=5433 PGUSER=bench PGDATABASE=postgres

start() {
  "$programs/postgres" -D "$1" -k "$folder" -p $PGPORT -c listen_addresses= -c fsync=off \
    -c autovacuum=off >log 2>&1 &
  server=$!
  until "$programs/pg_isready" -q; do
    kill -0 $server || exit
    sleep 0.2
  done
}

stop() {
  kill -INT $server
  wait $server
}

if ! [ -e made ]; then
  rm -rf template
  "$programs/initdb" -D template -U bench -A trust -N >&2 || exit
  start template
  "$programs/pgbench" -i -s 2 -q >&2 || exit
  stop
  touch made
fi
rm -rf data
cp -r template data
start data
"$programs/pgbench" -n -S -c 2 -t "$transactions" >summary || exit
"$programs/pgbench" -n -c 2 -t $((transactions / 10)) >>summary || exit
stop
grep 'actually processed' summary
