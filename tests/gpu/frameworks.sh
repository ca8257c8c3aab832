#!/bin/sh
# The compatibility matrix: frameworks and libraries as they are, bare and at half of what they need. Takes up to 9 minutes.
# Flags: see frameworks.sh --help. The page: tests/gpu/compatibility_page.py RESULT.json > docs/compatibility.md
exec python3 "$(dirname "$0")/frameworks.py" "$@"
