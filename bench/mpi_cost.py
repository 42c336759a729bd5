#!/usr/bin/env python3
"""Measures what attention across machines costs on this one, and writes docs/mpi_cost.json.

    bench/mpi_cost.py BUILD/bin/bench_mpi_cost [ROUNDS]

Runs the program's parts with a rank per core and its ways with one, two and four ranks, ROUNDS times in turn (3 unless
given), and keeps the least time of each measurement. Each rank computes with one thread. The file is written after each
round and says when, on what machine and with which versions that was; docs/mpi_cost.md is made from it.
"""

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORES = len(os.sched_getaffinity(0))
# With several ranks a rank that waits leaves its core to others, but for messages, whose latency is asked for.
WAITING = {"parts": "0", "ways": "1"}
# Open MPI asks for leave to run as root and with more ranks than cores.
ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1",
}  # fmt: skip


def printed(*command):
    """What a command prints, or nothing where there is no such command."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""


def first_line(*command):
    return (printed(*command).splitlines() or ["unknown"])[0]


def processor():
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def machine(loads):
    return {"processor": processor(), "cores": CORES, "load": [min(loads), max(loads)]}


def versions():
    return {
        "attn": re.search(r"VERSION (\d+\.\d+\.\d+)", (ROOT / "CMakeLists.txt").read_text())[1],
        "commit": printed("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
        "compiler": first_line("c++", "--version"),
        "mpi": first_line("mpirun", "--version"),
        "blas": first_line("dpkg-query", "-W", "-f", "OpenBLAS ${Version}", "libopenblas0-pthread"),
        "system": f"{platform.system()} {platform.machine()}",
    }


def run(program, part, ranks):
    """The sizes of the layer, and what was measured: {(what, ranks, size): [seconds, processor seconds, sent, memory]}."""
    environment = {**os.environ, **ENVIRONMENT, "OMPI_MCA_mpi_yield_when_idle": WAITING[part]}
    command = ["mpirun", "-n", str(ranks), program, part]
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    first, *lines = (line.split("\t") for line in output.splitlines())
    layer = dict(zip(("d_model", "heads", "d_ff"), map(int, first[1:])))
    return layer, {(what, ranks, int(size)): [float(wall), float(cpu), int(sent), int(memory)] for what, size, wall, cpu, sent, memory in lines}


def keep_least(found, measured):
    for key, (wall, cpu, *rest) in measured.items():
        before = found.get(key, (wall, cpu))
        found[key] = [min(before[0], wall), min(before[1], cpu), *rest]


NAMES = ("what", "ranks", "size", "seconds", "processor_seconds", "sent", "memory")


def write(layer, found, loads, rounds):
    about = {"date": datetime.date.today().isoformat(), "rounds": rounds, "machine": machine(loads), "versions": versions(), "layer": layer}
    rows = [json.dumps(dict(zip(NAMES, (*key, *row)))) for key, row in found.items()]
    text = json.dumps(about, indent=2)[:-2] + ',\n  "measured": [\n    ' + ",\n    ".join(rows) + "\n  ]\n}\n"
    (ROOT / "docs" / "mpi_cost.json").write_text(text, encoding="utf-8")
    print(f"docs/mpi_cost.json: {len(rows)} measurements of {rounds} rounds; the machine's load was {min(loads):.1f} to {max(loads):.1f}", flush=True)


def main(arguments):
    if len(arguments) not in (1, 2):
        print(__doc__, file=sys.stderr)
        return 2
    found, loads = {}, []
    for done in range(1, (int(arguments[1]) if len(arguments) == 2 else 3) + 1):
        for part, ranks in (("parts", CORES), ("ways", 1), ("ways", 2), ("ways", 4)):
            layer, measured = run(arguments[0], part, ranks)
            loads.append(os.getloadavg()[0])
            keep_least(found, measured)
        write(layer, found, loads, done)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
