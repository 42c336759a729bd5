"""Makes the golden of the training of the small model, and the stories that lesson 15 trains it on.

The golden is the loss of each of the first steps of lessons/small_model/train.py, by PyTorch in float64 and in float32, from the
weights of untrained.safetensors. The stories are those of train.py, as ids, each with its end: 20,000 to train on and 1,000 with
combinations that training does not see. The golden of lesson 15 is a step by PyTorch: its autograd and its AdamW.
"""

import sys
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "lessons" / "small_model"
STORIES = FOLDER / "stories.npz"
sys.path.insert(0, str(HERE.parent / "oracle"))
sys.path.insert(0, str(FOLDER))
import grammar
import train
from measure import batch_of, loss_of
from model import ID, SmallModel
from modules import load_safetensors
from planted import SplitMix

STEPS = 50


def losses(dtype):
    """Of the steps of train.py's recipe, each before the step."""
    model = SmallModel()
    model.load_state_dict(load_safetensors(FOLDER / "untrained.safetensors"))
    model.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), train.LEARNING_RATE, betas=(0.9, 0.98), weight_decay=train.WEIGHT_DECAY)
    stories = grammar.stories(STEPS * train.STORIES_PER_STEP, held_out=False, seed=1)
    found = []
    for step in range(STEPS):
        first = step * train.STORIES_PER_STEP
        ids, targets = batch_of(stories[first : first + train.STORIES_PER_STEP])
        for group in optimizer.param_groups:
            group["lr"] = train.LEARNING_RATE * train.recipe.rate(step, train.STEPS, train.WARM_UP)
        loss = loss_of(model(ids)[0], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return np.array(found)


def training():
    torch.set_num_threads(1)
    return {"losses": losses(torch.float64)}


def cross_entropy_steps(logits, targets):
    log_p = logits.log_softmax(-1)
    target_p = torch.nn.functional.one_hot(targets, logits.shape[-1])
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    steps = {"logits": logits, "targets": targets, "shifted": logits - logits.amax(-1, keepdim=True)}
    steps |= {"log_p": log_p, "target_p": target_p.double()}
    return steps | {"is_counted": torch.ones_like(targets), "losses": losses, "loss": losses.mean()}


def mixed(z):
    """The last steps of SplitMix64."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def dropout_mask(b, d, rate, seed, step):
    """As include/attn/engines/train/batches.hpp describes it; 2 is the number of the purpose dropout."""
    golden = 0x9E3779B97F4A7C15
    state = mixed((mixed((mixed((seed + golden) % 2**64) + 2 + golden) % 2**64) + step + golden) % 2**64)
    fractions = (SplitMix(state)(b, d) + 1) / 2
    return np.where(fractions < rate, 0, 1 / (1 - rate))


def lesson_15():
    """One step of Adam on the table of words, on the sentence."""
    state = {name: tensor.double() for name, tensor in load_safetensors(FOLDER / "untrained.safetensors").items()}
    model = SmallModel().double()
    model.load_state_dict(state)
    normed = []
    model.norm.register_forward_hook(lambda module, inputs, output: normed.append(output))
    ids = torch.tensor([ID[word] for word in grammar.SENTENCE.split()])
    model(ids[None])
    tokens, targets = normed[0][0, :-1].detach(), ids[1:]
    table = state["token_embedding.weight"].clone().requires_grad_()
    golden = {"tokens": tokens, "table": table.detach().clone(), "targets": targets}

    logits = tokens @ table.T
    logits.retain_grad()
    optimizer = torch.optim.AdamW([table], train.LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0)
    steps = cross_entropy_steps(logits, targets)
    steps["loss"].backward()
    optimizer.step()
    golden |= {"logits": logits} | {f"cross_entropy.{name}": step for name, step in steps.items()}
    probabilities = logits.softmax(-1)
    golden |= {"probabilities": probabilities, "target_p": steps["target_p"], "difference": probabilities - steps["target_p"]}
    golden |= {"grad_logits": logits.grad, "grad_table": table.grad}
    kept = optimizer.state[table]
    mean, square = kept["exp_avg"], kept["exp_avg_sq"]
    golden |= {"adam.mean": mean, "adam.square": square, "adam.mean_hat": mean / (1 - 0.9), "adam.square_hat": square / (1 - 0.98)}
    golden |= {"adam.step": golden["table"] - table.detach(), "adam.table": table}
    again = tokens @ table.T
    golden |= {"again.logits": again} | {f"again.cross_entropy.{name}": step for name, step in cross_entropy_steps(again, targets).items()}
    mask = torch.from_numpy(dropout_mask(*tokens.shape, 0.5, 1, 0))
    golden |= {"dropout_mask": mask, "dropped": tokens * mask}
    return {name: step.detach().numpy() for name, step in golden.items()}


def as_ids(stories):
    return np.array([ID[step.word] for story in stories for step in story], np.uint8)


def stories():
    return {
        "training": as_ids(grammar.stories(train.TRAINING_STORIES, held_out=False, seed=1)),
        "held_out": as_ids(grammar.stories(train.HELD_OUT_STORIES, held_out=True, seed=2)),
    }
