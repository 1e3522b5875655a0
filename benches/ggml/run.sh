#!/bin/sh
# Tokenfare's FP4 layers and ggml's MXFP4 ones in alternated runs: benches/ggml/run.sh GGML_SOURCES [THREADS] [PAIRS]
# Needs cmake, a C++ compiler and a release build of tokenfare; ggml is built in GGML_SOURCES/build-tokenfare.
set -eu
sources=${1:?a folder with the sources of ggml}
threads=${2:-$(nproc)}
pairs=${3:-7}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=$sources/build-tokenfare

[ -x "$root/target/release/tokenfare" ] || { echo "first: cargo build --release" >&2; exit 1; }
trap 'status=$?; [ $status = 0 ] || echo "failed; the build of ggml: $build.log" >&2' EXIT
cmake -S "$sources" -B "$build" -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=OFF \
    -DGGML_BUILD_TESTS=OFF -DGGML_BUILD_EXAMPLES=OFF >"$build.log" 2>&1
cmake --build "$build" -j "$(nproc)" >>"$build.log" 2>&1
c++ -O2 -std=c++20 -I"$sources/include" "$here/mxfp4.cpp" -o "$build/mxfp4" \
    "$build"/src/libggml.a "$build"/src/libggml-cpu.a "$build"/src/libggml-base.a -fopenmp -lpthread -ldl

# Huge pages for both: Tokenfare asks for them itself.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
echo "GB/s of weights, $threads threads: rows 1 2 4 8 16, and the reading of plain memory beside Tokenfare's 1 row"
for _ in $(seq "$pairs"); do
    echo "ggml      $("$build/mxfp4" "$threads" 2>/dev/null)"
    "$root/target/release/tokenfare" bench device --ops linear-fp4 --rows 1,2,4,8,16 --threads "$threads" --pairs 3 --any-moment |
        awk -F'|' '/^\| [0-9]/ { speeds = speeds $4; if (!read) read = $5 } END { print "tokenfare" speeds " read" read }'
done
