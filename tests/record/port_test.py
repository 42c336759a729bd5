#!/usr/bin/env python3
"""Does attn.check_port() judge a port by its last logits, and read what lies in other formats? port_test.py [ATTN]

The ports are computed here, by NumPy. Without PyTorch or gguf their formats are not tried, which is printed."""

import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from recorded import np

try:
    import torch
except ImportError:
    torch = None
try:
    import gguf
except ImportError:
    gguf = None

if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
    os.environ["ATTN"] = os.path.abspath(sys.argv.pop(1))

import attn
from attn.formats import read_model
from attn.program import call

PYTHON = Path(__file__).resolve().parents[2] / "python"
HEADS, KV_HEADS, WIDTH, HIDDEN, VOCABULARY, LAYERS, EPSILON, BASE = 4, 2, 32, 48, 40, 2, 1e-5, 500000.0
CONFIG = {"model_type": "llama", "hidden_size": WIDTH, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "vocab_size": VOCABULARY, "rms_norm_eps": EPSILON, "tie_word_embeddings": False,
          "max_position_embeddings": 64, "rope_parameters": {"rope_type": "default", "rope_theta": BASE}}
IDS = np.array([7, 3, 31, 12, 3, 25, 9])


def drawn_weights():
    random, head = np.random.default_rng(53), WIDTH // HEADS

    def matrix(rows, columns):
        return (1.2 * random.standard_normal((rows, columns)) / columns**0.5).astype(np.float32)

    found = {"model.embed_tokens.weight": matrix(VOCABULARY, WIDTH) * 4, "lm_head.weight": matrix(VOCABULARY, WIDTH),
             "model.norm.weight": (1 + 0.3 * random.standard_normal(WIDTH)).astype(np.float32)}
    for i in range(LAYERS):
        for name, rows, columns in (("self_attn.q_proj", WIDTH, WIDTH), ("self_attn.k_proj", KV_HEADS * head, WIDTH),
                                    ("self_attn.v_proj", KV_HEADS * head, WIDTH), ("self_attn.o_proj", WIDTH, WIDTH),
                                    ("mlp.gate_proj", HIDDEN, WIDTH), ("mlp.up_proj", HIDDEN, WIDTH), ("mlp.down_proj", WIDTH, HIDDEN)):
            found[f"model.layers.{i}.{name}.weight"] = matrix(rows, columns)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"model.layers.{i}.{name}.weight"] = (1 + 0.3 * random.standard_normal(WIDTH)).astype(np.float32)
    return found


WEIGHTS = drawn_weights()


def rms_norm(x, gain):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(EPSILON)) * gain


def rotated(x, mistake):
    half = x.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * BASE ** (-np.arange(half) / half)
    c, s = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    if mistake == "rotary_layout":
        even, odd = x[..., ::2], x[..., 1::2]
        return np.stack([even * c - odd * s, odd * c + even * s], -1).reshape(x.shape)
    first, second = x[..., :half], x[..., half:]
    return np.concatenate([first * c - second * s, second * c + first * s], -1)


def port(weights, ids=IDS, mistake=""):
    """The logits of all tokens by somebody's own Llama in float32, and what its layers gave."""
    states, n = [], len(ids)
    x = weights["model.embed_tokens.weight"][ids]
    for i in range(LAYERS):
        w = {name.split(f"layers.{i}.")[1]: array for name, array in weights.items() if f"layers.{i}." in name}
        normed = rms_norm(x, w["input_layernorm.weight"])
        q, k, v = ((normed @ w[f"self_attn.{name}_proj.weight"].T).reshape(n, -1, WIDTH // HEADS).swapaxes(0, 1) for name in "qkv")
        q, k = (rotated(one, "rotary_layout" if mistake == f"rotary_layout in layer {i}" else mistake) for one in (q, k))
        k, v = (np.tile(one, (HEADS // KV_HEADS, 1, 1)) if mistake == "kv_tiled" else one.repeat(HEADS // KV_HEADS, 0) for one in (k, v))
        scores = q @ k.swapaxes(1, 2) / np.float32(1 if mistake == "no_scale" else (WIDTH // HEADS) ** 0.5)
        scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf).astype(np.float32)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        context = exponentials / exponentials.sum(-1, keepdims=True) @ v
        x = x + context.swapaxes(0, 1).reshape(n, -1) @ w["self_attn.o_proj.weight"].T
        normed = rms_norm(x, w["post_attention_layernorm.weight"])
        gate, up = normed @ w["mlp.gate_proj.weight"].T, normed @ w["mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w["mlp.down_proj.weight"].T
        if mistake == "strange":  # none that has a name
            x = x + np.float32(0.1) * x[::-1]
        states.append(x)
    return (rms_norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T).astype(np.float32), states


def to_float16(weights):
    return {name: array.astype(np.float16).astype(np.float32) for name, array in weights.items()}


def to_bfloat16(weights):
    return {name: torch.from_numpy(array).bfloat16().float().numpy() for name, array in weights.items()}


class Port(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.model = self.folder / "model"
        self.model.mkdir()
        (self.model / "config.json").write_text(json.dumps(CONFIG))
        np.savez(self.model / "model.npz", **WEIGHTS)

    def folder_with(self, name, write):
        place = self.folder / name
        place.mkdir()
        (place / "config.json").write_text(json.dumps(CONFIG))
        write(place)
        return place

    def refused(self, saying, call):
        with self.assertRaises(attn.Error) as refused:
            call()
        self.assertIn(saying, str(refused.exception))
        self.assertNotIn("\n", str(refused.exception))

    def port(self, *words):
        return subprocess.run([sys.executable, "-m", "attn", "port", *map(str, words)], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(PYTHON)})


class Verdict(Port):
    def test_a_right_port_is_the_same(self):
        report = attn.check_port(self.model, IDS, port(WEIGHTS)[0][-1])
        self.assertEqual(report.verdict, "the same")
        self.assertEqual(report.assumed, "weights as they lie; computed in float32")
        self.assertIn("the logits of the last of 7 tokens", str(report))
        self.assertEqual(attn.check_port(self.model, IDS[None], port(WEIGHTS)[0][None]).checked, "the logits of all of 7 tokens")

    def test_a_right_port_that_rounds_its_weights_is_the_same(self):
        for rounded, type in ((to_float16, "float16"), *((to_bfloat16, "bfloat16") for _ in [0] if torch)):
            report = attn.check_port(self.model, IDS, port(rounded(WEIGHTS))[0][-1])
            self.assertEqual((report.verdict, report.assumed), ("the same", f"weights rounded to {type}; computed in float32"))

    def test_a_mistake_is_named_whatever_the_weights_were_rounded_to(self):
        for mistake, rounded, assumed in (("kv_tiled", lambda weights: weights, "as they lie"), ("rotary_layout", to_float16, "rounded to float16"),
                                          *(("no_scale", to_bfloat16, "rounded to bfloat16") for _ in [0] if torch)):
            report = attn.check_port(self.model, IDS, port(rounded(WEIGHTS), mistake=mistake)[0][-1])
            self.assertEqual([one.id for one in report.mistakes], [mistake])
            self.assertEqual((report.verdict, report.assumed), ("different", f"weights {assumed}; computed in float32"))

    def test_a_mistake_in_one_layer_is_named_too(self):
        logits = port(WEIGHTS, mistake="rotary_layout in layer 1")[0][-1]
        trace = attn.run("model", self.model, ids=IDS)
        self.assertEqual(trace.diff({"logits": logits}, everywhere=True).mistakes, ())
        self.refused("no effect", lambda: call("diff", trace.path, trace.path, "--everywhere"))
        (mistake,) = attn.check_port(self.model, IDS, logits, weights="as they lie").mistakes
        self.assertEqual(mistake.id, "rotary_layout")
        self.assertTrue(all(step.startswith("layers.1.") for step in mistake.steps))

    def test_what_the_caller_says_is_not_tried_otherwise(self):
        logits = port(to_float16(WEIGHTS))[0][-1]
        report = attn.check_port(self.model, IDS, logits, weights="float16", type="float32")
        self.assertEqual(report.verdict, "the same")
        self.assertNotEqual(attn.check_port(self.model, IDS, logits, weights="as they lie", type="float32").verdict, "the same")

    def test_a_mistake_without_a_name_says_what_to_dump_and_the_dump_where_it_is(self):
        logits, states = port(WEIGHTS, mistake="strange")
        report = attn.check_port(self.model, IDS, logits[-1])
        self.assertEqual((report.verdict, report.mistakes), ("different", ()))
        self.assertEqual(report.dump_next, ("embedded", "layers.0.output", "layers.1.output"))
        self.assertIn("tried: as they lie, rounded to float16, ", report.assumed)
        self.assertIn("to decide, dump embedded", str(report))
        dump = {f"layers.{i}.output": state for i, state in enumerate(states)}
        report = attn.check_port(self.model, IDS, logits[-1], dump=dump, weights="as they lie")
        self.assertEqual(report.first_wrong.step, "layers.0.output")

    def test_the_command_line_says_the_same(self):
        np.save(self.folder / "logits.npy", port(WEIGHTS, mistake="kv_tiled")[0][-1])
        words = ["--model", self.model, "--tokens", ",".join(map(str, IDS)), "--logits", self.folder / "logits.npy"]
        ended = self.port(*words)
        self.assertEqual((ended.returncode, ended.stderr), (1, ""))
        self.assertIn("looks like kv_tiled", ended.stdout)
        ended = self.port(*words, "--json")
        found = json.loads(ended.stdout)
        self.assertEqual((found["looks_like"][0]["id"], found["assumed"]), ("kv_tiled", "weights as they lie; computed in float32"))


class Formats(Port):
    """What is read is what was written, by the library whose format it is."""

    def expect_weights(self, path):
        found = read_model(path).read()
        self.assertEqual(set(found), set(WEIGHTS))
        for name, array in WEIGHTS.items():
            np.testing.assert_array_equal(found[name], array)

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_weights_of_pytorch(self):
        state = {name: torch.from_numpy(array) for name, array in WEIGHTS.items()}
        self.expect_weights(self.folder_with("bin", lambda place: torch.save(state, place / "pytorch_model.bin")))
        self.expect_weights(self.folder_with("checkpoint", lambda place: torch.save({"model": state, "step": 3}, place / "ckpt.pt")))

        def in_parts(place):
            parts = {"a.bin": list(state)[:5], "b.bin": list(state)[5:]}
            for part, names in parts.items():
                torch.save({name: state[name] for name in names}, place / part)
            listing = {name: part for part, names in parts.items() for name in names}
            (place / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": listing}))

        parts = self.folder_with("parts", in_parts)
        self.expect_weights(parts)
        trace = attn.run("model", parts, ids=IDS)  # the program's own commands take them, too
        np.testing.assert_allclose(trace["output"], port(WEIGHTS)[0], atol=1e-4)

    @unittest.skipUnless(gguf, "needs gguf")
    def test_weights_of_gguf(self):
        for kind in (None, gguf.GGMLQuantizationType.Q8_0):
            path = self.folder / f"{kind}.gguf"
            stored = write_gguf(path, kind)
            found = read_model(path)
            self.assertEqual({**json.loads(found.config), "rope_parameters": CONFIG["rope_parameters"]},
                             {**CONFIG, "head_dim": WIDTH // HEADS, "rope_theta": BASE})
            for name, array in found.read().items():
                np.testing.assert_array_equal(array, stored[name])
            report = attn.check_port(path, IDS, port(stored, mistake="kv_tiled")[0][-1])
            self.assertEqual([one.id for one in report.mistakes], ["kv_tiled"])
            self.assertIn("dequantised from F32", report.assumed)

    def test_logits(self):
        logits = port(WEIGHTS)[0][-1]
        logits.tofile(self.folder / "a.bin")
        np.save(self.folder / "a.npy", logits)
        np.savez(self.folder / "a.npz", logits=logits)
        (self.folder / "a.txt").write_text("".join(f"{i}: {number:.9g}\n" for i, number in enumerate(logits)))
        header = json.dumps({"logits": {"dtype": "F32", "shape": [len(logits)], "data_offsets": [0, logits.nbytes]}}).encode()
        (self.folder / "a.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + logits.tobytes())
        ends = ["bin", "npy", "npz", "txt", "safetensors"]
        if torch:
            torch.save(torch.from_numpy(logits), self.folder / "a.pt")
            ends.append("pt")
        for end in ends:
            (found,) = attn.read_dump(self.folder / f"a.{end}").values()
            np.testing.assert_array_equal(found, logits)
        (found,) = attn.read_dump(self.folder / "a.bin", shape=(4, len(logits) // 4), dtype="float32").values()
        self.assertEqual(found.shape, (4, len(logits) // 4))

    def test_dumps_in_folders(self):
        place = self.folder / "dump" / "layers" / "0"
        place.mkdir(parents=True)
        np.save(place / "output.npy", WEIGHTS["lm_head.weight"])
        self.assertEqual(list(attn.read_dump(self.folder / "dump")), ["layers.0.output"])
        if torch:
            torch.save({"value": torch.ones(2, 3).bfloat16(), "meta": {"step": 1}}, place / "mlp.pt")  # as SGLang's dumper does
            torch.save({"a": [torch.ones(2), torch.zeros(3)], "n": 3}, place / "others.pt")
            found = attn.read_dump(self.folder / "dump")
            self.assertEqual({name: array.shape for name, array in found.items()},
                             {"layers.0.output": (40, 32), "layers.0.mlp": (2, 3), "layers.0.others.a.0": (2,), "layers.0.others.a.1": (3,)})

    def test_transformers_debugger_has_what_each_module_gave(self):
        place = self.folder / "debug"
        place.mkdir()
        (place / "LlamaForCausalLM_debug_tree_FULL_TENSORS.json").write_text("{}")
        self.refused("use_repr=False", lambda: attn.read_dump(place))
        header = json.dumps({"data": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
        for name in ("LlamaForCausalLM.model.layers.0.mlp_outputs", "LlamaForCausalLM.model.layers.0.mlp_inputs_args_0",
                     "LlamaForCausalLM.model.layers.0_outputs_0"):
            (place / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\x80\x3f\x00\xc0")
        found = attn.read_dump(place)
        self.assertEqual(sorted(found), ["model.layers.0.0", "model.layers.0.mlp"])
        np.testing.assert_array_equal(found["model.layers.0.mlp"], [1, -2])


def write_gguf(path, kind):
    """By the library, as llama.cpp's converter lays tensors; what the file has then, under transformers' names."""
    file, stored, head = gguf.GGUFWriter(path, "llama"), {}, WIDTH // HEADS
    file.add_context_length(64), file.add_embedding_length(WIDTH), file.add_block_count(LAYERS), file.add_feed_forward_length(HIDDEN)
    file.add_head_count(HEADS), file.add_head_count_kv(KV_HEADS), file.add_layer_norm_rms_eps(EPSILON), file.add_rope_freq_base(BASE)
    file.add_key_length(head), file.add_value_length(head), file.add_rope_dimension_count(head), file.add_vocab_size(VOCABULARY)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, LAYERS)
    for name, array in WEIGHTS.items():
        heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.split(".")[-2])
        order = np.arange(len(array))
        if heads:
            order = order.reshape(heads, 2, -1).swapaxes(1, 2).ravel()
        laid, called = np.ascontiguousarray(array[order]), names.get_name(name, try_suffixes=(".weight",))
        if kind and array.ndim == 2 and array.shape[1] % 32 == 0:
            quantised = gguf.quants.quantize(laid, kind)
            file.add_tensor(called, quantised, raw_dtype=kind)
            laid = gguf.quants.dequantize(quantised, kind)
        else:
            file.add_tensor(called, laid)
        stored[name] = laid[np.argsort(order)]
    file.write_header_to_file(), file.write_kv_data_to_file(), file.write_tensors_to_file(), file.close()
    return stored


class Hostile(Port):
    """What nobody would mean, or somebody would: one line that names the file and what was expected."""

    def test_what_can_not_be_used(self):
        logits, f = port(WEIGHTS)[0][-1], self.folder

        def file(name, data):
            (f / name).write_bytes(data)
            return f / name

        def only(name, data):
            return self.folder_with("of-" + name.replace("/", "-"), lambda place: (place / name).write_bytes(data))

        def model(path):
            return lambda: attn.check_port(path, IDS, logits)

        def given(**others):
            return lambda: attn.check_port(**{"model": self.model, "ids": IDS, "logits": logits, **others})

        empty = f / "empty"
        empty.mkdir()
        (empty / "config.json").write_text("{}")
        two = self.folder_with("two", lambda place: [(place / name).write_bytes(b"") for name in ("a.pt", "b.gguf")])
        header = json.dumps({"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 4]}}).encode()
        outside = self.folder_with("outside", lambda place: (place / "pytorch_model.bin.index.json").write_text('{"weight_map": {"a": "../x.bin"}}'))
        rows = [
            ("no such folder", model(f / "nothing")), ("no weights", model(empty)), ("2 files of weights", model(two)),
            ("config.json is missing", model(file("alone.safetensors", b""))), ("'../x.bin'", model(outside)), ("is no model", model(file("a.onnx", b""))),
            ("config.json", model(self.folder_with("json", lambda place: [(place / "config.json").write_text("{"), (place / "model.npz").write_bytes(b"")]))),
            ("can't be read", model(only("a.safetensors", b"\x08" + 7 * b"\0" + b"[1,2,3]}"))),
            ("says that its header has", model(only("c.safetensors", b"\xff" * 8))),
            ("can't be read", model(only("b.safetensors", struct.pack("<Q", len(header)) + header + b"1234"))),
            ("no such file", given(logits=f / "nothing.npy")), ("no known format", given(logits=file("a.xyz", b"1"))),
            ("3 bytes", given(logits=file("a.bin", b"123"))), ("0 bytes", given(logits=file("b.bin", b""))),
            ("expected 2 x 2 numbers", given(logits=file("c.bin", b"12345678"), shape=(2, 2))), ("dtype is 'int4'", given(logits=file("d.bin", b"1234"), dtype="int4")),
            ("no file of logits", given(logits=file("a.txt", b"0: 1\n2: 1\n"))), ("no file of logits", given(logits=file("b.txt", b""))),
            ("eval-callback", given(logits=file("d.txt", b"ggml_debug: l_out-0 = (f32) ADD(a{2, 1, 1, 1}, }) = {2, 1, 1, 1}\n  [ 1.0, 2.0 ]\n  sum = 3.0\n"))),
            ("can't be read", given(logits=file("c.txt", b"\xff\xfe"))), ("can't be read", given(logits=file("a.npz", b"PK\3\4"))),
            ("can't be read", given(logits=file("a.npy", b"\x93NUMPY\1\0\x46\0{'descr': '|O', 'fortran_order': False, 'shape': (1,), }" + 80 * b" "))),
            ("expected (40,)", given(logits=logits[:-1])), ("expected real numbers", given(logits=np.arange(40))), ("expected real numbers", given(logits=np.zeros((2, 3, 40)))),
            ("expected real numbers", given(logits=np.zeros(0))), ("no effect", given(shape=(2, 2))), ("is of the type object", given(logits={"a": 1})),
            ("expected whole numbers", given(ids=[1.5])), ("expected whole numbers", given(ids=[[1, 2], [3, 4]])), ("expected whole numbers", given(ids=[])),
            ("ids", given(ids=[-1])), ("ids", given(ids=[40])), ("type is", given(type="float8")), ("weights is", given(weights="int3")),
            ("names", given(names="nobody")), ("expected arrays by name", given(dump=3)), ("has no arrays", given(dump=empty)),
        ]
        if torch:
            rows += [("can't be read", model(only("d.pt", b"PK\3\4"))), ("can't be read", model(only("e.pt", b""))),
                     ("can't be read", given(logits=file("f.pt", b"cos\nsystem\n(S'touch hacked'\ntR."))),
                     ("expected tensors by name", model(self.folder_with("g", lambda place: torch.save({"step": 3}, place / "g.pt")))),
                     ("expected tensors by name", model(self.folder_with("h", lambda place: torch.save([torch.ones(2)], place / "h.pt"))))]
        if gguf:
            rows += [("can't be read", model(file("a.gguf", b"GGUF"))), ("can't be read", model(file("b.gguf", b"")))]
        for saying, call in rows:
            with self.subTest(saying):
                self.refused(saying, call)

    def test_logits_that_are_no_numbers_are_never_the_same(self):
        for value in (np.nan, np.inf, 0.0):
            report = attn.check_port(self.model, IDS, np.full(VOCABULARY, value, np.float32), weights="as they lie")
            self.assertNotEqual(report.verdict, "the same")

    def test_a_wrong_word_ends_with_2(self):
        for words in ([], ["--model", self.model], ["--model", self.model, "--tokens", "a", "--logits", "x.npy"],
                      ["--model", self.model, "--tokens", "1", "--logits", "x.npy"], ["--model", self.model, "--tokens", "1", "--logits", "x.npy", "--weights", "q9"]):
            ended = self.port(*words)
            self.assertEqual((ended.returncode, ended.stdout), (2, ""))
            self.assertNotIn("Traceback", ended.stderr)


if __name__ == "__main__":
    for library, name in ((torch, "PyTorch"), (gguf, "gguf")):
        if library is None:
            print(f"{name} is missing: its formats are not tried")
    unittest.main()
