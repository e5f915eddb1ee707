topology topology/examples/8-devices.yaml
story seed=215643 tp=1 tick_us=50000 chunk_tokens=512 drain_ms=76 credit=1
request 1 prompt_tokens=1025 output_tokens_max=1 own=8522611401478336351 sampling_seed=2530540678192074850
fault kind=kill actor=prefill/0 when=phase phase=handing request=1
