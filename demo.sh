#!/usr/bin/env bash
# `make demo`: nsrun builds and tests a real Go module, this one, without network,
# and keeps what that writes apart until it is committed. It works on a clone in
# the cache directory; every claim is checked.
set -euo pipefail
trap 'echo "demo: failed at line $LINENO: $BASH_COMMAND" >&2' ERR

checkout=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
: "${HOME:?demo: HOME is not set}"
cache=${XDG_CACHE_HOME:-$HOME/.cache}
mkdir -p "$cache" "$HOME/.local/state"
work=$(mktemp -d "$cache/nsrun-demo.XXXXXX")
# Sessions of its own, not among yours.
XDG_STATE_HOME=$(mktemp -d "$HOME/.local/state/nsrun-demo.XXXXXX")
export XDG_STATE_HOME
trap 'rm -rf "$work" "$XDG_STATE_HOME"' EXIT

bin=$work/bin/nsrun
mkdir "$work/bin"
cp "$checkout/nsrun" "$bin"
PATH=$work/bin:$PATH

say() { printf '\n# %s\n' "$*"; }
shown() { printf '$ %s\n' "$*"; "$@"; }
wrong() { echo "demo: $*" >&2; exit 1; }

say "A clone of this module. Its dependencies are fetched outside of the sandbox."
git clone -q "$checkout" "$work/nsrun"
cd "$work/nsrun"
unset GOFLAGS
go mod download
export GOPROXY=off GOTOOLCHAIN=local
# Where Go's cache is not one of those that nsrun makes writable, use a new one.
env=()
case $(go env GOCACHE) in "$HOME/.cache/"*) ;; *) env=(--env GOCACHE=/tmp/go-build) ;; esac

say "Built, vetted and tested in the sandbox; it writes new files and changes one."
cat > "$work/job" <<'END'
set -e
go build -o bin/ ./cmd/...
go vet ./...
# There the real bubblewrap to compare with makes no namespaces.
unset NSRUN_BWRAP NSRUN_MUST_WORK
go test ./internal/prog ./internal/bwrap
go version -m bin/nsrun > build.txt
echo 'Built in a sandbox.' >> CHANGELOG.md
END
shown nsrun run --keep --ro "$work/job" ${env[@]+"${env[@]}"} -- sh "$work/job"

say "The work tree is untouched."
shown git status --short
[ -z "$(git status --porcelain --ignored)" ] || wrong "the work tree has changed"
[ ! -e build.txt ] && [ ! -e bin ] || wrong "the work tree has new files"

say "There is no network in there, and no way to write elsewhere."
if nsrun run -q --discard -- bash -c ': < /dev/tcp/192.0.2.1/443' 2>/dev/null; then wrong "connected"; fi
shown nsrun run -q --discard -- bash -c ': < /dev/tcp/192.0.2.1/443' || echo "(status $?)"
shown nsrun run -q --discard -- touch "$HOME/nsrun-was-here" || echo "(status $?)"
[ ! -e "$HOME/nsrun-was-here" ] || wrong "the sandbox wrote to the home directory"

say "What changed, and into the work tree with it."
shown nsrun ls
shown nsrun show
shown nsrun commit last
shown git status --short
[ "$(git status --porcelain)" = $' M CHANGELOG.md\n?? build.txt' ] || wrong "these are not the changes"
bin/nsrun version >/dev/null || wrong "what was built does not work"
tail -n 1 CHANGELOG.md | grep -qx 'Built in a sandbox.' || wrong "CHANGELOG.md was not changed"

say "And now it is discarded."
shown nsrun run -q -- rm -r cmd
shown nsrun discard
[ -d cmd ] || wrong "cmd is gone"
echo
echo "All as it was said."
