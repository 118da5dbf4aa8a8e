"""Completion in shells: click's, with a script of our own for bash.

bash splits words at colons, so with click's script ``ocr:<TAB>`` completes nothing. Ours hands over
the line as typed and takes back only what stands after the last colon.
"""

from __future__ import annotations

import os

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class, split_arg_string

from .group import COMPLETING


@add_completion_class
class ColonBash(BashComplete):
    """bash, for words with colons in them."""

    source_template = r"""
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" word type value kept=""
    word="${line##*[[:space:]]}"
    # Where bash splits words at colons, it replaces only what follows the last one.
    if [[ $COMP_WORDBREAKS == *:* && $word == *:* ]]; then
        kept="${word%%"${word##*:}"}"
    fi
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$kept"}") ;;
        esac
    done < <(COMP_LINE="$line" %(complete_var)s=bash_complete "$1" 2>/dev/null)
}
complete -F %(complete_func)s %(prog_name)s
"""

    def source(self) -> str:
        """The script. Unlike click's own it asks no bash for its version: nothing in it is new."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        if line[-1:].isspace():
            return words[1:], ""
        return words[1:-1], words[-1] if len(words) > 1 else ""


def script(shell: str, program: click.Command, name: str) -> str:
    """What a shell must read once to complete `program`."""
    found = get_completion_class(shell)
    assert found is not None, shell
    return found(program, {}, name, COMPLETING).source().lstrip("\n")
