"""The networks of an ensemble from one file, each with settings of its own.

The file is a JSON list, or an object with such a list as its `members`; an entry has a `name`, `seeds` (0 when left out), and
either `train`, the words of a `capsnet train` command, or `config`, the whole settings as in a run's config.json:

    [{"name": "plain", "train": "mnist --recipe fast --validation 0", "seeds": [0, 1]},
     {"name": "upright", "train": "mnist --recipe fast --validation 0 --model-options deskew=true"}]

What `capsnet ensemble --greedy` writes is such a file, and so are the lists of experiments/run_list.py. Each network is trained
in `FOLDER/NAME-sSEED`.
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

from capsnet.config import Config
from capsnet.errors import CapsNetError
from capsnet.files import read_json, write_json
from capsnet.trials.trials import Trial

NAME = re.compile(r"[\w.=,+-]+")


def is_member_file(place: str) -> bool:
    """Tell whether a word names a file that lists members."""
    return place.endswith(".json") and Path(place).is_file()


def read_members(file: Path, folder: Path) -> list[Trial]:
    """Return the trainings that a file lists, with their folders in `folder`; settings are written there."""
    content = read_json(file)
    entries = content.get("members") if isinstance(content, dict) else content
    if not isinstance(entries, list) or not entries:
        raise CapsNetError(
            f"'{file}' lists no members: it is a JSON list of objects with name and train or config."
        )
    trials = [trial for entry in entries for trial in read_member(entry, file, folder)]
    names = [trial.folder.name for trial in trials]
    for name in names:
        if names.count(name) > 1:
            raise CapsNetError(f"'{file}' lists '{name}' twice.")
    return trials


def read_member(entry: Any, file: Path, folder: Path) -> list[Trial]:
    """Return the trainings of one entry, one for each seed."""
    told = entry if isinstance(entry, dict) else {}
    name, seeds = told.get("name"), told.get("seeds", [0])
    if not isinstance(name, str) or not NAME.fullmatch(name) or ("train" in told) == ("config" in told):
        raise CapsNetError(
            f"'{file}': a member has a name of letters, digits and -_.=,+ and either train or config, "
            f"unlike {json.dumps(entry)}."
        )
    if not isinstance(seeds, list) or not all(type(seed) is int and seed >= 0 for seed in seeds):
        raise CapsNetError(
            f"'{file}': the seeds of '{name}' are a list of whole numbers, not {json.dumps(seeds)}."
        )
    if "train" in told:
        words = shlex.split(str(told["train"]))
    else:
        config = folder / f"{name}.json"
        write_json(config, Config.from_dict(told["config"]).to_dict())
        words = ["--config", str(config)]
    return [Trial(seed, folder / f"{name}-s{seed}", tuple(words), name) for seed in seeds]
