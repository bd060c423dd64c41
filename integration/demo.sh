#!/usr/bin/env bash
# Shows wsfs doing its main job on a real project, step by step: a clone of this
# repository is mounted, changed through the mount, unmounted, mounted again.
#
# usage: demo.sh WSFS REPOSITORY
set -euo pipefail

wsfs=$(realpath "$1")
repository=$(realpath "$2")
dir=$(mktemp -d "${TMPDIR:-/tmp}/wsfs-demo.XXXXXX")
project=$dir/project
mnt=$dir/workspace
export WSFS_STATE=$dir/state GIT_CONFIG_GLOBAL=$dir/gitconfig GIT_CONFIG_NOSYSTEM=1
server=

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '  $ %s\n' "$*"; (cd "$mnt" && eval "$*") 2>&1 | sed 's/^/    /'; }
fail() { printf 'demo: %s\n' "$*" >&2; exit 1; }

finish() {
  "$wsfs" umount --lazy "$mnt" 2>/dev/null || true
  [ -z "$server" ] || wait "$server" 2>/dev/null || true
  rm -rf --one-file-system "$dir"
}
trap finish EXIT

# start mounts the workspace and returns when it can be used.
start() {
  "$wsfs" mount "$mnt" --foreground --project "$project" --name demo --agent coder --user you >"$dir/ready" &
  server=$!
  for _ in $(seq 200); do
    [ -s "$dir/ready" ] && return
    kill -0 "$server" 2>/dev/null || fail 'the mount did not come up'
    sleep 0.05
  done
  fail 'the mount did not come up in 10 s'
}

stop() {
  "$wsfs" umount "$mnt"
  wait "$server"
  server=
}

# fingerprint is one number for every byte, mode and time below the project.
fingerprint() {
  (cd "$project" && find . -printf '%p %y %m %n %s %T@ %l\n' | LC_ALL=C sort | sha256sum
   find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum) | sha256sum | cut -c1-16
}

git config --file "$GIT_CONFIG_GLOBAL" user.name Agent
git config --file "$GIT_CONFIG_GLOBAL" user.email agent@example.org
git config --file "$GIT_CONFIG_GLOBAL" safe.directory '*'
git config --file "$GIT_CONFIG_GLOBAL" gc.auto 0

say '1. A real project: a clone of this repository.'
git clone --quiet "$repository" "$project"
before=$(fingerprint)
echo "  $(git -C "$project" ls-files | wc -l) files, fingerprint $before"

say '2. Mount it as a workspace.'
start
echo "  mounted at $mnt"
run 'git status --short --branch'

say '3. Work in it with ordinary tools.'
run 'sed -i "1s/.*/# wsfs, seen by an agent/" README.md'
run 'git switch --quiet -c agent && git commit --quiet -am "Edit the title" && git log --oneline -1'
run 'go build -o /dev/null ./router && echo "go build: ok"'
run 'mv docs manual && ls -d manual && git status --short | head -3'
run 'rm LICENSE; ls LICENSE || true'

say '4. Memory is files, too, but lives in the store.'
run 'echo "- the user likes short answers" >> MEMORY.md'
run 'mkdir -p memory/projects && echo "wsfs: layers, routes, store" > memory/projects/wsfs.md'
run 'sed -i "s/short/short, exact/" MEMORY.md && cat MEMORY.md memory/projects/wsfs.md'
echo "  on disk, in the agent's layer, there is no MEMORY.md:"
ls -A "$WSFS_STATE/workspaces/demo/layers/1" | sed 's/^/    /'

say '5. Unmount, and mount again: both are still there.'
stop
start
run 'head -1 README.md; ls -d manual; cat MEMORY.md; git log --oneline -1'
[ "$(cat "$mnt/MEMORY.md")" = '- the user likes short, exact answers' ] || fail 'the memory is not what was written'
[ "$(head -1 "$mnt/README.md")" = '# wsfs, seen by an agent' ] || fail 'the edit is gone'
[ ! -e "$mnt/LICENSE" ] || fail 'a removed file came back'

say '6. Kill the server with -9 in the middle, and mount again.'
run 'echo "- written just before the crash" >> MEMORY.md'
kill -9 "$server"
wait "$server" 2>/dev/null || true
start
run 'tail -1 MEMORY.md'
[ "$(tail -1 "$mnt/MEMORY.md")" = '- written just before the crash' ] || fail 'an acknowledged write was lost'
stop
run_check=$("$wsfs" check demo) || fail "check: $run_check"
echo "  wsfs check: $run_check"

say '7. The project itself was never touched.'
after=$(fingerprint)
echo "  fingerprint before $before, after $after"
[ "$before" = "$after" ] || fail 'the project changed'
say 'Done.'
