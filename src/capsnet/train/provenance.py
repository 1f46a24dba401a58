"""Where a number comes from: code, libraries, machine, day."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

import capsnet


def commit() -> str | None:
    """The commit of the checkout that this package runs from, "+" after it when files were changed; None when installed."""
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


def processor() -> str:
    """The processor's name and its number of cores."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def provenance(device: torch.device, threads: int) -> dict[str, Any]:
    """What a result is kept with."""
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
        "load": [round(x, 2) for x in os.getloadavg()],
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
