#!/usr/bin/env bash
# Runs views by couchpy, the view server of the Python package CouchDB, installed in a folder of its
# own that goes away again. Without Python or the package it says "not measured" and fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if ! python3 -m venv "$folder/venv" ||
    ! "$folder/venv/bin/pip" install --quiet --disable-pip-version-check CouchDB==1.2; then
    printf 'couchpy: not measured: it cannot be installed\n' >&2
    exit 1
fi
cargo run --quiet --example couchpy -- "$folder/venv/bin/couchpy"
