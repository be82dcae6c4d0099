# Sourced by a bash that is being recorded: marks its prompts, commands and exit statuses (OSC 133), and its directory (OSC 7).
# Commands are told exactly, in percent-encoding; nothing is written to the user's history file.
__ta_encode() {
  local LC_ALL=C text=$1 code i c
  __ta_encoded=
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    case $c in
      [a-zA-Z0-9_./\ =,:@+-]) ;;
      *) printf -v code '%d' "'$c"; printf -v c '%%%02X' $((code & 255)) ;;
    esac
    __ta_encoded+=$c
  done
}
__ta_before() {
  local status=$?
  [ -z "${__ta_prompted-}" ] || printf '\033]133;D;%s\007' "$status"
  __ta_prompted=1
  __ta_encode "$PWD"
  printf '\033]7;file://%s\007' "$__ta_encoded"
  return "$status"
}
__ta_after() {
  case ${PS1-} in *133\;B*) ;; *) PS1="\[\e]133;A\a\]${PS1-}\[\e]133;B\a\]" ;; esac
}
__ta_executing() {
  local line
  line=$(HISTTIMEFORMAT='' builtin history 1)
  [[ $line =~ ^[[:space:]]*[0-9]+\*?[[:space:]]{2}(.*)$ ]] || return
  __ta_encode "${BASH_REMATCH[1]}"
  printf '\033]133;C;cmdline_url=%s\007' "$__ta_encoded"
}
[ -z "${HISTFILE-}" ] || builtin history -r "$HISTFILE" 2>/dev/null
unset HISTFILE
HISTCONTROL='' HISTIGNORE='' HISTSIZE=5000
shopt -s cmdhist lithist
PS0=${PS0-}'$(__ta_executing)'
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)); then
  PROMPT_COMMAND=(__ta_before "${PROMPT_COMMAND[@]}" __ta_after)
else
  PROMPT_COMMAND="__ta_before${PROMPT_COMMAND:+;$PROMPT_COMMAND};__ta_after"
fi
