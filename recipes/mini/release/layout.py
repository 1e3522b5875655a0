"""`config.json` and the small files beside it, with the release's names."""

import json
from pathlib import Path

from model.config import BEGIN_ID, END_ID, PAD_ID, Config
from model.engram import table_rows


def config_json(config: Config, compressed_vocab: int) -> dict:
    """Return the content of config.json."""
    text = {
        "model_type": "deepseek_v41_text",
        "vocab_size": config.vocab,
        "hidden_size": config.hidden,
        "moe_intermediate_size": config.inner,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": 1,
        "head_dim": config.head_dim,
        "qk_rope_head_dim": config.rope_dims,
        "q_lora_rank": config.q_rank,
        "o_lora_rank": config.o_rank,
        "o_groups": config.o_groups,
        "hidden_act": "silu",
        "swiglu_limit": config.swiglu_limit,
        "rms_norm_eps": config.norm_eps,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "tie_word_embeddings": False,
        "max_position_embeddings": config.max_context,
        "rope_theta": int(config.rope_theta),
        "rope_scaling": {
            "rope_type": "yarn",
            "factor": int(config.yarn_factor),
            "beta_fast": config.yarn_beta_fast,
            "beta_slow": config.yarn_beta_slow,
            "original_max_position_embeddings": config.yarn_original,
        },
        "n_routed_experts": config.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": config.top_k,
        "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": config.route_scale,
        "sliding_window": config.window,
        "compress_ratios": [*config.ratios, *[0] * config.draft_blocks],
        "compress_rope_theta": int(config.compress_rope_theta),
        "kv_source_layer_ids": list(config.kv_sources),
        "index_source_layer_ids": list(config.index_sources),
        "index_n_heads": config.index_heads,
        "index_head_dim": config.index_dim,
        "index_topk": config.index_top_k,
        "candidate_source_layer_id": config.candidate_source,
        "candidate_topk_blocks": config.candidate_blocks,
        "candidate_block_size": config.candidate_block,
        "hc_mult": config.streams,
        "hc_sinkhorn_iters": config.sinkhorn_iters,
        "hc_eps": config.hc_eps,
        "engram_layer_ids": list(config.engram_layers),
        "engram_num_embeddings": table_rows(config),
        "engram_max_ngram_size": config.engram_ngram,
        "engram_vocab_size": config.engram_buckets,
        "engram_n_heads": config.engram_heads,
        "engram_head_dim": config.engram_width,
        "engram_pad_token_id": PAD_ID,
        "engram_compressed_vocab_size": compressed_vocab,
        "num_nextn_predict_layers": config.draft_blocks,
        "dspark_block_size": config.draft_block,
        "dspark_noise_token_id": config.noise_id,
        "dspark_target_layer_ids": list(config.draft_taps),
        "dspark_markov_rank": config.draft_rank,
        "dspark_n_routed_experts": config.draft_experts,
        "dspark_num_experts_per_tok": config.draft_top_k,
    }
    return {
        "architectures": ["DeepseekV41ForCausalLM"],
        "model_type": "deepseek_v41",
        "dtype": "bfloat16",
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "pad_token_id": PAD_ID,
        "image_token_id": config.control_id("<｜deepseek_image｜>"),
        "quantization_config": {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": [32, 32],
            "scale_fmt": "ue8m0",
            "expert_dtype": "fp4",
        },
        "text_config": text,
    }


def write_config(folder: Path, config: Config, compressed_vocab: int) -> None:
    """Write config.json."""
    content = json.dumps(config_json(config, compressed_vocab), indent=1)
    (folder / "config.json").write_text(content, encoding="utf-8")


def write_generation_config(folder: Path) -> None:
    """Write generation_config.json."""
    content = {
        "_from_model_config": True,
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "do_sample": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "transformers_version": "5.17.0",
    }
    text = json.dumps(content, indent=1)
    (folder / "generation_config.json").write_text(text, encoding="utf-8")
