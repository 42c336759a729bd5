#!/usr/bin/env python3
"""Runs every program where something goes wrong around it, and looks at how it ends and at what it leaves.

    programs.py BIN                 a sample that takes less than half a minute
    programs.py BIN --long          everything, each memory limit and many signals: about half an hour
    programs.py BIN --only memory   one part; --without memory all others

BIN is the build's bin folder. Whatever happens, a program ends with the exit code 0, 1 or 2, or by the signal that it was
sent; with 2 comes one line on standard error, where it is open; no file is left but a whole one. Needs Python alone.
"""

import argparse
import collections
import contextlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL_MODEL = ROOT / "lessons" / "small_model" / "model.safetensors"
LONGEST = 300  # seconds that a run can take on a busy machine; what hangs takes longer
MEASURED = re.compile(rb"took \d+ times as long")  # what a lesson prints of the machine, another number each time
NOT_DELIVERED = "standard output can't be written"
# Letters that would change colours, the title, the direction of the text, or the line.
EVIL = "e\x1b[31m\x1b]0;t\x07\u202e\u2028\u0085\u009b31m\u200b\x7f\r\nx"


class Case:
    """A command, and the file that it writes, if any."""

    def __init__(self, words, writes=None, prints=True, code=0):
        self.words = [str(word) for word in words]
        self.writes = writes
        self.prints = prints
        self.code = code
        self.name = " ".join([Path(self.words[0]).name, *(Path(word).name for word in self.words[1:3])])


class Ended:
    def __init__(self, code, output, errors):
        self.code = code
        self.output = output
        self.errors = errors


class Report:
    """Counts runs and how they ended; keeps what is wrong."""

    def __init__(self):
        self.codes = collections.Counter()
        self.wrong = []

    def add(self, case, ended, circumstances, problems):
        self.codes[ended.code] += 1
        for problem in problems:
            self.wrong.append(f"{case.name}, {circumstances}: {problem}; exit code {ended.code}; "
                              f"standard error: {ended.errors[-300:]!r}")

    def print(self, part, seconds):
        codes = ", ".join(f"{count} times {code}" for code, count in sorted(self.codes.items(), key=str))
        print(f"{part}: {sum(self.codes.values())} runs in {seconds:.0f} s, exit codes: {codes or 'none'}; "
              f"{len(self.wrong)} wrong", flush=True)
        for line in self.wrong[:20]:
            print(f"  {line}")
        if len(self.wrong) > 20:
            print(f"  and {len(self.wrong) - 20} more")


# ------------------------------------------------------------------------------------------------ files


def npy(numbers, shape):
    """The bytes of an .npy file of float64, or of int64 where all numbers are whole."""
    is_whole = all(isinstance(number, int) for number in numbers)
    header = f"{{'descr': '{'<i8' if is_whole else '<f8'}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
            + struct.pack(f"<{len(numbers)}{'q' if is_whole else 'd'}", *numbers))


def write_npz(path, arrays, texts=()):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in dict(texts).items():
            archive.writestr(name, text)
        for name, (numbers, shape) in arrays.items():
            archive.writestr(name + ".npy", npy(numbers, shape))


def matrix(chance, rows, columns):
    return [chance.gauss(0, 1) for _ in range(rows * columns)], (rows, columns)


class Desk:
    """A folder with what programs read. Each run has a folder of its own to write into."""

    def __init__(self, folder, programs, chance):
        self.folder = Path(folder)
        self.programs = Path(programs)
        self.attn = self.programs / "attn"
        self.input = self.folder / "input.npz"
        write_npz(self.input, {name: matrix(chance, 4, 3) for name in ("queries", "keys", "values")})
        self.large = self.folder / "large.npz"
        write_npz(self.large, {name: matrix(chance, 700, 32) for name in ("queries", "keys", "values")})
        self.ids = self.folder / "ids.npz"
        write_npz(self.ids, {"ids": ([1, 2, 3, 4, 5], (5,))})
        self.scores = self.folder / "scores.npz"
        write_npz(self.scores, {"scores": matrix(chance, 3, 5)})
        self.tokens = self.folder / "tokens.txt"
        self.tokens.write_text("a\nb\nc\nd\n")
        self.trace = self.folder / "trace.npz"
        self.run_plainly([self.attn, "run", "attention", "--input", self.input, "--trace", self.trace])
        self.mine = self.folder / "mine.npz"
        write_npz(self.mine, {"scores": matrix(chance, 4, 4), "context": matrix(chance, 4, 3)})
        self.runs = 0

    def run_plainly(self, words):
        done = subprocess.run([str(word) for word in words], capture_output=True, timeout=LONGEST, check=False)
        if done.returncode not in (0, 1):
            sys.exit(f"{words} ended with {done.returncode}: {done.stderr.decode()}")
        return done

    def cases(self, is_long):
        """Every program, and every command of attn; lessons at the paper's size only where there is time."""
        attn = self.attn
        cases = [
            Case([attn, "--version"]),
            Case([attn, "--help"]),
            Case([attn, "lessons"]),
            Case([attn, "run", "gpt", "--help"]),
            Case([attn, "run", "attention", "--input", self.input, "--trace", "out.npz"], "out.npz"),
            Case([attn, "run", "attention", "--input", self.input, "--quiet", "--trace", "out.npz"], "out.npz", prints=False),
            Case([attn, "run", "softmax", "--input", self.scores]),
            Case([attn, "run", "gpt", "--heads", "4", "--weights", SMALL_MODEL, "--input", self.ids, "--trace", "out.npz"],
                 "out.npz"),
            Case([attn, "run", "gpt", "--heads", "4", "--weights", SMALL_MODEL, "--input", self.ids, "--parameters"]),
            Case([attn, "verify", self.trace]),
            Case([attn, "explain", self.trace, "scores[0,0]"]),
            Case([attn, "explain", self.trace, "weights[1,2]", "--depth", "3"]),
            Case([attn, "diff", self.trace, self.trace]),
            Case([attn, "diff", self.trace, self.mine, "--diagnose"], code=1),
            Case([attn, "diff", self.trace, self.mine, "--json"], code=1),
            Case([attn, "view", self.trace, "--tokens", self.tokens, "-o", "out.html"], "out.html"),
            Case([attn, "view", self.trace, "--diff", self.trace, "-o", "out.html"], "out.html"),
            Case([attn, "grad", self.trace, "--check"]),
            Case([attn, "grad", self.trace, "-o", "out.npz"], "out.npz"),
            Case([attn, "graph", self.trace]),
            Case([attn, "graph", self.trace, "-o", "out.dot"], "out.dot"),
            Case([attn, "pitfalls"]),
            Case([attn, "pitfalls", "--json"]),
        ]
        for program in sorted(self.programs.glob("lesson_*")):
            if not is_long and program.name.startswith(("lesson_11_", "lesson_13_")):
                continue
            short = ["--steps", "30"] if program.name.startswith("lesson_15_") else []
            cases.append(Case([program, "--trace", "out.npz", *short], "out.npz"))
            cases.append(Case([program, "--summary", *short]))
            cases.append(Case([program, "--help"]))
        for program in sorted(self.programs.glob("exercise_*")):
            cases.append(Case([program], code=1))
        return cases

    def run(self, case, before=None, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stop=None, **variables):
        """@return how it ended, and the names and bytes of the files in its folder.

        stop(process) may end the run; where it takes too long, the code is "hangs"."""
        self.runs += 1
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            process = subprocess.Popen(case.words, cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
                                       preexec_fn=before, env={**os.environ, **variables})
            if stop:
                stop(process)
            try:
                output, errors = process.communicate(timeout=LONGEST)
                code = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                output, errors = process.communicate()
                code = "hangs"
            left = {path.name: path.read_bytes() for path in Path(folder).iterdir()}
        return Ended(code, MEASURED.sub(b"took N times as long", output or b""), (errors or b"").decode(errors="replace")), left


# ------------------------------------------------------------------------------------------------ how it has to end


def lines(text):
    """How many, where a list of weights that do not fit counts as one: what follows its first line is indented."""
    return len(re.findall(r"\n(?!  )", text))


def ended_badly(ended, codes=(0, 1, 2)):
    if ended.code not in codes:
        yield f"expected one of the exit codes {codes}"
    elif ended.code == 2 and lines(ended.errors) != 1:
        yield "expected one line on standard error"


def left_badly(case, left, whole):
    """What is in the folder of a run and should not be."""
    for name, content in left.items():
        if name != case.writes:
            yield f"{name} was left behind"
        elif content != whole:
            yield f"{name} is there, but not whole"


def is_loaders(ended):
    """The dynamic loader, a library or the kernel gave up, before a line of ours ran."""
    words = ("error while loading shared libraries", "Fatal glibc error: cannot allocate memory")
    return (ended.code == 127 and any(word in ended.errors for word in words)) or (
        ended.code in (-signal.SIGKILL, -signal.SIGSEGV) and not ended.errors and not ended.output)


class Trial:
    """A part of the tests."""

    def __init__(self, desk, chance, is_long):
        self.desk = desk
        self.chance = chance
        self.is_long = is_long
        self.report = Report()
        self.wholes = {}

    def whole(self, case):
        """What a run in peace prints and writes."""
        if case not in self.wholes:
            ended, left = self.desk.run(case)
            problems = list(ended_badly(ended, (case.code,)))
            self.report.add(case, ended, "in peace", problems)
            self.wholes[case] = ended, left.get(case.writes)
        return self.wholes[case]

    def sample(self, values, count):
        values = list(values)
        return values if self.is_long or len(values) <= count else self.chance.sample(values, count)


class Memory(Trial):
    """Less and less memory for the commands that read a trace of 700 tokens. What computes with BLAS is no such case: how a BLAS
    ends without memory is its own affair."""

    def go(self):
        attn, trace = self.desk.attn, self.desk.folder / "large_trace.npz"
        self.desk.run_plainly([attn, "run", "attention", "--input", self.desk.large, "--quiet", "--trace", trace])
        cases = [Case([attn, "verify", trace]), Case([attn, "explain", trace, "weights[3,4]"]),
                 Case([attn, "diff", trace, trace]), Case([attn, "graph", trace]),
                 Case([attn, "view", trace, "-o", "out.html"], "out.html")]
        taken = self.taken_by_blas()
        for case in self.sample(cases, 3):
            whole, written = self.whole(case)
            for mebibytes in self.sample(range(8, 104, 2), 6):
                limit = taken + mebibytes << 20
                ended, left = self.desk.run(case, before=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
                                            OPENBLAS_NUM_THREADS="1")
                problems = list(ended_badly(ended, (0, 2))) + list(left_badly(case, left, written))
                if ended.code == 0 and ended.output != whole.output:
                    problems.append("ended well with another output")
                self.report.add(case, ended, f"{taken} + {mebibytes} MiB", problems)

    def taken_by_blas(self):
        """MiB that OpenBLAS takes before a program starts. Where it can't, 0.3.29 tries for ever, and 0.3.34 ends the program."""
        for mebibytes in range(0, 513, 32):
            limit = mebibytes + 8 << 20
            try:
                if subprocess.run([self.desk.attn, "--version"], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, timeout=2,
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))).returncode in (0, 2):
                    return mebibytes
            except subprocess.TimeoutExpired:
                pass
        raise RuntimeError("attn does not start with 520 MiB")


class Outputs(Trial):
    """Standard output closed, full, read-only, or at its longest; standard error closed, too."""

    def go(self):
        for case in self.sample(self.desk.cases(self.is_long), 10):
            for kind in ("full", "closed", "read-only", "both closed", "both full", "limited"):
                if not self.is_long and self.chance.random() < 0.5:
                    continue
                self.deliver(case, kind)
            if case.writes:
                self.write_nowhere(case)
        for case in self.sample(self.desk.cases(self.is_long), 5):
            self.leave(case)
        with open("/dev/full", "wb") as full:
            case = Case([self.desk.attn, "view", self.desk.trace, "--no-browser"])
            ended, _ = self.desk.run(case, stdout=full)
            self.report.add(case, ended, "an address that nobody sees", list(ended_badly(ended, (2,))))

    def deliver(self, case, kind):
        whole, written = self.whole(case)
        options = {}

        def closing(*streams):
            def close():
                for stream in streams:
                    os.close(stream)
            return close

        with open("/dev/full", "wb") as full, open("/dev/null", "rb") as read_only, \
                tempfile.TemporaryFile(dir=self.desk.folder) as file:
            if kind == "full":
                options = {"stdout": full}
            elif kind == "both full":
                options = {"stdout": full, "stderr": full}
            elif kind == "closed":
                options = {"before": closing(1)}
            elif kind == "both closed":
                options = {"before": closing(0, 1, 2)}
            elif kind == "read-only":
                options = {"stdout": read_only}
            else:
                size = max(len(whole.output) // 2, 1)
                options = {"stdout": file, "before": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))}
            ended, left = self.desk.run(case, **options)

        is_heard = not kind.startswith("both")
        is_lost = len(whole.output) > 0
        problems = list(left_badly(case, left, written))
        if kind == "limited" and case.writes:  # the file comes to its end, too
            is_lost = True
        expected = 2 if is_lost else case.code
        if ended.code != expected:
            problems.append(f"expected the exit code {expected}")
        if is_lost and is_heard and lines(ended.errors) != 1 and case.code != 1:
            problems.append("expected one line on standard error")
        if is_lost and is_heard and kind != "limited" and NOT_DELIVERED not in ended.errors:
            problems.append(f'expected "{NOT_DELIVERED}"')
        self.report.add(case, ended, f"standard output {kind}", problems)

    def write_nowhere(self, case):
        for target in ("/dev/full", "missing/out", "/proc/out", "."):
            moved = Case([target if word == case.writes else word for word in case.words], prints=case.prints)
            ended, left = self.desk.run(moved)
            problems = list(ended_badly(ended, (2,))) + list(left_badly(moved, left, None))
            if target not in ended.errors and f'"{target}"' not in ended.errors:
                problems.append(f"expected {target} in the message")
            self.report.add(case, ended, f"into {target}", problems)

    def leave(self, case):
        """Nobody reads: the usual quiet end by SIGPIPE."""
        whole, written = self.whole(case)
        reading, writing = os.pipe()
        os.close(reading)
        ended, left = self.desk.run(case, stdout=writing)
        os.close(writing)
        problems = list(left_badly(case, left, written))
        if ended.code != (-signal.SIGPIPE if whole.output else case.code) or (whole.output and ended.errors):
            if case.code == 0:
                problems.append("expected the quiet end by SIGPIPE")
        self.report.add(case, ended, "nobody reads", problems)


def rank_of(lesson, rank):
    """The process of a rank that a lesson has started; None where there is none yet."""
    def parent(process):
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])

    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "environ").read_bytes().split(b"\0")
            if not any(name + b"=%d" % rank in words for name in (b"OMPI_COMM_WORLD_RANK", b"PMI_RANK")):
                continue
            ancestor = parent(process)
            while ancestor not in (0, 1, lesson):
                ancestor = parent(Path("/proc", str(ancestor)))
            if ancestor == lesson and b"--as-rank" in (process / "cmdline").read_bytes():
                return int(process.name)
        except OSError:
            pass  # it has ended, or is not ours
    return None


class Signals(Trial):
    """A signal at a random moment; many while a file is written."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM, signal.SIGUSR1, signal.SIGXCPU,
               signal.SIGKILL)

    def go(self):
        attn, large = self.desk.attn, self.desk.large
        cases = [Case([attn, "run", "attention", "--input", large, "--quiet", "--trace", "out.npz"], "out.npz", prints=False),
                 Case([attn, "run", "attention", "--input", self.desk.input, "--trace", "out.npz"], "out.npz"),
                 Case([attn, "view", self.desk.trace, "-o", "out.html"], "out.html")]
        cases += [case for case in self.desk.cases(self.is_long) if case.writes and "lesson_" in case.name][:4]
        for case in cases if self.is_long else cases[:2]:
            started = time.monotonic()
            self.whole(case)
            took = time.monotonic() - started
            for _ in range(100 if self.is_long else 12):
                self.interrupt(case, self.chance.random() * took)
        self.limit(cases[0])
        for sent in (signal.SIGINT, signal.SIGTERM):
            self.end_server(sent)
        self.end_rank(signal.SIGKILL, "4 ranks can't run: rank 2 was ended by signal 9 \\(Killed\\)")
        self.end_rank(signal.SIGSTOP, "the ranks did not end within 10 seconds: rank 2 is stopped;")
        self.end_rank(signal.SIGSTOP, "the ranks did not end within 10 seconds: rank 2 (is stopped|has not begun);", [0])

    # When a rank has begun and not ended depends on the machine, and on whose MPI it is.
    SOON = (0.3, 0.1, 0.8, 0.03, 2)

    def end_rank(self, sent, expected, delays=SOON):
        """Of a lesson's ranks one is ended, or stopped, when it has said who it is or before: the lesson says which.

        Some delay finds it between its begin and its end."""
        lesson = self.desk.attn.parent / "lesson_19_across_machines"
        if not lesson.exists():  # without MPI
            return
        case = Case([lesson, "--quiet", "--limit", "10"])

        def stop(process):
            rank = None
            while rank is None and process.poll() is None:
                rank = rank_of(process.pid, 2)
            time.sleep(after)
            with contextlib.suppress(ProcessLookupError):  # it has ended
                if rank is not None:
                    os.kill(rank, sent)

        for after in delays:
            ended, left = self.desk.run(case, stop=stop)
            if is_told := re.search(expected, ended.errors):
                break
        problems = list(ended_badly(ended, (2,))) + list(left_badly(case, left, None))
        if not is_told:
            problems.append(f'expected "{expected}"')
        self.report.add(case, ended, f"rank 2 gets {sent.name} after {after} s", problems)

    def end_server(self, sent):
        """attn view serves until a signal comes, which is its usual end."""
        case = Case([self.desk.attn, "view", self.desk.trace, "--no-browser"])

        def stop(process):
            process.stdout.readline()
            process.send_signal(sent)

        ended, left = self.desk.run(case, stop=stop)
        self.report.add(case, ended, sent.name, list(ended_badly(ended, (0,))) + list(left_badly(case, left, None)))

    def interrupt(self, case, after):
        sent = self.chance.choice(self.SIGNALS)

        def stop(process):
            time.sleep(after)
            process.send_signal(sent)

        _, written = self.whole(case)
        ended, left = self.desk.run(case, stop=stop)
        problems = list(left_badly(case, left, written))
        if ended.code not in (case.code, -sent):
            problems.append(f"expected {case.code} or the signal {sent.name}")
        self.report.add(case, ended, f"{sent.name} after {after:.3f} s", problems)

    def limit(self, case):
        """SIGXFSZ is no end, but an error."""
        for size in (1, 4096, 1 << 20):
            ended, left = self.desk.run(case, before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
            problems = list(ended_badly(ended, (2,))) + list(left_badly(case, left, None))
            if "File too large" not in ended.errors:
                problems.append('expected "File too large"')
            self.report.add(case, ended, f"files of at most {size} bytes", problems)


class Descriptors(Trial):
    """Few files can be open: what can't be opened is not called damaged."""

    def go(self):
        for case in self.sample(self.desk.cases(self.is_long), 12):
            whole, written = self.whole(case)
            for most in range(3, 9):
                ended, left = self.desk.run(case, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (most, most)))
                if is_loaders(ended):
                    continue
                problems = list(ended_badly(ended)) + list(left_badly(case, left, written))
                is_loaders_of_ranks = "ranks can't run: exit code" in ended.errors  # Open MPI 5's, without a reason
                if ended.code == 2 and "Too many open files" not in ended.errors and not is_loaders_of_ranks:
                    problems.append('expected "Too many open files"')
                if ended.code != 2 and ended.output != whole.output:
                    problems.append("ended well with another output")
                self.report.add(case, ended, f"{most} descriptors", problems)


class CommandLines(Trial):
    """Values that are empty, flags that come twice, numbers with a zero in front: every flag of every --help."""

    def go(self):
        commands = [[self.desk.attn, *words] for words in ((), ("lessons",), ("verify",), ("explain",), ("diff",), ("view",),
                                                          ("graph",), ("grad",), ("pitfalls",))]
        modules = re.findall(r"^  ([a-z][a-z-]+) ", self.help_of([self.desk.attn, "run"]), re.M)
        if len(modules) < 20:
            sys.exit(f"programs.py: attn run --help lists {len(modules)} modules")
        commands += [[self.desk.attn, "run", module] for module in self.sample(modules, 4)]
        commands += [[program] for program in self.sample(sorted(self.desk.programs.glob("lesson_*")), 2)]
        for command in commands:
            flags = re.findall(r"^  (?:-\w, )?(--[\w-]+)(?: ([A-Z|a-z.\d]\S*))?(?:  |$)", self.help_of(command), re.M)
            for flag, kind in self.sample([flag for flag in flags if flag[0] not in ("--help", "--version")], 6):
                self.try_flag(command, flag, kind)
        self.try_decimal()

    def help_of(self, command):
        return self.desk.run_plainly([*command, "--help"]).stdout.decode()

    def refuse(self, words, expected):
        case = Case(words)
        ended, left = self.desk.run(case)
        problems = list(ended_badly(ended, (2,))) + list(left_badly(case, left, None))
        if expected not in ended.errors:
            problems.append(f'expected "{expected}"')
        self.report.add(case, ended, " ".join(case.words[1:]), problems)

    def try_flag(self, command, flag, kind):
        if not kind:
            self.refuse([*command, flag, flag], f"{flag} is given 2 times, expected once")
            return
        is_chosen = "|" in kind
        self.refuse([*command, flag, ""], "is none of" if is_chosen else flag)
        self.refuse([*command, flag + "="], flag)
        if not is_chosen and kind.startswith(("FILE", "PAGE", "PICTURE", "OTHER")):
            self.refuse([*command, flag, ""], f"{flag}: the value is empty")
        if kind not in ("NAME=STEP", "STEP"):  # which can be given several times
            value = kind.split("|")[0] if is_chosen else "1"
            meaning = " ".join(self.help_of(command).split(flag + " ")[1].split("\n  -")[0].split())
            if "can be given several times" not in meaning:
                self.refuse([*command, flag, value, flag, value], f"{flag} is given 2 times, expected once")

    def try_decimal(self):
        """010 is ten, and not eight; 0x10 is no number."""
        command = [self.desk.attn, "run", "attention", "--input", self.desk.input, "--precision"]
        ten, _ = self.desk.run(Case([*command, "10"]))
        for text in ("010", "0010"):
            ended, _ = self.desk.run(Case([*command, text]))
            problems = [] if (ended.code, ended.output) == (0, ten.output) else ["expected what 10 gives"]
            self.report.add(Case([*command, text]), ended, text, problems)
        for text in ("0x8", "8.0", "+8", " 8", "8 ", "1e1", "-1", "٣", "99999999999999999999", "o8", "8u"):
            self.refuse([*command, text], "is not a whole number")
        heads = [self.desk.attn, "run", "gpt", "--weights", SMALL_MODEL, "--input", self.desk.ids, "--heads"]
        four, _ = self.desk.run(Case([*heads, "4"]))
        ended, _ = self.desk.run(Case([*heads, "04"]))
        self.report.add(Case(heads), ended, "04",
                        [] if four.code == 0 and ended.output == four.output else ["expected what 4 gives"])
        self.refuse([*heads, "010"], "10")


class Names(Trial):
    """Names, formulas and arguments that would move the cursor: no terminal sees them."""

    def go(self):
        folder = self.desk.folder
        evil_input = folder / f"{EVIL}.npz"
        shutil.copy(self.desk.input, evil_input)
        evil_trace = folder / f"trace {EVIL}.npz"
        shutil.copy(self.desk.trace, evil_trace)
        attn = self.desk.attn
        commands = [
            [attn, EVIL], [attn, "run", EVIL], [attn, "verify", EVIL], [attn, "verify", evil_trace],
            [attn, "explain", evil_trace, EVIL], [attn, "explain", evil_trace, "scores[0,0]"],
            [attn, "diff", evil_trace, evil_trace], [attn, "diff", evil_trace, self.desk.mine, "--diagnose"],
            [attn, "diff", evil_trace, evil_trace, "--json"], [attn, "diff", evil_trace, self.desk.mine, "--map", EVIL],
            [attn, "diff", evil_trace, self.desk.mine, "--map", f"{EVIL}={EVIL}"],
            [attn, "graph", evil_trace], [attn, "graph", evil_trace, "--title", EVIL], [attn, "graph", evil_trace, "--to", EVIL],
            [attn, "graph", evil_trace, "--scope", EVIL], [attn, "graph", evil_trace, "-o", f"{EVIL}.dot"],
            [attn, "graph", evil_trace, "-o", EVIL], [attn, "view", evil_trace, "-o", f"{EVIL}.html"],
            [attn, "view", evil_trace, "-o", f"{EVIL}/x.html"], [attn, "view", evil_trace, "--tokens", EVIL, "-o", "x.html"],
            [attn, "run", "attention", "--input", evil_input], [attn, "run", "attention", "--input", EVIL],
            [attn, "run", "attention", "--input", evil_input, "--trace", f"{EVIL}.npz"],
            [attn, "run", "attention", "--input", evil_input, "--color", EVIL],
            [attn, "run", "attention", "--input", evil_input, "--ablate", EVIL],
            [attn, "run", "attention", "--input", evil_input, "--pitfall", EVIL],
            [attn, "run", "attention", "--input", evil_input, "--precision", EVIL], [attn, "run", "attention", f"--{EVIL}"],
            [attn, "run", "gpt", "--heads", "4", "--weights", f"{EVIL}.safetensors", "--input", self.desk.ids],
            [attn, "run", "gpt", "--heads", "4", "--weights", SMALL_MODEL, "--prefix", EVIL, "--input", self.desk.ids],
        ]
        for program in ("lesson_01_single_query", "lesson_17_story"):
            if (self.desk.programs / program).exists():
                program = self.desk.programs / program
                commands += [[program, EVIL], [program, "--input", EVIL], [program, "--input", evil_input],
                             [program, "--ablate", EVIL], [program, "--prompt", EVIL], [program, "--weights", EVIL]]
        for trace in self.evil_traces():
            commands += [[attn, "verify", trace], [attn, "explain", trace, "y[0,0]"], [attn, "explain", trace, "x[0,0]"],
                         [attn, "diff", trace, trace], [attn, "diff", self.desk.trace, trace],
                         [attn, "diff", self.desk.trace, trace, "--json"], [attn, "diff", trace, trace, "--json"],
                         [attn, "diff", trace, self.desk.mine, "--json", "--diagnose"],
                         [attn, "diff", trace, self.desk.mine], [attn, "graph", trace], [attn, "graph", trace, "--formulas"], [attn, "grad", trace, "--of", EVIL],
                         [attn, "view", trace, "-o", "x.html"], [attn, "run", "attention", "--input", trace],
                         [attn, "run", "gpt", "--heads", "4", "--weights", trace, "--input", self.desk.ids]]
        for command in self.sample(commands, 80) + [[attn, "verify", text] for text in self.unseen()]:
            self.look(command)

    def unseen(self):
        """All characters that are not seen as themselves, but for the signs around numbers of some scripts, which are."""
        seen = {0x600, 0x601, 0x602, 0x603, 0x604, 0x605, 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
        letters = [chr(point) for point in range(1, 0x110000)
                   if point not in seen and unicodedata.category(chr(point)) in ("Cc", "Cf", "Zl", "Zp")]
        return ["".join(letters[begin:begin + 60]) for begin in range(0, len(letters), 60)]

    def evil_traces(self):
        """Traces and arrays with an evil name in one place each."""
        path = self.desk.folder / "evil.npz"
        square = ([1.0, 2.0, 3.0, 4.0], (2, 2))
        plain = {"path": "y", "formula": "x + x", "axes": ["n", "m"], "module": "", "options": {}}
        first = {"path": "x", "formula": "", "axes": ["n", "m"]}
        changes = [({"formula": EVIL}, {}), ({"formula": f"x + {EVIL}"}, {}), ({"axes": [EVIL, EVIL]}, {}),
                   ({"module": EVIL}, {}), ({"options": {EVIL: EVIL}}, {}), ({"path": EVIL}, {EVIL: square}),
                   ({"shape": [EVIL]}, {}), ({EVIL: EVIL}, {}), ({"formula": EVIL * 1000}, {})]
        for number, (change, arrays) in enumerate(changes):
            trace = path.with_name(f"evil{number}.npz")
            write_npz(trace, {"x": square, "y": square, **arrays},
                      {"steps.json": json.dumps([first, {**plain, **change}], ensure_ascii=False)})
            yield trace
        texts = [json.dumps({"format": EVIL, "steps": []}), f'{{"{EVIL}"', EVIL, json.dumps({"steps": EVIL}),
                 json.dumps({"steps": [first], "aliases": [{"path": EVIL, "target": EVIL}]})]
        for number, text in enumerate(texts):
            trace = path.with_name(f"evil_text{number}.npz")
            write_npz(trace, {"x": square, "y": square}, {"steps.json": text})
            yield trace
        arrays = path.with_name("evil_arrays.npz")
        write_npz(arrays, {EVIL: square, "scores" + EVIL: ([0.5] * 16, (4, 4)), "queries": square})
        yield arrays
        record = path.with_name("evil_record.npz")
        write_npz(record, {"a": ([0.5] * 16, (4, 4))}, {"attn_record.json": json.dumps(
            {"format": "attn record 1",
             "arrays": [{"name": "a", "file": EVIL, "line": 1, "variable": EVIL, "function": EVIL}]})})
        yield record
        safetensors = path.with_name("evil.safetensors")
        header = json.dumps({EVIL: {"dtype": EVIL, "shape": [1], "data_offsets": [0, 1]}}).encode()
        safetensors.write_bytes(struct.pack("<Q", len(header)) + header + b"\0")
        yield safetensors

    def look(self, command):
        case = Case(command)
        case.name = " ".join(word.replace(str(self.desk.folder), "") for word in case.words[1:])[:120].__repr__()
        ended, _ = self.desk.run(case)
        problems = list(ended_badly(ended))
        for stream, text in (("output", ended.output.decode(errors="surrogateescape")), ("error", ended.errors)):
            bad = {c for c in text if c != "\n" and (unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs"))}
            if bad:
                problems.append(f"standard {stream} has {bad}")
            if "json.exception" in text:
                problems.append(f"standard {stream} has words of the JSON library")
        if "--json" in command and ended.code != 2:
            try:
                json.loads(ended.output)
            except ValueError as error:
                problems.append(f"is no JSON: {error}")
        self.report.add(case, ended, "hostile names", problems)


PARTS = {"lines": CommandLines, "names": Names, "outputs": Outputs, "descriptors": Descriptors, "signals": Signals,
         "memory": Memory}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=Path, help="the build's bin folder")
    parser.add_argument("--long", action="store_true", help="everything in place of a sample")
    parser.add_argument("--seed", type=int, default=1, help="of the sample, of moments and of limits (default: 1)")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; can be given several times")
    parser.add_argument("--without", choices=PARTS, action="append", default=[], help="all but this part")
    flags = parser.parse_args(arguments)
    wrong = runs = 0
    with tempfile.TemporaryDirectory(prefix="attn-hostile-") as folder:
        desk = Desk(folder, flags.bin.resolve(), random.Random(flags.seed))
        for name, part in PARTS.items():
            if name in flags.without or (flags.only and name not in flags.only):
                continue
            trial = part(desk, random.Random(f"{flags.seed} {name}"), flags.long)
            started = time.monotonic()
            trial.go()
            trial.report.print(name, time.monotonic() - started)
            wrong += len(trial.report.wrong)
            runs += sum(trial.report.codes.values())
    print(f"{runs} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
