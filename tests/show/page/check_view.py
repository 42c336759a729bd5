#!/usr/bin/env python3
"""Opens what attn view shows as a reader would, written and served, and says what is wrong with it.

    tests/show/page/check_view.py BIN [--explain EXPLAIN_CELLS] [--screenshots FOLDER]

BIN is the folder with the attn program and the lessons'. In headless Chromium: every step of every lesson's trace, whose
arithmetic has to be what attn explain prints, letter by letter; steps by keyboard, numbers by mouse; heads and slices;
light and dark; a phone; classic scrollbars; two traces; tokens; aliases; odd, hostile and large traces; the server, and
who it refuses. A complaint in the console or a request to anywhere else is a mistake, too.

Exit codes: 0 all is well; 1 something is wrong; 77 there is no Chromium. Standard library only.
"""

import argparse
import array
import json
import math
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from browser import Browser

READY = "return document.documentElement.dataset.ready === 'true' && document.getElementById('step').getAttribute('aria-busy') !== 'true'"
HOSTILE = "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script><!--<script>{{trace}}\u2028\"'"
NAN, INF = float("nan"), float("inf")

# ---------------------------------------------------------------------------------------------------- traces


def step(path, shape, values, formula="", axes=(), kind="<f8", **more):
    """A step as steps.json has it, and its array."""
    letters = {"<f8": "d", "|b1": "b", "<i8": "q"}
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({''.join(f'{size}, ' for size in shape)}), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    npy += values if isinstance(values, bytes) else array.array(letters[kind], values).tobytes()
    return {"path": path, "formula": formula, "shape": list(shape), "axes": list(axes), **more}, npy


def write_trace(path, steps, aliases=()):
    with zipfile.ZipFile(path, "w") as archive:
        names = [{"path": path, "target": target} for path, target in aliases]
        archive.writestr("steps.json", json.dumps({"format": "attn trace 2", "steps": [description for description, _ in steps], "aliases": names}))
        for description, npy in steps:
            archive.writestr(description["path"] + ".npy", npy)
    return path


def odd_steps():
    """What is rare: other ranks, other types, no numbers at all, nothing but NaN."""
    return [
        step("single", (), [-0.0]),
        step("double", (), [0.0], "single * 2"),
        step("row", (1, 40), range(40), axes="nm"),
        step("column", (40, 1), range(40), "row.T"),
        step("five", (2, 3, 1, 2, 4), [i / 7 for i in range(48)], axes=["b", "h", "axis", "n", "m"]),
        step("soft", (2, 3, 1, 2, 4), [i / 7 for i in range(48)], "softmax(five)", axes=["b", "h", "axis", "n", "m"]),
        step("none", (0,), []),
        step("thin", (3, 0), []),
        step("nothing", (3,), [0, 0, 0], "sum(thin, axis=1)"),
        step("nan", (2, 2), [NAN] * 4),
        step("worst", (2, 3), [NAN, INF, -INF, 0, -0.0, 5e-324]),
        step("largest", (3,), [1.7976931348623157e308, -1.7976931348623157e308, 1]),
        step("again", (2, 3), [NAN, INF, -INF, 0, 0, 1e-323], "worst + worst"),
        step("infinite", (2,), [INF, INF]),
        step("mask", (2, 3), [1, 0, 1, 0, 0, 1], axes="nm", kind="|b1"),
        step("chosen", (2, 3), [NAN, -INF, -INF, -INF, -INF, 5e-324], "where(mask, worst, -inf)"),
        step("both", (2, 3), [1, 0, 1, 0, 0, 1], "mask & (row[:, 0:3] < 9)", kind="|b1"),
        step("ids", (3,), [2, 0, 2**53], kind="<i8"),
        step("taken", (2, 3), [4, 5, 6, 0, 1, 2], "reshape(row[:, 0:6], 2, 3)[ids[1:2]]"),
        step("wrong", (2,), [1, 2], "no_such_step + 1"),
        step("unreadable", (1,), [1], "softmax(("),
    ]


# ---------------------------------------------------------------------------------------------------- the checks


class Check:
    def __init__(self, browser, bin_folder, explain, folder, screenshots):
        self.browser, self.bin, self.explain_cells, self.folder, self.screenshots = browser, bin_folder, explain, folder, screenshots
        self.problems, self.compared, self.page, self.server = [], 0, "", None

    def expect(self, condition, message):
        if not condition:
            self.problems.append(f"{self.page}: {message}")

    def expect_equal(self, found, expected, what):
        self.expect(found == expected, f"{what}: found {found!r}, expected {expected!r}")

    def program(self, *words, code=0):
        ended = subprocess.run([str(self.bin / words[0]), *map(str, words[1:])], capture_output=True, text=True)
        if ended.returncode != code:
            raise RuntimeError(f"{words[0]} exited with {ended.returncode}: {ended.stderr}")
        return ended.stdout if code == 0 else ended.stderr

    def lesson(self, topic, *flags, name=None):
        trace = self.folder / f"{name or topic}.npz"
        if not trace.exists():
            self.program(f"lesson_{topic}", "--quiet", "--trace", trace, *flags)
        return trace

    def run(self, script, *arguments):
        """Runs a script when the page has everything that it waits for."""
        until = time.monotonic() + 30
        while not self.browser.run(READY) and time.monotonic() < until:
            time.sleep(0.01)
        return self.browser.run(script, *arguments)

    def run_until(self, script, accepted):
        """Runs a script until its answer is accepted, for what the browser does in its own time. Returns the last answer."""
        until = time.monotonic() + 20
        while (found := self.run(script)) not in accepted and time.monotonic() < until:
            time.sleep(0.02)
        return found

    def press(self, *keys):
        """Presses keys one after the other, each when the page is ready for it."""
        for key in keys:
            self.run("return 0")
            self.browser.press(key)

    def open(self, trace, *flags, width=1280, height=900, scheme="light", name=None):
        """Makes a page and opens it. Returns how many seconds the browser took."""
        self.page = name or trace.stem
        page = self.folder / f"{self.page}.html"
        self.program("attn", "view", trace, "-o", page, *flags)
        return self.show(page, width, height, scheme)

    def serve(self, trace, *flags, name=None):
        """Has attn view serve a page and opens it. Returns how many seconds both took."""
        self.page = name or f"{trace.stem}_served"
        start = time.monotonic()
        self.server = subprocess.Popen([str(self.bin / "attn"), "view", str(trace), "--no-browser", *map(str, flags)], stdout=subprocess.PIPE, text=True)
        line = self.server.stdout.readline()
        found = re.search(r" at (http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/)); Ctrl-C ends this$", line.strip())
        if not found:
            raise RuntimeError(f"attn view printed {line!r}")
        self.port, self.key = int(found[2]), found[3]
        self.show(found[1], 1280, 900, "light")
        return time.monotonic() - start

    def show(self, place, width, height, scheme):
        self.browser.show(width, height, scheme)
        start = time.monotonic()
        self.problems += [f"{self.page}: {line}" for line in self.browser.open(place, READY)]
        return time.monotonic() - start

    def close(self, asked=()):
        """What has to be true of any page whatever was done on it. A served one may have asked for these paths."""
        self.problems += [f"{self.page}: {line}" for line in self.browser.console()]
        requests = self.run("return performance.getEntriesByType('resource').map(entry => entry.name.split('?')[0])")
        allowed = {f"http://127.0.0.1:{self.port}{self.key}{path}" for path in asked} if self.server else set()
        self.expect(set(requests) <= allowed, f"requests: {set(requests) - allowed}")
        self.expect(not self.run("return 'hacked' in window"), "a script of the trace ran")
        self.expect_equal(self.run("return document.querySelectorAll('img, iframe, object, a[href^=javascript]').length"), 0, "elements that a trace brought in")
        if self.server:
            self.server.send_signal(signal.SIGINT)
            start = time.monotonic()
            self.expect_equal(self.server.wait(timeout=20), 0, "the exit code after Ctrl-C")
            self.expect(time.monotonic() - start < 4, f"took {time.monotonic() - start:.1f} s to end")
            self.server = None

    def screenshot(self, name):
        if self.screenshots:
            time.sleep(0.2)
            self.browser.screenshot(self.screenshots / f"{name}.png")

    def path(self):
        return self.run("return model.entries[place].path")

    def arithmetic(self):
        return self.run("const pre = document.querySelector('#arithmetic pre'); return pre ? pre.textContent : 'none'")

    def explained(self, trace, cell):
        return self.program("attn", "explain", trace, cell)

    def click_cell(self, row, column):
        """Clicks on a number with the mouse."""
        x, y = self.run(
            """const {element, gutter, header, cellWidth, cellHeight} = primary[0], [row, column] = arguments;
            element.scrollIntoView({block: 'nearest'});
            const box = element.getBoundingClientRect();
            return [box.left + gutter + (column + 0.5) * cellWidth - element.scrollLeft, box.top + header + (row + 0.5) * cellHeight - element.scrollTop];""",
            row, column,
        )  # fmt: skip
        self.browser.click(x, y)

    def click(self, selector, text=""):
        """Clicks on the middle of an element with the mouse."""
        place = self.run(
            """const found = [...document.querySelectorAll(arguments[0])].find(element => element.textContent.includes(arguments[1]));
            if (!found) return null;
            found.scrollIntoView({block: 'nearest'});
            const box = found.getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];""",
            selector, text,
        )  # fmt: skip
        self.expect(place, f"no {selector} with {text!r}")
        if place:
            self.browser.click(*place)

    # ------------------------------------------------------------------------------------------------ the arithmetic

    def compare(self, trace, cells_a_step):
        """The page's arithmetic of some cells of every step, and explain's."""
        draw = random.Random(self.page)
        counts = self.run("return model.entries.map(({path, step}) => [path, countOf(step.shape)])")
        cells = [(place, path, offset) for place, (path, count) in enumerate(counts) for offset in draw.sample(range(count), min(count, cells_a_step))]
        script = """const done = arguments[1];
            Promise.all(arguments[0].map(async ([place, , offset]) => (await model.explanationOf(model.entries[place].step, offset))?.text ?? null)).then(done)"""
        found = [text for i in range(0, len(cells), 500) for text in self.browser.wait_for(script, cells[i : i + 500])]
        expected = self.explain_many(trace, [(path, offset) for _, path, offset in cells])
        self.expect_equal(len(expected), len(cells), "explained cells")
        for (_, path, offset), text, right in zip(cells, found, expected):
            if text is not None:
                self.expect_equal(text, right, f"the arithmetic of {path}, number {offset}")
                self.compared += 1
        return found.count(None)

    def explain_many(self, trace, cells):
        asked = "".join(f"{path} {offset}\n" for path, offset in cells)
        ended = subprocess.run([str(self.explain_cells), str(trace)], input=asked, capture_output=True, text=True, check=True)
        return ended.stdout.split("\0")[:-1]

    def lessons(self):
        topics = sorted(path.name.removeprefix("lesson_") for path in self.bin.glob("lesson_[0-9][0-9]_*"))
        self.expect(len(topics) >= 18, f"only {len(topics)} lessons")
        for topic in topics:
            trace = self.lesson(topic)
            seconds = self.open(trace)
            self.expect(seconds < 15, f"took {seconds:.1f} s to open")
            recorded = json.loads(zipfile.ZipFile(trace).read("steps.json"))
            self.expect_equal(self.run("return model.entries.map(entry => entry.path)"), [each["path"] for each in recorded["steps"]], "steps")
            found = self.run("return model.aliases.map(({path, entry}) => ({path, target: entry.path}))")
            self.expect_equal(found, recorded["aliases"], "aliases")
            is_large = topic.startswith(("03", "11", "14", "25", "26", "28", "29", "30", "31"))
            missing = self.compare(trace, 2 if is_large else 8)
            self.expect_equal(missing > 0, is_large, f"{missing} numbers whose arithmetic the page does not carry")
            self.close()

    # ------------------------------------------------------------------------------------------------ by hand

    def walk(self):
        """Every step by keyboard, and the arithmetic of a number of each, as the page shows it."""
        trace = self.lesson("06_multi_head")
        self.open(trace, name="walk")
        paths = self.run("return model.entries.map(entry => entry.path)")
        for place, path in enumerate(paths):
            self.expect_equal(self.path(), path, f"step {place}")
            heading = self.run("return document.querySelector('main h2').firstChild.textContent")
            self.expect_equal(heading, path.split(".")[-1], "heading")
            self.press("Enter", "End", "Enter")
            cell = self.run("return primary[0].matrix.name(primary[0].row, primary[0].column).split(' is ')[0]")
            self.expect_equal(self.arithmetic(), self.explained(trace, cell), f"the arithmetic shown of {cell}")
            self.press("Escape", "j" if place % 2 else "ArrowDown")
        self.expect_equal(self.path(), paths[-1], "the last step")
        self.press("k", "ArrowUp")
        self.expect_equal(self.path(), paths[-3], "two steps back")
        self.press("/", *"packed softmax", "Enter")
        self.expect_equal(self.path(), "packed.weights", "the step that the filter leaves")
        self.press("?")
        self.expect(self.run("return document.getElementById('help').open"), "no keys shown")
        self.screenshot("keys")
        self.press("Escape")
        self.expect(not self.run("return document.getElementById('help').open"), "the keys stay")
        self.press("t")
        self.expect_equal(self.run("return document.documentElement.dataset.theme"), "dark", "theme after t")
        time.sleep(0.1)
        self.expect_equal(self.run("return primary[0].element.dataset.palette"), "dark", "the heatmap's colours")
        self.screenshot("dark")
        self.press("t")
        self.close()

    def numbers(self):
        """A clicked number, the cells that it came from, links between steps, zoom."""
        trace = self.lesson("02_all_queries")
        self.open(trace, name="numbers")
        self.click("#list button.step", "scores")
        self.expect_equal(self.path(), "scores", "the clicked step")
        self.click_cell(0, 1)
        self.expect_equal(self.arithmetic(), self.explained(trace, "scores[0,1]"), "the arithmetic of a clicked number")
        marked = self.run("return heatmaps.filter(({marks}) => marks).map(({marks, options}) => [options.label.split(':')[0], [...marks].sort((a, b) => a - b)])")
        self.expect_equal(marked, [["queries", [0, 1, 2]], ["keys", [3, 4, 5]]], "marked cells")
        self.expect(self.run("return location.hash").endswith("scores[0,1]"), "the address doesn't name the cell")
        self.screenshot("clicked")
        self.press("ArrowDown", "ArrowRight")
        self.expect_equal(self.arithmetic(), self.explained(trace, "scores[1,2]"), "the arithmetic of the next number")
        self.click(".equation button", "keys")
        self.expect_equal(self.path(), "keys", "the step that a name in a formula leads to")
        self.press("Enter", "-")
        small = self.run("return primary[0].cellWidth")
        self.press("+")
        self.expect(self.run("return primary[0].cellWidth") > small, "+ makes no larger cells")
        self.close()

    def heads_and_slices(self):
        trace = self.lesson("06_multi_head")
        self.open(trace, name="heads")
        self.click("#list button.step", "softmax")
        self.expect_equal(self.path(), "head.0.weights", "step")
        self.press("Enter", "Enter")
        self.click(".multiples button", "head 1")
        self.expect_equal(self.path(), "head.1.weights", "the other head's step")
        self.expect_equal(self.arithmetic(), self.explained(trace, "head.1.weights[0,0]"), "the other head's arithmetic")
        self.screenshot("heads")
        self.press("[")
        self.expect_equal(self.path(), "head.0.weights", "the head before")
        self.close()

        trace = self.lesson("05_masking")
        (self.folder / "tokens.txt").write_text("The\ncat\nsat\n<b>down</b>\n")
        self.open(trace, "--tokens", self.folder / "tokens.txt", name="slices")
        self.click("#list button.step", "masked")
        self.click_cell(2, 1)
        self.expect_equal(self.arithmetic(), self.explained(trace, "masked[0,2,1]"), "the arithmetic in a slice")
        self.press("}")
        self.expect_equal(self.arithmetic(), self.explained(trace, "masked[1,2,1]"), "the arithmetic in the next slice")
        self.expect("n: sat \u2192 m: cat" in self.run("return document.querySelector('.readout').textContent"), "no tokens beside the number")
        self.expect_equal(self.run("return primary[0].matrix.labels"), [["The", "cat", "sat", "<b>down</b>"]] * 2, "labels")
        self.screenshot("masked")
        self.click(".multiples button", "b = 0")
        self.expect_equal(self.arithmetic(), self.explained(trace, "masked[0,2,1]"), "the arithmetic in the slice before")
        self.run("const choice = document.querySelector('.slice select'); choice.value = '1'; choice.dispatchEvent(new Event('change'))")
        self.expect_equal(self.arithmetic(), self.explained(trace, "masked[1,2,1]"), "the arithmetic in the chosen slice")
        self.close()

    def difference(self):
        ours, theirs = self.lesson("06_multi_head"), self.lesson("06_multi_head", "--pitfall", "no_scale", name="no_scale")
        self.open(ours, "--diff", theirs, name="difference")
        self.expect_equal(self.run("return document.getElementById('verdict').textContent"), "part first at head.0.scaled", "verdict")
        self.click("#verdict button")
        self.click_cell(1, 1)
        sides = self.run("return [...document.querySelectorAll('main > .panes h3')].map(each => each.firstChild.textContent)")
        self.expect_equal(sides, [ours.name, theirs.name, "difference"], "panes")
        found = self.run("return primary.map(({matrix}) => matrix.value(1, 1))")
        self.expect_equal(found[2], found[1] - found[0], "the difference")
        texts = self.run("return [...document.querySelectorAll('#arithmetic pre')].map(pre => pre.textContent)")
        self.expect_equal(texts, [self.explained(trace, "head.0.scaled[1,1]") for trace in (ours, theirs)], "both arithmetics")
        self.screenshot("difference")
        self.close()
        self.open(ours, "--diff", ours, name="the_same")
        self.expect_equal(self.run("return document.getElementById('verdict').textContent"), "the same, number by number", "verdict")
        self.close()
        write_trace(self.folder / "left.npz", [step("x", (2,), [1, NAN]), step("only", (1,), [1]), step("y", (2,), [1, 2])])
        write_trace(self.folder / "right.npz", [step("new", (1,), [1]), step("x", (2,), [1, NAN]), step("y", (1, 2), [1, 2])])
        self.open(self.folder / "left.npz", "--diff", self.folder / "right.npz", name="uneven")
        kinds = self.run("return model.entries.map(({path, difference}) => `${path} ${difference.kind}`)")
        self.expect_equal(kinds, ["new extra", "x same", "only missing", "y shape"], "kinds of differences")
        for _ in kinds:
            self.press("Enter", "Enter", "Escape", "j")
        self.close()

    def aliases(self):
        """Other names stand in the list, are found, and lead to their step."""
        steps = [step("x", (2,), [1, 2]), step("norm.output", (2,), [3, 4], "x + 2"), step("next.y", (2,), [6, 8], "x * 2")]
        trace = write_trace(self.folder / "aliases.npz", steps, [("norm.x", "x"), ("next.x", "norm.output"), ("result", "next.y")])
        for opened in (self.open, self.serve):
            opened(trace)
            listed = self.run("return [...document.querySelectorAll('#list li > button')].map(each => each.textContent)")
            self.expect_equal(listed, ["x [2]", "norm", "x is x", "output [2]= x + 2", "next", "x is norm.output", "y [2]= x * 2", "result is next.y"], "the list")
            self.click("#list button.alias", "is norm.output")
            self.expect_equal(self.path(), "norm.output", "the step that an alias leads to")
            self.expect("also called next.x" in self.run("return document.getElementById('step').innerText"), "the step doesn't say its other name")
            self.press("/", *"result", "Enter")
            self.expect_equal(self.path(), "next.y", "the step that is found by its other name")
            self.run("location.hash = '#next.x[1]'")
            time.sleep(0.1)
            self.expect_equal(self.arithmetic(), self.explained(trace, "norm.output[1]"), "the arithmetic at an alias's address")
            self.close(("tensor", "explain"))

    def served(self):
        """The same page from attn view itself, and whom it refuses."""
        trace = self.lesson("06_multi_head")
        self.serve(trace)
        self.compare(trace, 4)
        self.press("k", "j", "Enter", "End", "Enter")
        self.click("#list button.step", "softmax")
        self.click_cell(1, 0)
        self.expect_equal(self.arithmetic(), self.explained(trace, "head.0.weights[1,0]"), "the arithmetic of a clicked number")
        self.screenshot("served")
        host = f"Host: 127.0.0.1:{self.port}\r\n"
        for line, head, status in (
            ("GET ", host, 200), ("GET ", f"Host: localhost:{self.port}\r\n", 200), ("GET tensor?run=0&step=0", host, 200),
            ("GET ", f"Host: attacker.example:{self.port}\r\n", 403), ("GET tensor?run=0&step=0", "Host: attacker.example\r\n", 403),
            ("GET ", "", 403), ("GET ", "Host: 127.0.0.1\r\n", 403), ("GET ", host + "Host: attacker.example\r\n", 403),
            ("POST ", host, 405), ("HEAD ", host, 405), ("OPTIONS tensor", host, 405), ("DELETE ", host, 405),
            ("GET etc/passwd", host, 404), ("GET ../../etc/passwd", host, 404), ("GET explain", host, 400),
            ("GET tensor?run=0&step=9999", host, 400), ("GET tensor?run=1&step=0", host, 400), ("GET tensor?run=0&step=-1", host, 400),
            ("GET explain?run=0&step=0&offset=99999", host, 400), ("GET explain?run=0&step=0&offset=0x1", host, 400),
        ):  # fmt: skip
            line = line.replace(" ", f" {self.key}")
            found = self.ask(f"{line} HTTP/1.1\r\n{head}Connection: close\r\n\r\n")
            self.expect(found.startswith(f"HTTP/1.1 {status} "), f"{line} with {head!r} is answered {found[:60]!r}, expected {status}")
            if status == 200:
                for name in ("Content-Security-Policy: default-src 'none'", "Cross-Origin-Resource-Policy: same-origin", "X-Content-Type-Options: nosniff"):
                    self.expect(name in found, f"{line} is answered without {name}")
                self.expect("Access-Control" not in found, f"{line} lets other sites read")
        self.expect_equal(self.run("return model.entries.length") > 0, True, "the page after all that")
        port = self.port
        self.close(("tensor", "explain"))
        error = self.program("attn", "view", trace, "--no-browser", "--port", self.taken(), code=2)
        self.expect("is taken" in error, f"the error is {error!r}")
        again = self.serve(trace, "--port", port)
        self.expect_equal(self.port, port, "the port that was asked for")
        self.expect(again < 5, f"took {again:.1f} s to open again")
        self.click("#list button.step", "scores")
        self.run("return 0")
        self.server.terminate()
        self.expect_equal(self.server.wait(timeout=20), 0, "the exit code after SIGTERM")
        self.click_cell(0, 0)
        self.expect("has ended" in self.run("return document.getElementById('arithmetic').innerText"), "the page doesn't say that the server has ended")
        self.server, _ = None, self.browser.console()

        theirs = self.lesson("06_multi_head", "--pitfall", "no_scale", name="no_scale")
        self.serve(trace, "--diff", theirs, name="difference_served")
        self.expect_equal(self.run("return document.getElementById('verdict').textContent"), "part first at head.0.scaled", "verdict")
        self.click("#verdict button")
        self.click_cell(1, 1)
        texts = self.run("return [...document.querySelectorAll('#arithmetic pre')].map(pre => pre.textContent)")
        self.expect_equal(texts, [self.explained(each, "head.0.scaled[1,1]") for each in (trace, theirs)], "both arithmetics")
        self.close(("tensor", "explain"))

    def ask(self, request):
        """What the server answers to these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(request.encode())
            answer = b""
            while chunk := connection.recv(65536):
                answer += chunk
        return answer.decode("latin-1")

    def taken(self):
        """A port that somebody listens at."""
        self.listener = socket.create_server(("127.0.0.1", 0))
        return self.listener.getsockname()[1]

    def scrollbars(self):
        """Where scrollbars take room, no heatmap that fits has one, and one that is too wide or too high has its own only."""
        wide = [step("small", (3, 4), range(12), axes="nm"), step("row", (1, 40), range(40)), step("wide", (8, 400), [0.5] * 3200), step("high", (400, 8), [0.5] * 3200), step("both", (3000, 3000), bytes(72000000))]
        usual, self.browser = self.browser, Browser(classic_scrollbars=True)
        try:
            for trace in (self.lesson("05_masking"), self.lesson("10_encoder_layer"), write_trace(self.folder / "wide.npz", wide)):
                self.open(trace, name=f"scrollbars_{trace.stem}")
                self.expect(self.run("return scrollbarSize()") > 5, "scrollbars take no room in this browser")
                for _ in range(min(60, self.run("return model.entries.length"))):
                    self.press("Enter", "Enter")
                    for label, *sizes in self.run("""return heatmaps.map(({element: each, room}) => [each.ariaLabel, each.scrollWidth - each.clientWidth,
                            each.scrollHeight - each.clientHeight, each.offsetWidth - each.clientWidth, each.offsetHeight - each.clientHeight])"""):
                        hidden_x, hidden_y, bar_y, bar_x = sizes
                        # What is hidden by less than a scrollbar is hidden by one.
                        self.expect(hidden_x == 0 or hidden_x > 20, f"{label}: {hidden_x} pixels of the width are hidden")
                        self.expect(hidden_y == 0 or hidden_y > 20, f"{label}: {hidden_y} pixels of the height are hidden")
                        self.expect((bar_x > 0) == (hidden_x > 0) and (bar_y > 0) == (hidden_y > 0), f"{label}: scrollbars {sizes}")
                    self.press("Escape", "j")
                self.screenshot(f"scrollbars-{trace.stem}")
                self.close()
        finally:
            self.browser.__exit__()
            self.browser = usual

    def phone(self):
        """390 pixels, light and dark by the system: nothing is wider than the page, on any step."""
        for scheme in ("light", "dark"):
            trace = self.lesson("05_masking")
            self.open(trace, width=390, height=844, scheme=scheme, name=f"phone_{scheme}")
            self.expect_equal(self.run("return document.documentElement.dataset.theme"), scheme, "theme")
            for _ in range(self.run("return model.entries.length")):
                self.press("Enter", "Enter", "Escape", "j")
                wide = self.run("return [document.documentElement, document.getElementById('step')].map(each => each.scrollWidth - each.clientWidth)")
                self.expect(max(wide) <= 0, f"{self.path()} is wider than the page")
            self.screenshot(f"phone-{scheme}")
            self.click("#menu")
            self.expect(self.run("return document.getElementById('steps').classList.contains('open')"), "the list stays shut")
            self.screenshot(f"phone-list-{scheme}")
            self.click("#list button.step", "lengths")
            self.expect_equal(self.path(), "lengths", "the tapped step")
            self.close()

    # ------------------------------------------------------------------------------------------------ other traces

    def odd(self):
        trace = write_trace(self.folder / "odd.npz", odd_steps())
        self.open(trace)
        self.compare(trace, 48)
        for _ in odd_steps():
            self.press("Enter", "Enter", "ArrowRight", "+", "-", "}", "Escape", "j")
        self.close()
        for name, steps in [("no_steps", []), ("one_step", [step("x", (), [1])])]:
            self.open(write_trace(self.folder / f"{name}.npz", steps))
            self.press("j", "Enter", "Enter", "t", "t")
            self.close()
        many = [step("x", (4, 4), range(16))] + [step(f"layers.{i}.y", (4, 4), range(16), "x + 0") for i in range(1000)]
        self.open(write_trace(self.folder / "many.npz", many))
        self.press(*["j"] * 20)
        self.expect_equal(self.path(), "layers.19.y", "the twentieth step")
        self.close()

    def hostile(self):
        texts = {"formula": HOSTILE, "axes": [HOSTILE, "m"], "module": HOSTILE, "options": {HOSTILE: HOSTILE, "__proto__": "1"}}
        words = step("x", (2, 2), range(4), **texts), step("y", (2, 2), range(4), "__proto__ + constructor", ["n", "m"])
        (self.folder / "labels.txt").write_text(f"{HOSTILE}\n</style>\n")
        trace = write_trace(self.folder / "<img src=x onerror=window.hacked=1>.npz", words)
        self.open(trace, "--tokens", self.folder / "labels.txt", name="hostile")
        text = self.run("return document.body.innerText")
        for part in ("<img src=x", "</script>", "{{trace}}"):
            self.expect(part in text, f"{part} is not shown as text")
        self.press("Enter", "Enter", "ArrowDown", "Escape", "j", "Enter", "Enter")
        self.screenshot("hostile")
        self.close()
        # Whatever got in, the policy would not run it.
        self.run("const script = document.createElement('script'); script.textContent = 'window.hacked = 1'; document.body.append(script)")
        self.expect("Content Security Policy" in " ".join(self.browser.console()), "the policy lets a foreign script pass")
        self.close()
        for name in ("<img src=x onerror=alert(1)>", "a/b", "__proto__.<b>"):
            description, npy = step("x", (1,), [1])
            bad = write_trace(self.folder / "bad.npz", [({**description, "path": name}, npy)])
            error = self.program("attn", "view", bad, "-o", self.folder / "bad.html", code=2)
            self.expect(error.count("\n") == 1 and "bad.npz" in error, f"the error is {error!r}")
            self.expect(not (self.folder / "bad.html").exists(), "a page of an unreadable trace")

    def large(self):
        """64 MiB of numbers, among them one matrix of 32 MiB."""
        rng = random.Random(5)
        block = array.array("d", [rng.gauss(0, 1) for _ in range(1 << 16)])
        x = block.tobytes() * 64
        y = array.array("d", [value * 2 for value in block]).tobytes() * 64
        trace = write_trace(self.folder / "large.npz", [step("x", (1024, 4096), x, axes="nm"), step("y", (4096 * 1024,), y, "reshape(x, 4194304) * 2", axes="m")])
        start = time.monotonic()
        seconds = self.open(trace)
        made = time.monotonic() - start - seconds
        self.expect(seconds < 8, f"takes {seconds:.1f} s to open")
        start = time.monotonic()
        self.click_cell(7, 100)
        self.press("PageDown", "End", "Enter", "Escape", "j", "Enter", "End", "Enter")
        command = self.run("return document.querySelector('#arithmetic code').textContent")
        self.expect_equal(command, "attn explain large.npz 'y[4194303]'", "the command for a number whose arithmetic the page does not carry")
        self.click("#arithmetic button", "Copy")
        button = self.run_until("return document.querySelector('#arithmetic button.plain').textContent", ("Copied", "Selected"))
        self.expect(button != "Copy", "the button says nothing after a click")
        if button == "Selected":
            self.expect_equal(self.run("return getSelection().toString()"), command, "what is selected to be copied by hand")
        self.screenshot("large")
        self.close()
        print(f"check_view: 64 MiB: {made:.1f} s to make the page, {seconds:.1f} s to open it, {time.monotonic() - start:.1f} s for some steps on it")
        seconds = self.serve(trace)
        self.expect(seconds < 5, f"takes {seconds:.1f} s to serve and open")
        self.press("j", "Enter", "End", "Enter")
        self.expect_equal(self.arithmetic(), self.explained(trace, "y[4194303]"), "the arithmetic of the last number")
        self.close(("tensor", "explain"))
        print(f"check_view: 64 MiB: {seconds:.1f} s to serve and open it")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("bin", type=Path, help="the folder with attn and the lessons' programs")
    parser.add_argument("--explain", type=Path, help="the program explain_cells (BIN/explain_cells)")
    parser.add_argument("--only", nargs="+", metavar="PART", help="these parts: lessons, walk, served, …")
    parser.add_argument("--screenshots", type=Path, help="a folder for pictures")
    arguments = parser.parse_args()
    if not Browser.is_installed():
        print("check_view: SKIPPED: install chromium and chromium-driver")
        return 77
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="attn-view-") as folder, Browser() as browser:
        explain = arguments.explain or arguments.bin / "explain_cells"
        check = Check(browser, arguments.bin.resolve(), explain.resolve(), Path(folder), arguments.screenshots)
        parts = (check.lessons, check.walk, check.numbers, check.heads_and_slices, check.difference, check.aliases, check.served, check.phone, check.scrollbars,
                 check.odd, check.hostile, check.large)  # fmt: skip
        for part in parts if not arguments.only else [getattr(check, name) for name in arguments.only]:
            start = time.monotonic()
            try:
                part()
            except RuntimeError as error:
                check.problems.append(f"{check.page}: {error}")
            print(f"check_view: {part.__name__.replace('_', ' ')}: {time.monotonic() - start:.1f} s", flush=True)
    for problem in check.problems[:60]:
        print(f"check_view: {problem}", file=sys.stderr)
    if check.problems:
        print(f"check_view: {len(check.problems)} mistakes", file=sys.stderr)
        return 1
    print(f"check_view: {check.compared} numbers' arithmetic is what attn explain prints; all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
