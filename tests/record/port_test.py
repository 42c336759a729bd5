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
import unittest.mock
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
try:
    import onnx
except ImportError:
    onnx = None

if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
    os.environ["ATTN"] = os.path.abspath(sys.argv.pop(1))

import attn
from attn.formats import read_model
from attn.program import call

PYTHON = Path(__file__).resolve().parents[2] / "python"
GOLDEN = PYTHON.parent / "tests" / "golden" / "gguf"  # by llama.cpp's converter, see tests/families/make_gguf.py
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

    def changed_gguf(self, name, change=dict, **metadata):
        """A golden file with other tensors, or other metadata, in a folder of its own."""
        source = gguf.GGUFReader(GOLDEN / f"{name}.gguf")
        architecture = source.fields["general.architecture"].contents()
        path = Path(tempfile.mkdtemp(dir=self.folder)) / f"{name}.gguf"
        file = gguf.GGUFWriter(path, architecture)
        for key, field in source.fields.items():
            if key.startswith(architecture + ".") and key.split(".", 1)[1] not in metadata:
                file.add_key_value(key, field.contents(), field.types[0], field.types[1] if len(field.types) > 1 else None)
        for key, value in metadata.items():
            kind = {int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32}.get(type(value), gguf.GGUFValueType.STRING)
            file.add_key_value(key if key.startswith("split.") else f"{architecture}.{key}", value, kind)
        for key, array in change({one.name: gguf.quants.dequantize(one.data, one.tensor_type) for one in source.tensors}).items():
            file.add_tensor(key, np.ascontiguousarray(array))
        file.write_header_to_file(), file.write_kv_data_to_file(), file.write_tensors_to_file(), file.close()
        return path

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
                             {**CONFIG, "head_dim": WIDTH // HEADS, "rope_theta": BASE, "attention_bias": False})
            for name, array in found.read().items():
                np.testing.assert_array_equal(array, stored[name])
            report = attn.check_port(path, IDS, port(stored, mistake="kv_tiled")[0][-1])
            self.assertEqual([one.id for one in report.mistakes], ["kv_tiled"])
            self.assertIn("dequantised from F32", report.assumed)

    @unittest.skipUnless(gguf, "needs gguf")
    def test_architectures_of_gguf_are_what_transformers_computes(self):
        from attn.gguf_models import ROWS

        expected, types = np.load(GOLDEN / "expected.npz"), set()
        for file in sorted(GOLDEN.glob("*.gguf")):
            with self.subTest(file.stem):
                right = expected[file.stem]
                types.add(json.loads(read_model(file).config)["model_type"])
                found = attn.run("model", file, ids=expected["ids"])["output"]
                np.testing.assert_allclose(found, right, atol=1e-6 * abs(right).max())
        self.assertEqual(types, {row.model_type for row in ROWS})

    @unittest.skipUnless(gguf, "needs gguf")
    def test_gguf_of_other_writers(self):
        def copied(tensors):  # as before output.weight was left out where it is the embedding's
            return {**tensors, "output.weight": tensors["token_embd.weight"]}

        def without_axes(tensors):  # as llama-quantize writes them
            return {name: array[0] if name.endswith(("inp_shexp.weight", "token_types.weight")) else array for name, array in tensors.items()}

        expected = np.load(GOLDEN / "expected.npz")
        for name, change in (("gpt2", copied), ("falcon", copied), ("qwen2moe", without_axes), ("roberta", without_axes)):
            found = attn.run("model", self.changed_gguf(name, change), ids=expected["ids"])["output"]
            np.testing.assert_allclose(found, expected[name], atol=1e-9)
        beside = self.changed_gguf("llama-3.1", dict)  # a config.json says how frequencies are scaled
        config = {**json.loads(read_model(beside).config), "rope_scaling": None}
        (beside.parent / "config.json").write_text(json.dumps(config))
        self.assertGreater(abs(attn.run("model", beside, ids=expected["ids"])["output"] - expected["llama-3.1"]).max(), 1e-3)

    @unittest.skipUnless(onnx, "needs onnx")
    def test_weights_of_onnx(self):
        for outer in ("", "model."):
            for external in ("", "model.onnx.data"):
                place = self.folder_with(f"onnx-{outer}{external}", lambda place: write_onnx(place / "model.onnx", outer, external))
                self.expect_weights(place)
        np.testing.assert_allclose(attn.run("model", place, ids=IDS)["output"], port(WEIGHTS)[0], atol=1e-4)
        inner = self.folder_with("hub", lambda place: [(place / "onnx").mkdir(), write_onnx(place / "onnx" / "model.onnx")])
        self.expect_weights(inner / "onnx" / "model.onnx")

    @unittest.skipIf(onnx, "needs a Python without onnx")
    def test_a_missing_library_is_named(self):
        self.refused("pip install onnx", lambda: attn.run("model", self.folder_with("onnx", lambda place: (place / "a.onnx").write_bytes(b"")), ids=IDS))

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

    def test_log_probs_of_llama_cpp(self):
        tokens = np.array([[*IDS, 4], [*IDS[::-1], 5]])
        logits = np.stack([port(WEIGHTS, ids)[0][4:-1] for ids in tokens])
        write_kld(self.folder / "base.kld", tokens, logits)
        write_kld(self.folder / "odd.bin", tokens, logits[..., :-1])
        found = attn.read_dump(self.folder / "base.kld")
        np.testing.assert_array_equal(found["tokens"], tokens)
        right = attn.run("model", self.model, ids=found["tokens"][0])["output"][4:-1]
        np.testing.assert_allclose(found["log_probs"][0], right - np.log(np.exp(right).sum(-1, keepdims=True)), atol=16 / 65535)
        self.assertEqual(attn.read_dump(self.folder / "odd.bin")["log_probs"].shape, (2, 3, VOCABULARY - 1))
        self.refused("log-probabilities", lambda: attn.check_port(self.model, IDS, self.folder / "base.kld"))

    @unittest.skipUnless(torch, "needs PyTorch")
    def test_an_object_in_a_file_of_pytorch_is_named(self):
        kind = type("ActivationCache", (dict,), {"__module__": "transformer_lens.ActivationCache"})  # what torch.save(cache) names
        module = type(sys)("transformer_lens.ActivationCache")
        module.ActivationCache = kind
        with unittest.mock.patch.dict(sys.modules, {"transformer_lens": type(sys)("transformer_lens"), module.__name__: module}):
            torch.save(kind(a=torch.ones(2)), self.folder / "cache.pt")
        self.refused("needs transformer_lens.ActivationCache.ActivationCache, and no code of a file is run: save the cache's cache_dict in its place",
                     lambda: attn.read_dump(self.folder / "cache.pt"))

    def test_ctranslate2_is_named(self):
        place = self.folder_with("ctranslate2", lambda place: (place / "model.bin").write_bytes(b"\6\0\0\0\x17\0TransformerDecoderSpec\0" + 99 * b"\0"))
        self.refused("is CTranslate2's", read_model(place).read)

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


def write_kld(path, tokens, logits):
    """As llama.cpp's perplexity.cpp: "_logits_", n_ctx, n_vocab, n_chunk, the tokens, and of each row a scale, the least and whole numbers."""
    chunks, context = tokens.shape
    data = b"_logits_" + struct.pack("<3i", context, logits.shape[-1], chunks) + tokens.astype("<i4").tobytes()
    for row in logits.reshape(-1, logits.shape[-1]).astype(np.float32):
        least = max(row.min(), row.max() - 16)
        scale = np.float32((row.max() - least) / 65535)
        whole = np.rint(np.maximum(row - least, 0) / scale).astype("<u2")
        data += struct.pack("<2f", scale, least - row.max() - np.log(np.exp(row - row.max()).sum())) + whole.tobytes() + b"\0\0" * (len(row) % 2)
    path.write_bytes(data)


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


def write_onnx(path, outer="", external="", change=lambda tensors, nodes: None):
    """As torch.onnx.export() does: of linear maps the transposes, whose modules their nodes say."""
    tensors, nodes, is_noted = {}, [], bool(outer)
    for i, (name, array) in enumerate(WEIGHTS.items()):
        module, called, array = name.rpartition(".")[0], outer + name, np.ascontiguousarray(array.T) if "proj" in name or "lm_head" in name else array
        if array is not WEIGHTS[name]:
            called = f"val_{i}" if is_noted else f"onnx::MatMul_{i}"
            node = onnx.helper.make_node("MatMul", ["x", called], [f"y{i}"], name=f"node_{i}" if is_noted else f"/{module.replace('.', '/')}/MatMul")
            for key, value in [("name_scopes", ["", outer[:-1], outer + module, "linear"]),
                               ("class_hierarchy", ["M", "transformers.models.llama.LlamaForCausalLM", "torch.nn.modules.linear.Linear", "f"])] * is_noted:
                node.metadata_props.add(key="pkg.torch.onnx." + key, value=str(value))
            nodes.append(node)
        tensors[called] = onnx.numpy_helper.from_array(array, called)
    tensors["val_mask"] = onnx.numpy_helper.from_array(np.ones((7, 7), np.float32), "val_mask")
    change(tensors, nodes)
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "tiny", [], [], list(tensors.values())))
    if external:
        onnx.save(model, path, save_as_external_data=True, location=external, size_threshold=0)
    else:
        path.write_bytes(model.SerializeToString())


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
            ("config.json is missing", model(file("alone.safetensors", b""))), ("'../x.bin'", model(outside)), ("is no model", model(file("a.h5", b""))), ("config.json is missing", model(file("a.onnx", b""))),
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
            *(("says that it has" if min(words) < 1 or words[0] < 4 else "bytes, expected", given(logits=file(f"{words}.kld", b"_logits_" + struct.pack("<3i", *words) + 50 * b"\0")))
              for words in ([8, 40, 0], [8, -1, 1], [-8, 40, 1], [3, 40, 1], [8, 40, 1], [2**31 - 1, 2**31 - 1, 2**31 - 1])),
            ("says that it has", given(logits=file("short.kld", b"_logits_\1\0"))), ("says that it has", given(logits=file("empty.kld", b""))),
            ("expected (40,)", given(logits=logits[:-1])), ("expected real numbers", given(logits=np.arange(40))), ("expected real numbers", given(logits=np.zeros((2, 3, 40)))),
            ("expected real numbers", given(logits=np.zeros(0))), ("no effect", given(shape=(2, 2))), ("is of the type object", given(logits={"a": 1})),
            ("expected whole numbers", given(ids=[1.5])), ("expected whole numbers", given(ids=[[1, 2], [3, 4]])), ("expected whole numbers", given(ids=[])),
            ("ids", given(ids=[-1])), ("ids", given(ids=[40])), ("type is", given(type="float8")), ("weights is", given(weights="int3")),
            ("names", given(names="nobody")), ("expected arrays by name", given(dump=3)), ("has no arrays", given(dump=empty)),
        ]
        if torch:
            rows += [("can't be read", model(only("d.pt", b"PK\3\4"))), ("can't be read", model(only("e.pt", b""))),
                     ("f.pt needs os.system", given(logits=file("f.pt", b"cos\nsystem\n(S'touch hacked'\ntR."))),
                     ("expected tensors by name", model(self.folder_with("g", lambda place: torch.save({"step": 3}, place / "g.pt")))),
                     ("expected tensors by name", model(self.folder_with("h", lambda place: torch.save([torch.ones(2)], place / "h.pt"))))]
        if gguf:
            whole = (GOLDEN / "llama-3.1.gguf").read_bytes()
            rows += [("can't be read", model(file(f"{end}.gguf", whole[:end]))) for end in (0, 4, 8, 100, 1000, len(whole) // 2, len(whole) - 1)]
            for saying, name, change, metadata in (
                ("expected a whole number from 1", "llama", dict, {"attention.head_count": 0}), ("'16', expected", "llama", dict, {"embedding_length": "16"}),
                ("is one of 3 parts", "llama", dict, {"split.count": 3}), ("llama.new = 1.5 is not known", "llama", dict, {"new": 1.5}),
                ("rope.scaling.type = 'longrope'", "llama", dict, {"rope.scaling.type": "longrope"}), ("expected 4", "llama", dict, {"rope.dimension_count": 2}),
                ("other factors than Llama 3.1", "llama-3.1", lambda found: {**found, "rope_freqs.weight": found["rope_freqs.weight"] * 1.01}, {}),
                ("has no token_embd.weight", "llama", lambda found: {"a.weight": np.ones(3, np.float32)}, {}),
                ("blk.0.new.weight is not known", "llama", lambda found: {**found, "blk.0.new.weight": np.ones(3, np.float32)}, {}),
                ("can't be read", "llama", lambda found: {**found, "blk.0.attn_q.weight": np.ones((3, 16), np.float32)}, {}),
                ("expected False", "bert", dict, {"attention.causal": 1}), ("clip_qkv", "olmo", dict, {"attention.clamp_kqv": 2.0}),
                ("layers", "llama", dict, {"block_count": 2**31}), ("experts", "mixtral", dict, {"expert_count": 2**31})):
                rows.append((saying, model(self.changed_gguf(name, change, **metadata))))
        if onnx:
            def changed(change):
                place = Path(tempfile.mkdtemp(dir=f))
                (place / "config.json").write_text(json.dumps(CONFIG))
                write_onnx(place / "model.onnx", change=change)
                return model(place)

            def elsewhere(**where):
                def change(tensors, nodes):
                    tensor = tensors["model.norm.weight"]
                    tensor.ClearField("raw_data")
                    tensor.data_location = onnx.TensorProto.EXTERNAL
                    for key, value in where.items():
                        tensor.external_data.add(key=key, value=value)
                return changed(change)

            write_onnx(f / "whole.onnx")
            whole, secret = (f / "whole.onnx").read_bytes(), file("secret", 200 * b"s")
            rows += [("", model(only(f"{end}.onnx", whole[:end]))) for end in (0, 1, 100, 5000, len(whole) - 9)]
            rows += [(f"in {place!r}, expected a file beside", elsewhere(location=place)) for place in ("../secret", str(secret), "", "a/../../secret")]
            rows += [("can't be read", elsewhere(location="..")), ("can't be read", elsewhere(location="missing")), ("lies from 0 to 99999", elsewhere(location="model.onnx", length="99999")),
                     ("lies from -4", elsewhere(location="model.onnx", offset="-4")), ("can't be read", elsewhere(location="model.onnx", offset="x")),
                     ("can't be read", elsewhere(location="model.onnx", length="4")),
                     ("two tensors for", changed(lambda tensors, nodes: nodes.append(onnx.helper.make_node("MatMul", ["x", "val_mask"], ["z"], name="/lm_head/MatMul")))),
                     ("can't be read", changed(lambda tensors, nodes: tensors["model.norm.weight"].dims.append(2**40))),
                     ("can't be read", changed(lambda tensors, nodes: setattr(tensors["model.norm.weight"], "data_type", 99))),
                     ("no output map", changed(lambda tensors, nodes: nodes.remove(next(one for one in nodes if "lm_head" in one.name))))]
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
    for library, name in ((torch, "PyTorch"), (gguf, "gguf"), (onnx, "onnx")):
        if library is None:
            print(f"{name} is missing: its formats are not tried")
    unittest.main()
