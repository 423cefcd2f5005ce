#!/usr/bin/env bash
# Every test of the project. Installs nothing: .ci/run does that for a bare machine.
# What cannot run is named with its reason; nothing is left out silently.
set -euo pipefail
cd "$(dirname "$0")/.."
target="${CARGO_TARGET_DIR:-$PWD/target}"
profile=ci
failed=()
left_out=()

step() {
    local name=$1 started=$SECONDS
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    if "$@"; then
        printf '== %s: ok, %d s\n' "$name" $((SECONDS - started))
    else
        printf '== %s: FAILED, %d s\n' "$name" $((SECONDS - started))
        failed+=("$name")
    fi
}
leave_out() {
    printf '\n== %s: not run: %s\n' "$1" "$2"
    left_out+=("$1 ($2)")
}

step format cargo fmt --all --check
step lints cargo clippy --workspace --all-targets --profile $profile -- -D warnings
step server cargo build -p server --profile $profile
if cargo nextest --version >/dev/null 2>&1; then
    step tests cargo nextest run --workspace --cargo-profile $profile --no-fail-fast
else
    step tests cargo test --workspace --profile $profile --no-fail-fast
fi
step doctests cargo test --workspace --profile $profile --doc
step tidy cargo xtask tidy

if grep -rqs 'fn loom_' crates/structures/src crates/store/src; then
    step loom env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target/loom" \
        cargo test -p structures -p store --release --lib loom_
else
    leave_out loom "no test of structures or store is named loom_..."
fi

step smoke ./scripts/smoke.sh "$target/$profile/pronghorn"

if cargo deny --version >/dev/null 2>&1; then
    step deny cargo deny check bans licenses sources
else
    leave_out deny "cargo-deny is not installed"
fi

printf '\n== summary, %d s\n' "$SECONDS"
[ "${#left_out[@]}" -eq 0 ] || printf 'not run: %s\n' "${left_out[@]}"
if [ "${#failed[@]}" -gt 0 ]; then
    printf 'FAILED: %s\n' "${failed[@]}"
    exit 1
fi
echo "all steps passed"
