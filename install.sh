#!/bin/sh
# Installs `ralph` from an archive of a release, after a check of its SHA-256, to $RALPH_INSTALL_DIR or
# ~/.local/bin. A release contains this file with its address and version; elsewhere
# $RALPH_INSTALL_URL is the folder with the archives and SHA256SUMS.
set -eu

address=${RALPH_INSTALL_URL:-}
version=${RALPH_VERSION:-}
folder=${RALPH_INSTALL_DIR:-$HOME/.local/bin}

fail() {
    echo "error: $1" >&2
    exit 1
}

case $address in
https://* | http://127.0.0.1*) ;;
*) fail "set RALPH_INSTALL_URL to the https address of a release" ;;
esac
[ -n "$version" ] || fail "set RALPH_VERSION to the version of the release"
case $(uname -s)-$(uname -m) in
Linux-x86_64) target=x86_64-unknown-linux-musl ;;
Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
Darwin-x86_64) target=x86_64-apple-darwin ;;
Darwin-arm64) target=aarch64-apple-darwin ;;
*) fail "there is no archive for $(uname -s) on $(uname -m); build \`ralph\` with cargo" ;;
esac

if command -v curl > /dev/null; then
    download() { curl --proto-redir =https -fsSL -o "$2" "$1"; }
elif command -v wget > /dev/null; then
    download() { wget -q -O "$2" "$1"; }
else
    fail "install curl or wget first"
fi
if command -v sha256sum > /dev/null; then
    check() { sha256sum -c - > /dev/null; }
elif command -v shasum > /dev/null; then
    check() { shasum -a 256 -c - > /dev/null; }
else
    fail "install sha256sum or shasum first"
fi

name=ralph-$version-$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for file in "$name.tar.gz" SHA256SUMS; do
    download "$address/$file" "$file" || fail "\`$address/$file\` cannot be downloaded"
done
grep -F "  $name.tar.gz" SHA256SUMS > sum || fail "SHA256SUMS does not name \`$name.tar.gz\`"
check < sum || fail "the SHA-256 of \`$name.tar.gz\` is not the one of SHA256SUMS; nothing was installed"
tar -xzf "$name.tar.gz"
mkdir -p "$folder"
# A running `ralph` keeps its file: the new one takes its place by a rename.
cp "$name/ralph" "$folder/.ralph.new"
mv "$folder/.ralph.new" "$folder/ralph"
echo "installed $("$folder/ralph" --version) as $folder/ralph"
case :$PATH: in
*":$folder:"*) ;;
*) echo "add $folder to PATH to start it as \`ralph\`" ;;
esac
