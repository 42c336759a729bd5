"""Who is measured by bench/fast/fast.py: our worker, and the peers that are there, each in a process of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rows import Attention, Encoder, Story

HERE = Path(__file__).parent


class Worker:
    """A process that does what a line asks for, and answers with the seconds that it took."""

    def __init__(self, command, threads):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENBLAS_")}
        environment |= {"OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)

    def introduction(self):
        """The first line of a peer: who it is, in which version; nothing where it can't run."""
        return self.process.stdout.readline().strip()

    def seconds(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench/fast/fast.py: the worker {self.process.args} ended at the line '{line}'")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Contender:
    """A name in the table, the worker that is asked, the word that the line begins with, and what it can compute."""

    def __init__(self, name, worker, word, can):
        self.name, self.worker, self.word, self.can = name, worker, word, can

    def seconds(self, row):
        return self.worker.seconds(f"{self.word} {row.line}".strip())


LONGEST_SQUARE = 2048  # of those who make the n by n matrices: beyond, they take seconds and gigabytes


def reference_can(row):
    """In double, and no gradients. It writes stories, too, but nobody would compare them."""
    if isinstance(row, Attention):
        return row.direction == "forward" and row.n <= LONGEST_SQUARE
    return isinstance(row, Encoder)


def pytorch_can(name):
    is_plain = "plain" in name

    def can(row):
        if isinstance(row, Attention):
            return not is_plain or row.n <= LONGEST_SQUARE
        return isinstance(row, Encoder)

    return can


def ours(program, threads):
    worker = Worker([program], threads)
    return [
        Contender("sgemm", worker, "sgemm", lambda row: row.limit == "sgemm"),
        Contender("stream", worker, "stream", lambda row: row.limit == "stream"),
        Contender("fast", worker, "fast", lambda row: True),
        Contender("reference", worker, "reference", reference_can),
    ]


def peer(command, threads, can):
    """The peer that a command starts, in a list; an empty one, and a line on standard error, where it can't run."""
    worker = Worker(command, threads)
    name = worker.introduction()
    if not name:
        print(f"{' '.join(map(str, command))} does not run: it is left out", file=sys.stderr)
        return []
    return [Contender(name, worker, "", can(name))]


def pytorch(python, threads):
    return peer([python, HERE / "pytorch.py"], threads, pytorch_can)


def onnx_runtime(modules, threads, folder):
    """ONNX Runtime of npm, with the layer as plain operators, and with its own operator for attention."""
    subprocess.run(["/usr/bin/python3", HERE / "encoder_onnx.py", folder], check=True)
    return [
        contender
        for kind in ("plain", "fused")
        for contender in peer(["node", HERE / "onnx_runtime.js", modules, folder / f"{kind}.onnx", kind, threads], threads,
                              lambda name: lambda row: isinstance(row, Encoder))
    ]  # fmt: skip


def llama2c(source, threads, folder):
    """The program of Llama's small reader, compiled here as its Makefile does: plain, and for this machine."""
    return [
        contender
        for flags in ("-O3", "-Ofast -march=native")
        for contender in peer(["/usr/bin/python3", HERE / "llama2c.py", source, folder, flags], threads,
                              lambda name: lambda row: isinstance(row, Story))
    ]  # fmt: skip


class Contenders:
    """All of them, for one number of threads, as long as the with block runs."""

    def __init__(self, options, threads):
        self.options, self.threads = options, threads

    def __enter__(self):
        options, threads = self.options, self.threads
        self.folder = Path(tempfile.mkdtemp(prefix="bench-fast-"))
        self.all = ours(options.program, threads)
        for python in ["/usr/bin/python3", *options.python]:
            self.all += pytorch(python, threads)
        if options.onnxruntime:
            self.all += onnx_runtime(options.onnxruntime, threads, self.folder)
        if options.llama2c:
            self.all += llama2c(options.llama2c, threads, self.folder)
        return self.all

    def __exit__(self, *_):
        for worker in {id(contender.worker): contender.worker for contender in self.all}.values():
            worker.close()
        shutil.rmtree(self.folder)
