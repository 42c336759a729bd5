#!/usr/bin/env python3
"""Uses the pages that compute as a reader would, in headless Chromium, and says what is broken.

    tests/docs/check_lab.py [BUILD/docs] [--screenshots FOLDER]

Each lesson that computes: the example's run gives, number by number, the text that the generator wrote; an edited cell changes
numbers, a letter is refused, reset gives the page back. A number opens its arithmetic; a mistake marks what it changes; a link
carries the state; it works from the disk, too. Exercises are solved, and got wrong, in the page. What the reader moves follows
the mouse, the keyboard and a finger.

Exit codes: 0 all is well; 1 something is broken; 77 there is no Chromium, or the site was built without the lab.
"""

import argparse
import functools
import http.server
import json
import re
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "exercises"))
from browser import ILLEGIBLE, TOO_SMALL, Browser
from ways import WAYS

READY = "return document.readyState === 'complete' && !document.querySelector('.MathJax_Preview:not(:empty)')"
# One edited cell to all numbers: a tenth of a second, and more for a lesson that computes more. Machines of tests are slow.
FIRST_RESULT, EDIT = 2.0, 0.1
SLOW_MACHINE = 4
FIRST_LOAD = 2**20  # bytes, as they are on the disk, before the lab
ROOT = Path(__file__).resolve().parents[2]

class Quiet(http.server.SimpleHTTPRequestHandler):
    answers = {"/favicon.ico": 204}

    def log_message(self, *_):
        pass

    def end_headers(self):
        self.send_header("Cache-Control", "no-cache")  # a file that was built long ago would be taken for one that is not asked for again
        super().end_headers()

    def do_GET(self):
        if self.path in self.answers:
            self.send_response(self.answers[self.path])
            self.end_headers()
        else:
            super().do_GET()


class Reader:
    def __init__(self, browser, site, address):
        self.browser, self.site, self.address = browser, site, address
        self.problems, self.place, self.numbers = [], "", 0

    def expect(self, holds, problem):
        if not holds:
            self.problems.append(f"{self.place}: {problem}")
        return holds

    def open(self, page, from_disk=False):
        self.place = page
        for complaint in self.browser.open(self.site / page if from_disk else f"{self.address}/{page}", READY):
            self.expect(False, complaint)

    def run(self, script, *arguments):
        return self.browser.run(script, *arguments)

    def wait(self, script, problem):
        return self.expect(self.browser.wait_until(script), f"{problem}, within 30 seconds")

    def badge(self):
        return self.run("return document.querySelector('.lab-badge').textContent")

    def trouble(self):
        return self.run("return document.querySelector('.lab-trouble').textContent")

    def ready(self):
        return self.run("return document.querySelector('.lab').dataset.ready ?? null")

    def until_computed(self, before, problem):
        return self.wait(f"const now = document.querySelector('.lab').dataset.ready; return now !== undefined && now !== {json.dumps(before)}", problem)

    def timed(self, do, problem):
        before, began = self.ready(), time.monotonic()
        do()
        self.until_computed(before, problem)
        return time.monotonic() - began


TEXTS = "return [...document.querySelectorAll('.contents [data-live]:not(svg *)')].map(e => [e.dataset.live, e.innerText.replace(/\\s+/g, ' ').trim()])"


# Sentences with a number that is another one now, and no word of that they were written for the page's.
UNMARKED = """
    return [...document.querySelectorAll('.contents :is(p, li, dd) span.from-run[data-live]')].filter(e => !e.closest('table, .moving, .lab, .lab-exercise'))
        .filter(e => e.dataset.before !== undefined && e.dataset.before !== e.textContent && !e.closest('.of-page')).map(e => e.closest('p, li, dd').textContent.slice(0, 80))"""
REMEMBER = "document.querySelectorAll('.contents span.from-run').forEach(e => { e.dataset.before = e.textContent; })"

# Each number that looks as if it opened does so on a tap, and with Enter; the answer names it.
OPENS = """
const done = arguments[0], box = document.querySelector('.explained'), failed = [];
const wait = async isSo => { for (let i = 0; i < 2000 && !isSo(); i++) await new Promise(go => setTimeout(go, 2)); return isSo(); };
const isOpen = () => !box.hidden && !box.textContent.includes('loading') && box.textContent.length > 12;
(async () => {
    const numbers = [...document.querySelectorAll('.contents *')].filter(e => getComputedStyle(e).textDecorationStyle === 'dotted' && e.closest('a, pre, .fragment') === null && e.textContent.trim() !== '');
    for (const number of numbers) {
        for (const open of [() => number.click(), () => number.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))]) {
            open();
            if (!await wait(isOpen) || number.tabIndex !== 0) failed.push(`${number.textContent} (${number.dataset.live ?? number.title}): ${box.textContent.slice(0, 80)}`);
            document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}));
            if (!box.hidden) failed.push(`${number.textContent}: stays open`);
        }
    }
    done([numbers.length, failed]);
})();
"""


def check_numbers(reader):
    count, failed = reader.browser.wait_for(OPENS)
    reader.numbers += count
    reader.expect(not failed, f"{len(failed)} of {count} numbers with a dotted line do not open: {failed[:3]}")


def check_lesson(reader, page, lesson):
    reader.open(page)
    loaded = reader.run("return [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')].filter(e => !e.name.endsWith('/lab.js')).reduce((sum, e) => sum + e.decodedBodySize, 0)")
    reader.expect(0 < loaded <= FIRST_LOAD, f"it loads {loaded:,} bytes before the lab, {FIRST_LOAD:,} at most")
    before = reader.run(TEXTS)
    took = reader.timed(lambda: reader.run("document.querySelector('.lab-open').click()"), "the first run does not come")
    reader.expect("all verified" in reader.badge() and reader.trouble() == "", f"the example: {reader.badge()} {reader.trouble()}")
    after = reader.run(TEXTS)
    differing = [(a, b) for a, b in zip(before, after) if a != b]
    reader.expect(not differing, f"the example's numbers, computed here, read otherwise: {differing[:2]}")
    missing = reader.run("return [...document.querySelectorAll('.not-computed')].map(e => e.dataset.live)")
    reader.expect(not missing, f"{missing[:5]} are called not computed")
    edit = None
    reader.run(REMEMBER)
    names = reader.run("return [...document.querySelectorAll('.lab-names button')].map(b => b.dataset.name)")
    cell = reader.run("return document.querySelector('td.given:not([data-cell*=length])')?.dataset.cell ?? null")
    if cell:
        set_cell = "const c = document.querySelector(`td.given[data-cell=\"${arguments[0]}\"]`); c.focus(); c.textContent = arguments[1]; c.dispatchEvent(new Event('input', {bubbles: true}))"
        edit = reader.timed(lambda: reader.run(set_cell, cell, "1.5"), "an edited cell changes nothing")
        changed = [b[0] for a, b in zip(after, reader.run(TEXTS)) if a != b]
        reader.expect(changed, f"nothing follows {cell}")
        reader.expect("all verified" in reader.badge(), f"{cell} edited: {reader.badge()} {reader.trouble()}")
        unmarked = reader.run(UNMARKED)
        reader.expect(not unmarked, f"with other numbers these sentences say nothing: {unmarked[:3]}")
        reader.run(set_cell, cell, "x")
        reader.expect(reader.trouble() == f'{cell}: "x" is no number', f"a letter: {reader.trouble()}")
        reset = reader.timed(lambda: reader.run("document.querySelector('.lab-reset').click()"), "reset does nothing")
        edit = min(edit, reset)  # both compute the same; a machine that does other things, too, delays one of them
        reader.expect(reader.run(TEXTS) == after, "the page's numbers do not come back")
        reader.expect(reader.run("return document.querySelector('.contents .of-page') === null"), "a sentence says that it was written for other numbers")
    check_numbers(reader)
    return took, edit, len(before), names


def check_bar(reader):
    """Lesson 1 by hand."""
    reader.open("lesson_01_single_query.html")
    reader.timed(lambda: reader.run("document.querySelector('.contents span.from-run.one[data-live^=weights]').click()"), "a number opens nothing")
    reader.wait("return !document.querySelector('.explained').hidden", "no arithmetic")
    reader.expect("softmax(scores)" in reader.run("return document.querySelector('.explained').textContent"), "no arithmetic of a weight")
    reader.run("document.querySelector('.explained pre button').click()")
    reader.wait("return document.querySelector('.explained').textContent.includes('keys @ query')", "a name in the arithmetic opens nothing")
    reader.timed(lambda: reader.run("[...document.querySelectorAll('.explained button')].find(b => b.textContent.startsWith('what if')).click()"), "what if a step were zero changes nothing")
    reader.expect(reader.run("const b = document.querySelector('.lab-reset').getBoundingClientRect(); return b.height > 0 && b.top >= 0 && b.bottom <= innerHeight"), "no way back is in sight")
    marked = reader.run("return [...document.querySelectorAll('.contents .of-page')].map(e => e.textContent)")
    reader.expect(any("exceed that of token 0 by" in text for text in marked) and not any("About 20 minutes" in text for text in marked), f"sentences of the page's numbers are {marked}")
    reader.timed(lambda: reader.run("document.querySelector('.lab-reset').click()"), "nothing leads back to the page's numbers")
    reader.run("document.querySelector('.lab-open').click()")
    choose = "const s = [...document.querySelectorAll('.lab select')].find(s => [...s.options].some(o => o.value === arguments[0])); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    reader.timed(lambda: reader.run(choose, "softmax_unnormalized"), "a mistake changes nothing")
    reader.expect("does not follow from its formula" in reader.badge(), f"a mistake: {reader.badge()}")
    marked = reader.run("return [...document.querySelectorAll('.contents .changed')].map(e => e.dataset.live)")
    reader.expect("weights:.8f" in marked and not any(live.startswith("scores") for live in marked), f"marked are {marked}")
    reader.expect("no longer so" in reader.run("return document.querySelector('.lab-claims').textContent"), "no claim is said to hold no longer")
    reader.browser.show(390, 844, "light")
    covered = reader.run("document.querySelector('#l1_output').scrollIntoView(); return document.querySelector('.lab').getBoundingClientRect().bottom")
    reader.expect(covered <= 0, f"on a phone it covers {covered} pixels of what one reads")
    reader.browser.show(1280, 900, "light")
    link = reader.run("return location.href")
    reader.timed(lambda: reader.run("document.querySelector('.lab-reset').click()"), "reset does nothing")
    reader.browser.call("POST", "/url", {"url": "about:blank"})
    reader.browser.open(link, READY)
    reader.until_computed(None, "a link carries no state")
    reader.expect("does not follow from its formula" in reader.badge(), f"from a link: {reader.badge()}")
    reader.timed(lambda: reader.run("document.querySelector('.lab-reset').click()"), "reset does nothing")
    paste = """
        [...document.querySelectorAll('.lab-names button')].find(b => b.dataset.name === arguments[0]).click();
        const t = document.querySelector('.lab-editor textarea'); t.value = arguments[1]; t.dispatchEvent(new Event('input'))"""
    reader.timed(lambda: reader.run(paste, "inputs", "array([[1., 0., 2., 0.],\n       [0., 1., 0., 1.]])"), "two pasted rows compute nothing")
    reader.expect("all verified" in reader.badge() and reader.run("return document.querySelector('td[data-cell=\"weights[1]\"]') !== null && document.querySelector('td[data-cell=\"weights[2]\"]') === null"), "two tokens are not two weights")
    for text, message in {
        "[[1, 2], [3]]": "inputs: the rows have different lengths",
        "[1, nope]": 'inputs: "nope" is no number',
        "1 2 3\n4 5": "inputs: the rows have 3 and 2 numbers, expected as many in each",
        "[[[1]]]": "inputs: has the shape (1, 1, 1), expected 2 axes, (n, d_model)",
        "[[1, nan, 2, 3]]": "inputs[0, 1] is nan, expected finite numbers",
        "[[1, 2, 3]]": "inputs (1, 3) and key_weights (4, 3) must agree in d_model: 3 and 4",
    }.items():
        reader.run(paste, "inputs", text)
        reader.wait(f"return document.querySelector('.lab-trouble').textContent === {json.dumps(message)}", f"{text!r}: {reader.trouble()!r}, expected {message!r}")
    reader.run("document.querySelector('.lab-names button[data-name=inputs]').click(); const text = document.querySelector('.lab-editor textarea');"
               "text.value = '[1, nope]'; text.dispatchEvent(new Event('input'));")  # fmt: skip
    reader.wait("return Boolean(document.querySelector('.lab-editor textarea + .lab-trouble')?.textContent.includes('nope'))", "what is wrong does not stand below the field")
    reader.run("[...document.querySelectorAll('.lab-editor button')].find(one => one.textContent === 'those of the page').click()")
    reader.wait("return document.querySelector('.lab-trouble')?.textContent === ''", "what is wrong stays, or has no place any more, after other numbers")
    reader.open("lesson_01_single_query.html", from_disk=True)
    reader.timed(lambda: reader.run("document.querySelector('.lab-open').click()"), "from the disk nothing is computed")
    reader.expect("all verified" in reader.badge(), f"from the disk: {reader.badge()}")


def check_files(reader):
    """A file that a lesson reads is loaded from the disk, too; where it can't be, the page says so, and computes when it can."""
    page, file = "lesson_03_scale_and_softmax.html", "lab/files/03_scale_and_softmax/inputs.npz.js"
    opened = "document.querySelector('.lab-open').click()"
    reader.open(page, from_disk=True)
    reader.timed(lambda: reader.run(opened), "from the disk nothing is computed")
    reader.expect("all verified" in reader.badge(), f"from the disk: {reader.badge()}")
    Quiet.answers[f"/{file}"] = 404
    reader.open(page)
    reader.run(opened)
    said = json.dumps(f"{file} can't be read")
    reader.wait(f"return document.querySelector('.lab-trouble').textContent === {said}", f"{file} is not there, and nobody says so")
    del Quiet.answers[f"/{file}"]
    reader.browser.console()  # it complained of the file
    reader.timed(lambda: reader.run(f"{opened}; {opened}"), "nothing is computed when the file is there")  # closed, and open
    reader.expect("all verified" in reader.badge(), f"when the file is there: {reader.badge()}")


SECTION = "const s = document.querySelector(`.lab-exercise section[data-name=\"${arguments[0]}\"]`);"


def verdict_on(reader, function, lines):
    """What the page says of lines in a function's box."""
    reader.run(f"{SECTION} s.querySelector('.verdict').textContent = ''; const t = s.querySelector('textarea'); t.value = arguments[1]; t.dispatchEvent(new Event('input')); s.querySelector('textarea + p button').click()", function, lines)
    reader.wait(f"{SECTION.replace('arguments[0]', json.dumps(function))} return s.querySelector('.verdict').textContent !== ''", f"{function}: no verdict")
    return reader.run(f"{SECTION} return [s.className, s.querySelector('.verdict').innerText]", function)


def open_exercise(reader, lesson):
    reader.open(f"lesson_{lesson}.html")
    reader.run("localStorage.clear()")
    reader.open(f"lesson_{lesson}.html")
    reader.run("document.querySelector('.lab-exercise button').click()")
    reader.wait("return document.querySelector('.lab-exercise section') !== null", "no exercise comes")
    return reader.run("return [...document.querySelectorAll('.lab-exercise section')].map(s => s.dataset.name)")


def check_exercises(reader):
    """Each lesson's own solution is right in its page, as it stands in the file, and what is wrong is named."""
    rows = []
    for lesson, functions in WAYS.items():
        solution = (ROOT / "tests" / "exercises" / f"{lesson}.py").read_text(encoding="utf-8")
        names = open_exercise(reader, lesson)
        reader.expect(names == list(functions), f"the page asks for {names}")
        count = 0
        for name in names:
            state, said = verdict_on(reader, name, solution)
            reader.expect(state == "right", f"{name}: its own solution is {said[:300]!r}")
        for name in names: # the lines that the last hint shows
            lines = reader.run("return document.querySelector(`pre.solved[data-function=\"${arguments[0]}\"]`)?.textContent ?? ''", name)
            state, said = verdict_on(reader, name, lines)
            reader.expect(state == "right", f"{name}: the lines of the last hint, {lines!r}, are {said[:300]!r}")
        reader.expect(reader.run("return localStorage.getItem(`attn-done-${arguments[0]}`)", lesson[:2]) == "1", "a lesson that is done has no tick")
        for name, (right, wrong) in functions.items():
            state, said = verdict_on(reader, name, right)
            reader.expect(state == "right", f"{name} = {right}: found {said[:300]!r}")
            for lines, word in wrong.items():
                word = word[0] if isinstance(word, tuple) else word
                state, said = verdict_on(reader, name, lines)
                count += reader.expect(state == "wrong" and word in said, f"{name} = {lines}: expected {word!r}, found {said[:300]!r}")
                reader.expect("The arithmetic" not in said and "The formulas" not in said, f"{name} = {lines}: the answer comes at once")
        rows.append(f"{lesson}: {len(names)} solved, {count} wrong ways named")
    print(*rows, sep="\n", flush=True)


def check_hints(reader):
    """What is wrong, then which step, then the line; what was written is there again at the next visit."""
    open_exercise(reader, "01_single_query")
    state, said = verdict_on(reader, "my_weights", "exp(scores)")
    reader.expect(said.startswith("Softmax's exponentials") or "softmax_unnormalized" in said.split("\n")[0], f"the mistake does not come first: {said[:200]!r}")
    section = SECTION.replace("arguments[0]", "'my_weights'")
    for title, new in (("Which step?", "The arithmetic"), ("Show the line", "return exponentials / exponentials.sum()")):
        button = f"{section} const b = s.querySelector('.verdict button');"
        reader.expect(reader.run(f"{button} return b.textContent") == title, f"no button says {title}")
        reader.run(f"{button} b.click()")
        said = reader.run(f"{section} return s.querySelector('.verdict').innerText")
        reader.expect(new in said, f"{title}: {new} does not come: {said[:300]!r}")
    reader.expect(reader.run(f"{section} return s.querySelector('.verdict button')") is None, "there is more than the line")
    colours = {}
    for lines in ("exp(scores) / sum(exp(scores))", "exp(scores)"):
        state, _ = verdict_on(reader, "my_weights", lines)
        colours[state] = reader.run(f"{section} return getComputedStyle(s.querySelector('.verdict > p')).color")
    reader.expect(colours["right"] != colours["wrong"], f"right and wrong are {colours}")
    verdict_on(reader, "my_scores", "keys @ query")
    reader.open("lesson_01_single_query.html")
    reader.wait("return document.querySelector('.lab-exercise section[data-name=my_scores].right') !== null", "what was right is not right at the next visit")
    reader.expect(reader.run(f"{section} return s.querySelector('textarea').value") == "exp(scores)", "what was written is gone")
    reader.run("localStorage.clear()")


def centre(reader, selector):
    return reader.run("const b = document.querySelector(arguments[0]).getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]", selector)


REPLACE = "const s = document.querySelectorAll('[data-moving=story]')[arguments[0]].querySelectorAll('.words select')[arguments[1]]; s.value = arguments[2]; s.dispatchEvent(new Event('change'))"


def check_landing(reader):
    """The two experiments: a head that is switched off, and a name that is exchanged, by hand and by the keyboard."""
    reader.open("index.html")
    for stage, (before, press, after) in enumerate((("kite0.989", "Enter", "ball0.776"), ("She1.000", " ", "He0.999"))):
        first = f"return document.querySelectorAll('[data-moving=story]')[{stage}].querySelector('.chance')?.textContent"
        button = f"document.querySelectorAll('[data-moving=story]')[{stage}].querySelector('button.large')"
        before_that = reader.run(f"const b = {button}, s = b.closest('.stage'), at = s.dataset.shown; s.removeAttribute('data-shown'); const taken = getComputedStyle(b).pointerEvents; at && s.setAttribute('data-shown', at); return taken")
        reader.expect(before_that == "none", f"the button of experiment {stage} takes a tap before anything can answer")
        reader.run(f"{button}.scrollIntoView()")
        reader.wait(f"{first} === {json.dumps(before)}", f"experiment {stage} does not begin with {before}")
        said = f"const s = document.querySelectorAll('[data-moving=story] .stage')[{stage}], said = () => getComputedStyle(s, '::before').content;"
        reader.wait(f"{said} return said() === 'none'", f"experiment {stage} is shown, and says that it is loading")
        loading = reader.run(f"{said} s.removeAttribute('data-shown'); return said()")
        reader.expect("loading" in loading, f"experiment {stage} says {loading} before it is shown")
        reader.run(f"{button}.focus()")
        reader.browser.press(press)
        reader.wait(f"{first} === {json.dumps(after)}", f"the button of experiment {stage} does not give {after}")
        reader.run(f"{button}.click()")
        reader.wait(f"{first} === {json.dumps(before)}", f"the button of experiment {stage}, pressed again, does not give {before} back")
    reader.expect(reader.run("return document.getElementById('picture-main_page-one_head').closest('figure').hidden"), "the still picture stands beside the experiment")
    near = "return document.querySelector('[data-moving=story][data-head]').innerText"
    reader.expect("Switch head 3 of layer 0 off" in reader.run(near) and "A head decides" in reader.run(near), f"which head, and what a head is, is not said: {reader.run(near)[:200]}")
    told = "return document.querySelector('.told select').selectedOptions[0].text + ' ' + document.querySelector('.told b').textContent"
    reader.expect(reader.run(told) == "kite blue", f"told is {reader.run(told)}")
    reader.run("document.querySelectorAll('.large-map .row')[4].dispatchEvent(new MouseEvent('click'))")
    reader.wait(f"{told} === 'ball red'", "a row that is clicked is not told")
    reader.run(REPLACE, 0, 3, "green")
    reader.wait(f"{told} === 'ball green'", "a word that is replaced is not in the map")


def check_plane(reader):
    """What only the plane has: handles that follow the mouse, a finger and the keyboard."""
    reader.open("lesson_01_single_query.html")
    reader.run("document.querySelector('.moving').scrollIntoView()")
    text = "return document.querySelector('.moving .tensor-values').textContent"
    reader.wait(f"{text} !== ''", "the plane computes nothing")

    def follows(what, do):
        before = reader.run(text)
        do()
        reader.wait(f"{text} !== {json.dumps(before)}", f"the plane does not follow {what}")

    x, y = centre(reader, ".moving .handle .room")

    def drag():
        actions = [{"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0}, {"type": "pointerDown", "button": 0}, {"type": "pointerMove", "x": round(x) - 90, "y": round(y) + 60, "duration": 50}, {"type": "pointerUp", "button": 0}]
        reader.browser.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def touch():
        a, b = centre(reader, ".moving .handle .room")
        for kind, points in (("touchStart", [{"x": a, "y": b}]), ("touchMove", [{"x": a + 40, "y": b + 50}]), ("touchEnd", [])):
            reader.browser.devtools("Input.dispatchTouchEvent", type=kind, touchPoints=points)

    follows("the mouse", drag)
    follows("a finger", touch)
    reader.run("document.querySelector('.moving .handle').focus()")
    follows("the keyboard", lambda: reader.browser.press("ArrowUp", "ArrowUp", "ArrowLeft"))
    reader.expect("inside the triangle" in reader.run("return document.querySelector('.moving [role=status]').textContent"), "softmax leaves the triangle")
    follows("a division by the sum", lambda: reader.run("const s = document.querySelector('.moving select'); s.value = 'sum'; s.dispatchEvent(new Event('change'))"))
    reader.wait("return document.querySelector('.moving [role=status]').textContent.includes('A weight is negative')", "a division by the sum stays inside")

    reader.open("lesson_02_all_queries.html")
    reader.run("document.querySelector('.moving').scrollIntoView()")
    reader.wait("return document.querySelectorAll('.moving .tensor-values tr').length === 7", "three queries have no six rows")


def check_story(reader):
    first = "return document.querySelector('.moving .chance')?.textContent"
    for page, words, head, then in (("lesson_06_multi_head.html", "kite", 3, "ball"), ("lesson_17_story.html", "She", 4, "")):
        reader.open(page)
        reader.run("document.querySelector('[data-moving=story]').scrollIntoView()")
        reader.wait("return document.querySelector('[data-moving=story] .stage[data-shown]') !== null", "the small model computes nothing")
        reader.expect(reader.run("return document.querySelectorAll('.moving .maps svg').length") == 8, "no eight maps")
        before = reader.run(first)
        reader.expect(before.startswith(words), f"after the sentence comes {before}")
        reader.run(f"document.querySelectorAll('.moving .maps input')[{head}].click()")
        reader.wait(f"{first} !== {json.dumps(before)}", "a head that is off changes nothing")
        reader.expect(reader.run(first).startswith(then), f"without head {head} comes {reader.run(first)}, expected {then}")
        reader.run(f"document.querySelectorAll('.moving .maps input')[{head}].click()")
        reader.wait(f"{first} === {json.dumps(before)}", "a head that is on again does not give the words back")
    reader.run("document.querySelector('.moving .chance').click()")
    reader.wait("return document.querySelectorAll('.moving .words select').length === 8", "a bar adds no word") # seven words, and the one more
    reader.run(REPLACE, 0, 0, "Tom")
    reader.wait("return document.querySelector('.moving .words select').value === 'Tom' && document.querySelector('.moving .chance').textContent !== null", "the first word can't be replaced")
    reader.run(REPLACE, 0, 6, "")
    reader.wait(f"{first}.startsWith('He')", "with Tom for Lily, and the seventh word away, He does not follow")


# ------------------------------------------------------------------------------------------ all stages, one by one

STAGE = "const box = document.querySelectorAll('.moving')[{0}], stage = box.querySelector('.stage'); "
# What a stage shows: its words and numbers, what its pictures are called, and how strong its cells are.
SEEN = "return [stage.innerText, ...[...stage.querySelectorAll('[aria-label], title')].map(e => e.getAttribute('aria-label') ?? e.textContent), ...[...stage.querySelectorAll('[style]')].map(e => e.getAttribute('style'))].join('\\n')"
# The first thing that can be moved: the other end of a slider, the next step, or what is not chosen.
MOVE = """
    const slider = stage.querySelector('input[type=range]'), handle = stage.querySelector('.handle');
    if (slider) {
        slider.value = Number(slider.value) > (Number(slider.min) + Number(slider.max)) / 2 ? slider.min : slider.max;
        slider.dispatchEvent(new Event('input'));
    } else if (handle) {
        handle.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}));
    } else {
        stage.querySelector('button.next, .choice [aria-pressed=false], button.large').click();
    }"""
# On a phone, with what is to be done below the header: where it ends, and where what is moved first ends.
TODO = """
    const todo = box.querySelector('.todo'), control = stage.querySelector('input, .handle, button.next, .choice [aria-pressed=false], button.large, select');
    todo.scrollIntoView();
    const top = document.querySelector('header.site').getBoundingClientRect().bottom + 12, shift = todo.getBoundingClientRect().top - top;
    return {todo: Math.round(todo.getBoundingClientRect().bottom - shift), control: Math.round(control.getBoundingClientRect().bottom - shift), room: innerHeight};"""
# What reaches beyond the stage's box, but for what scrolls in a box of its own.
BEYOND = """
    const right = box.getBoundingClientRect().right;
    return [...box.querySelectorAll('*')].filter(e => !e.closest('.scroll') && e.getBoundingClientRect().width > 0 && e.getBoundingClientRect().right > right + 1).map(e => `${e.tagName} ${e.className.baseVal ?? e.className}`)"""


class Stage:
    """One of a page's stages, as a reader has it."""

    def __init__(self, reader, page, number):
        self.reader, self.page, self.before = reader, page, STAGE.replace("{0}", str(number))
        self.name = self.run("return box.dataset.moving")

    def run(self, script, *arguments):
        return self.reader.run(self.before + script, *arguments)

    def shown(self):
        """The state that it shows, once it is computed."""
        self.run("box.scrollIntoView()")
        self.reader.wait(self.before + "return stage.dataset.shown !== undefined", f"{self.name} computes nothing: {self.troubles()}")
        return json.loads(self.run("return stage.dataset.shown ?? '{}'"))

    def move(self, script, *arguments):
        """Does something, and waits until the stage shows what came of it."""
        before = self.run("return stage.dataset.shown")
        self.run(script, *arguments)
        self.reader.wait(f"{self.before}return stage.dataset.shown !== {json.dumps(before)}", f"{self.name}: nothing follows {script[:60]!r}")

    def press(self, name):
        self.move("[...stage.querySelectorAll('button')].find(b => b.textContent === arguments[0]).click()", name)

    def slide(self, label, value):
        self.move("const s = [...stage.querySelectorAll('label')].find(l => l.textContent.startsWith(arguments[0])).querySelector('input'); s.value = arguments[1]; s.dispatchEvent(new Event('input'))", label, value)

    def troubles(self):
        return self.run("return [...box.querySelectorAll('.trouble')].map(e => e.textContent).filter(Boolean)")

    def text(self, selector="[role=status]"):
        return self.run("return stage.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector):
        return self.run("return [...stage.querySelectorAll(arguments[0])].map(e => e.textContent)", selector)


def check_any_stage(reader, page, number):
    """What holds for every stage: it computes, follows, fits a phone, has a link that shows the same, and says what is wrong where it is."""
    stage = Stage(reader, page, number)
    state = stage.shown()
    reader.expect(stage.troubles() == [], f"{stage.name}: {stage.troubles()}")
    reader.expect(stage.run(BEYOND) == [], f"{stage.name} is wider than a phone: {stage.run(BEYOND)[:5]}")
    above = stage.run(TODO)
    reader.expect(above["todo"] < above["control"] <= above["room"], f"{stage.name}: what is to be done and what is moved are not seen together: {above}")
    small = stage.run(f"return ({TOO_SMALL})(box)") + stage.run(f"return ({ILLEGIBLE})(box)")
    reader.expect(small == [], f"{stage.name}, on a phone: {small[:4]}")
    before = stage.run(SEEN)
    stage.move(MOVE)
    moved, after = stage.shown(), stage.run(SEEN)
    reader.expect(moved != state and after != before, f"{stage.name}: what is moved changes nothing")
    stage.run("box.querySelector('.link').click()")
    link = reader.run("return location.href")
    reader.expect("?" in link, f"{stage.name}: its link says nothing: {link}")
    reader.browser.call("POST", "/url", {"url": "about:blank"})
    reader.browser.open(link, READY)
    reader.expect(stage.shown() == moved, f"{stage.name}: the link {link} shows {stage.shown()}, expected {moved}")
    reader.expect(stage.run(SEEN) == after, f"{stage.name}: the link {link} does not show what was linked")
    stage.move("box.querySelector('.again').click()")
    reader.expect(stage.shown() == state and stage.run(SEEN) == before, f"{stage.name}: “begin again” shows {stage.shown()}, expected {state}")
    reader.expect(stage.run("return box.querySelector('.again').getAttribute('aria-disabled')") == "true", f"{stage.name}: begun, and it can begin again")
    named = link.partition("?")[2].partition(".")[0]  # of a page's second story: story2
    reader.browser.open(f"{reader.address}/{page}?{named}.nothing=1", READY)
    reader.expect(any("expected" in trouble for trouble in stage.troubles()), f"{stage.name}: a link that can't be read is not refused")
    if stage.run("return stage.querySelector('input[type=text]') !== null"):
        stage.shown()
        stage.run("const i = stage.querySelector('input[type=text]'); i.value = 'dog ?'; i.dispatchEvent(new Event('change'))")
        reader.wait(f"{stage.before}return stage.querySelector('input[type=text] + .trouble').textContent !== ''", f"{stage.name}: “dog ?” is taken")
        beside = "const i = stage.querySelector('input[type=text]'), t = i.nextElementSibling; return [i.value, t.getBoundingClientRect().top - i.getBoundingClientRect().bottom]"
        text, distance = stage.run(beside)
        reader.expect(text == "dog ?" and distance < 12, f"{stage.name}: after “dog ?” stands {text!r}, the error {distance} pixels below")


def table_of(reader, step):
    """The rows of the page's table of a step."""
    return reader.run("""
        const box = [...document.querySelectorAll('.contents [data-live]')].find(e => e.dataset.live.split(':')[0] === arguments[0] && e.querySelector('table.tensor-values'));
        return box ? [...box.querySelectorAll('tr')].filter(row => row.querySelector('td')).map(row => [...row.querySelectorAll('td')].map(cell => Number(cell.textContent))) : []""", step)


def expect_same(stage, step, page, cells):
    """What a stage writes with two decimals is what the page has."""
    same = len(page) == len(cells) and all(abs(a - b) < 0.0051 for a, b in zip(page, cells))
    stage.reader.expect(same, f"{stage.name}, {step}: the page has {page}, the stage {cells}")


def number_of(reader, live):
    """A number of the page's text: that of the lesson's own run."""
    return reader.run("const [name] = arguments; return document.querySelector(`.contents [data-live='${name}'], .contents .from-run[title^='${name} = ']`)?.textContent ?? null", live)


# What each stage shows is what its lesson says, by page and name.


def check_saturation(stage):
    slope = lambda: float(stage.text().split("slope of softmax ")[1].split(" ")[0])
    stage.slide("features", 10)
    stage.reader.expect(slope() < 0.05, "1024 features do not saturate softmax")
    stage.slide("divisor", 0.5)
    stage.reader.expect(slope() > 0.05, "the root does not bring the slope back")


def check_clocks(stage):
    product = lambda: stage.text().split("product of the two rows is ")[1].split(":")[0]
    rows = lambda: stage.texts(".strip .cell")
    before, row = product(), rows()
    stage.slide("position", 6)
    stage.reader.expect(product() == before and rows() != row, "another position changes the product, or no clock")
    stage.slide("positions later", 4)
    stage.reader.expect(product() != before, "another distance leaves the product")


def check_rotation(stage):
    products = lambda: stage.texts("td")
    rotated, added = products()
    stage.slide("position", 9)
    stage.reader.expect(products()[0] == rotated, "a rotated product changes with the position")
    stage.reader.expect(products()[1] != added, "a product of added positions does not")
    stage.slide("distance", 5)
    stage.reader.expect(products()[0] != rotated, "a rotated product does not change with the distance")


def check_layer(stage):
    stage.reader.expect(stage.text(".heads p").startswith("Of other words “.” takes most from “Lily”"), f"the full stop: {stage.text('.heads p')}")
    stage.press("the three tokens below")
    for step in ("add & norm", "feed-forward", "output"):
        stage.press("next")
        stage.reader.expect(stage.texts(".strips strong")[-1] == step, f"after “next” comes {stage.texts('.strips strong')}, expected {step}")
    rows = stage.run("return [...stage.querySelectorAll('.strip')].map(strip => [strip.dataset.step, [...strip.children].map(cell => Number(cell.textContent))])")
    for step, cells in rows:
        if step != "feed_forward.output":  # the page has no table of it
            expect_same(stage, step, table_of(stage.reader, step)[stage.shown()["word"]], cells)


def check_norm(stage):
    row = lambda step: stage.run("return [...stage.querySelectorAll(`[data-step='${arguments[0]}'] .cell`)].map(cell => Number(cell.textContent))", step)
    page = [float(value) for value in number_of(stage.reader, "norm.normalized[0]:.4f").replace("−", "-").strip("[]").split(", ")]
    expect_same(stage, "norm.normalized[0]", page, row("layer"))
    rms = row("rms")
    stage.slide("times", 2)
    stage.reader.expect(row("rms") == rms, "a row that is four times as large has another norm")
    expect_same(stage, "norm.normalized[0]", page, row("layer"))
    stage.slide("plus", 4)
    stage.reader.expect(row("rms") != rms, "RMS norm forgets the mean")
    expect_same(stage, "norm.normalized[0]", page, row("layer"))


def check_backwards(stage):
    rows = lambda step: stage.run("return [...stage.querySelectorAll(`[data-step='${arguments[0]}'] .strip`)].map(strip => [...strip.children].map(cell => Number(cell.textContent)))", step)
    while stage.shown()["step"] < 6:
        stage.press("next")
    stage.reader.expect([len(rows(f"grad.{step}")) for step in ("output", "values", "queries", "inputs")] == [1, 3, 1, 3], "the error of one token is not that of one")
    stage.press("of all")
    for step in ("grad.output", "grad.values", "grad.weights"):
        for page, cells in zip(table_of(stage.reader, step), rows(step), strict=True):
            expect_same(stage, step, page, cells)
    page = [float(number_of(stage.reader, f"grad.inputs[1,{i}]:.4f").replace("−", "-")) for i in range(4)]
    expect_same(stage, "grad.inputs", page, rows("grad.inputs")[1])


def check_translation(stage):
    stage.reader.expect(stage.text("p:last-child").startswith("To write “une” after “avait”"), f"it begins with {stage.text('p:last-child')}")
    stage.reader.expect("on “ball”" in stage.text("p:last-child"), "“une” does not look at “ball”")
    hidden = stage.texts("[data-block=self_attn] .unseen")
    stage.reader.expect(len(hidden) == 4 and all("−∞" in word for word in hidden), f"hidden are {hidden}")
    stage.move("const i = stage.querySelector('input[type=text]'); i.value = 'Tom had a blue kite .'; i.dispatchEvent(new Event('change'))")
    stage.reader.expect(stage.texts(".words button") == "Tom avait un cerf-volant bleu . <end>".split(), f"it writes {stage.texts('.words button')}")


def check_beams(stage):
    found = lambda: " ".join(word.split()[0] for word in stage.texts("text.kept"))
    for _ in range(4):
        stage.press("next")
    greedy, says = found(), stage.text()
    table = stage.reader.run("return [...document.querySelectorAll('.contents tr')].map(r => r.innerText).filter(t => /^(greedy|beam of 2)/.test(t))")
    stage.press("beam of two")
    best = stage.text()
    for line, sentence in zip(table, (says, best)):
        words = sentence.split("”")[0].removeprefix("“")
        stage.reader.expect(words in line and sentence.split("probability ")[1].split(",")[0] in line, f"{sentence!r} is not {line!r} of the page")
    stage.reader.expect(len(table) == 2 and greedy.startswith("Mia avait une"), f"greedy decoding finds {greedy}")


def check_forming(stage):
    weight = lambda: stage.text().split("puts ")[1].split(" ")[0]
    steps = sorted({int(path.split(".")[1]) for path in json.loads(stage.run("return box.querySelector('script').textContent")) if path.startswith("maps.")})
    for step in (20, 100, 2000):
        stage.slide("step", steps.index(step))
        stage.reader.expect(f"After {step} steps" in stage.text() and f"to {weight()} in head 0" in CONTENTS(stage) or f"from {weight()} to" in CONTENTS(stage) or f"it is {weight()}." in CONTENTS(stage), f"at step {step}: {stage.text()}")


def CONTENTS(stage):
    return stage.reader.run("return document.querySelector('.contents').innerText.replace(/\\s+/g, ' ')")


def check_onepass(stage):
    last = lambda column: stage.texts("tr:last-child td")[column]
    for size, steps in (("blocks of 2", 2), ("one by one", 5)):
        if stage.shown()["size"] != ("one by one", "blocks of 2").index(size):
            stage.press(size)
        while stage.shown()["step"] < steps:
            stage.press("next")
        stage.reader.expect(last(3) == number_of(stage.reader, "two_passes.sum:.4f") and last(1) == number_of(stage.reader, "two_passes.largest:.0f"), f"{size} end with m and l {last(1)}, {last(3)}")
        difference = float(stage.text().split("two passes by ")[1].removesuffix("."))
        stage.reader.expect(difference < 1e-12, f"{size} differ from two passes by {difference}")
    stage.press("back")
    stage.press("back")
    stage.reader.expect(last(2) == number_of(stage.reader, "one_pass.key.3.correction:.4f") and last(3) == number_of(stage.reader, "one_pass.key.3.sum:.4f"), f"key 3: {stage.texts('tr:last-child td')}")


def check_ring(stage):
    moves = "return getComputedStyle(stage.querySelector('.block')).transitionDuration"
    gliding = stage.run(moves)
    stage.reader.browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    stage.reader.expect(gliding != "0s" == stage.run(moves), f"blocks glide for {gliding}, and for {stage.run(moves)} where less motion is asked for")
    waited = lambda: stage.text().split("as long as ")[1].split(" ")[0]
    for order in ("plain", "zigzag"):
        if order == "zigzag":
            stage.press("zigzag")
        while stage.shown()["hop"] < 3:
            stage.press("next hop")
        stage.reader.expect(waited() == number_of(stage.reader, f"work.{order}.waited"), f"{order}: {stage.text()}, the page has {number_of(stage.reader, f'work.{order}.waited')}")
        stage.reader.expect(("3 wait for it" in stage.text()) == (order == "plain"), f"{order} at hop 3: {stage.text()}")


def check_windows(stage):
    kept = lambda: stage.texts(".chance")[6]
    stage.reader.expect(kept().startswith("Lily") and not stage.texts(".chance")[3].startswith("Lily"), "a window of twelve words needs no first word, or loses the name with it")
    stage.slide("first words", 0)
    stage.reader.expect(not kept().startswith("Lily"), "a window of twelve words without the first keeps the name")
    stage.slide("first words", 1)
    stage.slide("window", 6)
    stage.reader.expect(not kept().startswith("Lily"), "a window of six words keeps the name")
    weights = [float(found) for found in re.findall(r"(?:up to|in the window|first kept) (\d\.\d+)", stage.text())]
    stage.reader.expect(len(weights) == 3 and weights[2] > 2 * weights[0] > 0 == weights[1], f"in a window of six words “Then” puts {weights} on the name")


def check_experts(stage):
    chances = lambda: stage.texts(".chance")
    trained = chances()[:5]
    stage.reader.expect(chances()[5] != trained[0] and chances()[0].startswith("took"), f"without expert 2: {chances()}")
    stage.reader.expect("another word is the likeliest after “She”" in stage.text(), f"without expert 2: {stage.text()}")
    stage.slide("expert switched off", -1)
    stage.reader.expect(chances()[5:] == trained and "nowhere" in stage.text(), "two experts of each word, none of them off, is not the model as trained")
    before = stage.text()
    stage.slide("experts of each word", 1)
    stage.reader.expect(stage.text() != before, "one expert of each word instead of two changes nothing that is shown")


def check_state(stage):
    came = lambda: stage.run("return [...stage.querySelectorAll('.pairs')].map(row => [...row.children].map(cell => cell.className))")
    attention, summed, _, delta = came()
    stage.reader.expect(delta.count("recalled") == len(delta) == 3, f"of keys that were written twice the delta rule recalls {delta}")
    stage.reader.expect("recalled" not in attention and summed.count("recalled") < 3, f"attention recalls {attention}, a sum {summed}")
    stage.slide("keys written again", 0)
    stage.slide("pairs", 24)
    attention, *states = (row.count("recalled") for row in came())
    stage.reader.expect(all(attention > state for state in states), f"attention recalls {attention} of 24 pairs, states {states}")


def check_caches(stage):
    sizes = lambda: [float(size.split(" ")[0]) for size in stage.texts(".bar span")]
    own, shared, latent = sizes()
    stage.reader.expect(own > shared > latent, f"it begins with {sizes()}: nothing is saved")
    stage.slide("heads with keys", 2)
    stage.reader.expect("4 heads of keys and values take 0.125" in stage.text(), "four of 32 heads keep no eighth")


def check_sources(stage):
    cells = lambda step: stage.run("return [...stage.querySelectorAll(`[data-step='${arguments[0]}'] .cell`)].map(cell => Number(cell.textContent))", step)
    weights = lambda: [float(text.split(" ")[1]) for text in stage.texts(".taken > .cell")]
    expect_same(stage, "self.weights", table_of(stage.reader, "self.weights")[3], weights())
    stage.press("the question")
    expect_same(stage, "cross.weights", table_of(stage.reader, "cross.weights")[3], weights())
    expect_same(stage, "cross.context", table_of(stage.reader, "cross.context")[3], cells("context"))
    stage.reader.expect("(5, 3)" in stage.text(), f"five queries and three keys: {stage.text()}")
    before, in_order = cells("context"), weights()
    stage.press("the question, reversed")
    stage.reader.expect(cells("context") == before and weights() == in_order[::-1] and "is the same" in stage.text(), f"reversed: {weights()}, {stage.text()}")
    stage.press("only its keys reversed")
    stage.reader.expect(cells("context") != before and "is another" in stage.text(), f"only keys reversed: {stage.text()}")


def check_stack(stage):
    total = lambda: re.search(r"layers? ha\w+ ([\d,]+) parameters", stage.text())[1]
    page = stage.reader.run("return document.querySelector('.contents').innerText")
    begun = total()
    stage.reader.expect(re.search(rf"encoder\s.*\s{begun}\s", page), f"six layers have {begun} parameters, which the page does not say")
    stage.slide("heads", 0)
    stage.reader.expect(total() == begun, "one head instead of eight changes the parameters")
    stage.slide("layers", 12)
    stage.reader.expect(total() == f"{2 * int(begun.replace(',', '')):,}" and len(stage.texts(".layer")) == 12, f"twelve layers have {total()}")
    stage.slide("heads", 7)
    stage.slide("d_model", 5)
    stage.reader.expect("too many" in stage.text(), f"128 heads of 32 features: {stage.text()}")


def check_calls(stage):
    marks = lambda: stage.run("return [...stage.querySelectorAll('.calls > span')].map(call => [...call.children].map(word => word.className ? 'x' : '.').join('')).join('|')")
    choose = lambda mistake: stage.move(f"const s = stage.querySelector('.mistake select'); s.value = {mistake}; s.dispatchEvent(new Event('change'))")
    stage.reader.expect(marks() == "......|....|....|...", f"without a mistake the calls are {marks()}")
    stage.slide("tokens of the first call", 2)
    stage.slide("tokens of each later call", 5)
    stage.reader.expect(marks() == "..|.....|.....|.....", f"other calls are {marks()}")
    choose(2)
    stage.reader.expect(marks() == "..|xxxxx|xxxxx|xxxxx" and stage.texts(".chance")[3] != stage.texts(".chance")[0], f"a mask from the top left: {marks()}, {stage.texts('.chance')}")
    stage.slide("tokens of each later call", 1)
    stage.reader.expect("x" not in marks() and "do not show it" in stage.text(), f"a mask from the top left, in steps: {marks()}")
    choose(8)
    stage.reader.expect(marks().replace("|", "") == 8 * "." + 9 * "x" and "7 of them, the numbers 10" in stage.text(), f"first tokens overwritten: {marks()}, {stage.text()}")


def check_pages(stage):
    of = lambda: float(re.search(r"(\d\.\d+) of the weight", stage.text())[1])
    stage.reader.expect(of() > 0.5 and "1 saved by sharing" in stage.text(), f"with the rest of its last block Lily’s reads {stage.text()}")
    stage.reader.expect(len(stage.texts(".block.shared")) == 1 and [text[:-4] for text in stage.texts(".weighed .stale")] == [".", "The", "kite"], f"shared are {stage.texts('.block.shared')}, left over {stage.texts('.weighed .stale')}")
    stage.press("its own words")
    stage.reader.expect("what it would be alone" in stage.text() and stage.texts(".weighed .stale") == [], f"its own words: {stage.text()}")
    stage.press("one word only")
    stage.press("Lily’s writes a word")
    stage.reader.expect(stage.texts(".weighed span") != [] and len(stage.texts(".weighed > span")) == 2, "after two words there are others")
    stage.run("for (let i = 0; i < 8; i++) [...stage.querySelectorAll('button')].find(b => b.textContent === 'Lily’s writes a word').click()")
    stage.reader.wait(f"{stage.before}return [...stage.querySelectorAll('.trouble')].some(e => e.textContent.includes('Lily’s request has all of its 9 words'))", f"a tenth word is not refused: {stage.troubles()}")


def check_bits(stage):
    off = lambda: stage.text().split("are off by ")[1].split(" ")[0]
    page = lambda of: number_of(stage.reader, f"{of}.off:.3f")
    for press, of in ((None, "raised.token"), ("per block of 4", "raised.block"), ("rotated first", "rotated.block"), ("a scale per token", "rotated.token"), ("per channel", "rotated.channel"), ("as they are", "raised.channel")):
        if press:
            stage.press(press)
        stage.reader.expect(off() == page(of), f"{of}: the stage has {off()}, the page {page(of)}")
    stage.slide("one channel", 0)
    stage.reader.expect(off() == page("plain.channel"), f"without a large channel: {stage.text()}")
    four = float(off())
    stage.press("int8")
    stage.reader.expect(float(off()) < four / 10, f"eight bits are off by {off()}, four by {four}")


def check_choosing(stage):
    shares = lambda: stage.run("return [...stage.querySelectorAll('.chance:not(.cut)')].map(bar => Number(bar.lastChild.textContent))")
    stage.slide("top-k", 3)
    stage.slide("top-p", 1)
    stage.reader.expect("3 words are left of 66" in stage.text() and abs(sum(shares()) - 1) < 0.002, f"top-k 3: {stage.text()}, {shares()}")
    even = shares()[0]
    stage.slide("temperature", -2)
    stage.reader.expect(shares()[0] > even, f"at a lower temperature the likeliest has {shares()[0]} in place of {even}")
    stage.slide("top-k", 66)
    stage.reader.expect("No word is cut" in stage.text(), f"without a cut: {stage.text()}")
    stage.slide("min-p", 1)
    stage.reader.expect("One word is left" in stage.text(), f"min-p 1: {stage.text()}")


def check_guessing(stage):
    for _ in range(3):
        rows = stage.run("return [...stage.querySelectorAll('.guesses > *')].map(cell => cell.textContent)")[6:]
        verdicts = []
        for row in (rows[i:i + 6] for i in range(0, len(rows), 6)):
            stands = float(row[4]) < float(row[3]) or row[4] == row[3]
            verdicts.append(row[5])
            stage.reader.expect(row[5] == "taken back" or (row[5] == "accepted") == stands or row[4] == row[3], f"a guess with p / q {row[3]} and the number {row[4]} is {row[5]}")
        accepted = verdicts.count("accepted")
        stage.reader.expect(verdicts == ["accepted"] * accepted + (["rejected"] + ["taken back"] * (3 - accepted)) * (accepted < 4), f"verdicts {verdicts}")
        stage.reader.expect(f"{accepted} of 4 guesses" in stage.text(), f"{verdicts}: {stage.text()}")
        stage.press("draw again")


STAGES = {"plane": None, "story": None, "saturation": check_saturation, "sources": check_sources, "stack": check_stack, "clocks": check_clocks, "rotation": check_rotation, "layer": check_layer, "norm": check_norm,
          "backwards": check_backwards, "translation": check_translation, "beams": check_beams, "forming": check_forming, "onepass": check_onepass, "ring": check_ring, "windows": check_windows, "experts": check_experts,
          "state": check_state, "calls": check_calls, "pages": check_pages, "choosing": check_choosing, "guessing": check_guessing, "caches": check_caches, "bits": check_bits}  # fmt: skip


def check_stages(reader):
    """Every stage of every page."""
    reader.browser.show(390, 844, "light")
    count = 0
    for path in sorted(reader.site.glob("*.html")):
        stages = path.read_text(encoding="utf-8").count('class="moving"')
        for number in range(stages):
            reader.open(path.name)
            stage = Stage(reader, path.name, number)
            check_any_stage(reader, path.name, number)
            if STAGES[stage.name]:
                reader.open(path.name)
                stage.shown()
                STAGES[stage.name](stage)
            count += 1
    reader.browser.show(1280, 900, "light")
    print(f"{count} stages follow what is moved, and a link shows them again", flush=True)


def screenshots(reader, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for width, height in ((390, 844), (1280, 900)):
        for scheme in ("light", "dark"):
            reader.browser.show(width, height, scheme)
            for page in ("index.html", "lesson_01_single_query.html", "lesson_03_scale_and_softmax.html"):
                reader.open(page)
                reader.run("document.querySelector('.lab-open')?.click()")
                reader.run("document.querySelector('.moving').scrollIntoView()")
                time.sleep(1)
                reader.browser.screenshot(folder / f"{page.removesuffix('.html')}_{width}_{scheme}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("docs", type=Path, nargs="?", default=Path(__file__).resolve().parents[2] / "build" / "docs")
    parser.add_argument("--screenshots", type=Path)
    parser.add_argument("--only", choices=("exercises", "stages"), help="what to look at alone")
    arguments = parser.parse_args()
    site = arguments.docs.resolve() / "html"
    if not (site / "lab" / "lab.js").is_file():
        print(f"{site} was built without the lab: script/lab, then script/docs")
        return 77
    if not Browser.is_installed():
        print("there is no Chromium with chromedriver")
        return 77
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pages = {path.name: path.name.removeprefix("lesson_").removesuffix(".html") for path in sorted(site.glob("lesson_*.html")) if 'class="lab" data-lesson=' in path.read_text(encoding="utf-8")}
    with Browser() as browser:
        browser.show(1280, 900, "light")
        reader = Reader(browser, site, f"http://127.0.0.1:{server.server_port}")
        numbers = 0
        if arguments.only:
            {"exercises": check_exercises, "stages": check_stages}[arguments.only](reader)
            print(*reader.problems, sep="\n")
            return 1 if reader.problems else 0
        for page, lesson in pages.items():
            took, edit, count, _ = check_lesson(reader, page, lesson)
            numbers += count
            reader.expect(took < (30 if lesson == "14_gradients" else FIRST_RESULT * SLOW_MACHINE), f"the first result takes {took:.1f} s")
            if lesson < "11" and edit is not None:
                reader.expect(edit < EDIT * SLOW_MACHINE, f"an edit takes {edit:.2f} s")
            print(f"{lesson}: first result {took:.2f} s, an edit {'-' if edit is None else f'{edit:.2f} s'}, {count} places", flush=True)
        for path in sorted(site.glob("*.html")):
            if path.name not in pages and 'class="from-run' in path.read_text(encoding="utf-8"):
                reader.open(path.name)
                check_numbers(reader)
        print(f"{reader.numbers} numbers open", flush=True)
        check_bar(reader)
        check_files(reader)
        check_exercises(reader)
        check_hints(reader)
        check_landing(reader)
        check_plane(reader)
        check_story(reader)
        check_stages(reader)
        if arguments.screenshots:
            screenshots(reader, arguments.screenshots)
    print(*reader.problems, sep="\n")
    print(f"{len(pages)} lessons compute, {numbers} places follow them: {len(reader.problems)} problems")
    return 1 if reader.problems else 0


if __name__ == "__main__":
    sys.exit(main())
