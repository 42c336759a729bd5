#!/usr/bin/env python3
"""What readers and browsers do to the site's scripts, in node: page_test.py

Storage that is denied, pastes of a hundred thousand lines, names that all objects have. Exit code 77 where there is no node.
"""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

TEST = r"""
const { readFileSync } = require("node:fs"), vm = require("node:vm"), assert = require("node:assert");
const root = process.argv[2], source = (...names) => names.map(name => readFileSync(`${root}/${name}`, "utf8")).join("\n");

// ---- numbers that are typed or pasted
const page = vm.createContext({ attnWords: {} });
vm.runInContext(source("docs/lab/page/numbers.js", "docs/lab/page/read.js") + "\nthis.read = { readNumber, readArray, numberText, commonFormat };", page);
const { readNumber, readArray, numberText, commonFormat } = page.read;
const message = work => { try { return `gave ${JSON.stringify(work())}`; } catch (error) { return error.message; } };
for (const word of ["constructor", "__proto__", "toString", "hasOwnProperty", "valueOf", ""])
    assert.match(message(() => readNumber(word, "real")), /is no number/, word);
assert.equal(readNumber(" −2e-3 ", "real"), -0.002);
assert.deepEqual([readNumber("-inf"), readNumber("true"), readNumber("NaN")], [-Infinity, 1, NaN]);
assert.match(message(() => readNumber("x".repeat(1e6), "real")), /^.{1,100}$/);
assert.equal(numberText(0.5, "constructor", "real") === undefined, false);
const plain = array => JSON.parse(JSON.stringify(array));
for (const text of ["array([[1, 2], [3, 4]])", "np.array([[1, 2], [3, 4]], dtype=float32)", " numpy.array (\n[[1 2]\n [3 4]],\n dtype=np.int64)", "[[1, 2], [3, 4]]", "1 2\n3 4", "1\t2\n3\t4\n", "1,2\n\n3,4"])
    assert.deepEqual(plain(readArray(text, "real")), { shape: [2, 2], values: [1, 2, 3, 4] }, text);
assert.match(message(() => readArray("array([1, 2]) + 1", "real")), /more after the last bracket/);
const many = "\n".repeat(100_000);
for (const text of [many, `1${many}2`, `[1,${many}2]`, `array([1,${many}2]${many})`, `array(${many}`, " ".repeat(100_000) + "x", "[".repeat(100_000), "[".repeat(100_000) + "]".repeat(100_000), `1${" ".repeat(100_000)}2`, ",".repeat(100_000)]) {
    const begin = process.cpuUsage().user;
    const said = message(() => readArray(text, "real"));
    const milliseconds = (process.cpuUsage().user - begin) / 1000;
    assert.ok(milliseconds < 2000, `${JSON.stringify(text.slice(0, 20))} takes ${milliseconds} ms`);
    assert.ok(said.length < 200 && !/call stack/.test(said), said);
}
assert.equal(commonFormat(Array.from({ length: 1_000_000 }, (_, i) => i + 0.5)), ".4f"); // more numbers than a call has arguments

// ---- storage that is denied
function visit(storage) {
    const heard = {}, kept = new Set();
    const listens = { addEventListener: (name, what) => (heard[name] = [...heard[name] ?? [], what]) };
    const element = { addEventListener() {}, dispatchEvent() {}, setAttribute() {}, append() {}, querySelector: () => null, querySelectorAll: () => [], contains: () => false };
    const document = { ...element, ...listens, body: element, createElement: () => ({ ...element }), documentElement: { classList: { toggle: (name, is) => (is ? kept.add(name) : kept.delete(name)) } }, getElementById: () => element };
    const window = { ...listens, matchMedia: () => ({ ...listens, matches: false }) };
    const context = { document, window, location: { pathname: "/index.html", hash: "" }, CSS: { escape: text => text }, CustomEvent: class {}, ResizeObserver: class { observe() {} }, MutationObserver: class { observe() {} }, getComputedStyle: () => ({ getPropertyValue: () => "" }) };
    Object.defineProperty(context, "localStorage", { get: storage });
    vm.runInContext(source("docs/theme/attn.js") + "\nthis.chosen = chosen;", vm.createContext(context));
    for (const name of ["DOMContentLoaded", "load"]) heard[name].forEach(what => what());
    context.chosen.set("attn-language", "NumPy");
    assert.equal(context.chosen.get("attn-language"), "NumPy");
    return kept;
}
const denied = () => { throw new Error("SecurityError: the operation is insecure"); };
const full = () => ({ getItem: () => null, removeItem: denied, setItem: denied });
const dark = () => ({ getItem: name => (name === "attn-scheme" ? "dark" : null), removeItem() {}, setItem() {} });
assert.deepEqual([...visit(denied)], []);
assert.deepEqual([...visit(full)], []);
assert.deepEqual([...visit(() => null)], []); // where there is none
assert.deepEqual([...visit(dark)], ["dark-mode"]);

// ---- a text field of so many lines
const field = { value: many };
const grow = /const grow = (.*);/.exec(source("docs/lab/page/exercise.js"))[1];
vm.runInNewContext(grow, { text: field })();
assert.ok(field.rows <= 40, `a field of ${field.rows} rows`);
console.log("the site's scripts: typed numbers, pastes and denied storage end with a message, or without harm");
"""


def main():
    node = shutil.which("node")
    if not node:
        print("page_test.py: skipped, there is no node")
        return 77
    return subprocess.run([node, "-", ROOT], input=TEST, text=True, timeout=120, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
