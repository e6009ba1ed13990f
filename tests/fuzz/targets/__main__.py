"""Print the seeds of a target, each as a line of hexadecimal digits: `python -m fuzz.targets NAME`."""

from __future__ import annotations

import sys

from fuzz.targets import target

if __name__ == "__main__":
    for seed in target(sys.argv[1]).seeds():
        print(seed.hex())
