# shellcheck shell=bash
# What the scripts beside this file share: source it, then use
#
#	note TEXT, die TEXT		on stderr
#	find_postgres			sets PG_CONFIG, PG_BIN: $PG_CONFIG if set, else the newest PostgreSQL with server and headers
#	make_work NAME			sets WORK: a scratch copy of the tree, removed at the end
#	as_user COMMAND ...		runs it in WORK; as root: as the ordinary user who owns WORK (PostgreSQL refuses root)
#	in_group COMMAND ...	as_user, in a process group that ends with this script, also at Ctrl-C
#	install_private			builds the extension and installs it into a private PostgreSQL: sets PG_CONFIG and PG_BIN anew
#
# The private PostgreSQL is a copy of the system's programs with symbolic links for the rest: PostgreSQL finds its
# libraries and files by where its programs lie.  So nothing of the system is changed, and runs do not meet.
#
# ZARIS_WORK=DIRECTORY uses that directory and keeps it: later runs rebuild only what changed.

set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
program=script/$(basename "$0")
WORK=
scratch=
group=

note() { printf '%s: %s\n' "$program" "$*" >&2; }
die() { note "$*"; exit 1; }

find_postgres() {
  if [[ -z ${PG_CONFIG:-} ]]; then
    local candidate
    for candidate in /usr/lib/postgresql/*/bin/pg_config; do
      [[ -x $candidate && -x ${candidate%pg_config}initdb && -f $("$candidate" --pgxs) ]] || continue
      if [[ -z ${PG_CONFIG:-} || $(version_of "$candidate") -gt $(version_of "$PG_CONFIG") ]]; then
        PG_CONFIG=$candidate
      fi
    done
  fi
  [[ -n ${PG_CONFIG:-} ]] || die "no PostgreSQL with its server headers; run script/setup"
  PG_BIN=$("$PG_CONFIG" --bindir)
  [[ -x $PG_BIN/initdb ]] || die "$PG_CONFIG has no server beside it ($PG_BIN/initdb)"
}
version_of() { "$1" --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/'; }

make_work() {
  if [[ -n ${ZARIS_WORK:-} ]]; then
    mkdir -p "$ZARIS_WORK"
    WORK=$(cd "$ZARIS_WORK" && pwd)
  else
    WORK=$(mktemp -d "${TMPDIR:-/tmp}/zaris_fdw-$1.XXXXXX")
  fi
  scratch=$(mktemp -d "${TMPDIR:-/tmp}/zaris.XXXXXX")    # short: sockets lie here, and their paths are limited
  trap end_work EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  # Work files of a run (objects, servers' data) stay in WORK when it is kept, and are never taken from the tree.
  rsync -a --delete --exclude=/.git --exclude='*.o' --exclude='*.d' --exclude='*.so' --exclude='*.bc' \
    --exclude=/test/unit/build --exclude=/bench/build --exclude=/tmp_check --exclude=/pg "$top/" "$WORK/"
  chmod 755 "$WORK"
  if ((EUID == 0)); then
    chown -R postgres: "$WORK" "$scratch"
    setpriv --reuid=postgres --regid=postgres --init-groups test -w "$WORK" -a -w "$scratch" ||
      die "user postgres cannot reach $WORK; set TMPDIR to a directory that others may enter"
  fi
}

as_user() (
  cd "$WORK"
  export TMPDIR=$scratch PATH=${PG_BIN:-/usr/bin}:$PATH
  ((EUID != 0)) || exec setpriv --reuid=postgres --regid=postgres --init-groups env HOME="$scratch" "$@"
  exec "$@"
)

in_group() {
  local result=0
  set -m
  as_user "$@" </dev/null &
  group=$!
  set +m
  wait "$group" || result=$?
  end_group
  return "$result"
}

# The group has ended by itself, or is told to, and gets the time to end its servers.
end_group() {
  local i
  [[ -n $group ]] || return 0
  kill -TERM -- "-$group" 2>/dev/null || true
  for ((i = 0; i < 100; i++)); do
    kill -0 -- "-$group" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL -- "-$group" 2>/dev/null || true
  group=
}

end_work() {
  local status=$? pidfile
  trap '' INT TERM HUP
  ! declare -F at_end >/dev/null || at_end    # the script's own
  end_group
  # Servers of tests that could not end them: by their own pid files, in our directory only.
  while read -r pidfile; do
    kill -QUIT "$(head -n 1 "$pidfile")" 2>/dev/null || true
  done < <(find "$WORK" -name postmaster.pid 2>/dev/null)
  rm -rf "${scratch:?}"
  if [[ -n ${keep_logs:-} ]] && ((status != 0 && status < 128)) && [[ -d $WORK/tmp_check/log ]]; then
    note "logs are in $WORK/tmp_check"
  elif [[ -z ${ZARIS_WORK:-} ]]; then
    rm -rf "${WORK:?}"
  fi
  exit "$status"
}

install_private() {
  local major system root=$WORK/pg
  major=$(version_of "$PG_CONFIG")
  system=$(dirname "$PG_BIN")
  if [[ $system == /usr/lib/postgresql/* && ! -x $root/lib/postgresql/$major/bin/postgres ]]; then
    as_user mkdir -p "$root/lib/postgresql/$major" "$root/share/postgresql"
    as_user cp -a "$PG_BIN" "$root/lib/postgresql/$major/"
    as_user cp -rs "$system/lib" "$root/lib/postgresql/$major/"
    as_user cp -rs "/usr/share/postgresql/$major" "$root/share/postgresql/"
    as_user ln -s /usr/include "$root/include"
  fi
  # Another layout than Debian's cannot be copied so: there the caller's own PostgreSQL is used as it is.
  if [[ $system == /usr/lib/postgresql/* ]]; then
    PG_BIN=$root/lib/postgresql/$major/bin
    PG_CONFIG=$PG_BIN/pg_config
  fi
  as_user make -s -j2 "PG_CONFIG=$PG_CONFIG" all
  as_user make -s "PG_CONFIG=$PG_CONFIG" install >/dev/null
}
