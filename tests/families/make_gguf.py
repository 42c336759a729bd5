#!/usr/bin/env python3
"""Tiny .gguf files of the architectures that python/attn/gguf_models.py knows, and what transformers says they compute, in float64.

    make_gguf.py LLAMA_CPP OUT [NAME ...]   OUT/NAME.gguf, and OUT/expected.npz with the ids and the results

llama.cpp's own converter writes the files: LLAMA_CPP is a checkout of it, whose folder conversion has convert_hf_to_gguf.py's classes.
The weights are bfloat16 numbers. Needs transformers.
"""

import argparse
import json
import logging
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import double

double.everywhere()
import make
import numpy as np
import torch
from configs import NONE, rope

ALL = dict(vocab_size=24, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=32, **NONE)
COMMON = dict(ALL, num_key_value_heads=2)
GPT = dict(vocab_size=24, n_embd=16, n_layer=2, n_head=4, n_positions=32, **NONE)
EXPERTS = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=8)
HEADED = dict(COMMON, head_dim=6)
PART = rope(theta=50.0, partial_rotary_factor=0.5)
WINDOWS = dict(num_hidden_layers=4, sliding_window=4)
LINEAR_IN_FULL = dict(rope_parameters=dict(full_attention=dict(rope_type="linear", factor=4.0, rope_theta=1000.0), sliding_attention=dict(rope_type="default", rope_theta=50.0)))
FALCON = dict(vocab_size=24, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, bias=False, alibi=False, **NONE)
ENCODER = dict(ALL, pad_token_id=0, type_vocab_size=2)

# Name, config's class, its fields, and how it is built; "converter" has fields that published configs have and today's class does not.
ROWS = [
    ("llama", "LlamaConfig", dict(COMMON, attention_bias=True, tie_word_embeddings=True, **rope(theta=500.0))),
    ("llama-3.1", "LlamaConfig", dict(COMMON, head_dim=16, **rope("llama3", theta=5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192))),
    ("mixtral", "MixtralConfig", dict(COMMON, num_local_experts=4, num_experts_per_tok=2, sliding_window=None, **rope())),
    ("qwen2", "Qwen2Config", dict(COMMON, **rope("linear", factor=4.0))),
    ("qwen3", "Qwen3Config", dict(HEADED, **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16))),
    ("qwen2moe", "Qwen2MoeConfig", dict(COMMON, **EXPERTS, shared_expert_intermediate_size=10, norm_topk_prob=False, **rope())),
    ("qwen3moe", "Qwen3MoeConfig", dict(HEADED, **EXPERTS, norm_topk_prob=True, **rope())),
    ("olmo", "OlmoConfig", dict(COMMON, **rope())),
    ("olmo2", "Olmo2Config", dict(COMMON, **rope())),
    ("olmo3", "Olmo3Config", dict(COMMON, **WINDOWS, **rope())),
    ("olmoe", "OlmoeConfig", dict(COMMON, num_experts=5, num_experts_per_tok=2, **rope())),
    ("gpt-oss", "GptOssConfig", dict(COMMON, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=4, **rope("yarn", theta=50.0, factor=4.0, original_max_position_embeddings=16, beta_fast=4.0, beta_slow=0.5, truncate=False))),
    ("gemma", "GemmaConfig", dict(HEADED, **rope(theta=10000.0))),
    ("gemma2", "Gemma2Config", dict(HEADED, sliding_window=4, query_pre_attn_scalar=6, **rope(theta=10000.0))),
    ("gemma3", "Gemma3TextConfig", dict(HEADED, num_hidden_layers=7, sliding_window=4, query_pre_attn_scalar=6, **LINEAR_IN_FULL)),
    ("chatglm", "GlmConfig", dict(COMMON, head_dim=4, rms_norm_eps=1e-5, **PART)),
    ("glm4", "Glm4Config", dict(COMMON, head_dim=4, **PART)),
    ("granite", "GraniteConfig", dict(COMMON, attention_multiplier=0.3, embedding_multiplier=5.0, residual_multiplier=0.4, logits_scaling=3.0, **rope())),
    ("seed_oss", "SeedOssConfig", dict(HEADED, **rope())),
    ("smollm3", "SmolLM3Config", dict(COMMON, num_hidden_layers=4, **rope())),
    ("exaone4", "Exaone4Config", dict(COMMON, **WINDOWS, sliding_window_pattern=4, **rope())),
    ("exaone4-full", "Exaone4Config", dict(COMMON, sliding_window=None, sliding_window_pattern=4, layer_types=["full_attention"] * 2, **rope())),
    ("command-r", "CohereConfig", dict(COMMON, logit_scale=0.25, use_qk_norm=True, **rope())),
    ("cohere2", "Cohere2Config", dict(COMMON, **WINDOWS, logit_scale=0.25, sliding_window_pattern=4, **rope()), dict(converter=dict(rotary_pct=1.0))),
    ("stablelm", "StableLmConfig", dict(COMMON, use_qkv_bias=True, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    ("starcoder2", "Starcoder2Config", dict(COMMON, sliding_window=None, **rope())),
    ("phi2", "PhiConfig", dict(ALL, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))),
    ("phi3", "Phi3Config", dict(COMMON, **PART)),
    ("falcon", "FalconConfig", dict(FALCON, num_kv_heads=2, new_decoder_architecture=True)),
    ("falcon-7b", "FalconConfig", dict(FALCON, multi_query=True, new_decoder_architecture=False), dict(converter=dict(num_kv_heads=1))),
    ("gptneox", "GPTNeoXConfig", dict(ALL, rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5)), dict(converter=dict(rotary_pct=0.5))),
    ("bloom", "BloomConfig", dict(vocab_size=24, hidden_size=16, n_layer=2, n_head=4, **NONE)),
    ("gpt2", "GPT2Config", GPT, dict(converter=dict(n_ctx=32))),
    ("starcoder", "GPTBigCodeConfig", dict(GPT, multi_query=True)),
    ("bert", "BertConfig", ENCODER, dict(heads="BertModel")),
    ("roberta", "RobertaConfig", dict(ENCODER, pad_token_id=1, type_vocab_size=1), dict(heads="RobertaModel")),
    ("distilbert", "DistilBertConfig", dict(vocab_size=24, dim=16, hidden_dim=24, n_layers=2, n_heads=4, max_position_embeddings=32, pad_token_id=0), dict(heads="DistilBertModel")),
    ("modern-bert", "ModernBertConfig", dict(ENCODER, num_hidden_layers=3, local_attention=4, global_attn_every_n_layers=2, cls_token_id=1, sep_token_id=2), dict(heads="ModernBertModel")),
    ("eurobert", "EuroBertConfig", dict(COMMON, pad_token_id=0, classifier_pooling="mean", **rope()), dict(heads="EuroBertModel")),
]  # fmt: skip
IDS = torch.tensor([[7, 3, 11, 12, 3, 15, 9, 20, 14, 3]])


def convert(llama_cpp, folder, file, changed):
    """As convert_hf_to_gguf.py does, without a tokenizer."""
    sys.path[:0] = [str(llama_cpp), str(llama_cpp / "gguf-py")]
    os.environ["NO_LOCAL_GGUF"] = "1"
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    from gguf import LlamaFileType

    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {str(i): i for i in range(24)}}, "added_tokens": []}))
    fields = {**ModelBase.load_hparams(folder, False), **changed}
    kind = get_model_class(get_model_architecture(fields, ModelType.TEXT))
    of_weights = type(kind.__name__, (kind,), {"set_vocab": lambda self: None, "model_arch": kind.model_arch})
    of_weights(folder, LlamaFileType.MOSTLY_BF16, file, hparams=fields, model_name="tiny").write()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("llama_cpp", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "expected.npz"
    expected = dict(np.load(kept)) if kept.exists() else {}
    for name, config, fields, *how in ROWS:
        if given.names and name not in given.names:
            continue
        how = how[0] if how else {}
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place, name)
            model = make.build(config, fields, how)
            make.fill(model, make.seeded("gguf " + name))
            model.to(torch.bfloat16).save_pretrained(folder)
            convert(given.llama_cpp, folder, given.out / f"{name}.gguf", how.get("converter", {}))
            expected[name] = make.forward(make.load(folder, how), {"input_ids": IDS})[0].numpy()
        print(name, (given.out / f"{name}.gguf").stat().st_size, "bytes")
    np.savez_compressed(kept, **{**expected, "ids": IDS[0].numpy()})


if __name__ == "__main__":
    main()
