"""transformers_check.py LOCKSTEP MODELS - greedy answers of transformers (float64) on random small
models, which `lockstep verify` must give too: in every chunking and on groups that divide.

Shapes are drawn from a seed: layer kinds, windows, streams, heads, groups, experts, ranks. Answers
whose best two logits are closer than MARGIN_MIN are cut there: rounding may decide them.
"""
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

MARGIN_MIN = 0.01
PROMPTS, ANSWER = 6, 8
KINDS = ["sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"]


def draw_config(rng):
    heads = rng.choice([2, 4, 6])
    layers = rng.randint(2, 4)
    hashed = rng.randint(0, layers - 1)
    rope = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}
    yarn = {"rope_theta": 160000.0, "rope_type": "yarn", "factor": 16.0, "beta_fast": 32.0,
            "beta_slow": 1.0, "original_max_position_embeddings": 65536, "attention_factor": 1.0,
            "partial_rotary_factor": 0.5}
    return DeepseekV4Config(
        vocab_size=rng.choice([60, 128]), hidden_size=rng.choice([48, 64, 96]),
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=1, head_dim=128,
        partial_rotary_factor=0.5, qk_rope_head_dim=64, q_lora_rank=rng.choice([24, 48]),
        o_groups=rng.choice([1, 2]), o_lora_rank=rng.choice([16, 24]),
        n_routed_experts=rng.choice([4, 6]), num_experts_per_tok=rng.randint(1, 3),
        moe_intermediate_size=rng.choice([32, 48]), n_shared_experts=1, routed_scaling_factor=1.5,
        swiglu_limit=rng.choice([3.0, 10.0]), sliding_window=rng.choice([8, 64, 128]),
        layer_types=[rng.choice(KINDS) for _ in range(layers)],
        mlp_layer_types=["hash_moe"] * hashed + ["moe"] * (layers - hashed),
        compress_rates={KINDS[1]: 4, KINDS[2]: 128}, index_n_heads=8, index_head_dim=64,
        index_topk=rng.choice([24, 512]), hc_mult=rng.choice([2, 4]), hc_sinkhorn_iters=3,
        rope_parameters={"main": rope, "compress": yarn}, num_nextn_predict_layers=0,
        max_position_embeddings=1 << 20, bos_token_id=0, eos_token_id=1, pad_token_id=None)


def draw_model(config, seed):
    torch.manual_seed(seed)
    model = DeepseekV4ForCausalLM(config).eval()
    model.set_experts_implementation("eager")  # the grouped form does not know float64
    with torch.no_grad():
        for name, value in model.named_parameters():
            if "norm" in name:
                value.copy_(1 + 0.1 * torch.randn_like(value))
            elif value.ndim >= 2 and "hc" not in name:
                scale = 1.0 if "embed" in name else value.shape[-1] ** -0.5
                value.copy_(scale * torch.randn_like(value))
            else:
                value.copy_(0.3 * torch.randn_like(value))
        for name, value in model.named_buffers():
            if "tid2eid" in name:
                value.copy_(torch.randint(0, config.n_routed_experts, value.shape))
            elif "correction_bias" in name:
                value.copy_(0.3 * torch.randn_like(value))
    return model.float()


def answer(model, prompt):
    """Greedy tokens, up to the first that rounding may decide."""
    ids, tokens = list(prompt), []
    for _ in range(ANSWER):
        with torch.no_grad():
            logits = model(torch.tensor([ids]), use_cache=False).logits[0, -1]
        best = torch.topk(logits, 2)
        if best.values[0] - best.values[1] < MARGIN_MIN:
            break
        tokens.append(int(best.indices[0]))
        ids.append(tokens[-1])
    return tokens


def check_model(lockstep, seed, folder):
    rng = random.Random(seed)
    config = draw_config(rng)
    model = draw_model(config, seed)
    config.save_pretrained(folder)  # names and weights as transformers holds them
    save_file({name: value.contiguous() for name, value in model.state_dict().items()},
              os.path.join(folder, "model.safetensors"))
    model.double()
    lines = os.path.join(folder, "answers.jsonl")
    with open(lines, "w", encoding="utf-8") as file:
        for _ in range(PROMPTS):
            prompt = [rng.randrange(config.vocab_size) for _ in range(rng.choice([5, 131, 262, 300]))]
            tokens = answer(model, prompt)
            if tokens:
                file.write(json.dumps({"prompt_ids": prompt, "output_ids": tokens}) + "\n")
    failed = 0
    for form in (["--chunk", "512"], ["--chunk", "7"], ["--tp", "2", "--chunk", "64"]):
        run = subprocess.run([lockstep, "verify", folder, lines, "--cache", "float32", *form],
                             capture_output=True, text=True, check=False)
        if "do not divide" not in run.stderr and run.returncode != 0:
            print(f"seed {seed} {' '.join(form)}:\n{run.stdout}{run.stderr}")
            failed += 1
    return failed


def main():
    lockstep, models = sys.argv[1], int(sys.argv[2])
    failed = 0
    for seed in range(models):
        with tempfile.TemporaryDirectory() as folder:
            failed += check_model(lockstep, seed, folder)
    print(f"{models} random models, {failed} runs differ")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
