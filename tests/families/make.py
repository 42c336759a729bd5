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

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np
import torch

import configs
import double

LENGTH = 12
LENGTHS = (12, 7, 3)


def rows():
    for name, config, fields, *how in configs.DECODERS:
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
            own += [(n, b) for n, b in module.named_buffers(recurse=False) if n == "e_score_correction_bias"]
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


def forward(model, ids, lengths=None, **others):
    """On a copy: some models of transformers remember the longest sequence."""
    ids = torch.as_tensor(ids)
    if ids.dim() == 1:
        ids = ids[None]
    mask = None
    if lengths is not None:
        mask = (torch.arange(ids.shape[1])[None] < torch.as_tensor(lengths)[:, None]).long()
    with torch.no_grad():
        result = copy.deepcopy(model)(input_ids=ids, attention_mask=mask, use_cache=False, **others)
    return result.logits if hasattr(result, "logits") else result.last_hidden_state


def by_token(model, ids):
    import transformers

    model = copy.deepcopy(model)
    cache = transformers.DynamicCache(config=model.config)
    found = []
    with torch.no_grad():
        for each in ids:
            found.append(model(input_ids=torch.tensor([[each]]), past_key_values=cache, use_cache=True).logits[0])
    return torch.cat(found)


def apart(one, other):
    return float((one - other).abs().max())


def unused(model, ids, expected):
    """The weights that change nothing."""
    found = []
    for name, tensor in model.named_parameters():
        with torch.no_grad():
            before = tensor.clone()
            tensor.mul_(1.5).add_(0.125)
            # One number more: a bias of keys that all get alike changes no softmax, nor does any of keys without positions.
            tensor.view(-1)[0] += 0.5
            if apart(forward(model, ids), expected) < 1e-9:
                found.append(name)
            tensor.copy_(before)
    return found


def decoder(name, config, fields, how, out):
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
    vocabulary = model.config.get_text_config().vocab_size
    ids = torch.randint(0, vocabulary, (LENGTH,), generator=random)
    batch_ids = torch.randint(0, vocabulary, (len(LENGTHS), LENGTH), generator=random)
    for row, length in enumerate(LENGTHS):
        batch_ids[row, length:] = 0

    with double.Narrow() as narrow:
        logits = forward(model, ids)[0]
    batch = forward(model, batch_ids, LENGTHS)
    notes = sorted(narrow.seen)
    for row, length in enumerate(LENGTHS):
        batch[row, length:] = 0
        difference = apart(batch[row, :length], forward(model, batch_ids[row, :length])[0])
        if difference > 1e-10:
            notes.append(f"row {row} of the batch is {difference:.1e} from the row alone")
    if (difference := apart(logits, by_token(model, ids))) > 1e-10:
        notes.append(f"token by token with a cache: {difference:.1e} apart")
    if left := unused(model, ids, logits):
        notes.append("without effect: " + " ".join(left))
    if not bool(torch.isfinite(batch).all() and torch.isfinite(logits).all()):
        raise SystemExit(f"make: {name}: not finite")

    np.savez_compressed(
        folder / "expected.npz", ids=ids.numpy(), logits=logits.numpy(), batch_ids=batch_ids.numpy(),
        batch_lengths=np.array(LENGTHS), batch_logits=batch.numpy(),
    )  # fmt: skip
    return notes + [attention_of(folder, how, ids)], logits


def attention_of(folder, how, ids):
    """How large the largest probability is on average: neither 1 nor that of an even attention."""
    if how.get("attention", "eager") != "eager":
        return ""
    model = load(folder, how)
    with torch.no_grad():
        found = model(input_ids=ids[None], output_attentions=True, use_cache=False).attentions
    return "largest probability " + " ".join(f"{float(each[0, :, 5:].max(-1).values.mean()):.2f}" for each in found)


def plain(out, names):
    """Transformers as it is: its float32, and its float64 with what is float32 in there."""
    worst = 0.0
    for name, _, _, how in rows():
        if names and name not in names or not (out / name).is_dir():
            continue
        with np.load(out / name / "expected.npz") as file:
            expected = torch.from_numpy(file["logits"])
            ids = file["ids"]
        size = float(expected.abs().max())
        found = []
        for dtype in (torch.float32, torch.float64):
            try:
                difference = apart(forward(load(out / name, how, dtype), ids)[0].double(), expected) / size
                worst = max(worst, difference)
                found.append(f"{difference:.1e} apart" + (" TOO FAR" if difference > 1e-4 else ""))
            except RuntimeError as error:  # gpt2 with reorder_and_upcast_attn takes no float64
                found.append(f"refused ({error})")
        print(f"{name:24} of the largest logit {size:6.2f}: float32 {found[0]}, float64 {found[1]}", flush=True)
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
    options.out.mkdir(parents=True, exist_ok=True)
    for name, config, fields, how in rows():
        if options.names and name not in options.names:
            continue
        notes, logits = decoder(name, config, fields, how, options.out)
        weights = sum(file.stat().st_size for file in (options.out / name).glob("*.safetensors"))
        print(f"{name:24} {weights / 1000:5.1f} kB, logits {logits.std():.2f} " + "; ".join(filter(None, notes)), flush=True)
    sys.exit(subprocess.call([sys.executable, __file__, "--plain", str(options.out), *options.names]))


if __name__ == "__main__":
    main()
