"""What one rank does and sees; with the stand-ins, the only modules that import the training libraries."""
