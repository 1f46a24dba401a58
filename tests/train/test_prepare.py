"""What a training asks of the system before it begins."""

import subprocess
import sys

import pytest

pytest.importorskip("resource")

SCRIPT = """
import resource, torch
from capsnet.train.prepare import keep_freed_memory

keep_freed_memory()
faults = []
for _ in range(14):
    maps = [torch.ones(64, 64, 22, 22) for _ in range(12)]
    del maps
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[3])  # the first steps find room for all maps
"""
PAGES = 12 * 64 * 64 * 22 * 22 * 4 // 4096


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_freed_memory_is_used_again_without_the_system():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert int(done.stdout) < PAGES  # of ten steps; by glibc's own rules often ten times as many
