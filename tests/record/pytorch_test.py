#!/usr/bin/env python3
"""Tests of attn_record on programs in PyTorch: pytorch_test.py ATTN"""

import shlex
import subprocess
import sys
import unittest
from pathlib import Path

from recorded import Recorded, RecordTest, np

import attn_record

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: there is no PyTorch for this Python (apt-get install python3-torch)")
    sys.exit(77)

ATTN = None

# A decoder as many write it: packed projections, heads by view and transpose, a mask in a buffer, pre-norm.
DECODER = """
    import math
    import torch
    from torch import nn

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.packed = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.register_buffer("future", torch.triu(torch.ones(16, 16), 1) == 1)

        def forward(self, x):
            b, n, width = x.shape
            q, k, v = self.packed(x).split(width, dim=2)
            q, k, v = (part.view(b, n, self.heads, -1).transpose(1, 2) for part in (q, k, v))
            att = (q @ k.transpose(-2, -1)) / math.sqrt(k.shape[-1])
            att = att.masked_fill(self.future[:n, :n], -torch.inf)
            att = torch.softmax(att, dim=-1)
            y = (att @ v).transpose(1, 2).reshape(b, n, width)
            return self.out(y)

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = Attention(width, heads)
            self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            x = x + self.mlp(self.norm2(x))
            return x

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(10, 8)
            self.blocks = nn.ModuleList(Block(8, 2) for _ in range(2))

        def forward(self, ids):
            x = self.tokens(ids)
            for block in self.blocks:
                x = block(x)
            return x

    torch.manual_seed(0)
    model = Decoder().eval()
    ids = torch.tensor([[1, 2, 3, 4]])
    """

# What the first block is to attn: an encoder layer with its norms in front.
AS_REFERENCE = """
    first = model.blocks[0]
    parts = {"self_attn.in_proj": first.attn.packed, "self_attn.out_proj": first.attn.out, "linear1": first.mlp[0],
             "linear2": first.mlp[2], "norm1": first.norm1, "norm2": first.norm2}
    weights = {f"{name}{'_' if 'in_proj' in name else '.'}{key}": value.detach().numpy() for name, part in parts.items()
               for key, value in part.state_dict().items()}
    import numpy
    numpy.savez("weights.npz", **weights)
    numpy.savez("input.npz", x=model.tokens(ids).detach().numpy())
    """

MAPS = {"norm1": "norm1.output", "attn.q#2[..., {h}, :, :]": "self_attn.head.{h}.queries",
        "attn.k#2[..., {h}, :, :]": "self_attn.head.{h}.keys", "attn.att[..., {h}, :, :]": "self_attn.head.{h}.scaled",
        "attn.att#2[..., {h}, :, :]": "self_attn.head.{h}.masked", "attn.att#3[..., {h}, :, :]": "self_attn.head.{h}.weights",
        "attn.y": "self_attn.merged", "attn": "self_attn.output", "x#2": "residual1", "mlp.1": "feed_forward.activated"}


class PytorchTest(RecordTest):
    def recording(self, **options):
        return attn_record.to(self.folder / "mine.npz", **options)

    def recorded(self):
        return Recorded(self.folder / "mine.npz")

    def attn(self, *words, code=0):
        ended = subprocess.run([ATTN, *map(str, words)], cwd=self.folder, capture_output=True, text=True)
        self.assertEqual(ended.returncode, code, ended.stdout + ended.stderr)
        return ended.stdout


class Names(PytorchTest):
    def test_modules_and_their_variables_have_the_modules_paths(self):
        mine = self.record(DECODER + "out = model(ids)\n")
        self.assertEqual([name for name in mine.names if name.startswith("blocks.1.")], [
            "blocks.1.norm1", "blocks.1.attn.packed", "blocks.1.attn.q", "blocks.1.attn.k", "blocks.1.attn.v",
            "blocks.1.attn.q#2", "blocks.1.attn.k#2", "blocks.1.attn.v#2", "blocks.1.attn.att", "blocks.1.attn.future",
            "blocks.1.attn.att#2", "blocks.1.attn.att#3", "blocks.1.attn.y", "blocks.1.attn.out", "blocks.1.attn",
            "blocks.1.x#2", "blocks.1.norm2", "blocks.1.mlp.0", "blocks.1.mlp.1", "blocks.1.mlp.2", "blocks.1.mlp", "blocks.1.x#3"])
        self.assertEqual([name for name in mine.names if not name.startswith("blocks")],
                         ["ids", "tokens", "Decoder.x", "Decoder.x#2.0", "Decoder.x#2.1", "Decoder", "out"])
        self.assertEqual(mine.place("blocks.1.attn.att#2"), ("mine.py", 18, "att"))
        self.assertEqual(mine.entries["blocks.0.attn.att"]["function"], "Attention.forward")
        self.assertEqual(mine.place("blocks.0.attn.packed"), ("mine.py", 15, "return"))
        self.assertEqual(mine.same["blocks.1.attn.x"], "blocks.1.norm1")

    def test_a_second_call_has_names_of_its_own_but_for_buffers(self):
        mine = self.record(DECODER + "one = model(ids)\n    two = model(ids)\n")
        first = [name for name in mine.names if name.startswith("blocks.0.") and name != "blocks.0.attn.future"]
        self.assertEqual([name for name in mine.names if name.startswith("call2.blocks.0.")], ["call2." + name for name in first])

    def test_values_are_those_that_pytorch_computes(self):
        mine = self.record(DECODER + """out = model(ids)
    import numpy
    with torch.no_grad():
        x = model.tokens(ids)
        numpy.savez("expected.npz", attn=model.blocks[0].attn(model.blocks[0].norm1(x)), block=model.blocks[0](x))
    """)
        expected = np.load(self.folder / "expected.npz")
        np.testing.assert_array_equal(mine.arrays["blocks.0.attn"], expected["attn"])
        np.testing.assert_array_equal(mine.arrays["blocks.0"], expected["block"])

    def test_a_module_that_is_called_again_is_numbered(self):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.map = nn.Linear(2, 2)

            def forward(self, x):
                y = self.map(x)
                z = self.map(y)
                for _ in range(2):
                    z = self.map(z)
                return z

        with self.recording():
            Twice()(torch.ones(1, 2))
        self.assertEqual(self.recorded().names, ["Twice.x", "map", "Twice.y", "map#2", "Twice.z", "map#3.0", "Twice.z#2.0",
                                                 "map#3.1", "Twice.z#2.1", "Twice"])

    def test_several_outermost_modules_keep_their_parts_apart(self):
        one, two = nn.Sequential(nn.Linear(2, 3), nn.ReLU()), nn.Sequential(nn.Linear(3, 2))
        with self.recording():
            two(one(torch.ones(1, 2)))
        self.assertEqual(self.recorded().names, ["Sequential.input", "0", "1", "Sequential", "Sequential#2.0", "Sequential#2"])

    def test_a_layer_that_pytorch_computes_at_once_is_said_to_be_that(self):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
        with self.recording(), torch.no_grad():
            layer(torch.randn(1, 3, 8))
        mine = self.recorded()
        self.assertTrue("self_attn" in mine.names or "at once" in mine.left_out.get("TransformerEncoderLayer.*", ""))

    def test_a_module_in_a_plain_list_is_found_there(self):
        class Holder(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = [nn.Linear(2, 2), nn.Linear(2, 2)]

            def forward(self, x):
                for part in self.parts:
                    x = part(x)
                return x

        with self.recording():
            Holder()(torch.ones(1, 2))
        self.assertEqual([name for name in self.recorded().names if name.startswith("parts")], ["parts.0", "parts.1"])

    def test_a_method_of_a_module_and_the_forward_of_its_base_class_are_not_calls_of_it(self):
        class Base(nn.Module):
            def forward(self, x):
                y = self.shift(x)
                return y

            def shift(self, x):
                moved = x + 1
                return moved

        class Derived(Base):
            def forward(self, x):
                z = super().forward(x)
                return z * 2

        with self.recording():
            Derived()(torch.ones(2))
        self.assertEqual(self.recorded().names, ["Derived.x", "shift.moved", "forward.y", "Derived.z", "Derived"])

    def test_a_forward_that_is_called_itself_is_recorded(self):
        class Maps(nn.Module):
            def forward(self, x):  # with fewer variables than a call of a module has
                return 2 * x

        class Calls(nn.Module):
            def __init__(self):
                super().__init__()
                self.maps = Maps()

            def forward(self, x):
                y = self.maps.forward(x)
                return y + 1

        with self.recording():
            Calls()(torch.ones(2))
        self.assertEqual(self.recorded().names, ["Calls.x", "maps", "Calls.y", "Calls"])
        self.assertNotIn("incomplete", self.recorded().listing)

    def test_an_exception_inside_a_module_leaves_the_names_right(self):
        class Fails(nn.Module):
            def __init__(self):
                super().__init__()
                self.map = nn.Linear(2, 2)

            def forward(self, x):
                y = self.map(x)
                if x[0, 0] > 0:
                    raise ValueError
                return y

        model = Fails()
        with self.recording():
            self.assertRaises(ValueError, model, torch.ones(1, 2))
            model(torch.zeros(1, 2))
        self.assertEqual(self.recorded().names, ["Fails.x", "map", "Fails.y", "Fails.call2.x", "call2.map", "Fails.call2.y",
                                                 "Fails.call2"])


class WhatItWasComputedFrom(PytorchTest):
    def test_a_module_its_argument_its_parts_what_it_returns(self):
        mine = self.record(DECODER + "out = model(ids)\n")
        read = {name: mine.reads(name) for name in mine.names}
        attn = "blocks.0.attn"
        self.assertEqual(read["blocks.0.norm1"], ["Decoder.x"])
        self.assertEqual(read[attn + ".packed"], ["blocks.0.norm1"])
        self.assertEqual(read[attn + ".q"], [attn + ".packed", "blocks.0.norm1"])
        self.assertEqual(read[attn + ".att"], [attn + ".k#2", attn + ".q#2"])
        self.assertEqual(read[attn + ".att#2"], [attn + ".att", attn + ".future"])
        self.assertEqual(read[attn + ".y"], [attn + ".att#3", attn + ".v#2"])
        self.assertEqual(read[attn], [attn + ".out"])
        self.assertEqual(read["blocks.0.x#2"], ["Decoder.x", attn, "blocks.0.norm1"])
        self.assertEqual(read["blocks.0.mlp.1"], ["blocks.0.mlp.0"])
        self.assertEqual(mine.called_from(attn + ".att")[0][0], "mine.py")

    def test_the_result_leads_back_to_the_input_and_the_buffers_alone(self):
        mine = self.record(DECODER + """
    encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    out = encoder(model(ids)) * 2
    """)
        found, waiting = set(), ["out"]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += mine.reads(name)
                self.assertTrue(all(mine.names.index(read) < mine.names.index(name) for read in mine.reads(name)), name)
        self.assertEqual(sorted(name for name in found if not mine.reads(name)),
                         ["blocks.0.attn.future", "blocks.1.attn.future", "ids"])
        self.assertIn("blocks.1.attn.att#3", found)

    def test_buffers_and_submodules_are_attributes(self):
        mine = self.record("""
            import torch
            from torch import nn

            class Inner(nn.Module):
                def forward(self, x):
                    self.hidden = x * 2
                    return x + 1

            class Outer(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.inner = Inner()
                    self.weight = nn.Parameter(torch.ones(2))
                    self.register_buffer("mask", torch.ones(3, 3).triu(1))
                    self.register_buffer("cache", torch.zeros(2, 2))
                    named = torch.ones(2)
                    self.register_buffer("named", named)

                def forward(self, x):
                    x = self.inner(x)
                    y = x * self.inner.hidden * self.weight
                    mask = self.mask[:2, :2]
                    self.cache[:1] = y
                    self.cache.mul_(2)
                    z = self.cache + mask + self.named
                    self.cache = z * 3
                    return z

            Outer()(torch.ones(2))
            """)
        self.assertEqual([name for name in mine.names if "mask" in name or "weight" in name],
                         ["Outer.self.mask", "Outer.mask"])
        self.assertEqual({name: mine.reads(name) for name in ("Outer.y", "Outer.mask", "Outer.cache", "Outer.cache#2",
                                                              "Outer.cache#3", "Outer.z", "Outer.cache#4")},
                         {"Outer.y": ["Outer.x#2", "inner.hidden"], "Outer.mask": ["Outer.self.mask"], "Outer.cache": [],
                          "Outer.cache#2": ["Outer.cache", "Outer.y"], "Outer.cache#3": ["Outer.cache#2"],
                          "Outer.z": ["Outer.__init__.named", "Outer.cache#3", "Outer.mask"], "Outer.cache#4": ["Outer.z"]})
        self.assertEqual(mine.place("Outer.cache#2"), ("mine.py", 23, "self.cache"))


class Tensors(PytorchTest):
    def test_gradients_types_and_changes_in_place(self):
        with self.recording():
            x = torch.ones(3, requires_grad=True) * 2
            x += 1
            half = x.detach().to(torch.bfloat16)
            half[0] = 5
            mask = x > 2
            ids = torch.arange(3)
            view = ids[1:]
            view.mul_(10)
            wave = torch.ones(2, dtype=torch.complex64)
            empty = torch.empty(2, device="meta")
        mine = self.recorded()
        self.assertEqual(mine.names, ["x", "x#2", "half", "half#2", "mask", "ids", "view", "view#2", "ids#2"])
        self.assertEqual(mine.entries["half"]["dtype"], "bfloat16")
        self.assertEqual(mine.arrays["half#2"].dtype, np.float32)
        self.assertEqual(list(mine.arrays["half#2"]), [5, 3, 3])
        self.assertEqual((mine.arrays["mask"].dtype, mine.arrays["ids"].dtype), (bool, np.int64))
        self.assertEqual(list(mine.arrays["ids#2"]), [0, 10, 20])
        self.assertEqual(mine.left_out, {"wave": "complex", "empty": "abstract: it has a shape and no numbers"})

    def test_gradients_are_the_same_with_and_without_it(self):
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0)
        x = torch.randn(2, 3, 8)

        def gradient():
            layer.zero_grad()
            layer(x).square().sum().backward()
            return layer.self_attn.in_proj_weight.grad.clone()

        plain = gradient()
        with self.recording():
            recorded = gradient()
        self.assertTrue(torch.equal(plain, recorded))

    @unittest.skipUnless(hasattr(getattr(torch, "compiler", None), "set_stance"), "PyTorch's compiler cannot be told to wait")
    def test_what_is_compiled_is_recorded_as_it_is_written(self):
        class Net(nn.Module):
            def forward(self, x):
                y = x + 1
                return torch.relu(y)

        net = torch.compile(Net(), backend="eager")
        for _ in range(2):
            with self.recording():
                net(torch.ones(2))
            self.assertEqual(self.recorded().names, ["Net.x", "Net.y", "Net"])

    def test_weights_are_not_recorded_as_variables(self):
        layer = nn.Linear(2, 2)
        with self.recording():
            weight = layer.weight
            product = weight * 2
        self.assertEqual(self.recorded().names, ["product"])


class FromModelToVerdict(PytorchTest):
    """Two commands: attn_record --reference, then what it prints."""

    def verdict(self, module, *inputs, code=0, reference=True, **named):
        with self.recording(reference=reference) as recording, torch.no_grad():
            module(*inputs, **named)
        commands = [shlex.split(line)[1:] for line in recording.lines if line.startswith("  attn ")]
        self.assertEqual(len(commands), 2, recording.lines)
        self.attn(*commands[0])
        return self.attn(*commands[1], code=code)

    def expect_same(self, *arguments, **named):
        self.assertRegex(self.verdict(*arguments, **named), r"the same: [1-9]\d* compared as float32")

    def test_multi_head_attention(self):
        torch.manual_seed(0)
        x, memory = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
        mask = torch.rand(5, 5) > 0.9
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
        layer = nn.MultiheadAttention(8, 2, batch_first=True).eval()
        self.expect_same(layer, x, x, x, attn_mask=mask, need_weights=False)
        self.expect_same(layer, x, x, x, padding, need_weights=False)
        self.expect_same(layer, x, memory, memory, need_weights=False)
        self.expect_same(layer, x, x, x, attn_mask=torch.randn(5, 5), need_weights=False)
        sequence_first = nn.MultiheadAttention(8, 2).eval()
        x = x.transpose(0, 1)
        self.expect_same(sequence_first, x, x, x, need_weights=False)

    def test_encoders_and_their_layers(self):
        torch.manual_seed(0)
        x = torch.randn(2, 5, 8)
        causal = torch.triu(torch.full((5, 5), -torch.inf), 1)
        for options in ({}, {"norm_first": True}, {"activation": "gelu"}):
            layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True, layer_norm_eps=1e-3, **options)
            self.expect_same(layer, x, causal)
            stack = nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, eps=1e-2))
            self.expect_same(stack, x, mask=causal)

    def test_decoders_their_layers_and_the_whole_transformer(self):
        torch.manual_seed(0)
        x, memory = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
        causal = torch.triu(torch.full((5, 5), -torch.inf), 1)
        padding = torch.tensor([[False] * 3, [False, False, True]])
        layer = nn.TransformerDecoderLayer(8, 2, 16, dropout=0, batch_first=True)
        self.expect_same(layer, x, memory, causal, memory_key_padding_mask=padding)
        self.expect_same(nn.TransformerDecoder(layer, 2), x, memory, tgt_mask=causal)
        whole = nn.Transformer(8, 2, 1, 1, 16, dropout=0, batch_first=True)
        self.expect_same(whole, memory, x, tgt_mask=causal, src_key_padding_mask=padding, memory_key_padding_mask=padding)

    def test_recurrence_and_norms(self):
        torch.manual_seed(0)
        x = torch.randn(2, 5, 8)
        self.verdict_runs(nn.GRU(8, 4, 2, batch_first=True), x)
        self.verdict_runs(nn.LSTM(8, 4, bidirectional=True, batch_first=True), x)
        self.verdict_runs(nn.LayerNorm(8, eps=1e-3), x)

    def verdict_runs(self, module, *inputs):
        with self.recording(reference=True) as recording, torch.no_grad():
            output = module(*inputs)
        self.attn(*shlex.split([line for line in recording.lines if line.startswith("  attn run")][0])[1:])
        trace = np.load(self.folder / "mine.reference.npz")
        output = output[0] if isinstance(output, tuple) else output
        found = [trace[name] for name in trace.files if name != "steps.json" and trace[name].shape == output.shape]
        self.assertTrue(any(np.allclose(array, output, atol=1e-6) for array in found), trace.files)

    def test_a_module_inside_another_is_found_or_asked_for(self):
        class Classifier(nn.Module):
            def __init__(self):
                super().__init__()
                layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)
                self.encoder = nn.TransformerEncoder(layer, 2)
                self.head = nn.Linear(8, 3)

            def forward(self, x):
                return self.head(self.encoder(x))

        model, x = Classifier(), torch.randn(2, 5, 8)
        with self.recording(reference=True) as recording:
            model(x)
        self.assertIn("attn run encoder ", "\n".join(recording.lines))
        self.assertIn("checked is encoder of Classifier, the only module that is known", recording.lines)
        self.assertEqual(self.recorded().listing["results"], ["Classifier"])
        self.expect_same(model, x, reference="encoder")
        self.assertEqual(self.recorded().listing["results"], ["encoder"])
        with self.recording(reference="encoder.layers.1") as recording:
            model(x)
        self.assertIn("attn run encoder-layer ", "\n".join(recording.lines))
        self.assertIn("encoder.layers.1.norm2=norm2.output", "\n".join(recording.lines))
        with self.recording(reference="head") as recording:
            model(x)
        self.assertIn("Linear: weights are in", "\n".join(recording.lines))
        self.assertEqual(np.load(self.folder / "mine.weights.npz")["weight"].shape, (3, 8))
        self.assertEqual(np.load(self.folder / "mine.input.npz")["input"].shape, (2, 5, 8))

    def test_a_gpt_is_known_by_the_names_of_its_weights(self):
        class Gpt(nn.Module):
            def __init__(self):
                super().__init__()
                block = nn.ModuleDict({"ln_1": nn.LayerNorm(8), "attn": nn.ModuleDict({"c_attn": nn.Linear(8, 24)}),
                                       "mlp": nn.ModuleDict({"c_fc": nn.Linear(8, 32), "gelu": nn.GELU()})})
                self.transformer = nn.ModuleDict({"wte": nn.Embedding(10, 8), "h": nn.ModuleList([block])})
                self.config = type("Config", (), {"n_head": 2})

            def forward(self, ids):
                return self.transformer.h[0].ln_1(self.transformer.wte(ids))

        with self.recording(reference=True) as recording:
            Gpt()(torch.tensor([[1, 2, 3]]))
        said = "\n".join(recording.lines)
        self.assertIn("attn run gpt --heads 2 --activation gelu --epsilon 1e-05 ", said)
        self.assertNotIn("--map", said)  # numbers tell which part is which
        self.assertEqual(np.load(self.folder / "mine.input.npz")["ids"].tolist(), [1, 2, 3])

    def test_what_attn_run_has_not_is_said(self):
        x = torch.randn(2, 5, 8)
        differing = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
        differing.layers[1].norm_first = True
        packed = nn.utils.rnn.pack_padded_sequence(x, [5, 3], batch_first=True)
        cases = [(differing, (x,), "its layers differ"), (nn.GRU(8, 4), (packed,), "input is a PackedSequence"),
                 (nn.MultiheadAttention(8, 2, batch_first=True, add_zero_attn=True), (x, x, x), "add_zero_attn"),
                 (nn.TransformerEncoderLayer(8, 2, 16, activation=torch.tanh), (x,), "its activation is tanh"),
                 (nn.LSTM(8, 4, proj_size=2), (x,), "it has a projection")]
        for module, inputs, reason in cases:
            with self.recording(reference=True) as recording:
                module(*inputs)
            self.assertIn(reason, "\n".join(recording.lines))
        with self.recording(reference=True) as recording:
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(x)
        self.assertIn("dropout is on", "\n".join(recording.lines))


class Decoder(PytorchTest):
    """A model that attn knows nothing of, against an encoder layer that its first block is."""

    def compared(self, script, code):
        self.record(script + "out = model(ids)\n" + AS_REFERENCE)
        self.attn("run", "encoder-layer", "--heads", 2, "--norm", "pre", "--activation", "gelu", "--mask", "causal", "--input",
                  "input.npz", "--weights", "weights.npz", "--quiet", "--trace", "reference.npz")
        maps = [word for name, step in MAPS.items() for word in ("--map", f"blocks.0.{name}={step}")]
        return self.attn("diff", "reference.npz", "mine.npz", *maps, "--diagnose", code=code)

    def test_a_correct_one_passes(self):
        self.assertIn("the same", self.compared(DECODER, 0))

    def test_a_wrong_one_is_told_file_line_and_variable(self):
        said = self.compared(DECODER.replace("math.sqrt(k.shape[-1])", "k.shape[-1]"), 1)
        self.assertTrue(said.startswith("first wrong: att (mine.py:17), in Attention.forward\n"), said)
        said = self.compared(DECODER.replace("torch.softmax(att, dim=-1)", "torch.softmax(att, dim=-2)"), 1)
        self.assertTrue(said.startswith("first wrong: att (mine.py:19), in Attention.forward\n"), said)


if __name__ == "__main__":
    ATTN = str(Path(sys.argv.pop(1)).resolve())
    unittest.main()
