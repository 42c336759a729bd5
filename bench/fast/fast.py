#!/usr/bin/env python3
"""How fast attn::fast is: beside the reference, peers, and what the machine's sgemm and memory make in the same minutes.

    bench/fast/fast.py BENCH_FAST [--out FILE.json] [--python PYTHON]... [--onnxruntime MODULES] [--llama2c FOLDER]
                       [--runs N] [--seconds S] [--lengths N,...] [--threads N,...] [--only WORD] [--into MEASURED.json]

BENCH_FAST is the worker in C++. The peers are
  PyTorch        of /usr/bin/python3, and of each PYTHON that is given
  ONNX Runtime   where MODULES, a folder node_modules with onnxruntime-node, is given; python3-onnx writes the model
  llama2.c       where FOLDER, its published source, is given; it is compiled in a temporary folder

All contenders of a row take turns, again and again, for about S seconds (10 unless given; three rounds at least), so that a
machine that slows down slows all of them alike. The first round does not count. All rows are measured N times (once unless
given), one pass after the other.
OpenBLAS chooses its kernels itself: variables OPENBLAS_... of the environment are left out. --only takes the rows whose
line has WORD in it: --only encoder. --into replaces these rows in a file of before, which then says when.

A row has the least, the median and the spread of a contender's times, and the share that its least is of a limit that was
measured in the same row: operations per second of sgemm, or bytes of weights per second of a dot product of two long vectors
(which a decoder whose weights fit the caches can exceed). FILE.json also has the machine, the versions and the date.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import time
from pathlib import Path

from contenders import HERE, Contenders
from rows import SGEMM_SIZE, STREAM_BYTES, all_rows

PAUSE = 0.1  # seconds; threads that wait for more work keep their core busy for a while
LIMITS = {"sgemm": 2 * SGEMM_SIZE**3, "stream": STREAM_BYTES}


def times_of(contenders, row, seconds):
    """In turn, after a round that does not count."""
    times = {contender.name: [] for contender in contenders}
    begin, rounds = time.monotonic(), 0
    while rounds < 3 or time.monotonic() - begin < seconds:
        for contender in contenders:
            time.sleep(PAUSE)
            times[contender.name].append(contender.seconds(row))
        rounds += 1
    return {name: all_times[1:] for name, all_times in times.items()}


def measure(contenders, row, seconds):
    """A line per contender."""
    times = times_of([contender for contender in contenders if contender.can(row)], row, seconds)
    rate = {name: LIMITS.get(name, row.work) / min(all_times) for name, all_times in times.items()}
    for name, all_times in times.items():
        median = statistics.median(all_times)
        yield {"row": row.line, "contender": name, "rounds": len(all_times), "least_ms": 1e3 * min(all_times),
               "median_ms": 1e3 * median, "spread": (max(all_times) - min(all_times)) / median,
               "rate": rate[name], "share": rate[name] / rate[row.limit]}  # fmt: skip


def machine():
    with open("/proc/cpuinfo") as lines:
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {"processor": model, "processors": os.cpu_count(), "system": platform.platform(), "commit": commit.stdout.strip(),
            "load_before": os.getloadavg()[0], "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


def print_line(line):
    print(f"run {line['run']} threads {line['threads']}  {line['row']:26} {line['contender']:36} least {line['least_ms']:9.3f} ms  "
          f"median {line['median_ms']:9.3f} ms  spread {line['spread']:5.0%}  {line['share']:5.0%} of the limit", flush=True)


def write(result, path):
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(result, indent=1) + "\n")
    part.replace(path)


def arguments():
    def numbers(text):
        return [int(number) for number in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--into", type=Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--onnxruntime", type=Path)
    parser.add_argument("--llama2c", type=Path)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--lengths", type=numbers, default=[512, 2048, 8192])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if options.into and not options.only:
        parser.error("--into replaces the rows of --only WORD; --out writes all")
    if options.into and not options.into.is_file():
        parser.error(f"{options.into} is no file: --into replaces rows of what --out wrote before")
    return options


def replaced(before, result, which):
    """What was measured before, with these rows anew."""
    anew = {(line["row"], line["threads"]) for line in result["lines"]}
    kept = [line for line in before["lines"] if (line["row"], line["threads"]) not in anew]
    again = before["machine"].get("again", {}) | {which: {name: result["machine"][name] for name in ("date", "commit")}}
    return {"machine": before["machine"] | {"again": again}, "lines": kept + result["lines"]}


def main():
    options = arguments()
    before = json.loads(options.into.read_text()) if options.into else None  # what can't be read is said at once
    rows = [row for row in all_rows(options.lengths) if options.only in row.line]
    result = {"machine": machine(), "lines": []}
    for run in range(1, options.runs + 1):
        for threads in options.threads:
            with Contenders(options, threads) as contenders:
                for row in rows:
                    for line in measure(contenders, row, options.seconds):
                        result["lines"].append({"run": run, "threads": threads, **line})
                        print_line(result["lines"][-1])
    result["machine"]["load_after"] = os.getloadavg()[0]
    if before:
        write(replaced(before, result, options.only), options.into)
    if options.out:
        write(result, options.out)


if __name__ == "__main__":
    main()
