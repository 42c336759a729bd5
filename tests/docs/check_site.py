#!/usr/bin/env python3
"""Opens every page of the built site as a reader would, and says what is broken.

    tests/docs/check_site.py [BUILD/docs] [--screenshots FOLDER]

Without a browser: no placeholder left, no path of the machine that built it, no file from the network, no dead link. Each
lesson's page has a number from its run, a picture with its text, a display formula, NumPy lines, links to its neighbours, a
list of its sections, no line of code over 90 columns, and 1.5 MB at most.
In headless Chromium, 390, 820 and 1300 pixels wide, light and dark: nothing wider than the page, every formula drawn, no error in
the console; on a phone letters of pictures are 9 pixels high and controls 40, and what scrolls sideways says so; the search finds what a reader types; NumPy is shown first. --screenshots keeps a picture of each page for people to look at.

Exit codes: 0 all is well; 1 something is broken; 77 the first half is well, and there is no Chromium for the second.
Standard library only; Chromium is driven through chromedriver.
"""

import argparse
import html
import os
import re
import shutil
import sys
import time
import urllib.parse
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from browser import ILLEGIBLE, TOO_SMALL, Browser

SIZES = {390: 844, 820: 1100, 1300: 900}
SCHEMES = ("light", "dark")

# ---------------------------------------------------------------------------------------------------- files


def check_files(site, forbidden):
    """What can be seen in the files themselves."""
    problems = []
    pages = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in sorted(site.rglob("*.html"))}
    ids = {name: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for name, text in pages.items()}
    for name, text in pages.items():
        prose = re.sub(r"<(pre|code)\b.*?</\1>|<div class=\"(?:line|tt[a-z]+)\".*?</div>|<script\b.*?</script>", "", text, flags=re.DOTALL)
        left = re.search(r"\{\{ *[a-z]\w*[^}]*\}\}", prose)
        if left and not re.match(r"class|struct|group|namespace", name):
            problems.append(f"{name}: a placeholder is left: {left[0]}")
        for address in re.findall(r'<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)="([^"]*)"', text):
            if re.match(r"(https?:)?//", address):
                problems.append(f"{name}: loads {address} from the network")
        folder = (site / name).parent
        # Doxygen 1.9.4 links to a section of private classes that it then leaves out.
        for address in re.findall(r'\b(?:src|href)="([^"]*)"', re.sub(r'<div class="summary">.*?</div>', "", text, flags=re.DOTALL)):
            address = html.unescape(address)
            if re.match(r"[a-z]+:|//", address):
                continue
            file, _, anchor = address.partition("#")
            target = (folder / urllib.parse.unquote(file)).resolve() if file else site / name
            if not target.exists():
                problems.append(f"{name}: dead link {address}")
            elif anchor and not anchor.startswith("index_") and not address.startswith("view/") and target.suffix == ".html" and anchor not in ids[target.relative_to(site).as_posix()]:
                problems.append(f"{name}: dead anchor {address}")
    for path in site.rglob("*"):
        if path.is_file() and path.suffix in (".html", ".js", ".css") and "mathjax" not in path.parts:
            text = path.read_text(encoding="utf-8", errors="replace")
            problems += [f"{path.relative_to(site)}: has the path {folder} of the machine" for folder in forbidden if folder in text]
    return problems


# ---------------------------------------------------------------------------------------------------- lessons

LONGEST_LINE, HEAVIEST_PAGE = 90, 1_500_000


def check_lessons(site):
    """What every lesson's page has. Returns the problems, and a line that counts."""
    problems, counted = [], {"pictures": 0, "display formulas": 0, "snippets": 0, "questions": 0}
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(site.glob("lesson_*.html"))}
    for name, text in pages.items():
        pictures = re.findall(r"<figure class=\"picture\">.*?</figure>", text, re.DOTALL)
        formulas = len(re.findall(r'class="formulaDsp"', text))
        fragments = re.findall(r'<div class="fragment">(.*?)</div><!-- fragment -->', text, re.DOTALL)
        for fragment in fragments:
            for line in re.findall(r'<div class="line">(.*?)</div>', fragment):
                code = html.unescape(re.sub(r'<span class="lineno">.*?</span>|<[^>]*>', "", line))
                if len(code.rstrip()) > LONGEST_LINE:
                    problems.append(f"{name}: a line of {len(code)} columns: {code.strip()[:60]}…")
        expected = {
            "a number from its run": re.search(r'class="(from-run|tensor)\b', text),
            "a picture": pictures,
            "a display formula": formulas,
            "NumPy lines": re.search(r"<span class=\"keyword\">|np\.|@", " ".join(fragments)) and "np." in re.sub("<[^>]*>", "", " ".join(fragments)),
            "links to its neighbours at top and bottom": text.count('<div class="pager">') == 2,
            "a list of its sections": 'class="contents-of-page"' in text,
            "a question whose answer unfolds": "<details><summary>" in text,
        }  # fmt: skip
        problems += [f"{name}: has no {what.removeprefix('a ')}" for what, there in expected.items() if not there]
        for figure in pictures:
            if not re.search(r"<desc>[^<]{20,}|<figcaption[^>]*>[^<]{20,}", figure):
                problems.append(f"{name}: a picture without words that say what is to be seen")
        if len(text.encode()) > HEAVIEST_PAGE:
            problems.append(f"{name}: weighs {len(text.encode())} bytes, {HEAVIEST_PAGE} at most")
        counted["pictures"] += len(pictures)
        counted["display formulas"] += formulas
        counted["snippets"] += len(fragments)
        counted["questions"] += text.count("<details><summary>")
    heaviest = max((path.stat().st_size, path.name) for path in site.glob("*.html"))
    line = ", ".join(f"{count} {what}" for what, count in counted.items())
    return problems, f"{len(pages)} lessons: {line}; the heaviest page is {heaviest[1]}, {heaviest[0] / 1e6:.2f} MB"


# ---------------------------------------------------------------------------------------------------- search

SEARCHED = {  # what a reader types, and the pages of which one must come first
    "temperature": ("lesson_17",), "teacher forcing": ("lesson_12", "lesson_13"), "rope": ("lesson_16",), "padding mask": ("lesson_05", "lesson_11"),
    "kv cache": ("lesson_17", "lesson_13"), "gqa": ("lesson_17", "lesson_24"), "mqa": ("lesson_17", "lesson_24"), "layernorm": ("lesson_09",), "why softmax": ("lesson_01",),
    "why several heads": ("lesson_06",), "why positions": ("lesson_08",), "equivariant": ("lesson_07", "lesson_08"), "residual connections": ("lesson_14",),
    "flash attention nan": ("lesson_18",), "temperature": ("lesson_17",), "bfloat16": ("lesson_17", "lesson_10"), "induction head": ("lesson_06",),
    "layer norm": ("lesson_09", "questions"), "square root": ("lesson_03", "questions"), "softmax axis": ("pitfalls", "lesson_23", "lesson_02"),
    "mla": ("lesson_24",), "absorb": ("lesson_24",), "sliding window": ("lesson_25",), "attention sink": ("lesson_25",), "prefill in chunks": ("lesson_25",),
    "moe": ("lesson_26",), "load balancing": ("lesson_26",), "linear attention": ("lesson_27",), "delta rule": ("lesson_27",), "three to one": ("lesson_27",),
}  # fmt: skip
SEARCH = """
const [words, done] = arguments;
attnSearch.ready().then(() => done(attnSearch.find(words).map(found => found.address)), error => done(['error: ' + error]));
"""


def check_search(browser, site):
    problems = []
    browser.open(site / "index.html", READY)
    for words, wanted in SEARCHED.items():
        found = browser.wait_for(SEARCH, words)
        if not found or not found[0].startswith(wanted):
            problems.append(f"search: '{words}' finds {found[:3]}, expected one of {', '.join(wanted)} first")
    return problems


# ---------------------------------------------------------------------------------------------------- browser

READY = """
const hub = window.MathJax && MathJax.Hub;
return document.readyState === 'complete' && (!hub || (MathJax.isReady && !hub.queue.running && !hub.queue.pending));
"""

PROBE = r"""
const problems = [];
const width = document.documentElement.clientWidth;
for (const element of [document.documentElement, document.body]) {
    if (element && element.scrollWidth > element.clientWidth) {
        problems.push(`<${element.tagName.toLowerCase()} ${element.id}> is ${element.scrollWidth} wide, its room ${element.clientWidth}`);
    }
}
const clips = element => /auto|scroll|hidden|clip/.test(getComputedStyle(element).overflowX);
for (const element of document.querySelectorAll('.contents *')) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0 || box.right <= width + 1) continue;
    if (getComputedStyle(element).position === 'absolute') continue;
    let around = element.parentElement;
    while (around && !around.matches('.contents') && !clips(around)) around = around.parentElement;
    if (!around || around.matches('.contents')) {
        problems.push(`<${element.tagName.toLowerCase()} class="${element.className}"> reaches ${Math.round(box.right)} of ${width}`);
        break;
    }
}
for (const picture of document.querySelectorAll('figure.picture')) { // a graph may scroll on a phone; a desk would shrink its words
    const cut = [picture, ...picture.querySelectorAll('.scroll')].find(box => box.scrollWidth > box.clientWidth + 1);
    const graph = picture.querySelector('.attn-graph')?.viewBox.baseVal.width;
    if (graph ? graph > 780 : cut) problems.push(`a picture is ${graph ?? cut.scrollWidth} wide, its room ${graph ? 780 : cut.clientWidth}: ${picture.textContent.slice(-80)}`);
}
for (const box of document.querySelectorAll('.contents .scroll')) { // what goes on to the side says so
    if (box.checkVisibility() && box.scrollWidth > box.clientWidth + 1 && !/more to/.test(getComputedStyle(box, '::after').content)) problems.push('scrolls, and does not say so: ' + box.textContent.slice(0, 80));
}
const stray = document.querySelector('.in-numpy a.code, i.python + .fragment a.code, i.python + .scroll a.code');
if (stray) problems.push(`lines of Python link ${stray.textContent} to C++`);
const formulas = document.querySelectorAll('script[type^="math/tex"]').length;
const drawn = [...document.querySelectorAll('.MathJax_SVG svg')].filter(svg => svg.getBoundingClientRect().width > 1).length;
if (drawn < formulas) problems.push(`${formulas} formulas, ${drawn} drawn`);
const bad = document.querySelector('.MathJax_Error, [id^="MathJax"] .merror, .MathJax_SVG .noError');
if (bad) problems.push('MathJax refuses: ' + bad.textContent);
for (const text of document.querySelectorAll('.attn-graph .node text')) {
    const box = text.parentNode.querySelector('polygon, path').getBBox(), label = text.getBBox();
    if (label.x < box.x + 2 || label.x + label.width > box.x + box.width - 2) problems.push('leaves its box: ' + text.textContent);
}
const contents = document.querySelector('.contents');
if (contents) {
    const copy = contents.cloneNode(true);
    copy.querySelectorAll('pre, code, script, .fragment, .MathJax_SVG').forEach(element => element.remove());
    const raw = copy.textContent.match(/\\f[$\[{]|\\[()\[\]]|\\(frac|sqrt|mathrm|begin)\b/);
    if (raw) problems.push('unrendered TeX: ' + copy.textContent.slice(Math.max(0, raw.index - 20), raw.index + 40));
    const marks = copy.textContent.match(/\*\*[^*]{1,80}\S\*\*|`[^`]{1,80}`/); // what Doxygen makes of ** before a code span, of one in a link
    if (marks) problems.push('unrendered Markdown: ' + copy.textContent.slice(Math.max(0, marks.index - 20), marks.index + 40));
}
for (const entry of performance.getEntriesByType('resource')) {
    if (!/^(file|data|blob):/.test(entry.name)) problems.push('loads ' + entry.name);
}
if (getComputedStyle(document.body).display === 'none') problems.push('nothing is shown');
const dark = getComputedStyle(document.documentElement).backgroundColor.match(/\d+/g).slice(0, 3).map(Number).reduce((a, b) => a + b, 0) < 300;
return {problems, formulas, dark, height: document.documentElement.scrollHeight, title: document.title};
"""


def check_pages(browser, site, screenshots):
    problems, opened = [], 0
    names = sorted(path.name for path in site.glob("*.html") if not re.match(r"(dir_|functions|namespacemembers|classes\b|doxygen_crawl)|.*-members\.html", path.name))
    prose = [name for name in names if not re.match(r"class|struct|concept|group|namespace|annotated|hierarchy|modules|topics|pages", name)]
    if screenshots:
        shutil.rmtree(screenshots, ignore_errors=True)
        screenshots.mkdir(parents=True)
    for width, height in SIZES.items():
        for name in names if width == min(SIZES) else prose:  # the library: where room is scarce
            for scheme in SCHEMES if name in prose else SCHEMES[:1]:
                browser.show(width, height, scheme)
                where = f"{name} ({width} px, {scheme})"
                if scheme == SCHEMES[0]:
                    found = browser.open(site / name, READY)
                else:  # a page that is open follows the scheme, in its own time
                    browser.wait_until("return document.documentElement.classList.contains('dark-mode')")
                    found = browser.console()
                seen = browser.run(PROBE)
                opened += 1
                found += seen["problems"]
                if width == min(SIZES) and scheme == SCHEMES[0] and name in prose:
                    found += browser.run(f"return ({TOO_SMALL})(document)") + browser.run(f"return ({ILLEGIBLE})(document)")[:3]
                if seen["dark"] != (scheme == "dark"):
                    found.append(f"does not follow the system's {scheme} scheme")
                problems += [f"{where}: {problem}" for problem in found]
                if screenshots and (name in prose or name.startswith("group")):
                    browser.show(width, min(int(seen["height"]) + 40, 9000), scheme)
                    time.sleep(0.2)
                    browser.screenshot(screenshots / f"{Path(name).stem}-{width}-{scheme}.png")
    return problems, opened


# ---------------------------------------------------------------------------------------------------- languages

SHOWN = """
const shown = element => getComputedStyle(element).display !== 'none';
const pairs = [...document.querySelectorAll('.both-languages')].map(pair => [...pair.querySelectorAll(':scope > .in-cpp, :scope > .in-numpy')].filter(shown));
return {
    pairs: pairs.map(codes => codes.map(code => (code.matches('.in-cpp') ? 'C++' : 'NumPy')).join()),
    folds: [...document.querySelectorAll('details.only-cpp')].map(fold => (fold.open ? 'C++' : 'NumPy')),
    unfolded: document.querySelectorAll('i.alone, i.either').length,
};
"""
CHOOSE = "[...document.querySelectorAll('.languages button')].find(button => button.textContent === arguments[0]).click();"


def check_languages(browser, site):
    """NumPy is shown until the reader chooses C++; until then C++ without NumPy beside it is folded, on the next page, too."""
    problems, folds = [], 0
    pages = [next(site.glob(f"lesson_{number}_*.html")) for number in (14, 18, 19)]
    for language in ("NumPy", "C++"):
        for page in pages:
            browser.open(page, READY)
            seen = browser.run(SHOWN)
            folds += len(seen["folds"])
            if not seen["pairs"] or {*seen["pairs"], *seen["folds"]} != {language} or seen["unfolded"]:
                problems.append(f"{page.name}: with {language} chosen it shows {seen}")
        browser.run(CHOOSE, "C++" if language == "NumPy" else "NumPy")
    return problems if folds else ["no page has C++ without NumPy beside it"]


def main():
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("docs", nargs="?", type=Path, default=root / "build" / "docs", help="the folder with html/ (build/docs)")
    parser.add_argument("--screenshots", type=Path, help="a folder for pictures of each page, to look at")
    arguments = parser.parse_args()
    docs = arguments.docs.resolve()
    site = docs / "html"
    if not (site / "index.html").is_file():
        print(f"check_site: no site in {site}: run script/docs first", file=sys.stderr)
        return 1

    problems = check_files(site, {str(root), str(docs), os.path.expanduser("~") + "/"} - {"/", "//"})
    found, counted = check_lessons(site)
    problems += found
    opened = 0
    if Browser.is_installed():
        with Browser() as browser:
            found, opened = check_pages(browser, site, arguments.screenshots)
            problems += found + check_languages(browser, site) + check_search(browser, site)
    for problem in problems:
        print(f"check_site: {problem}", file=sys.stderr)
    if problems:
        return 1
    if not opened:
        print("check_site: SKIPPED the browser's half: install chromium and chromium-driver; the files are well")
        return 77
    print(f"check_site: {counted}")
    print(f"check_site: {len(SEARCHED)} searches find their page first")
    print(f"check_site: {opened} views of {len(list(site.glob('*.html')))} pages, all well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
