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

# Generated documents, once they are in the tree.
if [ -e COMPAT.md ]; then
    step codegen env PRONGHORN_BIN="$target/$profile/pronghorn" cargo xtask codegen --check
else
    leave_out codegen "COMPAT.md has not been generated yet"
fi

# Interleavings of the lock protocols. The bound on preemptions keeps it to minutes.
packages=()
for crate in crates/*/; do
    ! grep -rqs 'fn loom_' "$crate/src" || packages+=(-p "$(basename "$crate")")
done
if [ "${#packages[@]}" -gt 0 ]; then
    step loom env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR="$target/loom" \
        LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" \
        timeout 900 cargo test "${packages[@]}" --profile $profile --lib loom_
else
    leave_out loom "no test is named loom_..."
fi

# Fuzz targets run blindly on the stable compiler: no coverage guidance, but every target runs.
if compgen -G 'fuzz/fuzz_targets/*.rs' >/dev/null; then
    for file in fuzz/fuzz_targets/*.rs; do
        name=$(basename "$file" .rs)
        step "fuzz $name" env RUSTFLAGS="--cfg fuzzing" CARGO_TARGET_DIR="$target/fuzz" \
            cargo run --quiet --manifest-path fuzz/Cargo.toml --release --bin "$name" -- \
            -max_total_time=15 -max_len=4096 -verbosity=0
    done
else
    leave_out fuzz "no fuzz targets in fuzz/fuzz_targets"
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
