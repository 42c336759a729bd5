"""What the trainings and measurements of the lessons' models share: the command line, AdamW with a warm-up and a cosine, masks, files."""

import json
import math
import struct
import sys
from pathlib import Path

import torch


def rate(step, steps, warm_up):
    """The share of the learning rate that a step has: a warm-up, and a cosine down to zero."""
    return min(1, (step + 1) / warm_up) * 0.5 * (1 + math.cos(math.pi * step / steps))


def train(model, loss_at, steps, learning_rate, weight_decay, warm_up, every):
    """AdamW with that rate. Prints the loss of each `every`-th step.

    loss_at(step) -> the loss of the batch of that step, a scalar
    """
    optimizer = torch.optim.AdamW(model.parameters(), learning_rate, betas=(0.9, 0.98), weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, steps, warm_up))
    for step in range(steps):
        loss = loss_at(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % every == 0 or step == steps - 1:
            print(f"step {step:4}  loss {loss.item():.6f}", flush=True)


def be_deterministic():
    """One thread: a second run on the same machine prints the same losses."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def run(main, file, usage):
    """Calls main(folder) with the folder of the command line, by default that of the file. The exit code, 2 where the usage is another."""
    arguments = sys.argv[1:]
    if len(arguments) > 1 or arguments[:1] == ["--help"]:
        print(usage, file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else Path(file).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    be_deterministic()
    main(folder)
    return 0


def window_mask(n, width=None, kept=0):
    """True where a token can attend (n, n): to the last `width` tokens, all where there is no window, and to the first `kept`."""
    query, key = torch.arange(n)[:, None], torch.arange(n)
    near = query - key < width if width else torch.tensor(True)
    return (key <= query) & (near | (key < kept))


def save(path, model, is_half=False):
    """A .safetensors file of float32, or of float16, of which a page loads half as many bytes: 8 bytes of length, JSON of that length, the
    numbers."""
    header, data = {}, b""
    for name, tensor in model.state_dict().items():
        numbers = tensor.numpy().astype("<f2" if is_half else "<f4").tobytes()
        offsets = [len(data), len(data) + len(numbers)]
        header[name] = {"dtype": "F16" if is_half else "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        data += numbers
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(path, model):
    """Gives a model the tensors of such a file."""
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    header, types = json.loads(data[8:begin]), {"F32": torch.float32, "F16": torch.float16}

    def read(entry):
        first, end = entry["data_offsets"]
        return torch.frombuffer(bytearray(data[begin + first : begin + end]), dtype=types[entry["dtype"]]).reshape(entry["shape"])

    model.load_state_dict({name: read(entry) for name, entry in header.items()})
