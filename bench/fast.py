#!/usr/bin/env python3
"""How fast attn::fast is: beside the reference, PyTorch, and what the machine's sgemm makes in the same minutes.

    bench/fast.py BENCH_ATTENTION [--out FILE.json] [--python PYTHON]... [--seconds S] [--lengths N,...] [--threads N,...]

BENCH_ATTENTION is the worker in C++. PyTorch is that of /usr/bin/python3, and of each PYTHON that is given. All contenders of a
row run in turn, again and again, for about S seconds (20 unless given; three rounds at least), so that a machine that slows
down slows all of them alike. OpenBLAS chooses its kernels itself: variables OPENBLAS_... of the environment are left out.

A row has the least, the median and the spread of a contender's times, the floating-point operations per second that this is,
and their share of sgemm's in the same row. FILE.json also has the machine, the versions and the date.

Operations are counted as the products need them: 4 n n d per head forward and 10 n n d backward, half of that where it is
causal.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

HEADS, FEATURES, SGEMM_SIZE = 8, 64, 2048
HERE = Path(__file__).parent


class Worker:
    """A process that runs what a line asks for, and answers with seconds."""

    def __init__(self, command, threads, introduces_itself):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
        environment |= {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.name = self.process.stdout.readline().strip() if introduces_itself else None

    def seconds(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench/fast.py: the worker {self.process.args} ended at the line '{line}'")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def workers_of(options, threads):
    """Contender: its worker, and what it is called in a line."""
    ours = Worker([options.bench_attention], threads, False)
    contenders = {name: (ours, name) for name in ("sgemm", "fast", "reference")}
    for python in ["/usr/bin/python3", *options.python]:
        worker = Worker([python, HERE / "pytorch_attention.py"], threads, True)
        if worker.name:
            contenders[worker.name] = (worker, "pytorch")
        else:
            print(f"{python} has no PyTorch: it is left out", file=sys.stderr)
    return contenders


def available_bytes():
    with open("/proc/meminfo") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def can_run(contender, row):
    """Those that make n by n matrices need memory for several; the reference computes one head at a time, and no gradients."""
    n = row["n"]
    if contender == "reference":
        return row["pass"] == "forward" and 4 * 8 * n * n < available_bytes()
    if "plain" in contender:
        return (4 if row["pass"] == "forward" else 6) * 4 * HEADS * n * n < available_bytes()
    return True


def operations(contender, row):
    if contender == "sgemm":
        return 2 * SGEMM_SIZE**3
    products = {"forward": 4, "backward": 10}[row["pass"]]
    return products * row["n"] ** 2 * FEATURES * HEADS / (2 if row["causal"] else 1)


def times_of(contenders, row, seconds):
    """In turn, after a round that does not count."""
    lines = {name: f"{called} {row['pass']} {row['n']} {row['causal']:d}" for name, (_, called) in contenders.items()}
    times = {name: [] for name in lines}
    begin, rounds = time.monotonic(), 0
    while rounds < 4 or time.monotonic() - begin < seconds:
        for name, line in lines.items():
            times[name].append(contenders[name][0].seconds(line))
        rounds += 1
    return {name: all_times[1:] for name, all_times in times.items()}


def measure(contenders, row, seconds):
    """A row's results, one per contender."""
    able = {name: contender for name, contender in contenders.items() if can_run(name, row)}
    for name in contenders.keys() - able.keys():
        print(f"{row['what']} {row['pass']} n {row['n']}: without {name}, which has no such pass or too little memory",
              file=sys.stderr)  # fmt: skip
    times = times_of(able, row, seconds)
    median = {name: statistics.median(all_times) for name, all_times in times.items()}
    rate = {name: operations(name, row) / median[name] for name in times}
    for name, all_times in times.items():
        yield {**row, "contender": name, "runs": len(all_times), "least_ms": 1e3 * min(all_times), "median_ms": 1e3 * median[name],
               "spread": (max(all_times) - min(all_times)) / median[name], "gflops": rate[name] / 1e9,
               "share_of_sgemm": rate[name] / rate["sgemm"]}  # fmt: skip


def attention_rows(options, threads):
    return [{"what": "attention", "pass": which, "n": n, "causal": causal, "threads": threads}
            for which in ("forward", "backward") for n in options.lengths for causal in (False, True)]  # fmt: skip


# What is measured: rows of other things, such as encoder layers or tokens of a story, are added here, and their contenders to
# workers_of(), can_run() and operations().
ROWS = (attention_rows,)


def machine():
    with open("/proc/cpuinfo") as lines:
        model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "-C", HERE, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return {"processor": model, "processors": os.cpu_count(), "system": platform.platform(), "commit": commit.stdout.strip(),
            "load_before": os.getloadavg()[0], "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")}


def print_line(line):
    print(f"{line['what']} {line['pass']:8} n {line['n']:5} {'causal' if line['causal'] else 'all   '} threads {line['threads']}  "
          f"{line['contender']:40} least {line['least_ms']:9.2f} ms  median {line['median_ms']:9.2f} ms  "
          f"spread {line['spread']:5.0%}  {line['gflops']:6.1f} GFLOPS  {line['share_of_sgemm']:4.0%} of sgemm", flush=True)


def main():
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench_attention")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--lengths", type=numbers, default=[512, 2048, 8192])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    options = parser.parse_args()
    result = {"machine": machine(), "heads": HEADS, "features": FEATURES, "lines": []}
    for threads in options.threads:
        contenders = workers_of(options, threads)
        for row in [row for rows in ROWS for row in rows(options, threads)]:
            for line in measure(contenders, row, options.seconds):
                result["lines"].append(line)
                print_line(line)
        for worker in {id(worker): worker for worker, _ in contenders.values()}.values():
            worker.close()
    result["machine"]["load_after"] = os.getloadavg()[0]
    if options.out:
        part = options.out.with_name(options.out.name + ".part")
        part.write_text(json.dumps(result, indent=1) + "\n")
        part.replace(options.out)


if __name__ == "__main__":
    main()
