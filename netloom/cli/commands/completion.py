"""Print a completion script for a shell.

The script completes commands, options and values: networks, namespaces, plugins, containers, pods, addresses,
attachments and error codes.

examples:
  bash   eval "$(netloom completion bash)"      in ~/.bashrc
  zsh    eval "$(netloom completion zsh)"       in ~/.zshrc, after compinit
  fish   netloom completion fish | source       in ~/.config/fish/config.fish
"""

from __future__ import annotations

import argparse

from ..terminal.output import write

OUTPUT = None

# bash splits words at colons, which IPv6 addresses contain: the script joins them again, and removes the part
# before the last colon from the candidates.
_SCRIPTS = {
    "bash": """\
_netloom() {
    local -a words
    local line=${COMP_LINE:0:COMP_POINT} current prefix
    if [[ -n $line ]]; then
        IFS=$' \\t\\n' read -ra words <<<"$line"
        while [[ ${#words[@]} -gt 1 && ${words[0]} != "${COMP_WORDS[0]}" ]]; do words=("${words[@]:1}"); done
        [[ $line == *[[:space:]] ]] && words+=("")
    else
        words=("${COMP_WORDS[@]:0:COMP_CWORD+1}")
    fi
    current=${words[${#words[@]}-1]}
    local IFS=$'\\n'
    COMPREPLY=($("${words[0]}" __complete "${words[@]:1}" 2>/dev/null))
    if [[ $current == *:* && $COMP_WORDBREAKS == *:* ]]; then
        prefix=${current%"${current##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$prefix"}")
    fi
}
complete -o default -F _netloom netloom
""",
    "zsh": """\
_netloom() {
    local -a candidates
    candidates=(${(f)"$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    compadd -a candidates || _files
}
compdef _netloom netloom
""",
    "fish": """\
function __netloom_complete
    set -l words (commandline -opc)
    $words[1] __complete $words[2..] (commandline -ct) 2>/dev/null
end
complete -c netloom -f -a '(__netloom_complete)'
complete -c netloom -n 'test (count (__netloom_complete)) -eq 0' -F
""",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=sorted(_SCRIPTS), metavar="bash|zsh|fish")


def run(args: argparse.Namespace) -> int:
    write(_SCRIPTS[args.shell])
    return 0
