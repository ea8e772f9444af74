#!/bin/sh
# One request answered twice by a server: with its prompt's beginning taken from the cache, and without a cache.
#
#     sh repro.sh http://127.0.0.1:8080
#
# Needs curl. An API key is taken from the environment variable API_KEY. Exits 0 where the two answers part at the
# recorded token, into the recorded two tokens; 1 where they do not; 2 where it could not be tried.
set -u

# --- data: written by Forkpoint ---
URL= STEP= CACHED= CACHED_TOKEN= RECOMPUTE_TOKEN= MAX_TOKENS= SAMPLING= PLACE= LAUNCH= RAN= PROMPT=
warm_up() { :; }
# --- end of data ---

URL=${1:-$URL}
not_tried() { printf 'Could not be tried. %s\n' "$1"; exit 2; }
command -v curl >/dev/null 2>&1 || not_tried "curl is not here."

# post PATH: sends standard input, leaves the answer in $reply.
post() {
    reply=$(curl -sS -f --max-time 600 -H 'Content-Type: application/json' \
        ${API_KEY:+-H "Authorization: Bearer $API_KEY"} --data-binary @- "$URL$1") || not_tried "$URL$1 did not answer."
}
# number NAME, list NAME: what stands behind "NAME": in $reply. A text cannot hold it: its quotes are written \".
number() { printf '%s' "$reply" | tr -d ' \n' | sed -n "s/.*\"$1\":\([0-9][0-9]*\).*/\1/p"; }
list() { printf '%s' "$reply" | tr -d ' \n' | sed -n "s/.*\"$1\":\[\([0-9,]*\)\].*/\1/p"; }
# ask NAME PATH MOST IDS: sets $ids and $count.
ask() {
    body "$@"
    [ -n "$ids" ] || not_tried "The answer holds no token ids."
    printf '%-24s %5s cached   answer %s\n' "$1" "${count:-?}" "$ids"
}

# --- body: llama-server ---
body() {
    case $2 in cached) use=true ;; *) use=false ;; esac
    post /completion <<END
{"prompt": [$4], "n_predict": $3, "cache_prompt": $use, "id_slot": 0, "stream": false, "return_tokens": true, $SAMPLING}
END
    ids=$(list tokens) count=$(number cache_n)
}
# --- body: vllm ---
SALT=$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')
post_model() { curl -sS -f --max-time 60 ${API_KEY:+-H "Authorization: Bearer $API_KEY"} "$URL/v1/models"; }
MODEL=$(post_model | tr -d '\n' | sed -n 's/[^[]*\[[^}]*"id": *"\([^"]*\)".*/\1/p')
[ -n "$MODEL" ] || not_tried "$URL/v1/models names no model."
body() {
    case $2 in recompute) salt=$SALT-none ;; *) salt=$SALT ;; esac
    post /v1/completions <<END
{"model": "$MODEL", "prompt": [$4], "max_tokens": $3, "return_token_ids": true, "cache_salt": "$salt", $SAMPLING}
END
    ids=$(list token_ids) count=$(number cached_tokens)
}
# --- end of bodies ---

printf '%s\n%s\nstarted by: %s\n\n' "$PLACE" "$RAN" "$LAUNCH"
path=first
warm_up
ask "cached path" "$path" "$MAX_TOKENS" "$PROMPT"
cached=$ids reused=$count
ask "recompute path" recompute "$MAX_TOKENS" "$PROMPT"
recompute=$ids

[ "${count:-0}" = 0 ] || not_tried "The recompute path took $count tokens from the cache."
[ -z "$reused" ] || [ -z "$CACHED" ] || [ "$reused" = "$CACHED" ] ||
    not_tried "The cached path took $reused tokens from the cache; recorded were $CACHED."
# before IDS, at IDS: the ids before the recorded fork, and the one at it.
before() { [ "$STEP" = 1 ] || printf '%s' "$1" | cut -d, -f "1-$((STEP - 1))"; }
at() { printf '%s,' "$1" | cut -d, -f "$STEP"; }
if [ "$(before "$cached")" = "$(before "$recompute")" ] &&
    [ "$(at "$cached")" = "$CACHED_TOKEN" ] && [ "$(at "$recompute")" = "$RECOMPUTE_TOKEN" ]; then
    printf '\nThe fork shows at token %s, into the recorded two tokens.\n' "$STEP"
    exit 0
elif [ "$cached" = "$recompute" ]; then
    printf '\nNo fork: both paths gave the same answer.\n'
else
    printf '\nAnother fork than recorded (token %s: %s cached, %s recomputed).\n' "$STEP" "$CACHED_TOKEN" "$RECOMPUTE_TOKEN"
fi
exit 1
