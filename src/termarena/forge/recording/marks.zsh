# Sourced by a zsh that is being recorded: marks its prompts, commands and exit statuses (OSC 133), and its directory (OSC 7).
# Commands are told exactly, in percent-encoding; nothing is written to the user's history file.
__ta_encode() {
  emulate -L zsh
  setopt no_multibyte
  local text=$1 c out= code i
  for ((i = 1; i <= $#text; i++)); do
    c=$text[i]
    if [[ $c != [a-zA-Z0-9_./\ =,:@+-] ]]; then
      printf -v code '%d' "'$c"
      printf -v c '%%%02X' $((code & 255))
    fi
    out+=$c
  done
  REPLY=$out
}
__ta_before() {
  local ended=$? REPLY
  [[ -z ${__ta_prompted-} ]] || printf '\033]133;D;%s\007' $ended
  __ta_prompted=1
  __ta_encode $PWD
  printf '\033]7;file://%s\007' $REPLY
  return $ended
}
__ta_after() {
  [[ $PS1 == *'133;B'* ]] || PS1=$'%{\e]133;A\a%}'$PS1$'%{\e]133;B\a%}'
}
__ta_executing() {
  local REPLY
  __ta_encode $1
  printf '\033]133;C;cmdline_url=%s\007' $REPLY
}
[[ -z ${HISTFILE-} ]] || fc -R $HISTFILE 2>/dev/null
unset HISTFILE
precmd_functions=(__ta_before $precmd_functions __ta_after)
preexec_functions+=(__ta_executing)
