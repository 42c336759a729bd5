#!/usr/bin/env python3
"""Makes model vectors: a tiny checkpoint of each family, with what is right and what each mistake makes of it.

    model_vectors.py ATTN OUT [FAMILY ...]

OUT/FAMILY/ gets config.json, model.safetensors and cases.json. What is right is transformers' in float64; so are mistakes in how tokens are
given (masks and positions). Other mistakes are made by attn, in its formulas, or in the config and the weights that it reads.
Needs transformers. script/model-vectors runs this.
"""

import argparse
import copy
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import numpy as np
import torch

import double
import make

TOKENS, PROMPT, SHORT = 24, 17, 9  # of the sequence; of what is given first; of a second sequence
COMPARED = 16  # how many logits of each mistake are kept
TYPES = ("float32", "float16", "bfloat16")
MOST_NOISE = 0.1  # of the spread of logits: where roundings are more off, they choose other experts, and say nothing of a port
MOST_SEEDS = 20  # that are tried for weights with less
EPSILON = 0.01  # larger than published ones, so that others show

# ------------------------------------------------------------------------------------------------------------ families

WIDE = dict(vocab_size=64, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
            max_position_embeddings=128, rms_norm_eps=EPSILON, pad_token_id=0, bos_token_id=1, eos_token_id=2, tie_word_embeddings=False)
NARROW = dict(WIDE, head_dim=None, intermediate_size=96)  # families without head_dim: 16
LEARNED = dict(vocab_size=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)


def without(fields, *names, **others):
    return {name: value for name, value in {**fields, **others}.items() if value is not None and name not in names}


def rope(rope_type="default", theta=1000.0, **others):
    return dict(rope_parameters=dict(rope_type=rope_type, rope_theta=theta, **others))


FAMILIES = {
    "llama": ("LlamaConfig", dict(WIDE, **rope("llama3", theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16))),
    "qwen2": ("Qwen2Config", without(NARROW, **rope())),
    "qwen3": ("Qwen3Config", dict(WIDE, **rope())),
    "mistral": ("MistralConfig", dict(WIDE, sliding_window=8, **rope())),
    "mixtral": ("MixtralConfig", dict(WIDE, num_local_experts=4, num_experts_per_tok=2, sliding_window=None, **rope())),
    "gemma2": ("Gemma2Config", dict(WIDE, query_pre_attn_scalar=16, attn_logit_softcapping=3.0, final_logit_softcapping=4.0, sliding_window=8, tie_word_embeddings=True, hidden_activation="gelu_pytorch_tanh", **rope())),
    "gemma3_text": ("Gemma3TextConfig", dict(WIDE, num_hidden_layers=3, num_key_value_heads=1, query_pre_attn_scalar=16, sliding_window=8, tie_word_embeddings=True, sliding_window_pattern=3,
        rope_parameters=dict(full_attention=dict(rope_type="linear", factor=8.0, rope_theta=5000.0), sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "phi3": ("Phi3Config", without(NARROW, sliding_window=8, **rope(partial_rotary_factor=0.5))),
    "phi3_longrope": ("Phi3Config", without(NARROW, original_max_position_embeddings=32, **rope("longrope", short_factor=[1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0], long_factor=[1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]))),
    "gpt_oss": ("GptOssConfig", dict(WIDE, num_local_experts=4, num_experts_per_tok=2, sliding_window=8, **rope("yarn", theta=500.0, factor=4.0, beta_fast=4.0, beta_slow=0.5, truncate=False, original_max_position_embeddings=16))),
    "deepseek_v3": ("DeepseekV3Config", dict(without(WIDE, "head_dim"), num_key_value_heads=4, first_k_dense_replace=1, moe_intermediate_size=32, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=2, n_group=4, topk_group=2, routed_scaling_factor=2.5, q_lora_rank=32, kv_lora_rank=32, qk_nope_head_dim=32, qk_rope_head_dim=16, v_head_dim=32,
        **rope("yarn", theta=500.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, mscale=1.0, mscale_all_dim=1.0))),
    "glm4_moe": ("Glm4MoeConfig", dict(WIDE, first_k_dense_replace=1, moe_intermediate_size=32, n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2, n_group=1, topk_group=1, routed_scaling_factor=2.5, use_qk_norm=True, attention_bias=True, **rope(partial_rotary_factor=0.5))),
    "olmo2": ("Olmo2Config", without(NARROW, **rope())),
    "granite": ("GraniteConfig", without(NARROW, attention_multiplier=0.3, embedding_multiplier=1.5, residual_multiplier=0.7, logits_scaling=2.0, **rope())),
    "starcoder2": ("Starcoder2Config", without(NARROW, "rms_norm_eps", norm_epsilon=EPSILON, sliding_window=8, tie_word_embeddings=True, **rope())),
    "stablelm": ("StableLmConfig", without(NARROW, "rms_norm_eps", layer_norm_eps=EPSILON, use_qkv_bias=True, **rope(partial_rotary_factor=0.5))),
    "olmoe": ("OlmoeConfig", without(NARROW, num_experts=4, num_experts_per_tok=2, **rope())),
    "qwen2_moe": ("Qwen2MoeConfig", without(NARROW, moe_intermediate_size=32, shared_expert_intermediate_size=48, num_experts=4, num_experts_per_tok=2, **rope())),
    "qwen3_moe": ("Qwen3MoeConfig", dict(WIDE, moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True, **rope())),
    "glm4": ("Glm4Config", dict(WIDE, **rope(partial_rotary_factor=0.5))),
    "qwen3_next": ("Qwen3NextConfig", dict(WIDE, num_hidden_layers=4, moe_intermediate_size=32, shared_expert_intermediate_size=32, num_experts=4, num_experts_per_tok=2, linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=32, linear_value_head_dim=32, **rope(partial_rotary_factor=0.5))),
    "qwen3_5_text": ("Qwen3_5TextConfig", dict(WIDE, num_hidden_layers=4, linear_num_key_heads=1, linear_num_value_heads=2, linear_key_head_dim=32, linear_value_head_dim=32, **rope(partial_rotary_factor=0.5, mrope_section=[4, 2, 2], mrope_interleaved=True))),
    "llama4_text": ("Llama4TextConfig", dict(WIDE, num_hidden_layers=4, intermediate_size_mlp=32, num_local_experts=4, num_experts_per_tok=1, interleave_moe_layer_step=2, no_rope_layer_interval=4, attention_chunk_size=8, floor_scale=4, attn_scale=0.5, **rope())),
    "gpt2": ("GPT2Config", dict(LEARNED, n_embd=64, n_layer=2, n_head=4, n_positions=64, layer_norm_epsilon=EPSILON)),
    "t5": ("T5Config", dict(vocab_size=64, d_model=64, d_kv=32, d_ff=96, num_layers=2, num_heads=4, relative_attention_num_buckets=8, relative_attention_max_distance=12, layer_norm_epsilon=EPSILON, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0),
        dict(heads="T5ForConditionalGeneration")),
    "bart": ("BartConfig", dict(vocab_size=64, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=2, forced_eos_token_id=2, scale_embedding=True), dict(heads="BartForConditionalGeneration")),
    "whisper": ("WhisperConfig", dict(vocab_size=64, d_model=64, num_mel_bins=8, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_source_positions=20, max_target_positions=64,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2), dict(heads="WhisperForConditionalGeneration")),
    "bert": ("BertConfig", dict(LEARNED, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, max_position_embeddings=64, type_vocab_size=2, layer_norm_eps=EPSILON), dict(kind="encoder", heads="BertForMaskedLM")),
}  # fmt: skip

YARN = dict(original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0)
for name, others in dict(  # what published checkpoints have, for engines that have it in place of a field
    llama=dict(head_dim=None),
    mistral=dict(head_dim=None, **rope(theta=10000.0)),
    gemma2=dict(query_pre_attn_scalar=32, **rope(theta=10000.0)),
    gpt_oss=rope("yarn", theta=500.0, factor=4.0, truncate=False, **YARN),
    deepseek_v3=dict(rms_norm_eps=1e-6, **rope("yarn", theta=500.0, factor=4.0, mscale=1.0, mscale_all_dim=1.0, **YARN)),
).items():
    config, fields = FAMILIES[name]
    FAMILIES[f"{name}_as_published"] = config, without(fields, **others)

WITH_TOKENIZER = ("llama", "qwen2", "mistral", "mixtral", "gemma2", "gemma3_text", "phi3")


def as_published(config):
    """The fields in the form that checkpoints have on the hub, which older readers know, too."""
    config = {name: value for name, value in config.items() if name not in ("transformers_version", "_name_or_path")}
    if "dtype" in config:
        config["torch_dtype"] = config.pop("dtype")
    if config["model_type"] == "gpt2":
        config["n_ctx"] = config["n_positions"]
    if config["model_type"] in ("qwen2", "qwen2_moe") and not config["use_sliding_window"]:
        config["sliding_window"] = 8  # a window that use_sliding_window turns off
    if config["model_type"] == "qwen3_moe":
        config.update(max_window_layers=config["num_hidden_layers"], num_experts=config.pop("num_local_experts"))
    if config["model_type"] == "deepseek_v3":
        config.update(scoring_func="sigmoid", topk_method="noaux_tc")
    parameters = config.get("rope_parameters")
    if not isinstance(parameters, dict) or config["model_type"] in ("qwen3_5_text",):
        return config
    del config["rope_parameters"]
    if "full_attention" in parameters:  # Gemma 3
        config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        parameters = parameters["full_attention"]
    parameters = dict(parameters)
    config["rope_theta"] = parameters.pop("rope_theta")
    if "partial_rotary_factor" in parameters:
        config["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
    kind = parameters.pop("rope_type")
    parameters = {name: value for name, value in parameters.items() if kind != "longrope" or name.endswith("_factor")}
    config["rope_scaling"] = None if kind == "default" else {"type" if config["model_type"] in ("phi3", "deepseek_v3") else "rope_type": kind, **parameters}
    return config


# ---------------------------------------------------------------------------------------------------------- what is right


def encoded(config):
    """What an encoder beside a decoder is given, by name: ids, or for sounds sixteenths."""
    def numbers(count):
        return [(5 * i * i + 7 * i) % 61 for i in range(count)]

    if config.model_type == "whisper":
        frames = 2 * config.max_source_positions
        return dict(input_features=[[(one - 30) / 16 for one in numbers(config.num_mel_bins * frames)[row * frames:(row + 1) * frames]] for row in range(config.num_mel_bins)])
    return dict(input_ids=[3 + one for one in numbers(20)])


class Decoding(torch.nn.Module):
    """A model with an encoder, which is given the same in each call, as a decoder."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, input_ids, **others):
        given = {name: torch.tensor([value]) for name, value in encoded(self.config).items()}
        given = {name: value.to(self.model.dtype) if value.is_floating_point() else value for name, value in given.items()}
        return self.model(**given, decoder_input_ids=input_ids, **others)


def loaded(folder, how, dtype=torch.float64):
    model = make.load(folder, how, dtype)
    return Decoding(model) if model.config.is_encoder_decoder else model


def layers_of(model):
    """The list of layers, which transformers calls layers, h, layer or block: a decoder's where there is one beside the encoder."""
    count = getattr(model.config, "num_hidden_layers", None) or model.config.n_layer
    part = model.model.get_decoder() if model.config.is_encoder_decoder else model
    return next(m for m in part.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == count)


def hidden_states(model, ids):
    """After each layer, of the last token."""
    kept = []
    hooks = [layer.register_forward_hook(lambda _, __, out: kept.append((out[0] if isinstance(out, tuple) else out)[0, -1].double())) for layer in layers_of(model)]
    call(model, ids[None])
    for hook in hooks:
        hook.remove()
    return torch.stack(kept)


def call(model, ids, **others):
    if model.config.model_type != "bert":
        others.setdefault("use_cache", False)
    with torch.no_grad():
        return model(input_ids=ids, **others).logits


def additive(allowed, dtype=torch.float64):
    return torch.where(allowed, 0.0, torch.finfo(dtype).min)[:, None].to(dtype)


def masks_of(model, allowed, places):
    """What a model takes for an arbitrary mask (b, n, m): those of its kinds of layers."""
    config = model.config
    if config.is_encoder_decoder:
        raise NotImplementedError
    window, chunk = getattr(config, "sliding_window", None), getattr(config, "attention_chunk_size", None)
    if getattr(config, "use_sliding_window", True) is False:
        window = None
    apart = places[:, :, None] - places[:, None, :]
    near = allowed & (apart < window) if window else allowed
    if chunk:
        near = allowed & (places[:, :, None] // chunk == places[:, None, :] // chunk)
    kinds = set(getattr(config, "layer_types", None) or ())
    if not kinds or config.model_type == "mistral":
        return additive(near)
    if "linear_attention" in kinds:
        raise NotImplementedError
    names = {"full_attention": allowed, "sliding_attention": near, "chunked_attention": near}
    return {name: additive(mask) for name, mask in names.items() if name in kinds or name == "full_attention"}


class Cases:
    """How tokens are given, with the right logits, and what mistakes of masks and positions make of them."""

    def __init__(self, model, random):
        self.model = model
        self.is_causal = model.config.model_type != "bert"
        config = model.config
        self.ids = torch.randint(3, config.vocab_size, (TOKENS,), generator=random)
        self.second = torch.randint(3, config.vocab_size, (SHORT,), generator=random)
        self.is_placed = config.model_type in ("gpt2", "bert")  # absolute positions

    def tokens(self, *given):
        return [int(one) for one in torch.cat([torch.atleast_1d(each) for each in given])]

    def once(self):
        logits = call(self.model, self.ids[None])[0]
        return dict(id="once", about="One sequence, all tokens at once.", ids=[self.tokens(self.ids)], rows=[SHORT, PROMPT - 1, TOKENS - 1]), logits

    def with_cache(self, begins):
        import transformers

        cache = transformers.DynamicCache(config=self.model.config)
        if self.model.config.is_encoder_decoder:
            cache = transformers.EncoderDecoderCache(cache, transformers.DynamicCache(config=self.model.config))
        found = []
        for begin, end in itertools.pairwise([*begins, TOKENS]):
            found.append(call(self.model, self.ids[None, begin:end], past_key_values=cache, use_cache=True)[0])
        return torch.cat(found)

    def steps(self):
        begins = [0, *range(PROMPT, TOKENS)]
        case = dict(id="steps", about=f"A prompt of {PROMPT} tokens, then one by one, with a cache.", ids=[self.tokens(self.ids)], calls=begins, rows=[PROMPT, TOKENS - 1])
        return case, self.with_cache(begins)

    def chunks(self):
        begins = list(range(0, TOKENS, 7))
        case = dict(id="chunks", about="The same tokens in chunks of 7, with a cache.", ids=[self.tokens(self.ids)], calls=begins, rows=[PROMPT, TOKENS - 1])
        return case, self.with_cache(begins)

    def left(self):
        pad = TOKENS - SHORT
        ids = torch.stack([self.ids, torch.cat([torch.zeros(pad, dtype=torch.long), self.second])])
        mask = torch.ones_like(ids)
        mask[1, :pad] = 0
        side = "on the left" if self.is_causal else "on the left, where 0 in attention_mask is padding"
        case = dict(id="padded_left", about=f"Two sequences, the second padded {side}.", ids=ids.tolist(), attention_mask=mask.tolist(),
                    position_ids=(mask.cumsum(1) - 1).clamp(min=0).tolist(), rows=[TOKENS - 1, 2 * TOKENS - 1])
        return case, torch.cat([call(self.model, self.ids[None])[0], torch.zeros(pad, self.model.config.vocab_size), call(self.model, self.second[None])[0]])

    def packed(self):
        ids = torch.cat([self.second, self.ids])
        case = dict(id="packed", about="Two sequences in one row: neither sees the other, and each begins at position 0.", ids=[self.tokens(ids)],
                    position_ids=[[*range(SHORT), *range(TOKENS)]], sequences=[SHORT, TOKENS], rows=[SHORT - 1, SHORT + TOKENS - 1])
        return case, torch.cat([call(self.model, self.second[None])[0], call(self.model, self.ids[None])[0]])

    def all(self):
        yield self.once()
        if self.is_causal:
            yield self.steps()
            yield self.chunks()
        if not self.model.config.is_encoder_decoder:
            yield self.left()
            yield self.packed()

    def masked(self, ids, allowed, places, columns=None):
        """@param columns  by which windows count, where these are not the positions"""
        masks = masks_of(self.model, allowed, places if columns is None else columns)
        return call(self.model, ids, attention_mask=masks, position_ids=places).flatten(0, 1)

    def check(self):
        """That transformers, given these masks and positions, computes what is right."""
        n = torch.arange(TOKENS)[None]
        whole = self.masked(self.ids[None], self.seen(n, n), n)
        off = make.apart(whole, call(self.model, self.ids[None])[0])
        if off > 1e-10:
            raise SystemExit(f"model_vectors: with a mask of its own the model is {off:.1e} off")

    def seen(self, queries, keys):
        return keys[:, None, :] <= queries[:, :, None] if self.is_causal else torch.ones(1, queries.shape[1], keys.shape[1], dtype=torch.bool)

    def mistakes(self, name):
        """Of a case: a mistake's name, how it was made, and the logits of all rows."""
        n = torch.arange(TOKENS)[None]
        causal = self.seen(n, n)
        begins = torch.tensor({"steps": [0, *range(PROMPT, TOKENS)], "chunks": list(range(0, TOKENS, 7))}.get(name, [0]))
        begin = begins[torch.searchsorted(begins, n[0], right=True) - 1][None]
        call_of = (torch.searchsorted(begins, n[0], right=True) - 1)[None]
        own = causal & (begin[:, :, None] == begin[:, None, :])
        later = (begin > 0).long()
        if name in ("steps", "chunks"):
            for id, how, allowed, places in [
                ("positions_restart", "each call begins at position 0", causal, n - begin),
                ("positions_stand_still", f"later calls are at position {PROMPT}" if name == "steps" else "each call stands at its number of calls", causal, torch.where(later > 0, n - begin + int(begins[1]), n)),
                ("positions_one_ahead", "later calls are one position too far", causal, n + later),
                ("positions_one_ahead", "later calls are one position too few", causal, n - later),
                ("positions_counted_twice", "each call counts its tokens twice", causal, n + begin),
                ("positions_by_call", "a call of several tokens counts as one", causal, n - begin + call_of),
                ("cache_ignored", "later calls see their own tokens alone", own, n),
                ("cache_ignored", "later calls see their own tokens alone, and begin at 0", own, n - begin),
                ("cache_overwritten", "later calls see the first call and their own tokens", causal & (own | (n[:, None, :] < begins[1])), n),
                ("chunk_masked_top_left", "a call's mask is aligned top-left", causal & ((n[:, None, :] <= (n - begin)[:, :, None]) | ((begin == 0) | (name == "steps"))[:, :, None]), n),
                ("mask_at_first_key", "a later call sees its past without the latest key", causal & ~((n[:, None, :] == n[:, :, None]) & (begin > 0)[:, :, None]), n),
                ("chunk_unmasked", "a call's tokens see each other, later ones too", causal | ((begin[:, :, None] == begin[:, None, :])), n),
                ("chunk_unmasked", "a later call's tokens see each other, later ones too", causal | ((begin[:, :, None] == begin[:, None, :]) & (begin > 0)[:, :, None]), n),
                ("first_token_lost", "the cache begins with the second token", causal & ~((n[:, None, :] == 0) & (begin > 0)[:, :, None]), n),
            ]:
                yield id, how, lambda allowed=allowed, places=places: self.masked(self.ids[None], allowed, places)
        if name == "padded_left":
            pad = TOKENS - SHORT
            ids = torch.stack([self.ids, torch.cat([torch.zeros(pad, dtype=torch.long), self.second])])
            columns = n.expand(2, -1)
            real = torch.ones(2, TOKENS, dtype=torch.bool)
            real[1, :pad] = False
            places = (real.long().cumsum(1) - 1).clamp(min=0)
            every = self.seen(columns, columns).expand(2, -1, -1)
            right = every & (real[:, None, :] | (n[:, None, :] == n[:, :, None]))
            mirrored = every & (real.flip(1)[:, None, :] | (n[:, None, :] == n[:, :, None]))
            for id, how, allowed, at, window in [
                ("padding_not_masked", "padding is seen, positions are counted without it", every, places, columns),
                ("padding_not_masked", "padding is seen, and positions count it", every, columns, columns),
                ("padding_counted", "positions count padding", right, columns, columns),
                ("padding_counted_from_one", "positions are one too large", right, places + 1, columns),
                ("padding_on_other_side", "the mask is that of padding on the right", mirrored, places, columns),
            ]:
                yield id, how, lambda allowed=allowed, at=at, window=window: self.masked(ids, allowed, at, window)
        if name == "packed":
            ids = torch.cat([self.second, self.ids])[None]
            n = torch.arange(SHORT + TOKENS)[None]
            first = torch.where(n < SHORT, 0, SHORT)
            every = self.seen(n, n)
            apart = first[:, :, None] == first[:, None, :]
            for id, how, allowed, at in [
                ("packed_seen", "a sequence sees the one before it; positions go on", every, n),
                ("packed_seen", "a sequence sees the one before it; positions begin anew", every, n - first),
                ("packed_positions", "positions go on over sequences", every & apart, n),
            ]:
                yield id, how, lambda allowed=allowed, at=at: self.masked(ids, allowed, at, n)


# ----------------------------------------------------------------------------------------------- mistakes in what is read


def sets(**fields):
    return lambda config, weights: config.update(fields)


def rope_edit(**fields):
    def edit(config, weights):
        config["rope_scaling"] = {**config["rope_scaling"], **fields}
    return edit


def config_mistakes(config):
    """A mistake's name, how it is made, and the edit."""
    has = lambda name: config.get(name) is not None  # noqa: E731
    for field in ("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon"):
        if has(field):
            for value in (1e-5, 1e-6, 1e-12):
                yield "norm_epsilon_value", f"{field} is {value:g}", sets(**{field: value})
    if has("rope_theta"):
        for value in (10000.0, 500000.0, 1000000.0):
            yield "rotary_base", f"rope_theta is {value:g}", sets(rope_theta=value)
    if has("rope_local_base_freq"):
        local, everywhere = config["rope_local_base_freq"], config["rope_theta"]
        yield "rotary_base_of_other_layers", "layers with a window have the others' rope_theta", sets(rope_local_base_freq=everywhere)
        yield "rotary_base_of_other_layers", "all layers have rope_local_base_freq", sets(rope_theta=local)
        yield "rotary_base_of_other_layers", "rope_theta and rope_local_base_freq are exchanged", sets(rope_theta=local, rope_local_base_freq=everywhere)
        yield "rotary_base", "rope_local_base_freq is 10000", sets(rope_local_base_freq=10000.0)
        yield "fields_not_read", "scores are divided by sqrt(head_dim), and all layers have a window", sets(
            query_pre_attn_scalar=config["head_dim"], layer_types=["sliding_attention"] * config["num_hidden_layers"])
    scaling = config.get("rope_scaling")
    if scaling:
        yield "rotary_scaling_missing", "rope_scaling is not read", sets(rope_scaling=None)
        yield "fields_not_read", "rope_scaling is not read, and rope_theta is 10000", sets(rope_scaling=None, rope_theta=10000.0)
        if "short_factor" in scaling:
            inverse = [1 / one for one in scaling["short_factor"]]
            yield "rotary_factors_multiplied", "frequencies are multiplied by short_factor", rope_edit(short_factor=inverse)
            yield "rotary_factors_multiplied", "frequencies are multiplied by short_factor, and the attention factor is left out", rope_edit(short_factor=inverse, attention_factor=1.0)
        elif scaling.get("rope_type", scaling.get("type")) != "linear":
            yield "rotary_scaling_linear", f"all frequencies are divided by {scaling['factor']:g}", sets(rope_scaling={"rope_type": "linear", "factor": scaling["factor"]})
        for name in ("low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "original_max_position_embeddings", "mscale", "mscale_all_dim"):
            if name in scaling:
                usual = {"low_freq_factor": 4.0, "high_freq_factor": 1.0, "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 128, "mscale": 0.5, "mscale_all_dim": 0.0}[name]
                yield "rotary_scaling_field", f"{name} is {usual:g}", rope_edit(**{name: usual})
        if "beta_fast" in scaling:
            yield "fields_not_read", "beta_fast is 32, beta_slow is 1, and truncate is true", rope_edit(beta_fast=32.0, beta_slow=1.0, truncate=True)
        if "truncate" in scaling:
            yield "rotary_scaling_field", "truncate is true", rope_edit(truncate=True)
    if has("partial_rotary_factor") and config["partial_rotary_factor"] != 1:
        yield "rotary_features_all", "partial_rotary_factor is not read", sets(partial_rotary_factor=1.0)
        yield "rotary_features_part", "partial_rotary_factor is halved", sets(partial_rotary_factor=config["partial_rotary_factor"] / 2)
    window = config.get("sliding_window")
    kinds = config.get("layer_types")
    if window and config.get("use_sliding_window", True) and (kinds is None or "sliding_attention" in kinds):
        for value in (window - 1, window + 1):
            yield "window_off_by_one", f"the window is {value} tokens, not {window}", sets(sliding_window=value)
        yield "window_missing", "there is no window", sets(**({"sliding_window": 128}))
    if window and config.get("use_sliding_window") is False:
        for value in (window, window + 1):
            yield "window_where_none", f"use_sliding_window is not read, the window is {value} tokens", sets(use_sliding_window=True, sliding_window=value, layer_types=["sliding_attention"] * config["num_hidden_layers"])
    if kinds and len(set(kinds)) > 1 and "linear_attention" not in kinds:
        for kind in sorted(set(kinds)):
            yield "window_of_other_layers", f"all layers are {kind}", sets(layer_types=[kind] * len(kinds))
        yield "window_of_other_layers", "the order of layer_types is reversed", sets(layer_types=kinds[::-1])
        turned = [next(other for other in sorted(set(kinds)) if other != kind) for kind in kinds]
        yield "window_of_other_layers", "the two kinds of layers are exchanged", sets(layer_types=turned)
    if has("query_pre_attn_scalar"):
        for value, what in ((config["head_dim"], "head_dim"), (config["hidden_size"] // config["num_attention_heads"], "hidden_size / heads")):
            yield "scale_default", f"scores are divided by sqrt({what})", sets(query_pre_attn_scalar=value)
        if has("rope_theta"):
            yield "fields_not_read", "scores are divided by sqrt(head_dim), and rope_theta is 10000", sets(query_pre_attn_scalar=config["head_dim"], rope_theta=10000.0)
    for field in ("attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"):
        if has(field):
            usual = (config["hidden_size"] // config["num_attention_heads"]) ** -0.5 if field == "attention_multiplier" else 1.0
            yield "multiplier_missing", f"{field} is {usual:g}", sets(**{field: usual})
    if has("embedding_multiplier"):
        yield "fields_not_read", "no multiplier is read", sets(attention_multiplier=(config["hidden_size"] // config["num_attention_heads"]) ** -0.5, embedding_multiplier=1.0, residual_multiplier=1.0, logits_scaling=1.0)
    if has("attn_logit_softcapping"):
        yield "softcap_missing", "attn_logit_softcapping is not read", sets(attn_logit_softcapping=None)
        yield "softcap_missing", "neither cap is read", sets(attn_logit_softcapping=None, final_logit_softcapping=None)
    if has("final_logit_softcapping"):
        yield "logit_softcap_missing", "final_logit_softcapping is not read", sets(final_logit_softcapping=None)
    for field in ("hidden_act", "hidden_activation", "activation_function"):
        if has(field):
            for value in ("gelu", "gelu_pytorch_tanh", "silu", "relu", "gelu_new"):
                if value != config[field]:
                    yield "gelu_tanh" if "gelu" in value and "gelu" in config[field] else "activation_of_other", f"the activation is {value}", sets(**{field: value})
    top = next((name for name in ("num_experts_per_tok",) if has(name)), None)
    if top:
        for value in (config[top] - 1, config[top] + 1):
            if 0 < value:
                yield "experts_count", f"{value} experts per token, not {config[top]}", sets(**{top: value})
    if "norm_topk_prob" in config:
        value = not config["norm_topk_prob"]
        yield "experts_renormalized" if value else "experts_not_normalized", f"norm_topk_prob is {str(value).lower()}", sets(norm_topk_prob=value)
    if has("routed_scaling_factor") and config["routed_scaling_factor"] != 1:
        yield "experts_scaling_missing", "routed_scaling_factor is not read", sets(routed_scaling_factor=1.0)
    if config.get("n_group", 1) > 1:
        yield "experts_group_missing", "experts are chosen among all groups", sets(n_group=1, topk_group=1)
    if has("swiglu_limit"):
        yield "swiglu_limit_missing", "swiglu_limit is not read", sets(swiglu_limit=1e6)
    if "rope_interleave" in config:
        yield "rotary_layout", "rope_interleave is the other one", sets(rope_interleave=not config["rope_interleave"])
    if has("attn_temperature_tuning"):
        yield "attention_temperature_missing", "attn_temperature_tuning is not read", sets(attn_temperature_tuning=False)
    if "use_qk_norm" in config and config["use_qk_norm"] and config["model_type"] == "llama4_text":
        yield "qk_norm_missing", "use_qk_norm is not read", sets(use_qk_norm=False)
    if "no_rope_layers" in config:
        yield "rotary_in_all_layers", "no_rope_layers is not read", sets(no_rope_layers=[1] * config["num_hidden_layers"])
    if has("attention_chunk_size"):
        for value in (config["attention_chunk_size"] - 1, config["attention_chunk_size"] + 1, 128):
            yield "attention_chunk_size", f"chunks of {value} tokens, not {config['attention_chunk_size']}", sets(attention_chunk_size=value)
    if has("relative_attention_max_distance"):
        for value in (config["relative_attention_max_distance"] - 1, 128):
            yield "bucket_distance", f"relative_attention_max_distance is {value}", sets(relative_attention_max_distance=value)
    if config.get("scale_decoder_outputs"):
        yield "head_scale_missing", "the decoder's output is not divided by sqrt(d_model)", sets(scale_decoder_outputs=False)
    if config.get("scale_embedding"):
        yield "embedding_scale_missing", "scale_embedding is not read", sets(scale_embedding=False)
    if config["model_type"] == "gpt2":
        yield "scale_every_block", "scores are also divided by the number of the layer", sets(scale_attn_by_inverse_layer_idx=True)


def weight_mistakes(config, weights):
    embed = next(name for name in weights if name.endswith(("shared.weight", "embed_tokens.weight", "wte.weight", "word_embeddings.weight")))

    def changed(names, change):
        def edit(config, weights):
            for name in names:
                weights[name] = change(weights[name])
        return edit

    if "lm_head.weight" in weights and not config.get("tie_word_embeddings"):
        yield "head_tied", "lm_head is the embedding", lambda config, weights: weights.update({"lm_head.weight": weights[embed]})
    if config.get("scale_decoder_outputs"):
        yield "head_scale_inverse", "the decoder's output is multiplied by sqrt(d_model)", changed(["decoder.final_layer_norm.weight"], lambda array: array * config["d_model"])
    width = config.get("hidden_size", config.get("n_embd"))
    if config["model_type"].startswith("gemma"):
        def unscaled(factor):
            def edit(config, weights):
                weights["lm_head.weight"] = weights[embed]
                weights[embed] = weights[embed] * factor
                config["tie_word_embeddings"] = False
            return edit
        yield "embedding_scale_missing", f"the embeddings are not multiplied by sqrt({width})", unscaled(1 / width**0.5)
        yield "embedding_scale_everywhere", "the embeddings of the head are scaled, too", lambda config, weights: (
            weights.update({"lm_head.weight": weights[embed] * width**0.5}), config.update(tie_word_embeddings=False))
    elif "lm_head.weight" in weights:
        yield "embedding_scaled", f"the embeddings are multiplied by sqrt({width})", changed([embed], lambda array: array * width**0.5)
    # What a converter lost, by the kind of tensor.
    kinds = {}
    for name in weights:
        words = [word for word in name.split(".") if not word.isdigit()]
        kinds.setdefault(".".join(words[-3:]), []).append(name)
    adds_one = config["model_type"].startswith("gemma") or config["model_type"].startswith(("qwen3_next", "qwen3_5"))
    for kind, names in kinds.items():
        if kind.endswith("bias") or "_bias" in kind or "sinks" in kind:
            yield ("sink_missing" if "sinks" in kind else "bias_lost"), f"{kind} is not read", changed(names, np.zeros_like)
        elif weights[names[0]].ndim == 1 and "norm" in kind:
            neutral = np.zeros_like if adds_one and "linear_attn" not in kind else np.ones_like
            yield "norm_gain_lost", f"{kind} is not read", changed(names, neutral)
            if not adds_one:
                yield "norm_gain_plus_one", f"{kind} is stored with 1 added", changed(names, lambda array: array + 1)
            else:
                yield "norm_gain_without_one", f"{kind} is stored with 1 subtracted", changed(names, lambda array: array - 1)
    # Each key/value head beside itself once for each of its query heads, in turn.
    heads, shared = config.get("num_attention_heads"), config.get("num_key_value_heads")
    are_grouped = heads and shared and 1 < shared < heads and "kv_lora_rank" not in config
    names = [name for name in weights if are_grouped and re.search(r"self_attn\.([kv]_proj\.(weight|bias)|k_norm\.weight)$", name) and weights[name].shape[0] % shared == 0]
    if names:
        def tiled(config, weights, names=names, heads=heads, shared=shared):
            for name in names:
                if weights[name].shape[0] > (config.get("head_dim") or config["hidden_size"] // heads):
                    weights[name] = np.concatenate([weights[name]] * (heads // shared))
            config["num_key_value_heads"] = heads
        yield "kv_tiled", f"key/value heads are {', '.join(str(head % shared) for head in range(heads))}", tiled
    # Rows of queries and keys in the other order of rotary features, as converters to and from GGUF make it.
    for id, how, order in (("rotary_permutation", "the rows of q and k are permuted as for another layout", False), ("rotary_permutation", "the rows of q and k are permuted back, and were not", True)):
        names = {name: heads for name in weights for end, heads in (("q_proj.weight", config.get("num_attention_heads")), ("k_proj.weight", config.get("num_key_value_heads"))) if name.endswith(end)}
        if names and config.get("rope_theta") and "kv_lora_rank" not in config:
            def edit(config, weights, names=names, order=order):
                for name, heads in names.items():
                    rows = weights[name].reshape(heads, *((-1, 2) if order else (2, -1)), weights[name].shape[1])
                    weights[name] = rows.swapaxes(1, 2).reshape(weights[name].shape)
            yield id, how, edit
    fused = [name for name in weights if name.endswith("mlp.gate_up_proj.weight")]
    if fused:
        yield "swiglu_swapped", "the halves of gate_up_proj are exchanged", changed(fused, lambda array: np.concatenate(np.split(array, 2)[::-1]))
        yield "gate_up_interleaved", "the rows of gate_up_proj are taken in turn", changed(fused, lambda array: np.concatenate([array[0::2], array[1::2]]))
    fused = [name for name in weights if name.endswith("qkv_proj.weight")]
    if fused:
        q, k = (config[name] * (config["hidden_size"] // config["num_attention_heads"]) for name in ("num_attention_heads", "num_key_value_heads"))
        yield "qkv_swapped", "keys and values of qkv_proj are exchanged", changed(fused, lambda array: np.concatenate([array[:q], array[q + k:], array[q:q + k]]))
    packed = [name for name in weights if "experts.gate_up_proj" in name]
    if packed:
        def halves(array):
            return np.concatenate([array[..., 0::2], array[..., 1::2]], -1)
        def turns(array):
            return np.stack(np.split(array, 2, -1), -1).reshape(array.shape)
        yield "gate_up_interleaved", "columns of experts.gate_up_proj are in the other order", changed(packed, turns if config["model_type"] == "gpt_oss" else halves)
        yield "swiglu_swapped", "gate and up of the experts are exchanged", changed(packed, (lambda array: array.reshape(*array.shape[:-1], -1, 2)[..., ::-1].reshape(array.shape)) if config["model_type"] == "gpt_oss" else (
            lambda array: np.concatenate(np.split(array, 2, -1 if config["model_type"] == "llama4_text" else 1)[::-1], -1 if config["model_type"] == "llama4_text" else 1)))
    routers = [name for name in weights if name.endswith(("gate.weight", "router.weight")) and "shared" not in name and weights[name].ndim == 2]
    if routers:
        yield "experts_order", "the rows of the router are in the reverse order", changed(routers, lambda array: array[::-1].copy())
    for end in ("wpe.weight", "position_embeddings.weight"):
        for name in [name for name in weights if name.endswith(end)]:
            yield "positions_from_one", "positions begin at 1", changed([name], lambda array: np.roll(array, -1, 0))
            yield "positions_from_two", "positions begin at 2", changed([name], lambda array: np.roll(array, -2, 0))
            yield "positions_lost", "positions are not added", changed([name], np.zeros_like)
    for name in [name for name in weights if name.endswith("token_type_embeddings.weight")]:
        yield "token_types_lost", "token types are not added", changed([name], np.zeros_like)
        yield "token_types_of_second", "tokens have type 1", changed([name], lambda array: array[::-1].copy())


# -------------------------------------------------------------------------------------------------------------- attn


class Reference:
    """attn, on a folder or a changed copy of it."""

    def __init__(self, program, folder, encoded):
        self.program, self.folder = program, folder
        self.encoded = {name.replace("input_ids", "ids"): value for name, value in encoded.items()}
        from safetensors.torch import load_file

        self.weights = {name: tensor.double().numpy() for name, tensor in load_file(folder / "model.safetensors").items()}
        self.config = json.loads((folder / "config.json").read_text())

    def run(self, folder, ids, trace, *flags):
        with tempfile.TemporaryDirectory() as place:
            np.savez(pathlib.Path(place, "in.npz"), **(dict(self.encoded, decoder_ids=ids) if self.encoded else dict(ids=ids)))
            ran = subprocess.run([self.program, "run", "model", "--weights", folder, "--input", pathlib.Path(place, "in.npz"), "--trace", trace, "--quiet", *flags], capture_output=True, text=True)
            if ran.returncode:
                raise ValueError(ran.stderr.strip())
        with np.load(trace) as file:
            return file["output"]

    def changed(self, edit, ids):
        from safetensors.numpy import save_file

        config, weights = copy.deepcopy(self.config), dict(self.weights)
        edit(config, weights)
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place, "model")
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps(config))
            save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, folder / "model.safetensors")
            return self.run(folder, ids, pathlib.Path(place, "t.npz"))

    def mistakes(self, ids):
        """Of the list: a mistake's name, the first formula that it changes, and the logits of the last token."""
        with tempfile.TemporaryDirectory() as place:
            trace, found = pathlib.Path(place, "t.npz"), pathlib.Path(place, "m.npz")
            self.run(self.folder, ids, trace)
            subprocess.run([self.program, "vectors", "--mistakes-of", trace, "-o", found], check=True, capture_output=True)
            with np.load(found) as file:
                for name, one in json.loads(file["mistakes.json"]).items():
                    step, formula = min(one["formulas"].items())
                    kinds = {".".join(word for word in path.split(".") if not word.isdigit()) for path in one["formulas"]}
                    yield one["mistake"], f"{step} = {formula}" + (f", and so in {len(one['formulas'])} steps" if len(one["formulas"]) > 1 else ""), file[name][-1], len(kinds)


# -------------------------------------------------------------------------------------------------------------- files


def far(found, right):
    """How far logits are: the root of the mean square, or a sixth of the largest difference. As check_logits has it."""
    off = np.abs(np.asarray(found, np.float64) - right)
    return max(float(np.sqrt(np.mean(off**2))), float(off.max()) / 6) if np.isfinite(off).all() else np.inf


class Plain:
    """Transformers as it is, in a process of its own: how far it is from the right logits, by type."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, __file__, "--measure"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measured(self, folder, how):
        print(json.dumps([str(folder), how]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def measure(folder, how):
    cases = json.loads((folder / "cases.json").read_text())["cases"]
    found = {}
    for kind in TYPES:
        for attention in ("eager", "sdpa"):
            try:
                model = loaded(folder, {**how, "attention": attention}, getattr(torch, kind))
                for case in cases:
                    if case["id"] == "once":
                        logits = call(model, torch.tensor(case["ids"])).flatten(0, 1).double().numpy()
                        off = max(far(logits[row], np.array(right)) for row, right in zip(case["rows"], case["logits"]))
                        found[kind] = max(found.get(kind, 0), off)
            except (ValueError, RuntimeError) as error:
                print(f"{folder.name}: {kind}, {attention}: {str(error)[:60]}", file=sys.stderr)
    print(json.dumps(found), flush=True)


def digits(array, count):
    return [[float(f"{value:.{count}g}") for value in row] for row in np.atleast_2d(array)]


def sentences(program):
    """Of the list, and of mistakes with a cache; those that only models have are here."""
    listed = {one["id"]: dict(sentence=one["sentence"], why=one["why"], seen=one["link"]) for one in json.loads(subprocess.run([program, "pitfalls", "--json"], capture_output=True, check=True).stdout)}
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))  # before attn.py of this folder
    from attn.calls_mistakes import MISTAKES

    listed |= {one.id: dict(sentence=one.sentence, why=one.why, seen=one.link) for one in MISTAKES}
    own = json.loads((pathlib.Path(__file__).parent / "model_mistakes.json").read_text())
    return {**own, **listed}


def made(program, out, name, plain):
    noises = []
    while (noise := made_with(program, out, name, plain, len(noises))) is not None:
        noises.append(noise)
        if len(noises) == MOST_SEEDS:
            shutil.rmtree(out / name)
            raise SystemExit(f"model_vectors: {name}: of {MOST_SEEDS} seeds none gives weights with which roundings are at most {MOST_NOISE:g} of the spread of logits; the least is {min(noises):.2g}. "
                             "Give its row of FAMILIES fewer experts, or larger differences between their scores")


def made_with(program, out, name, plain, seed):
    """@return None; or how large roundings are beside the spread of logits, where that is too much for vectors"""
    config, fields, *how = FAMILIES[name]
    how = how[0] if how else {}
    folder = out / name
    shutil.rmtree(folder, ignore_errors=True)
    random = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(f"{name} {seed}".encode()).digest()[:4], "little"))
    model = make.build(config, fields, how)
    make.fill(model, random)
    with torch.no_grad():  # small, so that epsilon shows
        embedding = model.get_input_embeddings().weight
        embedding.mul_(0.125 if name.startswith("gemma") else 0.5)
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    weights = folder / "model.safetensors"
    weights.chmod(0o644)
    if name == "gpt2":  # the published checkpoint has the names of the model without its head
        from safetensors.torch import load_file, save_file

        save_file({name.removeprefix("transformer."): value for name, value in load_file(weights).items()}, weights, metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(as_published(json.loads((folder / "config.json").read_text())), indent=2) + "\n")

    if name.removesuffix("_as_published") in WITH_TOKENIZER:
        (folder / "tokenizer.model").write_bytes(tokenizer(model.config.vocab_size))

    model = loaded(folder, how)
    cases, reference = Cases(model, random), Reference(program, folder, encoded(model.config) if model.config.is_encoder_decoder else {})
    all_cases, kept = [], []
    right_once = None
    for case, logits in cases.all():
        logits = logits.numpy()
        if right_once is None:
            right_once = logits
            alone = make.apart(torch.tensor(reference.run(folder, cases.ids.numpy(), pathlib.Path(tempfile.mkdtemp(), "t.npz"))), torch.tensor(logits))
            if alone > 1e-10:
                raise SystemExit(f"model_vectors: {name}: attn is {alone:.1e} off")
            case["hidden"] = digits(hidden_states(model, cases.ids).numpy(), 7)
        elif case["id"] in ("steps", "chunks") and np.abs(logits - right_once).max() > 1e-10:
            raise SystemExit(f"model_vectors: {name}: transformers' {case['id']} are {np.abs(logits - right_once).max():.1e} off")
        if model.config.is_encoder_decoder:
            case.update({name.replace("input_ids", "encoder_ids"): [value] for name, value in encoded(model.config).items()})
        case["logits"] = [[float(value) for value in logits[row]] for row in case["rows"]]
        all_cases.append(case)
        kept.append(logits)
    vocabulary = model.config.vocab_size
    file = dict(schema="model_vectors_schema_1", version=version(), family=name, about=f"A tiny random {config.removesuffix('Config')}, computed by transformers in float64.",
                vocabulary=vocabulary, tolerance={}, columns=list(range(0, vocabulary, vocabulary // COMPARED)), mistakes={}, cases=all_cases)
    write(folder, file)
    noise = plain.measured(folder, how)
    if max(noise.values()) > MOST_NOISE * right_once.std():
        print(f"   {name}: other weights than those of seed {seed}, with which roundings are {max(noise.values()):.2g} off", flush=True)
        return max(noise.values()) / right_once.std()
    file["tolerance"] = {kind: float(f"{3 * noise[kind]:.3g}") for kind in TYPES}

    known = sentences(program)
    refused = []
    for case, logits in zip(all_cases, kept):
        found = []
        last = case["rows"][-1]
        if case["id"] == "once":
            for id, how_made, edit in [*config_mistakes(reference.config), *weight_mistakes(reference.config, reference.weights)]:
                try:
                    found.append((id, how_made, reference.changed(edit, cases.ids.numpy())[-1]))
                except ValueError as error:
                    refused.append(f"{id} ({how_made}): {str(error)[:150]}")
            for token in (1, 2, 0):
                found.append(("token_added", f"token {token} is put before the others", reference.run(folder, np.r_[token, cases.ids.numpy()], pathlib.Path(tempfile.mkdtemp(), "t.npz"))[-1]))
            if cases.is_causal:
                found.append(("logits_of_token_before", "the logits are those of the last token but one", logits[last - 1]))
            listed = list(reference.mistakes(cases.ids.numpy()))
            found += [(id, how_made, value) for id, how_made, value, kinds in sorted(listed, key=lambda one: -one[3])]
        else:
            try:
                cases.check()
                for id, how_made, compute in cases.mistakes(case["id"]):
                    value = compute().numpy()
                    found.append((id, how_made, value[last]))
            except NotImplementedError:
                refused.append(f"{case['id']}: masks of such layers can't be given")
        case["wrong"] = chosen(found, logits[last], file)
        for one in case["wrong"]:
            for id in one["names"]:
                file["mistakes"][id] = known[id]
    write(folder, file)
    seen = {kind: sum(number <= TYPES.index(one["seen_in"]) for case in all_cases for one in case["wrong"]) for number, kind in enumerate(TYPES)}
    ids = {kind: len({one["names"][0] for case in all_cases for one in case["wrong"] if number <= TYPES.index(one["seen_in"])}) for number, kind in enumerate(TYPES)}
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    print(f"{name:14} {sizes} tolerance {file['tolerance']} wrong {seen} ids {ids} spread {right_once.std():.2f}", flush=True)
    for line in refused:
        print("   refused", line)


def chosen(found, right, file):
    """Results that differ from the right one in some type, and from each other; others look the same as one of these."""
    right, columns, tolerance = right[file["columns"]], file["columns"], file["tolerance"]
    wrong = []
    for id, how, value in found:
        value = np.asarray(value, np.float64)[columns]
        if not np.isfinite(value).all():
            continue
        seen = [kind for kind in TYPES if far(value, right) > 2 * tolerance[kind]]  # in shorter types roundings hide it
        if not seen:
            continue
        same = next((one for one in wrong if far(value, one["exact"]) < tolerance["float32"]), None)
        if same is not None:
            if id not in same["names"]:
                same["names"].append(id)
            continue
        wrong.append(dict(names=[id], how=how if len(how) < 120 else how[:117] + "...", seen_in=seen[-1], exact=value))
    for one in wrong:
        one["logits"] = digits(one.pop("exact"), 7)[0]
    return wrong


def version():
    text = (pathlib.Path(__file__).resolve().parents[2] / "CMakeLists.txt").read_text()
    return text.split("project(attn VERSION ")[1].split()[0].strip(")")


def write(folder, file):
    """A line for each list of numbers, and for each mistake."""
    lines = []

    def plain(value):
        if isinstance(value, dict) and "seen_in" not in value:
            return {name: plain(one) for name, one in value.items()}
        if isinstance(value, dict) or (isinstance(value, list) and value and not isinstance(value[0], (dict, list))):
            lines.append(json.dumps(value, separators=(",", ":")))
            return f"@{len(lines) - 1}@"
        return [plain(one) for one in value] if isinstance(value, list) else value

    text = json.dumps(plain(file), indent=1)
    (folder / "cases.json").write_text(re.sub(r'"@(\d+)@"', lambda found: lines[int(found[1])], text) + "\n")


def tokenizer(vocabulary):
    """A model of sentencepiece with as many pieces, for converters that refuse a folder without one: what protobuf makes of it."""
    def number(value):
        return bytes([value & 127 | 128]) + number(value >> 7) if value > 127 else bytes([value])

    def message(field, data):
        return number(field << 3 | 2) + number(len(data)) + data

    pieces = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("\u2581", 1), *((chr(33 + i), 1) for i in range(vocabulary - 4))]
    found = [message(1, message(1, text.encode()) + b"\x15" + struct.pack("<f", -place) + b"\x18" + number(kind)) for place, (text, kind) in enumerate(pieces)]
    return b"".join(found) + message(2, b"\x18" + number(2))  # of byte pairs


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("families", nargs="*")
    options = options.parse_args()
    torch.set_num_threads(1)
    double.everywhere()
    import transformers

    transformers.utils.logging.disable_progress_bar()
    options.out.mkdir(parents=True, exist_ok=True)
    plain = Plain()
    for name in options.families or FAMILIES:
        made(options.program, options.out, name, plain)
    plain.process.stdin.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        torch.set_num_threads(1)
        for line in sys.stdin:
            folder, how = json.loads(line)
            measure(pathlib.Path(folder), how)
    else:
        main()
