"""What the PyTorch workloads share: seeds, weights that do not depend on where a module is built, limits, peaks."""
import common
import torch
import torch.nn as nn


def start(arguments):
    """A device to work on, with the memory limit in force. Exits with a line if there is none."""
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device: this workload needs one that PyTorch can use")
    torch.manual_seed(arguments.seed)
    torch.utils.deterministic.fill_uninitialized_memory = False  # a debugging aid that would add a kernel to every tensor
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    if arguments.memory_limit:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, arguments.memory_limit / total), device)
    return device


def steady_decoding():
    """For decoding: the same kernels in every run. cuDNN's attention chooses by what it finds, and its sums come in any order."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cuda.enable_cudnn_sdp(False)


def given_tokens(arguments, device):
    """[4096][batch] tokens to decode, seeded. Not what the model says: one rounding that went another way would make all tokens after it
    others. So many in every run, as the generator's values depend on how many are asked for at once."""
    generator = torch.Generator(device=device).manual_seed(arguments.seed + 1)
    return torch.randint(arguments.vocabulary, (4096, arguments.batch), device=device, generator=generator)


def mean_sizes(logits):
    """What is compared of logits [batch][vocabulary]: a number for each row that follows any of them."""
    return logits.float().abs().mean(-1)


def deterministic():
    """For training: results that can be compared bit by bit."""
    torch.use_deterministic_algorithms(True)  # with warn_only, flash attention's backward stays non-deterministic
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)  # its backward pass adds up in any order


def fill(parameter, seed, device, std=0.02):
    """Weights that depend on the seed alone: made on the device, wherever they are kept."""
    generator = torch.Generator(device=device).manual_seed(seed)
    with torch.no_grad():
        if parameter.dim() < 2:
            parameter.fill_(1.0)
        else:
            made = torch.empty(parameter.shape, dtype=parameter.dtype, device=device).normal_(std=std, generator=generator)
            parameter.copy_(made)


def seed_of(arguments, number):
    return arguments.seed * 1_000_003 + number


def finish(meter, **more):
    meter.finish(torch.cuda.max_memory_reserved(), torch.cuda.max_memory_allocated(), torch=torch.__version__,
                 device=torch.cuda.get_device_name(), **more)


def meter_for(arguments):
    return common.Meter(arguments, torch.cuda.synchronize)


def flat_pinned(tensors):
    """All of these, one after the other, in one pinned tensor."""
    flat = torch.empty(sum(tensor.numel() for tensor in tensors), dtype=tensors[0].dtype, pin_memory=True)
    at = 0
    for tensor in tensors:
        flat[at:at + tensor.numel()].copy_(tensor.detach().reshape(-1))
        at += tensor.numel()
    return flat


def point_into(module, flat):
    """Makes the module's parameters views into `flat`, in order."""
    at = 0
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            view = flat[at:at + parameter.numel()].view(parameter.shape)
            setattr(owner, name, nn.Parameter(view, requires_grad=False))
            at += parameter.numel()


def parameters_in_order(module):
    """In the order that `point_into` uses."""
    return [parameter for owner in module.modules() for parameter in owner.parameters(recurse=False)]
