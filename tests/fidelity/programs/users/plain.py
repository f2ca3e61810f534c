"""Plain DeepSpeed, as written for GPUs."""

import argparse
import os
import time

import deepspeed
import torch
import torch.distributed as dist
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(128, 64)
        self.layers = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))
        self.head = nn.Linear(64, 128)

    def forward(self, x):
        mask = torch.ones(x.shape, dtype=torch.bool, device="cuda")
        return self.head(self.layers(self.embed(x))) * mask.unsqueeze(-1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=int(os.environ.get("LOCAL_RANK", "-1")))
    parser = deepspeed.add_config_arguments(parser)
    args = parser.parse_args()

    assert torch.cuda.is_available(), "this script trains on GPUs"
    torch.cuda.set_device(args.local_rank)
    deepspeed.init_distributed("nccl")
    device = torch.device("cuda", args.local_rank)
    torch.manual_seed(1)
    torch.cuda.manual_seed_all(1)
    if dist.get_rank() == 0:
        props = torch.cuda.get_device_properties(0)
        print(torch.cuda.device_count(), "GPUs", props.name, props.total_memory, torch.cuda.get_device_capability())

    model = Net().cuda()
    for name, buffer in model.named_parameters():
        assert buffer.device != torch.device("meta"), name
    engine, _, _, _ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
    loss_fn = nn.CrossEntropyLoss().to(device)
    generator = torch.Generator(device="cuda").manual_seed(dist.get_rank())
    stream = torch.cuda.Stream()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for step in range(20):
        start.record()
        with torch.cuda.stream(stream):
            x = torch.randint(0, 128, (4, 16), generator=generator, device=device).to(f"cuda:{args.local_rank}")
        torch.cuda.current_stream().wait_stream(stream)
        logits = engine(x)
        loss = loss_fn(logits.view(-1, 128).float(), x.cuda(non_blocking=True).view(-1))
        engine.backward(loss)
        engine.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        dist.barrier(device_ids=[args.local_rank])
        end.record()
        torch.cuda.synchronize()
        if dist.get_rank() == 0:
            peak = torch.cuda.max_memory_allocated() / 2**30
            print(f"step {step} loss {mean.item():.4f} {start.elapsed_time(end):.1f} ms {peak:.2f} GiB", flush=True)
        torch.cuda.empty_cache()
        time.sleep(0)


if __name__ == "__main__":
    main()
