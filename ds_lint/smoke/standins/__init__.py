"""DeepSpeed's compiled ops in torch operations, where no compiler is."""
