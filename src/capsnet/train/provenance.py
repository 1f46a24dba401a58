"""Where a number comes from: code, libraries, machine, date."""

import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import capsnet
from capsnet.machine import load_average, processor


def commit() -> str | None:
    """Return the commit of the checkout that this package runs from, with "+" if files were changed; None when installed."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        call = ["git", "-C", str(here), *arguments]
        return subprocess.run(call, capture_output=True, text=True, timeout=10, check=True).stdout.strip()

    try:
        if "src/capsnet" not in git("ls-files", "--full-name", __file__):
            return None
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def provenance(device: torch.device, threads: int) -> dict[str, Any]:
    """Return what is recorded with every result."""
    return {
        "commit": commit(),
        "versions": {
            "capsnet": capsnet.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "machine": processor(),
        "device": str(device),
        "threads": threads,
        "load": load_average(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
