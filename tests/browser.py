"""Headless Chromium for the tests that look at pages, driven through chromedriver. Standard library only."""

import base64
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

# What WebDriver calls the keys that are no letters.
KEYS = {
    "Enter": "\ue007", "Escape": "\ue00c", "PageUp": "\ue00e", "PageDown": "\ue00f", "End": "\ue010", "Home": "\ue011",
    "ArrowLeft": "\ue012", "ArrowUp": "\ue013", "ArrowRight": "\ue014", "ArrowDown": "\ue015", "Tab": "\ue004",
}  # fmt: skip

# Controls that are smaller than a finger needs, where something is shown at all; those in a sentence are as large as its letters.
TOO_SMALL = """
    root => [...root.querySelectorAll('button, select, textarea, summary, input:not([type=checkbox])')].filter(e => {
        const {width, height} = e.getBoundingClientRect();
        return width > 0 && height < 40 && !e.closest('pre, .MathJax_SVG, svg');
    }).map(e => `${e.tagName.toLowerCase()} “${e.textContent.trim().slice(0, 30)}” is ${Math.round(e.getBoundingClientRect().height)} high`)"""
# Letters of pictures that can't be read on a phone.
ILLEGIBLE = """
    root => [...root.querySelectorAll('svg text')].filter(e => e.textContent.trim() !== '' && e.getBoundingClientRect().width > 0).map(e => {
        const {a, b} = e.getScreenCTM();
        return [parseFloat(getComputedStyle(e).fontSize) * Math.hypot(a, b), e.textContent.trim()];
    }).filter(([size]) => size < 8.9).map(([size, text]) => `“${text.slice(0, 30)}” has letters of ${size.toFixed(1)} px`)"""


class Browser:
    """The system's Chromium, which reaches no network."""

    @staticmethod
    def programs():
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        return shutil.which("chromedriver"), chromium

    @staticmethod
    def is_installed():
        return all(Browser.programs())

    def __init__(self, classic_scrollbars=False):
        """With classic scrollbars they take room beside what they scroll; otherwise they are hidden."""
        driver, chromium = self.programs()
        self.profile = tempfile.mkdtemp(prefix="attn-browser-")
        self.session = ""
        self.process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                self.base = f"http://127.0.0.1:{found[1]}"
                break
        else:
            raise RuntimeError("chromedriver did not start")
        arguments = [
            "--headless=new", "--no-sandbox", "--disable-ipc-flooding-protection", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-features=OverlayScrollbar,FluentOverlayScrollbar" if classic_scrollbars else "--hide-scrollbars",
            "--allow-file-access-from-files", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={self.profile}",
        ]  # fmt: skip
        capabilities = {
            "goog:loggingPrefs": {"browser": "ALL"},
            # chromedriver adds --hide-scrollbars itself where it runs headless.
            "goog:chromeOptions": {"binary": chromium, "args": arguments, **({"excludeSwitches": ["hide-scrollbars"]} if classic_scrollbars else {})},
            "unhandledPromptBehavior": "ignore",
        }
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = f"/session/{answer['sessionId']}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            if self.session:
                self.call("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait()
            shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, path, body=None):
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.base + self.session + path, data, {"Content-Type": "application/json"}, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def devtools(self, command, **parameters):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def run(self, script, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": arguments})

    def wait_for(self, script, *arguments):
        """Runs a script that calls its last argument with what it found."""
        return self.call("POST", "/execute/async", {"script": script, "args": arguments})

    def show(self, width, height, scheme):
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 768)
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, place, ready):
        """Opens a file or an address and waits until a script says that it is there. Returns what the console complains about."""
        self.console()
        self.call("POST", "/url", {"url": place if isinstance(place, str) else place.as_uri()})
        if not self.wait_until(ready):
            return ["is not ready after 30 seconds"]
        time.sleep(0.1)
        return self.console()

    def wait_until(self, script):
        """Waits until a script says that it is so. Returns whether it did within 30 seconds."""
        until = time.monotonic() + 30
        while not self.run(script):
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def console(self):
        """What the console has complained about since it was last asked."""
        entries = self.call("POST", "/se/log", {"type": "browser"})
        return [f"console: {entry['message']}" for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def press(self, *keys):
        """Presses keys one after the other, as a person does: letters, or names such as ArrowDown."""
        strokes = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def click(self, x, y):
        """Clicks with the mouse on a place in the window."""
        moves = [
            {"type": "pointerMove", "x": round(x), "y": round(y), "duration": 0},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": moves}]})

    def screenshot(self, path):
        path.write_bytes(base64.b64decode(self.devtools("Page.captureScreenshot", format="png")["data"]))
