#!/usr/bin/env python3
"""Asks axe-core whether everybody can use the built site, and says what it finds.

    tests/docs/check_access.py [BUILD/docs] [--axe FILE]

Pages of each kind, in light and in dark, on a phone and at a desk, with what is folded unfolded, on the first with the menu open, on the second with what the search found and an exercise right and wrong: no finding that
axe-core calls serious or critical. By the keyboard: the skip link is the first stop, and few lead to a lesson's first link.
axe-core comes from npm, into build/axe, where npm is there and can reach it.

Exit codes: 0 all is well; 1 something is found; 77 there is no Chromium, or no axe-core.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from browser import Browser
from check_site import READY

VERSION = "4.14.1"
PAGES = (
    "index.html", "lesson_01_single_query.html", "lesson_06_multi_head.html", "lesson_11_encoder_stack.html", "lesson_13_transformer.html", "lesson_18_flash_attention.html",
    "lesson_25_windows_and_sinks.html", "questions.html", "pitfalls.html", "library.html", "group__library__core.html", "structattn_1_1MultiHeadWeights.html",
)  # fmt: skip
MOST_STOPS = 8
WRITE = """
const done = arguments[arguments.length - 1];
document.querySelector('.lab-exercise button')?.click();
const waiting = setInterval(() => {
    const sections = document.querySelectorAll('.lab-exercise section');
    if (document.querySelector('.lab-exercise') && sections.length < 2) return;
    clearInterval(waiting);
    ['keys @ query', 'exp(scores)'].slice(0, sections.length).forEach((lines, i) => {
        const text = sections[i].querySelector('textarea');
        text.value = lines;
        text.dispatchEvent(new Event('input'));
        sections[i].querySelector('textarea + p button').click();
    });
    done(sections.length > 0);
}, 50);
"""
FIND = """
const done = arguments[arguments.length - 1];
document.querySelectorAll('.contents details').forEach(part => part.open = true);
setTimeout(() => axe.run(document, {resultTypes: ['violations']}).then(({violations}) => done(violations.filter(({impact}) => ['serious', 'critical'].includes(impact)).map(
    ({id, help, nodes}) => `${id}: ${help}, ${nodes.length} times: ${nodes.slice(0, 3).map(node => node.html.slice(0, 120) + ' ' + (node.any[0]?.message ?? '')).join(' | ')}`))), 300);
"""


def axe_core(root, given):
    """The text of axe-core, or None where it can't be had."""
    folder = root / "build" / "axe"
    file = given or folder / "node_modules" / "axe-core" / "axe.min.js"
    if not file.is_file() and given is None and shutil.which("npm"):
        folder.mkdir(parents=True, exist_ok=True)
        impatient = ["--fetch-retries=0", "--fetch-timeout=30000"]  # there may be no network
        subprocess.run(["npm", "install", "--prefix", folder, "--no-save", "--ignore-scripts", "--silent", *impatient, f"axe-core@{VERSION}"], check=False)
    return file.read_text(encoding="utf-8") if file.is_file() else None


def check_keyboard(browser, site):
    """Stops of the Tab key from the top of a lesson to the first link within it."""
    browser.open(site / PAGES[1], READY)
    stops = []
    while len(stops) <= MOST_STOPS and not browser.run("return document.activeElement.closest('.contents') !== null"):
        browser.press("Tab")
        stops.append(browser.run("const a = document.activeElement; return a.textContent.trim() || a.getAttribute('aria-label') || a.tagName"))
    problems = [] if stops[0] == "Skip to the page" else [f"the first stop of the keyboard is {stops[0]!r}, not the skip link"]
    if len(stops) > MOST_STOPS:
        problems.append(f"more than {MOST_STOPS} stops lead to a lesson's first link: {stops}")
    return problems, len(stops)


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("docs", nargs="?", type=Path, default=root / "build" / "docs", help="the folder with html/ (build/docs)")
    parser.add_argument("--axe", type=Path, help="axe.min.js, where npm has not to be asked")
    arguments = parser.parse_args()
    site = arguments.docs.resolve() / "html"
    axe = axe_core(root, arguments.axe)
    if axe is None or not Browser.is_installed():
        print("check_access: SKIPPED: there is no " + ("Chromium with chromedriver" if axe else "axe-core, and npm can't fetch it: name its axe.min.js with --axe"))
        return 77
    problems, views = [], 0
    with Browser() as browser:
        browser.call("POST", "/timeouts", {"script": 110_000})
        for page in PAGES:
            for width, height, scheme in ((1300, 900, "light"), (390, 844, "dark")):
                browser.show(width, height, scheme)
                browser.open(site / page, READY)
                browser.run("document.querySelectorAll('.moving').forEach(box => box.scrollIntoView()); window.scrollTo(0, 0)")
                browser.wait_until("return [...document.querySelectorAll('.moving .stage')].every(stage => stage.textContent !== '')")
                if page == PAGES[0]:
                    browser.run("document.getElementById('menu').open = true")
                if page == PAGES[1]:
                    browser.run("const field = document.getElementById('search-field'); field.value = 'softmax'; field.dispatchEvent(new Event('input'))")
                    browser.wait_until("return document.querySelector('#found a') !== null")
                    if browser.wait_for(WRITE):
                        browser.wait_until("return document.querySelector('.lab-exercise .right') !== null && document.querySelector('.lab-exercise .wrong') !== null")
                browser.run(axe)
                problems += [f"{page} ({width} px, {scheme}): {found}" for found in browser.wait_for(FIND)]
                views += 1
        browser.show(1300, 900, "light")
        found, stops = check_keyboard(browser, site)
        problems += found
    for problem in problems:
        print(f"check_access: {problem}", file=sys.stderr)
    if problems:
        return 1
    print(f"check_access: axe-core {VERSION} finds nothing serious in {views} views of {len(PAGES)} pages; {stops} stops lead to a lesson's first link")
    return 0


if __name__ == "__main__":
    sys.exit(main())
