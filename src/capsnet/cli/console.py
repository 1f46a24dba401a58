"""Where commands print: tables and JSON on stdout, progress and errors on stderr."""

import json
from typing import Any

from rich.console import Console

out = Console()
errors = Console(stderr=True)


def print_json(value: Any) -> None:
    """One JSON document, for programs."""
    print(json.dumps(value, indent=2, ensure_ascii=False), flush=True)
