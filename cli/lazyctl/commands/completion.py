"""``lazyctl completion``."""

from __future__ import annotations

import click

from ..group import command
from ..shells import script


@command(
    examples="""
        eval "$(lazyctl completion bash)"    # in ~/.bashrc
        eval "$(lazyctl completion zsh)"     # in ~/.zshrc, after compinit
        lazyctl completion fish > ~/.config/fish/completions/lazyctl.fish
    """
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and model names in SHELL.

    Model names are asked of the daemon as you type; without a daemon there are none.
    """
    root = ctx.find_root()
    click.echo(script(shell, root.command, root.info_name or "lazyctl"), nl=False)
