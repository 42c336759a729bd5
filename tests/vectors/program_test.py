#!/usr/bin/env python3
"""attn vectors --program runs a program for each case, and says what it did: program_test.py ATTN

The program is this file, called with the input and the output of a case: mine.py's attention, with the mistake that MISTAKE names, and
with results rounded to float32 where ROUND is set.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
CASES = HERE.parents[1] / "vectors" / "cases"
sys.path.append(str(HERE.parents[1] / "vectors" / "runners"))


def answer(source, target):
    import mine
    from check import given_to, scopes_of

    question = json.loads(Path(source).read_text())
    outputs = {}
    try:
        if question["function"] not in ("attention", "attention_calls") or question.pop("weights"):
            return 77
        for request in scopes_of(question) if "requests" in question else [[""]]:
            state = None
            for scope in request:
                given = given_to(question, question["parameters"], scope)
                outputs[scope + "output"], state = mine.attention_calls(**given, state=state) if scope else (mine.attention(**given), None)
    except (NotImplementedError, TypeError):
        return 77
    for name, output in outputs.items():
        numbers = (output.astype(np.float32) if "ROUND" in os.environ else output).ravel().tolist()
        shown = [value if np.isfinite(value) else str(value).replace("inf", "Infinity").replace("nan", "NaN") for value in numbers]
        outputs[name] = {"shape": list(output.shape), "values": shown}
    Path(target).write_text(json.dumps(outputs))
    return 0


class Test:
    def __init__(self, attn, folder):
        self.attn, self.folder = attn, Path(folder)

    def run(self, *words, program=f"{sys.executable} {Path(__file__).resolve()} {{input}} {{output}}", **environment):
        command = [self.attn, "vectors", *(["--program", program] if program else []), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)

    def expect(self, ended, code, *texts):
        said = ended.stdout + ended.stderr
        for text in texts:
            assert text in said, f"{ended.args} does not say {text!r}:\n{said}"
        assert ended.returncode == code, f"{ended.args} ended with {ended.returncode}, expected {code}:\n{said}"

    def all(self):
        some = self.folder / "some"  # a program is started for each case
        some.mkdir()
        for name in ("attention_causal", "attention_masks", "attention_cache"):
            shutil.copy(CASES / f"{name}.json", some)
        ours = ["--vectors", some]
        self.expect(self.run(*ours), 0, "11 of 17 cases passed in float64, 0 failed, 6 not expressed")
        self.expect(self.run("--seed", 3, "--function", "softmax"), 1, "nothing was checked")  # of vectors made anew

        report = self.folder / "report.xml"
        self.expect(self.run(*ours, "--junit", report, MISTAKE="causal_top_left"), 1,
                    "failed attention_causal/2/1: your numbers are those of causal_top_left: A causal mask is aligned top-left")
        assert report.read_text().count("<failure ") == 2, report.read_text()

        calls = self.folder / "calls"
        calls.mkdir()
        shutil.copy(CASES / "attention_calls.json", calls)
        self.expect(self.run("--vectors", calls), 0, "5 of 5 cases passed in float64, 0 failed, 0 not expressed")
        self.expect(self.run("--vectors", calls, MISTAKE="chunk_unmasked"), 1, "failed attention_calls/1/1: your numbers are those of chunk_unmasked: A chunk after")
        self.expect(self.run("--vectors", calls, MISTAKE="ring_written_first"), 1, "failed attention_calls/2/1: your numbers are those of ring_written_first: ")
        self.expect(self.run("--vectors", calls, MISTAKE="cache_ignored"), 1, "failed attention_calls/2/1: calls.", "no mistake that this case has gives it")

        self.expect(self.run(*ours, ROUND="1"), 1, "in float32 all of them pass", "--type float32")
        self.expect(self.run(*ours, "--type", "float32", ROUND="1"), 0, "0 failed")

        self.expect(self.run(*ours, program="exit 77 # {input} {output}"), 1, "nothing was checked")
        self.expect(self.run(*ours, program="exit 3 # {input} {output}"), 1, "the program ended with exit code 3")
        self.expect(self.run(*ours, program="kill -9 $$ # {input} {output}"), 1, "stopped by signal 9")
        self.expect(self.run(*ours, program="true {input} {output}"), 1, "output.json: cannot be read")
        self.expect(self.run(*ours, program="cat {input} >{output}"), 1, "expected an array")

        self.expect(self.run(*ours, program="./mine {input}"), 2, "there is no {output} in the command")
        self.expect(self.run("--vectors", self.folder / "nowhere"), 2, "is no folder")
        self.expect(self.run("--vectors", self.folder), 2, "has no files of vectors")
        (self.folder / "one.json").write_text(json.dumps({"schema": "vectors_schema_1"}))
        self.expect(self.run("--vectors", self.folder), 2, "one.json", "is not as vectors/schema.json says")
        self.expect(self.run("--vectors", CASES, "--function", "atention"), 2, "there are no vectors of atention")
        self.expect(self.run("--vectors", CASES, "--seed", 2), 2, "--seed")
        self.expect(self.run(program=None), 2, "expected one of -o FOLDER")
        self.expect(self.run(*ours, "--limit", 0), 2, "--limit")
        self.folders(some)
        self.endings(some)

    def folders(self, some):
        """Question and answer stand in a folder that nobody else can enter, whatever TMPDIR is called and whatever quotes are used."""
        evil = self.folder / "it's \"$(touch evil)\" `a` & \\b"
        evil.mkdir()
        ours = ["--vectors", some, "--function", "attention"]
        here = f"{sys.executable} {Path(__file__).resolve()}"
        for words in ("{input} {output}", '"{input}" "{output}"', "'{input}' '{output}'"):
            self.expect(self.run(*ours, program=f"{here} {words}", TMPDIR=str(evil)), 0, "11 of 17 cases passed")
        assert not list(evil.iterdir()) and not Path("evil").exists(), "something is left in TMPDIR, or was run by its name"
        modes = self.folder / "modes"
        self.run(*ours, program=f'stat -c %a "$(dirname {{input}})" >>{modes}; exit 77 {{output}}')
        assert set(modes.read_text().split()) == {"700"}, modes.read_text()
        self.expect(self.run(*ours, TMPDIR=str(self.folder / "nowhere")), 2, "no temporary folder can be made")

    def endings(self, some):
        """A program that hangs ends with its time, or with Ctrl-C, and so does what it has started."""
        (self.folder / "tmp").mkdir()
        started = self.folder / "started"
        slow = f"sh -c 'echo $$ >{started}; sleep 100'; true {{input}} {{output}}"
        one = self.folder / "one"
        one.mkdir()
        file = json.loads((some / "attention_causal.json").read_text())
        file["groups"] = [{**file["groups"][0], "cases": file["groups"][0]["cases"][:1]}]
        (one / "one.json").write_text(json.dumps(file))
        self.expect(self.run("--vectors", one, "--limit", 1, program=slow), 1, "the program ran for more than 1 s; --limit S")
        self.has_ended(started)

        started.unlink()
        command = [self.attn, "vectors", "--vectors", str(some), "--program", slow]
        attn = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "TMPDIR": str(self.folder / "tmp")})
        while not started.exists() or not started.read_text():
            time.sleep(0.05)
        attn.send_signal(signal.SIGINT)
        said, _ = attn.communicate(timeout=60)
        assert attn.returncode == -signal.SIGINT and not said, f"it ended with {attn.returncode} after Ctrl-C: {said}"
        assert not list((self.folder / "tmp").iterdir()), "its folder is left"
        self.has_ended(started)

    def has_ended(self, started):
        for _ in range(100):
            try:
                os.kill(int(started.read_text()), 0)
            except ProcessLookupError:
                return
            time.sleep(0.05)
        raise AssertionError("what the program has started still runs")


def main(*words):
    if len(words) == 2:
        return answer(*words)
    with tempfile.TemporaryDirectory() as folder:
        Test(words[0], folder).all()
    print("attn vectors --program: a right program passes, a mistake is named, and what can't be used is refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
