#!/usr/bin/env python3
"""Decodes over a long context with Hugging Face's Llama and its key-value caches: an ordinary script.

`offloaded_cache` is transformers' own: each layer's keys and values are sent to the host after use and fetched while the layer before
computes. The context is random and put into the cache at once, so that it costs no prefill.
"""
import inspect
import sys

import common
import torch
import torch_common
import transformers


def make_cache(config, offload):
    """Its name and arguments have changed over the versions."""
    takes = inspect.signature(transformers.DynamicCache.__init__).parameters
    if offload == "none":
        return transformers.DynamicCache(config=config) if "config" in takes else transformers.DynamicCache()
    if "offloading" in takes:
        return transformers.DynamicCache(config=config, offloading=True)
    from transformers.cache_utils import OffloadedCache
    return OffloadedCache()


@torch.no_grad()
def run(arguments):
    device = torch_common.start(arguments)
    torch_common.steady_decoding()
    meter = torch_common.meter_for(arguments)
    heads = arguments.width // 64
    config = transformers.LlamaConfig(
        vocab_size=arguments.vocabulary, hidden_size=arguments.width, intermediate_size=arguments.inner, num_hidden_layers=arguments.layers,
        num_attention_heads=heads, num_key_value_heads=arguments.kv_heads, max_position_embeddings=1 << 18, tie_word_embeddings=False)
    torch.set_default_dtype(torch.bfloat16)
    with device:
        model = transformers.LlamaForCausalLM(config).eval()
    for number, parameter in enumerate(model.parameters()):
        torch_common.fill(parameter, torch_common.seed_of(arguments, number), device)
    weight_bytes = 2 * sum(parameter.numel() for parameter in model.parameters())
    cache = make_cache(config, arguments.offload)
    shape = (arguments.batch, arguments.kv_heads, arguments.context, 64)
    for layer in range(arguments.layers):
        generator = torch.Generator(device=device).manual_seed(torch_common.seed_of(arguments, 100_000 + layer))
        keys, values = (torch.empty(shape, dtype=torch.bfloat16, device=device).normal_(generator=generator) for _ in range(2))
        cache.update(keys, values, layer)
        del keys, values
    cache_bytes = 4 * arguments.layers * shape[0] * shape[1] * shape[2] * shape[3]
    meter.describe("transformers_cache", None, False, weight_bytes=weight_bytes, cache_bytes=cache_bytes,
                   transformers=transformers.__version__, cache=type(cache).__name__)
    given = torch_common.given_tokens(arguments, device)

    def step(index):
        places = torch.arange(arguments.context + index, arguments.context + index + 1, device=device)
        output = model(input_ids=given[index][:, None], position_ids=places.expand(arguments.batch, 1), past_key_values=cache, use_cache=True)
        return torch_common.mean_sizes(output.logits[:, -1])

    meter.run(step)
    torch_common.finish(meter, rows=arguments.batch)


def main():
    parser = common.make_parser(__doc__, ("offloaded_cache",))
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--context", type=int, default=16400)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--width", type=int, default=2048, help="a multiple of 64: heads have 64 elements")
    parser.add_argument("--kv-heads", type=int, default=32)
    parser.add_argument("--inner", type=int, default=5632)
    parser.add_argument("--vocabulary", type=int, default=32000)
    return common.main(run, parser)


if __name__ == "__main__":
    sys.exit(main())
