#!/usr/bin/env python3
"""Changes the families' config.json and looks whether `attn run model` notices: the same numbers or a refusal, never others.

    fuzz.py --make OUT [--count N] [--seed S] [--family NAME ...]
                            where transformers is: N changed models, each with the numbers that transformers computes
    fuzz.py ATTN OUT [--all]
                            where attn is: runs it on each, and says which are equal to 1e-9, refused (exit code 2), or an alarm:
                            other numbers, or another exit code. --all prints the rest too

A change sets, removes or adds a field or two, before the weights are made, or after: then the file has what the config once said.
What transformers refuses, or would fill with random numbers, is left out. Exit code 1 where there is an alarm.
"""

import argparse
import collections
import copy
import json
import pathlib
import random
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np

NEAR = 1e-9
MOST_WEIGHTS = 400_000

ACTIVATIONS = (
    "gelu gelu_new gelu_fast gelu_python gelu_pytorch_tanh gelu_accurate gelu_10 quick_gelu relu relu2 relu6 silu swish sigmoid tanh "
    "linear mish hardswish leaky_relu laplace sqrtsoftplus xielu nonsense"
).split()
ROPES = ["default", "linear", "dynamic", "yarn", "longrope", "llama3", "proportional", "su", "mrope", "nonsense"]
LAYERS = ["full_attention", "sliding_attention", "chunked_attention", "linear_attention", "nonsense"]
TYPES = "llama mistral qwen2 qwen3 gemma gemma2 gemma3_text phi3 olmo olmo2 olmo3 cohere cohere2 smollm3 granite starcoder2 stablelm glm glm4 exaone4 mixtral nonsense".split()

ROPE_DICTIONARIES = [
    dict(rope_type="linear", factor=2.0),
    dict(type="linear", factor=2.0),
    dict(type="dynamic", factor=2.0),
    dict(rope_type="dynamic", factor=4.0),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=8),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, attention_factor=0.9),
    dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.7, mscale_all_dim=0.5),
    dict(rope_type="yarn", factor=None, original_max_position_embeddings=16, beta_fast=4, beta_slow=0.5, truncate=False),
    dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16),
    dict(rope_type="longrope", short_factor=[1.0, 1.5, 2.0], long_factor=[1.0, 2.0, 4.0], original_max_position_embeddings=8),
    dict(rope_type="longrope", short_factor=[1.0, 1.5, 2.0, 3.0], long_factor=[1.0, 2.0, 4.0, 5.0], factor=4.0, original_max_position_embeddings=16),
    dict(rope_type="default", partial_rotary_factor=0.5),
    dict(rope_type="default", rope_theta=37.0),
    dict(rope_theta=37.0),
    dict(full_attention=dict(rope_type="linear", factor=2.0, rope_theta=20.0), sliding_attention=dict(rope_type="default", rope_theta=70.0)),
    {},
    None,
]

# Fields of any family, old names and names of nobody, each with values.
ADDED = dict(
    rope_scaling=ROPE_DICTIONARIES,
    rope_parameters=ROPE_DICTIONARIES,
    rope_theta=[30.0, 5000.0, 10000, None],
    partial_rotary_factor=[0.5, 1.0, 0.25],
    rotary_pct=[0.5, 1.0],
    rotary_emb_base=[30, 5000.0],
    rope_local_base_freq=[30.0],
    local_rope_theta=[30.0],
    global_rope_theta=[30.0],
    original_max_position_embeddings=[4, 8, 32],
    max_position_embeddings=[4, 8, 32],
    head_dim=[4, 6, 8, 12, None],
    sliding_window=[1, 3, 5, 100, None],
    use_sliding_window=[True, False],
    max_window_layers=[0, 1],
    sliding_window_pattern=[1, 2, 3],
    layer_types=[["sliding_attention", "full_attention"], ["full_attention", "full_attention"], None],
    is_causal=[False, True],
    is_decoder=[True, False],
    add_cross_attention=[True],
    attention_bias=[True, False],
    mlp_bias=[True, False],
    use_bias=[True, False],
    bias=[True, False],
    qkv_bias=[True, False],
    use_qkv_bias=[True, False],
    use_qk_norm=[True, False],
    qk_layernorm=[True, False],
    norm_bias=[True],
    clip_qkv=[0.5, None],
    logit_scale=[0.5],
    logits_scaling=[2.0],
    embedding_multiplier=[2.0],
    residual_multiplier=[0.5],
    attention_multiplier=[0.3],
    query_pre_attn_scalar=[3],
    attn_logit_softcapping=[1.5, None],
    final_logit_softcapping=[1.5, None],
    use_bidirectional_attention=[True, False],
    image_size=[8, [8, 12], [12, 8], 13],
    patch_size=[2, [2, 4], [4, 2], 5],
    num_channels=[1, 3],
    num_hidden_layers=[1, 2],
    type_vocab_size=[1, 2, 3],
    local_attention=[1, 2, 5, 128],
    global_attn_every_n_layers=[1, 2, 3],
    hidden_act=ACTIVATIONS,
    hidden_activation=ACTIVATIONS,
    activation_function=ACTIVATIONS,
    tie_word_embeddings=[True, False, None],
    rms_norm_eps=[1e-2],
    layer_norm_eps=[1e-2],
    layer_norm_epsilon=[1e-2],
    norm_eps=[1e-2],
    norm_epsilon=[1e-2],
    num_key_value_heads=[1, 2, 4, None],
    num_kv_heads=[1, 2, 4, None],
    num_experts=[3, 4],
    num_local_experts=[3, 4],
    num_experts_per_tok=[1, 3],
    norm_topk_prob=[True, False],
    no_rope_layers=[[0, 1], [1, 1], [0, 0, 1, 1]],
    no_rope_layer_interval=[1, 3],
    scale_attn_by_inverse_layer_idx=[True],
    scale_attn_weights=[False],
    reorder_and_upcast_attn=[True],
    use_parallel_residual=[True, False],
    parallel_attn=[True, False],
    apply_residual_connection_post_layernorm=[True],
    slow_but_exact=[True],
    pretraining_tp=[2],
    position_embedding_type=["relative_key", "absolute"],
    scale_embedding=[True, False],
    quantization_config=[dict(quant_method="nonsense")],
    torch_dtype=["float16", "float32"],
    dtype=["float16", "float64", "nonsense"],
    chunk_size_feed_forward=[1],
    n_embed=[24],
    n_inner=[20, None],
    use_cache=[False],
    attention_dropout=[0.5],
    hidden_dropout=[0.5],
    initializer_range=[0.5],
    pad_token_id=[0, 1, 7, 100, -1, None],
    eos_token_id=[3, [3, 4]],
    transformers_version=["4.0.0"],
    architectures=[["LlamaForCausalLM"], ["NobodyForCausalLM"], None, []],
    auto_map=[dict(AutoModel="nobody.Model")],
    swiglu_limit=[1.0],
    attn_implementation=["eager"],
    nobody_knows=[3, "what", None],
)  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- changes


def other(dice, key, value):
    """Another value of the field, of the same kind or not."""
    if key == "model_type":
        return dice.choice(TYPES)
    if key in ("hidden_act", "hidden_activation", "activation_function", "activation", "classifier_activation"):
        return dice.choice(ACTIVATIONS)
    if key in ("rope_type", "type"):
        return dice.choice(ROPES)
    if key == "feed_forward_proj":
        return dice.choice(["relu", "gated-gelu", "gated-silu", "gelu", "silu", "gated-relu", "a-b-c"])
    if key == "topk_method":
        return dice.choice(["greedy", "group_limited_greedy", "noaux_tc", "nonsense"])
    if key in ADDED and dice.random() < 0.4:
        return dice.choice(ADDED[key])
    if isinstance(value, bool):
        return dice.choice([not value] * 4 + [None, int(not value), "true"])
    if isinstance(value, int):
        return dice.choice([value + 1, value - 1, 2 * value, value // 2, 0, 1, 2, 3, -1, None, float(value), value + 0.5, str(value)])
    if isinstance(value, float):
        return dice.choice([2 * value, value / 2, value * 1.1, value + 1, 0.0, 1.0, int(value), -value, None, str(value), 1e-2])
    if isinstance(value, str):
        return dice.choice(["nonsense", "", None, value.upper()])
    if isinstance(value, list):
        changed = list(value)
        how = dice.randrange(5)
        if how == 0 or not changed:
            return None
        if how == 1:
            return changed[:-1]
        if how == 2:
            return changed + changed[-1:]
        if how == 3:
            dice.shuffle(changed)
            return changed
        place = dice.randrange(len(changed))
        one = changed[place]
        changed[place] = dice.choice(LAYERS) if isinstance(one, str) else other(dice, "", one)
        return changed
    if isinstance(value, dict):
        return dice.choice([None, {}])
    return dice.choice([0, 1, 2, 3, 8, 0.5, 2.0, True, False, "nonsense", [1, 0]])


def places(config):
    """Each (dictionary, key) of a config."""
    found = []
    for key, value in config.items():
        found.append((config, key))
        if isinstance(value, dict):
            found += places(value)
    return found


def old_rope(config):
    """As it was written before 5.0."""
    rope = config.pop("rope_parameters", None)
    if not isinstance(rope, dict) or "rope_theta" not in rope:
        return None
    rope = dict(rope)
    config["rope_theta"] = rope.pop("rope_theta")
    if "partial_rotary_factor" in rope:
        config["partial_rotary_factor"] = rope.pop("partial_rotary_factor")
    config["rope_scaling"] = None if rope.get("rope_type") == "default" else {"type": rope.pop("rope_type", None), **rope}
    return "rope as before 5.0"


def change(dice, config):
    """One change of a config, in words."""
    how = dice.random()
    if how < 0.04:
        return old_rope(config) or change(dice, config)
    if how < 0.34:
        key = dice.choice(list(ADDED))
        before = config.get(key, "absent")
        config[key] = copy.deepcopy(dice.choice(ADDED[key]))
        if config[key] == before:
            return change(dice, config)
        return f"{key}: {before!r} -> {config[key]!r}"
    inside, key = dice.choice(places(config))
    before = inside[key]
    if how < 0.50:
        del inside[key]
        return f"{key}: {before!r} removed"
    inside[key] = other(dice, key, before)
    if inside[key] == before and type(inside[key]) is type(before):
        return change(dice, config)
    return f"{key}: {before!r} -> {inside[key]!r}"


# ------------------------------------------------------------------------------------------------------ with transformers


class LeftOut(Exception):
    """Transformers has no answer."""


def model_of(folder, how, from_config):
    """The model as the folder's config says: without weights and from the config alone, or with the folder's."""
    import torch
    import transformers

    attention = how.get("attention", "eager")
    kind = getattr(transformers, how["heads"]) if "heads" in how else transformers.AutoModelForCausalLM
    build = kind.from_config if "heads" not in how else kind
    config = transformers.AutoConfig.from_pretrained(folder)
    config._attn_implementation = attention
    config.dtype = None
    # Of a file's tensors, too: its config may now be that of another family, whose sizes it lacks.
    with torch.device("meta"):
        weights = sum(tensor.numel() for tensor in build(copy.deepcopy(config)).parameters())
    if weights > MOST_WEIGHTS:
        raise LeftOut("large")
    if from_config:
        return build(config)
    model, told = kind.from_pretrained(
        folder, dtype=torch.float64, attn_implementation=attention, experts_implementation="eager", output_loading_info=True
    )
    # Told in some way or other: names, or a name with two shapes.
    for what in ("missing_keys", "mismatched_keys", "error_msgs", "conversion_errors"):
        if told.get(what):
            raise LeftOut(f"{what}: {sorted(map(str, told[what]))[:3]}")
    return model.eval()


def make_one(dice, number, row, out):
    import torch

    import make

    name, config, fields, how = row
    how = dict(how)
    if config == "FalconConfig":
        how["attention"] = "sdpa"
    seed = dice.randrange(2**31)
    folder = out / f"{number:05}-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = folder / "config.json"

    base = make.build(config, fields, how)
    base.config.architectures = [type(base).__name__]
    base.config.save_pretrained(folder)
    original = json.loads(written.read_text())
    changed = copy.deepcopy(original)
    words = [change(dice, changed) for _ in range(1 if dice.random() < 0.6 else 2)]
    after = dice.random() < 0.3
    written.write_text(json.dumps(original if after else changed))
    model = model_of(folder, how, True)
    make.fill(model, torch.Generator().manual_seed(seed))
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    written.write_text(json.dumps(changed, indent=1))

    model = model_of(folder, how, False)
    case = make.Case(how, model, torch.Generator().manual_seed(seed + 1))
    expected = make.forward(model, case.named(case.single))[0]
    if expected.dtype != torch.float64 or not bool(torch.isfinite(expected).all()):
        raise LeftOut("not finite, or narrow")
    members = {"output": expected, **case.single}
    if how.get("kind") in make.POOLED:
        members |= {name: rows[0] for name, rows in make.pooled(model, case.named(case.single)).items()}
    np.savez_compressed(folder / "expected.npz", **{name: tensor.numpy() for name, tensor in members.items()})
    (folder / "change.txt").write_text(("after the weights: " if after else "") + "; ".join(words) + "\n")


def make_all(options):
    import torch

    import configs
    import double

    double.everywhere()
    import transformers

    import make

    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity(50)
    torch.set_num_threads(1)
    rows = [row for row in make.rows() if not options.family or row[0] in options.family]
    if not rows:
        sys.exit(f"fuzz: no family is {' '.join(options.family)}; there are {' '.join(row[0] for row in make.rows())}")
    counts = collections.Counter()
    for number in range(options.count):
        dice = random.Random(f"{options.seed} {number}")
        row = dice.choice(rows)
        torch.manual_seed(0)
        try:
            make_one(dice, number, row, options.out)
            counts["made"] += 1
        except Exception as error:  # whatever transformers does not take
            counts["left out: " + type(error).__name__] += 1
            shutil.rmtree(options.out / f"{number:05}-{row[0]}", ignore_errors=True)
            if options.all:
                print(f"{number:05}-{row[0]}: {type(error).__name__}: {str(error)[:200]}")
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()))


# ---------------------------------------------------------------------------------------------------------------- attn


def judge(program, folder):
    import attn

    with np.load(folder / "expected.npz") as file:
        expected, expected_pooled = file["output"], file["pooled"] if "pooled" in file else None
        members = {name: file[name] for name in file.files if name in attn.INPUTS}
    try:
        found, pooled = attn.run(program, folder, members)
    except attn.Refused as error:
        return "refused", str(error).split("\n")[0]
    except attn.Crashed as error:
        return "ALARM", str(error)
    except Exception as error:  # no time, no trace
        return "ALARM", f"{type(error).__name__}: {error}"
    if (pooled is None) != (expected_pooled is None):
        return "ALARM", f"there is {'no' if pooled is None else 'a'} pooled result"
    difference = attn.apart(found, expected)
    if pooled is not None:
        difference = max(difference, attn.apart(pooled[0], expected_pooled))
    if difference <= NEAR:
        return "equal", f"{difference:.1e}"
    return "ALARM", f"{difference:.1e} apart" if found.shape == expected.shape else f"{found.shape}, expected {expected.shape}"


def check_all(options):
    counts, families = collections.Counter(), collections.defaultdict(collections.Counter)
    for path in sorted(options.out.glob("*/expected.npz")):
        verdict, words = judge(options.program, path.parent)
        counts[verdict] += 1
        families[re.sub(r"^\d+-", "", path.parent.name)][verdict] += 1
        if verdict == "ALARM" or options.all:
            print(f"{verdict} {path.parent.name}: {(path.parent / 'change.txt').read_text().strip()}\n    {words}", flush=True)
    for family, verdicts in sorted(families.items()):
        print(f"{family:24} " + ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items())))
    print(", ".join(f"{counts[verdict]} {verdict}" for verdict in ("equal", "refused", "ALARM")))
    return 1 if counts["ALARM"] or not counts else 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--make", action="store_true")
    options.add_argument("--count", type=int, default=300)
    options.add_argument("--seed", default="1")
    options.add_argument("--family", nargs="+", default=[])
    options.add_argument("--all", action="store_true")
    options.add_argument("where", nargs="+", metavar="[ATTN] OUT")
    options = options.parse_args()
    if len(options.where) != (1 if options.make else 2):
        sys.exit("fuzz: expected --make OUT, or ATTN OUT")
    options.out = pathlib.Path(options.where[-1])
    if options.make:
        make_all(options)
    else:
        options.program = options.where[0]
        sys.exit(check_all(options))


if __name__ == "__main__":
    main()
