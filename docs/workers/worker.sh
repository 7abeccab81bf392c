#!/usr/bin/env bash
# A worker for jobpool in shell: needs curl and jq.
#   JOBPOOL_URL=http://127.0.0.1:8420 JOBPOOL_TOKEN=… JOBPOOL_QUEUES=thumbnails ./worker.sh
# With JOBPOOL_ONCE=1 it ends when there is nothing to do.
set -u

url=${JOBPOOL_URL:-http://127.0.0.1:8420}
: "${JOBPOOL_TOKEN:?set JOBPOOL_TOKEN}"
queues=$(jq -cn --arg q "${JOBPOOL_QUEUES:-}" 'if $q == "" then {} else {queues: ($q / ",")} end')
answer=$(mktemp)
trap 'rm -f "$answer"' EXIT

# What each job type does: the payload on standard input, the result as JSON on standard output.
# Another exit code than 0 is an error, and standard error tells why.
run_job() {
    case $1 in
        thumb) jq -c '{made: .path, by: "shell"}' ;;
        *) echo "this worker does not know $1" >&2; return 1 ;;
    esac
}

# post PATH BODY [HEADER]: prints the status; the document is in $answer. The token stays out of the process list.
post() {
    curl -sS --max-time 60 -o "$answer" -w '%{http_code}' -H @<(printf 'Authorization: Bearer %s\n' "$JOBPOOL_TOKEN") \
        -H 'Content-Type: application/json' ${3:+-H "$3"} --data-binary "$2" "$url$1" 2>/dev/null || true
}

# The holder's last word must arrive: it is repeated until the server has taken or refused it.
tell() {
    until status=$(post "$1" "$2") && [ "$status" -ge 200 ] && [ "$status" -lt 500 ] && [ "$status" != 429 ]; do sleep 2; done
}

# Keep the job ours while it runs.
keep() {
    while sleep "$2"; do post "$1/heartbeat" "$3" >/dev/null; done
}

while true; do
    key="Idempotency-Key: $(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')"
    until status=$(post /jobs/claim "$(jq -c '. + {wait: 20}' <<<"$queues")" "$key") && [[ $status == 200 || $status == 204 ]]; do
        if [[ $status == 401 || $status == 403 ]]; then jq -r .detail "$answer" >&2; exit 1; fi
        sleep 2
    done
    if [ "$status" = 204 ]; then
        [ -n "${JOBPOOL_ONCE:-}" ] && exit 0
        continue
    fi

    job=$(cat "$answer")
    path=/jobs/$(jq -r .id <<<"$job")
    claim=$(jq -c '{claim_token}' <<<"$job")
    (answer=$(mktemp); trap 'rm -f "$answer"' EXIT; keep "$path" "$(jq '.lease_seconds / 3' <<<"$job")" "$claim") &
    keeper=$!
    errors=$(mktemp)
    if result=$(jq -c .payload <<<"$job" | run_job "$(jq -r .type <<<"$job")" 2>"$errors"); then
        body=$(jq -c --argjson result "${result:-null}" '. + {result: $result}' <<<"$claim")
        word=complete
    else
        body=$(jq -c --rawfile error "$errors" '. + {error: $error}' <<<"$claim")
        word=fail
    fi
    rm -f "$errors"
    kill "$keeper" 2>/dev/null
    wait "$keeper" 2>/dev/null
    tell "$path/$word" "$body"
done
