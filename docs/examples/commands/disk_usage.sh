#!/bin/sh
# A job in shell. Standard output is the result if it is JSON; exit 75 asks for a retry, any other but 0 is an error.
set -eu
[ -d "$1" ] || { echo "no folder $1" >&2; exit 1; }
kilobytes=$(du -sk -- "$1" | cut -f1)
echo "measured $1 in attempt $JOBPOOL_ATTEMPT of job $JOBPOOL_JOB_ID" >&2
printf '{"kilobytes": %s}\n' "$kilobytes"
