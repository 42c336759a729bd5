"""What a page needs so that its script can make it again for the reader's own numbers: docs/lab."""

import fnmatch
import json
import re

import numpy as np

from . import picture
from .errors import PageError
from .traces import LESSON_NAME, REFERENCE

# What the lessons in the browser can't compute, and why: as docs/lab/CMakeLists.txt leaves them out.
NOT_IN_PAGE = {
    "11_encoder_stack": "This lesson is not computed in the page: its stack has the paper's size, 13 million weights, and its run takes 100 MiB.",
    "15_training": "This lesson is not computed in the page: it trains models for minutes.",
    "19_across_machines": "This lesson is not computed in the page: it starts several processes.",
}


def live_reference(site, page, reference):
    """What follows the reader's own numbers, as the page's script reads it; nothing where it's another run's, or no page computes."""
    lesson = re.match(rf"({LESSON_NAME}):", reference)
    if not site.has_lab or page.lesson is None or page.lesson in NOT_IN_PAGE or (lesson and lesson[1] != page.lesson) or not REFERENCE.fullmatch(reference):
        return ""
    return reference[lesson.end() :] if lesson else reference


def live(site, page, reference, about=""):
    """The attribute by which the page's script finds it."""
    found = live_reference(site, page, reference)
    return f' data-live="{about}{found}"' if found else ""


def recorded(site, asked):
    """Steps of a run that no page computes, to four digits, as a script reads them: 15_history:maps.*.head.4,losses."""
    run, _, paths = asked.partition(":")
    trace = site.trace_called(run)
    found = {path: trace[path] for path in trace.by_path if any(fnmatch.fnmatchcase(path, wanted) for wanted in paths.split(","))}
    if not found:
        raise PageError(f"{run} has no step {paths}")
    if unknown := [path for path, array in found.items() if not np.all(np.isfinite(array))]:
        raise PageError(f"{unknown[0]} of {run} has numbers that are not finite, which a script can't read")
    steps = {path: {"shape": array.shape, "values": [float(f"{value:.4g}") for value in array.ravel()]} for path, array in found.items()}
    return f'<script type="application/json">{json.dumps(steps, separators=(",", ":"))}</script>'


def moving(site, page, text):
    """A picture that the reader moves, by a script of docs/lab/page: {{moving plane | What is to be done. | What is to be seen then.}}; else nothing.

    What is to be done stands above it, so that a phone shows both. Options are for the script, but for two: words=MODEL gives it the words of a
    model, recorded=RUN:STEPS steps of a run."""
    call, *said = (part.strip() for part in text.split("|"))
    name, *given = call.split()
    options = dict(option.split("=", 1) for option in given)
    if "words" in options:
        site.spoken.setdefault(page.source, set()).add(options.pop("words"))
    numbers = recorded(site, options.pop("recorded")) if "recorded" in options else ""
    data = "".join(f' data-{key}="{value}"' for key, value in options.items())
    if not (site.root / "docs" / "lab" / "page" / f"{name}.js").is_file() or len(said) not in (1, 2) or not all(said):
        raise PageError("write {{moving NAME [KEY=VALUE] | What is to be done. | What is to be seen then.}}, with a script docs/lab/page/NAME.js")
    if not site.has_lab:
        return ""
    site.movers.setdefault(page.source, []).append(name)
    todo, *seen = (re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", picture.html.escape(part)) for part in said)
    after = "".join(f"<p>{part}</p>" for part in seen)
    return site.html(f'<div class="moving" data-moving="{name}"{data} hidden><p class="todo">{todo}</p><div class="stage"></div>{numbers}{after}</div>')


def bar(site, page):
    """Where the page's script puts what computes the lesson in the browser, or why nothing does."""
    if not site.has_lab:
        return ""
    if page.lesson in NOT_IN_PAGE:
        return f'<div class="lab">{NOT_IN_PAGE[page.lesson]}</div>'
    return f'<div class="lab" data-lesson="{page.lesson}"></div>'


def scripts(site, page):
    """The scripts of docs/lab/page that a page needs."""
    if not site.has_lab or not (page.lesson or page.source in site.movers):
        return ""
    words = json.dumps({name: site.vocabulary(name) for name in sorted(site.spoken.get(page.source, ()))}).replace("<", "\\u003c")
    names = ["elements", "machine", "numbers", "moving", *(("read", "live", "bar", "exercise") if page.lesson else ()), *dict.fromkeys(site.movers.get(page.source, ()))]
    return f"\n{site.html(f'<script>const attnWords = {words};</script>')}\n" + "".join(site.html(f'<script src="lab/{name}.js"></script>') + "\n" for name in names)
