"""What the log of a run says: exceptions, ranks, phases, exits, the course of the loss."""
