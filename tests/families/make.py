#!/usr/bin/env python3
"""Tiny models of the families, and what transformers says they compute, in float64.

    make.py OUT             makes all of them: OUT/NAME/ with config.json, model.safetensors and expected.npz
    make.py OUT NAME ...    some of them
    make.py --plain OUT     only compares OUT with transformers as it is, in float32 and in float64

The weights are bfloat16 numbers, so that the file holds them exactly. script/families runs this where transformers is.
"""

import argparse
import copy
import hashlib
import pathlib
import shutil
import subprocess
import sys
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np
import torch

import configs
import double

LENGTH = 12
LENGTHS = (12, 7, 3)
DECODER_LENGTHS = (7, 4, 2)


def rows():
    for name, config, fields, *how in configs.ALL:
        yield name, config, fields, how[0] if how else {}


def seeded(name):
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little"))


def fill(model, random):
    """Random weights of which each is of consequence, in bfloat16's numbers."""
    import transformers

    def normal(tensor):
        return torch.randn(tensor.shape, generator=random, dtype=torch.float64)

    with torch.no_grad():
        for module in model.modules():
            kind = type(module).__name__
            own = list(module.named_parameters(recurse=False))
            own += [(n, b) for n, b in module.named_buffers(recurse=False) if n in ("e_score_correction_bias", "final_logits_bias")]
            for name, tensor in own:
                if tensor.dim() == 0 or "bias" in name or name in ("sinks",):
                    value = 0.4 * normal(tensor)
                elif "Norm" in kind:  # around what it is at first: 1, or 0 where the model adds 1
                    value = tensor.to(torch.float64).mean().round() + 0.3 * normal(tensor)
                elif isinstance(module, torch.nn.Embedding) or "mbedding" in kind:
                    value = 0.8 * normal(tensor)
                elif "Router" in kind or name == "gate" or kind.endswith("Gate"):
                    value = 2.0 * normal(tensor) / tensor.shape[-1] ** 0.5
                elif isinstance(module, transformers.pytorch_utils.Conv1D):
                    value = 1.2 * normal(tensor) / tensor.shape[0] ** 0.5
                elif tensor.dim() == 3 and "Experts" in kind:
                    inner = tensor.shape[1] if getattr(module, "is_transposed", False) else tensor.shape[2]
                    value = 1.2 * normal(tensor) / inner**0.5
                elif tensor.dim() == 1:
                    value = tensor.to(torch.float64) + 0.3 * normal(tensor)
                else:
                    value = 1.2 * normal(tensor) / (tensor[0].numel()) ** 0.5
                tensor.copy_(value.to(torch.bfloat16))
        for module in model.modules():
            if type(module).__name__ == "T5Attention":  # it has no scale: its queries are small
                module.q.weight.mul_(0.25)


def build(config, fields, how):
    import transformers

    config = getattr(transformers, config)(**copy.deepcopy(fields))
    config._attn_implementation = how.get("attention", "eager")
    if "heads" in how:
        return getattr(transformers, how["heads"])(config)
    return transformers.AutoModelForCausalLM.from_config(config)


def load(folder, how, dtype=torch.float64):
    import transformers

    kind = getattr(transformers, how["heads"]) if "heads" in how else transformers.AutoModelForCausalLM
    model = kind.from_pretrained(
        folder, dtype=dtype, attn_implementation=how.get("attention", "eager"), experts_implementation="eager"
    )
    model.eval()
    return model


def mask_of(lengths, length):
    return (torch.arange(length)[None] < torch.as_tensor(lengths)[:, None]).long()


def forward(model, inputs):
    """On a copy: some models of transformers remember the longest sequence. What they are asked for is the first output."""
    inputs = dict(inputs)
    if "input_ids" in inputs and "decoder_input_ids" not in inputs and "decoder" not in type(model).__name__:
        inputs.setdefault("use_cache", False)
    with torch.no_grad():
        try:
            result = copy.deepcopy(model)(**inputs)
        except TypeError:
            inputs.pop("use_cache")
            result = copy.deepcopy(model)(**inputs)
    return result.logits if hasattr(result, "logits") else result.last_hidden_state


POOLED = ("encoder", "image", "patches")  # kinds that can have a row for all tokens


def pooled(model, inputs):
    """The row that stands for all tokens of each sequence, where the model has one."""
    with torch.no_grad():
        result = model(**inputs)
    rows = [result[name] for name in ("text_embeds", "image_embeds", "pooler_output") if result.get(name) is not None]
    return {"pooled": rows[0]} if rows else {}


class Case:
    """What goes into a model of a kind, and what transformers says about it."""

    def __init__(self, how, model, random):
        self.kind = kind = how.get("kind", "decoder")
        config = model.config.get_text_config() if kind not in ("image", "patches") else model.config
        self.pad = getattr(config, "pad_token_id", None) or 0

        def ids(*shape):
            return torch.randint(0, config.vocab_size, shape, generator=random)

        def numbers(*shape):
            return torch.randn(shape, generator=random, dtype=torch.float64)

        # The names in the file, and those of transformers.
        self.single, self.batch = {}, {}
        if kind in ("decoder", "encoder", "seq2seq"):
            self.single["ids"] = ids(LENGTH)
            self.batch["batch_ids"] = ids(len(LENGTHS), LENGTH)
            self.batch["batch_lengths"] = torch.tensor(LENGTHS)
        if kind == "audio":
            self.single["input_features"] = numbers(config.num_mel_bins, 2 * config.max_source_positions)
            self.batch["batch_input_features"] = numbers(len(LENGTHS), config.num_mel_bins, 2 * config.max_source_positions)
        if kind == "image":
            size = config.image_size if isinstance(config.image_size, (list, tuple)) else [config.image_size] * 2
            self.single["pixel_values"] = numbers(config.num_channels, *size)
            self.batch["batch_pixel_values"] = numbers(len(LENGTHS), config.num_channels, *size)
        if kind == "patches":
            rows, columns = how["grid"]
            self.single["pixel_values"] = numbers(rows * columns, config.num_channels * config.patch_size**2)
            self.single["spatial_shapes"] = torch.tensor([rows, columns])
        if kind in ("seq2seq", "audio"):
            self.single["decoder_ids"] = ids(DECODER_LENGTHS[0])
            self.batch["batch_decoder_ids"] = ids(len(LENGTHS), DECODER_LENGTHS[0])
            self.batch["batch_decoder_lengths"] = torch.tensor(DECODER_LENGTHS)
        for name, lengths in (("batch_ids", LENGTHS), ("batch_decoder_ids", DECODER_LENGTHS)):
            for row, length in enumerate(lengths):
                if name in self.batch:
                    self.batch[name][row, length:] = self.pad
                    if how.get("ends"):
                        self.batch[name][row, length - 1] = config.eos_token_id
        if how.get("ends"):
            self.single["ids"][LENGTH - 3] = config.eos_token_id

    @staticmethod
    def named(members):
        """As transformers wants them: a batch."""
        names = dict(ids="input_ids", decoder_ids="decoder_input_ids")
        found = {names.get(name, name): tensor[None] for name, tensor in members.items()}
        if "spatial_shapes" in found:  # no patch is padding
            found["pixel_attention_mask"] = torch.ones(found["pixel_values"].shape[:2], dtype=torch.long)
        return found

    def rows(self):
        """Each row of the batch alone, without its padding."""
        for row in range(len(LENGTHS) if self.batch else 0):
            found = {}
            for name, tensor in self.batch.items():
                if not name.endswith("lengths"):
                    lengths = self.batch.get(name.removesuffix("ids") + "lengths") if name.endswith("ids") else None
                    part = tensor[row] if lengths is None else tensor[row, : lengths[row]]
                    found[name.removeprefix("batch_")] = part
            yield self.named(found)

    def together(self):
        inputs = {name: tensor[0] for name, tensor in self.named(self.batch).items() if not name.endswith("lengths")}
        inputs = {
            dict(batch_ids="input_ids", batch_decoder_ids="decoder_input_ids").get(name, name.removeprefix("batch_")): tensor
            for name, tensor in inputs.items()
        }
        if "input_ids" in inputs:
            inputs["attention_mask"] = mask_of(LENGTHS, LENGTH)
        if "decoder_input_ids" in inputs:
            inputs["decoder_attention_mask"] = mask_of(DECODER_LENGTHS, DECODER_LENGTHS[0])
        return inputs

    def on_the_left(self):
        """The same batch with its padding before the tokens; nothing where there are two kinds of them."""
        if self.kind not in ("decoder", "encoder"):
            return None
        ids, mask = torch.full_like(self.batch["batch_ids"], self.pad), mask_of(LENGTHS, LENGTH).flip(1)
        for row, length in enumerate(LENGTHS):
            ids[row, LENGTH - length :] = self.batch["batch_ids"][row, :length]
        return {"left_ids": ids, "left_attention_mask": mask}

    def out_lengths(self, whole):
        lengths = self.batch.get("batch_decoder_lengths", self.batch.get("batch_lengths"))
        return [whole] * len(LENGTHS) if lengths is None else lengths.tolist()


def by_token(model, inputs):
    """The decoder's tokens one at a time, with transformers' cache."""
    import transformers

    model = copy.deepcopy(model)
    pair = "decoder_input_ids" in inputs
    cache = transformers.DynamicCache(config=model.config.get_text_config(decoder=True))
    others = {}
    name = "input_ids"
    if pair:
        name = "decoder_input_ids"
        cache = transformers.EncoderDecoderCache(cache, transformers.DynamicCache())
        with torch.no_grad():
            rest = {name: tensor for name, tensor in inputs.items() if name != "decoder_input_ids"}
            others["encoder_outputs"] = model.get_encoder()(**rest, return_dict=True)
    found = []
    with torch.no_grad():
        for each in inputs[name][0]:
            token = {name: torch.tensor([[each]]), **others}
            result = model(**token, past_key_values=cache, use_cache=True)
            found.append((result.logits if hasattr(result, "logits") else result.last_hidden_state)[0])
    return torch.cat(found)[None]


def apart(one, other):
    return float((one - other).abs().max())


def unused(model, inputs, expected):
    """The weights that change nothing."""
    found = []
    for name, tensor in model.named_parameters():
        if tensor.numel() == 0:
            continue
        with torch.no_grad():
            before = tensor.clone()
            tensor.mul_(1.5).add_(0.125)
            # One number more: a bias of keys that all get alike changes no softmax, nor does any of keys without positions.
            tensor.view(-1)[0] += 0.5
            if apart(forward(model, inputs), expected) < 1e-9:
                found.append(name)
            tensor.copy_(before)
    return found


def at_coordinates(model, random):
    """Tokens that are embedded already, at places in time, height and width: words, an image of two by three patches, words."""
    tokens = torch.randn(LENGTH, model.config.hidden_size, generator=random, dtype=torch.float64)
    patches = torch.tensor([[3, 3, 3, 3, 3, 3], [3, 3, 3, 4, 4, 4], [3, 4, 5, 3, 4, 5]])
    words = torch.arange(3).expand(3, 3)
    places = torch.cat([words, patches, 6 + words], dim=1)
    expected = forward(model, dict(inputs_embeds=tokens[None], position_ids=places[:, None]))
    return {"inputs_embeds": tokens, "position_ids": places, "embedded_output": expected[0]}


def known(how, words, notes):
    """What transformers computes should not depend on how it is asked, but for some positions it does."""
    if not how.get("by_length"):
        raise ValueError(words)
    notes.append(words)


def make(name, config, fields, how, out):
    random = seeded(name)
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    model = build(config, fields, how)
    fill(model, random)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    model = load(folder, how)
    for part, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            raise SystemExit(f"make: {name}: {part} is {tensor.dtype}")
    kind = how.get("kind", "decoder")
    case = Case(how, model, random)
    inputs = case.named(case.single)

    with double.Narrow() as narrow:
        result = forward(model, inputs)
    batch = forward(model, case.together()) if case.batch else torch.zeros(0, *result.shape[1:])
    notes = sorted(narrow.seen)
    alone = torch.zeros_like(batch)
    for row, (length, inputs_alone) in enumerate(zip(case.out_lengths(batch.shape[1]), case.rows())):
        batch[row, length:] = 0
        alone[row, :length] = forward(model, inputs_alone)[0]
        if (difference := apart(batch[row], alone[row])) > 1e-10:
            known(how, f"row {row} of the batch is {difference:.1e} from the row alone", notes)
    members = {**case.single, **case.batch}
    what = "logits" if model.get_output_embeddings() is not None else "output"
    members[what] = result[0]
    if case.batch:
        members["batch_" + what] = batch
    if "mrope_section" in (getattr(model.config, "rope_parameters", None) or {}):
        members |= at_coordinates(model, random)
    if left := case.on_the_left():
        padded = forward(model, {"input_ids": left["left_ids"], "attention_mask": left["left_attention_mask"]})
        members |= {**left, "left_" + what: padded * left["left_attention_mask"][..., None]}
    if kind == "encoder" and getattr(model.config, "type_vocab_size", 1) > 1:
        types = torch.randint(0, model.config.type_vocab_size, (LENGTH,), generator=random)
        members["token_type_ids"] = types
        members["typed_" + what] = forward(model, {**inputs, "token_type_ids": types[None]})[0]
    if kind in ("decoder", "seq2seq", "audio") and (difference := apart(result, by_token(model, inputs))) > 1e-10:
        known(how, f"token by token with a cache: {difference:.1e} apart", notes)
    if kind in POOLED:
        members |= {name: rows[0] for name, rows in pooled(model, inputs).items()}
        if case.batch:
            members |= {"batch_" + name: rows for name, rows in pooled(model, case.together()).items()}
    if kind == "audio":
        with torch.no_grad():
            members["encoder_output"] = model.get_encoder()(inputs["input_features"]).last_hidden_state[0]
            members["batch_encoder_output"] = model.get_encoder()(case.batch["batch_input_features"]).last_hidden_state
    if unmoved := unused(model, inputs, result):
        notes.append("without effect: " + " ".join(unmoved))
    if not bool(torch.isfinite(batch).all() and torch.isfinite(result).all()):
        raise SystemExit(f"make: {name}: not finite")

    np.savez_compressed(folder / "expected.npz", **{name: tensor.numpy() for name, tensor in members.items()})
    return notes + [attention_of(folder, how, inputs)], result[0]


def attention_of(folder, how, inputs):
    """How large the largest probability is on average: neither 1 nor that of an even attention."""
    if how.get("attention", "eager") != "eager":
        return ""
    with torch.no_grad():
        found = load(folder, how)(**inputs, output_attentions=True)
    largest = []
    for kind in ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions"):
        for each in getattr(found, kind, None) or ():
            largest.append(f"{float(each[0, :, each.shape[2] // 2 :].max(-1).values.mean()):.2f}")
    return "largest probability " + " ".join(largest)


def narrowed(inputs, dtype):
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}


def plain(out, names):
    """Transformers as it is: its float32, and its float64 with what is float32 in there."""
    worst = 0.0
    for name, _, _, how in rows():
        if names and name not in names or not (out / name).is_dir():
            continue
        with np.load(out / name / "expected.npz") as file:
            what = "logits" if "logits" in file else "output"
            expected = torch.from_numpy(file[what])
            inputs = ("ids", "decoder_ids", "input_features", "pixel_values", "spatial_shapes")
            inputs = Case.named({name: torch.from_numpy(file[name]) for name in inputs if name in file})
        size = float(expected.abs().max())
        found = []
        for dtype in (torch.float32, torch.float64):
            try:
                difference = apart(forward(load(out / name, how, dtype), narrowed(inputs, dtype))[0].double(), expected) / size
                worst = max(worst, difference)
                found.append(f"{difference:.1e} apart" + (" TOO FAR" if difference > 1e-4 else ""))
            except RuntimeError as error:  # gpt2 with reorder_and_upcast_attn takes no float64
                found.append(f"refused ({error})")
        print(f"{name:24} of {size:6.2f}: float32 {found[0]}, float64 {found[1]}", flush=True)
    return 1 if worst > 1e-4 else 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--plain", action="store_true")
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("names", nargs="*")
    options = options.parse_args()
    torch.set_num_threads(1)
    if not options.plain:
        double.everywhere()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    if options.plain:
        sys.exit(plain(options.out, options.names))
    failed = []
    options.out.mkdir(parents=True, exist_ok=True)
    for name, config, fields, how in rows():
        if options.names and name not in options.names:
            continue
        try:
            notes, result = make(name, config, fields, how, options.out)
        except Exception as error:
            failed.append(name)
            shutil.rmtree(options.out / name, ignore_errors=True)
            print(f"{name:24} FAILED: {type(error).__name__}: {error}", flush=True)
            if options.names:
                traceback.print_exc()
            continue
        weights = sum(file.stat().st_size for file in (options.out / name).glob("*.safetensors"))
        print(f"{name:24} {weights / 1000:5.1f} kB, spread {result.std():.2f} " + "; ".join(filter(None, notes)), flush=True)
    compared = subprocess.call([sys.executable, __file__, "--plain", str(options.out), *options.names])
    sys.exit(1 if failed else compared)


if __name__ == "__main__":
    main()
