"""Where commands print: tables and JSON on stdout, progress and errors on stderr."""

import json
from typing import Any

from rich.console import Console

# Names of files and classes are the user's: [red] or :cat: in them is text, never markup.
out = Console(markup=False, emoji=False)
errors = Console(stderr=True, markup=False, emoji=False)


def print_json(value: Any) -> None:
    """Print one JSON document, for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False), flush=True)
