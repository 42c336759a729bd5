#!/usr/bin/env python3
"""Asks attn view what no page asks, as no browser asks it, and looks at what it answers and how it ends.

    server.py ATTN                     600 drawn requests and the trials below: less than 20 seconds
    server.py ATTN --requests 10000    so many; and what takes longer: an answer that nobody takes, a long computation
    server.py ATTN --seed 7            draws others

ATTN is the program. Every answer has the status, the length and the content that it should have, whatever range is asked
for; clients that are slow keep nobody waiting and are let go; the address has a key, and no command line shows it; Ctrl-C
and SIGTERM end the program within two seconds, with 0 and without a complaint, whoever is connected and whatever is being
asked. Needs Python alone.
"""

import argparse
import collections
import contextlib
import json
import os
import random
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

LONGEST_END = 2  # seconds, as the documentation says
PATIENCE = 10  # seconds that a request can take, as the documentation says
REQUESTS_EACH = 250  # of one server, before it is ended
PROMPT = 5  # seconds that a plain request can take on a busy machine, whoever else is connected
LARGE = 6 << 20  # bytes, more than sockets hold
CONTENTS = {"the page": "", "a tensor": "tensor?run=0&step=0", "no numbers": "tensor?run=0&step=2",
            "an explanation": "explain?run=0&step=1&offset=2"}
RANGES = ["bytes=0-4999", "bytes=0-0", "bytes=5-2", "bytes=175-", "bytes=176-", "bytes=177-999999", "bytes=-5", "bytes=-0", "bytes=-99999",
          "bytes=100-99999", "bytes=999999-9999999", "bytes=0-9223372036854775807", "bytes=9223372036854775807-", "bytes=18446744073709551615-",
          "bytes=0-99999999999999999999999", "bytes=0-1,2-3", "bytes=0-1,5000-6000,-99999", "bytes=0-,0-,0-", ",".join(["bytes=0-"] + ["0-"] * 200),
          "bytes=", "bytes=-", "bytes=--1", "bytes=a-b", "bytes=1", "bytes 0-5", "lines=0-5", "bytes=0-4999\r\nRange: bytes=0-9999", "", "\0"]  # fmt: skip


# ------------------------------------------------------------------------------------------------ traces


def npy(numbers, shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + numbers


def write_trace(path, steps, method=zipfile.ZIP_STORED):
    """Steps are (path, formula, shape, the bytes of their numbers)."""
    with zipfile.ZipFile(path, "w", method, compresslevel=1) as archive:
        described = [{"path": name, "formula": formula, "shape": list(shape), "axes": []} for name, formula, shape, _ in steps]
        archive.writestr("steps.json", json.dumps({"format": "attn trace 2", "steps": described, "aliases": []}))
        for name, _, shape, numbers in steps:
            archive.writestr(name + ".npy", npy(numbers, shape))
    return path


X = struct.pack("<6d", 1, 2, 3, 4, 5, 6)
Y = struct.pack("<6d", 2, 4, 7, 8, 10, 12)


def small_steps():
    return [("x", "", (2, 3), X), ("y", "x * 2", (2, 3), Y), ("none", "", (0,), b""), ("large", "", (LARGE // 8,), struct.pack("<d", 0.1) * (LARGE // 8))]


# ------------------------------------------------------------------------------------------------ a server and its clients


class Server:
    """attn view of a trace, which has to end well."""

    def __init__(self, report, attn, trace, name, most_descriptors=None, environment=None):
        self.report, self.name = report, name
        self.is_ending = False  # from then on an answer can stay away, or be cut off

        def limit():
            if most_descriptors:
                resource.setrlimit(resource.RLIMIT_NOFILE, (most_descriptors, most_descriptors))

        words = [str(attn), "view", str(trace)] + ([] if environment else ["--no-browser"])
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limit,
                                        env={**os.environ, **(environment or {})}, text=True)
        line = self.process.stdout.readline()
        found = re.search(r" at http://127\.0\.0\.1:(\d+)(/\S*); Ctrl-C ends this$", line.rstrip())
        if not found:
            self.process.kill()
            raise SystemExit(f"attn view printed {line!r} and {self.process.stderr.read()!r}")
        self.port, self.folder = int(found[1]), found[2]
        self.clients = []

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def leave_open(self, sent, reads_nothing=False):
        """A client that stays until the server ends."""
        client = socket.socket()
        if reads_nothing:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(20)
        try:
            client.connect(("127.0.0.1", self.port))
            client.sendall(sent)
        except OSError as error:
            self.report.expect(self.is_ending, self.name, f"a client can't ask: {error}")
        self.clients.append(client)
        return client

    def head(self, line, *lines, host=None):
        return "\r\n".join([f"{line} HTTP/1.1", f"Host: {host or f'127.0.0.1:{self.port}'}", *lines, "", ""]).encode("latin-1")

    def get(self, question, *lines):
        return self.head(f"GET {self.folder}{question}", *lines)

    def ask(self, *pieces, pause=0.0):
        """Status and content of the answer to these bytes, or None where there is no answer."""
        answer = b""
        with self.connect() as client:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for piece in pieces:
                    client.sendall(piece)
                    time.sleep(pause)
            with contextlib.suppress(ConnectionResetError):
                while piece := client.recv(1 << 20):
                    answer += piece
        if not answer:
            return None
        head, _, content = answer.partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        lengths = re.findall(rb"\r\nContent-Length: (\d+)", head)
        if lengths != [str(len(content)).encode()] and not pieces[0].startswith(b"HEAD "):
            raise ValueError(f"Content-Length {lengths} of {len(content)} bytes")
        if b"\r\nX-Content-Type-Options: nosniff" not in head:
            raise ValueError(f"a head without what every answer's has: {head!r}")
        return status, content

    def end(self, sent, again=None, code=0):
        """Sends a signal, or two, and waits."""
        start = time.monotonic()
        self.is_ending = True
        self.process.send_signal(sent)
        if again:
            time.sleep(0.1)
            self.process.send_signal(again)
        try:
            _, errors = self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, errors = self.process.communicate()
        took = time.monotonic() - start
        for client in self.clients:
            client.close()
        self.report.ends.append(took)
        self.report.expect(took < LONGEST_END, self.name, f"{sent.name} took {took:.1f} s to end it")
        self.report.expect(self.process.returncode == code, self.name, f"ended with {self.process.returncode}, expected {code}")
        self.report.expect(errors == "", self.name, f"said {errors[-2000:]!r}")


class Report:
    def __init__(self):
        self.lock = threading.Lock()
        self.statuses, self.wrong, self.ends, self.slowest = collections.Counter(), [], [], 0.0

    def expect(self, condition, name, message):
        if not condition:
            with self.lock:
                self.wrong.append(f"{name}: {message}")

    def answered(self, server, what, accepted, *pieces, content=None, pause=0.0):
        """Asks, and expects one of the statuses, None for no answer, and with 200 the content."""
        start = time.monotonic()
        try:
            answer = server.ask(*pieces, pause=pause)
        except (OSError, ValueError, IndexError) as error:
            answer = (str(error), b"")
        status, found = answer or (None, b"")
        if server.is_ending and not isinstance(status, int):
            with self.lock:
                self.statuses["none, since the end came"] += 1
            return
        with self.lock:
            self.statuses[str(status)] += 1
            self.slowest = max(self.slowest, time.monotonic() - start)
        self.expect(status in accepted, server.name, f"{what} is answered with {status}, expected {accepted}: {pieces[0][:200]!r}")
        if status == 200 and content is not None:
            self.expect(found == content, server.name, f"{what} is answered with {len(found)} bytes that are not its {len(content)}: {pieces[0][:200]!r}")


# ------------------------------------------------------------------------------------------------ the trials


class Trials:
    def __init__(self, attn, folder, chance, count):
        self.attn, self.folder, self.chance, self.count = attn, folder, chance, count
        self.is_long = count >= 10000
        self.report = Report()
        self.trace = write_trace(folder / "t.npz", small_steps())
        self.signals = [signal.SIGINT, signal.SIGTERM]

    def serve(self, name, **options):
        return Server(self.report, self.attn, options.pop("trace", self.trace), name, **options)

    def contents(self, server):
        """What each question of the page is answered with."""
        found = {}
        for name, question in CONTENTS.items():
            status, found[name] = server.ask(server.get(question))
            self.report.expect(status == 200, server.name, f"{name} is answered with {status}")
        header = 10 + struct.unpack("<H", found["a tensor"][8:10])[0]
        numbers = struct.unpack("<6f", found["a tensor"][header:])  # whole numbers, which are sent as float32
        self.report.expect(numbers == struct.unpack("<6d", X), server.name, f"the tensor is {numbers}")
        self.report.expect(b"but the trace has 7" in found["an explanation"], server.name, "the explanation is another one's")
        return found

    def ranges(self):
        """Every range, of every kind of answer."""
        server = self.serve("ranges")
        contents = self.contents(server)
        for line in RANGES:
            for name, question in CONTENTS.items():
                self.report.answered(server, f"{name}, {line[:60]!r}", (200,), server.get(question, f"Range: {line}"), content=contents[name])
            for what, status, head in (
                ("no such step", 400, server.get("tensor?run=0&step=9", f"Range: {line}")),
                ("nothing there", 404, server.get("none", f"Range: {line}")),
                ("another method", 405, server.head(f"POST {server.folder}", f"Range: {line}")),
                ("no key", 403, server.head("GET /", f"Range: {line}")),
                ("another host", 403, server.head(f"GET {server.folder}", f"Range: {line}", host="attacker.example")),
            ):
                self.report.answered(server, f"{what}, {line[:60]!r}", (status,), head)
        server.end(self.chance.choice(self.signals))

    def drawn(self):
        """Drawn requests, many at once, among clients that are slow; the server is ended among them, or while they are answered."""
        done = 0
        while done < self.count:
            server = self.serve(f"drawn requests from {done}")
            contents = self.contents(server)
            each = min(REQUESTS_EACH, self.count - done)
            with ThreadPoolExecutor(8) as pool:
                parts = [pool.submit(self.draw_many, server, contents, random.Random(self.chance.random()), each // 8 + (place < each % 8))
                         for place in range(8)]
                if self.chance.randrange(2):
                    time.sleep(self.chance.random() * 0.3)
                    server.end(self.chance.choice(self.signals))
            done += sum(part.result() for part in parts)
            if server.is_ending:
                continue
            for _ in range(self.chance.randrange(12)):  # who are on their way at the end
                server.leave_open(self.chance.choice([server.get(""), server.get("tensor?run=0&step=3"), b"GET"]), reads_nothing=True)
            server.end(self.chance.choice(self.signals))

    def draw_many(self, server, contents, chance, count):
        """@return how many there were before the end"""
        for done in range(count):
            if server.is_ending:
                return done
            self.draw(server, contents, chance)
        return count

    def draw(self, server, contents, chance):
        name = chance.choice(list(CONTENTS))
        lines = [chance.choice([f"Range: {self.drawn_range(chance)}", "Accept: */*", "If-Range: \"x\"", "Expect: 100-continue", "Connection: keep-alive",
                                "Connection: Upgrade\r\nUpgrade: h2c", "Accept-Encoding: gzip, br", f"X-{chance.random()}: {'y' * chance.randrange(3000)}",
                                "Transfer-Encoding: chunked", f"Content-Length: {chance.choice([0, 5, -1, 10**30])}", "Cookie: a=b", "Range:"])
                 for _ in range(chance.randrange(4))]  # fmt: skip
        right = server.get(CONTENTS[name], *lines)
        kind = chance.randrange(14)
        if kind < 4:
            self.report.answered(server, name, (200,), right, content=contents[name])
        elif kind == 4:
            cuts = sorted(chance.randrange(len(right)) for _ in range(chance.randrange(1, 9)))
            pieces = [right[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(right)])]
            self.report.answered(server, f"{name} in pieces", (200,), *pieces, content=contents[name], pause=chance.choice([0, 0.001, 0.03]))
        elif kind == 5:
            with contextlib.suppress(OSError), server.connect() as client:
                client.sendall(right[: chance.randrange(len(right))])
            with self.report.lock:
                self.report.statuses["a half, then gone"] += 1
        elif kind == 6:
            method = chance.choice(["HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "G", "PRI", "M" * 5000])
            content = bytes(chance.randrange(256) for _ in range(chance.choice([0, 10, 3000]))) * chance.choice([1, 30])
            self.report.answered(server, "another method", (405,), server.head(f"{method} {server.folder}{CONTENTS[name]}", *lines) + content)
        elif kind == 7:
            question = chance.choice(["tensor", "explain", "tensor?run=0&step=", "tensor?run=0&step=4", "tensor?run=1&step=0", "tensor?run=0&step=-1",
                                      "tensor?step=0", "explain?run=0&step=0&offset=6", "explain?run=0&step=2&offset=0", "tensor?run=0&step=%30",
                                      "tensor?run=0&step=0x1", "tensor?&&=&run==0", "tensor?run=0&step=99999999999999999999", "explain?run=0&step=0"])  # fmt: skip
            self.report.answered(server, "a wrong question", (400,), server.get(question, *lines))
        elif kind == 8:
            place = chance.choice(["none", "tensors?run=0&step=0", "tensor/", "../../etc/passwd", "%2e%2e/", "index.html", "a" * 8000, "\xff\x01", "#x"])
            self.report.answered(server, "another place", (404,), server.head(f"GET {server.folder}{place}", *lines))
        elif kind == 9:
            key = server.folder.strip("/")
            folder = chance.choice(["/", "", f"/{key}", f"/{key[:-1]}/", f"/{key.upper()}x/", "/" + "0" * len(key) + "/", f"//{key}/", f"/./{key}/"])
            self.report.answered(server, "another key", (403,), server.head(f"GET {folder or '*'}{CONTENTS[name] if folder else ''}", *lines))
        elif kind == 10:
            host = chance.choice(["attacker.example", "127.0.0.1", f"localhost:{server.port}0", f"127.0.0.1:{server.port}\r\nhOsT: b", f"[::1]:{server.port}", ";"])
            self.report.answered(server, "another host", (403,), server.head(f"GET {server.folder}", *lines, host=host))
        elif kind == 11:
            noise = chance.choice([bytes(chance.randrange(256) for _ in range(chance.randrange(1, 3000))) + b"\r\n\r\n", b"\r\n\r\n", b"GET / HTTP/9\r\n\r\n",
                                   b"\x16\x03\x01\x02\x00\x01\r\n\r\n", right.replace(b": ", b" "), right[:-2] + b" folded: x\r\n\r\n", right[:-2] + b"line\r\n\r\n"])  # fmt: skip
            self.report.answered(server, "no request", (400,), noise)
        elif kind == 12:
            self.report.answered(server, "a request without an end", (431,), right[:-2] + b"x: " + b"y" * chance.randrange(16500, 60000) + chance.choice([b"", b"\r\n\r\n"]))
        elif len(server.clients) < 60:
            if chance.randrange(2):
                server.leave_open(right[: chance.randrange(len(right))])
            else:
                server.leave_open(server.get("tensor?run=0&step=3"), reads_nothing=True)
            with self.report.lock:
                self.report.statuses["left open"] += 1
        else:
            self.report.answered(server, "two at once", (200,), right + right, content=contents[name])

    @staticmethod
    def drawn_range(chance):
        def number():
            return chance.choice(["", "0", "1", str(chance.randrange(400)), str(chance.randrange(10**6)), str(2**63 - 1), str(2**64), "-1", "x"])

        return chance.choice([chance.choice(RANGES), "bytes=" + ",".join(f"{number()}-{number()}" for _ in range(chance.choice([1, 1, 2, 9])))])

    def patience(self):
        """Clients that are slow: how many there are keeps nobody waiting, and each is let go in time."""
        server = self.serve("slow clients")
        start = time.monotonic()
        slow = {"says nothing": server.leave_open(b""), "asks for half": server.leave_open(server.get("")[:20]), "sends a byte per second": server.leave_open(b"G")}
        if self.is_long:
            slow["takes nothing"] = server.leave_open(server.get("tensor?run=0&step=3"), reads_nothing=True)
        for _ in range(40):
            server.leave_open(b"G")
        longest = {name: PATIENCE + (LARGE >> 20 if name == "takes nothing" else 0) for name in slow}
        next_plain, gone = start, {}
        while len(gone) < len(slow) and time.monotonic() < start + 2 * PATIENCE + (LARGE >> 20):
            for name, client in slow.items():
                seconds = time.monotonic() - start
                if name not in gone and self.is_gone(client, name, seconds):
                    gone[name] = seconds
            if time.monotonic() > next_plain:
                next_plain += 1
                self.promptly(server)
            time.sleep(0.05)
        for name, seconds in longest.items():
            found = gone.get(name)
            self.report.expect(found and seconds - 0.5 < found < seconds + 3, server.name, f"who {name} is let go after {found} s, expected {seconds}")
        server.end(signal.SIGINT)

    @staticmethod
    def is_gone(client, name, seconds):
        try:
            if name == "takes nothing":  # to look is to take: it looks once, after its time
                return seconds > PATIENCE + (LARGE >> 20) + 1 and sum(map(len, iter(lambda: client.recv(1 << 20), b""))) < LARGE
            if name == "sends a byte per second" and time.monotonic() % 1 < 0.06:
                client.send(b"E")
            client.setblocking(False)
            return client.recv(1) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def promptly(self, server):
        start = time.monotonic()
        self.report.answered(server, "a plain request among slow clients", (200,), server.get("tensor?run=0&step=0"))
        took = time.monotonic() - start
        self.report.expect(took < PROMPT, server.name, f"a plain request took {took:.1f} s")

    def crowds(self):
        """More clients than there is room for, or descriptors; who comes last is answered, and the end comes at once."""
        for name, count, options in (("300 that say nothing", 300, {}), ("40 and 24 descriptors", 40, {"most_descriptors": 24})):
            server = self.serve(name, **options)
            for _ in range(count):
                server.leave_open(b"")
            self.promptly(server)
            server.end(signal.SIGTERM)
        server = self.serve("10 that take nothing")
        for _ in range(10):
            server.leave_open(server.get("tensor?run=0&step=3"), reads_nothing=True)
        self.promptly(server)
        server.end(signal.SIGINT)

    def key(self):
        """The key is another one each time, and the browser learns it from a file that nobody else can read."""
        program = self.folder / "xdg-open"
        program.write_text('#!/bin/sh\nstat -c %a "$1" >"$0.mode"\ncat "$1" >"$0.page"\necho "$1" >"$0.part"\nmv "$0.part" "$0.word"\n')
        program.chmod(0o755)
        environment = {"PATH": f"{self.folder}:{os.environ['PATH']}", "DISPLAY": ":0", "TMPDIR": str(self.folder)}
        first, second = self.serve("a browser", environment=environment), self.serve("another key")
        self.report.expect(re.fullmatch(r"/[0-9a-f]{32}/", first.folder), first.name, f"its key is {first.folder}")
        self.report.expect(first.folder != second.folder, first.name, "two servers have one key")
        self.report.answered(second, "the other's key", (403,), second.head(f"GET {first.folder}"))
        until = time.monotonic() + 10
        while not (word := self.folder / "xdg-open.word").exists() and time.monotonic() < until:
            time.sleep(0.02)
        opened = word.read_text().strip()
        self.report.expect(first.folder.strip("/") not in opened, first.name, f"the command line shows the key: {opened}")
        self.report.expect(f'url=http://127.0.0.1:{first.port}{first.folder}"' in Path(f"{program}.page").read_text(), first.name, "the browser's page leads elsewhere")
        self.report.expect(Path(f"{program}.mode").read_text() == "600\n", first.name, "others can read the browser's page")
        for server in (first, second):
            server.end(signal.SIGINT)
        self.report.expect(not Path(opened).exists(), first.name, f"{opened} is left")

    def long_computation(self):
        """Numbers that take long to read: no signal waits for them."""
        trace = write_trace(self.folder / "long.npz", [("x", "", (1 << 27,), bytes(1 << 30))], zipfile.ZIP_DEFLATED)
        for again, code in ((None, 0), (signal.SIGINT, -signal.SIGINT)):
            server = self.serve("a long computation", trace=trace)
            server.leave_open(server.get("tensor?run=0&step=0"))
            time.sleep(0.3)
            server.end(signal.SIGINT, again, code)

    def go(self):
        trials = [self.ranges, self.key, self.crowds, self.drawn] + ([self.long_computation] if self.is_long else [])
        waiting = threading.Thread(target=self.patience)
        waiting.start()
        for trial in trials:
            start, before = time.monotonic(), len(self.report.ends)
            trial()
            print(f"{trial.__name__}: {time.monotonic() - start:.1f} s, {len(self.report.ends) - before} servers", flush=True)
        waiting.join()


def main():
    parser = argparse.ArgumentParser(description="Asks attn view what no page asks.")
    parser.add_argument("attn", type=Path, metavar="ATTN", help="the program")
    parser.add_argument("--requests", type=int, default=600, metavar="N", help="drawn requests (default: 600); from 10000 on, long trials too")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of what is drawn (default: 1)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trials = Trials(arguments.attn.resolve(), Path(folder), random.Random(arguments.seed), arguments.requests)
        trials.go()
    report = trials.report
    statuses = ", ".join(f"{count} times {status}" for status, count in sorted(report.statuses.items()))
    print(f"{sum(report.statuses.values())} requests: {statuses}; the slowest took {report.slowest:.2f} s")
    print(f"{len(report.ends)} servers ended by a signal, in {max(report.ends):.2f} s at the most; {len(report.wrong)} wrong")
    for line in report.wrong[:20]:
        print(f"  {line}")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
