"""What a training run holds on each GPU, on each host and on NVMe, by the config, the model and the ranks alone."""
