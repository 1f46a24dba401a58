"""The command `capsnet`: one file per command, which parses, calls one function and prints. Nothing here imports torch."""

import os
import sys
from collections.abc import Sequence

from capsnet.cli import console
from capsnet.errors import CapsNetError


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. Exit codes: 0, 2 for what the user can mend, 130 for Ctrl-C; a bug keeps its traceback."""
    from tyro.conf import DisallowNone, FlagCreatePairsOff, PositionalMetavarFromFieldName

    from capsnet.cli.app import HELP, build_app, overview, show_version

    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in ([], *([word] for word in HELP)):
        print(overview(), file=sys.stdout if words else sys.stderr)
        sys.exit(0 if words else 2)
    if words == ["--version"]:
        show_version()
        return
    try:
        with console.reading_bar():
            build_app().cli(
                prog="capsnet",
                description="Capsule networks: train, evaluate, use.",
                args=words,
                config=(DisallowNone, FlagCreatePairsOff, PositionalMetavarFromFieldName),
            )
    except CapsNetError as error:
        console.errors.print(f"capsnet: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt as stop:
        console.errors.print(str(stop) or "Stopped.", markup=False, highlight=False, soft_wrap=True)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output has gone; what is still buffered must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
