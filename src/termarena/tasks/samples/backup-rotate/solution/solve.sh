#!/bin/sh
set -eu
cat >/app/rotate.sh <<'SCRIPT'
#!/bin/sh
# rotate.sh [-n] [-d DAYS] [-w WEEKS] [-m MONTHS] [-t TODAY] [--] DIR
LC_ALL=C
export LC_ALL
unset CDPATH
set -f

usage() {
    printf 'rotate: %s\nusage: rotate.sh [-n] [-d DAYS] [-w WEEKS] [-m MONTHS] [-t TODAY] [--] DIR\n' "$1" >&2
    exit 2
}

plain() { # $1 without leading zeros, in $number
    number=$1
    while :; do
        case $number in
        0?*) number=${number#0} ;;
        *) return ;;
        esac
    done
}

count() { # checks $1, leaves its value in $number
    case $1 in
    '' | *[!0-9]* | ?????*) usage "bad number: $1" ;;
    esac
    plain "$1"
}

parse() { # is $1 a date? then sets $month (running number of the month) and $day (running number of the day, a Monday when divisible by 7)
    case $1 in
    20[0-9][0-9]-[01][0-9]-[0-3][0-9]) ;;
    *) return 1 ;;
    esac
    y=${1%%-*} m=${1#*-} d=${1##*-}
    m=${m%-*}
    m=${m#0} d=${d#0}
    case $m in
    0 | '' | 1[3-9]) return 1 ;;
    2) long=28; if [ $((y % 4)) -eq 0 ]; then long=29; fi ;; # 2000 is a leap year, 2100 is out of range
    4 | 6 | 9 | 11) long=30 ;;
    *) long=31 ;;
    esac
    if [ "$d" -lt 1 ] || [ "$d" -gt "$long" ]; then return 1; fi
    month=$((y * 12 + m))
    if [ "$m" -le 2 ]; then y=$((y - 1)) m=$((m + 12)); fi
    day=$((365 * y + y / 4 - y / 100 + y / 400 + (153 * (m - 3) + 2) / 5 + d + 1))
}

dry= days=7 weeks=4 months=6 today=$(date -u +%Y-%m-%d)
while getopts :nd:w:m:t: option; do
    case $option in
    n) dry=1 ;;
    d) count "$OPTARG"; days=$number ;;
    w) count "$OPTARG"; weeks=$number ;;
    m) count "$OPTARG"; months=$number ;;
    t) today=$OPTARG ;;
    *) usage "bad option: -$OPTARG" ;;
    esac
done
shift $((OPTIND - 1))
if [ $# -ne 1 ]; then usage 'one folder, please'; fi
parse "$today" || usage "bad date: $today"
today_day=$day today_week=$((day / 7)) today_month=$month

case $1 in
/*) dir=$1 ;;
*) dir=./$1 ;;
esac
if [ -z "$1" ] || [ ! -d "$dir" ]; then
    printf 'rotate: not a folder: %s\n' "$1" >&2
    exit 3
fi
cd "$dir" || exit 3

lock=.rotate.lock
dead() { # does the lock name a process that is gone?
    [ -f "$lock/pid" ] && read -r pid <"$lock/pid" || return 1
    case $pid in
    '' | *[!0-9]*) return 1 ;;
    esac
    [ ! -d "/proc/$pid" ] && ! kill -0 "$pid" 2>/dev/null
}
if ! mkdir "$lock" 2>/dev/null; then
    # Of several runs that find a stale lock, the one that can make "takeover" gets it; it looks again, as the lock may have changed hands meanwhile.
    won=
    if dead && mkdir "$lock/takeover" 2>/dev/null; then
        if dead; then won=1; else rmdir "$lock/takeover"; fi
    fi
    if [ -z "$won" ]; then
        echo 'rotate: locked' >&2
        exit 75
    fi
fi
trap 'rm -rf "$lock"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
echo $$ >"$lock/pid"
if [ -d "$lock/takeover" ]; then rmdir "$lock/takeover"; fi

# suffix/series/date, newest first within a series
set +f
for name in *; do
    case $name in
    ?*_????-??-??.tar.gz) ;;
    ?*_????-??-??.sql.gz) ;;
    *) continue ;;
    esac
    if [ ! -f "$name" ] || [ -L "$name" ]; then continue; fi
    stem=${name%.???.gz}
    date=${stem##*_}
    if parse "$date" && [ "$day" -le "$today_day" ]; then
        printf '%s/%s/%s\n' "${name#"$stem"}" "${stem%_*}" "$date"
    fi
done | sort -t / -k 1,1 -k 2,2 -k 3,3r >"$lock/found"
set -f

# One line late, as the oldest of a month shows only when the next line is another month's.
seen= seen_week=
{
    cat "$lock/found"
    echo end
} | while IFS= read -r line; do
    this=${line%/*}
    parse "${line##*/}" || month=
    if [ -n "$seen" ]; then
        if [ "$seen_month" -gt $((today_month - months)) ] && { [ "$this" != "$seen" ] || [ "$month" -ne "$seen_month" ]; }; then
            reasons=$reasons,monthly
        fi
        printf '%s/%s\n' "$name" "$reasons$latest"
    fi
    [ "$line" != end ] || break
    reasons= latest=
    if [ "$this" != "$seen" ]; then latest=,latest; fi
    if [ "$day" -gt $((today_day - days)) ]; then reasons=,daily; fi
    week=$((day / 7))
    if [ "$week" -gt $((today_week - weeks)) ] && { [ -n "$latest" ] || [ "$week" -ne "$seen_week" ]; }; then reasons=$reasons,weekly; fi
    seen=$this seen_week=$week seen_month=$month
    suffix=${line%%/*}
    name=${line#*/}
    name=${name%/*}_${line##*/}$suffix
done | sort -t / -k 1,1 >"$lock/judged"

status=0
tab=$(printf '\t')
while IFS= read -r line; do
    name=${line%/*} reasons=${line##*/}
    if [ -n "$reasons" ]; then
        printf '%s\n' "keep$tab${reasons#,}$tab$name"
    else
        printf '%s\n' "delete$tab-$tab$name"
        if [ -z "$dry" ]; then rm -f -- "$name" || status=1; fi
    fi
done <"$lock/judged"
exit "$status"
SCRIPT
sh /app/rotate.sh -t 2024-03-10 -d 10 -w 5 -m 8 /app/backups
