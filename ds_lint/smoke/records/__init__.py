"""What processes of a run exchange: plain records, and why a run failed."""
