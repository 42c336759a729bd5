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
import ast
import functools
import http.server
import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from browser import Browser

READY = "return document.readyState === 'complete' && !document.querySelector('.MathJax_Preview:not(:empty)')"
# One edited cell to all numbers: a tenth of a second, and more for a lesson that computes more. Machines of tests are slow.
FIRST_RESULT, EDIT = 2.0, 0.1
SLOW_MACHINE = 4
ROOT = Path(__file__).resolve().parents[2]

# By lesson and function, beside the lesson's own solution: right another way, and wrong with the mistake's name, or another word of
# what is said.
EXERCISES = {
    "01_single_query": {
        "my_scores": ("keys @ query", {"keys.T @ query": "wrong", "2 * keys @ query": "wrong", "keys @": "character", "keys * query": "the products are not added",
                                    "keys @ query / np.sqrt(len(query))": "Nothing is to be scaled", "for i in keys: i": "the page has no for", "x = query.sum(": "character"}),
        "my_weights": ("e = exp(scores)\ne / sum(e)", {"softmax(scores)": "softmax is what is to be written here", "exp(scores)": "softmax_unnormalized", "scores / sum(scores)": "softmax_missing", "scores": "softmax_missing"}),
        "my_output": ("weights @ values", {"values @ weights": "wrong", "sum(values, axis=0)": "wrong", "mean(values, axis=0)": "wrong"}),
    },
    "02_all_queries": {
        "my_attention": ("softmax(queries @ keys.T) @ values", {"softmax(queries @ keys.T, axis=0) @ values": "softmax_axis", "queries @ keys.T @ values": "softmax_missing", "softmax(queries @ keys) @ values": "keys_reshaped",
                                                                  "softmax(queries @ keys.T / sqrt(queries.shape[1])) @ values": "Nothing is to be scaled"}),
        "my_attention_in_columns": ("(softmax(Q.T @ K) @ V.T).T", {"softmax(Q.T @ K) @ V.T": "wrong", "(softmax(Q @ K.T) @ V).T": "don't fit", "my_attention(Q, K, V)": "don't fit"}),
    },
    "03_scale_and_softmax": {
        "my_softmax": (
            "top = max(scores)\ne = exp(scores - where(top == -inf, 0, top))\ntotal = sum(e)\ne / where(total == 0, 1, total)",
            {"softmax(scores)": "softmax is what is to be written here", "exp(scores) / sum(exp(scores))": "softmax_overflow", "exp(scores - max(scores))": "softmax_unnormalized", "scores / sum(scores)": "softmax_missing"},
        ),
        "my_divisor": ("sqrt(d_k) * variance", {"sqrt(d_k)": "wrong", "d_k": "wrong", "sqrt(d_k * variance)": "wrong"}),
    },
    "04_scoring": {
        "my_additive_score": ("tanh(query @ query_weights + key @ key_weights) @ score_weights", {"(query @ query_weights + key @ key_weights) @ score_weights": "wrong", "tanh(query @ query_weights) @ score_weights": "wrong", "sum(tanh(query @ query_weights + key @ key_weights))": "wrong"}),
        "my_bilinear_score": ("query @ bilinear @ key", {"key @ bilinear @ query": "character 1", "query @ bilinear": "wrong", "sum(query) * sum(key)": "wrong"}),
    },
    "05_masking": {
        "my_masked_weights": (
            "i = arange(scores.shape[0])[:, None]\nj = arange(scores.shape[1])\nsoftmax(where((j <= i) & (j < length), scores, -inf))",
            {
                "j = arange(scores.shape[1])\nsoftmax(where(j < length, scores, -inf))": "mask_one_dropped",
                "i = arange(scores.shape[0])[:, None]\nj = arange(scores.shape[1])\nwhere((j <= i) & (j < length), softmax(scores), 0)": "mask_after_softmax",
                "i = arange(scores.shape[0])[:, None]\nj = arange(scores.shape[1])\nsoftmax(where((j >= i) & (j < length), scores, -inf))": "mask_transposed",
            },
        ),
    },
    "06_multi_head": {
        "my_merged_heads": (
            "reshape(permute(contexts, 1, 0, 2), contexts.shape[1], contexts.shape[0] * contexts.shape[2])",
            {"reshape(contexts, contexts.shape[1], contexts.shape[0] * contexts.shape[2])": "heads_unpermuted_merge", "sum(contexts, axis=0)": "wrong", "contexts": "wrong"},
        ),
    },
    "07_self_and_cross": {
        "my_aligned_question": (
            "softmax(passage @ question.T / sqrt(question.shape[1])) @ question",
            {"softmax(question @ passage.T / sqrt(3)) @ passage": "wrong", "softmax(passage @ question.T / sqrt(3), axis=0) @ question": "softmax_axis", "softmax(passage @ question.T) @ question": "no_scale"},
        ),
    },
    "08_positions": {
        "my_sinusoid": (
            "angle = position / 10000 ** (2 * floor(feature / 2) / d)\nwhere(feature - 2 * floor(feature / 2) == 0, sin(angle), cos(angle))",
            {
                "angle = position / 10000 ** (2 * (feature // 2) / d)\nnp.where(feature % 2 == 1, np.sin(angle), np.cos(angle))": "positions_cos_first",
                "angle = position / 10000 ** (feature / d)\nwhere(feature - 2 * floor(feature / 2) == 0, sin(angle), cos(angle))": "wrong",
                "angle = position / 10000 ** (2 * floor(feature / 2) / d)\nwhere(feature - 2 * floor(feature / 2) == 0, cos(angle), sin(angle))": "positions_cos_first",
                "sin(position / 10000 ** (2 * floor(feature / 2) / d))": "wrong",
            },
        ),
    },
    "09_feed_forward_and_norm": {
        "my_normalized": (
            "centred = x - mean(x, axis=1, keepdims=True)\ncentred / sqrt(mean(centred ** 2, axis=1, keepdims=True) + epsilon)",
            {
                "centred = x - mean(x, axis=0, keepdims=True)\ncentred / sqrt(mean(centred ** 2, axis=0, keepdims=True) + epsilon)": "wrong",
                "centred = x - mean(x, axis=1, keepdims=True)\ncentred / (sqrt(mean(centred ** 2, axis=1, keepdims=True)) + epsilon)": "norm_epsilon_outside",
                "x / sqrt(mean(x ** 2, axis=1, keepdims=True) + epsilon)": "rms_mean_subtracted",
            },
        ),
    },
    "10_encoder_layer": {
        "my_pre_norm_layer": (
            'y = x + multi_head_attention(layer_norm(x, weights, "norm1"), layer_norm(x, weights, "norm1"), weights, "self_attn", heads)\ny + feed_forward(layer_norm(y, weights, "norm2"), weights)',
            {
                'y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads), weights, "norm1")\nlayer_norm(y + feed_forward(y, weights), weights, "norm2")': "norm_placement",
                'y = x + multi_head_attention(layer_norm(x, weights, "norm1"), layer_norm(x, weights, "norm1"), weights, "self_attn", heads)\nfeed_forward(layer_norm(y, weights, "norm2"), weights)': "Right so far: y (residual1)",
                'n = layer_norm(x, weights, "norm1")\ny = x + multi_head_attention(n, n, weights, "self_attn", 1)\ny + feed_forward(layer_norm(y, weights, "norm2"), weights)': "Right so far: n (norm1.output)",
                'layer_norm(x, weights, "norm3")': "weights.norm3",
            },
        ),
    },
    "11_encoder_stack": {
        "my_parameter_count": ("layers * (4 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + 5 * d_model)",
                               {"layers * (4 * d_model ** 2 + 2 * d_model * d_ff)": "wrong", "layers * d_model": "wrong", "4 * (d_model * d_model + d_model)": "wrong"}),
    },
    "15_training": {
        "my_loss_gradient": ("p = softmax(logits)\nhot = targets[:, None] == arange(logits.shape[1])\n(p - hot) * (targets >= 0)[:, None] / sum(targets >= 0)",
                             {"softmax(logits) - (targets[:, None] == arange(logits.shape[1]))": "wrong", "softmax(logits)": "wrong", "-log(softmax(logits))": "wrong"}),
    },
    "17_story": {
        "my_cached_attention": (
            "keys = concat(past_keys, key, axis=0)\nvalues = concat(past_values, value, axis=0)\nreturn softmax(query @ keys.T / sqrt(key.shape[1])) @ values, keys, values",
            {"keys = concat(past_keys, key, axis=0)\nvalues = concat(past_values, value, axis=0)\nreturn softmax(query @ keys.T) @ values, keys, values": "no_scale",
             "softmax(query @ key.T) @ value, key, value": "wrong", "value": "expected several results"},
        ),
        "my_numbers_per_token": ("2 * layers * key_value_heads * d_k", {"layers * key_value_heads * d_k": "wrong", "2 * layers * d_k": "wrong", "layers": "wrong"}),
    },
    "21_recurrence": {
        "my_lstm_step": (
            "def gate(x): return 1 / (1 + np.exp(-x))\na = (x @ input_weights + input_bias + hidden @ recurrent_weights + recurrent_bias).reshape(4, -1)\nc = gate(a[1]) * cell + gate(a[0]) * np.tanh(a[2])\nreturn gate(a[3]) * np.tanh(c), c",
            {"a = (x @ input_weights + input_bias + hidden @ recurrent_weights + recurrent_bias).reshape(4, -1)\nc = sigmoid(a[0]) * cell + sigmoid(a[1]) * np.tanh(a[2])\nreturn sigmoid(a[3]) * np.tanh(c), c": "wrong",
             "return hidden, cell": "wrong", "a, b = x @ input_weights\nreturn a, b": "names for"},
        ),
    },
    "22_low_rank_and_talking_heads": {
        "my_mixed_heads": ("permute(permute(scores, 1, 2, 0) @ mixture, 2, 0, 1)", {"permute(scores, 1, 2, 0) @ mixture": "wrong", "scores": "wrong", "permute(permute(scores, 1, 2, 0) @ mixture.T, 2, 0, 1)": "wrong"}),
    },
    "23_pitfalls": {
        "my_repaired_weights": ("weights / sum(weights, axis=1)[:, None]", {"weights / sum(weights, axis=0)": "wrong", "weights": "wrong", "weights / sum(weights)": "wrong"}),
    },
    "14_gradients": {
        "my_score_gradient": (
            "weights * (arriving - sum(weights * arriving, axis=1, keepdims=True))",
            {"weights * (1 - weights) * arriving": "grad_softmax_diagonal", "weights * arriving": "wrong", "weights * (arriving - sum(arriving, axis=1, keepdims=True))": "wrong"},
        ),
        "my_key_gradient": ("arriving.T @ queries / sqrt(queries.shape[1])", {"arriving.T @ queries": "grad_scale", "arriving @ queries": "character 1", "arriving.T @ queries / queries.shape[1]": "wrong"}),
    },
    "16_rotary_and_alibi": {
        "my_turned_pair": (
            "x = pair[:, 0]\ny = pair[:, 1]\nconcat((x * cos(angle) - y * sin(angle))[:, None], (x * sin(angle) + y * cos(angle))[:, None], axis=1)",
            {"pair * cos(angle)[:, None]": "wrong", "x = pair[:, 0]\ny = pair[:, 1]\nconcat((x * cos(angle) + y * sin(angle))[:, None], (y * cos(angle) - x * sin(angle))[:, None], axis=1)": "rotary_sign", "pair": "wrong"},
        ),
        "my_alibi_bias": ("-slope * abs(query - key)", {"slope * (query - key)": "wrong", "-slope * abs(query - key) ** 2": "wrong", "-(query - key)": "wrong"}),
    },
    "24_smaller_caches": {
        "my_absorbed_score": (
            "score = key_weights @ query @ latent + rotary_query @ shared_key\nscore / sqrt(query.shape[0] + rotary_query.shape[0])",
            {"score = key_weights @ query @ latent + rotary_query @ shared_key\nscore / sqrt(latent.shape[0] + rotary_query.shape[0])": "scale_absorbed", "key_weights @ query @ latent + rotary_query @ shared_key": "no_scale",
             "score = key_weights @ query @ latent + rotary_query @ shared_key\nscore / (query.shape[0] + rotary_query.shape[0])": "scale_d_k"},
        ),
    },
    "25_windows_and_sinks": {
        "my_window_mask": (
            "own = arange(n)[:, None] + (m - n)\n(arange(m) <= own) & ((arange(m) > own - width) | (arange(m) < kept))",
            {"own = arange(n)[:, None]\n(arange(m) <= own) & ((arange(m) > own - width) | (arange(m) < kept))": "window_top_left",
             "own = arange(n)[:, None] + (m - n)\n(arange(m) <= own) & ((arange(m) >= own - width) | (arange(m) < kept))": "window_off_by_one",
             "own = arange(n)[:, None] + (m - n)\n(arange(m) <= own) & (arange(m) > own - width)": "sink_tokens_missing"},
        ),
    },
    "26_experts": {
        "my_mixture": (
            "scores = softmax(router_logits)\nchosen = where(top_k(scores, top), scores, 0)\nchosen / where(is_normalized, sum(chosen), 1) @ expert_outputs + shared_output",
            {"scores = softmax(router_logits)\nwhere(top_k(scores, top), scores, 0) @ expert_outputs + shared_output": "experts_not_normalized",
             "softmax(where(top_k(router_logits, top), router_logits, -inf)) @ expert_outputs + shared_output": "experts_renormalized",
             "scores = softmax(router_logits)\nchosen = where(top_k(scores, top), scores, 0)\nchosen / where(is_normalized, sum(chosen), 1) @ expert_outputs": "experts_shared_missing"},
        ),
    },
    "27_state": {
        "my_delta_step": (
            "decayed = decay * previous_state\ndecayed + outer(key, beta * (value - key @ decayed))",
            {"decay * previous_state + outer(key, beta * (value - key @ previous_state))": "delta_error_before_decay",
             "decay * previous_state + outer(key, beta * value)": "delta_not_subtracted", "decayed = decay * previous_state\ndecayed + outer(key, value - key @ decayed)": "delta_beta_missing"},
        ),
    },
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/favicon.ico":
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()


class Reader:
    def __init__(self, browser, site, address):
        self.browser, self.site, self.address = browser, site, address
        self.problems, self.place = [], ""

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


def check_lesson(reader, page, lesson):
    reader.open(page)
    before = reader.run(TEXTS)
    took = reader.timed(lambda: reader.run("document.querySelector('.lab-open').click()"), "the first run does not come")
    reader.expect("all verified" in reader.badge() and reader.trouble() == "", f"the example: {reader.badge()} {reader.trouble()}")
    after = reader.run(TEXTS)
    differing = [(a, b) for a, b in zip(before, after) if a != b]
    reader.expect(not differing, f"the example's numbers, computed here, read otherwise: {differing[:2]}")
    missing = reader.run("return [...document.querySelectorAll('.not-computed')].map(e => e.dataset.live)")
    reader.expect(not missing, f"{missing[:5]} are called not computed")
    edit = None
    names = reader.run("return [...document.querySelectorAll('.lab-names button')].map(b => b.dataset.name)")
    cell = reader.run("return document.querySelector('td.given:not([data-cell*=length])')?.dataset.cell ?? null")
    if cell:
        set_cell = "const c = document.querySelector(`td.given[data-cell=\"${arguments[0]}\"]`); c.focus(); c.textContent = arguments[1]; c.dispatchEvent(new Event('input', {bubbles: true}))"
        edit = reader.timed(lambda: reader.run(set_cell, cell, "1.5"), "an edited cell changes nothing")
        changed = [b[0] for a, b in zip(after, reader.run(TEXTS)) if a != b]
        reader.expect(changed, f"nothing follows {cell}")
        reader.expect("all verified" in reader.badge(), f"{cell} edited: {reader.badge()} {reader.trouble()}")
        reader.run(set_cell, cell, "x")
        reader.expect(reader.trouble() == f'{cell}: "x" is no number', f"a letter: {reader.trouble()}")
        reader.timed(lambda: reader.run("document.querySelector('.lab-reset').click()"), "reset does nothing")
        reader.expect(reader.run(TEXTS) == after, "reset does not give the example back")
    return took, edit, len(before), names


def check_bar(reader):
    """Lesson 1 by hand."""
    reader.open("lesson_01_single_query.html")
    reader.timed(lambda: reader.run("document.querySelector('.contents span.from-run.one[data-live^=weights]').click()"), "a number opens nothing")
    reader.wait("return !document.querySelector('.lab-explained').hidden", "no arithmetic")
    reader.expect("softmax(scores)" in reader.run("return document.querySelector('.lab-explained').textContent"), "no arithmetic of a weight")
    reader.run("document.querySelector('.lab-explained pre button').click()")
    reader.wait("return document.querySelector('.lab-explained').textContent.includes('keys @ query')", "a name in the arithmetic opens nothing")
    reader.run("document.querySelector('.lab-open').click()")
    choose = "const s = [...document.querySelectorAll('.lab select')].find(s => [...s.options].some(o => o.value === arguments[0])); s.value = arguments[0]; s.dispatchEvent(new Event('change'))"
    reader.timed(lambda: reader.run(choose, "softmax_unnormalized"), "a mistake changes nothing")
    reader.expect("does not follow from its formula" in reader.badge(), f"a mistake: {reader.badge()}")
    marked = reader.run("return [...document.querySelectorAll('.contents .changed')].map(e => e.dataset.live)")
    reader.expect("weights:.8f" in marked and not any(live.startswith("scores") for live in marked), f"marked are {marked}")
    reader.expect("no longer so" in reader.run("return document.querySelector('.lab-claims').textContent"), "no claim is said to hold no longer")
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
    reader.open("lesson_01_single_query.html", from_disk=True)
    reader.timed(lambda: reader.run("document.querySelector('.lab-open').click()"), "from the disk nothing is computed")
    reader.expect("all verified" in reader.badge(), f"from the disk: {reader.badge()}")


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
    reader.wait("return document.querySelector('.lab-exercise section') !== null || document.querySelector('.lab-exercise').textContent.includes('needs a loop')", "no exercise comes")
    return reader.run("return [...document.querySelectorAll('.lab-exercise section')].map(s => s.dataset.name)")


def is_straight(function):
    """True where a function has what the page understands: names, formulas, functions and return."""
    return not any(isinstance(node, (ast.For, ast.While, ast.If, ast.comprehension)) for node in ast.walk(function))


def check_exercises(reader):
    """Each lesson's own solution is right in its page, as it stands in the file, and what is wrong is named."""
    solved = 0
    for path in sorted((ROOT / "tests" / "exercises").glob("[0-9]*.py")):
        lesson, solution = path.stem, path.read_text(encoding="utf-8")
        functions = {node.name: node for node in ast.parse(solution).body if isinstance(node, ast.FunctionDef)}
        names = open_exercise(reader, lesson)
        reader.expect(set(names) <= functions.keys() and EXERCISES.get(lesson, {}).keys() <= set(names), f"the page asks for {names}")
        for name in names:
            state, said = verdict_on(reader, name, solution)
            if is_straight(functions[name]):
                solved += 1
                reader.expect(state == "right", f"{name}: its own solution is {said[:300]!r}")
            else:
                reader.expect(state == "wrong" and "the page has no" in said, f"{name}: of a loop is said {said[:200]!r}")
        all_right = all(is_straight(functions[name]) for name in names) and names
        reader.expect(reader.run("return localStorage.getItem(`attn-done-${arguments[0]}`)", lesson[:2]) == ("1" if all_right else None), "a lesson that is done has no tick, or one that isn't has")
        for name, (right, wrong) in EXERCISES.get(lesson, {}).items():
            state, said = verdict_on(reader, name, right)
            reader.expect(state == "right", f"{name} = {right}: found {said[:300]!r}")
            for lines, word in wrong.items():
                state, said = verdict_on(reader, name, lines)
                reader.expect(state == "wrong" and word in said, f"{name} = {lines}: expected {word!r}, found {said[:300]!r}")
                reader.expect("The arithmetic" not in said and "The formulas" not in said, f"{name} = {lines}: the answer comes at once")
    reader.expect(solved >= 28, f"only {solved} functions are solved in their pages")


def check_hints(reader):
    """What is wrong, then which step, then the line; what was written is there again at the next visit."""
    open_exercise(reader, "01_single_query")
    state, said = verdict_on(reader, "my_weights", "exp(scores)")
    reader.expect(said.startswith("Softmax's exponentials") or "softmax_unnormalized" in said.split("\n")[0], f"the mistake does not come first: {said[:200]!r}")
    section = SECTION.replace("arguments[0]", "'my_weights'")
    for title, new in (("Which step?", "The arithmetic"), ("Show the line", "weights = softmax(scores)")):
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
        reader.run(f"{button}.scrollIntoView()")
        reader.wait(f"{first} === {json.dumps(before)}", f"experiment {stage} does not begin with {before}")
        reader.run(f"{button}.focus()")
        reader.browser.press(press)
        reader.wait(f"{first} === {json.dumps(after)}", f"the button of experiment {stage} does not give {after}")
        reader.run(f"{button}.click()")
        reader.wait(f"{first} === {json.dumps(before)}", f"the button of experiment {stage}, pressed again, does not give {before} back")
    reader.expect(reader.run("return document.getElementById('picture-main_page-one_head').closest('figure').hidden"), "the still picture stands beside the experiment")
    told = "return document.querySelector('.told select').selectedOptions[0].text + ' ' + document.querySelector('.told b').textContent"
    reader.expect(reader.run(told) == "kite blue", f"told is {reader.run(told)}")
    reader.run("document.querySelectorAll('.large-map .row')[4].dispatchEvent(new MouseEvent('click'))")
    reader.wait(f"{told} === 'ball red'", "a row that is clicked is not told")
    reader.run(REPLACE, 0, 3, "green")
    reader.wait(f"{told} === 'ball green'", "a word that is replaced is not in the map")


def check_moving(reader):
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

    reader.open("lesson_03_scale_and_softmax.html")
    reader.run("document.querySelector('.moving').scrollIntoView()")
    reader.wait("return document.querySelectorAll('.moving .bar').length === 8", "no weights of eight keys")
    slope = "return Number(/slope of softmax ([\\d.]+)/.exec(document.querySelector('.moving [role=status]').textContent)?.[1])"
    slide = "const s = document.querySelectorAll('.moving input')[arguments[0]]; s.value = arguments[1]; s.dispatchEvent(new Event('input'))"
    reader.run(slide, 0, 10)
    reader.wait(slope.replace("return", "return 0.05 >"), "1024 features do not saturate softmax")
    reader.run(slide, 1, 0.5)
    reader.wait(slope.replace("return", "return 0.05 <"), "the root does not bring the slope back")

    check_landing(reader)
    for page in ("lesson_06_multi_head.html", "lesson_17_story.html"):
        reader.open(page)
        reader.run("document.querySelector('[data-moving=story]').scrollIntoView()")
        reader.wait("return document.querySelector('.stage[data-ready]') !== null", "the small model computes nothing")
        reader.expect(reader.run("return document.querySelectorAll('.moving .maps svg').length") == 8, "no eight maps")
        first = "return document.querySelector('.moving .chance')?.textContent"
        reader.expect(reader.run(first).startswith("She"), f"after the sentence comes {reader.run(first)}")
        before = reader.run(first)
        reader.run("document.querySelectorAll('.moving .maps input')[4].click()")
        reader.wait(f"{first} !== {json.dumps(before)}", "a head that is off changes nothing")
        reader.run("document.querySelectorAll('.moving .maps input')[4].click()")
        reader.wait(f"{first} === {json.dumps(before)}", "a head that is on again does not give the words back")
        reader.run("document.querySelector('.moving .chance').click()")
        reader.wait("return document.querySelectorAll('.moving .words select').length === 8", "a bar adds no word") # seven words, and the one more
        reader.run(REPLACE, 0, 0, "Tom")
        reader.wait("return document.querySelector('.moving .words select').value === 'Tom' && document.querySelector('.moving .chance').textContent !== null", "the first word can't be replaced")
        reader.run(REPLACE, 0, 6, "")
        reader.wait(f"{first}.startsWith('He')", "with Tom for Lily, and the seventh word away, He does not follow")

    reader.open("lesson_25_windows_and_sinks.html")
    reader.run("document.querySelector('.moving').scrollIntoView()")
    reader.wait("return document.querySelector('.stage').dataset.ready === '6 1'", "no run in a window")
    reader.expect(reader.run("return document.querySelectorAll('.moving .maps svg').length") == 8, "no eight maps")
    kept = "return document.querySelectorAll('.moving .chance')[6].textContent"
    reader.expect(not reader.run(kept).startswith("Lily"), "a window of six words keeps the name")
    reader.run(slide, 0, 12)
    reader.wait(kept + ".startsWith('Lily')", "a window of twelve words with the first kept loses the name")
    reader.run(slide, 1, 0)
    reader.wait("return document.querySelector('.stage').dataset.ready === '12 0'", "the first word is still kept")
    reader.expect(not reader.run(kept).startswith("Lily"), "a window of twelve words without the first keeps the name")

    reader.open("lesson_26_experts.html")
    reader.run("document.querySelector('.moving').scrollIntoView()")
    reader.wait("return document.querySelector('.stage').dataset.ready === '2 -1'", "no run of the mixture")
    routed = "return document.querySelectorAll('.moving .chance')[5].textContent"
    trained = reader.run("return document.querySelectorAll('.moving .chance')[0].textContent")
    reader.expect(reader.run(routed) == trained, "two experts of each word, none of them off, is not the model as trained")
    reader.run(slide, 2, 5)
    reader.wait("return document.querySelector('.stage').dataset.ready === '2 5'", "an expert can not be switched off")
    reader.expect(reader.run(routed) != trained, "an expert that is off changes nothing")

    reader.open("lesson_27_state.html")
    reader.run("document.querySelector('.moving').scrollIntoView()")
    recalled = "return [...document.querySelectorAll('.moving .pairs')].map(row => row.querySelectorAll('.recalled').length)"
    reader.wait("return document.querySelector('.stage').dataset.ready === '6 0.90'", "no run with six pairs")
    reader.run(slide, 0, 24)
    reader.wait("return document.querySelector('.stage').dataset.ready === '24 0.90'", "24 pairs are not computed")
    attention, summed, faded, delta = reader.run(recalled)
    reader.expect(attention > summed and attention > delta and attention > faded, f"attention recalls {attention} of 24 pairs, states {summed}, {faded}, {delta}")

    reader.open("lesson_24_smaller_caches.html")
    reader.run("document.querySelector('.moving').scrollIntoView()")
    reader.wait("return document.querySelectorAll('.moving .bar').length === 3", "no three caches")
    reader.run(slide, 1, 2)
    reader.wait("return document.querySelector('.moving [role=status]').textContent.includes('groups keep 0.125')", "four of 32 heads keep no eighth")


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
        for page, lesson in pages.items():
            took, edit, count, _ = check_lesson(reader, page, lesson)
            numbers += count
            reader.expect(took < (30 if lesson == "14_gradients" else FIRST_RESULT * SLOW_MACHINE), f"the first result takes {took:.1f} s")
            if lesson < "11" and edit is not None:
                reader.expect(edit < EDIT * SLOW_MACHINE, f"an edit takes {edit:.2f} s")
            print(f"{lesson}: first result {took:.2f} s, an edit {'-' if edit is None else f'{edit:.2f} s'}, {count} places", flush=True)
        check_bar(reader)
        check_exercises(reader)
        check_hints(reader)
        check_moving(reader)
        if arguments.screenshots:
            screenshots(reader, arguments.screenshots)
    print(*reader.problems, sep="\n")
    print(f"{len(pages)} lessons compute, {numbers} places follow them: {len(reader.problems)} problems")
    return 1 if reader.problems else 0


if __name__ == "__main__":
    sys.exit(main())
