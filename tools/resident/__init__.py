"""What training runs on CPU ranks take of the memory of their host, as the kernel counts it."""
