"""What a run with FSDP takes: units and shares of parameters, states, and the peaks of each phase."""
