# Sourced by a fish that is being recorded: marks its prompts, commands and exit statuses (OSC 133), and its directory (OSC 7).
# Commands are told exactly, in percent-encoding; nothing is written to the user's history file.
set -g fish_history
function __ta_url
    string escape --style=url -- "$argv[1]"
end
function __ta_executing --on-event fish_preexec
    printf '\e]133;C;cmdline_url=%s\a' (__ta_url "$argv[1]")
end
function __ta_ended --on-event fish_postexec
    printf '\e]133;D;%s\a' $status
end
function __ta_status
    return $argv[1]
end
functions --copy fish_prompt __ta_prompt
function fish_prompt
    set -l ended $status
    printf '\e]7;file://%s\a\e]133;A\a' (__ta_url $PWD)
    __ta_status $ended
    __ta_prompt
    printf '\e]133;B\a'
end
