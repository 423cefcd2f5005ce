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
# Everything is compiled once, the server included: tests start it as a process.
step build cargo test --workspace --profile $profile --no-run
step tests env PRONGHORN_BIN="$target/$profile/pronghorn" \
    timeout 1200 cargo test --workspace --profile $profile --no-fail-fast
step tidy cargo xtask tidy
step codegen env PRONGHORN_BIN="$target/$profile/pronghorn" cargo xtask codegen --check

# Interleavings of the lock protocols. The bounds keep it to minutes: on preemptions, and on the
# seconds of a test, which then ends with what it has explored.
packages=()
for crate in crates/*/; do
    ! grep -rqs 'fn loom_' "$crate/src" || packages+=(-p "$(basename "$crate")")
done
if [ "${#packages[@]}" -gt 0 ]; then
    step loom env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target/loom" \
        LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" \
        LOOM_MAX_DURATION="${LOOM_MAX_DURATION:-60}" \
        timeout 900 cargo test "${packages[@]}" --profile $profile --lib loom_
else
    leave_out loom "no test is named loom_..."
fi

# Fuzz targets run blindly on the stable compiler: no coverage guidance, but every target runs, and
# from the same seed each time. Ordinary tests run their bodies on the seeds in fuzz/seeds.
for file in fuzz/targets/*.rs; do
    name=$(basename "$file" .rs)
    corpus="$target/fuzz/corpus/$name"
    mkdir -p "$corpus"
    step "fuzz $name" env RUSTFLAGS="--cfg fuzzing" CARGO_TARGET_DIR="$target/fuzz" \
        cargo run --quiet --manifest-path fuzz/Cargo.toml --release --bin "$name" -- \
        -seed=1 -max_total_time=10 -max_len=4096 -verbosity=0 \
        -artifact_prefix="$target/fuzz/" "$corpus" "fuzz/seeds/$name"
done

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
