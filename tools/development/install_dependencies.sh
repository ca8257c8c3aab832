#!/usr/bin/env bash
# Installs what a build or test needs and this machine lacks, from Debian's packages. Says what it did; does nothing when
# nothing is missing. Usage: install_dependencies.sh [build|test|view]...   (default: build test)
set -euo pipefail

declare -A packages=(
  [build]="build-essential cmake ninja-build pkg-config ccache libspdlog-dev libfmt-dev libtomlplusplus-dev libcli11-dev nlohmann-json3-dev libsqlite3-dev libzstd-dev zlib1g-dev"
  [test]="libgtest-dev libgmock-dev libbenchmark-dev python3 binutils git file clang libclang-rt-dev chromium valgrind python3-matplotlib zsh fish"
  [view]="nodejs npm"
)

wanted=()
for set in "${@:-build test}"; do
  for name in $set; do
    [[ -v "packages[$name]" ]] || { echo "install_dependencies.sh: '$name' is no set of packages; choose from: ${!packages[*]}" >&2; exit 2; }
    wanted+=(${packages[$name]})
  done
done

# Node.js that works is kept, wherever it came from: Debian's npm would pull in Debian's nodejs.
if node --version >/dev/null 2>&1 && npm --version >/dev/null 2>&1; then
  for i in "${!wanted[@]}"; do
    case ${wanted[i]} in nodejs|npm) unset "wanted[i]" ;; esac
  done
fi

missing=()
for package in ${wanted[@]+"${wanted[@]}"}; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

command=(apt-get install -y --no-install-recommends "${missing[@]}")
if [[ $(id -u) -eq 0 ]]; then
  sudo=()
elif command -v sudo >/dev/null; then
  sudo=(sudo)
else
  echo "These packages are missing, and neither root nor sudo is at hand. Run as root: ${command[*]}" >&2
  exit 1
fi
echo "Installing ${#missing[@]} packages: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${sudo[@]}" "${command[@]}" >/dev/null
