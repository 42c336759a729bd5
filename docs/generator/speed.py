"""What bench/fast/fast.py measured, as the numbers and tables of docs/speed.md: {{speed PATH}} and {{speed_table NAME}}."""

import json
import statistics

from .errors import PageError, read_text

LIMITS = ("sgemm", "stream")
TITLES = {"fast": "attn::fast", "reference": "attn, double"}
KINDS = ("attention", "encoder", "story")


class Measured:
    """docs/speed.json: lines of several runs, each with a row, a contender, and its times."""

    def __init__(self, root):
        about = json.loads(read_text(root / "docs" / "speed.json", "script/bench"))
        self.machine, self.lines = about["machine"], about["lines"]

    def of(self, kind, threads):
        """The lines of such rows, by row in the order of the file: {row: {contender: its lines, one per run}}."""
        found = {}
        for line in self.lines:
            if line["row"].startswith(kind) and line["threads"] == threads:
                found.setdefault(line["row"], {}).setdefault(line["contender"], []).append(line)
        return found

    def contenders(self, kind, threads):
        names = {name: None for lines in self.of(kind, threads).values() for name in lines}
        return [name for name in names if name not in LIMITS]


def usual_ms(lines):
    """Over the runs, the median of the least of each."""
    return statistics.median(line["least_ms"] for line in lines)


def times_faster(lines):
    """For each run, how many times as long the best peer takes as attn::fast; empty where nobody else has such a row."""
    peers = [of_peer for name, of_peer in lines.items() if name not in (*LIMITS, *TITLES)]
    return [min(line["least_ms"] for line in of_run) / ours["least_ms"] for ours, *of_run in zip(lines["fast"], *peers) if of_run]


def shares(lines):
    """For each run, attn::fast beside sgemm or memory."""
    return [line["share"] for line in lines["fast"]]


def scatter(lines):
    """For each run, the median of attn::fast's times over the least."""
    return [line["median_ms"] / line["least_ms"] for line in lines["fast"]]


# -------------------------------------------------------------------------------------------------------- numbers in prose


def numbers(measured):
    """What {{speed PATH}} can name: attention.1.times.least, of all rows and runs with one thread."""
    return {kind: {str(threads): extremes(measured.of(kind, threads).values()) for threads in (1, 2)} for kind in KINDS} | {
        "runs": max(line["run"] for line in measured.lines)}  # fmt: skip


def extremes(rows):
    def of(values):
        return {"least": min(values), "most": max(values)} if values else {}

    return {"times": of([value for lines in rows for value in times_faster(lines)]), "share": of([value for lines in rows for value in shares(lines)])}


# ------------------------------------------------------------------------------------------------------------------ tables


def milliseconds(lines):
    return "" if not lines else f"{usual_ms(lines):.3g}" if usual_ms(lines) < 100 else f"{usual_ms(lines):.0f}"


def from_to(values, write):
    if not values:
        return ""
    low, high = write(min(values)), write(max(values))
    return low if low == high else f"{low} to {high}"


def named(row):
    """attention forward 512 1 as a reader says it."""
    kind, *sizes = row.split()
    if kind == "attention":
        direction, n, is_causal = sizes
        return f"{direction}, n {n}{', causal' if is_causal == '1' else ''}"
    return f"{sizes[0]} × {sizes[1]}" if kind == "encoder" else f"{sizes[0]}, {sizes[1]} tokens"


def times(measured, kind, threads):
    """The header, and a row per row of the file, a column per contender; milliseconds."""
    contenders = measured.contenders(kind, threads)
    rows = [
        (named(row), *(milliseconds(lines.get(name)) for name in contenders), from_to(times_faster(lines), "{:.2f}".format), from_to(shares(lines), "{:.0%}".format), from_to(scatter(lines), "{:.2f}".format))
        for row, lines in measured.of(kind, threads).items()
    ]  # fmt: skip
    limit = "of memory" if kind == "story" else "of sgemm"
    return ("ms", *(TITLES.get(name, name) for name in contenders), "times faster than the best peer", limit, "median / least"), rows


def about(measured):
    machine = measured.machine
    runs = max(line["run"] for line in measured.lines)
    return ("", ""), [
        ("date", machine["date"]),
        ("processor", f"{machine['processor']}, {machine['processors']} cores"),
        ("system", machine["system"]),
        ("attn", machine["commit"]),
        ("load of the machine before and after", f"{machine['load_before']:.1f}, {machine['load_after']:.1f}"),
        ("runs", runs),
        *((f"{rows} measured again", f"{one['date']}, attn {one['commit']}") for rows, one in machine.get("again", {}).items()),
    ]  # fmt: skip


def table(measured, name):
    """about, or a kind and a number of threads: encoder_2."""
    kind, _, threads = name.partition("_")
    if name == "about":
        return about(measured)
    if kind not in KINDS or threads not in ("1", "2"):
        raise PageError(f"there is no table '{name}' of speeds; there is about, and {', '.join(KINDS)} with _1 or _2 threads")
    return times(measured, kind, int(threads))
