#!/bin/sh
# Runs a program and compares its exit code and output with what is expected.
#   run_program.sh EXIT_CODE "text that must appear" PROGRAM ARGUMENTS...
# stdout and stderr are joined; with an empty text only the exit code counts.
expected=$1
text=$2
shift 2
output=$("$@" 2>&1)
code=$?
printf '%s\n' "$output"
if [ "$code" -ne "$expected" ]; then
  echo "FAIL: exit code $code, expected $expected"
  exit 1
fi
case $output in
  *"$text"*) ;;
  *) echo "FAIL: the output has no '$text'"; exit 1 ;;
esac
