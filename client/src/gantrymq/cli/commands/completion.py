"""`gantrymq completion SHELL`: prints the script with which the shell completes commands and options."""

from typing import Annotated, Literal

import typer

from gantrymq.cli.session import Session, command

BASH = """\
_gantry_complete() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _GANTRY_COMPLETE=complete_bash "$1" ) )
    return 0
}
complete -o default -F _gantry_complete gantrymq ./gantry"""
ZSH = """\
#compdef gantrymq
_gantry_complete() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _GANTRY_COMPLETE=complete_zsh ${words[1]})
}
compdef _gantry_complete gantrymq ./gantry"""
FISH = """\
function _gantry_complete
    env _GANTRY_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION=$argv[1] _TYPER_COMPLETE_ARGS=(commandline -cp) (commandline -opc)[1]
end
complete --command gantrymq --no-files --arguments "(_gantry_complete get-args)" --condition "_gantry_complete is-args\""""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "completion", EXAMPLES)(script)


EXAMPLES = """
eval "$(gantrymq completion bash)"                 # in ~/.bashrc
eval "$(gantrymq completion zsh)"                  # in ~/.zshrc, after compinit
gantrymq completion fish > ~/.config/fish/completions/gantrymq.fish
"""


def script(
    session: Session,
    shell: Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="Which shell.")],
) -> None:
    """Print the script with which a shell completes commands and options."""
    session.screen.line(SCRIPTS[shell])
